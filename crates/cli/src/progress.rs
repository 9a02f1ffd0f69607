//! Counters of a running trial: on one line of a terminal, at most twice a second, for trials of over two seconds; or a line at each
//! interval that the user sets, also off a terminal.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use load::Live;
use measure::Nanos;
use record::Snapshot;
use tester::{Background, snapshot};

/// Returns counters and shows them behind `label`, at each `interval` or if standard error is a terminal, until the second value is
/// dropped.
pub(crate) fn show(label: String, interval: Option<Nanos>) -> (Arc<Live>, Option<Background<()>>) {
    let live = Arc::new(Live { watched: true, ..Live::default() });
    let shown = live.clone();
    if let Some(every) = interval.filter(|every| *every > Nanos::ZERO) {
        return (live, Some(Background::start(move |done| lines(every.into(), &shown, done))));
    }
    let terminal = std::io::stderr().is_terminal();
    let thread = terminal.then(|| Background::start(move |done| draw(&label, &shown, done)));
    (live, thread)
}

/// Prints a line with the rates of each interval.
fn lines(every: Duration, live: &Live, done: &AtomicBool) {
    let began = Instant::now();
    let (mut next, mut before) = (began + every, Snapshot::default());
    while !done.load(Ordering::Relaxed) {
        let left = next.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::park_timeout(left);
            continue;
        }
        let now = snapshot(live, began);
        let span = (now.at_s - before.at_s).max(1e-9);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / span;
        eprintln!(
            "{:.1} s: sent {:.0}/s, valid {:.0}/s, invalid {}, lost {}",
            now.at_s,
            rate(now.sent, before.sent),
            rate(now.valid, before.valid),
            now.bad.saturating_sub(now.lost),
            now.lost
        );
        (next, before) = (next + every, now);
    }
}

fn draw(label: &str, live: &Live, done: &AtomicBool) {
    let began = Instant::now();
    let (mut last, mut before, mut drawn) = (began, Snapshot::default(), false);
    while !done.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(100));
        if began.elapsed() < Duration::from_secs(2) || last.elapsed() < Duration::from_millis(500) {
            continue;
        }
        let now = snapshot(live, began);
        let span = last.elapsed().as_secs_f64();
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / span;
        eprint!(
            "\r\x1b[K{label}  {:>5.1} s  sent {:.0}/s  valid {:.0}/s  invalid {}  lost {}",
            now.at_s,
            rate(now.sent, before.sent),
            rate(now.valid, before.valid),
            now.bad.saturating_sub(now.lost),
            now.lost,
        );
        (last, before, drawn) = (Instant::now(), now, true);
    }
    if drawn {
        eprint!("\r\x1b[K");
    }
}
