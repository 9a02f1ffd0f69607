//! The live line of a trial on a terminal: at most ten times a second, and only when it lasts over two seconds.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use load::Live;

/// Shows the counters of workers until it is dropped.
pub(crate) struct Progress {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Counter blocks for `workers`, all zero.
    pub(crate) fn counters(workers: usize) -> Vec<Arc<Live>> {
        (0..workers).map(|_| Arc::default()).collect()
    }

    /// Begins to show `lives` behind `label`; does nothing when standard error is no terminal.
    pub(crate) fn show(label: String, lives: &[Arc<Live>]) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        if !std::io::stderr().is_terminal() {
            return Progress { done, thread: None };
        }
        let (lives, flag) = (lives.to_vec(), done.clone());
        let thread = std::thread::spawn(move || draw(&label, &lives, &flag));
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

fn draw(label: &str, lives: &[Arc<Live>], done: &AtomicBool) {
    let began = Instant::now();
    let (mut last, mut last_sent, mut last_valid, mut drawn) = (began, 0, 0, false);
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        if began.elapsed() < Duration::from_secs(2) || last.elapsed() < Duration::from_millis(500) {
            continue;
        }
        let sum = |counter: fn(&Live) -> &std::sync::atomic::AtomicU64| {
            lives.iter().map(|l| counter(l).load(Ordering::Relaxed)).sum::<u64>()
        };
        let (sent, valid, answered, lost) =
            (sum(|l| &l.sent), sum(|l| &l.valid), sum(|l| &l.answered), sum(|l| &l.lost));
        let span = last.elapsed().as_secs_f64();
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / span;
        eprint!(
            "\r\x1b[K{label}  {:>5.1} s  sent {:.0}/s  valid {:.0}/s  invalid {}  lost {lost}",
            began.elapsed().as_secs_f64(),
            rate(sent, last_sent),
            rate(valid, last_valid),
            answered - valid.min(answered),
        );
        let _ = std::io::stderr().flush();
        (last, last_sent, last_valid, drawn) = (Instant::now(), sent, valid, true);
    }
    if drawn {
        eprint!("\r\x1b[K");
    }
}
