//! Answers in the kernel (`[kernel]`): a program in XDP answers queries from the answers that the workers give.
//!
//! ```text
//!   worker ──answers──> queue, bounded ──> thread "kernel" ──> map of answers <── program ──> clients
//!   reload, flush ──> next generation ──> program and workers
//! ```
//!
//! No worker waits for the kernel. Each answer has a generation, and the program gives those of the current one only: a reload and a
//! flush begin a new generation in the program and in the workers, so that no answer of before is given afterwards, whatever is
//! still in a queue. The program is attached as long as this process lives.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use dns64::{Config, Mirrored, MirroredAnswer, OUR_UDP_SIZE, Settings};
use ipnet::IpNet;
use kernel::{
    ANSWER_MEMORY, AnswerMap, CacheCounters, ClientNetwork, CounterMap, Encoded, KernelCache,
    KernelError, Serving, Stored,
};
use rand_chacha::rand_core::{OsRng, TryRngCore};
use tokio_util::sync::CancellationToken;

use crate::worker::Status;

/// Highest number of answers that wait for the kernel: 4 MiB.
const QUEUE: usize = 4_096;
/// Longest time in which the end of the server is not seen.
const LOOK: Duration = Duration::from_millis(200);
/// Sources of packets that the kernel drops, or to which no reply goes: the program leaves them to it.
const NO_CLIENTS: [&str; 6] =
    ["0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3", "::/128", "::1/128", "ff00::/8"];

/// Answers in the kernel; without the setting there are none.
#[derive(Clone)]
pub(crate) struct InKernel(Option<Arc<Inner>>);

struct Inner {
    state: Mutex<State>,
    counters: CounterMap,
    queue: Queue,
}

struct State {
    cache: KernelCache,
    serving: Serving,
    generation: u64,
}

/// Numbers of answers that were stored, and that were not.
#[derive(Debug, Default)]
struct Counts {
    stored: AtomicU64,
    lost: AtomicU64,
}

/// The workers' end of the queue.
#[derive(Clone)]
pub(crate) struct Queue {
    sender: Sender<Vec<Encoded>>,
    /// Answers in the queue.
    waiting: Arc<AtomicUsize>,
    counts: Arc<Counts>,
    seed: u64,
}

/// The end of the queue that writes to the kernel.
pub(crate) struct Writer {
    receiver: Receiver<Vec<Encoded>>,
    waiting: Arc<AtomicUsize>,
    counts: Arc<Counts>,
    answers: AnswerMap,
}

impl InKernel {
    /// Loads the program and attaches it to all devices, if the configuration says so; it answers nothing yet. This needs rights that
    /// the server gives away afterwards.
    ///
    /// # Errors
    /// If this user may not, or a device is missing, has no native mode or another program; the error names the setting.
    pub(crate) fn start(
        config: &Config,
        listen: &[SocketAddr],
    ) -> anyhow::Result<(Self, Option<Writer>)> {
        if !config.kernel.is_on() {
            return Ok((InKernel(None), None));
        }
        let seed = OsRng.try_next_u64().context("the system gives no random numbers")?;
        let (mut cache, answers, counters) = load(config, seed)?;
        for device in &config.kernel.device {
            cache.attach(device).context("kernel.device")?;
        }
        let (sender, receiver) = channel();
        let (waiting, counts) = (Arc::<AtomicUsize>::default(), Arc::<Counts>::default());
        let writer = Writer { receiver, waiting: waiting.clone(), counts: counts.clone(), answers };
        let queue = Queue { sender, waiting, counts, seed };
        let serving = Serving {
            listen: listen.to_vec(),
            clients: Vec::new(),
            max_udp_size: 0,
            edns_udp_size: OUR_UDP_SIZE,
            traffic_class: 0,
        };
        let state = Mutex::new(State { cache, serving, generation: 0 });
        Ok((InKernel(Some(Arc::new(Inner { state, counters, queue }))), Some(writer)))
    }

    /// Returns the workers' end of the queue to the kernel.
    pub(crate) fn queue(&self) -> Option<Queue> {
        self.0.as_ref().map(|inner| inner.queue.clone())
    }

    /// Begins a generation with other settings; `tell` must give all workers its number together with them. Without the kernel it
    /// is 0. If the kernel refuses, it answers nothing until the next generation.
    pub(crate) fn renew(&self, settings: &Settings, tell: impl FnOnce(u64)) {
        let Some(inner) = &self.0 else { return tell(0) };
        let mut state = inner.lock();
        let State { cache, serving, generation } = &mut *state;
        *generation += 1;
        let server = &settings.config.server;
        serving.clients = clients(settings, &serving.listen);
        serving.max_udp_size = server.max_udp_size;
        serving.traffic_class = server.route.dscp << 2;
        // No worker has other rules than the program.
        let stopped = cache.configure(serving, 0);
        tell(*generation);
        match stopped.map(|()| cache.serve(serving, *generation)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("kernel: {error}: the sockets answer all queries"),
            Err(error) => tracing::error!(
                "kernel: {error}: it may give answers of the former rules until a restart"
            ),
        }
    }

    /// Begins a generation with the same settings; `tell` must give all workers its number together with the order to flush.
    pub(crate) fn flush(&self, tell: impl FnOnce(u64)) {
        let Some(inner) = &self.0 else { return tell(0) };
        let mut state = inner.lock();
        let State { cache, serving, generation } = &mut *state;
        *generation += 1;
        if let Err(error) = cache.configure(serving, *generation) {
            tracing::error!("kernel: {error}: it may give answers that were flushed");
        }
        tell(*generation);
    }

    /// Adds what the kernel answered to the state of the workers.
    pub(crate) fn add_to(&self, status: &mut Status) {
        if let Some(CacheCounters { answers, nxdomain, types, .. }) = self.counters() {
            status.counters.answered_in_front(answers);
            status.statistics.answered_in_front(&types, nxdomain);
        }
    }

    /// Returns name, meaning and value of each counter; none without the setting.
    pub(crate) fn list(&self) -> Vec<(&'static str, &'static str, u64)> {
        let (Some(inner), Some(counters)) = (&self.0, self.counters()) else { return Vec::new() };
        let Counts { stored, lost } = &*inner.queue.counts;
        let CacheCounters { answers, passed, dropped, .. } = counters;
        vec![
            ("kernel_answers", "Queries answered in the kernel.", answers),
            ("kernel_passed", "Queries that the kernel left to the sockets.", passed),
            ("kernel_dropped", "Queries dropped since their frame had no room.", dropped),
            ("kernel_stored", "Answers copied to the kernel.", stored.load(Ordering::Relaxed)),
            ("kernel_lost", "Answers not copied for want of room.", lost.load(Ordering::Relaxed)),
        ]
    }

    fn counters(&self) -> Option<CacheCounters> {
        let read = |inner: &Arc<Inner>| inner.counters.read().ok();
        self.0.as_ref().and_then(read)
    }
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Passes answers to the kernel; those that the program cannot give are left out, and those without room in the queue are
    /// lost.
    pub(crate) fn pass(&self, mirrored: &Mirrored) {
        let mut lost = mirrored.lost;
        let encoded: Vec<Encoded> =
            mirrored.iter().filter_map(|answer| stored(&answer).encode(self.seed)).collect();
        let count = encoded.len();
        if count > 0 {
            let fits = self.waiting.fetch_add(count, Ordering::Relaxed) + count <= QUEUE;
            // The thread ends last.
            if !fits || self.sender.send(encoded).is_err() {
                self.waiting.fetch_sub(count, Ordering::Relaxed);
                lost += count as u64;
            }
        }
        self.counts.lost.fetch_add(lost, Ordering::Relaxed);
    }
}

impl Writer {
    /// Writes answers to the kernel until the end.
    ///
    /// # Errors
    /// Never; the type is that of all threads.
    pub(crate) fn run(mut self, end: &CancellationToken) -> io::Result<()> {
        loop {
            let answers = match self.receiver.recv_timeout(LOOK) {
                Ok(answers) => answers,
                Err(RecvTimeoutError::Timeout) if !end.is_cancelled() => continue,
                Err(_) => return Ok(()),
            };
            self.waiting.fetch_sub(answers.len(), Ordering::Relaxed);
            for answer in &answers {
                let Counts { stored, lost } = &*self.counts;
                let count = if self.answers.store(answer).is_ok() { stored } else { lost };
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Loads the program with room for as many answers as the configuration has memory for.
///
/// # Errors
/// If this user may not, or the kernel refuses it; the error names the setting.
pub(crate) fn load(
    config: &Config,
    seed: u64,
) -> anyhow::Result<(KernelCache, AnswerMap, CounterMap)> {
    let answers = u32::try_from(config.kernel.size.0 / ANSWER_MEMORY).unwrap_or(u32::MAX);
    KernelCache::load(answers, seed).context("kernel.mode")
}

/// Returns whether an error says that this user may not load programs.
pub(crate) fn is_not_permitted(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(KernelError::NotPermitted))
}

/// Returns an answer for the kernel. Its clock is that of the workers.
fn stored<'a>(answer: &MirroredAnswer<'a>) -> Stored<'a> {
    let MirroredAnswer { generation, qtype, view, rd, cd, dnssec, message, options, stored, until } =
        *answer;
    Stored { generation, qtype, view, rd, cd, dnssec, message, options, stored, until }
}

/// Returns all clients by network. Those at addresses from which no packet may come are not permitted.
fn clients(settings: &Settings, listen: &[SocketAddr]) -> Vec<ClientNetwork> {
    let parse = |network: &str| network.parse().expect("a constant network");
    let own = listen.iter().map(|address| IpNet::from(address.ip().to_canonical()));
    let never: Vec<IpNet> = NO_CLIENTS.into_iter().map(parse).chain(own).collect();
    let is_never = |clients: &IpNet| never.iter().any(|network| network.contains(clients));
    let classes = settings.client_classes();
    let is_own = |network: &&IpNet| classes.iter().all(|class| class.network != **network);
    let denied = never.iter().filter(is_own).map(|network| ClientNetwork {
        address: network.network(),
        prefix_len: network.prefix_len(),
        allowed: false,
        views: [0; 4],
    });
    // Clients have IPv4 addresses, so that no rule for mapped ones is about them.
    let mapped: IpNet = parse("::ffff:0:0/96");
    let of_clients = classes.iter().filter(move |class| !mapped.contains(&class.network));
    let permitted = of_clients.map(|class| ClientNetwork {
        address: class.network.network(),
        prefix_len: class.network.prefix_len(),
        allowed: class.allowed && !is_never(&class.network),
        views: class.views.map(|view| view.0),
    });
    permitted.chain(denied).collect()
}
