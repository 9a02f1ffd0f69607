//! Counters of a running trial: on one line of a terminal, at most twice a second, for trials of over two seconds; or a line at each
//! interval that the user sets, also off a terminal.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use load::Live;
use measure::Nanos;
use record::Snapshot;
use report::view::{short_time_us, span};
use tester::{Background, snapshot};

/// A line of standard error that the next text overwrites on a terminal; elsewhere each text is a line.
#[derive(Debug)]
pub(crate) struct Line {
    terminal: bool,
}

impl Default for Line {
    fn default() -> Self {
        Line { terminal: std::io::stderr().is_terminal() }
    }
}

impl Line {
    /// Shows a text.
    pub(crate) fn show(&mut self, text: &str) {
        if self.terminal { eprint!("\r\x1b[K{text}") } else { eprintln!("{text}") }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

/// Returns counters and shows them behind `label`, at each `interval` or if standard error is a terminal, until the second value is
/// dropped.
///
/// `planned` is the duration of the trial, if it is known.
pub(crate) fn show(
    label: String,
    planned: Option<Nanos>,
    interval: Option<Nanos>,
) -> (Arc<Live>, Option<Background<()>>) {
    let live = Arc::new(Live { watched: true, ..Live::default() });
    let shown = live.clone();
    if let Some(every) = interval.filter(|every| *every > Nanos::ZERO) {
        return (live, Some(Background::start(move |done| lines(every.into(), &shown, done))));
    }
    let terminal = std::io::stderr().is_terminal();
    let thread =
        terminal.then(|| Background::start(move |done| draw(&label, planned, &shown, done)));
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
        let of = now.since(&before);
        let rate = |count: u64| count as f64 / of.at_s.max(1e-9);
        eprintln!(
            "{:.1} s: sent {:.0}/s, valid {:.0}/s, invalid {}, lost {}{}",
            now.at_s,
            rate(of.sent),
            rate(of.valid),
            now.bad.saturating_sub(now.lost),
            now.lost,
            latency(&of, ", ")
        );
        (next, before) = (next + every, now);
    }
}

/// Returns bounds of the median and the 99th percentile of the latency, each behind `gap`; empty without replies.
fn latency(of: &Snapshot, gap: &str) -> String {
    let bound = |name: &str, share| {
        let us = of.latency_bound_us(share)?;
        Some(format!("{gap}{name} <{}", short_time_us(us)))
    };
    [bound("p50", 0.5), bound("p99", 0.99)].into_iter().flatten().collect()
}

/// Returns how much of a trial is left, in words; only its time if it has no planned end.
fn course(at_s: f64, planned: Option<Nanos>) -> String {
    match planned.map(Nanos::as_secs_f64) {
        Some(whole) if whole > at_s => {
            format!("{at_s:>5.1} s, {} left", span((whole - at_s).ceil()))
        }
        Some(_) => format!("{at_s:>5.1} s, waiting for the last replies"),
        None => format!("{at_s:>5.1} s"),
    }
}

fn draw(label: &str, planned: Option<Nanos>, live: &Live, done: &AtomicBool) {
    let began = Instant::now();
    let (mut last, mut before, mut drawn) = (began, Snapshot::default(), false);
    while !done.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(100));
        if began.elapsed() < Duration::from_secs(2) || last.elapsed() < Duration::from_millis(500) {
            continue;
        }
        let now = snapshot(live, began);
        let of = now.since(&before);
        let rate = |count: u64| count as f64 / of.at_s.max(1e-9);
        eprint!(
            "\r\x1b[K{label}  {}  sent {:.0}/s  valid {:.0}/s{}  invalid {}  lost {}",
            course(now.at_s, planned),
            rate(of.sent),
            rate(of.valid),
            latency(&of, "  "),
            now.bad.saturating_sub(now.lost),
            now.lost,
        );
        (last, before, drawn) = (Instant::now(), now, true);
    }
    if drawn {
        eprint!("\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_and_the_latency_are_in_words() {
        let of = Snapshot { latency_us: vec![(100.0, 98), (500.0, 2)], ..Snapshot::default() };
        assert_eq!(latency(&of, ", "), ", p50 <100 us, p99 <500 us");
        assert_eq!(latency(&Snapshot::default(), ", "), "");
        let minute = Some(Nanos::from_secs(60));
        assert_eq!(course(12.5, minute), " 12.5 s, 48 s left");
        assert_eq!(course(60.5, minute), " 60.5 s, waiting for the last replies");
        assert_eq!(course(5.0, None), "  5.0 s");
    }
}
