//! A run in progress: the visits of its cells, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use experiment::file::Role;
use experiment::settings::{Idle, TesterSettings};
use experiment::{
    BenchError, Joined, Method, OneHost, Point, Visit, capacity, visit_estimate, visits,
};
use measure::{Nanos, Path as LinkPath};
use record::{CellRecord, Certificate, EngineKind, Run, Skipped, TrialRecord};
use wire::Namespace;
use zone::ZoneRecords;

use crate::adapter::variables;
use crate::adapter::{Adapter, AdapterError};
use crate::remote::hosts::RemoteDut;
use crate::runs::bench::Upstream;
use crate::runs::run::{Checked, Event, RunError, RunOptions, authority};
use crate::server::authdns::{self, Serves};
use crate::server::query_stream::{ColdInternet, Prepared, QueryStream};
use crate::server::question_plan::QuestionPlan;
use crate::server::replication::SharedFiles;
use crate::server::zonefile::{check_size, most_names, write_zone};
use crate::server::{Installed, LabEnv, ServerError, Service};
use crate::testbed::enter::{Lab, NOT_ROOT};
use crate::testbed::reserve::IdlePolling;
use crate::testbed::tuning::Tuning;
use crate::testbed::{Host, PORT, Testbed};

/// Reason why a visit ended without findings.
#[derive(Clone)]
pub(crate) enum Shortfall {
    /// This machine cannot measure the cell; the run is complete without it.
    Cannot(String),
    /// The visit failed; the run is incomplete without it.
    Failed(String),
    /// The user has interrupted the run.
    Interrupted,
}

impl From<ServerError> for Shortfall {
    fn from(e: ServerError) -> Self {
        Shortfall::Failed(e.to_string())
    }
}

impl From<BenchError> for Shortfall {
    fn from(e: BenchError) -> Self {
        match e {
            BenchError::Interrupted => Shortfall::Interrupted,
            other => Shortfall::Failed(other.to_string()),
        }
    }
}

/// A cell with its results so far.
pub(crate) struct Cell {
    pub(crate) record: CellRecord,
    /// Trials of the interrupted repeat, which are replayed.
    pub(crate) kept: Vec<TrialRecord>,
    /// Whether a visit has failed, so that there are no further ones.
    pub(crate) given_up: bool,
    /// Number of visits up to the last one in which the server has died.
    pub(crate) deaths: u32,
}

/// A run in progress: its testbed, its record so far, and the visits that are left.
pub(crate) struct Session<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) checked: &'a Checked<'a>,
    pub(crate) options: &'a RunOptions,
    pub(crate) testbed: Testbed,
    pub(crate) dir: &'a Path,
    began: Instant,
    installed: BTreeMap<String, Installed>,
    zones: Vec<(Namespace, ZoneRecords, PathBuf)>,
    streams: Vec<(QueryStream, Prepared)>,
    // Makes idle cores poll or sleep until the run ends; absent if this process may not set this.
    idle: Option<IdlePolling>,
    pub(crate) made: SharedFiles,
    // Engine of the queries over UDP of each point, and the Tester's certificate with each engine that is used.
    pub(crate) engines: Vec<EngineKind>,
    pub(crate) certificates: Vec<Certificate>,
    // Why the kernel does not carry the trials of points that leave the choice to the lab.
    pub(crate) no_kernel: Option<String>,
    // Remote host of the servers; absent if all are here.
    pub(crate) remote_dut: Option<RemoteDut>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        lab: &'a Lab,
        checked: &'a Checked<'a>,
        options: &'a RunOptions,
        testbed: Testbed,
        dir: &'a Path,
        idle: Option<IdlePolling>,
        remote_dut: Option<RemoteDut>,
    ) -> Self {
        let (installed, zones, made) = (BTreeMap::new(), Vec::new(), SharedFiles::new());
        let (streams, began) = (Vec::new(), Instant::now());
        let (engines, certificates, no_kernel) = (Vec::new(), Vec::new(), None);
        Self {
            lab,
            checked,
            options,
            testbed,
            dir,
            began,
            installed,
            zones,
            streams,
            idle,
            made,
            engines,
            certificates,
            no_kernel,
            remote_dut,
        }
    }

    /// Chooses the engines and certifies the Tester, then makes all visits.
    pub(crate) fn run(
        &mut self,
        run: &mut Run,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), RunError> {
        let mut cells = self.cells();
        for (v, why) in self.try_out() {
            let index = self.index(&v);
            cells[index].given_up = true;
            self.note(why, &cells[index].record, run, notify);
        }
        if Self::any_left(&cells) {
            self.choose_engines(notify)?;
            self.certify_cells(&mut cells);
        }
        let common = self.checked.experiment.common();
        let servers = self.checked.adapters.len();
        let points = self.checked.experiment.points.iter();
        let repeats: Vec<u32> = points.map(|point| point.settings.repeats).collect();
        let mut all = visits(servers, &repeats, common.order, self.options.seed);
        all.retain(|v| !self.is_left_out(v.server, v.point));
        let done = |v: &Visit, cells: &[Cell]| cells[self.index(v)].record.has_repeat(v.repeat);
        let left: Vec<Visit> = all.iter().copied().filter(|v| !done(v, &cells)).collect();
        let is_planned = |(i, _): &(usize, &Cell)| !self.is_left_out(i % servers, i / servers);
        let planned = cells.iter().enumerate().filter(is_planned).map(|(_, cell)| &cell.record);
        notify(Event::Planned(&planned.cloned().collect::<Vec<_>>(), self.estimate(&left)));
        let (mut cut, mut compared) = (BTreeSet::new(), BTreeSet::new());
        // The last visit, without visits to skipped servers; whether its round began after the budget.
        let (mut last, mut ended): (Option<Visit>, bool) = (None, false);
        for (i, v) in left.iter().enumerate() {
            let index = self.index(v);
            let over = common.budget.is_some_and(|b| self.began.elapsed() >= Duration::from(b));
            ended = over && (ended || last.is_none_or(|last| last.repeat != v.repeat));
            if cells[index].is_over(ended) || compared.contains(&v.point) {
                continue;
            }
            if self.is_interrupted() {
                run.complete = false;
                break;
            }
            if common.method == Method::Capacity {
                if self.is_enough(&mut cells, last.replace(*v), v, over) {
                    break;
                }
            } else if over {
                cut.insert(index);
                continue;
            }
            notify(Event::Visit {
                cell: &cells[index].record,
                repeat: v.repeat,
                number: (all.len() - left.len() + i + 1, all.len()),
                remaining: self.estimate(&left[i..]),
            });
            if common.method.compares() {
                self.visit_all(v, &mut compared, &mut cells, run, notify);
            } else if let Err(shortfall) = self.visit(v, &mut cells[index], notify) {
                cells[index].given_up = true;
                self.note(shortfall, &cells[index].record, run, notify);
            }
        }
        self.note_cut(&cut, &cells, run, notify);
        self.finish_capacities(&mut cells, notify);
        // Void repeats are left to `--resume`.
        run.complete &= cells.iter().all(|cell| cell.record.void_repeats.is_empty());
        let measured = |cell: &CellRecord| cell.repeats_made() > 0 || !cell.trials.is_empty();
        run.results = cells.into_iter().map(|cell| cell.record).filter(measured).collect();
        share_self_test(&mut run.results);
        Ok(())
    }

    /// Notes the cells for which the time was too short.
    fn note_cut(
        &self,
        cut: &BTreeSet<usize>,
        cells: &[Cell],
        run: &mut Run,
        notify: &mut dyn FnMut(Event<'_>),
    ) {
        for &index in cut {
            let point = &self.checked.experiment.points[index / self.checked.adapters.len()];
            let (made, of) = (cells[index].record.repeats, point.settings.repeats);
            let why = format!("the time budget was used up after {made} of {of} repeats");
            self.note(Shortfall::Cannot(why), &cells[index].record, run, notify);
        }
    }

    /// Returns the questions of a visit, adapted to its server.
    pub(crate) fn question_plan(&self, v: &Visit) -> QuestionPlan {
        self.checked.questions[v.point].for_server(&self.checked.adapters[v.server])
    }

    /// Returns the number of a visit's cell.
    fn index(&self, v: &Visit) -> usize {
        v.point * self.checked.adapters.len() + v.server
    }

    /// Returns whether a server has no cell of its own at a point.
    pub(crate) fn is_left_out(&self, server: usize, point: usize) -> bool {
        let (adapters, points) = (&self.checked.adapters, &self.checked.experiment.points);
        variables::is_left_out(&adapters[server], points, point)
    }

    /// Returns the expected time of visits: within the budget, plus the minimum number of rounds.
    fn estimate(&self, visits: &[Visit]) -> Nanos {
        let points = &self.checked.experiment.points;
        let time_until = |repeat: u32| {
            let made = visits.iter().filter(|v| v.repeat < repeat);
            let all = made.map(|v| {
                let loads = self.checked.adapters[v.server].loads_zones();
                visit_estimate(&points[v.point].settings, loads)
            });
            all.fold(Nanos::ZERO, |sum, time| sum + time)
        };
        let whole = time_until(u32::MAX);
        let common = self.checked.experiment.common();
        let least = if common.method == Method::Capacity { capacity::MIN_ROUNDS } else { 0 };
        let left = common.budget.map(|budget| budget.since(Nanos::from(self.began.elapsed())));
        left.map_or(whole, |left| left.max(time_until(least)).min(whole))
    }

    /// Makes the cells, with the earlier results of a resumed run.
    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for point in &self.checked.experiment.points {
            for adapter in &self.checked.adapters {
                let mut settings = variables::cell_settings(adapter, point);
                if adapter.remote.is_none()
                    && let Some(cores) = self.server_cores(&point.settings)
                {
                    settings.entry("cores".to_owned()).or_insert(cores.to_string());
                }
                let method = point.settings.method;
                let mut record = CellRecord::new(&adapter.name, settings, method.recorded());
                record.over = method.over().map(str::to_owned);
                record.notes = variables::notes(adapter, point);
                self.know_windows(&mut record);
                let mut resumed = self.options.resumed.iter().flat_map(|run| &run.results);
                let mut kept = Vec::new();
                if let Some(old) = resumed.find(|r| r.is(&record.server, &record.settings)) {
                    record = old.clone();
                    // Trials of the repeat that did not end are replayed; a void repeat did end.
                    let over = |t: &TrialRecord| t.repeat < old.repeats_made();
                    kept = old.trials.iter().filter(|t| !over(t)).cloned().collect();
                    record.trials.retain(over);
                }
                cells.push(Cell { record, kept, given_up: false, deaths: 0 });
            }
        }
        cells
    }

    /// Records why a cell was not measured.
    pub(crate) fn note(
        &self,
        shortfall: Shortfall,
        cell: &CellRecord,
        run: &mut Run,
        notify: &mut dyn FnMut(Event<'_>),
    ) {
        let (why, complete) = match shortfall {
            Shortfall::Cannot(why) => (why, true),
            Shortfall::Failed(why) => (why, false),
            Shortfall::Interrupted => ("interrupted".to_owned(), false),
        };
        run.complete &= complete;
        let settings = if self.checked.experiment.points.len() > 1 {
            cell.settings.clone()
        } else {
            BTreeMap::new()
        };
        let skipped = Skipped { server: cell.server.clone(), settings, why };
        notify(Event::Skipped(&skipped));
        run.skipped.push(skipped);
    }

    pub(crate) fn env(&self) -> LabEnv<'_> {
        LabEnv { testbed: &self.testbed, lab: self.lab, dir: self.dir }
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.lab.interrupted().load(Ordering::Relaxed)
    }

    /// Makes one visit; its findings are added to the cell.
    fn visit(
        &mut self,
        v: &Visit,
        cell: &mut Cell,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Shortfall> {
        let point = &self.checked.experiment.points[v.point];
        let adapter = &self.checked.adapters[v.server];
        let installed = self.installed(adapter, point)?;
        self.lay_out(point)?;
        let programs = self.has_programs(adapter, point);
        if let Some(note) = self.shared_core(v, programs).map_err(Shortfall::Cannot)? {
            cell.record.note(note);
        }
        let in_kernel = programs || self.engines[v.point] == EngineKind::Kernel;
        self.tuned(point, in_kernel, |session| session.measure(v, cell, &installed, notify))
    }

    /// Moves the hosts to the cores of a point, and sets their links.
    pub(crate) fn lay_out(&mut self, point: &Point) -> Result<(), Shortfall> {
        let plan = self.plan_here(&point.settings).map_err(Shortfall::Cannot)?;
        if plan != *self.testbed.cpu_plan() {
            self.testbed.move_to(plan, self.dir).map_err(|e| Shortfall::Cannot(e.to_string()))?;
        }
        let link = self.options.link_of(&point.settings, self.lab.privileged());
        let path = self.options.path.unwrap_or(point.settings.host.path);
        self.testbed.set_links(link, path, self.dir);
        Ok(())
    }

    /// Does some work with the settings of the machine at a point, on links of its kind; the links receive the frames of programs in
    /// the kernel where there are some.
    pub(crate) fn tuned(
        &mut self,
        point: &Point,
        programs: bool,
        work: impl FnOnce(&mut Self) -> Result<(), Shortfall>,
    ) -> Result<(), Shortfall> {
        let host = &point.settings.host;
        self.testbed.receive_frames(programs).map_err(Shortfall::Cannot)?;
        self.idle(host.idle)?;
        let tuning = Tuning::apply(host, &self.testbed, self.dir).map_err(Shortfall::Cannot)?;
        let linked = self.linked(point).map_err(Shortfall::Cannot);
        let outcome = linked.and_then(|()| work(self));
        tuning.undo(&self.testbed, self.dir);
        outcome
    }

    /// Makes idle cores poll or sleep.
    fn idle(&self, idle: Idle) -> Result<(), Shortfall> {
        match &self.idle {
            Some(polling) => polling.choose(idle).map_err(Shortfall::Cannot),
            None if idle == Idle::Poll => Ok(()),
            None => {
                let why = "idle cores sleep at all times: this process may not keep them awake (/dev/cpu_dma_latency)";
                Err(Shortfall::Cannot(why.to_owned()))
            }
        }
    }

    /// Checks that the links are of the requested kind, if there is one.
    fn linked(&self, point: &Point) -> Result<(), String> {
        if self.remote_dut.is_some() {
            return Ok(());
        }
        match (self.testbed.link_refused(), self.options.requested_link(&point.settings)) {
            (Some(why), Some(link)) => Err(format!("no {link} links are possible here: {why}")),
            _ => Ok(()),
        }
    }

    /// Returns the server's program if it is installed, has the variables of the point, and supports its transport.
    pub(crate) fn installed(
        &mut self,
        adapter: &Adapter,
        point: &Point,
    ) -> Result<Installed, Shortfall> {
        let installed = self.find(adapter)?;
        if self.has_programs(adapter, point) && !self.lab.privileged() {
            return Err(Shortfall::Cannot(NOT_ROOT.to_owned()));
        }
        let (transport, version) = (point.settings.tester.transport, installed.version());
        if let Some(why) = variables::lacking(adapter, point, version) {
            return Err(Shortfall::Cannot(why));
        }
        if adapter.speaks(transport, version) {
            return Ok(installed);
        }
        let version = version.unwrap_or_default();
        Err(Shortfall::Cannot(format!("{} {version} does not speak {transport}", adapter.title)))
    }

    /// Returns the server's program; searched for only once.
    pub(crate) fn find(&mut self, adapter: &Adapter) -> Result<Installed, Shortfall> {
        if let Some(installed) = self.installed.get(&adapter.name) {
            return Ok(installed.clone());
        }
        if let Some(remote_dut) = &self.remote_dut {
            let installed = remote_dut.find(adapter)?;
            self.installed.insert(adapter.name.clone(), installed.clone());
            return Ok(installed);
        }
        match Installed::find(adapter, &self.testbed, self.dir) {
            Ok(installed) => {
                self.installed.insert(adapter.name.clone(), installed.clone());
                Ok(installed)
            }
            // Servers that are not installed are not part of the plan.
            Err(e @ ServerError::Adapter(AdapterError::NotInstalled { .. })) => {
                Err(Shortfall::Cannot(e.to_string()))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Returns the program of a server beside the server under test.
    pub(crate) fn companion(&mut self, name: &str) -> Result<Installed, Shortfall> {
        let known = self.checked.companions.iter().find(|adapter| adapter.name == name);
        let missing = || Shortfall::Cannot(format!("there is no server {name}"));
        self.find(known.ok_or_else(missing)?)
    }

    /// Returns the zone file of an authoritative server that takes `bytes` of memory for a name; a
    /// zone is made only once.
    fn zone_file(
        &mut self,
        question_plan: &QuestionPlan,
        bytes: u64,
    ) -> Result<PathBuf, Shortfall> {
        let records = question_plan.records();
        let known =
            self.zones.iter().find(|(n, r, _)| (n, r) == (&question_plan.namespace, &records));
        if let Some((_, _, path)) = known {
            return Ok(path.clone());
        }
        // Checked once, before the zone is made: afterwards the zone uses a part of the memory.
        check_size(&question_plan.namespace, most_names(bytes))
            .map_err(|e| Shortfall::Cannot(e.to_string()))?;
        let path = self.dir.join(format!("zone-{}", self.zones.len()));
        write_zone(&path, &question_plan.namespace, records)
            .map_err(|e| Shortfall::Failed(e.to_string()))?;
        self.zones.push((question_plan.namespace, records, path.clone()));
        Ok(path)
    }

    /// Returns the directory with the certification authority of this run and the certificate of all its servers.
    pub(crate) fn certified(&self) -> Result<PathBuf, Shortfall> {
        let dir = self.dir.join("certificates");
        if dir.join("server.key").is_file() {
            return Ok(dir);
        }
        let certify = self
            .options
            .certify
            .ok_or_else(|| Shortfall::Cannot("this run cannot make certificates".to_owned()))?;
        std::fs::create_dir_all(&dir).map_err(|e| Shortfall::Failed(e.to_string()))?;
        let there =
            self.remote_dut.as_ref().map_or(&self.testbed, |remote_dut| &remote_dut.testbed);
        let place = there.place(Host::Dut, Host::Tester, PORT);
        let (v4, v6) = (place.v4.to_string(), place.v6.to_string());
        certify(&dir, &[&v6, &v4]).map_err(Shortfall::Failed)?;
        Ok(dir)
    }

    /// Returns the files of the stream of queries of a point, if it has one; made only once.
    pub(crate) fn stream(&mut self, point: usize) -> Result<Option<Prepared>, Shortfall> {
        let Some(stream) = &self.checked.streams[point] else { return Ok(None) };
        if let Some((_, prepared)) = self.streams.iter().find(|(known, _)| known == stream) {
            return Ok(Some(prepared.clone()));
        }
        if let Some(why) = stream.out_of_reach() {
            return Err(Shortfall::Cannot(why));
        }
        let dir = self.dir.join(format!("stream-{}", self.streams.len()));
        let prepared = Prepared::new(stream, &dir).map_err(Shortfall::Failed)?;
        self.streams.push((stream.clone(), prepared.clone()));
        Ok(Some(prepared))
    }

    /// Starts the server that a resolver or DNS64 server queries: the AuthDNS, or a real server with the zone of a
    /// stream; none behind an authoritative server.
    pub(crate) fn upstream(
        &mut self,
        point: &Point,
        question_plan: &QuestionPlan,
        stream: Option<&Prepared>,
    ) -> Result<Option<Upstream>, Shortfall> {
        if point.settings.role == Role::Authoritative {
            return Ok(None);
        }
        let Some(name) = authority(&point.settings) else {
            return self.authdns(point, question_plan, stream).map(Some);
        };
        let installed = self.companion(name)?;
        let service = Service {
            role: Role::Authoritative,
            namespace: question_plan.namespace,
            origin: stream.and_then(Prepared::origin),
            pref64: question_plan.pref64,
            zone_file: stream.and_then(|stream| stream.zone.clone()),
            ask: question_plan.ask(),
            threads: None,
            variables: BTreeMap::new(),
        };
        let dir = self.dir.join("authority");
        let env = LabEnv { dir: &dir, ..self.env() };
        let server = installed.start_upstream(&service, env)?;
        Ok(Some(Upstream::Authority(server)))
    }

    /// Starts the AuthDNS that a resolver or DNS64 server queries.
    fn authdns(
        &self,
        point: &Point,
        question_plan: &QuestionPlan,
        stream: Option<&Prepared>,
    ) -> Result<Upstream, Shortfall> {
        let (env, serves) = (self.env(), Serves::of(point));
        let internet = stream.and_then(|stream| stream.internet.as_ref());
        let started = match internet {
            Some(internet) => authdns::start_internet(internet, env),
            None => authdns::start(serves, &question_plan.namespace, question_plan.pref64, env),
        };
        let process = started.map_err(|e| Shortfall::Failed(e.to_string()))?;
        let is_late = internet.is_some_and(ColdInternet::delays_like_acknowledgements);
        Ok(if is_late { Upstream::Late(process) } else { Upstream::AuthDns(process) })
    }

    /// Returns the server's task, and the file of its certification authority if it uses TLS.
    pub(crate) fn service(
        &mut self,
        point: &Point,
        question_plan: &QuestionPlan,
        installed: &Installed,
        stream: Option<&Prepared>,
    ) -> Result<(Service, Option<PathBuf>), Shortfall> {
        let role = point.settings.role;
        let tester = &point.settings.tester;
        let certified = match tester.transport.uses_tls() {
            true => Some(self.certified()?),
            false => None,
        };
        let mut given = variables::given(point);
        given.extend(stream.map(Prepared::variables).unwrap_or_default());
        let variables = installed
            .variables(tester.transport, point.settings.most_clients(), given, certified.as_deref())
            .map_err(Shortfall::Cannot)?;
        let trusted_ca = certified.map(|dir| dir.join("ca.pem"));
        let zone_file = match stream.and_then(|stream| stream.zone.clone()) {
            _ if role != Role::Authoritative || !installed.adapter().loads_zones() => None,
            Some(zone) => Some(zone),
            None => Some(self.zone_file(question_plan, installed.adapter().bytes_per_name)?),
        };
        let service = Service {
            role,
            namespace: question_plan.namespace,
            origin: stream.and_then(Prepared::origin),
            pref64: question_plan.pref64,
            zone_file,
            ask: question_plan.ask(),
            threads: point.settings.dut.threads,
            variables,
        };
        Ok((service, trusted_ca))
    }

    /// Returns the connection between the Tester and a server of the testbed.
    pub(crate) fn one_host(&self, tester: &TesterSettings) -> OneHost {
        OneHost {
            joined: Joined::Veth(self.testbed.link()),
            path: self.testbed.path(),
            gso: tester.gso,
            gro: tester.gro && self.testbed.path() == LinkPath::HostOffload,
            tcp: !tester.transport.is_datagram(),
        }
    }
}

/// Leaves the trials of the self-test with each engine to one of the cells, which all have its certificate.
fn share_self_test(cells: &mut [CellRecord]) {
    let mut seen = Vec::new();
    for certificate in cells.iter_mut().filter_map(|cell| cell.certificate.as_mut()) {
        if seen.contains(&certificate.engine) {
            certificate.trials.clear();
        } else {
            seen.push(certificate.engine);
        }
    }
}
