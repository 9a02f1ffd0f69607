//! The terminal: used from the start of a run and restored however it ends.
//!
//! A thread draws twice a second, another one waits for keys. They run on the Tester's cores, never
//! on those of the server under test; a picture takes about a millisecond. If the terminal is lost,
//! the view ends and the run continues: the reader of keys gets the end of the input, once, where a
//! library that looks for events would look for ever.

use std::io::{self, IsTerminal, Read, Stderr, stderr, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use measure::procfs;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use report::live::{Paint, Screen, draw};

use super::board::Board;

const DRAW_INTERVAL: Duration = Duration::from_millis(500);
/// Longest interval between checks for a key.
const KEY_INTERVAL: Duration = Duration::from_millis(100);
/// Name of the value that orders the inner process to open a live view. Only the outer process
/// knows whether it is in the foreground of the terminal: the terminal stops a job in the
/// background that draws.
const LIVE_VIEW: &str = "live view";

/// Returns the value for the inner process, if it should open a view.
pub(crate) fn live_view_variable(plain: bool) -> Option<(&'static str, String)> {
    let terminal = stderr().is_terminal() && stdin().is_terminal();
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let wanted = !plain && terminal && !dumb && is_in_foreground();
    wanted.then(|| (LIVE_VIEW, "1".to_owned()))
}

/// Returns whether the inner process is to open a view.
pub(crate) fn is_wanted(plain: bool) -> bool {
    !plain && stderr().is_terminal() && lab::handed(LIVE_VIEW).is_some()
}

/// Returns whether this process is in the foreground of its terminal.
fn is_in_foreground() -> bool {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    procfs::parse_stat(&stat).is_some_and(|process| process.group == process.foreground_group)
}

/// The open view; dropping it closes it.
pub(crate) struct LiveView {
    board: Board,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LiveView {
    /// Switches the terminal to the view and shows `board` on it, from a thread on `cpus`; a key
    /// that ends the run sets `interrupted`.
    pub(crate) fn open(
        board: &Board,
        interrupted: Arc<AtomicBool>,
        cpus: Vec<usize>,
    ) -> io::Result<Self> {
        let done = Arc::new(AtomicBool::new(false));
        give_back_on_panic(done.clone());
        enable_raw_mode()?;
        let terminal = execute!(stderr(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stderr())))
            .inspect_err(|_| give_back())?;
        let paint = Paint { colours: std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) };
        let (shown, flag) = (board.clone(), done.clone());
        let thread = std::thread::spawn(move || {
            // Without the right to pin, the thread runs on any core.
            let _ = udp::sys::pin_to_cpus(&cpus);
            if let Err(e) = show(terminal, &shown, &interrupted, &flag, paint) {
                shown.state().say(format!("the live view ended: {e}"));
            }
        });
        Ok(LiveView { board: board.clone(), done, thread: Some(thread) })
    }
}

impl Drop for LiveView {
    /// Restores the terminal, and prints the lines that were kept meanwhile.
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has printed its message.
            let _ = thread.join();
        }
        give_back();
        let state = self.board.state();
        let (lines, gone) = state.lines();
        if gone > 0 {
            eprintln!("({gone} earlier lines were dropped)");
        }
        for line in lines {
            eprintln!("{line}");
        }
    }
}

/// Restores the terminal; a second call has no effect.
fn give_back() {
    // An error is ignored: nothing else would restore the terminal.
    let _ = execute!(stderr(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// Makes a panic of any thread close the view before it prints its message.
fn give_back_on_panic(done: Arc<AtomicBool>) {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !done.swap(true, Ordering::Relaxed) {
            give_back();
        }
        tell(panic);
    }));
}

/// Draws and reads keys until `done`.
fn show(
    mut terminal: Terminal<CrosstermBackend<Stderr>>,
    board: &Board,
    interrupted: &AtomicBool,
    done: &AtomicBool,
    paint: Paint,
) -> io::Result<()> {
    let (keys, mut next, mut screen) = (keys(), Instant::now(), Screen::default());
    while !done.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            next = Instant::now() + DRAW_INTERVAL;
            if interrupted.load(Ordering::Relaxed) {
                screen.end();
            }
            terminal.draw(|frame| draw(frame, &board.state(), &screen, paint))?;
        }
        match keys.recv_timeout(KEY_INTERVAL) {
            Ok(typed) => {
                let messages = board.state().lines().0.len();
                if screen.typed(&typed, messages) {
                    interrupted.store(true, Ordering::Relaxed);
                }
                next = Instant::now();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the terminal was closed"));
            }
        }
    }
    Ok(())
}

/// Starts a thread that passes on typed keys, until the end of the input. It may wait for a key
/// until the process ends.
fn keys() -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut octets = [0; 64];
        while let Ok(len @ 1..) = stdin().lock().read(&mut octets) {
            if sender.send(octets[..len].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_the_view() {
        let done = Arc::new(AtomicBool::new(false));
        give_back_on_panic(done.clone());
        let panicked = std::thread::spawn(|| panic!("on purpose")).join();
        assert!(panicked.is_err() && done.load(Ordering::Relaxed));
    }
}
