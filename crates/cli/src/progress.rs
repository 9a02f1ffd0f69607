//! Counters of a running trial: on one line of a terminal, at most twice a second, for trials of
//! over two seconds; or a line at each interval that the user sets, also off a terminal; or when
//! SIGUSR1 requests them.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use load::Live;
use measure::Nanos;
use record::Snapshot;
use report::view::{short_time_us, span};
use tester::{Background, snapshot};

use crate::process::figures_requested;

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
    /// Shows a text: on a terminal in place of the last one, else on a line of its own.
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

/// Returns counters and shows them after `label`, at each `interval` or if standard error is a
/// terminal, until the second value is dropped; also at each SIGUSR1.
///
/// `planned` is the duration of the trial, if it is known.
pub(crate) fn show(
    label: String,
    planned: Option<Nanos>,
    interval: Option<Nanos>,
) -> (Arc<Live>, Background<()>) {
    let live = Arc::new(Live { watched: true, ..Live::default() });
    let view = match interval.filter(|every| *every > Nanos::ZERO) {
        Some(every) => View::Lines(every.into()),
        None if std::io::stderr().is_terminal() => View::Line { label, planned },
        None => View::Nothing,
    };
    let thread = view.start(&live);
    (live, thread)
}

/// Where the counters of a trial are shown while it runs.
pub(crate) enum View {
    /// On a line of the terminal.
    Line { label: String, planned: Option<Nanos> },
    /// On a line of their own after each such time.
    Lines(Duration),
    /// Counters are printed only after SIGUSR1.
    Nothing,
}

/// Interval of checks for the first query of a load.
const START_CHECK: Duration = Duration::from_millis(5);
/// Interval of checks for SIGUSR1.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Time after which a trial has a line on the terminal, and between two changes of it.
const LINE_TIMES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(500));

impl View {
    /// Starts the thread that shows the counters.
    pub(crate) fn start(self, live: &Arc<Live>) -> Background<()> {
        let live = live.clone();
        Background::start(move |done| self.show(&live, done))
    }

    fn show(&self, live: &Live, done: &AtomicBool) {
        let mut began = Instant::now();
        let (first, every) = match self {
            View::Line { .. } => LINE_TIMES,
            View::Lines(every) => (*every, *every),
            View::Nothing => (Duration::MAX, Duration::MAX),
        };
        let (mut next, mut before) = (began.checked_add(first), Snapshot::default());
        let mut sends = matches!(self, View::Line { .. });
        while !done.load(Ordering::Relaxed) {
            // The first line is about as much of the load as the others.
            if !sends {
                (began, sends) = (Instant::now(), has_begun(live));
                next = began.checked_add(first);
            }
            if figures_requested() {
                let now = snapshot(live, began);
                eprintln!("so far, {:.1} s: {}", now.at_s, figures(&now, ", "));
            }
            let left =
                next.map_or(CHECK_INTERVAL, |next| next.saturating_duration_since(Instant::now()));
            if !left.is_zero() {
                let check = if sends { CHECK_INTERVAL } else { START_CHECK };
                std::thread::park_timeout(left.min(check));
                continue;
            }
            let now = snapshot(live, began);
            let of = now.since(&before);
            match self {
                View::Line { label, planned } => {
                    let course = course(now.at_s, *planned);
                    eprint!("\r\x1b[K{label}  {course}  {}", figures(&of, "  "));
                }
                _ => eprintln!("{:.1} s: {}", now.at_s, figures(&of, ", ")),
            }
            (next, before) = (next.map(|next| next + every), now);
        }
        if matches!(self, View::Line { .. }) && before.at_s > 0.0 {
            eprint!("\r\x1b[K");
        }
    }
}

/// Returns whether a query has left, or could not leave.
fn has_begun(live: &Live) -> bool {
    live.sent.load(Ordering::Relaxed) + live.bad.load(Ordering::Relaxed) > 0
}

/// Waits for the first query of a trial, or its end.
pub(crate) fn wait_for_start(live: &Live, done: &AtomicBool) {
    while !has_begun(live) && !done.load(Ordering::Relaxed) {
        std::thread::park_timeout(START_CHECK);
    }
}

/// Returns the figures of a span of a trial: rates, counts, and bounds of its latencies.
fn figures(of: &Snapshot, gap: &str) -> String {
    let rate = |count: u64| count as f64 / of.at_s.max(1e-9);
    let reasons = of.invalid.iter().map(|(reason, count)| format!("{reason} {count}"));
    let reasons = reasons.collect::<Vec<_>>().join(", ");
    let reasons = if reasons.is_empty() { reasons } else { format!(" ({reasons})") };
    format!(
        "sent {:.0}/s{gap}valid {:.0}/s{gap}invalid {}{reasons}{gap}lost {}{}",
        rate(of.sent),
        rate(of.valid),
        of.bad.saturating_sub(of.lost),
        of.lost,
        latency(of, gap)
    )
}

/// Returns bounds of the median and the 99th percentile of the latency, each after `gap`; empty
/// without replies.
fn latency(of: &Snapshot, gap: &str) -> String {
    let bound = |name: &str, share| {
        let us = of.latency_bound_us(share)?;
        Some(format!("{gap}{name} <{}", short_time_us(us)))
    };
    [bound("p50", 0.5), bound("p99", 0.99)].into_iter().flatten().collect()
}

/// Returns the elapsed and planned time of a trial in words; only the elapsed time without a
/// planned end.
fn course(at_s: f64, planned: Option<Nanos>) -> String {
    match planned.map(Nanos::as_secs_f64) {
        Some(whole) if whole > at_s => {
            format!("{at_s:>5.1} s, {} left", span((whole - at_s).ceil()))
        }
        Some(_) => format!("{at_s:>5.1} s, waiting for the last replies"),
        None => format!("{at_s:>5.1} s"),
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
