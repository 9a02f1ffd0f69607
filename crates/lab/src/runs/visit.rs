//! A visit to a server that has started: warm-up, method, findings; and a first start of each
//! server before the self-test, so that a server that cannot start is reported at once, and not
//! after minutes.

mod agent;
mod captured;
mod group;
mod running;
mod together;

use std::net::SocketAddr;
use std::path::PathBuf;

use experiment::capacity::try_windows;
use experiment::settings::TesterSettings;
use experiment::visit::{Replay, VisitResult, add_visit};
use experiment::{
    Bench, BenchError, Circumstances, Joined, Method, NameBudget, OneHost, TrialSpec, Visit,
    of_settings, visit,
};
use measure::{Nanos, Pacing, Path};
use record::{CellRecord, EngineKind, Secondary, TrialRequest, VoidRepeat};
use udp::sys::is_own_address;

use self::group::GroupRoles;
use crate::remote::lines::SharedAgent;
use crate::runs::attack;
use crate::runs::bench::measurer::carried_by;
use crate::runs::bench::{LabBench, StartKind, Upstream};
use crate::runs::run::Event;
use crate::runs::session::{Cell, Session, Shortfall};
use crate::server::query_stream::Prepared;
use crate::server::replication::material::Material;
use crate::server::zone_load::{ZoneLoad, zone_load};
use crate::server::{Installed, Service, transport_port};

/// Number of outstanding queries of a warm-up, which is a closed loop.
const WARM_UP_WINDOW: u32 = 64;
/// Number of names for each second of a warm-up.
const WARM_UP_NAMES_PER_S: f64 = 100_000.0;

/// Number of visits running in which a server may die before it gets no more.
const MAX_DEATHS: u32 = 1;

/// Placement of a visit's server, with the prepared files for its start.
enum Placement {
    /// In the testbed; with the file of the certification authority whose certificates the Tester accepts.
    Here(Box<Service>, Option<PathBuf>),
    /// In the testbed, in a group that replicates a zone.
    Group(Box<GroupRoles>, Box<Material>),
    /// On a remote host, where an agent starts it.
    Agent,
    /// At an address, where the user runs it.
    Running,
}

/// A started server, ready to be measured.
struct StartedServer<'a> {
    bench: LabBench<'a>,
    /// Display name of the server, for messages.
    title: String,
    version: Option<&'a str>,
    /// Circumstances of the measurement, except the use of names.
    circumstances: Circumstances,
    /// Whether the visit can conform to RFC 8219 at all.
    conforms: bool,
    /// Notes on the place of the server.
    notes: Vec<String>,
    /// Servers that follow the primary of a group.
    secondaries: Vec<Secondary>,
    /// Times in which the server loaded its zone, if the method measures them.
    loaded: Option<ZoneLoad>,
}

impl<'a> StartedServer<'a> {
    fn new(bench: LabBench<'a>, installed: &'a Installed) -> Self {
        Self {
            bench,
            title: installed.adapter().title.clone(),
            version: installed.version(),
            circumstances: Circumstances::default(),
            conforms: true,
            notes: Vec::new(),
            secondaries: Vec::new(),
            loaded: None,
        }
    }
}

impl Session<'_> {
    /// Starts the server, measures it with the method, and stops it.
    pub(crate) fn measure(
        &mut self,
        v: &Visit,
        cell: &mut Cell,
        installed: &Installed,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Shortfall> {
        let stream = self.stream(v.point)?;
        let (placement, upstream) = self.place(v, installed, stream.as_ref())?;
        let started = self.start(v, &placement, upstream, installed, stream.as_ref())?;
        let found = self.measure_started(v, cell, started, stream.as_ref(), notify)?;
        let internet = stream.and_then(|stream| stream.internet);
        if let (Some(internet), Placement::Here(..), false) =
            (internet, &placement, matches!(found, VisitResult::Void(_)))
        {
            internet.add_to(&mut cell.record, v.repeat);
        }
        self.note_testers(cell);
        self.visited(v, cell, &found, notify);
        Ok(())
    }

    /// Prepares the files of a visit's server, and starts its upstream server in the testbed.
    fn place(
        &mut self,
        v: &Visit,
        installed: &Installed,
        stream: Option<&Prepared>,
    ) -> Result<(Placement, Option<Upstream>), Shortfall> {
        let point = &self.checked.experiment.points[v.point];
        if self.remote_dut.is_some() {
            return Ok((Placement::Agent, None));
        }
        if point.settings.method.replicates() {
            let material = self.material(v.point, stream)?;
            let cast = self.cast(point, installed, &material)?;
            return Ok((Placement::Group(Box::new(cast), Box::new(material)), None));
        }
        if installed.adapter().remote.is_some() {
            return Ok((Placement::Running, None));
        }
        let question_plan = self.question_plan(v);
        let (service, trusted_ca) = self.service(point, &question_plan, installed, stream)?;
        let upstream = self.upstream(point, &question_plan, stream)?;
        Ok((Placement::Here(Box::new(service), trusted_ca), upstream))
    }

    /// Starts the server of a visit at its place, or reaches the one that runs there.
    fn start<'s>(
        &'s self,
        v: &Visit,
        placement: &'s Placement,
        upstream: Option<Upstream>,
        installed: &'s Installed,
        stream: Option<&Prepared>,
    ) -> Result<StartedServer<'s>, Shortfall> {
        let point = &self.checked.experiment.points[v.point];
        // A group gets the queries for its zone.
        let replayed = stream.filter(|_| !point.settings.method.replicates());
        let replayed = self.question_plan(v).replayed(point, replayed, self.options.seed);
        let replayed = replayed.map_err(Shortfall::Failed)?;
        let mut started = match placement {
            Placement::Here(service, trusted_ca) => {
                self.start_here(v, service, trusted_ca.clone(), upstream, installed, stream)
            }
            Placement::Group(cast, material) => self.start_group(v, cast, material, installed),
            Placement::Agent => self.start_remote(v, installed, stream),
            Placement::Running => self.reach(v, installed, stream),
        }?;
        started.bench.replayed = replayed;
        Ok(started)
    }

    /// Starts a server in the testbed.
    fn start_here<'s>(
        &'s self,
        v: &Visit,
        service: &'s Service,
        trusted_ca: Option<PathBuf>,
        upstream: Option<Upstream>,
        installed: &'s Installed,
        stream: Option<&Prepared>,
    ) -> Result<StartedServer<'s>, Shortfall> {
        let settings = &self.checked.experiment.points[v.point].settings;
        let loaded = match settings.method {
            Method::ZoneLoad => {
                let later = settings.zone_load.later;
                Some(zone_load(installed, service, self.env(), later)?)
            }
            _ => None,
        };
        let mut target =
            installed.address_over(settings.tester.family).map_err(Shortfall::Cannot)?;
        if trusted_ca.is_some() {
            target.set_port(transport_port(settings.tester.transport));
        }
        let base = self.base(v, stream, target, trusted_ca);
        let starts = StartKind::Service(installed, service);
        let mut bench = LabBench::new(self.env(), base, upstream);
        bench.programs =
            self.has_programs(installed.adapter(), &self.checked.experiment.points[v.point]);
        let bench = bench.start(starts, settings.dut.cpu_limit)?;
        let circumstances = Circumstances {
            over_ipv6: target.is_ipv6(),
            one_host: Some(self.one_host(&settings.tester)),
            ..Circumstances::default()
        };
        Ok(StartedServer { circumstances, loaded, ..StartedServer::new(bench, installed) })
    }

    /// Returns the request that all trials of a visit begin with.
    fn base(
        &self,
        v: &Visit,
        stream: Option<&Prepared>,
        target: SocketAddr,
        trusted_ca: Option<PathBuf>,
    ) -> TrialRequest {
        let point = &self.checked.experiment.points[v.point];
        let base =
            self.question_plan(v).request(point, stream, self.options.seed, target, trusted_ca);
        // The engines are chosen after the first start of each server.
        let engine = self.engines.get(v.point).copied().unwrap_or(EngineKind::Sockets);
        carried_by(engine, base)
    }

    /// Measures a started server with the method, stops it, and adds the findings to the cell.
    fn measure_started(
        &self,
        v: &Visit,
        cell: &mut Cell,
        started: StartedServer<'_>,
        stream: Option<&Prepared>,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<VisitResult, Shortfall> {
        let settings = &self.checked.experiment.points[v.point].settings;
        let shortened = self.options.shortened;
        let mut bench = started.bench;
        (bench.shortened, bench.watcher) = (shortened, self.options.watcher.clone());
        bench.attacker_cpus =
            attack::cpus(settings, self.lab.allowed_cpus()).map_err(Shortfall::Cannot)?;
        notify(Event::Serving(&started.title, started.version));
        cell.record.server_version = started.version.map(str::to_owned);
        if let Some(files) = bench.files() {
            cell.record.files = files.clone();
        }
        if cell.record.secondaries.is_empty() {
            cell.record.secondaries = started.secondaries;
        }
        started.notes.into_iter().for_each(|note| cell.record.note(note));
        let limit = settings.dut.cpu_limit.zip(bench.limited().map(str::to_owned));
        let handicap = limit.map(|(cores, means)| {
            format!("the server's CPU time was limited to {cores} cores by {means}")
        });
        let mut names = match settings.method.replicates() {
            // An authoritative server has no cache, so that names may repeat.
            true => NameBudget::new(u64::MAX, false),
            false => {
                let runs_already = self.checked.adapters[v.server].remote.is_some();
                self.question_plan(v).budget(settings.role, stream, runs_already)
            }
        };
        let captured = self.options.capture.as_ref().map(|dir| self.capture(v, dir)).transpose()?;
        let found = self.visit_with(&mut bench, v, cell, &mut names, notify);
        captured.into_iter().for_each(|captured| cell.record.note(captured.end()));
        note_memory(&mut cell.record, bench.remote_memory());
        bench.stop();
        let found = survived(v, settings.repeats, cell, found)?;
        let circumstances =
            Circumstances { names: names.used(), shortened, ..started.circumstances };
        add_visit(&mut cell.record, settings, found.clone(), &circumstances);
        if !settings.method.searches() {
            // For a search these are part of the differences from RFC 8219.
            names.used().difference().into_iter().for_each(|note| cell.record.note(note));
        }
        cell.record.differs.extend(handicap.into_iter().chain(of_settings(settings)));
        cell.record.conforming = started.conforms && cell.record.differs.is_empty();
        if let Some(load) = started.loaded.filter(|_| !matches!(found, VisitResult::Void(_))) {
            load.add_to(&mut cell.record);
        }
        Ok(found)
    }

    /// Notifies the caller of the run that a visit has ended.
    pub(crate) fn visited(
        &self,
        v: &Visit,
        cell: &Cell,
        found: &VisitResult,
        notify: &mut dyn FnMut(Event<'_>),
    ) {
        let repeats = self.checked.experiment.points[v.point].settings.repeats;
        notify(Event::Visited { cell: &cell.record, repeat: (v.repeat, repeats), found });
    }

    /// Warms the server up and runs the method.
    fn visit_with(
        &self,
        bench: &mut LabBench<'_>,
        v: &Visit,
        cell: &mut Cell,
        names: &mut NameBudget,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<VisitResult, Shortfall> {
        let settings = &self.checked.experiment.points[v.point].settings;
        if cell.record.void_repeats.iter().any(|void| void.repeat == v.repeat) {
            cell.record.trials.retain(|trial| trial.repeat != v.repeat);
            notify(Event::Forgotten(&cell.record, v.repeat));
        }
        let (kept, later) = std::mem::take(&mut cell.kept)
            .into_iter()
            .partition::<Vec<_>, _>(|trial| trial.repeat == v.repeat);
        cell.kept = later;
        // Only methods of plain trials can continue in the middle of a repeat.
        let plain = matches!(settings.method, Method::Load | Method::Closed);
        let replayed = plain || settings.method.searches();
        let kept = if replayed {
            kept
        } else {
            if !kept.is_empty() {
                notify(Event::Forgotten(&cell.record, v.repeat));
            }
            Vec::new()
        };
        let tries_windows = settings.method == Method::Search
            && settings.workload.replay.is_none()
            && bench.has_started_server();
        if tries_windows && cell.record.windows.is_empty() && kept.is_empty() {
            cell.record.windows = try_windows(&settings.capacity, bench, names)?;
        }
        warm_up(bench, settings.warm_up, names)?;
        let mut known = kept.len();
        let dropped = std::cell::Cell::new(false);
        let mut replay = Replay::new(bench, kept, &dropped);
        // The cell's name without its trials, for the events.
        let name = CellRecord { trials: Vec::new(), ..cell.record.clone() };
        let settings = settings.within(cell.record.certificate.as_ref());
        let settings = &settings.knowing(&cell.record);
        let trials = &mut cell.record.trials;
        let found = visit(settings, &mut replay, names, v.repeat, &mut |trial| {
            if dropped.take() {
                // Only the stored trials that matched stay in this repeat.
                known = 0;
                notify(Event::Forgotten(&name, v.repeat));
                let fitted = trials.iter().filter(|trial| trial.repeat == v.repeat);
                fitted.for_each(|trial| notify(Event::Trial(&name, trial)));
            }
            trials.push(trial.clone());
            if known > 0 {
                known -= 1;
            } else {
                notify(Event::Trial(&name, trial));
            }
        });
        let found = found?;
        // The findings show whether the repeat is void again.
        cell.record.void_repeats.retain(|void| void.repeat != v.repeat);
        Ok(found)
    }
}

/// Warms the server up with a closed loop of this duration.
fn warm_up(
    bench: &mut LabBench<'_>,
    duration: Nanos,
    names: &mut NameBudget,
) -> Result<(), BenchError> {
    if duration == Nanos::ZERO {
        return Ok(());
    }
    let wanted = (WARM_UP_NAMES_PER_S * duration.as_secs_f64()) as u64;
    let count = wanted.min(names.size() / 2).max(1);
    let first_name = names.take(count)?;
    bench.trial(&TrialSpec {
        first_name,
        names: count,
        ..TrialSpec::new(
            Pacing::Window { outstanding: WARM_UP_WINDOW },
            duration,
            Nanos::from_secs(1),
        )
    })?;
    Ok(())
}

/// Notes the memory of a remote server at the end of its last visit.
fn note_memory(record: &mut CellRecord, memory: Option<u64>) {
    const MEMORY_NOTE: &str = "at the end of its last visit the server held ";
    if let Some(bytes) = memory {
        record.notes.retain(|note| !note.starts_with(MEMORY_NOTE));
        record.notes.push(format!("{MEMORY_NOTE}{} MB of memory", bytes / 1_000_000));
    }
}

/// Returns the findings of a visit. A server that has died makes its repeat void if there are others, each of which starts
/// another server.
fn survived(
    v: &Visit,
    repeats: u32,
    cell: &mut Cell,
    found: Result<VisitResult, Shortfall>,
) -> Result<VisitResult, Shortfall> {
    match found {
        Err(Shortfall::Failed(why)) if repeats > 1 && cell.deaths < MAX_DEATHS => {
            cell.deaths += 1;
            cell.record.void_repeats.retain(|void| void.repeat != v.repeat);
            Ok(VisitResult::Void(VoidRepeat { repeat: v.repeat, why }))
        }
        Ok(found) => {
            cell.deaths = 0;
            Ok(found)
        }
        failed => failed,
    }
}

/// Returns the circumstances of trials against a server outside the testbed, at `target`: on
/// another host, or on this one behind the loopback, or in another network namespace, as its agent
/// reports.
fn outside_testbed(
    target: SocketAddr,
    tester: &TesterSettings,
    agent: Option<&SharedAgent>,
) -> Circumstances {
    let same_kernel = || agent.is_some_and(|agent| agent.lock().shares_kernel());
    let joined = match is_own_address(target) {
        true => Some(Joined::Loopback),
        false => same_kernel().then_some(Joined::Namespaces),
    };
    let one_host = joined.map(|joined| OneHost {
        joined,
        path: Path::on_one_host(tester.gso),
        gso: tester.gso,
        gro: tester.gro,
        tcp: !tester.transport.is_datagram(),
    });
    Circumstances { over_ipv6: target.is_ipv6(), one_host, ..Circumstances::default() }
}

impl Session<'_> {
    /// Starts each server once, as its first visit will, and stops it. Returns the reasons why some
    /// cannot be measured, with their visits. Without a self-test no server is started here, since
    /// the visits show this as early.
    pub(crate) fn try_out(&mut self) -> Vec<(Visit, Shortfall)> {
        if !self.needs_self_test() {
            return Vec::new();
        }
        let visits = (0..self.checked.adapters.len())
            .map(|server| Visit { server, point: 0, repeat: 0 })
            .filter(|v| !self.is_left_out(v.server, v.point));
        let mut failed = Vec::new();
        for v in visits.collect::<Vec<_>>() {
            if self.is_interrupted() {
                break;
            }
            // A busy machine may be late once; a server that cannot start cannot start twice.
            let mut started = self.start_once(&v);
            if started.is_err() && !self.is_interrupted() {
                started = self.start_once(&v);
            }
            if let Err(why) = started {
                failed.push((v, why));
            }
        }
        failed
    }

    /// Starts a server of the lab and stops it.
    fn start_once(&mut self, v: &Visit) -> Result<(), Shortfall> {
        let point = &self.checked.experiment.points[v.point];
        let adapter = &self.checked.adapters[v.server];
        if adapter.remote.is_some() || point.settings.method.replicates() {
            return Ok(());
        }
        let installed = self.installed(adapter, point)?;
        let stream = self.stream(v.point)?;
        let (placement, upstream) = self.place(v, &installed, stream.as_ref())?;
        self.start(v, &placement, upstream, &installed, stream.as_ref())?.bench.stop();
        Ok(())
    }

    /// Returns whether any visits are left.
    pub(crate) fn any_left(cells: &[Cell]) -> bool {
        cells.iter().any(|cell| !cell.given_up)
    }
}
