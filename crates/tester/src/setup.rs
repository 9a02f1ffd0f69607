//! A checked request, with everything that a trial needs.

use std::net::SocketAddr;
use std::sync::Arc;

use load::lockstep::BadThreads;
use load::{
    Live, LockStep, LockStepPlan, Measurer, Plan, ReplayPlan, Replayer, Rounds, sockets_for,
};
use measure::any_address;
use measure::pacing::EXPERIMENT;
use measure::{ClockBound, Nanos, Pacing, Qps, StartAt, WaitMode};
use record::TrialRequest;
use record::request::{Engine, Sockets, TrialSpec, Workload};
use udp::{UdpEngine, sources, sys};

use crate::connections::ConnectionSetup;
use crate::error::{Invalid, TesterError};
use crate::kernel_setup::KernelSetup;
use crate::replay::{Replay, ReplayTerms};
use crate::sockets::{addresses, udp_options, workers};
use crate::workload::WorkloadPlan;

/// Fewest source ports for each core of the server: with four over 16 threads that share a port, one of them got 3.3
/// times its share of the queries.
const PORTS_PER_DUT_CORE: usize = 64;

/// Duration of a load that only tests the answers of a server.
pub(crate) const ASKING: Nanos = Nanos::from_millis(100);

/// A checked request, with everything that a trial needs.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(crate) request: TrialRequest,
    pub(crate) workload: WorkloadPlan,
    /// Connections that carry the queries; `None` for UDP.
    pub(crate) connections: Option<ConnectionSetup>,
    /// The way of queries that the kernel sends; `None` for sockets.
    pub(crate) kernel: Option<KernelSetup>,
    pub(crate) command: String,
}

/// Role of one worker over UDP.
pub(crate) enum Role {
    Measurer(Box<Measurer>),
    LockStep(Box<LockStep>),
    Replay(Box<Replayer>),
}

impl engine::Role for Role {
    #[inline]
    fn handle(
        &mut self,
        now: Nanos,
        rx: &engine::RxBatch,
        tx: &mut engine::TxBatch,
    ) -> engine::Next {
        match self {
            Role::Measurer(role) => role.handle(now, rx, tx),
            Role::LockStep(role) => role.handle(now, rx, tx),
            Role::Replay(role) => role.handle(now, rx, tx),
        }
    }

    #[inline]
    fn sent(&mut self, at: Nanos) {
        match self {
            Role::Measurer(role) => role.sent(at),
            Role::LockStep(role) => role.sent(at),
            Role::Replay(role) => role.sent(at),
        }
    }

    fn quiet(&self) -> Nanos {
        match self {
            Role::Replay(role) => role.quiet(),
            _ => Nanos::ZERO,
        }
    }
}

impl Setup {
    /// Checks a request, compiles its query file or reads its capture; `command` is the equivalent command line.
    ///
    /// # Errors
    /// With the field that cannot be accepted.
    pub fn new(mut request: TrialRequest, command: String) -> Result<Self, TesterError> {
        for (field, time) in [("duration", request.duration), ("timeout", request.timeout)] {
            if time == Nanos::ZERO {
                return Err(Invalid::value(field, "must be longer than 0").into());
            }
        }
        for (field, count) in [
            ("sockets.count", request.sockets.count),
            ("sockets.per_worker", request.sockets.per_worker),
        ] {
            if count == Some(0) {
                return Err(Invalid::value(field, "must be at least 1").into());
            }
        }
        if request.step == Some(Nanos::ZERO) {
            return Err(Invalid::value("step", "must be longer than 0").into());
        }
        // dns64perf sends its names in their own order.
        let sequential = !request.pacing.is_timed();
        let workload = match &request.workload {
            Workload::Replay { capture, speed, ports, loops } => {
                let terms = ReplayTerms { speed: *speed, loops: *loops, timeout: request.timeout };
                WorkloadPlan::Replay(Replay::new(capture, ports, terms)?)
            }
            _ => WorkloadPlan::new(&request, sequential)?,
        };
        if let WorkloadPlan::Replay(replay) = &workload {
            (request.pacing, request.duration) = (replay.mean(), replay.duration());
            if let Engine::Streams(connecting) = &mut request.engine {
                connecting.clients = replay.clients();
            }
        }
        let connections = match &request.engine {
            Engine::Udp | Engine::Kernel(_) => None,
            Engine::Streams(connecting) => Some(ConnectionSetup::new(&request, connecting)?),
        };
        if let Engine::Streams(connecting) = &request.engine
            && connecting.retry.is_some_and(|retry| retry >= request.timeout)
        {
            let why = "must be shorter than the timeout, after which nothing is sent again";
            return Err(Invalid::value("engine.streams.retry", why).into());
        }
        let kernel = match request.engine.clone() {
            Engine::Kernel(way) => Some(KernelSetup::new(&mut request, &workload, &way)?),
            _ => None,
        };
        let setup = Setup { request, workload, connections, kernel, command };
        setup.check_pacing()?;
        setup.check_slice()?;
        setup.check_families()?;
        setup.check_targets()?;
        Ok(setup)
    }

    /// Reads the whole of a query file first, for trials of which a bad line must not end one.
    ///
    /// # Errors
    /// If a line is no query.
    pub fn with_whole_input(mut self) -> Result<Self, TesterError> {
        self.workload = self.workload.with_whole_input()?;
        Ok(self)
    }

    /// Refuses an invalid lock-step load, and fewer names than an open loop needs.
    fn check_pacing(&self) -> Result<(), Invalid> {
        let Pacing::LockStep { threads, experiments, .. } = self.request.pacing else {
            let planned = self.planned().unwrap_or(0);
            return self.workload.check_names(planned);
        };
        BadThreads::check(threads).map_err(|why| Invalid::value("pacing", why))?;
        if self.connections.is_some() || matches!(self.workload, WorkloadPlan::Replay(_)) {
            let why = "lockstep works as in dns64perf, which uses UDP; use --pacing window";
            return Err(Invalid::value("pacing", why));
        }
        let each = u64::from(experiments) * u64::from(EXPERIMENT);
        self.workload.check_names(each * u64::from(self.request.slice.of()))
    }

    /// Refuses a slice of a load that only a single Tester can send or judge.
    fn check_slice(&self) -> Result<(), Invalid> {
        let (request, slice) = (&self.request, self.request.slice);
        let refuse = |why: &str| Err(Invalid::value("slice", format!("{slice}: {why}")));
        if slice.is_whole() {
            return Ok(());
        }
        if self.kernel.is_some() {
            return refuse("the engine `kernel` sends whole loads; use the engine `sockets`");
        }
        if request.loops() > 1 {
            return refuse("a slice of a closed loop needs one server");
        }
        if request.goal.is_some() {
            return refuse("a goal is for all slices together: give it to `dnsdyno merge`");
        }
        let workers = slice.workers(self.worker_cpus().len() as u32);
        match self.connections.as_ref().map(|connections| connections.clients) {
            Some(clients) if clients < workers => refuse(&format!(
                "{clients} clients are fewer than the {workers} workers of all slices"
            )),
            _ => Ok(()),
        }
    }

    /// Refuses source addresses of another family than the target's.
    fn check_families(&self) -> Result<(), Invalid> {
        let (target, source) = (self.request.target, self.request.sockets.source);
        match source.map(|source| source.addr()) {
            Some(source) if source.is_ipv4() != target.is_ipv4() => Err(Invalid::value(
                "sockets.source",
                format!("{source} and the target {target} are of different families"),
            )),
            _ => Ok(()),
        }
    }

    /// Refuses further servers of another family than the target's, and any unless the load is over UDP; in a closed loop each needs a
    /// place of the window.
    fn check_targets(&self) -> Result<(), Invalid> {
        let TrialRequest { target, also, pacing, .. } = &self.request;
        let bad = |why: String| Err(Invalid::value("also", why));
        if also.is_empty() {
            return Ok(());
        }
        if let Some(other) = also.iter().find(|other| other.is_ipv4() != target.is_ipv4()) {
            return bad(format!("{other} and the target {target} are of different families"));
        }
        let servers = 1 + also.len();
        let replay = matches!(self.workload, WorkloadPlan::Replay(_));
        let lockstep = matches!(pacing, Pacing::LockStep { .. });
        if self.connections.is_some() || replay || lockstep {
            return bad("several servers require UDP, and a window or a rate".to_owned());
        }
        match pacing.outstanding() {
            Some(outstanding) if (outstanding as usize) < self.worker_cpus().len() => bad(format!(
                "a window of {outstanding} is too small for {servers} servers: raise it"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the setup of another trial of a method; names are counted from the first name of this one.
    ///
    /// The method itself manages the number of names.
    pub fn for_trial(&self, spec: &TrialSpec) -> Self {
        let mut setup = self.clone();
        setup.request.set_trial(spec);
        if let (Some(connections), Some(_)) = (&mut setup.connections, spec.queries_per_connection)
        {
            connections.queries_per_connection = spec.queries_per_connection;
        }
        setup.use_names(spec.first_name, spec.names);
        setup
    }

    /// Selects `names` names from number `first` on, counted from the current first one.
    fn use_names(&mut self, first: u64, names: u64) {
        self.workload.use_names(first, names);
        if let Workload::Namespace(range) = &mut self.request.workload {
            // The request needs the range too: a remote Tester receives only the request.
            (range.first, range.names) = (range.first + first, self.workload.names());
        }
    }

    /// Returns the setup of a load that sends a few of the queries to one of the servers within a
    /// tenth of a second: over sockets, by one client of each transport. Names are the last ones,
    /// which most loads do not reach. Not for replays.
    ///
    /// # Errors
    /// If the connections cannot be set up.
    pub fn asking(
        &self,
        target: SocketAddr,
        queries: u64,
        timeout: Nanos,
    ) -> Result<Self, TesterError> {
        let rate = Qps::new(queries as f64 * 10.0).unwrap_or_default();
        let sockets = Sockets {
            count: Some(1),
            per_worker: None,
            first_port: None,
            ..self.request.sockets.clone()
        };
        let mut request = TrialRequest {
            sockets: Sockets {
                cpus: sockets.cpus.first().copied().into_iter().collect(),
                ..sockets
            },
            engine: self.request.engine.clone(),
            duration: ASKING,
            timeout,
            seed: self.request.seed,
            clock_bound: self.request.clock_bound,
            ..TrialRequest::new(target, self.request.workload.clone(), Pacing::Constant { rate })
        };
        match &mut request.engine {
            Engine::Udp => {}
            Engine::Streams(connecting) => {
                connecting.clients = connecting.transports.len() as u32;
                // Opening the connections first would take additional time.
                connecting.on_demand = true;
                connecting.connect_timeout = connecting.connect_timeout.min(timeout);
            }
            engine @ Engine::Kernel(_) => {
                *engine = Engine::Udp;
                request.sockets.source = None;
            }
        }
        let connections = match &request.engine {
            Engine::Streams(connecting) => Some(ConnectionSetup::new(&request, connecting)?),
            _ => None,
        };
        let (workload, command) = (self.workload.for_asking(), self.command.clone());
        let mut asking = Setup { request, workload, connections, kernel: None, command };
        asking.use_names(self.names().unwrap_or(0).saturating_sub(queries), queries);
        Ok(asking)
    }

    /// Returns the setup of a trial that starts at an instant of this host's clock, which the
    /// caller has checked.
    pub fn starting_at(mut self, at: StartAt) -> Self {
        (self.request.start_at, self.request.clock_bound) = (Some(at), ClockBound::Unchecked);
        self
    }

    /// Returns the setup with another number of clients; the same without clients.
    ///
    /// # Errors
    /// If that number is not possible.
    pub fn with_clients(mut self, clients: u32) -> Result<Self, TesterError> {
        if let Engine::Streams(connecting) = &mut self.request.engine {
            connecting.clients = clients;
            let connecting = connecting.clone();
            self.connections = Some(ConnectionSetup::new(&self.request, &connecting)?);
        }
        Ok(self)
    }

    /// Returns the checked request.
    pub fn request(&self) -> &TrialRequest {
        &self.request
    }

    /// Returns address and port of the server.
    pub fn target(&self) -> SocketAddr {
        self.request.target
    }

    /// Returns the number of names of the workload; `None` if it is unlimited.
    pub fn names(&self) -> Option<u64> {
        self.workload.names()
    }

    /// Checks that there are enough names for `queries`.
    ///
    /// # Errors
    /// If there are fewer names; the error has their number, and the remedy.
    pub fn check_names(&self, queries: u64) -> Result<(), Invalid> {
        self.workload.check_names(queries)
    }

    /// Returns the reason why only the beginning of the capture could be read.
    pub fn incomplete(&self) -> Option<&str> {
        match &self.workload {
            WorkloadPlan::Replay(replay) => replay.incomplete.as_deref(),
            _ => None,
        }
    }

    /// Returns the number of queries that an open loop sends.
    pub(crate) fn planned(&self) -> Option<u64> {
        let TrialRequest { pacing, duration, seed, .. } = self.request;
        pacing.schedule(duration, seed).map(|schedule| schedule.planned())
    }

    /// Returns the number of sockets that each worker opens.
    pub(crate) fn sockets_per_worker(&self, workers: usize) -> usize {
        // The rate is shared with the workers of the other Testers.
        let all = self.request.slice.workers(workers as u32) as usize;
        let needed = sockets_for(&self.request.pacing, self.request.timeout, all as u32);
        // Each server has its own ports.
        let servers = 1 + self.request.also.len();
        let ports = PORTS_PER_DUT_CORE * self.request.dut_cpus.len().max(1) * servers;
        let sockets = &self.request.sockets;
        let wanted = match (self.request.pacing, sockets.per_worker, sockets.count) {
            (Pacing::LockStep { threads, .. }, ..) => (threads as usize).div_ceil(workers),
            (_, Some(each), _) => usize::from(each),
            (_, None, Some(count)) => usize::from(count).div_ceil(all),
            // More are needed from a million queries a second on.
            (_, None, None) => needed.max(ports.div_ceil(all)),
        };
        // Servers that share the workers have the same number of sockets.
        let shared = servers / self.request.loops();
        wanted.next_multiple_of(shared).clamp(1, udp::MAX_SOCKETS)
    }

    /// Makes the engines, one for each worker.
    pub(crate) fn engines(&self, workers: usize) -> Result<Vec<UdpEngine>, TesterError> {
        let TrialRequest { target, sockets, .. } = &self.request;
        let targets: Vec<SocketAddr> = self.request.targets().collect();
        let each = self.sockets_per_worker(workers);
        let anywhere = any_address(target.ip());
        let options = udp_options(sockets);
        if let WorkloadPlan::Replay(_) = self.workload {
            // One socket sends for many clients, each with its own address.
            let any = vec![SocketAddr::new(anywhere, 0); each];
            return (0..workers).map(|_| Ok(UdpEngine::server(&any, false, options)?)).collect();
        }
        let slice = self.request.slice;
        let whole = each * slice.workers(workers as u32) as usize;
        let from = sockets.source.map_or(vec![anywhere], |from| addresses(from, whole));
        let mut all = sources(&from, whole);
        if let Some(first) = sockets.first_port {
            let ports = (first..=u16::MAX).take(all.len());
            all.iter_mut().zip(ports).for_each(|(source, port)| source.set_port(port));
        }
        let own = (0..workers as u32).map(|worker| slice.worker(worker) as usize);
        let own = own.map(|worker| &all[worker * each..(worker + 1) * each]).enumerate();
        let engine = |(worker, sources): (usize, &[SocketAddr])| -> Result<_, TesterError> {
            let mut engine = UdpEngine::new(options)?;
            for (socket, source) in sources.iter().enumerate() {
                let turn = if self.request.loops() > 1 { worker } else { socket };
                engine.connect(targets[turn % targets.len()], *source)?;
            }
            Ok(engine)
        };
        own.map(engine).collect()
    }

    /// Returns the plan of `worker` among `workers`, for an engine with that number of sockets. In a slice of a load the
    /// workers of all slices are counted.
    pub(crate) fn plan(&self, worker: u32, workers: u32, sockets: usize) -> Plan {
        let TrialRequest { pacing, duration, timeout, seed, slice, .. } = self.request;
        let (worker, workers) = (slice.worker(worker), slice.workers(workers));
        Plan {
            pacing,
            duration,
            timeout,
            max_burst: self.request.sockets.max_burst,
            segmented: udp_options(&self.request.sockets).gso,
            adaptive_window: self.connections.as_ref().is_none_or(ConnectionSetup::has_datagrams),
            keep_places: self.request.keep_places
                || self.connections.as_ref().is_some_and(ConnectionSetup::has_streams),
            stop_at: self.request.goal.clone().filter(|_| self.request.early_stop),
            most_outstanding: self
                .request
                .most_outstanding
                .map(|most| most.div_ceil(u64::from(workers))),
            step: self.request.step,
            sockets: sockets as u16,
            seed,
            worker,
            workers,
        }
    }

    /// Makes the role of each worker of a lock-step load; empty for other loads.
    pub(crate) fn lockstep_roles(
        &self,
        workers: u32,
        live: &Arc<Live>,
    ) -> Result<Vec<LockStep>, TesterError> {
        let TrialRequest { pacing, timeout, .. } = self.request;
        let Pacing::LockStep { threads, experiments, anew: pauses } = pacing else {
            return Ok(Vec::new());
        };
        // Each Tester uses all lanes, and separate names, like the client computers of dns64perf.
        let (slice, each) = (self.request.slice, u64::from(experiments) * u64::from(EXPERIMENT));
        let mut workload = self.workload.clone();
        if !slice.is_whole() {
            workload.use_names(u64::from(slice.number() - 1) * each, each);
        }
        let rounds = Rounds::of(workers);
        let role = |worker| {
            let rounds = rounds.clone();
            let plan = LockStepPlan { threads, experiments, timeout, worker, pauses, rounds };
            let role = LockStep::new(plan, workload.worker(0, 1)?, live.clone());
            Ok(role.map_err(|why| Invalid::value("pacing", why))?)
        };
        (0..workers).map(role).collect()
    }

    /// Makes the role of `worker` among `workers` over UDP, of any but a lock-step load.
    pub(crate) fn role(
        &self,
        worker: u32,
        workers: u32,
        sockets: usize,
        live: &Arc<Live>,
    ) -> Result<Role, TesterError> {
        let target = self.request.target;
        let plan = self.plan(worker, workers, sockets);
        if let WorkloadPlan::Replay(replay) = &self.workload {
            let clients = replay.clients() as usize;
            let sources = self.request.sockets.source.map(|from| addresses(from, clients));
            let sources = sources.unwrap_or_default().into();
            let (speed, loops) = (replay.speed, replay.loops);
            let plan = ReplayPlan { plan, speed, loops, target, sources };
            let recording = replay.recording.clone();
            return Ok(Role::Replay(Box::new(Replayer::new(plan, recording, live.clone()))));
        }
        let workload = self.workload.worker(plan.worker, plan.workers)?;
        Ok(Role::Measurer(Box::new(Measurer::new(plan, workload, live.clone()))))
    }

    /// Returns the method by which the workers wait. One that sleeps after each reply makes a
    /// server pay for its wake-ups, a fifth of its time over TCP; so only one sleeps that may be on
    /// the core of its server or of another worker.
    pub(crate) fn wait_mode(&self) -> WaitMode {
        let sockets = &self.request.sockets;
        let beside_server = match &sockets.cpus[..] {
            [] => self.target_is_local(),
            cpus => cpus.iter().any(|cpu| self.request.dut_cpus.contains(cpu)),
        };
        let beside_worker = self.worker_cpus().len() > sockets.cpus.len().max(1);
        let sleeps = sockets.shared_core || beside_server || beside_worker;
        match sockets.wait {
            WaitMode::Auto if sleeps && !self.request.pacing.is_open_loop() => WaitMode::Sleep,
            wait => wait,
        }
    }

    /// Returns the cores of the workers.
    pub(crate) fn worker_cpus(&self) -> Vec<Option<usize>> {
        let cpus = workers(&self.request.sockets);
        if let Pacing::LockStep { threads, .. } = self.request.pacing {
            // Each worker has at least one lane.
            return cpus.into_iter().take(threads as usize).collect();
        }
        let least = self.connections.as_ref().map_or(1, |c| c.least_workers(sys::open_files()));
        // Workers that exist only for their open files, or for their server, share a core.
        let count = cpus.len().max(least).next_multiple_of(self.request.loops());
        cpus.into_iter().cycle().take(count).collect()
    }
}

#[cfg(test)]
mod tests;
