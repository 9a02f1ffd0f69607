//! Engine of the queries over UDP: what was asked for, what this machine allows, and which one is certified for more.
//!
//! ```text
//! asked for ──> sockets, kernel ─────────────────────────────────────────> that one
//!          └──> auto ──> the kernel cannot carry it, or not root: ───────> sockets, and why
//!                    └─> self-test of sockets, then of the kernel ───────> the one that is certified for more
//! ```

use experiment::{BenchError, Experiment, FileError, Point, Settings, Visit};
use measure::{Link, Path};
use record::{CellRecord, Certificate, Check, EngineChoice, EngineKind};

use crate::runs::run::{Event, RunError, RunOptions};
use crate::runs::session::{Cell, Session};
use crate::testbed::enter::{LabNetwork, NOT_ROOT};

/// Why a server with programs in the kernel needs moderated links, or one core for all hosts.
const NOT_ITS_CORE: &str = "over links other than `moderated` the server's programs would run on \
    the core of the Tester; plain links are enough if all hosts have the same one core in `[cpus]`";
/// Why a server without programs needs a core of its own.
const NO_PROGRAMS: &str = "without programs in the kernel the server needs a core of its own, beside a Tester that never sleeps";
/// Why one core is not enough for other engines and links.
const NOT_PLAIN: &str = "one core for all hosts needs the engine `kernel` and `plain` links, on which each packet is handled by the core that sent it";
/// Note on a server with programs in the kernel that shares one core with Tester and AuthDNS.
const ONE_CORE: &str = "Tester, AuthDNS and server share one core, which does all work for a query in turn: the rate is a lower bound \
                        of the server's";
/// Share of a rate from which on it is the whole rate: a certified rate was multiplied and divided.
const WHOLE_SHARE: f64 = 1.0 - 1e-9;

impl RunOptions {
    /// Returns the requested engine: from the command line, or from the experiment.
    pub(crate) fn requested_engine(&self, settings: &Settings) -> EngineChoice {
        self.engine.unwrap_or(settings.tester.engine)
    }

    /// Returns the engine for a point of an experiment, if it is known before a self-test: `auto`
    /// is replaced by the engine of the given certificate, or by the one that the lab chose earlier
    /// in a resumed run.
    pub(crate) fn engine_of(&self, experiment: &Experiment, point: &Point) -> EngineChoice {
        let asked = self.requested_engine(&point.settings);
        if asked != EngineChoice::Auto {
            return asked;
        }
        if point.settings.needs_sockets().is_some() {
            return EngineChoice::Sockets;
        }
        let begun = || self.chosen_before(experiment);
        match self.certificate.as_ref().map(|file| file.tested.engine).or_else(begun) {
            Some(EngineKind::Kernel) => EngineChoice::Kernel,
            Some(EngineKind::Sockets | EngineKind::Streams) => EngineChoice::Sockets,
            None => EngineChoice::Auto,
        }
    }

    /// Returns the engine that the lab chose earlier in a resumed run: the engine of the first cell
    /// at a point with `auto`. Other points do not count: their engine was given, or the kernel
    /// cannot carry them.
    fn chosen_before(&self, experiment: &Experiment) -> Option<EngineKind> {
        let free = |point: &&Point| {
            let settings = &point.settings;
            let is_auto = self.requested_engine(settings) == EngineChoice::Auto;
            is_auto && settings.needs_sockets().is_none()
        };
        let free: Vec<&Point> = experiment.points.iter().filter(free).collect();
        let cells = self.resumed.iter().flat_map(|run| &run.results);
        let mut of_free = cells.filter(|cell| free.iter().any(|point| is_of(cell, point)));
        of_free.find_map(|cell| {
            cell.certificate.as_ref().and_then(|c| c.engine).or_else(|| cell.engine())
        })
    }

    /// Checks that the kernel can carry the trials of every point that requests it.
    ///
    /// # Errors
    /// With the first key that needs sockets.
    pub(crate) fn check_engine(&self, experiment: &Experiment) -> Result<(), FileError> {
        for point in &experiment.points {
            if self.requested_engine(&point.settings) != EngineChoice::Kernel {
                continue;
            }
            if let Some((key, why)) = point.settings.needs_sockets() {
                let why = format!("{why}; choose the engine `auto` to run such trials by sockets");
                return Err(experiment.bad(point, key, why));
            }
            if self.remote_hosts.remotes.auth.len() > 1 {
                let why = "its programs query only one AuthDNS in the self-test: write `sockets`";
                return Err(experiment.bad(point, "tester.engine", why.to_owned()));
            }
            if self.path == Some(Path::HostOffload) {
                let why = "it sends each query as a packet: leave --path host-offload out";
                return Err(experiment.bad(point, "tester.engine", why.to_owned()));
            }
        }
        Ok(())
    }

    /// Returns the kind of the engine of trials that a certificate must cover.
    pub(crate) fn certified_engine(&self, experiment: &Experiment, point: &Point) -> EngineKind {
        match self.engine_of(experiment, point) {
            _ if !point.settings.tester.transport.is_datagram() => EngineKind::Streams,
            EngineChoice::Kernel => EngineKind::Kernel,
            EngineChoice::Sockets | EngineChoice::Auto => EngineKind::Sockets,
        }
    }
}

/// Returns whether a cell belongs to a point: it has all varied settings that its server knows, and
/// the number of cores beside them.
fn is_of(cell: &CellRecord, point: &Point) -> bool {
    let varied = |name: &String| point.varied.contains_key(name);
    let same = |(name, value): (&String, &String)| !varied(name) || point.varied[name] == *value;
    // A variable that the server lacks is not among its settings.
    let missing = |name: &&String| {
        !cell.settings.contains_key(*name) && !point.settings.variables.contains_key(*name)
    };
    cell.settings.iter().all(same) && !point.varied.keys().any(|name| missing(&name))
}

/// Returns the engine of a certificate; older certificates without this field are for sockets.
fn engine_of(certificate: &Certificate) -> EngineKind {
    certificate.engine.unwrap_or(EngineKind::Sockets)
}

impl Session<'_> {
    /// Returns a note on a server, with programs in the kernel or without, whose programs run on
    /// the core of the Tester. A remote server has its own cores.
    ///
    /// # Errors
    /// If the shared core spoils the measurement, in words.
    pub(crate) fn shared_core(
        &self,
        v: &Visit,
        programs: bool,
    ) -> Result<Option<&'static str>, String> {
        if self.remote_dut.is_some() || self.checked.adapters[v.server].remote.is_some() {
            return Ok(None);
        }
        let link = self.testbed.link();
        if self.testbed.cpu_plan().all().len() == 1 {
            return match (programs, self.engines[v.point], link) {
                (false, ..) => Err(NO_PROGRAMS.to_owned()),
                (true, EngineKind::Kernel, Link::Plain) => Ok(Some(ONE_CORE)),
                (true, ..) => Err(NOT_PLAIN.to_owned()),
            };
        }
        match (programs, link) {
            (true, Link::Plain | Link::Steered) => Err(NOT_ITS_CORE.to_owned()),
            (true, Link::Moderated) | (false, _) => Ok(None),
        }
    }

    /// Chooses the engine of each point, and certifies the Tester with each used engine, if the
    /// method requires it.
    pub(crate) fn choose_engines(
        &mut self,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), RunError> {
        let experiment = self.checked.experiment;
        let asked = |point| self.options.engine_of(experiment, point);
        let asked: Vec<EngineChoice> = experiment.points.iter().map(asked).collect();
        if asked.contains(&EngineChoice::Kernel) && !self.lab.privileged() {
            return Err(RunError::Engine(NOT_ROOT.to_owned()));
        }
        let mut auto = None;
        for asked in asked {
            let engine = match asked {
                EngineChoice::Sockets => EngineKind::Sockets,
                EngineChoice::Kernel => EngineKind::Kernel,
                EngineChoice::Auto => match auto {
                    Some(engine) => engine,
                    None => *auto.insert(self.better(notify)?),
                },
            };
            self.engines.push(engine);
        }
        for engine in [EngineKind::Sockets, EngineKind::Kernel] {
            if self.engines.contains(&engine) {
                self.certify_once(engine, notify)?;
            }
        }
        Ok(())
    }

    /// Gives each cell the certificate of its engine, and the reason against the kernel if the lab
    /// chose. Cells of a resumed run already have both.
    pub(crate) fn certify_cells(&self, cells: &mut [Cell]) {
        let servers = self.checked.adapters.len();
        for (number, cell) in cells.iter_mut().enumerate() {
            let (point, record) = (number / servers, &mut cell.record);
            if record.certificate.is_none() {
                record.certificate = self.certificate_of(self.engines[point]).cloned();
            }
            let settings = &self.checked.experiment.points[point].settings;
            if self.options.requested_engine(settings) == EngineChoice::Auto {
                self.no_kernel.iter().for_each(|why| record.note(why));
            }
        }
    }

    /// Returns the certificate of the Tester with an engine; `None` if the method requires none.
    pub(crate) fn certificate_of(&self, engine: EngineKind) -> Option<&Certificate> {
        self.certificates.iter().find(|certificate| engine_of(certificate) == engine)
    }

    /// Returns the better engine for the points that leave the choice to the lab, and the reason.
    fn better(&mut self, notify: &mut dyn FnMut(Event<'_>)) -> Result<EngineKind, RunError> {
        let (engine, why) = match self.no_kernel_here() {
            Some(why) => (EngineKind::Sockets, why.to_owned()),
            None if self.wants_certificate() => self.higher(notify)?,
            None => match self.try_kernel() {
                Ok(()) => (EngineKind::Kernel, "it can carry the trials".to_owned()),
                Err(RunError::SelfTest(BenchError::Interrupted)) => {
                    return Err(RunError::SelfTest(BenchError::Interrupted));
                }
                Err(e) => (EngineKind::Sockets, e.to_string()),
            },
        };
        let certified_qps = self.certificate_of(engine).map(|c| c.certified_qps);
        notify(Event::Engine { engine, why: &why, certified_qps });
        if engine == EngineKind::Sockets {
            self.no_kernel = Some(format!("engine sockets: {why}"));
        }
        Ok(engine)
    }

    /// Returns why the kernel cannot be tried at all.
    fn no_kernel_here(&self) -> Option<&'static str> {
        if !self.lab.privileged() {
            Some(NOT_ROOT)
        } else if self.options.path == Some(Path::HostOffload) {
            Some("the links carry segmented messages, not packets")
        } else if self.checked.network() == LabNetwork::Outside {
            Some("a server is remote: choose the engine `kernel` by its name for it")
        } else {
            None
        }
    }

    /// Certifies the Tester with both engines, unless sockets reach all rates of the search; returns the engine with the
    /// higher rate, and why.
    fn higher(
        &mut self,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<(EngineKind, String), RunError> {
        let highest = self.checked.experiment.common().search.as_ref().map(|s| s.max.get());
        let sockets = self.certify_once(EngineKind::Sockets, notify)?;
        if highest.is_some_and(|highest| sockets >= highest * WHOLE_SHARE) {
            let why = "certified for all rates of the search".to_owned();
            return Ok((EngineKind::Sockets, why));
        }
        let kernel = match self.certify_once(EngineKind::Kernel, notify) {
            Err(RunError::SelfTest(BenchError::Interrupted)) => {
                return Err(RunError::SelfTest(BenchError::Interrupted));
            }
            Err(e) => return Ok((EngineKind::Sockets, e.to_string())),
            Ok(kernel) => kernel,
        };
        let (engine, other, more, less) = if kernel > sockets {
            (EngineKind::Kernel, EngineKind::Sockets, kernel, sockets)
        } else {
            (EngineKind::Sockets, EngineKind::Kernel, sockets, kernel)
        };
        Ok((engine, format!("certified for {more:.0} qps, the engine {other} for {less:.0} qps")))
    }

    /// Certifies the Tester with an engine, if the method requires it and it was not done yet;
    /// returns the highest rate, in queries a second: 0 if a known truth was not found.
    fn certify_once(
        &mut self,
        engine: EngineKind,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<f64, RunError> {
        if let Some(known) = self.certificate_of(engine) {
            return Ok(reliable_qps(known));
        }
        if !self.wants_certificate() {
            return Ok(0.0);
        }
        let certificate = self.certificate(engine, notify)?;
        let certified = reliable_qps(&certificate);
        self.certificates.push(Certificate { engine: Some(engine), ..certificate });
        Ok(certified)
    }
}

/// Returns the rate of a certificate whose known counts were found, else 0. A wrong latency does
/// not rule an engine out: the report names it.
fn reliable_qps(certificate: &Certificate) -> f64 {
    let miscounts = |check: &Check| check.is_failed() && check.unit != "us";
    if certificate.checks.iter().any(miscounts) { 0.0 } else { certificate.certified_qps }
}

#[cfg(test)]
mod tests {
    use record::{Bound, Known, TruthSource};

    use super::*;

    fn experiment(name: &str) -> Experiment {
        let text = crate::adapter::built_in::experiment(name).expect("an experiment");
        Experiment::parse(text, std::path::Path::new(name)).expect("valid")
    }

    #[test]
    fn the_command_line_comes_before_the_experiment() {
        let experiment = experiment("dns64-rfc8219");
        let point = &experiment.points[0];
        let options = |engine| RunOptions { engine, ..RunOptions::default() };
        for (asked, kind) in [
            (EngineChoice::Sockets, EngineKind::Sockets),
            (EngineChoice::Kernel, EngineKind::Kernel),
        ] {
            assert_eq!(options(Some(asked)).engine_of(&experiment, point), asked);
            assert_eq!(options(Some(asked)).certified_engine(&experiment, point), kind);
        }
        let own = point.settings.tester.engine;
        assert_eq!(options(None).engine_of(&experiment, point), own);
    }

    #[test]
    fn a_method_without_a_rate_needs_sockets() {
        let lockstep = experiment("dns64-lockstep");
        let kernel = RunOptions { engine: Some(EngineChoice::Kernel), ..RunOptions::default() };
        let refused = kernel.check_engine(&lockstep).expect_err("no rate").to_string();
        assert!(refused.contains("the methods search, load, capacity and closed"), "{refused}");
        assert!(kernel.check_engine(&experiment("dns64-rfc8219")).is_ok());
        let whole = RunOptions { path: Some(Path::HostOffload), ..kernel };
        assert!(whole.check_engine(&experiment("dns64-rfc8219")).is_err());
        let auto = RunOptions { engine: Some(EngineChoice::Auto), ..RunOptions::default() };
        assert_eq!(auto.engine_of(&lockstep, &lockstep.points[0]), EngineChoice::Sockets);
        assert!(auto.check_engine(&lockstep).is_ok());
    }

    fn certificate(engine: Option<EngineKind>) -> Certificate {
        Certificate {
            engine,
            certified_qps: 1e5,
            self_test_qps: 2.2e5,
            passed: true,
            ..Certificate::default()
        }
    }

    #[test]
    fn a_latency_that_is_off_discards_no_engine() {
        for (unit, reliable) in [("us", 1e5), ("", 0.0), ("qps", 0.0)] {
            let (truth, value, bound) = (TruthSource::Set, 20.0, Bound::Absolute(2.0));
            let check = Check::compare("x", Known { truth, value, unit, bound }, 30.0);
            let certificate = Certificate { checks: vec![check], ..certificate(None) };
            assert_eq!(reliable_qps(&certificate), reliable, "{unit}");
        }
    }

    /// Settings of a cell, and the engine of its certificate.
    type KeptCell<'a> = (&'a [(&'a str, &'a str)], Option<EngineKind>);

    /// Options of a run that goes on, with cells of NSD.
    fn going_on(cells: &[KeptCell<'_>]) -> RunOptions {
        let cell = |(settings, engine): &KeptCell<'_>| {
            let settings =
                settings.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            let mut cell = CellRecord::new("nsd", settings.collect(), "search");
            cell.certificate = Some(certificate(*engine));
            cell
        };
        let results = cells.iter().map(cell).collect();
        let run = record::Run { results, ..record::Run::default() };
        RunOptions { resumed: Some(Box::new(run)), ..RunOptions::default() }
    }

    #[test]
    fn a_run_goes_on_with_its_engine() {
        let experiment = experiment("dns64-rfc8219");
        let point = &experiment.points[0];
        let begun = [("cache", "on"), ("cores", "1")];
        for (engine, expected) in [
            (Some(EngineKind::Kernel), EngineChoice::Kernel),
            (Some(EngineKind::Sockets), EngineChoice::Sockets),
            (None, EngineChoice::Auto),
        ] {
            let mut options = going_on(&[(&begun[..], engine)]);
            options.engine = Some(EngineChoice::Auto);
            assert_eq!(options.engine_of(&experiment, point), expected);
        }
    }

    #[test]
    fn points_of_other_engines_say_nothing_when_a_run_goes_on() {
        let text = "name = \"x\"\ntitle = \"X\"\nrole = \"authoritative\"\nservers = [\"nsd\"]\nmethod = \"load\"\n\
                    load = { rates = [\"1k\"], duration = \"1s\" }\n[matrix]\ntester.engine = [\"sockets\", \"auto\"]\nworkload.type = [\"A\", \"AAAA\"]\n";
        let experiment = Experiment::parse(text, std::path::Path::new("x.toml")).expect("valid");
        let sockets = ([("engine", "sockets"), ("type", "A"), ("cores", "1")], EngineKind::Sockets);
        let kernel = ([("engine", "auto"), ("type", "A"), ("cores", "1")], EngineKind::Kernel);
        let both = [(&sockets.0[..], Some(sockets.1)), (&kernel.0[..], Some(kernel.1))];
        for (cells, free) in [
            (&both[..1], EngineChoice::Auto),
            (&both[1..], EngineChoice::Kernel),
            // Not that of the first cell, which was asked for.
            (&both[..], EngineChoice::Kernel),
        ] {
            let options = going_on(cells);
            for point in &experiment.points {
                let asked = options.requested_engine(&point.settings);
                let expected = if asked == EngineChoice::Auto { free } else { asked };
                assert_eq!(options.engine_of(&experiment, point), expected, "{:?}", point.varied);
            }
        }
    }
}
