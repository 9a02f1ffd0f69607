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

/// Number of a server in the list of a worker; removed ones keep theirs.
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
            // A server with another address counts as another server, with its own sockets.
            let retired = !pool.is_some_and(|pool| pool.servers.contains(&server.address))
                || way_to(server.address) != server.way;
            if std::mem::replace(&mut server.retired, retired) && !retired {
                // Nobody has queried or probed it meanwhile.
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
                let source = pool.source.iter().find(|s| s.is_ipv4() == at.is_ipv4()).copied();
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
        // Any of them, by their weights if they have some.
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
        // Zero stands for unknown.
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

    /// Notes that a reply of a server was an error: it takes back more of its share than the reply
    /// has added, so that a server with errors for half of its replies is avoided.
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

    /// Notes a reply of a server in another letter case than its query. One that has kept the case before is trusted to
    /// keep it: such a reply is forged.
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
mod tests {
    use super::sockets::tests::open;
    use super::*;
    use chacha20::rand_core::SeedableRng;

    /// Makes servers, each with so many open sockets.
    pub(super) fn upstreams(servers: &[&str], ports: usize) -> (Upstreams, ChaCha12Rng) {
        let servers = servers.iter().map(|s| s.parse().expect("an address")).collect();
        let upstream = UpstreamConfig { servers, source_ports: ports, ..UpstreamConfig::default() };
        let config = Config { upstream, ..Config::default() };
        let mut upstreams = Upstreams::new(&config, [7; 16], &Some);
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let mut next = 2;
        open(&mut upstreams, &mut rng, &mut next);
        (upstreams, rng)
    }

    #[test]
    fn queries_go_to_the_fastest_server_alive() {
        let (mut up, mut rng) = upstreams(&["192.0.2.1:53", "192.0.2.2:53", "192.0.2.3:53"], 2);
        for (server, ms) in [(0, 30), (1, 10), (2, 20)] {
            assert!(up.answered(server, Nanos::ZERO, Nanos::from_millis(ms)));
        }
        let chosen = |up: &mut Upstreams, rng: &mut ChaCha12Rng, not| {
            let mut counts = [0; 3];
            (0..1_000).for_each(|_| counts[usize::from(up.choose(0, not, rng))] += 1);
            counts
        };
        let counts = chosen(&mut up, &mut rng, None);
        assert!(counts[1] > 950 && counts[0] > 0 && counts[2] > 0, "{counts:?}");
        assert_eq!(chosen(&mut up, &mut rng, Some(1))[1], 0);
        let late = Nanos::from_secs(1);
        let timeout =
            |up: &mut Upstreams, is_probe: bool, now: Nanos| up.timed_out(1, is_probe, now);
        assert!((0..99).all(|_| !timeout(&mut up, false, Nanos::from_millis(400))));
        assert_eq!(up.probe(late), None, "it has just replied");
        // Timeouts in a row make it suspected, probes without a reply dead.
        assert!((0..9).all(|_| !timeout(&mut up, false, late)));
        assert_eq!(up.probe(late), Some(1));
        assert!(chosen(&mut up, &mut rng, None)[2] > 950);
        assert_eq!(
            [true, false, true].map(|probe| timeout(&mut up, probe, late)),
            [false, false, true]
        );
        let counts = chosen(&mut up, &mut rng, None);
        assert!(counts[1] == 0 && counts[2] > 950, "{counts:?}");
        assert!(!up.answered(1, late, late + Nanos::from_millis(10)));
        assert!(chosen(&mut up, &mut rng, None)[1] > 950);
    }

    #[test]
    fn a_server_that_comes_back_with_a_reload_is_not_suspected_any_more() {
        let (mut up, _) = upstreams(&["192.0.2.1:53"], 2);
        let late = Nanos::from_secs(1);
        assert!((0..9).all(|_| !up.timed_out(0, false, late)));
        assert!(up.servers[0].suspected.is_some());
        for server in ["192.0.2.2:53", "192.0.2.1:53"] {
            let servers = vec![server.parse().expect("an address")];
            let upstream = UpstreamConfig { servers, ..up.config.clone() };
            up.reload(&Config { upstream, ..Config::default() }, &Some);
        }
        assert_eq!(up.servers[0].share, ALL);
        assert!(!up.timed_out(0, false, Nanos::from_secs(9)), "one timeout makes no server dead");
    }

    #[test]
    fn each_zone_has_its_pool_and_weights_share_the_queries() {
        let file = "upstream.servers = [\"192.0.2.1\", \"192.0.2.2\"]\nupstream.weights = [3, 1]\n\
            upstream.source-ports = 1\n\
            [[forward]]\nzones = [\"Corp.example\", \"test\"]\nservers = [\"192.0.2.3\"]\n\
            [[forward]]\nzones = [\"eu.corp.example\"]\nservers = [\"192.0.2.4\", \"192.0.2.1\"]\ncache = false";
        let config = Config::parse(file).expect(file);
        let mut up = Upstreams::new(&config, [7; 16], &Some);
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        open(&mut up, &mut rng, &mut 2);
        let pool =
            |up: &Upstreams, name: &str| up.pool_for(Group::ALL, &name.parse().expect("a name"));
        for (name, expected) in [
            (".", 0),
            ("example", 0),
            ("xcorp.example", 0),
            ("corp.example", 1),
            ("www.test", 1),
            ("a.eu.corp.example", 2),
        ] {
            assert_eq!(pool(&up, name), expected, "{name}");
        }
        assert!(up.caches(1) && !up.caches(2));
        let chosen = |up: &mut Upstreams, rng: &mut ChaCha12Rng, pool| {
            let mut counts = [0usize; 5];
            (0..4_000).for_each(|_| counts[usize::from(up.choose(pool, None, rng))] += 1);
            counts
        };
        let counts = chosen(&mut up, &mut rng, 0);
        assert!(counts[0].abs_diff(3_000) < 140 && counts[0] + counts[1] == 4_000, "{counts:?}");
        assert_eq!(chosen(&mut up, &mut rng, 1)[2], 4_000);
        let counts = chosen(&mut up, &mut rng, 2);
        assert_eq!(counts[3] + counts[4], 4_000, "never that of another pool");
        // A dead server gets nothing, but no server of another pool is used instead.
        (up.servers[0].dead, up.servers[2].dead) = (true, true);
        assert_eq!(chosen(&mut up, &mut rng, 0)[1], 4_000);
        assert_eq!(chosen(&mut up, &mut rng, 1)[2], 4_000);
        // Without the first block the second one keeps its servers and what is known of them.
        up.answered(3, Nanos::ZERO, Nanos::from_millis(5));
        let second = config.forward[1].clone();
        up.reload(&Config { forward: vec![second], ..config }, &Some);
        assert_eq!((pool(&up, "corp.example"), pool(&up, "eu.corp.example")), (0, 1));
        assert_eq!((up.server(3).pool, up.server(3).rtt), (1, Nanos::from_millis(5)));
        assert_eq!(up.servers().count(), 4);
    }

    #[test]
    fn dead_servers_are_probed_at_growing_intervals() {
        let (mut up, mut rng) = upstreams(&["192.0.2.1:53"], 1);
        let start = Nanos::from_secs(1);
        (0..5).for_each(|_| assert!(!up.timed_out(0, false, start)));
        assert_eq!(up.probe(start), Some(0));
        // No probe can be sent, but nothing else gets a reply either.
        assert!(!up.timed_out(0, false, start));
        let start = start + MAX_SUSPICION;
        assert!(up.timed_out(0, false, start) && up.server(0).dead);
        let mut probes = Vec::new();
        for ms in 0..20_000 {
            if up.probe(start + Nanos::from_millis(ms)).is_some() {
                probes.push(ms);
            }
        }
        assert_eq!(probes, [0, 500, 1_500, 3_500, 7_500, 15_500]);
        assert_eq!(up.choose(0, None, &mut rng), 0);
    }

    #[test]
    fn a_server_that_answers_few_queries_is_avoided() {
        let (mut up, mut rng) = upstreams(&["192.0.2.1:53", "192.0.2.2:53"], 1);
        let now = Nanos::from_secs(1);
        for n in 0..200 {
            // The first is faster, but answers one query in five.
            if n % 5 == 0 {
                up.answered(0, now, now + Nanos::from_millis(1));
            } else {
                up.timed_out(0, false, now);
            }
            up.answered(1, now, now + Nanos::from_millis(30));
        }
        let first = (0..1_000).filter(|_| up.choose(0, None, &mut rng) == 0).count();
        assert!(first < 50 && !up.server(0).dead, "{first}");
        for _ in 0..100 {
            up.answered(0, now, now + Nanos::from_millis(1));
        }
        assert!((0..1_000).filter(|_| up.choose(0, None, &mut rng) == 0).count() > 950);
    }

    #[test]
    fn a_server_that_refuses_most_queries_is_avoided() {
        let now = Nanos::from_secs(1);
        for (every, is_avoided) in [(1, true), (2, true), (4, false)] {
            let (mut up, mut rng) = upstreams(&["192.0.2.1:53", "192.0.2.2:53"], 1);
            for n in 0..200 {
                // The first is faster, but some of its replies are errors, the last one too.
                up.answered(0, now, now + Nanos::from_millis(1));
                if (n + 1) % every == 0 {
                    up.failed(0);
                }
                up.answered(1, now, now + Nanos::from_millis(30));
            }
            let first = (0..1_000).filter(|_| up.choose(0, None, &mut rng) == 0).count();
            assert_eq!(first < 50, is_avoided, "every {every}: {first}");
            assert!(!up.server(0).dead);
        }
    }

    #[test]
    fn timeouts_follow_the_round_trip_times() {
        let (mut up, _) = upstreams(&["192.0.2.1:53"], 1);
        let ms = Nanos::from_millis;
        let timeouts = |up: &Upstreams| [1, 2, 3].map(|attempt| up.timeout(0, attempt));
        assert_eq!(timeouts(&up), [ms(400), ms(600), ms(900)], "no reply yet");
        // One round trip time and four deviations of half of it.
        up.answered(0, Nanos::ZERO, ms(60));
        assert_eq!(timeouts(&up), [ms(180), ms(270), ms(405)]);
        // One slow reply: twice the round trip time at most.
        up.answered(0, Nanos::ZERO, ms(2_060));
        assert_eq!((up.server(0).rtt, up.timeout(0, 1)), (ms(310), ms(620)));
        // A fast server: the minimum above the round trip time.
        for _ in 0..100 {
            up.answered(0, Nanos::ZERO, Nanos::from_micros(100));
        }
        let fast = ms(30) + Nanos::from_micros(100);
        assert!(up.timeout(0, 1).0.abs_diff(fast.0) < 100_000, "{}", up.timeout(0, 1));
        assert_eq!(
            [1, 2, 3].map(|attempt| up.patient_timeout(attempt)),
            [ms(400), ms(800), ms(1_600)]
        );
    }

    #[test]
    fn a_server_without_replies_gets_few_queries_again() {
        let (mut up, _) = upstreams(&["192.0.2.1:53"], 1);
        let repeats = |up: &mut Upstreams| (0..10_000).filter(|_| up.may_repeat(0)).count();
        let answer = |up: &mut Upstreams| up.answered(0, Nanos::ZERO, Nanos::from_millis(1));
        assert_eq!(repeats(&mut up), 100);
        assert!((0..7).all(|_| answer(&mut up)));
        assert_eq!(repeats(&mut up), 7);
        assert!((0..9_000).all(|_| answer(&mut up)));
        assert_eq!(repeats(&mut up), 1_000);
    }

    #[test]
    fn mixed_case_is_used_until_a_server_changes_it() {
        let (mut up, _) = upstreams(&["192.0.2.1:53", "192.0.2.2:53"], 1);
        let now = Nanos::from_secs(9);
        up.note_case_kept(0);
        (0..9).for_each(|_| up.note_case_changed(0, now));
        assert!(up.mixes_case(0, now));
        (0..3).for_each(|_| up.note_case_changed(1, now));
        assert!(up.mixes_case(1, now));
        up.note_case_changed(1, now);
        assert!(!up.mixes_case(1, now));
        // Later it is tried again; one more such reply is enough.
        let later = now + CASE_DISTRUST;
        assert!(up.mixes_case(1, later));
        up.note_case_changed(1, later);
        assert!(!up.mixes_case(1, later));
        up.note_case_kept(1);
        assert!(up.mixes_case(1, later));
    }
}
