//! Other processes on the Tester's cores: their names, the CPU time that they used, and the core
//! that they use least.
//!
//! ```text
//! before the trial   a process that is bound to some cores and busy there, or the server   ──> the Tester takes another core
//! after the trial    CPU time of each process since then, by the cores of its threads      ──> the one that used most of them
//! ```
//!
//! How much of the cores all of them used is counted by the core (`run::UseOfCores`), also what ended meanwhile; here it gets a
//! name. A process that is not bound is left to the kernel, which moves the Tester or the process by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use measure::Warning;
use measure::procfs::StatLine;
use measure::warning::CoreUser;
use udp::{processes, sys};

use crate::host::TICKS_PER_S;
use crate::local_server::LocalServer;

/// Time for which other processes are looked at before a trial.
const WATCH_TIME: Duration = Duration::from_millis(50);
/// Share of a core from which on a process that is bound to it has it.
const HAS_SHARE: f64 = 0.25;
/// Share of the Tester's cores from which on a process is named.
const NAMED_SHARE: f64 = 0.05;

/// CPU time of every other process at one time.
#[derive(Debug)]
pub(crate) struct Processes {
    at: Instant,
    all: BTreeMap<u32, StatLine>,
}

/// A process, and its use of some cores.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CpuUse {
    pid: u32,
    /// Share (0 to 1) of some cores.
    share: f64,
}

impl Processes {
    /// Reads the CPU time of all processes but this one.
    pub(crate) fn now() -> Self {
        let others = processes::all().into_iter().filter(|pid| *pid != std::process::id());
        let all = others.filter_map(|pid| Some((pid, processes::read_stat(pid)?)));
        Processes { at: Instant::now(), all: all.collect() }
    }

    /// Returns the time of each process and its ended children on `cpus` since then, the largest
    /// first; a process of several cores in proportion to the threads that ran on these ones last.
    fn uses(&self, cpus: &[usize]) -> Vec<CpuUse> {
        let now = Self::now();
        let time = now.at.duration_since(self.at).as_secs_f64() * TICKS_PER_S * cpus.len() as f64;
        // A parent's counter includes the whole time of a child that has ended, also the time
        // before.
        let mut before: BTreeMap<u32, u64> = BTreeMap::new();
        for (pid, stat) in &self.all {
            let heir = if now.all.contains_key(pid) { *pid } else { stat.ppid };
            *before.entry(heir).or_default() += stat.all_ticks();
        }
        let spent = now.all.iter().map(|(pid, stat)| {
            let before = before.get(pid).copied().unwrap_or(0);
            (*pid, stat.all_ticks().saturating_sub(before) as f64 / time.max(1.0))
        });
        // Process 1 inherits the time of ended processes. Small shares are not looked at any
        // further.
        let some = spent.filter(|(pid, share)| *pid != 1 && *share >= NAMED_SHARE);
        let here = some.map(|(pid, share)| CpuUse { pid, share: (share * on(pid, cpus)).min(1.0) });
        let mut all: Vec<CpuUse> = here.filter(|used| used.share >= NAMED_SHARE).collect();
        all.sort_by(|a, b| b.share.total_cmp(&a.share));
        all
    }

    /// Returns the warning about the process that used most of the Tester's cores `cpus` since then, if one used much of them;
    /// `free` is a core that it leaves, and `server` the measured server, if it is on this host.
    pub(crate) fn warning(
        &self,
        cpus: &[usize],
        free: Option<usize>,
        server: Option<&LocalServer>,
    ) -> Option<Warning> {
        let CpuUse { pid, share } = *self.uses(cpus).first()?;
        let by = CoreUser { command: processes::name(pid)?, pid };
        let is_server = server.is_some_and(|server| server.is(pid));
        Some(Warning::CoreTaken { by, share, cpus: cpus.to_vec(), free, is_server })
    }
}

/// Returns the share (0 to 1) of a process's time that its threads spent on `cpus`, estimated by
/// the core on which each ran last.
fn on(pid: u32, cpus: &[usize]) -> f64 {
    let (mut here, mut all) = (0, 0);
    for thread in processes::thread_stats(pid) {
        // A thread that has just started counts too.
        let ticks = thread.all_ticks() + 1;
        all += ticks;
        here += if thread.core.is_none_or(|core| cpus.contains(&core)) { ticks } else { 0 };
    }
    here as f64 / all.max(1) as f64
}

/// A core that a process has, and the one that the Tester took instead.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AvoidedCore {
    pub(crate) instead: usize,
    pub(crate) warning: Warning,
}

/// Returns the core for a Tester that may run on several, if a process is bound to one of them and
/// busy, or the server is bound.
pub(crate) fn avoid(server: Option<&LocalServer>) -> Option<AvoidedCore> {
    let allowed = sys::allowed_cpus().ok().filter(|cpus| cpus.len() > 1)?;
    let bound =
        |cpus: &BTreeSet<usize>| !cpus.is_empty() && allowed.iter().any(|cpu| !cpus.contains(cpu));
    let before = Processes::now();
    std::thread::sleep(WATCH_TIME);
    let busy = before.uses(&allowed).into_iter().filter_map(|used| {
        let by = CoreUser { command: processes::name(used.pid)?, pid: used.pid };
        let busy = used.share * allowed.len() as f64 >= HAS_SHARE;
        busy.then(|| (by, processes::allowed_cpus(used.pid)))
    });
    let server = server.and_then(|server| Some((server.process()?, server.cores())));
    let bound: Vec<_> = server.into_iter().chain(busy).filter(|(_, cpus)| bound(cpus)).collect();
    choose(&allowed, &bound)
}

/// Chooses the first core of `allowed` that none of the processes `bound` has.
fn choose(allowed: &[usize], bound: &[(CoreUser, BTreeSet<usize>)]) -> Option<AvoidedCore> {
    let has = |cpu: &usize| bound.iter().find(|(_, cpus)| cpus.contains(cpu));
    let instead = *allowed.iter().find(|cpu| has(cpu).is_none())?;
    let (cpu, (by, _)) = allowed.iter().find_map(|cpu| Some((*cpu, has(cpu)?)))?;
    Some(AvoidedCore { instead, warning: Warning::CoreAvoided { by: by.clone(), cpu, instead } })
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that uses all of a core that it can get.
    struct Hog(Child);

    impl Hog {
        /// Starts it, bound to a core.
        fn on(cpu: usize) -> Self {
            let mut hog = Command::new("sh");
            hog.args(["-c", "while :; do :; done"]).stdout(Stdio::null());
            let bound = std::thread::spawn(move || {
                sys::pin_to_cpus(&[cpu]).expect("an allowed core");
                hog.spawn().expect("starts")
            });
            Hog(bound.join().expect("no panic"))
        }
    }

    impl Drop for Hog {
        fn drop(&mut self) {
            self.0.kill().and_then(|()| self.0.wait()).expect("it ran until now");
        }
    }

    /// Tries until there is something: on a busy machine a process may have to wait for its time.
    fn soon<T>(look: impl Fn() -> Option<T>) -> T {
        let found = (0..600).find_map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            look()
        });
        found.expect("within a minute")
    }

    #[test]
    fn a_process_is_named_with_what_it_used_and_its_core_is_avoided() {
        let allowed = sys::allowed_cpus().expect("readable");
        let (Some(&cpu), Some(&other)) = (allowed.first(), allowed.get(1)) else { return };
        let before = Processes::now();
        let hog = Hog::on(cpu);
        let used = soon(|| before.uses(&[cpu]).into_iter().find(|used| used.pid == hog.0.id()));
        assert!((NAMED_SHARE..=1.0).contains(&used.share), "{used:?}");
        assert!(before.uses(&[other]).iter().all(|used| used.pid != hog.0.id()));
        let Warning::CoreAvoided { by, cpu: avoided, instead } = soon(|| avoid(None)).warning
        else {
            panic!("another warning")
        };
        // Another test or program may be bound, too.
        assert!(avoided != instead && !by.command.is_empty());
    }

    #[test]
    fn a_core_that_nobody_has_is_chosen() {
        let process = |pid, cpus: &[usize]| {
            let user = CoreUser { command: "yes".to_owned(), pid };
            (user, cpus.iter().copied().collect::<BTreeSet<_>>())
        };
        /// Cores, and the processes that are bound to some; then the core that is chosen, and the one that is avoided for a process.
        type Row<'a> = (&'a [usize], &'a [(u32, &'a [usize])], Option<(usize, usize, u32)>);
        let table: [Row<'_>; 5] = [
            (&[0, 1], &[(7, &[0])], Some((1, 0, 7))),
            (&[0, 1], &[(7, &[1])], Some((0, 1, 7))),
            (&[0, 1], &[(7, &[1]), (8, &[0])], None),
            (&[0, 1, 2], &[(7, &[1]), (8, &[0])], Some((2, 0, 8))),
            (&[0, 1], &[], None),
        ];
        for (allowed, bound, wanted) in table {
            let bound: Vec<_> = bound.iter().map(|(pid, cpus)| process(*pid, cpus)).collect();
            let found = choose(allowed, &bound).map(|found| match found.warning {
                Warning::CoreAvoided { by, cpu, instead } => (instead, cpu, by.pid),
                other => panic!("{other:?}"),
            });
            assert_eq!(found, wanted, "{allowed:?} {bound:?}");
        }
    }
}
