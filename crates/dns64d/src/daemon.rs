//! The daemon: sockets, threads, signals.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, anyhow};
use dns64::config::{Change, HostsConfig, changes};
use dns64::{Config, Nat64s, RuleSets, Rules, Settings};
use sd_notify::NotifyState;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use streams::tls::ServerTls;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use udp::{UdpEngine, sys};

use crate::args::Args;
use crate::beat::Beat;
use crate::bind::Bound;
use crate::carrier::{ActiveSettings, Budget, Listener, Places, Threads};
use crate::event::Event;
use crate::in_kernel::InKernel;
use crate::metrics::Source;
use crate::nat64::FollowerHandle;
use crate::observer::Observer;
use crate::reading::{ReadConfig, Reader};
use crate::saver::{self, Saver};
use crate::upstream_tls::{UpstreamTlsMap, upstream_tls};
use crate::worker::{Worker, WorkerHandle};
use crate::{
    beat, carrier, control, dnstap, files, hosts, in_kernel, landlock, log, metrics, nat64,
    privileges, reading,
};

/// Events for the main thread that may wait.
const MAX_EVENTS: usize = 16;

/// Runs until a signal ends it; `text` is the configuration file, `rules` are the rules that it names.
///
/// # Errors
/// When an address cannot be bound, the user cannot be changed, or a worker failed.
pub(crate) fn run(args: &Args, text: &str, config: Config, rules: RuleSets) -> anyhow::Result<()> {
    log::start(&config.server).context("cannot start the log")?;
    sys::raise_open_files();
    let mut signals = Signals::new([SIGHUP, SIGTERM, SIGINT]).context("cannot handle signals")?;
    let workers = match config.server.workers {
        0 => sys::allowed_cpus()?.len(),
        workers => workers,
    };
    let (events, received) = sync_channel(MAX_EVENTS);
    files::log_rules(&rules);
    let settings = Arc::new(Settings::new(config, workers, random()?).with_rules(rules));
    let mut running =
        RunningDaemon::start(settings, &args.config, text.to_owned(), events.clone())?;
    if running.settings.config.kernel.is_on() {
        running.renew();
    }
    hosts::follow(running.shared.clone(), events.clone())?;
    let on_signals = signals.handle();
    let to_main = events.clone();
    let mut reader = Reader::default();
    let signals = std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in &mut signals {
            let reload = reading::ReloadRequest { asked: None, dry_run: false };
            let event = if signal == SIGHUP { Event::Reload(reload) } else { Event::End };
            if events.send(event).is_err() {
                return;
            }
        }
    })?;
    let _ = sd_notify::notify(false, &[NotifyState::Ready]);
    for event in received {
        match event {
            Event::Reload(request) => {
                let since = NotifyState::monotonic_usec_now().map_err(anyhow::Error::from)?;
                let _ = sd_notify::notify(false, &[NotifyState::Reloading, since]);
                if !reader.begin(&args.config, &running.tls, request, &to_main) {
                    let _ = sd_notify::notify(false, &[NotifyState::Ready]);
                }
            }
            Event::Read { number, result } => {
                if let Some(request) = reader.end(number) {
                    let result = running.reload(&args.config, *result, request.dry_run);
                    // The operator may have disconnected; then the result is dropped.
                    drop(request.asked.map(|asked| asked.send(result)));
                }
                let again = reading::ReloadRequest { asked: None, dry_run: false };
                if !reader.take_again()
                    || !reader.begin(&args.config, &running.tls, again, &to_main)
                {
                    let _ = sd_notify::notify(false, &[NotifyState::Ready]);
                }
            }
            Event::Nat64s(nat64s) => running.use_nat64s(nat64s),
            Event::Hosts(config, hosts) => running.use_hosts(&config, hosts),
            Event::End => break,
        }
    }
    let _ = sd_notify::notify(false, &[NotifyState::Stopping]);
    let result = running.end();
    on_signals.close();
    // The thread has no result.
    let _ = signals.join();
    result
}

struct RunningDaemon {
    /// The configuration file that it runs with, and the one that it started with.
    text: String,
    started: String,
    settings: Arc<Settings>,
    /// Active settings, for the carrier.
    shared: carrier::Shared,
    /// Certificates for clients of the encrypted transports.
    tls: Vec<ServerTls>,
    handles: Vec<WorkerHandle>,
    workers: Vec<JoinHandle<anyhow::Result<()>>>,
    others: Vec<JoinHandle<std::io::Result<()>>>,
    end: CancellationToken,
    /// Ends the accepting of connections; the end of the server also stops it.
    accepting: CancellationToken,
    /// Bounds the memory that streams reserve for messages.
    budget: Budget,
    /// The prefixes in use, as learned or configured.
    following: FollowerHandle,
    /// Answers in the kernel; their program is detached when this is dropped.
    kernel: InKernel,
}

impl RunningDaemon {
    /// Binds all sockets, changes to an ordinary user, and starts all threads.
    fn start(
        settings: Arc<Settings>,
        path: &Path,
        text: String,
        events: SyncSender<Event>,
    ) -> anyhow::Result<Self> {
        let config = &settings.config;
        let upstream_tls = upstream_tls(config)?;
        let Bound { engines, addresses, listeners, tls, metrics } =
            Bound::new(config, settings.workers)?;
        let control = Some(&config.control.socket).filter(|path| !path.as_os_str().is_empty());
        let control = control.map(|path| control::listen(path)).transpose()?;
        let icmp6 = nat64::open(config)?;
        let in_kernel = InKernel::start(config, &addresses, engines.len())?;
        privileges::drop_to(&config.server.user)?;
        landlock::restrict(path, config);
        let (threads, inboxes) = Threads::new(settings.stream_threads());
        let budget = Budget::new(settings.stream_memory(), settings.stream_memory_of_network());
        let (queue, dnstap) = dnstap::queue(&config.dnstap).unzip();
        let observers = Observer::for_workers(queue, in_kernel.writers, engines.len());
        let ready = make_workers(&settings, engines, &threads, &budget, observers)?;
        let handles: Vec<WorkerHandle> = ready.iter().map(Worker::handle).collect();
        let workers = run_workers(ready, &config.server.cpus)?;

        let active = ActiveSettings { settings: settings.clone(), upstream_tls };
        let shared = Arc::new(Mutex::new(active));
        let end = CancellationToken::new();
        let accepting = end.child_token();
        let common = carrier::Common {
            threads,
            workers: handles.clone(),
            active: shared.clone(),
            places: Arc::new(Places::new(budget.clone())),
            budget: budget.clone(),
            end: end.clone(),
            accepting: accepting.clone(),
        };
        let mut beats: Vec<Beat> = handles.iter().map(|handle| handle.beat().clone()).collect();
        let mut others = run_streams(&common, listeners, inboxes, &mut beats)?;
        let (following, start) =
            FollowerHandle::new(config, icmp6, handles[0].clone(), events.clone(), end.clone());
        others.push(thread("nat64".into(), move || nat64::run(start))?);
        let services = Services {
            metrics,
            control,
            dnstap,
            serve: in_kernel.serve,
            source: Source::new(&common, beats, in_kernel.kernel.clone()),
            path: config.control.socket.clone(),
            listen: addresses.iter().map(ToString::to_string).collect(),
            events,
        };
        services.start(&end, &mut others)?;
        log_ready(&settings, &addresses);
        Ok(RunningDaemon {
            started: text.clone(),
            text,
            settings,
            shared,
            tls,
            handles,
            workers,
            others,
            end,
            accepting,
            budget,
            following,
            kernel: in_kernel.kernel,
        })
    }

    /// Gives all workers the current settings; the kernel sends no answers of earlier settings.
    fn renew(&self) {
        self.kernel.renew(&self.settings, |generation| {
            let reload = |worker: &WorkerHandle| worker.reload(generation, self.settings.clone());
            self.handles.iter().for_each(reload);
        });
    }

    /// Uses the configuration that was read; one with errors changes nothing, and a dry run changes
    /// nothing either. Returns the changed settings.
    fn reload(
        &mut self,
        path: &Path,
        read: anyhow::Result<ReadConfig>,
        dry_run: bool,
    ) -> Result<Vec<Change>, String> {
        let ReadConfig { text, mut config, upstream_tls, rules, certificates } = read
            .and_then(|read| self.following.check(&read.config).map(|()| read))
            .map_err(|error| {
                let error = format!("{}: {error:#}; nothing was changed", path.display());
                tracing::error!("{error}");
                error
            })?;
        let changes = changes(&self.text, &text, &self.started);
        if dry_run {
            return Ok(changes);
        }
        // These change only with a restart: what clients discover, and the memory in use.
        let running = &self.settings.config;
        config.dnstap = running.dnstap.clone();
        config.tls = running.tls.clone();
        config.limits.outstanding = running.limits.outstanding;
        certificates.into_iter().for_each(|(tls, config)| tls.replace(config));
        for Change { key, .. } in changes.iter().filter(|change| change.needs_restart) {
            tracing::warn!("a change of {key} needs a restart");
        }
        log::set_level(config.server.log);
        let Settings { workers, cookie_secret, .. } = *self.settings;
        files::log_rules(&rules);
        let nat64s = self.following.reload(&config);
        let settings = Settings::following(config, nat64s, workers, cookie_secret);
        self.apply(settings.with_rules(rules), Some(upstream_tls));
        self.budget.resize(self.settings.stream_memory(), self.settings.stream_memory_of_network());
        self.text = text;
        let keys: Vec<&str> = changes.iter().map(|change| change.key.as_str()).collect();
        tracing::info!(changed = keys.join(", "), "{}: configuration read again", path.display());
        Ok(changes)
    }

    /// Gives all threads other settings.
    fn apply(&mut self, settings: Settings, upstream_tls: Option<UpstreamTlsMap>) {
        self.settings = Arc::new(settings);
        let mut active = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        active.settings = self.settings.clone();
        upstream_tls.into_iter().for_each(|tls| active.upstream_tls = tls);
        drop(active);
        self.renew();
    }

    /// Uses new prefixes, unless their configuration was replaced since they were learned.
    fn use_nat64s(&mut self, nat64s: Nat64s) {
        if nat64s.match_config(&self.settings.config) {
            self.apply(self.settings.with_nat64s(&nat64s), None);
            self.following.replace(nat64s);
        }
    }

    /// Uses new names of hosts, unless other files were configured since they were read.
    fn use_hosts(&mut self, config: &HostsConfig, hosts: Arc<Rules>) {
        if *config == self.settings.config.hosts {
            let skipped = hosts.skipped();
            self.apply(self.settings.with_hosts(hosts), None);
            tracing::info!(skipped, "names of hosts read again");
        }
    }

    /// Ends all threads after pending questions are answered.
    fn end(self) -> anyhow::Result<()> {
        tracing::info!("stopping");
        // Connections that are not accepted wait in the kernel for the next server.
        self.accepting.cancel();
        let saver = Saver::create(&self.settings);
        self.handles.iter().for_each(|handle| handle.end(saver.clone()));
        let mut result = Ok(());
        for worker in self.workers {
            match worker.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => result = Err(error),
                Err(_) => result = Err(anyhow!("a worker panicked")),
            }
        }
        saver.into_iter().for_each(Saver::finish);
        self.end.cancel();
        for other in self.others {
            match other.join() {
                Ok(ended) => ended?,
                Err(_) => return Err(anyhow!("a thread panicked")),
            }
        }
        result
    }
}

/// Makes the workers, with the answers of the last server's snapshot for their caches.
fn make_workers(
    settings: &Arc<Settings>,
    engines: Vec<UdpEngine>,
    threads: &Threads,
    budget: &Budget,
    observers: Vec<Observer>,
) -> anyhow::Result<Vec<Worker>> {
    let snapshot = saver::read(settings);
    let make = |(number, (engine, observer))| {
        let (threads, budget) = (threads.clone(), budget.clone());
        let mut worker =
            Worker::new(engine, settings.clone(), random()?, number, threads, budget, observer)?;
        snapshot.iter().for_each(|snapshot| worker.restore(snapshot));
        anyhow::Ok(worker)
    };
    engines.into_iter().zip(observers).enumerate().map(make).collect()
}

/// Starts the threads of the workers, pinned to these cores in turn if there are any.
fn run_workers(
    ready: Vec<Worker>,
    cpus: &[usize],
) -> anyhow::Result<Vec<JoinHandle<anyhow::Result<()>>>> {
    let mut threads = Vec::new();
    for (number, worker) in ready.into_iter().enumerate() {
        let cpu = (!cpus.is_empty()).then(|| cpus[number % cpus.len()]);
        threads.push(thread(format!("worker-{number}"), move || worker.run(cpu))?);
    }
    Ok(threads)
}

/// Starts the threads of the streams, which share the listeners; adds their signs of life to `beats`.
fn run_streams(
    common: &carrier::Common,
    listeners: Vec<Listener>,
    inboxes: Vec<UnboundedReceiver<carrier::Message>>,
    beats: &mut Vec<Beat>,
) -> anyhow::Result<Vec<JoinHandle<std::io::Result<()>>>> {
    let mut started = Vec::new();
    let listeners = share(listeners, inboxes.len())?;
    for (number, (listeners, messages)) in listeners.into_iter().zip(inboxes).enumerate() {
        let beat = Beat::new(format!("streams-{number}"));
        beats.push(beat.clone());
        let name = beat.name.clone();
        let common = common.clone();
        let start = carrier::CarrierStart { thread: number, listeners, messages, beat, common };
        started.push(thread(name, move || carrier::run(start))?);
    }
    Ok(started)
}

/// State of the threads that handle no queries.
struct Services {
    metrics: Option<TcpListener>,
    control: Option<UnixListener>,
    dnstap: Option<dnstap::Writer>,
    serve: Option<in_kernel::Serve>,
    source: Source,
    path: PathBuf,
    listen: Vec<String>,
    events: SyncSender<Event>,
}

impl Services {
    /// Starts metrics, control and the watchdog.
    fn start(
        self,
        end: &CancellationToken,
        threads: &mut Vec<JoinHandle<std::io::Result<()>>>,
    ) -> anyhow::Result<()> {
        let Services { metrics, control, dnstap, serve, source, path, listen, events } = self;
        let in_kernel =
            serve.map(|serve| in_kernel::threads(serve, &source.kernel, &source.workers, end));
        let watched = (source.beats.clone(), end.clone());
        if let Some(listener) = metrics {
            let (source, end) = (source.clone(), end.clone());
            threads.push(thread("metrics".into(), move || metrics::run(listener, source, end))?);
        }
        if let Some(listener) = control {
            let started = Instant::now();
            let server = control::Server { path, source, listen, events, started };
            let end = end.clone();
            threads.push(thread("control".into(), move || control::run(listener, server, &end))?);
        }
        if let Some(writer) = dnstap {
            let end = end.clone();
            threads.push(thread("dnstap".into(), move || writer.run(&end))?);
        }
        for (name, body) in in_kernel.into_iter().flatten() {
            threads.push(thread(name.into(), body)?);
        }
        threads.push(thread("watchdog".into(), move || beat::watch(&watched.0, &watched.1))?);
        Ok(())
    }
}

/// Logs that the server is ready.
fn log_ready(settings: &Settings, addresses: &[SocketAddr]) {
    let listen: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let prefixes = settings.policy.prefixes().flatten();
    let prefixes: Vec<String> = prefixes.map(|prefix| prefix.to_string()).collect();
    tracing::info!(
        listen = listen.join(", "),
        prefixes = prefixes.join(", "),
        workers = settings.workers,
        "ready"
    );
}

/// Returns random octets of the operating system.
pub(crate) fn random<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut octets = [0; N];
    getrandom::fill(&mut octets).context("the system gives no random numbers")?;
    Ok(octets)
}

/// Shares the listeners between threads: each accepts connections over TCP from all of them; each
/// QUIC socket belongs to one thread, since it assigns packets to connections.
fn share(listeners: Vec<Listener>, threads: usize) -> std::io::Result<Vec<Vec<Listener>>> {
    let mut shares: Vec<Vec<Listener>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, listener) in listeners.into_iter().enumerate() {
        let owner = number % threads;
        for (thread, share) in shares.iter_mut().enumerate() {
            if thread != owner {
                share.extend(listener.try_clone()?);
            }
        }
        shares[owner].push(listener);
    }
    Ok(shares)
}

/// Starts a thread; if it fails, the server ends.
fn thread<E: std::fmt::Display + Send + 'static>(
    name: String,
    body: impl FnOnce() -> Result<(), E> + Send + 'static,
) -> std::io::Result<JoinHandle<Result<(), E>>> {
    std::thread::Builder::new().name(name.clone()).spawn(move || {
        /// Ends the server when the thread fails or panics.
        struct FailureGuard(bool);
        impl Drop for FailureGuard {
            fn drop(&mut self) {
                if !self.0 {
                    let _ = signal_hook::low_level::raise(SIGTERM);
                }
            }
        }
        let mut guard = FailureGuard(false);
        let result = body();
        if let Err(error) = &result {
            tracing::error!("{name}: {error}");
        }
        guard.0 = result.is_ok();
        result
    })
}
