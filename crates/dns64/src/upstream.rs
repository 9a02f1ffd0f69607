//! Upstream servers: how fast and whether alive each of them is. `sockets` has the sockets connected to it.
//!
//! Each zone with servers of its own has a pool of them, and all other names have one. A query goes to the fastest server of its
//! pool that is alive and answers as large a share of its queries as the others, or to one of these by weight. One query
//! in 64 goes to another server of the pool, so that its round trip time is known too.
//!
//! ```text
//!   alive ──timeouts in a row──> suspected ──probes without a reply──> dead
//!     ^                              │                                  │
//!     └──────────────── any reply ───┴──────────────────────────────────┘
//! ```
//!
//! Some names have no answer, for example since their own servers are silent. So timeouts alone make no server dead: it
//! also has to leave probes for the root, which any resolver answers at once, without a reply. When all servers are
//! dead, the one that was the fastest still gets queries, since it may be back.

use std::net::SocketAddr;

use chacha20::ChaCha12Rng;
use chacha20::rand_core::Rng;
use engine::SocketId;
use measure::Nanos;
use wire::Name;

pub(crate) use self::cookie::{Credibility, MAX_COOKIE, UpstreamCookie};
pub(crate) use self::server::Server;
use self::server::{ALL, CaseTrust, MAX_REPEATS};
use self::sockets::Socket;
pub use self::sockets::SocketChange;
use crate::config::{Config, ForwardConfig, Group, UpstreamConfig};

mod cookie;
mod server;
mod sockets;

/// One query in this number goes to another server than the fastest.
const EXPLORING_QUERIES: u32 = 64;
/// Number of replies in another letter case after which a server is considered to change case.
const MAX_CASE_CHANGES: u8 = 3;
/// Time for which a server that changes case gets names in lower case.
const CASE_DISTRUST: Nanos = Nanos::from_secs(3_600);
/// Number of probes without a reply after which a suspected server is dead.
const LOST_PROBES: u32 = 2;
/// Time after which a suspected server is dead that has not replied to anything, when no probe can be sent.
const MAX_SUSPICION: Nanos = Nanos::from_secs(2);
/// Longest time between two probes of a dead server.
const MAX_PROBE_WAIT: Nanos = Nanos::from_secs(8);

/// Number of a server in the list of a worker; removed servers keep their numbers.
pub(crate) type ServerId = u8;

/// All servers and sockets of a worker.
pub(crate) struct Upstreams {
    servers: Vec<Server>,
    /// Sockets by number; `None` for sockets to clients.
    sockets: Vec<Option<Socket>>,
    config: UpstreamConfig,
    pools: Vec<ForwardConfig>,
    /// Secret of which the client's part of each cookie is made.
    secret: [u8; 16],
    renew_at: Nanos,
    /// The socket that waits for its last replies before it gets a new port.
    renewing: Option<SocketId>,
}

/// Returns the address at which a server is reached; `None` while it is not known.
type WayTo<'a> = &'a dyn Fn(SocketAddr) -> Option<SocketAddr>;

impl Upstreams {
    /// Makes the servers of a configuration, without sockets; cookies are made with this secret. `way_to` returns the address at which a
    /// server is reached.
    pub(crate) fn new(config: &Config, secret: [u8; 16], way_to: WayTo<'_>) -> Self {
        let mut upstreams = Upstreams {
            servers: Vec::new(),
            sockets: Vec::new(),
            config: config.upstream.clone(),
            pools: config.pools(),
            secret,
            renew_at: Nanos::ZERO,
            renewing: None,
        };
        upstreams.set_servers(way_to);
        upstreams
    }

    /// Applies another configuration. Servers in both keep their state; servers that were removed may answer
    /// pending queries but get no new ones.
    pub(crate) fn reload(&mut self, config: &Config, way_to: WayTo<'_>) {
        self.config = config.upstream.clone();
        let old = std::mem::replace(&mut self.pools, config.pools());
        // Pools may have other numbers now; a server is the same if it is for the same zones.
        for server in &mut self.servers {
            let key = |pool: &ForwardConfig| (pool.group, pool.zones.clone());
            let zones = old.get(server.pool).map(key);
            let same = self.pools.iter().position(|pool| Some(key(pool)) == zones);
            server.pool = same.unwrap_or(usize::MAX);
        }
        self.set_servers(way_to);
    }

    fn set_servers(&mut self, way_to: WayTo<'_>) {
        for server in &mut self.servers {
            let pool = self.pools.get(server.pool);
            // A server that is reached in another way counts as another one, with its own sockets.
            let retired = !pool.is_some_and(|pool| {
                let at = server.way.unwrap_or(server.address);
                pool.servers.contains(&server.address)
                    && server.source == pool.source_to(at)
                    && server.route == self.config.route
                    && server.avoid_ports == self.config.avoid_ports
            }) || way_to(server.address) != server.way;
            if std::mem::replace(&mut server.retired, retired) && !retired {
                // No query or probe was sent to the server since then.
                (server.dead, server.suspected, server.timeouts) = (false, None, 0);
                server.share = ALL;
            }
        }
        for (number, pool) in self.pools.iter().enumerate() {
            for (place, &address) in pool.servers.iter().enumerate() {
                let is_it = |s: &Server| !s.retired && s.pool == number && s.address == address;
                let unused = |s: &Server| s.retired && s.sockets.is_empty();
                let known = self.servers.iter().position(is_it);
                let way = way_to(address);
                let at = way.unwrap_or(address);
                let source = pool.source_to(at);
                let cookie = UpstreamCookie::new(&self.secret, at, source);
                let id = known.unwrap_or_else(|| {
                    let server = Server::new(address, way, number, cookie, self.config.probe_after);
                    let id = self.servers.iter().position(unused).unwrap_or(self.servers.len());
                    match self.servers.get_mut(id) {
                        Some(old) => *old = server,
                        None => self.servers.push(server),
                    }
                    id
                });
                let server = &mut self.servers[id];
                (server.source, server.route) = (source, self.config.route.clone());
                server.avoid_ports.clone_from(&self.config.avoid_ports);
                server.weight = pool.weights.get(place).copied().unwrap_or(0);
                server.transport = pool.transport;
                server.trusted = self.config.trusts_ad(address, pool);
                if !server.cookie.is_like(&cookie) {
                    server.cookie = cookie;
                }
            }
        }
    }

    /// Returns the servers of the configuration, alive and dead.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|server| !server.retired)
    }

    /// Returns the servers in the pool of a server, with itself.
    pub(crate) fn pool_of(&self, server: ServerId) -> impl Iterator<Item = &Server> {
        let pool = self.servers[usize::from(server)].pool;
        self.servers().filter(move |server| server.pool == pool)
    }

    /// Returns the number of the pool for a name in lower case and a group of clients.
    #[inline]
    pub(crate) fn pool_for(&self, group: Group, name: &Name) -> usize {
        ForwardConfig::find(&self.pools, group, name.as_wire()).number
    }

    /// Returns whether answers about names of a pool are cached.
    pub(crate) fn caches(&self, pool: usize) -> bool {
        self.pools[pool].cache
    }

    /// Returns whether a server is queried over streams only.
    #[inline]
    pub(crate) fn uses_streams_only(&self, server: ServerId) -> bool {
        !self.servers[usize::from(server)].transport.is_datagram()
    }

    /// Returns whether queries to a server are encrypted.
    pub(crate) fn encrypts(&self, server: ServerId) -> bool {
        self.servers[usize::from(server)].transport.uses_tls()
    }

    /// Returns the number of a server for usual names.
    pub(crate) fn number_of(&self, address: SocketAddr) -> Option<ServerId> {
        let is_it = |s: &Server| !s.retired && s.pool == 0 && s.address == address;
        self.servers.iter().position(is_it).map(|id| id as ServerId)
    }

    /// Returns a server by its number.
    pub(crate) fn server(&self, server: ServerId) -> &Server {
        &self.servers[usize::from(server)]
    }

    /// Returns whether the AD bit of a server is believed.
    #[inline]
    pub(crate) fn trusts(&self, server: ServerId) -> bool {
        self.servers[usize::from(server)].trusted
    }

    /// Returns the server of a pool for the next query; `not` only if no other server is alive. A
    /// server of another pool is never returned.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        pool: usize,
        not: Option<ServerId>,
        rng: &mut ChaCha12Rng,
    ) -> ServerId {
        if self.servers.len() == 1 {
            return 0;
        }
        let is_own = |server: &Server| server.pool == pool && !server.retired;
        let usable = |(_, server): &(usize, &Server)| is_own(server) && server.is_usable();
        let explore = rng.next_u32().is_multiple_of(EXPLORING_QUERIES);
        let own = self.servers.iter().filter(|server| is_own(server));
        let best_share = own.map(|server| server.share).max().unwrap_or(0);
        let state = |id: usize, server: &Server| {
            let doubtful = server.suspected.is_some() || server.share < best_share / 2;
            (server.dead, not == Some(id as ServerId), doubtful)
        };
        let rank = |(id, server): &(usize, &Server)| {
            let rtt = if explore && !server.dead { Nanos::ZERO } else { server.rtt };
            (state(*id, server), rtt)
        };
        let Some((best, first)) = self.servers.iter().enumerate().filter(usable).min_by_key(rank)
        else {
            // No server has a socket yet; the query waits for its next attempt.
            return self.servers.iter().position(is_own).unwrap_or(0) as ServerId;
        };
        let equal = |&(id, server): &(usize, &Server)| {
            let same = state(id, server) == state(best, first);
            let explored = server.dead == first.dead && not != Some(id as ServerId);
            if first.weight > 0 { same } else { explored }
        };
        let all = || self.servers.iter().enumerate().filter(usable).filter(equal);
        if first.weight == 0 && !(explore && all().count() > 1) {
            return best as ServerId;
        }
        // A random server of these, by weight if they have weights.
        let weight = |server: &Server| server.weight.max(1);
        let total: u32 = all().map(|(_, server)| weight(server)).sum();
        let mut drawn = rng.next_u32() % total.max(1);
        let chosen = all().find(|(_, server)| {
            let found = drawn < weight(server);
            drawn = drawn.saturating_sub(weight(server));
            found
        });
        chosen.map_or(best, |(id, _)| id) as ServerId
    }

    /// Notes a reply of a server to a query sent at `sent`; returns `false` if the server was dead.
    #[inline]
    pub(crate) fn answered(&mut self, server: ServerId, sent: Nanos, now: Nanos) -> bool {
        let probe_wait = self.config.probe_after;
        let server = &mut self.servers[usize::from(server)];
        (server.timeouts, server.heard_at, server.suspected) = (0, now, None);
        server.repeats = (server.repeats + 1).min(MAX_REPEATS);
        // A server that was dead starts again with the full share.
        server.share = if server.dead { ALL } else { server.share + (ALL - server.share) / 16 };
        // Zero means unknown.
        let rtt = now.since(sent).max(Nanos(1));
        match server.rtt {
            Nanos::ZERO => (server.rtt, server.rtt_deviation) = (rtt, Nanos(rtt.0 / 2)),
            old => {
                let deviation = old.0.abs_diff(rtt.0);
                server.rtt_deviation = Nanos((server.rtt_deviation.0 * 3 + deviation) / 4);
                server.rtt = Nanos((old.0 * 7 + rtt.0) / 8);
            }
        }
        server.probe_wait = probe_wait;
        !std::mem::take(&mut server.dead)
    }

    /// Notes that a reply of a server was an error: it lowers the server's answer share by more
    /// than the reply has added, so that a server with errors for half of its replies is avoided.
    pub(crate) fn failed(&mut self, server: ServerId) {
        let share = &mut self.servers[usize::from(server)].share;
        *share -= *share / 8;
    }

    /// Returns the timeout of an attempt (the first one is 1) at a server, by RFC 6298: four deviations above the round
    /// trip time, `min-timeout` above it at least, and half as long again with each attempt. The usual doubling would leave
    /// time for fewer attempts; [`may_repeat`](Self::may_repeat) protects the server instead.
    #[inline]
    pub(crate) fn timeout(&self, server: ServerId, attempt: u8) -> Nanos {
        let first = self.config.first_timeout;
        let Server { rtt, rtt_deviation, .. } = self.servers[usize::from(server)];
        let usual = match rtt {
            Nanos::ZERO => first,
            // A few slow names must not make all lost queries slow.
            rtt => (rtt + Nanos(4 * rtt_deviation.0).max(self.config.min_timeout.min(first)))
                .min((rtt + rtt).max(first)),
        };
        (1..attempt).fold(usual, |timeout, _| timeout + Nanos(timeout.0 / 2))
    }

    /// Returns the timeout of an attempt at a server that answers too few queries: `first-timeout`, doubled with each attempt.
    pub(crate) fn patient_timeout(&self, attempt: u8) -> Nanos {
        Nanos(self.config.first_timeout.0 << attempt.saturating_sub(1).min(8))
    }

    /// Returns whether a query may be sent to a server again early, and counts it. All workers together thus never double
    /// the load of a server that is overloaded.
    pub(crate) fn may_repeat(&mut self, server: ServerId) -> bool {
        let repeats = &mut self.servers[usize::from(server)].repeats;
        let may = *repeats > 0;
        *repeats = repeats.saturating_sub(1);
        may
    }

    /// Notes that a server did not reply in time; returns `true` if the server becomes dead by it. A server that has
    /// replied within the last `first-timeout` is not suspected.
    pub(crate) fn timed_out(&mut self, server: ServerId, is_probe: bool, now: Nanos) -> bool {
        let (dead_after, probe_after) = (self.config.dead_after, self.config.probe_after);
        let server = &mut self.servers[usize::from(server)];
        server.timeouts = server.timeouts.saturating_add(1);
        server.share -= server.share / 16;
        match server.suspected {
            _ if server.dead => false,
            Some(since) => {
                server.lost_probes += u32::from(is_probe);
                let no_reply = server.lost_probes >= LOST_PROBES || now >= since + MAX_SUSPICION;
                if no_reply {
                    (server.dead, server.suspected) = (true, None);
                }
                no_reply
            }
            None => {
                let heard = now < server.heard_at + self.config.first_timeout;
                if server.timeouts >= dead_after && !heard {
                    (server.suspected, server.lost_probes) = (Some(now), 0);
                    (server.probe_at, server.probe_wait) = (now, probe_after);
                }
                false
            }
        }
    }

    /// Returns a dead or suspected server whose probe is due. Its next probe is due after the wait, which then doubles.
    pub(crate) fn probe(&mut self, now: Nanos) -> Option<ServerId> {
        let silent = |s: &Server| s.dead || s.suspected.is_some();
        let due = |s: &Server| silent(s) && s.is_usable() && s.probe_at <= now;
        let id = self.servers.iter().position(due)?;
        let server = &mut self.servers[id];
        server.probe_at = now + server.probe_wait;
        server.probe_wait = (server.probe_wait + server.probe_wait).min(MAX_PROBE_WAIT);
        Some(id as ServerId)
    }

    /// Returns whether names to this server are sent in mixed case.
    #[inline]
    pub(crate) fn mixes_case(&self, server: ServerId, now: Nanos) -> bool {
        let case = self.servers[usize::from(server)].case;
        self.config.mixed_case && !matches!(case, CaseTrust::Changes(until) if now < until)
    }

    /// Notes that a server kept the letter case.
    #[inline]
    pub(crate) fn note_case_kept(&mut self, server: ServerId) {
        self.servers[usize::from(server)].case = CaseTrust::Keeps;
    }

    /// Notes a reply of a server in another letter case than its query. For a server that is known
    /// to keep the case, such a reply is forged.
    pub(crate) fn note_case_changed(&mut self, server: ServerId, now: Nanos) {
        let case = &mut self.servers[usize::from(server)].case;
        *case = match *case {
            CaseTrust::Keeps => CaseTrust::Keeps,
            CaseTrust::Unknown(n) if n < MAX_CASE_CHANGES => CaseTrust::Unknown(n + 1),
            _ => CaseTrust::Changes(now + CASE_DISTRUST),
        };
    }

    /// Returns whether a query to a server has a cookie; `unanswered`: its last attempt had one and got no reply.
    /// Over streams only, nobody can forge a reply.
    #[inline]
    pub(crate) fn sends_cookie(&self, server: ServerId, unanswered: bool, now: Nanos) -> bool {
        let server = &self.servers[usize::from(server)];
        self.config.cookies
            && server.transport.is_datagram()
            && server.cookie.is_sent(unanswered, now)
    }

    /// Returns the cookie for a server.
    #[inline]
    pub(crate) fn cookie(&self, server: ServerId) -> &UpstreamCookie {
        &self.servers[usize::from(server)].cookie
    }

    /// Returns the cookie for a server, to be changed by its replies.
    #[inline]
    pub(crate) fn cookie_mut(&mut self, server: ServerId) -> &mut UpstreamCookie {
        &mut self.servers[usize::from(server)].cookie
    }
}

#[cfg(test)]
mod tests;
