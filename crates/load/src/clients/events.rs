//! Events of the clients' connections: they open, deliver replies and close. Sweeps find overdue
//! queries and idle connections at intervals; with many clients each sweep checks a part, so that
//! none is long.

use engine::Next;
use engine::stream::{ConnId, End, Failure, Opened, Orders, QueryFailure, StreamRole};
use measure::Nanos;

use super::{Client, ClientPhase, Clients, ConnectionState, RECONNECT_DELAY};
use crate::connections::ConnectionTally;
use crate::flight::State;

/// Highest number of clients that one sweep checks: about 0.1 ms of work.
const CLIENTS_PER_SWEEP: usize = 2_048;
/// Number of sweeps of all clients within one timeout.
const SWEEPS_PER_TIMEOUT: u64 = 32;
/// Shortest and longest interval between them, in nanoseconds.
const SWEEP_BOUNDS: (u64, u64) = (100_000, 20_000_000);
/// Shortest interval between sweeps of parts of the clients.
const PART_INTERVAL: Nanos = Nanos::from_millis(1);

impl StreamRole for Clients {
    fn opened(&mut self, now: Nanos, conn: ConnId, how: Opened) {
        let last_activity = self.clock(now);
        let client = &mut self.clients[conn as usize];
        (client.state, client.last_activity) = (ConnectionState::Open, last_activity);
        self.opening -= 1;
        self.open += 1;
        let tally = &mut self.connections[self.plan.mix.kind(conn)];
        tally.established += 1;
        tally.resumed += u64::from(how.resumed);
        tally.early_data += u64::from(how.early_data);
        tally.open_at_end += 1;
        tally.peak = tally.peak.max(tally.open_at_end);
        if how.connect > Nanos::ZERO {
            tally.connect.record(how.connect);
        }
        // Datagrams have no handshake.
        if how.handshake > Nanos::ZERO {
            tally.handshake.record(how.handshake);
            if self.start.is_some() {
                self.outcomes.tally.second(last_activity).connections += 1;
            }
        }
        self.notice_opening();
        // Replies to early data may be here already.
        self.after_query_ended(conn);
    }

    fn message(&mut self, now: Nanos, conn: ConnId, message: &[u8]) {
        let at = self.clock(now);
        let client = &mut self.clients[conn as usize];
        client.last_activity = at;
        if self.plan.population.cookies && !client.learn_cookie(message) {
            self.outcomes.tally.unexpected += 1;
            return;
        }
        if self.ask_over_tcp(at, conn, message) {
            return;
        }
        let client = &mut self.clients[conn as usize];
        client.kept.forget(message);
        let ended =
            self.outcomes.record_reply(place(conn), Some(&mut client.pipeline), at, message);
        if let Some(found) = ended {
            self.in_flight -= 1;
            let tally = &mut self.connections[self.plan.mix.kind(conn)];
            let first = note_reply(client, tally);
            let latencies = if first { &mut tally.first_query } else { &mut tally.steady };
            latencies.record(at.since(found.sent));
            self.after_query_ended(conn);
        }
    }

    fn failed(&mut self, now: Nanos, conn: ConnId, tag: [u8; 2], why: QueryFailure) {
        let at = self.clock(now);
        let client = &mut self.clients[conn as usize];
        client.last_activity = at;
        if matches!(why, QueryFailure::Connection(_)) {
            let resent = self.resend(at, conn, Some(u16::from_be_bytes(tag)));
            if resent > 0 {
                return;
            }
        }
        let client = &mut self.clients[conn as usize];
        if client.pipeline.fail(u16::from_be_bytes(tag)) {
            client.kept.take(u16::from_be_bytes(tag));
            self.in_flight -= 1;
            self.outcomes.record_lost(1);
            let tally = &mut self.connections[self.plan.mix.kind(conn)];
            if !matches!(why, QueryFailure::Connection(_)) {
                note_reply(client, tally);
            }
            tally.count_failed(why, 1);
            tally.lost_with_connection += u64::from(matches!(why, QueryFailure::Connection(_)));
            self.after_query_ended(conn);
        }
    }

    fn never_left(&mut self, now: Nanos, conn: ConnId, tag: [u8; 2]) {
        let at = self.clock(now);
        let id = u16::from_be_bytes(tag);
        self.come_back(conn, id);
        // The server may have seen a query that is sent again.
        if self.clients[conn as usize].kept.was_resent(id) || self.resend(at, conn, Some(id)) > 0 {
            return;
        }
        let client = &mut self.clients[conn as usize];
        let Some(query) = client.pipeline.withdraw(id) else { return };
        client.kept.take(id);
        self.in_flight -= u64::from(query.state == State::Outstanding);
        self.outcomes.record_never_left(&query, at);
        self.connections[self.plan.mix.kind(conn)].unserved += 1;
        self.after_query_ended(conn);
    }

    fn turned_away(&mut self, _now: Nanos, conn: ConnId, message: &[u8]) {
        let client = &mut self.clients[conn as usize];
        let Some(&tag) = message.first_chunk() else { return };
        if client.pipeline.turn_away(u16::from_be_bytes(tag)) {
            self.come_back(conn, u16::from_be_bytes(tag));
            self.await_connection(conn, message.into());
            self.connections[self.plan.mix.kind(conn)].turned_away += 1;
        }
    }

    fn closed(&mut self, now: Nanos, conn: ConnId, end: End) {
        let now = self.clock(now);
        if !matches!(end, End::Ordered | End::GoingAway) {
            self.resend(now, conn, None);
        }
        let client = &mut self.clients[conn as usize];
        let tally = &mut self.connections[self.plan.mix.kind(conn)];
        match client.state {
            ConnectionState::Opening => self.opening -= 1,
            _ => {
                self.open -= 1;
                tally.open_at_end -= 1;
            }
        }
        tally.served -= u64::from(client.answered);
        // Queries of a connection that is closing gracefully end later.
        let (lost, unsent) = if end == End::GoingAway { (0, 0) } else { client.pipeline.reset() };
        client.kept.forget_ended(&client.pipeline);
        client.kept.connection_ended();
        let failure = match (client.state, end) {
            (ConnectionState::Ending(failure), _) => failure,
            // Many servers close with a reset; with no outstanding queries this counts as an
            // ordinary close.
            (_, End::Failed(Failure::Reset)) if lost == 0 && client.answered => {
                tally.closed_by_peer += 1;
                None
            }
            (_, End::Failed(failure)) => Some(failure),
            (_, End::ByPeer) if lost > 0 => Some(Failure::ClosedEarly),
            (_, End::ByPeer | End::GoingAway) => {
                tally.closed_by_peer += 1;
                None
            }
            (_, End::Ordered) => None,
        };
        if client.state == ConnectionState::Ending(None) {
            tally.completed += 1;
        }
        client.state = ConnectionState::Closed;
        self.in_flight -= lost + unsent;
        self.outcomes.record_lost(lost);
        tally.lost_with_connection += lost;
        let why = failure.unwrap_or(Failure::ClosedEarly);
        tally.count_failed(QueryFailure::Connection(why), lost + unsent);
        failure.into_iter().for_each(|why| tally.failed[why.index()] += 1);
        tally.unanswered += u64::from(failure.is_some_and(is_not_taken) && !client.answered);
        // A server that closes connections on which it answered is no server in trouble.
        let left = end == End::GoingAway || !client.turned_away.is_empty();
        let pause = (failure.is_some() || left) && !client.answered;
        client.rests_until = if pause { now + RECONNECT_DELAY } else { Nanos::ZERO };
        self.count_unserved(self.plan.mix.kind(conn), now, unsent);
        self.notice_room(conn);
        self.notice_opening();
        match pause {
            _ if self.plan.population.random_order || self.is_companion(conn) => {}
            false => self.closed.push_back(conn),
            true => self.waiting.push_back((now + RECONNECT_DELAY, conn)),
        }
    }

    fn orders(&mut self, now: Nanos, orders: &mut Orders) -> Next {
        if let Some(stall) = self.stalls.called(now) {
            self.outcomes.tally.disturbances.add_stall(stall);
        }
        let next = self.give_orders(now, orders);
        self.stalls.returns(now, next);
        next
    }

    fn sent(&mut self, at: Nanos, conn: ConnId) {
        let (left, at) = (at, self.clock(at));
        let (outcomes, room_since) = (&mut self.outcomes, self.room_since);
        let client = &mut self.clients[conn as usize];
        self.connections[self.plan.mix.kind(conn)].resent += client.kept.leave();
        // Queries that waited for the connection were recorded when they were handed over.
        let sending = std::mem::replace(&mut client.sending, true);
        client.pipeline.mark_sent(at, |due| {
            outcomes.tally.last_sent = left;
            if sending {
                outcomes.record_departure(at, at.since(due.max(room_since)));
            } else {
                outcomes.record_sent(at);
            }
        });
    }
}

impl Clients {
    /// Issues the orders of the current phase; returns the time of the next call.
    fn give_orders(&mut self, now: Nanos, orders: &mut Orders) -> Next {
        if let ClientPhase::Opening(left) = self.phase {
            return self.open_all(now, left, orders);
        }
        let start = self.start.unwrap_or(now);
        if now < start {
            return Next::At(start);
        }
        let now = now.since(start);
        while self.waiting.front().is_some_and(|(until, _)| *until <= now) {
            self.closed.extend(self.waiting.pop_front().map(|(_, conn)| conn));
        }
        self.sweep(now, orders);
        self.pace.follow(now, &self.outcomes.tally);
        let reopening = self.send_turned_away(now, orders);
        for conn in self.ending.drain(..) {
            orders.close(conn);
        }
        let next = match self.phase {
            ClientPhase::Draining => self.drain(now),
            _ if self.script.is_some() => self.send_recorded(now, orders),
            _ => self.send_due(now, orders),
        };
        match next {
            Next::At(at) => Next::At(start + at.min(reopening)),
            Next::Idle if reopening < Nanos::MAX => Next::At(start + reopening),
            other => other,
        }
    }
}

/// Notes that the server answers on a client's connection; returns whether this is its first reply.
fn note_reply(client: &mut Client, tally: &mut ConnectionTally) -> bool {
    let first = !std::mem::replace(&mut client.answered, true);
    tally.served += u64::from(first);
    tally.served_peak = tally.served_peak.max(tally.served);
    first
}

/// Returns whether a connection that fails in this way may mean that the server accepts no more
/// connections.
fn is_not_taken(failure: Failure) -> bool {
    use Failure::{ClosedEarly, ClosedWithError, ConnectStalled, HandshakeStalled};
    use Failure::{Refused, Reset, Stalled};
    let early = matches!(failure, Refused | Reset | ConnectStalled | HandshakeStalled);
    early || matches!(failure, ClosedEarly | ClosedWithError | Stalled)
}

/// Returns the number of a connection as the number of a socket.
pub(super) fn place(conn: ConnId) -> u16 {
    u16::try_from(conn).unwrap_or(u16::MAX)
}

/// Returns the interval between sweeps of `clients` clients with this timeout, after which queries
/// may lose their places.
pub(super) fn interval(timeout: Nanos, clients: usize, frees_places: bool) -> Nanos {
    let longest = if frees_places { PART_INTERVAL.0 } else { SWEEP_BOUNDS.1 };
    let every = (timeout.0 / SWEEPS_PER_TIMEOUT).clamp(SWEEP_BOUNDS.0, longest);
    match clients.div_ceil(CLIENTS_PER_SWEEP) {
        0 | 1 => Nanos(every),
        parts => Nanos(every / parts as u64).max(PART_INTERVAL),
    }
}

impl Clients {
    /// At intervals, expires overdue queries, aborts stalled connections, closes idle ones, publishes the
    /// counters and checks the goal.
    pub(super) fn sweep(&mut self, now: Nanos, orders: &mut Orders) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + self.sweep_every;
        let timeout = self.plan.plan.timeout;
        let from = std::mem::take(&mut self.sweep_at);
        let to = (from + CLIENTS_PER_SWEEP).min(self.clients.len());
        self.sweep_at = if to == self.clients.len() { 0 } else { to };
        for conn in from as ConnId..to as ConnId {
            let client = &mut self.clients[conn as usize];
            let lost = self.outcomes.expire(&mut client.pipeline, place(conn), now);
            self.retry(conn, now, orders);
            self.give_up_unsent(conn, now);
            let client = &mut self.clients[conn as usize];
            if lost == 0 {
                let idle = self.plan.population.close_idle;
                if idle.is_some_and(|idle| client.last_activity + idle <= now)
                    && client.state == ConnectionState::Open
                    && client.pipeline.outstanding() == 0
                {
                    client.state = ConnectionState::Ending(None);
                    self.connections[self.plan.mix.kind(conn)].closed_idle += 1;
                    self.ending.push(conn);
                }
                continue;
            }
            client.kept.forget_ended(&client.pipeline);
            self.in_flight -= lost;
            if client.last_activity + timeout <= now && client.state == ConnectionState::Open {
                client.state = ConnectionState::Ending(Some(Failure::Stalled));
                orders.abort(conn);
                continue;
            }
            if !self.outcomes.frees_places() {
                let first = u64::from(!std::mem::replace(&mut client.lost_query, true));
                self.connections[self.plan.mix.kind(conn)].slow += first;
            }
            self.after_query_ended(conn);
        }
        if self.watch.goal_missed(now, &self.outcomes.tally) && self.phase == ClientPhase::Sending {
            self.outcomes.tally.stopped_early = true;
            self.phase = ClientPhase::Draining;
        }
    }
}
