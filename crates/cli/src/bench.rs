//! The Measurer of this process, or the Testers that it conducts, as the bench that a method runs its trials on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use experiment::{Bench, BenchError, TrialSpec};
use lab::agent::{allowed_cpus, servers};
use lab::probe::HostProbe;
use lab::testbed::procfs::run_time;
use load::Live;
use measure::Nanos;
use record::{Seen, Trial, TrialResult};
use tester::Setup;

use crate::commands::search::Varied;
use crate::preflight::nobody_listens;
use crate::progress;
use crate::testers::Testers;

/// Trials of this process against one target.
pub(crate) struct OwnBench {
    pub(crate) setup: Setup,
    /// What differs from trial to trial: the rate, the clients or the connections.
    pub(crate) varied: Varied,
    pub(crate) stop: Arc<AtomicBool>,
    /// Whether the server may have run on the Tester's cores in the last trial.
    shares_cores: bool,
}

/// Trials against one target of the Testers that this process conducts; its own without any.
pub(crate) struct TestersBench<'t> {
    pub(crate) own: &'t mut OwnBench,
    pub(crate) testers: Option<&'t mut (dyn Testers + 't)>,
    /// Duration of each trial instead of the plan's; only tests set it.
    pub(crate) shortened: Option<Nanos>,
}

/// Begins to count the CPU time of the server of `setup`; `None` if it is not on this host, this
/// user may not see its processes, or other Testers query it too.
pub(crate) fn watch(setup: &Setup) -> Option<HostProbe> {
    let is_whole = setup.request().slice.is_whole();
    let pids = if is_whole { servers(setup.server_processes()) } else { Vec::new() };
    let cpus = allowed_cpus(&pids)?;
    Some(HostProbe::begin(pids, cpus, true))
}

impl OwnBench {
    pub(crate) fn new(setup: Setup, varied: Varied, stop: Arc<AtomicBool>) -> Self {
        OwnBench { setup, varied, stop, shares_cores: false }
    }

    /// Makes the setup of a trial, has `run` run it, and makes its verdict.
    fn trial_by(
        &self,
        spec: &TrialSpec,
        run: impl FnOnce(&Setup, &Arc<Live>) -> Result<TrialResult, String>,
    ) -> Result<Trial, BenchError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        let (live, progress) =
            progress::show(format!("trial, {}", spec.pacing.describe()), Some(spec.duration), None);
        // The budget counts names from 0; the arguments may name another first name.
        let setup = self.varied.setup(&self.setup, spec)?;
        let result = run(&setup, &live);
        drop(progress);
        let trial = result.map_err(BenchError::Failed)?.with_verdict();
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        if nobody_listens(&trial) {
            let target = setup.request().target;
            return Err(BenchError::Failed(format!("nothing listens at {target} any more")));
        }
        Ok(trial)
    }
}

impl Bench for OwnBench {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        let watched = watch(&self.setup);
        let mut trial = self
            .trial_by(spec, |setup, live| setup.run(live, &self.stop).map_err(|e| e.to_string()))?;
        self.shares_cores = watched.is_some_and(|probe| probe.add_to(&mut trial));
        Ok(trial)
    }

    fn hidden_cpu(&self) -> Option<Seen> {
        let on_purpose = self.setup.request().sockets.shared_core;
        (on_purpose || self.shares_cores).then_some(Seen::SharedCore)
    }

    fn idle_share(&mut self, time: Nanos) -> Result<Option<f64>, BenchError> {
        let pids = servers(self.setup.server_processes());
        if pids.is_empty() {
            return Ok(None);
        }
        let ran = || pids.iter().map(|pid| run_time(*pid)).sum::<u64>();
        let before = ran();
        self.pause(time);
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        Ok(Some(ran().saturating_sub(before) as f64 / time.0 as f64))
    }

    fn pause(&mut self, time: Nanos) {
        std::thread::sleep(time.into());
    }
}

impl Bench for TestersBench<'_> {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        let duration = self.shortened.unwrap_or(spec.duration);
        let spec = &TrialSpec { duration, ..spec.clone() };
        let Some(testers) = &mut self.testers else { return self.own.trial(spec) };
        self.own.trial_by(spec, |setup, live| {
            testers.trial(setup.request(), live, &self.own.stop).map_err(|e| e.to_string())
        })
    }

    fn hidden_cpu(&self) -> Option<Seen> {
        self.own.hidden_cpu()
    }

    fn idle_share(&mut self, time: Nanos) -> Result<Option<f64>, BenchError> {
        if self.testers.is_some() { Ok(None) } else { self.own.idle_share(time) }
    }

    fn pause(&mut self, time: Nanos) {
        match &mut self.testers {
            Some(testers) => testers.pause(time),
            None => self.own.pause(time),
        }
    }
}
