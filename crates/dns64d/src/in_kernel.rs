//! Answers in the kernel (`[kernel]`): a program in XDP answers queries from the answers that the workers give.
//!
//! ```text
//!   worker ──answers──> map of answers <── program ──> clients
//!   reload, flush ──> next generation ──> program and workers
//! ```
//!
//! With the mode "all" the program also resolves plain queries itself (`resolving`).
//!
//! A worker writes into the memory of the map and waits for nothing. Each answer has a generation, and the program gives those of the
//! current one only: a reload and a flush begin a new generation in the program and in the workers, so that no answer of before is given
//! afterwards, whatever a worker still writes. The program is attached as long as this process lives, or stays after its end (`kernel.after-death`).

pub(crate) mod copies;
mod resolving;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use chacha20::ChaCha12Rng;
use chacha20::rand_core::SeedableRng;
use dns64::config::{AfterDeath, XdpKind};
use dns64::{Config, OUR_UDP_SIZE, Settings};
use ipnet::IpNet;
use kernel::{
    AnswerMap, CacheCounters, ClientNetwork, CounterMap, KernelCache, KernelError, KernelResolver,
    ReplyLimits, Resolved, ResolverCounters, ResolverWork, Serving, XdpMode,
};
use tokio_util::sync::CancellationToken;

use crate::worker::{Status, WorkerHandle};
use copies::{AnswerWriter, Counts};
use resolving::{Resolving, RouteToServer};

pub(crate) use self::resolving::Serve;

/// Sources of packets that the kernel drops, or that get no reply: the program passes them on.
const NO_CLIENTS: [&str; 6] =
    ["0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3", "::/128", "::1/128", "ff00::/8"];

/// Answers in the kernel; without the setting there are none.
#[derive(Clone)]
pub(crate) struct InKernel(Option<Arc<KernelShared>>);

struct KernelShared {
    state: Mutex<KernelState>,
    counters: CounterMap,
    resolved: Option<ResolverCounters>,
    counts: Arc<Counts>,
}

struct KernelState {
    cache: KernelCache,
    serving: Serving,
    generation: u64,
    resolving: Option<Resolving>,
}

/// The program and its maps.
pub(crate) struct Program {
    cache: KernelCache,
    answers: AnswerMap,
    counters: CounterMap,
    resolver: Option<(Resolving, ResolverWork, ResolverCounters)>,
}

/// The attached program, the workers' answer writers, and the state of its threads.
pub(crate) struct StartedKernel {
    pub(crate) kernel: InKernel,
    /// A writer for each worker; empty without the setting.
    pub(crate) writers: Vec<AnswerWriter>,
    pub(crate) serve: Option<Serve>,
}

impl InKernel {
    /// Loads the program and attaches it to all devices, if the configuration requests it; it does
    /// not answer yet. Programs that earlier servers have left on these devices, or that would
    /// answer at the addresses of this server, are removed. This needs rights that the server drops
    /// afterwards.
    ///
    /// # Errors
    /// If this user may not, or a device is missing, has no native mode or another program; the error names the setting.
    pub(crate) fn start(
        config: &Config,
        listen: &[SocketAddr],
        workers: usize,
    ) -> anyhow::Result<StartedKernel> {
        if !config.kernel.is_on() {
            clear_left(&config.kernel.device, listen);
            return Ok(StartedKernel { kernel: InKernel(None), writers: Vec::new(), serve: None });
        }
        let seed = getrandom::u64().context("the system gives no random numbers")?;
        let Program { mut cache, answers, counters, resolver } = load(config, seed)?;
        attach(&mut cache, config)?;
        clear_left(&[], listen);
        let counts = Arc::<Counts>::default();
        let resolves = config.kernel.resolves();
        let writer = |_| AnswerWriter::new(answers.writer(), seed, resolves, counts.clone());
        let writers = (0..workers).map(writer).collect();
        let serving = Serving {
            listen: listen.to_vec(),
            clients: Vec::new(),
            max_udp_size: 0,
            edns_udp_size: OUR_UDP_SIZE,
            traffic_class: 0,
            limits: ReplyLimits::default(),
        };
        let (mut resolving, mut serve, mut resolved) = (None, None, None);
        if let Some((rules, work, counters)) = resolver {
            serve = Some(Serve { work, listen: listen.to_vec() });
            (resolving, resolved) = (Some(rules), Some(counters));
        }
        let state = Mutex::new(KernelState { cache, serving, generation: 0, resolving });
        let inner = KernelShared { state, counters, resolved, counts };
        Ok(StartedKernel { kernel: InKernel(Some(Arc::new(inner))), writers, serve })
    }

    /// Begins a generation with other settings; `notify` must pass the settings and the
    /// generation's number to all workers. Without the kernel the number is 0. If the kernel
    /// refuses, the program does not answer until the next generation.
    pub(crate) fn renew(&self, settings: &Arc<Settings>, notify: impl FnOnce(u64)) {
        let Some(inner) = &self.0 else { return notify(0) };
        let mut state = inner.lock();
        let KernelState { cache, serving, generation, resolving } = &mut *state;
        *generation += 1;
        let server = &settings.config.server;
        serving.clients = clients(settings, &serving.listen);
        serving.max_udp_size = server.max_udp_size;
        serving.traffic_class = server.route.dscp << 2;
        let limits = &settings.config.limits;
        serving.limits = ReplyLimits {
            per_second: limits.responses_per_second,
            same_per_second: limits.same_responses_per_second,
            slip: limits.slip,
            ipv4_bits: limits.client_ipv4_bits,
            ipv6_bits: limits.client_ipv6_bits,
        };
        // No worker has other rules than the program.
        let stopped = cache.configure(serving, 0);
        notify(*generation);
        let compiled = resolving.as_mut().map_or(Ok(()), |resolving| resolving.compile(settings));
        compiled.unwrap_or_else(|error| tracing::error!("kernel: {error}: the sockets resolve"));
        match stopped.map(|()| cache.serve(serving, *generation)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("kernel: {error}: the sockets answer all queries"),
            Err(error) => tracing::error!(
                "kernel: {error}: the program may give answers of the previous rules until a restart"
            ),
        }
    }

    /// Begins a generation with the same settings; `notify` must pass its number and the order to
    /// flush to all workers.
    pub(crate) fn flush(&self, notify: impl FnOnce(u64)) {
        let Some(inner) = &self.0 else { return notify(0) };
        let mut state = inner.lock();
        let KernelState { cache, serving, generation, resolving } = &mut *state;
        *generation += 1;
        if let Err(error) = cache.configure(serving, *generation) {
            tracing::error!("kernel: {error}: the program may give answers that were flushed");
        }
        let begun = resolving.as_mut().map_or(Ok(()), |resolving| resolving.begin(*generation));
        begun.unwrap_or_else(|error| tracing::error!("kernel: {error}: the sockets resolve"));
        notify(*generation);
    }

    /// Adds the kernel's answers to the state of the workers.
    pub(crate) fn add_to(&self, status: &mut Status) {
        if let Some(CacheCounters { answers, nxdomain, types, limited, slipped, .. }) =
            self.counters()
        {
            status.counters.limited_in_front(limited, slipped);
            let resolved = self.resolved().unwrap_or_default();
            status.counters.answered_in_front(answers.saturating_sub(resolved.answers));
            let Resolved { answers, queries, replies, .. } = resolved;
            status.counters.resolved_in_front(answers, queries, replies);
            status.statistics.answered_in_front(&types, nxdomain);
            status.statistics.synthesised_in_front(&resolved.blocks);
        }
    }

    /// Returns name, meaning and value of each counter; none without the setting.
    pub(crate) fn list(&self) -> Vec<(&'static str, &'static str, u64)> {
        let (Some(inner), Some(counters)) = (&self.0, self.counters()) else { return Vec::new() };
        let Counts { stored, lost } = &*inner.counts;
        let CacheCounters { answers, passed, dropped, .. } = counters;
        let mut list = vec![
            ("kernel_answers", "Queries answered in the kernel.", answers),
            ("kernel_passed", "Queries that the kernel left to the sockets.", passed),
            ("kernel_dropped", "Queries dropped since their frame had no room.", dropped),
            ("kernel_stored", "Answers copied to the kernel.", stored.load(Ordering::Relaxed)),
            (
                "kernel_lost",
                "Answers not copied: over 256 KiB at once.",
                lost.load(Ordering::Relaxed),
            ),
        ];
        if let Some(resolved) = self.resolved() {
            let Resolved { answers, queries, handed, strays, no_draw, no_slot, equal, .. } =
                resolved;
            list.extend([
                ("kernel_resolved", "Queries resolved in the kernel.", answers),
                ("kernel_asked", "Queries sent upstream by the kernel.", queries),
                ("kernel_handed", "Queries handed over with a reply that is not plain.", handed),
                (
                    "kernel_strays",
                    "Messages from upstream that the kernel did not wait for.",
                    strays,
                ),
                (
                    "kernel_no_number",
                    "Queries left to the sockets because no random number was ready.",
                    no_draw,
                ),
                (
                    "kernel_no_slot",
                    "Queries left to the sockets because no slot was free.",
                    no_slot,
                ),
                (
                    "kernel_equal",
                    "Queries left to the sockets because the same question was pending.",
                    equal,
                ),
            ]);
        }
        list
    }

    fn resolved(&self) -> Option<Resolved> {
        self.0.as_ref()?.resolved.as_ref()?.read().ok()
    }

    /// Returns the settings under which the program may resolve, and their generation.
    fn resolving_now(&self) -> Option<(Arc<Settings>, u64)> {
        let state = self.0.as_ref()?.lock();
        let settings = state.resolving.as_ref()?.settings()?;
        Some((settings, state.generation))
    }

    /// Fills up the random numbers of the program.
    fn refill(&self) {
        let Some(inner) = &self.0 else { return };
        inner.lock().resolving.iter_mut().for_each(Resolving::refill);
    }

    /// Stops resolution in the kernel, since a thread for the program has failed; the sockets
    /// resolve.
    fn stop_resolving(&self, error: &KernelError) {
        tracing::error!("kernel: {error}: the sockets resolve until a restart");
        let Some(inner) = &self.0 else { return };
        let mut state = inner.lock();
        let KernelState { cache, serving, resolving, .. } = &mut *state;
        let stopped = resolving.as_mut().map_or(Ok(()), Resolving::stop);
        // Without a route to upstream the program only sends cached answers; if the route cannot be
        // removed, the program is stopped.
        if stopped.is_err()
            && let Err(error) = cache.configure(serving, 0)
        {
            tracing::error!("kernel: {error}: queries may be lost until a restart");
        }
    }

    /// Returns how many queries the program has sent to upstream.
    fn queries_asked(&self) -> u64 {
        self.resolved().map_or(0, |resolved| resolved.queries)
    }

    /// Sets the server and route of the program's queries, if the rules of the generation are still
    /// current; without a route the program queries no server, and the reason is returned.
    fn ask(&self, way: Result<RouteToServer, String>, generation: u64) -> Result<(), String> {
        let Some(inner) = &self.0 else { return Ok(()) };
        let mut state = inner.lock();
        let is_current = state.generation == generation;
        let Some(resolving) = state.resolving.as_mut().filter(|_| is_current) else {
            return Ok(());
        };
        let (way, problem) = match way {
            Ok(way) => (Some(way), Ok(())),
            Err(problem) => (None, Err(problem)),
        };
        resolving.ask_over(way, generation).map_err(|error| error.to_string()).and(problem)
    }

    fn counters(&self) -> Option<CacheCounters> {
        let read = |inner: &Arc<KernelShared>| inner.counters.read().ok();
        self.0.as_ref().and_then(read)
    }
}

impl KernelShared {
    fn lock(&self) -> std::sync::MutexGuard<'_, KernelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread with its name.
type NamedThread = (&'static str, Box<dyn FnOnce() -> io::Result<()> + Send>);

/// Returns the threads that serve the program until the end, by name.
pub(crate) fn threads(
    serve: Serve,
    kernel: &InKernel,
    workers: &[WorkerHandle],
    end: &CancellationToken,
) -> [NamedThread; 2] {
    let common = || (kernel.clone(), workers.to_vec(), end.clone());
    let serve = {
        let (kernel, workers, end) = common();
        move || serve.run(&kernel, &workers, &end)
    };
    let ask = {
        let (kernel, workers, end) = common();
        move || resolving::keep_asking(&kernel, &workers, &end)
    };
    [("kernel-serve", Box::new(serve)), ("kernel-ask", Box::new(ask))]
}

/// Loads the program with the configured memory for answers.
///
/// # Errors
/// If this user may not, or the kernel refuses it; the error names the setting.
pub(crate) fn load(config: &Config, seed: u64) -> anyhow::Result<Program> {
    let memory = config.kernel.size.0;
    if config.kernel.resolves() {
        let loaded = KernelCache::load_resolver(memory, seed).context("kernel.mode")?;
        let KernelResolver { cache, answers, counters, rules, draws, work, resolved } = loaded;
        let resolver = Some((Resolving::new(rules, draws, rng()?), work, resolved));
        return Ok(Program { cache, answers, counters, resolver });
    }
    let (cache, answers, counters) = KernelCache::load(memory, seed).context("kernel.mode")?;
    Ok(Program { cache, answers, counters, resolver: None })
}

/// Attaches the program to all devices, in place of programs that earlier servers have left there.
///
/// # Errors
/// If a device is missing, does not have the mode or has another program, or if the program may not stay; the error names the setting.
fn attach(cache: &mut KernelCache, config: &Config) -> anyhow::Result<()> {
    let mode = match config.kernel.xdp {
        XdpKind::Native => XdpMode::Native,
        XdpKind::Generic => XdpMode::Generic,
    };
    for device in &config.kernel.device {
        let attached = match config.kernel.after_death {
            AfterDeath::Detach => cache.attach(device, mode),
            AfterDeath::Answer => cache.attach_to_stay(device, mode),
        };
        match attached {
            Err(error @ KernelError::MayNotStay) => {
                return Err(error).context("kernel.after-death");
            }
            attached => attached.context("kernel.device")?,
        }
    }
    if config.kernel.after_death == AfterDeath::Answer {
        let devices = config.kernel.device.join(", ");
        tracing::info!("kernel: its answers stay on {devices} (kernel.after-death)");
    }
    Ok(())
}

/// Removes the programs that earlier servers have left on these devices, or that answer at one of
/// these addresses.
fn clear_left(devices: &[String], listen: &[SocketAddr]) {
    match kernel::clear_left(devices, listen) {
        Ok(cleared) => cleared.iter().for_each(|device| {
            tracing::info!("kernel: removed the program of an earlier server on {device}");
        }),
        Err(error) => tracing::warn!("kernel: {error}"),
    }
}

/// Returns a generator of random numbers with a seed of the system.
fn rng() -> anyhow::Result<ChaCha12Rng> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("the system gives no random numbers")?;
    Ok(ChaCha12Rng::from_seed(seed))
}

/// Returns whether an error says that this user may not load programs.
pub(crate) fn is_not_permitted(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(KernelError::NotPermitted))
}

/// Returns all clients by network. Addresses that cannot be a source are not permitted.
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
        plain: None,
    });
    // Clients have IPv4 addresses, so that no rule for mapped ones applies to them.
    let mapped: IpNet = parse("::ffff:0:0/96");
    let of_clients = classes.iter().filter(move |class| !mapped.contains(&class.network));
    let permitted = of_clients.map(|class| ClientNetwork {
        address: class.network.network(),
        prefix_len: class.network.prefix_len(),
        allowed: class.allowed && !is_never(&class.network),
        views: class.views.map(|view| view.0),
        plain: settings.plain_block(class),
    });
    permitted.chain(denied).collect()
}
