//! The thread that follows prefixes and probes NAT64s.
//!
//! ```text
//!   worker 0 <── query ipv4only.arpa ──┐
//!   raw socket ──> advertisements ─────┼── Follower (no I/O) ──> main thread ──> all workers
//!   TCP, raw socket <── probes ────────┘
//! ```

use std::io;
use std::net::{SocketAddr, SocketAddrV6};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use anyhow::{Context, ensure};
use dns64::config::{Follow, Probe};
use dns64::follow::{DueProbe, Follower, advertisement, discovery};
use dns64::{Config, Nat64s};
use engine::clock;
use measure::Nanos;
use tokio::io::Interest;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use udp::icmp6::{Icmp6, Icmp6Socket};

use crate::daemon::random;
use crate::event::Event;
use crate::worker::{Order, WorkerHandle};

/// Longest time between checks of due probes.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);
/// Longest wait for upstream's prefixes: a worker stops waiting earlier.
const MAX_DISCOVERY: Duration = Duration::from_secs(60);
/// Number of solicitations of routers, and the time between them (RFC 4861 section 10).
const SOLICITATIONS: u32 = 3;
const SOLICIT_EVERY: Nanos = Nanos::from_secs(4);
/// Octets of the largest ICMPv6 message that is read.
const BUFFER: usize = 9_216;

/// Returns the socket for router advertisements and echo requests, if the configuration needs one.
/// It must be opened before the server drops its rights.
///
/// # Errors
/// When the right to open it is missing.
pub(crate) fn open(config: &Config) -> anyhow::Result<Option<Icmp6Socket>> {
    needs_socket(config)
        .then(Icmp6Socket::open)
        .transpose()
        .context("dns64: router advertisements and echo requests need root, or CAP_NET_RAW")
}

/// Returns whether a configuration needs the socket.
fn needs_socket(config: &Config) -> bool {
    config
        .dns64
        .iter()
        .any(|block| block.follow == Follow::Router || matches!(block.probe, Some(Probe::Echo(_))))
}

pub(crate) struct FollowStart {
    config: Config,
    /// The new configuration after each reload.
    reloads: UnboundedReceiver<Config>,
    socket: Option<Icmp6Socket>,
    worker: WorkerHandle,
    events: SyncSender<Event>,
    end: CancellationToken,
}

/// The main thread's side: the current prefixes.
pub(crate) struct FollowerHandle {
    nat64s: Nat64s,
    reloads: UnboundedSender<Config>,
    /// Whether the socket for router advertisements is open.
    hears_routers: bool,
}

impl FollowerHandle {
    /// Makes both sides for a configuration.
    pub(crate) fn new(
        config: &Config,
        socket: Option<Icmp6Socket>,
        worker: WorkerHandle,
        events: SyncSender<Event>,
        end: CancellationToken,
    ) -> (Self, FollowStart) {
        let (sender, reloads) = unbounded_channel();
        let (nat64s, hears_routers) = (Nat64s::of(config), socket.is_some());
        let start = FollowStart { config: config.clone(), reloads, socket, worker, events, end };
        (FollowerHandle { nat64s, reloads: sender, hears_routers }, start)
    }

    /// Checks that another configuration can be followed.
    ///
    /// # Errors
    /// If it needs a socket that only a start opens: its prefixes would stay unknown.
    pub(crate) fn check(&self, config: &Config) -> anyhow::Result<()> {
        let lacks = needs_socket(config) && !self.hears_routers;
        ensure!(!lacks, "dns64: router advertisements and echo requests need a restart");
        Ok(())
    }

    /// Follows the prefixes of another configuration. Learned prefixes stay if their source stays
    /// the same.
    pub(crate) fn reload(&mut self, config: &Config) -> &Nat64s {
        if !self.nat64s.match_config(config) {
            self.nat64s = Nat64s::of(config);
        }
        // The thread ends last.
        let _ = self.reloads.send(config.clone());
        &self.nat64s
    }

    /// Switches to other prefixes, and logs the differences.
    pub(crate) fn replace(&mut self, nat64s: Nat64s) {
        log_changes(&self.nat64s, &nat64s);
        self.nat64s = nat64s;
    }
}

/// Follows prefixes until the end.
///
/// # Errors
/// When the runtime cannot be made.
pub(crate) fn run(start: FollowStart) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let FollowStart { config, mut reloads, socket, worker, events, end } = start;
        let (results, mut probed) = unbounded_channel();
        let (replies, mut discovered) = unbounded_channel();
        let mut thread = FollowerThread {
            follower: Follower::new(&config, clock::monotonic()),
            socket: socket.map(Raw::new).transpose()?,
            worker,
            events,
            results,
            replies,
            echoes: Vec::new(),
            solicited: 0,
            solicit_at: clock::monotonic(),
            generation: 0,
        };
        let mut buffer = vec![0; BUFFER];
        loop {
            thread.act();
            let wait = tokio::time::sleep(thread.wait());
            tokio::select! {
                () = end.cancelled() => return Ok(()),
                config = reloads.recv() => match config {
                    Some(config) => thread.reload(&config),
                    None => return Ok(()),
                },
                Some((generation, probe, answered)) = probed.recv() => {
                    if generation == thread.generation {
                        thread.probed(&probe, answered);
                    }
                }
                Some((generation, reply)) = discovered.recv() => {
                    if generation == thread.generation {
                        thread.discovered(&reply);
                    }
                }
                received = receive(thread.socket.as_ref(), &mut buffer) => match received {
                    Some((from, Icmp6::Advertisement(message))) => thread.advertised(from, message),
                    Some((from, Icmp6::EchoReply { id, sequence })) => {
                        thread.echoed(from, EchoId { id, sequence });
                    }
                    None => {}
                },
                () = wait => {}
            }
        }
    })
}

/// The socket for ICMPv6, and a handle of it that waits for messages.
struct Raw {
    socket: Icmp6Socket,
    readiness: tokio::net::UdpSocket,
}

impl Raw {
    fn new(socket: Icmp6Socket) -> io::Result<Self> {
        let readiness = tokio::net::UdpSocket::from_std(socket.handle()?)?;
        Ok(Raw { socket, readiness })
    }
}

/// Receives a message; never ends without a socket.
async fn receive<'a>(raw: Option<&Raw>, buffer: &'a mut [u8]) -> Option<(SocketAddrV6, Icmp6<'a>)> {
    let Some(Raw { socket, readiness }) = raw else { return std::future::pending().await };
    readiness.readable().await.ok()?;
    // If there is no message, or the kernel reports an error, which it does once, reading is tried
    // again.
    readiness.try_io(Interest::READABLE, || socket.receive(buffer)).ok()?
}

/// Id and sequence number of an echo request and its reply. Both are random, so that only a host
/// that sees the request can forge a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EchoId {
    id: u16,
    sequence: u16,
}

struct FollowerThread {
    follower: Follower,
    socket: Option<Raw>,
    worker: WorkerHandle,
    events: SyncSender<Event>,
    /// Where tasks send results of probes and replies of upstream, with the number of reloads before them.
    results: UnboundedSender<(u64, DueProbe, bool)>,
    replies: UnboundedSender<(u64, Vec<u8>)>,
    /// Echo requests without a reply, with the end of the wait for it.
    echoes: Vec<(EchoId, DueProbe, Nanos)>,
    /// Number of solicitations, and the time of the next one.
    solicited: u32,
    solicit_at: Nanos,
    /// Number of reloads so far; results of probes from before the last one are dropped.
    generation: u64,
}

impl FollowerThread {
    /// Does all that is due.
    fn act(&mut self) {
        let now = clock::monotonic();
        if self.follower.expire(now) {
            self.publish();
        }
        if self.follower.discovery_at().is_some_and(|at| at <= now) {
            self.follower.discovering();
            self.discover();
        }
        let (silent, waiting) = self.echoes.drain(..).partition(|(_, _, until)| *until <= now);
        self.echoes = waiting;
        let silent: Vec<(EchoId, DueProbe, Nanos)> = silent;
        silent.iter().for_each(|(_, probe, _)| self.probed(probe, false));
        for probe in self.follower.due_probes(now) {
            match probe.probe {
                Probe::Tcp(to) => self.connect(probe, SocketAddr::new(probe.to.into(), to.port())),
                Probe::Echo(_) => self.echo(probe, now),
            }
        }
        if self.may_solicit()
            && self.solicit_at <= now
            && let Some(Raw { socket, .. }) = &self.socket
        {
            self.solicited += 1;
            self.solicit_at = now + SOLICIT_EVERY;
            if let Err(error) = socket.solicit() {
                tracing::warn!("cannot ask routers for their prefixes: {error}");
            }
        }
    }

    /// Returns whether another router solicitation may be sent.
    fn may_solicit(&self) -> bool {
        let asked = self.solicited >= SOLICITATIONS || self.socket.is_none();
        !asked && self.follower.lacks_routers()
    }

    /// Returns the time until something may be due.
    fn wait(&self) -> Duration {
        let ends = self.echoes.iter().map(|(_, _, until)| *until);
        let solicit = self.may_solicit().then_some(self.solicit_at);
        let next = ends.chain(solicit).fold(self.follower.next(), Nanos::min);
        let wait = Duration::from_nanos(next.since(clock::monotonic()).0);
        wait.clamp(Duration::from_millis(1), LONGEST_WAIT)
    }

    /// Sends the known NAT64s to the main thread.
    fn publish(&self) {
        let nat64s = self.follower.nat64s();
        // At the end of the server the event is not needed.
        let _ = self.events.send(Event::Nat64s(nat64s));
    }

    /// Follows the prefixes of another configuration; all prefixes are learned again.
    fn reload(&mut self, config: &Config) {
        if self.follower.nat64s().match_config(config) {
            return;
        }
        self.generation += 1;
        self.follower = Follower::new(config, clock::monotonic());
        self.echoes.clear();
        (self.solicited, self.solicit_at) = (0, clock::monotonic());
    }

    /// Queries upstream's prefixes through a worker.
    fn discover(&self) {
        let (done, mut answer) = unbounded_channel();
        self.worker.order(Order::Discover { done });
        let (replies, generation) = (self.replies.clone(), self.generation);
        tokio::task::spawn_local(async move {
            let reply = tokio::time::timeout(MAX_DISCOVERY, answer.recv()).await;
            // An empty message means a failure.
            let _ = replies.send((generation, reply.ok().flatten().unwrap_or_default()));
        });
    }

    fn discovered(&mut self, reply: &[u8]) {
        let discovery = discovery::read(reply);
        if discovery == discovery::Discovery::Failed {
            tracing::warn!("upstream does not publish its prefixes (ipv4only.arpa)");
        }
        if self.follower.discovered(&discovery, clock::monotonic()) {
            self.publish();
        }
    }

    fn advertised(&mut self, router: SocketAddrV6, message: &[u8]) {
        let Some(prefixes) = advertisement::parse(message) else { return };
        let interface = nix::net::if_::if_indextoname(router.scope_id()).unwrap_or_default();
        let interface = interface.to_string_lossy();
        if self.follower.advertised(router, &interface, &prefixes, clock::monotonic()) {
            self.publish();
        }
    }

    /// Probes a NAT64 with a TCP connection.
    fn connect(&self, probe: DueProbe, to: SocketAddr) {
        let (results, generation) = (self.results.clone(), self.generation);
        tokio::task::spawn_local(async move {
            let timeout = Duration::from_nanos(probe.timeout.0);
            let connected = tokio::time::timeout(timeout, tokio::net::TcpStream::connect(to)).await;
            let _ = results.send((generation, probe, matches!(connected, Ok(Ok(_)))));
        });
    }

    /// Probes a NAT64 with an echo request.
    fn echo(&mut self, probe: DueProbe, now: Nanos) {
        // Without random numbers no probe is sent, and the NAT64 counts as silent.
        let Ok([i1, i0, s1, s0]) = random() else { return self.probed(&probe, false) };
        let echo =
            EchoId { id: u16::from_be_bytes([i1, i0]), sequence: u16::from_be_bytes([s1, s0]) };
        if let Some(Raw { socket, .. }) = &self.socket {
            // An error, such as no route, counts as no answer.
            let _ = socket.echo(probe.to, echo.id, echo.sequence);
        }
        self.echoes.push((echo, probe, now + probe.timeout));
    }

    fn echoed(&mut self, from: SocketAddrV6, echo: EchoId) {
        let same =
            |(sent, probe, _): &(EchoId, DueProbe, Nanos)| *sent == echo && probe.to == *from.ip();
        if let Some(place) = self.echoes.iter().position(same) {
            let (_, probe, _) = self.echoes.swap_remove(place);
            self.probed(&probe, true);
        }
    }

    fn probed(&mut self, probe: &DueProbe, answered: bool) {
        if self.follower.probed(probe, answered, clock::monotonic()) {
            self.publish();
        }
    }
}

/// Logs the differences from the previous prefixes.
fn log_changes(before: &Nat64s, after: &Nat64s) {
    let had = |prefix| before.iter().find(|nat64| nat64.prefix == prefix);
    for nat64 in after.iter() {
        let prefix = nat64.prefix;
        match had(prefix).map(|old| old.works) {
            None => tracing::info!(%prefix, "prefix learned"),
            Some(true) if !nat64.works => tracing::warn!(%prefix, "the NAT64 does not answer"),
            Some(false) if nat64.works => tracing::info!(%prefix, "the NAT64 answers again"),
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|old| after.iter().all(|nat64| nat64.prefix != old.prefix));
    gone.for_each(|old| tracing::info!(prefix = %old.prefix, "prefix no longer in use"));
}
