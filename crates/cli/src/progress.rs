//! The live line of a trial on a terminal: at most ten times a second, and only when it lasts over two seconds.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use load::Live;

/// Shows the counters of a trial until it is dropped.
pub(crate) struct Progress {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begins to show `live` behind `label`; does nothing when standard error is no terminal.
    pub(crate) fn show(label: String, live: &Arc<Live>) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        if !std::io::stderr().is_terminal() {
            return Progress { done, thread: None };
        }
        let (live, flag) = (live.clone(), done.clone());
        let thread = std::thread::spawn(move || draw(&label, &live, &flag));
        Progress { done, thread: Some(thread) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the drawing thread has said so itself.
            let _ = thread.join();
        }
    }
}

fn draw(label: &str, live: &Arc<Live>, done: &AtomicBool) {
    let began = Instant::now();
    let (mut last, mut last_sent, mut last_valid, mut drawn) = (began, 0, 0, false);
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        if began.elapsed() < Duration::from_secs(2) || last.elapsed() < Duration::from_millis(500) {
            continue;
        }
        let [sent, valid, bad, lost] = [&live.sent, &live.valid, &live.bad, &live.lost]
            .map(|counter| counter.load(Ordering::Relaxed));
        let span = last.elapsed().as_secs_f64();
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / span;
        eprint!(
            "\r\x1b[K{label}  {:>5.1} s  sent {:.0}/s  valid {:.0}/s  invalid {}  lost {lost}",
            began.elapsed().as_secs_f64(),
            rate(sent, last_sent),
            rate(valid, last_valid),
            bad.saturating_sub(lost),
        );
        let _ = std::io::stderr().flush();
        (last, last_sent, last_valid, drawn) = (Instant::now(), sent, valid, true);
    }
    if drawn {
        eprint!("\r\x1b[K");
    }
}
