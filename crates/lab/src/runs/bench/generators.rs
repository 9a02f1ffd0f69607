//! Trials of the generators of DNS queries that an experiment compares.

use std::time::Instant;

use experiment::settings::Generator;
use experiment::{
    Bench, BenchError, GeneratorSpec, GeneratorTimes, LockStepSpec, RoleCpu, TrialSpec,
};
use measure::pacing::EXPERIMENT;
use measure::{Evidence, Nanos, Pacing};
use record::Trial;
use record::request::Workload;

use super::{LabBench, MeasurerCounters};
use crate::probe::{Observed, Span};
use crate::runs::generator::{self, GeneratorQueries};
use crate::testbed::Host;
use crate::testbed::process::{Launch, Process};

/// Duration of our closed loop.
const LOOP_DURATION: Nanos = Nanos::from_secs(2);

impl LabBench<'_> {
    /// Runs the generator that `spec` names.
    pub(super) fn generated(&mut self, spec: &GeneratorSpec) -> Result<GeneratorTimes, BenchError> {
        let (lanes, experiments, first_name) = match spec.generator {
            Generator::Lockstep1 => (1, spec.experiments, spec.first_name),
            Generator::Lockstep4 => (4, spec.experiments, spec.first_name),
            Generator::Window => return self.window(spec),
            Generator::Script | Generator::Dnsperf | Generator::Dns64perfpp => {
                return self.foreign(spec);
            }
        };
        let timeout = Nanos::from_secs(1);
        // As in dns64perf.
        let new_threads = true;
        let spec = LockStepSpec { lanes, experiments, new_threads, timeout, first_name };
        let row = self.lockstep(&spec)?;
        Ok(GeneratorTimes {
            mean_s: row.mean_ms / 1e3,
            std_dev_s: Some(row.std_dev_ms / 1e3),
            max_s: Some(row.max_ms / 1e3),
            unanswered: row.trial.bad(),
            cpu: cpu_of(&row.trial),
            void: row.trial.void.0,
            warnings: Vec::new(),
        })
    }

    /// Runs our closed loop. It does not stop after 256 queries: the time of 256 is computed from its rate.
    fn window(&mut self, spec: &GeneratorSpec) -> Result<GeneratorTimes, BenchError> {
        let trial = self.trial(&TrialSpec {
            first_name: spec.first_name,
            names: spec.names,
            ..TrialSpec::new(
                Pacing::Window { outstanding: generator::OUTSTANDING },
                LOOP_DURATION,
                Nanos::from_secs(1),
            )
        })?;
        let experiments = trial.valid.max(1) as f64 / f64::from(EXPERIMENT);
        Ok(GeneratorTimes {
            mean_s: trial.duration_s / experiments,
            unanswered: trial.bad(),
            cpu: cpu_of(&trial),
            void: trial.void.0,
            ..GeneratorTimes::default()
        })
    }

    /// Runs the experiments of an external generator.
    fn foreign(&mut self, spec: &GeneratorSpec) -> Result<GeneratorTimes, BenchError> {
        let asked = match &self.base.workload {
            Workload::QueryFile { path, .. } => {
                GeneratorQueries::file(path).map_err(BenchError::failed)?
            }
            _ => GeneratorQueries::Names(Box::new(self.namespace()?)),
        };
        let command = generator::prepare(spec, self.base.target, &asked, self.dir)
            .map_err(BenchError::failed)?;
        let limit = generator::limit(spec);
        self.begins(None, Nanos::ZERO);
        let began = Instant::now();
        let start = |launch: &Launch<'_>| Process::start(&Launch { command, ..launch.clone() });
        let (tester, spent) = self.run(start, Nanos::from_secs(10), limit)?;
        let times = generator::read_times(spec, tester.log()).map_err(BenchError::failed)?;
        let MeasurerCounters { before, after, .. } = spent;
        let elapsed_s = began.elapsed().as_secs_f64();
        // The CPU time of a script's many processes disappears with each of them, so that it cannot
        // be separated from other processes on the Tester's cores: only the server's cores are
        // checked.
        let span = Span { sending_s: elapsed_s, ..Span::default() };
        let observed = Observed::between(&before, &after, self.testbed, &span);
        let dut_foreign = observed.usage(Host::Dut).foreign.filter(|_| self.server.is_some());
        let warnings = Evidence { dut_foreign, ..Evidence::default() }.server_warnings();
        let used = |host| Some(100.0 * observed.own_s(host) / elapsed_s.max(1e-3));
        let cpu = RoleCpu {
            tester: used(Host::Tester),
            dut: self.server.as_ref().and_then(|_| used(Host::Dut)),
            authdns: self.authdns.as_ref().and_then(|_| used(Host::Auth)),
        };
        Ok(GeneratorTimes { warnings, cpu, ..times })
    }
}

/// Returns the CPU time of each role's processes during a trial.
fn cpu_of(trial: &Trial) -> RoleCpu {
    let used = |role: &str| {
        let cpu = trial.cpu.get(role)?;
        Some(100.0 * (cpu.user_s + cpu.system_s) / trial.duration_s.max(1e-3))
    };
    // The CPU time without spinning.
    let tester = trial.cpu.get("tester").map(|cpu| 100.0 * cpu.busy * cpu.cpus.len() as f64);
    RoleCpu { tester, dut: used("dut"), authdns: used("authdns") }
}
