//! Resolution in the kernel (`kernel.mode = "all"`): what the server does for the program.
//!
//! ```text
//!   settings ──compile──> rules ──┐
//!   thread "kernel-ask": the best server, the way to it ──> maps <── program ──> upstream
//!   thread "kernel-serve": random numbers ──────────────────┘  │
//!        └── queries with a reply that is not plain, or without one <──┘ ──> workers, which continue over sockets
//! ```
//!
//! Nothing is decided twice: the program does what the rules of synthesis say about a plain name, and the workers do all else.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dns64::Settings;
use dns64::plain::{Begun, PlainBlock};
use engine::SocketId;
use engine::clock::monotonic;
use kernel::tester::{Route, Via};
use kernel::{
    Draw, Embedding, Handed, KernelError, MAX_BLOCKS, MAX_RULES, ResolverRules, ResolverWork,
    Rules, Upstream,
};
use measure::Nanos;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::RngCore;
use tokio_util::sync::CancellationToken;

use super::InKernel;
use super::queue::LOOK;
use crate::worker::{Status, WorkerHandle};

/// Longest time for which random numbers are not looked after: more than a core needs for all of its own.
const REFILL_MS: u16 = 10;
/// The same while nothing was resolved lately.
const IDLE_MS: u16 = 40;
/// Interval at which transactions without a reply are looked for, and for how long after the last query to upstream.
const EXPIRE: Duration = Duration::from_millis(50);
const EXPIRE_FOR: Duration = Duration::from_secs(10);
/// Interval at which the way to upstream is looked up.
const ROUTE: Duration = Duration::from_secs(1);
/// Highest number of transactions that are passed on before random numbers are looked after.
const HANDED_AT_ONCE: usize = 512;

/// What the program may resolve, and with which settings.
pub(super) struct Resolving {
    rules: ResolverRules,
    /// The settings; `None` before the first generation, or if their rules have no room in the kernel.
    settings: Option<Arc<Settings>>,
    options: Vec<u8>,
    asked: Option<Upstream>,
}

/// The way to a server.
pub(super) struct Way {
    server: SocketAddr,
    route: Route,
}

impl Resolving {
    pub(super) fn new(rules: ResolverRules) -> Self {
        Resolving { rules, settings: None, options: Vec::new(), asked: None }
    }

    /// Compiles the rules of other settings. The program must not resolve meanwhile; it does not before it can
    /// [ask](Self::ask) again.
    ///
    /// # Errors
    /// If the kernel refuses them.
    pub(super) fn compile(&mut self, settings: &Arc<Settings>) -> Result<(), KernelError> {
        (self.settings, self.asked) = (None, None);
        self.rules.ask(None)?;
        let Some(plain) = settings.plain_rules(MAX_RULES) else {
            tracing::warn!("kernel: no room for all names with rules: the sockets resolve");
            return Ok(());
        };
        let blocks = plain.blocks.into_iter().filter(|block| (block.block as usize) < MAX_BLOCKS);
        let apart = plain.apart.iter().map(|name| name.as_wire().to_vec()).collect();
        self.rules.set(&Rules { embeddings: blocks.map(embedding).collect(), apart })?;
        (self.settings, self.options) = (Some(settings.clone()), plain.options);
        Ok(())
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

    /// Returns the server that the program asks.
    pub(super) fn server(&self) -> Option<SocketAddr> {
        self.asked.as_ref().map(|asked| asked.server)
    }

    /// Lets the program ask a server over a way, or none.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(super) fn ask_over(
        &mut self,
        way: Option<Way>,
        generation: u64,
    ) -> Result<(), KernelError> {
        let settings = self.settings.clone();
        let way = settings.zip(way);
        self.ask(way.map(|(settings, way)| self.upstream(&settings, way, generation)))
    }

    /// Sets how upstream is asked, if anything has changed.
    fn ask(&mut self, upstream: Option<Upstream>) -> Result<(), KernelError> {
        if upstream != self.asked {
            self.rules.ask(upstream.as_ref())?;
            self.asked = upstream;
        }
        Ok(())
    }

    /// Returns how a server is asked over a way.
    fn upstream(&self, settings: &Settings, way: Way, generation: u64) -> Upstream {
        let (config, Way { server, route }) = (&settings.config, way);
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

/// Keeps the way to upstream until the end: the fastest server that is alive, and the hardware address on the way to it.
///
/// # Errors
/// Never; the type is that of all threads.
pub(crate) fn keep_asking(
    kernel: &InKernel,
    workers: &[WorkerHandle],
    end: &CancellationToken,
) -> io::Result<()> {
    let (mut last, mut looked, mut said) = (None, Instant::now(), String::new());
    while !end.is_cancelled() {
        if let Some((settings, generation)) = kernel.resolving_now() {
            let wanted = (generation, best_server(&settings, workers));
            if last != Some(wanted) || looked.elapsed() > ROUTE {
                (last, looked) = (Some(wanted), Instant::now());
                let way = way(&settings, wanted.1);
                let problem = kernel.ask(way, generation).err().unwrap_or_default();
                if problem != said && !problem.is_empty() {
                    tracing::warn!("kernel: {problem}: the sockets resolve");
                }
                said = problem;
            }
        }
        std::thread::sleep(LOOK / 4);
    }
    Ok(())
}

/// Returns the fastest server that is alive, or the first one.
fn best_server(settings: &Settings, workers: &[WorkerHandle]) -> Option<SocketAddr> {
    let health = Status::of_all(workers).health;
    let servers = &settings.config.upstream.servers;
    let usable = |server: &&dns64::ServerHealth| {
        server.alive
            && !server.forward
            && server.rtt > Nanos::ZERO
            && servers.contains(&server.address)
    };
    let best = health.iter().filter(usable).min_by_key(|server| server.rtt);
    best.map(|server| server.address).or(servers.first().copied())
}

/// Returns the way to a server, or why there is none for the program.
fn way(settings: &Settings, server: Option<SocketAddr>) -> Result<Way, String> {
    let config = &settings.config;
    let server = server.ok_or("there is no server upstream")?;
    let device = Some(&config.upstream.route.device).filter(|device| !device.is_empty());
    let via = Via { device: device.cloned(), source: config.source_of(server), neighbour: None };
    let route = Route::find(server, &via).map_err(|error| error.to_string())?;
    if !config.kernel.device.contains(&route.device) {
        let device = route.device;
        return Err(format!("the way to {server} is {device}, which is not in kernel.device"));
    }
    Ok(Way { server, route })
}

/// What serves the program.
pub(crate) struct Serve {
    pub(super) work: ResolverWork,
    pub(super) rng: ChaCha12Rng,
    /// Addresses at which the workers listen, in the order of their sockets.
    pub(super) listen: Vec<SocketAddr>,
}

impl Serve {
    /// Makes random numbers, and passes to the workers what the program leaves to them, until the end.
    ///
    /// # Errors
    /// If the kernel does not give its maps.
    pub(crate) fn run(
        mut self,
        kernel: &InKernel,
        workers: &[WorkerHandle],
        end: &CancellationToken,
    ) -> io::Result<()> {
        let (mut queries, mut asked_at) = (0, None::<Instant>);
        let mut expired_at = Instant::now();
        while !end.is_cancelled() {
            if let Some((settings, _)) = kernel.resolving_now() {
                let rng = &mut self.rng;
                let draw = || draw(rng, |port| settings.config.upstream.is_usable(port));
                self.work.refill(draw).map_err(io::Error::other)?;
            }
            let server = kernel.asked_server();
            for _ in 0..HANDED_AT_ONCE {
                let Some(handed) = self.work.handed() else { break };
                pass(handed, server, &self.listen, workers);
            }
            let now = kernel.queries_asked();
            if now != queries {
                (queries, asked_at) = (now, Some(Instant::now()));
            }
            let is_busy = asked_at.is_some_and(|at| at.elapsed() < EXPIRE_FOR);
            if is_busy && expired_at.elapsed() > EXPIRE {
                expired_at = Instant::now();
                let listen = &self.listen;
                let lost = |handed| pass(handed, None, listen, workers);
                self.work.expired(monotonic(), lost).map_err(io::Error::other)?;
            }
            let wait = PollTimeout::from(if is_busy { REFILL_MS } else { IDLE_MS });
            let ring = self.work.ring();
            // An interrupted wait is a short one.
            let _ = poll(&mut [PollFd::new(ring.as_fd(), PollFlags::POLLIN)], wait);
        }
        Ok(())
    }
}

/// Makes a random number for the program.
fn draw(rng: &mut ChaCha12Rng, is_usable: impl Fn(u16) -> bool) -> Draw {
    let id = rng.next_u32() as u16;
    // A quarter of all ports is usable at least.
    let port = std::iter::repeat_with(|| rng.next_u32() as u16).find(|port| is_usable(*port));
    Draw { id, port: port.unwrap_or_default(), seed: rng.next_u64() }
}

/// Passes a query to a worker, one of those that listen at the address that the client asked.
fn pass(
    handed: Handed,
    server: Option<SocketAddr>,
    listen: &[SocketAddr],
    workers: &[WorkerHandle],
) {
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
    workers[worker].continue_query(Begun {
        socket: SocketId(socket as u16),
        client,
        message: handed.query,
        reply: server.zip(handed.reply),
    });
}
