//! `dnsdyno load --pacing lockstep`: dns64perf's experiments, and the table of seed 000.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use measure::pacing::EXPERIMENT;
use measure::{Pacing, stats};
use record::{LockStepRow, LockStepTable, SCHEMA};

use crate::args::LoadArgs;
use crate::failure::Failure;
use crate::host;
use crate::options::WorkloadPlan;
use crate::progress::Progress;
use crate::tester::Setup;

/// Runs the experiments for each number of threads.
pub(crate) fn run(args: &LoadArgs, setup: Setup, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    if args.keep.is_wanted() {
        let why = "the table of --pacing lockstep is not kept: `dnsdyno run dns64-lockstep` keeps its rows";
        return Err(Failure::BadInput(anyhow::anyhow!(why)));
    }
    let each = u64::from(args.experiments) * u64::from(EXPERIMENT);
    if each == 0 {
        return Err(Failure::BadInput(anyhow::anyhow!("--experiments 0: at least one is run")));
    }
    setup.workload.check_names(each * args.threads.len() as u64).map_err(Failure::BadInput)?;
    for &threads in &args.threads {
        if !threads.is_power_of_two() || threads > EXPERIMENT {
            return Err(Failure::input(load::lockstep::BadThreads(threads)));
        }
    }
    let mut rows = Vec::new();
    for (run, &threads) in (0u64..).zip(&args.threads) {
        let mut setup = setup.clone();
        setup.pacing = Pacing::LockStep { threads, experiments: args.experiments };
        if let WorkloadPlan::Namespace(spec) = &mut setup.workload {
            // No name twice, over all numbers of threads: the first would be in the server's cache.
            spec.first += run * each;
            spec.names = each;
        }
        rows.push(row(args, &setup, threads, stop)?);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let table = LockStepTable { schema: SCHEMA, server: setup.target.to_string(), rows };
    if let Some(path) = &args.json {
        record::write(path, &table).map_err(Failure::run)?;
    }
    print!("{}", report::lockstep(&table));
    if table.rows.iter().any(|row| row.trial.void.is_void()) {
        Err(Failure::Silent)
    } else {
        Ok(())
    }
}

/// One column of the table.
fn row(
    args: &LoadArgs,
    setup: &Setup,
    threads: u32,
    stop: &Arc<AtomicBool>,
) -> Result<LockStepRow, Failure> {
    let label = format!("lock-step {}, {threads} threads", setup.target);
    let (live, progress) = Progress::show(label, args.live.as_deref());
    let sampler = Sampler::start(args.dut_cpus.as_ref().map(|list| list.cpus().to_vec()));
    let outcome = setup.run(&live, stop).map_err(Failure::Failed)?;
    let busy = sampler.end();
    drop(progress);
    let times: Vec<f64> = outcome.times.iter().map(|t| t.as_secs_f64() * 1e3).collect();
    let mean_ms = stats::mean(&times).unwrap_or(0.0);
    Ok(LockStepRow {
        threads,
        experiments: times.len() as u32,
        mean_ms,
        std_dev_ms: stats::std_dev(&times).unwrap_or(0.0),
        max_ms: times.iter().copied().fold(0.0, f64::max),
        qps: if mean_ms > 0.0 { f64::from(EXPERIMENT) / mean_ms * 1e3 } else { 0.0 },
        cpu_percent: stats::mean(&busy),
        cpu_std_dev: stats::std_dev(&busy),
        trial: outcome.trial,
    })
}

/// Samples the use of cores each second, as dstat does: 100 - idle.
struct Sampler {
    done: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<f64>>,
}

/// The shortest span that ticks of 10 ms tell something about.
const SHORTEST: Duration = Duration::from_millis(200);

impl Sampler {
    fn start(cpus: Option<Vec<usize>>) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let flag = done.clone();
        let thread = std::thread::spawn(move || {
            let mut samples = Vec::new();
            let read = || host::sum(&host::cores(), cpus.as_deref());
            let (mut before, mut since) = (read(), std::time::Instant::now());
            loop {
                let ended = flag.load(Ordering::Relaxed);
                let due = since.elapsed() >= Duration::from_secs(1)
                    || (ended && samples.is_empty() && since.elapsed() >= SHORTEST);
                if due {
                    let now = read();
                    let used = now.since(&before);
                    if used.total() > 0 {
                        samples.push(100.0 * used.busy() as f64 / used.total() as f64);
                    }
                    (before, since) = (now, std::time::Instant::now());
                }
                if ended {
                    return samples;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Sampler { done, thread }
    }

    /// The samples in percent.
    fn end(self) -> Vec<f64> {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
