//! Queries that are sent again, as stub resolvers do.
//!
//! ```text
//! turned away by the server                 on the client's next connection
//! its connection failed before the reply    on the next one, `Population::resends` times at most
//! no reply over UDP for some time           on the same port, until its timeout
//! reply cut short over UDP                  over TCP, on the connection of the client's companion
//! ```
//!
//! Each stays one query: it was due and sent once, and has one outcome. Its latencies and its timeout count from its first sending. The
//! companion of client `k` of `n` is connection `n + k`. It sends nothing else.

use engine::stream::{ConnId, Orders};
use measure::Nanos;
use wire::Invalid;
use wire::edns::push_option;
use wire::extend::COOKIE;

use super::{Client, Clients, ConnectionState};
use crate::flight::{OutstandingTable, State};

/// Lengths of a cookie with the server's part, in octets (RFC 7873).
const COOKIE_LENGTHS: std::ops::RangeInclusive<usize> = 16..=40;
/// Octets of an option in front of its data.
const OPTION_HEAD: usize = 4;

impl Client {
    /// Stores the server's part of the client's cookie from a reply; returns false for one with
    /// another client's cookie, which is no reply (RFC 7873 section 5.3). The cookie is the first
    /// option.
    pub(super) fn learn_cookie(&mut self, reply: &[u8]) -> bool {
        let Some(cookie) = wire::extend::cookie(reply) else { return true };
        let end = OPTION_HEAD + usize::from(self.options[3]);
        let own = &self.options[OPTION_HEAD..end];
        let is_own = cookie.starts_with(&own[..8]);
        if is_own && COOKIE_LENGTHS.contains(&cookie.len()) && cookie != own {
            let mut options = Vec::new();
            push_option(&mut options, COOKIE, cookie);
            options.extend_from_slice(&self.options[end..]);
            self.options = options.into();
        }
        is_own
    }
}

impl Clients {
    /// Returns whether a connection belongs to a client's companion.
    pub(super) fn is_companion(&self, conn: ConnId) -> bool {
        conn >= self.plan.clients
    }

    /// Lets a query wait for the next connection of `conn`.
    pub(super) fn await_connection(&mut self, conn: ConnId, message: Box<[u8]>) {
        let client = &mut self.clients[conn as usize];
        if client.turned_away.is_empty() {
            self.turned_away.push_back(conn);
        }
        client.turned_away.push(message);
    }

    /// Takes the outstanding queries off a connection that has failed, or only the one with `id`, to send them on the next; returns
    /// their number. Those whose timeout is over stay.
    pub(super) fn resend(&mut self, now: Nanos, conn: ConnId, id: Option<u16>) -> usize {
        let overdue = self.overdue(now);
        let Client { kept, pipeline, .. } = &mut self.clients[conn as usize];
        let again = kept.take_for_resend(pipeline, id, self.plan.population.resends, overdue);
        let taken = again.len();
        again.into_iter().for_each(|message| self.await_connection(conn, message));
        taken
    }

    /// Notes that a connection returned a query: the server has not received or not processed it.
    pub(super) fn come_back(&mut self, conn: ConnId, id: u16) {
        let counted = self.clients[conn as usize].kept.come_back(id);
        self.connections[self.plan.mix.kind(conn)].resent -= u64::from(counted);
    }

    /// Returns the last time at which a query was due whose timeout is over; `None` before that.
    fn overdue(&self, now: Nanos) -> Option<Nanos> {
        now.0.checked_sub(self.plan.plan.timeout.0).map(Nanos)
    }

    /// Gives up the queries of a client that were returned before they left and whose timeout is
    /// over.
    pub(super) fn give_up_unsent(&mut self, conn: ConnId, now: Nanos) {
        let Some(overdue) = self.overdue(now) else { return };
        let Client { turned_away, pipeline, kept, .. } = &mut self.clients[conn as usize];
        let waiting = turned_away.len();
        turned_away.retain(|message| {
            let id = u16::from_be_bytes([message[0], message[1]]);
            let ends = pipeline.give_up(id, overdue);
            if ends {
                kept.take(id);
            }
            !ends
        });
        let unserved = (waiting - turned_away.len()) as u64;
        if unserved > 0 {
            self.in_flight -= unserved;
            self.count_unserved(self.plan.mix.kind(conn), now, unserved);
            self.after_query_ended(conn);
        }
    }

    /// Sends the queries of a client again that have had no reply for too long.
    pub(super) fn retry(&mut self, conn: ConnId, now: Nanos, orders: &mut Orders) {
        let Some(time) = self.plan.population.retry else { return };
        let client = &mut self.clients[conn as usize];
        if client.state != ConnectionState::Open || conn >= self.plan.clients {
            return;
        }
        let again = client.kept.unanswered(&client.pipeline, now, time);
        self.connections[self.plan.mix.kind(conn)].resent += again.len() as u64;
        for message in again {
            orders.send(conn, message.len(), |out| {
                out.copy_from_slice(&message);
                message.len()
            });
        }
    }

    /// Repeats a query over TCP if `reply` is its reply, in time and truncated; returns whether it does.
    pub(super) fn ask_over_tcp(&mut self, at: Nanos, conn: ConnId, reply: &[u8]) -> bool {
        const TC: u8 = 2;
        let cut = reply.get(2).is_some_and(|flags| flags & TC != 0);
        if !self.plan.population.tcp_fallback || self.is_companion(conn) || !cut {
            return false;
        }
        let Some(id) = wire::reply::id(reply) else { return false };
        let found = self.clients[conn as usize].pipeline.find(id);
        let in_time =
            found.state == State::Outstanding && at.since(found.sent) <= self.plan.plan.timeout;
        let companion = conn + self.plan.clients;
        let to = &self.clients[companion as usize].pipeline;
        if !in_time
            || to.outstanding() == to.capacity()
            || self.outcomes.workload.check(found.key, reply) != Err(Invalid::Truncated)
        {
            return false;
        }
        let client = &mut self.clients[conn as usize];
        let Some(mut message) = client.kept.take(id) else { return false };
        client.pipeline.mark_answered(id);
        let to = &mut self.clients[companion as usize];
        let id = to.pipeline.adopt(&found);
        message[..2].copy_from_slice(&id.to_be_bytes());
        to.kept.keep(&message);
        // Over TCP the query has not left yet.
        to.kept.come_back(id);
        self.connections[self.plan.mix.kind(conn)].asked_over_tcp += 1;
        self.await_connection(companion, message);
        self.after_query_ended(conn);
        true
    }

    /// Sends the queries that were turned away on their clients' next connections; returns when the next of these
    /// may be opened.
    pub(super) fn send_turned_away(&mut self, now: Nanos, orders: &mut Orders) -> Nanos {
        let mut next = Nanos::MAX;
        for _ in 0..self.turned_away.len() {
            let Some(conn) = self.turned_away.pop_front() else { break };
            let client = &self.clients[conn as usize];
            let opens = match client.state {
                ConnectionState::Closed => self.earliest_open().max(client.rests_until),
                ConnectionState::Opening | ConnectionState::Open => now,
                ConnectionState::Ending(_) => Nanos::MAX,
            };
            if opens > now {
                next = next.min(opens);
                self.turned_away.push_back(conn);
                continue;
            }
            self.give_up_unsent(conn, now);
            let client = &self.clients[conn as usize];
            if client.turned_away.is_empty() {
                continue;
            }
            if client.state == ConnectionState::Closed {
                self.open(conn, now, orders);
            }
            let client = &mut self.clients[conn as usize];
            // A connection that is being opened may fail before they leave, unless others have left
            // on it already, as early data.
            let leaves = client.state == ConnectionState::Open || client.sending;
            for message in std::mem::take(&mut client.turned_away) {
                let id = u16::from_be_bytes([message[0], message[1]]);
                if let Some(first) = client.pipeline.send_again(id, now, leaves) {
                    if first {
                        self.outcomes.record_sent(now);
                    }
                    client.queries_sent += 1;
                    client.kept.order(id);
                    orders.send(conn, message.len(), |out| {
                        out.copy_from_slice(&message);
                        message.len()
                    });
                }
            }
        }
        next
    }
}
