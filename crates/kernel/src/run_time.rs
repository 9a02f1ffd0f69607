//! CPU time of programs in the kernel, by its run statistics (`BPF_ENABLE_STATS`, Linux 5.8). While they are on, the kernel reads its
//! clock before and after each run of any program, which takes time itself:
//!
//! ```text
//!   ├──────────── added to each run ──────────┤
//!   clock ── part ──┤  program  ├── part ── clock      counted = program + the part of `added` between the readings
//!         ├─────────── counted ─────────────┤
//! ```
//!
//! Both are measured once, with a program that lets an empty frame pass.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::{fs, io};

use aya::programs::{ProgramFd, TestRun as _, TestRunOptions, loaded_programs};
use aya::sys::{Stats, enable_stats};

use crate::attached::on_devices;
use crate::auth::{NAME, OBJECT};
use crate::program::Programs;

/// Number of runs of which the mean is taken, and number of means, of which the smallest counts.
const RUNS: u32 = 100_000;
const TRIES: u32 = 5;

/// Cost of the statistics for each run of a program, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunCost {
    /// Time that the statistics add to a run.
    pub added_ns: f64,
    /// Part of the added time that is counted as time of the program.
    pub counted_ns: f64,
}

/// Run time of programs since the start of counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTime {
    /// Time of the runs that were counted, in nanoseconds; includes a part of the counting's own
    /// cost.
    pub ns: u64,
    /// Number of runs that were counted.
    pub runs: u64,
}

/// Run statistics, which are on until this is dropped, of some programs.
#[derive(Debug)]
pub struct RunStatistics {
    programs: Vec<ProgramFd>,
    cost: RunCost,
    _enabled: OwnedFd,
}

impl RunStatistics {
    /// Counts the runs of the programs with these numbers; `None` where this user may not (it needs CAP_SYS_ADMIN and CAP_BPF).
    pub fn of(programs: BTreeSet<u32>) -> Option<Self> {
        let cost = run_cost()?;
        let loaded = loaded_programs().filter_map(Result::ok);
        let own = loaded.filter(|program| programs.contains(&program.id()));
        let programs = own.filter_map(|program| program.fd().ok()).collect();
        Some(RunStatistics { programs, cost, _enabled: enable_stats(Stats::RunTime).ok()? })
    }

    /// Returns the cost of the statistics for each run.
    pub fn cost(&self) -> RunCost {
        self.cost
    }

    /// Returns the run time of the programs so far.
    pub fn read(&self) -> RunTime {
        self.programs.iter().fold(RunTime::default(), |sum, program| {
            let fd = program.as_fd().as_raw_fd();
            let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
            let number = |field: &str| {
                let value =
                    text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
                value.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
            };
            RunTime { ns: sum.ns + number("run_time_ns"), runs: sum.runs + number("run_cnt") }
        })
    }
}

/// Returns the cost of run statistics for each run on this host; `None` if this user may not enable
/// them.
pub fn run_cost() -> Option<RunCost> {
    static RUN_COST: OnceLock<Option<RunCost>> = OnceLock::new();
    // A signal ends a try.
    *RUN_COST.get_or_init(|| (0..3).find_map(|_| measure()))
}

/// Returns the numbers of the programs on the devices of this network namespace.
///
/// # Errors
/// If the kernel does not report them.
pub fn programs_on_devices() -> io::Result<BTreeSet<u32>> {
    Ok(on_devices(None)?.into_iter().map(|on| on.id).collect())
}

/// Measures the cost of counting a run; `None` if the kernel refuses programs.
fn measure() -> Option<RunCost> {
    let mut loaded = Programs::maps(OBJECT, &[]).ok()?;
    loaded.load(NAME).ok()?;
    let program = loaded.program(NAME).ok()?;
    let run_ns = || {
        let frame = Some(&[0; 64][..]);
        let options = TestRunOptions { data_in: frame, repeat: RUNS, ..Default::default() };
        Some(program.test_run(options).ok()?.duration.as_nanos() as f64)
    };
    let counted = || {
        let info = program.info().ok()?;
        Some((info.run_time().as_nanos() as f64, info.run_count()))
    };
    let mut least = [f64::MAX; 3];
    for _ in 0..TRIES {
        let without_ns = run_ns()?;
        let _enabled = enable_stats(Stats::RunTime).ok()?;
        let before = counted()?;
        let with_ns = run_ns()?;
        let after = counted()?;
        let runs = after.1.saturating_sub(before.1).max(1);
        let found = [without_ns, with_ns, (after.0 - before.0) / runs as f64];
        least = std::array::from_fn(|i| f64::min(least[i], found[i]));
    }
    let [without_ns, with_ns, counted_ns] = least;
    let added_ns = (with_ns - without_ns).max(0.0);
    // The time without statistics includes the loop, so that the program's part is rather too
    // small.
    Some(RunCost { added_ns, counted_ns: (counted_ns - without_ns).clamp(0.0, added_ns) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_and_cost_little() {
        let (Ok(mut loaded), Some(cost)) = (Programs::maps(OBJECT, &[]), run_cost()) else {
            return skip::because("no run statistics for this user");
        };
        assert!(cost.counted_ns <= cost.added_ns && cost.added_ns < 100_000.0, "{cost:?}");
        loaded.load(NAME).expect("loads");
        let program = loaded.program(NAME).expect("it is there");
        let id = program.info().expect("told").id();
        let [own, none] = [[id].into(), BTreeSet::new()].map(RunStatistics::of);
        let (own, none) = (own.expect("permitted"), none.expect("permitted"));
        let run = || loaded.run(NAME, &[0; 64], &mut [0; 64]).expect("runs");
        for _ in 0..7 {
            run();
        }
        let counted = own.read();
        assert_eq!((counted.runs, none.read()), (7, RunTime::default()));
        assert!(counted.ns > 0, "{counted:?}");
        drop((own, none));
        run();
        let again = RunStatistics::of([id].into()).expect("permitted").read();
        // Another process may have switched them on.
        assert!((7..=8).contains(&again.runs), "{again:?}");
    }
}
