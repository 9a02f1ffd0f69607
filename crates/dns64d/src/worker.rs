//! One worker: a thread with an engine and the role, and the hand that tends both.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use dns64::streams::{FromStreams, ToStreams};
use dns64::{Counters, Dns64, Gauges, ServerHealth, Settings, SocketChange};
use engine::{Engine, EngineCounters, SocketId, Tended, WaitMode};
use measure::Nanos;
use tokio::sync::mpsc;
use udp::{Doorbell, UdpEngine, UdpOptions};

use crate::carrier::{Outgoing, Room};

/// Free ports that are tried for a socket.
const PORT_TRIES: usize = 32;
/// Receive and send buffers of each socket: what 10 ms of absence bring at a million queries a second.
const BUFFER: usize = 4 << 20;
/// How often a worker publishes its counts.
const PUBLISH_EVERY: Nanos = Nanos::from_millis(250);
/// How long queries under way are waited for at the end.
const LAST_ANSWERS: Nanos = Nanos::from_secs(5);
/// Messages from streams that wait for a worker.
const INBOX: usize = 16_384;

/// What a worker shows to others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    pub(crate) counters: Counters,
    pub(crate) gauges: Gauges,
    pub(crate) health: Vec<ServerHealth>,
    pub(crate) engine: EngineCounters,
    /// Messages of streams that found no room.
    pub(crate) lost: u64,
}

/// What others use to speak with a worker.
#[derive(Clone)]
pub(crate) struct Line {
    bell: Doorbell,
    shared: Arc<Shared>,
}

struct Shared {
    inbox: Mutex<Inbox>,
    status: Mutex<Status>,
    /// Set when the worker is to end once nothing is under way.
    ending: AtomicBool,
    /// Messages of streams that found no room, in or out.
    lost: AtomicU64,
}

#[derive(Default)]
struct Inbox {
    messages: VecDeque<FromStreams>,
    settings: Option<Arc<Settings>>,
}

impl Line {
    /// Hands a message to the worker; `false` if it has too many already.
    pub(crate) fn send(&self, message: FromStreams) -> bool {
        let mut inbox = lock(&self.shared.inbox);
        let fits = inbox.messages.len() < INBOX;
        if fits {
            inbox.messages.push_back(message);
        } else {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
        drop(inbox);
        self.bell.ring();
        fits
    }

    /// Has the worker go by other settings.
    pub(crate) fn reload(&self, settings: Arc<Settings>) {
        lock(&self.shared.inbox).settings = Some(settings);
        self.bell.ring();
    }

    /// Has the worker end once nothing is under way.
    pub(crate) fn end(&self) {
        self.shared.ending.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    /// What the worker showed last.
    pub(crate) fn status(&self) -> Status {
        lock(&self.shared.status).clone()
    }
}

/// A lock whose holder cannot have left anything half done.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A worker whose sockets are open.
pub(crate) struct Worker {
    engine: UdpEngine,
    role: Dns64,
    line: Line,
    /// Its number, for those who carry its streams.
    number: usize,
    streams: mpsc::UnboundedSender<Outgoing>,
    /// Room for answers on their way to streams, shared with all workers.
    room: Room,
    published: Nanos,
    /// When the end was asked for.
    ending_since: Option<Nanos>,
}

impl Worker {
    /// Opens the upstream sockets beside the listening ones of `engine`.
    ///
    /// # Errors
    /// A server that cannot be reached, named.
    pub(crate) fn new(
        mut engine: UdpEngine,
        settings: Arc<Settings>,
        seed: [u8; 32],
        number: usize,
        (streams, room): (mpsc::UnboundedSender<Outgoing>, Room),
    ) -> anyhow::Result<Self> {
        let bell = engine.doorbell()?;
        let now = engine.now();
        let role = Dns64::new(settings, seed, now);
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            status: Mutex::default(),
            ending: AtomicBool::new(false),
            lost: AtomicU64::new(0),
        });
        let line = Line { bell, shared };
        let published = Nanos::ZERO;
        let mut worker =
            Worker { engine, role, line, number, streams, room, published, ending_since: None };
        worker.change_sockets(now).context("upstream.servers")?;
        Ok(worker)
    }

    /// To speak with it.
    pub(crate) fn line(&self) -> Line {
        self.line.clone()
    }

    /// Runs until the end is asked for and nothing is under way.
    ///
    /// # Errors
    /// What the engine could not mend.
    pub(crate) fn run(mut self, cpu: Option<usize>) -> anyhow::Result<()> {
        if let Some(cpu) = cpu {
            udp::sys::pin_to_cpus(&[cpu]).context("server.cpus")?;
        }
        let stop = AtomicBool::new(false);
        let Worker { engine, role, line, number, streams, room, published, ending_since } =
            &mut self;
        engine::drive_and_tend(engine, role, WaitMode::Sleep, &stop, |engine, role| {
            let now = engine.now();
            let mut tended = Tended::Nothing;
            if line.take(role) {
                tended = Tended::Role;
            }
            for mut message in role.give() {
                let taken = match &mut message {
                    ToStreams::Answer { message, .. } => room.take(message.len()).or_else(|| {
                        // The stream is told that there is none.
                        *message = Vec::new();
                        line.shared.lost.fetch_add(1, Ordering::Relaxed);
                        None
                    }),
                    ToStreams::Ask { .. } => None,
                };
                // Whoever carries the streams has gone only when all ends.
                let _ = streams.send(Outgoing { worker: *number, message, room: taken });
            }
            // A change that fails now is tried again.
            let _ = change_sockets(engine, role, now);
            if now >= *published + PUBLISH_EVERY {
                *published = now;
                line.publish(engine, role);
            }
            if line.shared.ending.load(Ordering::Relaxed) {
                let since = *ending_since.get_or_insert(now);
                if role.gauges().outstanding == 0 || now > since + LAST_ANSWERS {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            Ok(tended)
        })?;
        line.publish(engine, role);
        Ok(())
    }

    fn change_sockets(&mut self, now: Nanos) -> std::io::Result<()> {
        change_sockets(&mut self.engine, &mut self.role, now)
    }
}

impl Line {
    /// Gives the role what came for it; whether there was anything.
    fn take(&self, role: &mut Dns64) -> bool {
        // Most often nothing is there, and the lock is free.
        let mut inbox = lock(&self.shared.inbox);
        let Inbox { messages, settings } = &mut *inbox;
        let ready = role.has_taken_all();
        let any = ready && !messages.is_empty() || settings.is_some();
        if let Some(settings) = settings.take() {
            role.reload(settings);
        }
        // So what waits is bounded by the inbox, and by what the role took before.
        if ready {
            messages.drain(..).for_each(|message| role.take(message));
        }
        any
    }

    /// Shows how the worker is, and logs which servers have died or come back.
    fn publish(&self, engine: &UdpEngine, role: &Dns64) {
        let health: Vec<ServerHealth> = role.health().collect();
        let mut status = lock(&self.shared.status);
        for server in &health {
            let before = status.health.iter().find(|before| before.address == server.address);
            match (before.is_none_or(|before| before.alive), server.alive) {
                (true, false) => {
                    tracing::warn!(server = %server.address, "upstream does not answer")
                }
                (false, true) => tracing::info!(server = %server.address, "upstream answers again"),
                _ => {}
            }
        }
        let (counters, gauges, engine) = (role.counters(), role.gauges(), engine.counters());
        let lost = self.shared.lost.load(Ordering::Relaxed);
        *status = Status { counters, gauges, health, engine, lost };
    }
}

/// What is asked of the sockets.
pub(crate) fn options() -> UdpOptions {
    UdpOptions { timestamps: false, buffer: BUFFER, ..UdpOptions::default() }
}

/// Opens and changes the sockets that the role wants opened or changed.
fn change_sockets(engine: &mut UdpEngine, role: &mut Dns64, now: Nanos) -> std::io::Result<()> {
    while let Some(change) = role.wanted_change(now) {
        match bind(engine, role, &change) {
            Ok(socket) => role.changed(change, socket),
            Err(error) => {
                role.not_changed(change, now);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Binds a socket to a random port that is free.
fn bind(
    engine: &mut UdpEngine,
    role: &mut Dns64,
    change: &SocketChange,
) -> std::io::Result<SocketId> {
    let any: IpAddr = match change.target {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut last = None;
    for _ in 0..PORT_TRIES {
        let source = SocketAddr::new(any, role.random_port());
        let bound = match change.socket {
            Some(socket) => engine.replace(socket, change.target, source).map(|()| socket),
            None => engine.connect(change.target, source),
        };
        match bound {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => last = Some(error),
            bound => return bound,
        }
    }
    Err(last.unwrap_or_else(|| std::io::Error::other("no free port")))
}
