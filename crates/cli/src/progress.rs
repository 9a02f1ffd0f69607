//! The counters of a trial while it runs: a live line on a terminal, at most twice a second and only when the trial
//! lasts over two seconds; a file for the lab, whose own view shows them; and, kept with the trial, its latencies over
//! time.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use load::{LATENCY_BOUNDS, Live};
use record::{Glimpse, SCHEMA, Series};

use crate::latencies::LatencyWatch;

/// How often the file is written.
const FILE_INTERVAL: Duration = Duration::from_millis(250);

/// Shows the counters of a trial until it is dropped.
pub(crate) struct Progress {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    latencies: LatencyWatch,
}

impl Progress {
    /// Begins to show the counters that it gives: behind `label` when standard error is a terminal, or in `file`.
    pub(crate) fn show(label: String, file: Option<&Path>) -> (Arc<Live>, Self) {
        let live = Arc::new(Live { watched: true, ..Live::default() });
        let done = Arc::new(AtomicBool::new(false));
        let (shown, flag) = (live.clone(), done.clone());
        let thread = match file.map(Path::to_owned) {
            Some(file) => Some(std::thread::spawn(move || write(&file, &shown, &flag))),
            None if std::io::stderr().is_terminal() => {
                Some(std::thread::spawn(move || draw(&label, &shown, &flag)))
            }
            None => None,
        };
        let latencies = LatencyWatch::start(live.clone());
        (live, Progress { done, thread, latencies })
    }

    /// Ends it; the latencies of the trial over time.
    pub(crate) fn finish(mut self) -> Vec<Series> {
        self.end();
        self.latencies.stop()
    }

    fn end(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread has said so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

/// What is counted by now.
fn glimpse(live: &Live, began: Instant) -> Glimpse {
    let [sent, answered, valid, bad, lost] =
        [&live.sent, &live.answered, &live.valid, &live.bad, &live.lost]
            .map(|counter| counter.load(Ordering::Relaxed));
    let counts = live.latency.iter().map(|counter| counter.load(Ordering::Relaxed));
    let bounds = LATENCY_BOUNDS.iter().map(|bound| bound.as_secs_f64() * 1e6);
    let latency_us = bounds.zip(counts).filter(|(_, count)| *count > 0).collect();
    let at_s = began.elapsed().as_secs_f64();
    Glimpse { schema: SCHEMA, at_s, sent, answered, valid, bad, lost, latency_us }
}

fn write(file: &Path, live: &Live, done: &AtomicBool) {
    let began = Instant::now();
    while !done.load(Ordering::Relaxed) {
        std::thread::park_timeout(FILE_INTERVAL);
        // Nobody but an onlooker misses it.
        let _ = record::write(file, &glimpse(live, began));
    }
}

fn draw(label: &str, live: &Live, done: &AtomicBool) {
    let began = Instant::now();
    let (mut last, mut before, mut drawn) = (began, Glimpse::default(), false);
    while !done.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(100));
        if began.elapsed() < Duration::from_secs(2) || last.elapsed() < Duration::from_millis(500) {
            continue;
        }
        let now = glimpse(live, began);
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
        let _ = std::io::stderr().flush();
        (last, before, drawn) = (Instant::now(), now, true);
    }
    if drawn {
        eprint!("\r\x1b[K");
    }
}
