//! Resolution in the kernel (`kernel.mode = "all"`): the server's work for the program.
//!
//! ```text
//!   settings ──compile──> rules ──┐
//!   thread "kernel-ask": the best server, the way to it ──> maps <── program ──> upstream
//!   thread "kernel-serve": random numbers ──────────────────┘  │
//!        └── queries with a reply that is not plain, or without one <──┘ ──> workers, which continue over sockets
//! ```
//!
//! The program applies the rules of synthesis to plain names; the workers handle everything else.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chacha20::ChaCha12Rng;
use chacha20::rand_core::Rng;
use dns64::plain::{ContinuedQuery, PlainBlock};
use dns64::{ServerHealth, Settings};
use engine::SocketId;
use engine::clock::monotonic;
use kernel::tester::{Route, RouteParts};
use kernel::{
    Draw, Embedding, HandedQuery, KernelError, MAX_BLOCKS, MAX_RULES, ResolverDraws, ResolverRules,
    ResolverWork, Rules, Upstream,
};
use measure::Nanos;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio_util::sync::CancellationToken;

use super::InKernel;
use crate::worker::{Status, WorkerHandle};

/// Longest interval between refills of random numbers: a core needs several times as long to use up
/// its numbers.
const REFILL_MS: u16 = 10;
/// The same interval, in milliseconds, while the program resolves nothing.
const IDLE_MS: u16 = 40;
/// Interval of the search for transactions without a reply, and for how long after the timeout of
/// the last query to upstream.
const EXPIRE_INTERVAL: Duration = Duration::from_millis(50);
const EXPIRE_FOR: Duration = Duration::from_secs(2);
/// Interval at which the server to query is chosen; the thread notices the end of the server after
/// this time at the latest.
const CHOICE_INTERVAL: Duration = Duration::from_millis(50);
/// Interval at which the way to upstream is looked up.
const ROUTE_INTERVAL: Duration = Duration::from_secs(1);
/// Shortest time before a live server is replaced by a faster one.
const MIN_SERVER_TIME: Duration = Duration::from_secs(10);
/// Highest number of transactions that are passed on before random numbers are looked after.
const HANDED_AT_ONCE: usize = 512;

/// State of the resolving program: rules, random numbers, upstream and options.
pub(super) struct Resolving {
    rules: ResolverRules,
    draws: ResolverDraws,
    rng: ChaCha12Rng,
    /// The settings whose ports the random numbers have; `None` before the first ones.
    drawn_for: Option<Arc<Settings>>,
    /// Whether the program has stopped resolving, since a thread has failed.
    is_stopped: bool,
    /// The settings; `None` before the first generation, or if their rules have no room in the kernel.
    settings: Option<Arc<Settings>>,
    options: Vec<u8>,
    asked: Option<Upstream>,
}

/// The way to a server.
pub(super) struct RouteToServer {
    server: SocketAddr,
    route: Route,
}

impl Resolving {
    pub(super) fn new(rules: ResolverRules, draws: ResolverDraws, rng: ChaCha12Rng) -> Self {
        Resolving {
            rules,
            draws,
            rng,
            drawn_for: None,
            is_stopped: false,
            settings: None,
            options: Vec::new(),
            asked: None,
        }
    }

    /// Compiles the rules of other settings. The program must not resolve during this; it is
    /// stopped until the next [ask](Self::ask).
    ///
    /// # Errors
    /// If the kernel refuses them.
    pub(super) fn compile(&mut self, settings: &Arc<Settings>) -> Result<(), KernelError> {
        (self.settings, self.asked) = (None, None);
        self.rules.ask(None)?;
        if self.is_stopped {
            return Ok(());
        }
        let Some(plain) = settings.plain_rules(MAX_RULES) else {
            tracing::warn!("kernel: no room for all names with rules: the sockets resolve");
            return Ok(());
        };
        let blocks = plain.blocks.into_iter().filter(|block| (block.block as usize) < MAX_BLOCKS);
        let apart = plain.apart.iter().map(|name| name.as_wire().to_vec()).collect();
        self.rules.set(&Rules { embeddings: blocks.map(embedding).collect(), apart })?;
        self.draw_for(settings);
        (self.settings, self.options) = (Some(settings.clone()), plain.options);
        Ok(())
    }

    /// Replaces the random numbers if their ports may be ones that these settings avoid.
    fn draw_for(&mut self, settings: &Arc<Settings>) {
        let before = self.drawn_for.replace(settings.clone());
        let avoided = |settings: &Arc<Settings>| settings.config.upstream.avoid_ports.clone();
        if before.is_some_and(|before| avoided(&before) != avoided(settings)) {
            self.draws.renew(|| draw(&mut self.rng, settings));
        }
        self.refill();
    }

    /// Fills up the random numbers.
    pub(super) fn refill(&mut self) {
        let Some(settings) = &self.drawn_for else { return };
        self.draws.refill(|| draw(&mut self.rng, settings));
    }

    /// Stops the program from resolving.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(super) fn stop(&mut self) -> Result<(), KernelError> {
        (self.is_stopped, self.settings, self.asked) = (true, None, None);
        self.rules.ask(None)
    }

    /// Lets the program resolve under the rules of a generation, if it knows upstream.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(super) fn begin(&mut self, generation: u64) -> Result<(), KernelError> {
        let Some(mut asked) = self.asked.take() else { return Ok(()) };
        asked.generation = generation;
        self.ask(Some(asked))
    }

    /// Returns the settings under which the program may resolve.
    pub(super) fn settings(&self) -> Option<Arc<Settings>> {
        self.settings.clone()
    }

    /// Sets the server that the program queries and the route to it, or none.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(super) fn ask_over(
        &mut self,
        way: Option<RouteToServer>,
        generation: u64,
    ) -> Result<(), KernelError> {
        let settings = self.settings.clone();
        let way = settings.zip(way);
        self.ask(way.map(|(settings, way)| self.upstream(&settings, way, generation)))
    }

    /// Sets the way to upstream, if anything has changed.
    fn ask(&mut self, upstream: Option<Upstream>) -> Result<(), KernelError> {
        if upstream != self.asked {
            self.rules.ask(upstream.as_ref())?;
            self.asked = upstream;
        }
        Ok(())
    }

    /// Returns the kernel's settings for queries to a server over a route.
    fn upstream(&self, settings: &Settings, way: RouteToServer, generation: u64) -> Upstream {
        let (config, RouteToServer { server, route }) = (&settings.config, way);
        let seconds = |time: Nanos| u32::try_from(time.0 / 1_000_000_000).unwrap_or(u32::MAX);
        Upstream {
            server,
            route,
            generation,
            timeout: config.upstream.first_timeout,
            udp_size: config.upstream.udp_size,
            traffic_class: config.upstream.route.dscp << 2,
            mixed_case: config.upstream.mixed_case,
            ttl_without_soa: settings.policy.synthesis.ttl_without_soa,
            min_ttl: seconds(config.cache.min_ttl),
            max_ttl: seconds(config.cache.max_ttl),
            options: self.options.clone(),
        }
    }
}

fn embedding(block: PlainBlock) -> Embedding {
    let PlainBlock { block, base, places, max_ttl, networks } = block;
    let network = |(network, is_mapped): (ipnet::Ipv4Net, bool)| {
        (network.network().octets(), network.prefix_len(), is_mapped)
    };
    let networks = networks.into_iter().map(network).collect();
    Embedding { block, base, places, max_ttl, networks }
}

/// Updates the route to upstream until the end: a fast server that is alive, and the hardware
/// address on the way to it.
///
/// # Errors
/// Never; all threads have this type.
pub(crate) fn keep_asking(
    kernel: &InKernel,
    workers: &[WorkerHandle],
    end: &CancellationToken,
) -> io::Result<()> {
    let (mut last, mut looked, mut said) = (None, Instant::now(), String::new());
    let mut choice = ServerChoice::default();
    while !end.is_cancelled() {
        if let Some((settings, generation)) = kernel.resolving_now() {
            let health = Status::of_all(workers).health;
            let servers = &settings.config.upstream.servers;
            let wanted = (generation, choice.server(servers, &health, Instant::now()));
            if last != Some(wanted) || looked.elapsed() > ROUTE_INTERVAL {
                (last, looked) = (Some(wanted), Instant::now());
                let way = way(&settings, wanted.1);
                let problem = kernel.ask(way, generation).err().unwrap_or_default();
                if problem != said && !problem.is_empty() {
                    tracing::warn!("kernel: {problem}: the sockets resolve");
                }
                said = problem;
            }
        }
        std::thread::sleep(CHOICE_INTERVAL);
    }
    Ok(())
}

/// The server that is queried, and the time of this choice.
#[derive(Default)]
struct ServerChoice(Option<(SocketAddr, Instant)>);

impl ServerChoice {
    /// Chooses the server to query from these: the previous one while it is alive, unless another
    /// server has at most half its round trip time and the last change was some time ago; otherwise
    /// the fastest one that is alive, or the first one.
    fn server(
        &mut self,
        servers: &[SocketAddr],
        health: &[ServerHealth],
        now: Instant,
    ) -> Option<SocketAddr> {
        let of = |address: SocketAddr| {
            let own = move |server: &&ServerHealth| !server.forward && server.address == address;
            health.iter().filter(own)
        };
        // The shortest round trip of any worker; `None` before the first reply.
        let rtt = |address: SocketAddr| {
            of(address)
                .filter(|server| server.alive)
                .map(|server| server.rtt.0)
                .filter(|rtt| *rtt > 0)
                .min()
        };
        let fastest = servers.iter().filter_map(|server| Some((rtt(*server)?, *server))).min();
        let current = self.0.filter(|(server, _)| {
            servers.contains(server) && of(*server).any(|server| server.alive)
        });
        let best = match (current, fastest) {
            (Some((server, since)), Some((other, _))) => {
                let is_slow = rtt(server).is_none_or(|rtt| rtt / 2 >= other);
                if is_slow && now >= since + MIN_SERVER_TIME { fastest } else { None }
            }
            (Some(_), None) => None,
            (None, fastest) => fastest,
        };
        let kept = current.map(|(server, _)| server).or(servers.first().copied());
        let chosen = best.map(|(_, server)| server).or(kept);
        if chosen != self.0.map(|(server, _)| server) {
            self.0 = chosen.map(|server| (server, now));
        }
        chosen
    }
}

/// Returns the way to a server, or why the program cannot reach it.
fn way(settings: &Settings, server: Option<SocketAddr>) -> Result<RouteToServer, String> {
    let config = &settings.config;
    let server = server.ok_or("there is no server upstream")?;
    let device = Some(&config.upstream.route.device).filter(|device| !device.is_empty());
    let via = RouteParts {
        device: device.cloned(),
        source: config.source_of(server, server),
        neighbour: None,
    };
    let route = Route::find(server, &via).map_err(|error| error.to_string())?;
    if !config.kernel.device.contains(&route.device) {
        let device = route.device;
        return Err(format!("the way to {server} is {device}, which is not in kernel.device"));
    }
    Ok(RouteToServer { server, route })
}

/// The service for a resolving program: random numbers for it, and its queries for the workers.
pub(crate) struct Serve {
    pub(super) work: ResolverWork,
    /// Addresses at which the workers listen, in the order of their sockets.
    pub(super) listen: Vec<SocketAddr>,
}

impl Serve {
    /// Refills random numbers, and passes on the queries that the program leaves to the workers,
    /// until the end. If the kernel does not give its maps, the log says so, and the sockets
    /// resolve.
    ///
    /// # Errors
    /// Never; all threads have this type.
    pub(crate) fn run(
        mut self,
        kernel: &InKernel,
        workers: &[WorkerHandle],
        end: &CancellationToken,
    ) -> io::Result<()> {
        let (mut watch, mut looked) = (ExpiryWatch::default(), Instant::now());
        while !end.is_cancelled() {
            if let Err(error) = self.step(kernel, workers, &mut watch, &mut looked) {
                kernel.stop_resolving(&error);
                return Ok(());
            }
            let is_busy = watch.is_on(Instant::now());
            let wait = PollTimeout::from(if is_busy { REFILL_MS } else { IDLE_MS });
            let ring = self.work.ring();
            // An interrupted wait is a short one.
            let _ = poll(&mut [PollFd::new(ring.as_fd(), PollFlags::POLLIN)], wait);
        }
        Ok(())
    }

    /// Does the work that is due now; `looked` is the time of the last search for transactions
    /// without a reply.
    fn step(
        &mut self,
        kernel: &InKernel,
        workers: &[WorkerHandle],
        watch: &mut ExpiryWatch,
        looked: &mut Instant,
    ) -> Result<(), KernelError> {
        kernel.refill();
        for _ in 0..HANDED_AT_ONCE {
            let Some(handed) = self.work.handed() else { break };
            pass(handed, &self.listen, workers);
        }
        let now = Instant::now();
        if let Some((settings, _)) = kernel.resolving_now() {
            watch.note(kernel.queries_asked(), settings.config.upstream.first_timeout, now);
        }
        if watch.is_on(now) && now.duration_since(*looked) > EXPIRE_INTERVAL {
            *looked = now;
            let listen = &self.listen;
            self.work.expired(monotonic(), |handed| pass(handed, listen, workers))?;
        }
        Ok(())
    }
}

/// Watches until when pending transactions may still end without a reply.
#[derive(Default)]
struct ExpiryWatch {
    queries: u64,
    until: Option<Instant>,
}

impl ExpiryWatch {
    /// Notes the number of queries to upstream so far, and the timeout of each.
    fn note(&mut self, queries: u64, timeout: Nanos, now: Instant) {
        if self.queries != queries {
            self.queries = queries;
            self.until = self.until.max(Some(now + Duration::from(timeout) + EXPIRE_FOR));
        }
    }

    /// Returns whether a transaction may end without a reply now.
    fn is_on(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

/// Makes a random number for the program.
fn draw(rng: &mut ChaCha12Rng, settings: &Settings) -> Draw {
    let seed = rng.next_u64();
    loop {
        let number = rng.next_u32();
        let (id, port) = (number as u16, (number >> 16) as u16);
        // A quarter of all ports is usable at least.
        if settings.config.upstream.is_usable(port) {
            return Draw { id, port, seed };
        }
    }
}

/// Passes a query to a worker, one of those that listen at the address that the client queried.
fn pass(handed: HandedQuery, listen: &[SocketAddr], workers: &[WorkerHandle]) {
    let canonical = |at: &SocketAddr| (at.ip().to_canonical(), at.port());
    let own = (handed.server.ip(), handed.server.port());
    let Some(socket) = listen.iter().position(|at| canonical(at) == own) else { return };
    let client = match (listen[socket], handed.client) {
        // A socket for both families sees IPv4 clients at mapped addresses.
        (SocketAddr::V6(_), SocketAddr::V4(v4)) => {
            SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
        }
        (_, client) => client,
    };
    let worker = usize::from(client.port()) % workers.len();
    workers[worker].continue_query(ContinuedQuery {
        socket: SocketId(socket as u16),
        client,
        message: handed.query,
        reply: handed.reply,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_kept_while_it_is_alive_and_about_as_fast() {
        let [a, b] = ["192.0.2.1:53", "192.0.2.2:53"].map(|at| at.parse().expect("an address"));
        let start = Instant::now();
        let mut choice = ServerChoice::default();
        let mut at = |second: u64, [first, second_rtt]: [Option<u64>; 2]| {
            let health = [(a, first), (b, second_rtt)].map(|(address, rtt)| ServerHealth {
                address,
                alive: rtt.is_some(),
                forward: false,
                rtt: Nanos::from_micros(rtt.unwrap_or(0)),
                ports: 1,
            });
            choice.server(&[a, b], &health, start + Duration::from_secs(second))
        };
        for (second, times, expected) in [
            // The fastest, not the first.
            (0, [Some(300), Some(200)], b),
            // Times that differ by chance, and the same after a while.
            (1, [Some(150), Some(200)], b),
            (30, [Some(150), Some(200)], b),
            // Much faster.
            (31, [Some(80), Some(200)], a),
            // The reverse at once, and later.
            (32, [Some(300), Some(50)], a),
            (42, [Some(300), Some(50)], b),
            // Dead, and alive again.
            (43, [Some(300), None], a),
            (44, [Some(300), Some(200)], a),
            // All are dead.
            (45, [None, None], a),
        ] {
            assert_eq!(at(second, times), Some(expected), "after {second} s");
        }
        assert_eq!(ServerChoice::default().server(&[b, a], &[], start), Some(b));
        assert_eq!(ServerChoice::default().server(&[], &[], start), None);
    }

    #[test]
    fn transactions_are_looked_for_beyond_the_longest_timeout() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut watch = ExpiryWatch::default();
        assert!(!watch.is_on(start));
        watch.note(1, Nanos::from_secs(10), start);
        // A reload with a shorter timeout, and another query.
        watch.note(1, Nanos::from_secs(1), at(1));
        watch.note(2, Nanos::from_secs(1), at(2));
        assert!(watch.is_on(at(11)) && !watch.is_on(at(13)));
    }
}
