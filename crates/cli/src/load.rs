//! `dnsdyno load`: one trial.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use measure::Pacing;

use crate::args::LoadArgs;
use crate::failure::Failure;
use crate::lockstep;
use crate::options::{self, WorkloadPlan};
use crate::progress::Progress;
use crate::streams::StreamSetup;
use crate::tester::Setup;
use crate::trace_replay::Replay;

/// Set by SIGINT and SIGTERM: whatever runs ends cleanly and reports what it has.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::run)?;
    }
    Ok(stop)
}

pub(crate) fn run(args: LoadArgs) -> Result<(), Failure> {
    let mut pacing = options::pacing(&args).map_err(Failure::BadInput)?;
    let mut duration = args.duration;
    let mut incomplete = None;
    let (mut workload, doubts) = match Replay::new(&args.replay)? {
        Some(replay) => {
            (pacing, duration) = (replay.mean(), replay.duration());
            let doubts = replay.warnings.clone();
            incomplete.clone_from(&replay.incomplete);
            (WorkloadPlan::Replay(replay), doubts)
        }
        None => (WorkloadPlan::new(&args.workload).map_err(Failure::BadInput)?, Vec::new()),
    };
    if let (Pacing::LockStep { .. }, WorkloadPlan::Namespace(spec)) = (pacing, &mut workload) {
        // dns64perf asks its names in their own order.
        spec.sequential = true;
    }
    let target = args.target.or_port(args.streams.port());
    let streams = StreamSetup::new(&args, target, pacing).map_err(Failure::BadInput)?;
    let setup = Setup {
        target,
        streams,
        workload,
        pacing,
        duration,
        timeout: args.timeout,
        goal: args.goal.clone(),
        seed: args.workload.seed,
        sockets: args.sockets.clone(),
    };
    let stop = interruption()?;
    if let Pacing::LockStep { .. } = pacing {
        return lockstep::run(&args, setup, &stop);
    }
    if let Some(planned) = setup.planned() {
        setup.workload.check_names(planned).map_err(Failure::BadInput)?;
    }
    let (live, progress) = Progress::show(format!("load {}", setup.target), args.live.as_deref());
    let mut outcome = setup.run(&live, &stop).map_err(Failure::Failed)?;
    outcome.trial.probes = progress.finish();
    outcome.trial.warnings.extend(doubts);
    if let Some(path) = &args.json {
        record::write(path, &outcome.trial).map_err(Failure::run)?;
    }
    if args.json.as_deref() != Some(std::path::Path::new("-")) {
        print!("{}", report::trial(&outcome.trial));
    }
    let failed = outcome.trial.void.is_void() || outcome.trial.passed == Some(false);
    args.keep.keep(&record::of_trial("load", outcome.trial))?;
    match incomplete {
        Some(why) => Err(Failure::run(anyhow::anyhow!(why))),
        None if failed => Err(Failure::Silent),
        None => Ok(()),
    }
}
