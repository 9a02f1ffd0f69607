//! Cases of a test that do not disturb each other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, scope};

/// A case with its name.
pub(crate) type Case = (&'static str, fn());

/// Lists cases with their names: functions of these names, or what follows a name.
macro_rules! cases {
    (@run $case:ident) => { $case };
    (@run $case:ident $run:expr) => { $run };
    ($($case:ident $(= $run:expr)?),+ $(,)?) => {
        [$((stringify!($case), cases!(@run $case $($run)?) as fn())),+]
    };
}
pub(crate) use cases;

/// Runs the cases, begun in their order, `most` at a time: most of each is a wait, so that these may be more than there are cores.
/// `DNSDYNO_CASE` chooses those whose names contain it. Fails with the names of all that fail.
pub(crate) fn at_a_time(most: usize, cases: &[Case]) {
    let chosen = std::env::var("DNSDYNO_CASE").unwrap_or_default();
    let cases: Vec<&Case> = cases.iter().filter(|(name, _)| name.contains(&chosen)).collect();
    if cases.is_empty() {
        println!("no case here has {chosen} in its name");
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failed = Vec::new();
        while let Some((name, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = std::time::Instant::now();
            let thread = Builder::new().name((*name).to_owned()).spawn(*case).expect("a thread");
            failed.extend(thread.join().is_err().then_some(*name));
            println!("{name}: {:.1} s", began.elapsed().as_secs_f64());
        }
        failed
    };
    let failed: Vec<&str> = scope(|scope| {
        let workers: Vec<_> = (0..most).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    });
    assert!(failed.is_empty(), "failed: {}", failed.join(", "));
}
