//! Log lines on standard error, as text or JSON.
//!
//! ```text
//!   any thread ──line──> queue of QUEUE lines ──> thread "log" ──> standard error
//!                 └ full: lost                        └ disk full, pipe closed: lost
//! ```
//!
//! No thread of the server waits for standard error or depends on it: a full disk, a closed pipe or
//! a pipe without a reader costs lines, which are counted.

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use dns64::config::{LogFormat, LogLevel, ServerConfig};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// Highest number of lines that wait for standard error.
const MAX_QUEUED_LINES: usize = 1_024;
/// Longest wait for standard error at the end of the program.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Lines that were not written.
static LINES_LOST: AtomicU64 = AtomicU64::new(0);
/// The level, which may change.
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();
/// The queue to the thread that writes.
static LINE_QUEUE: OnceLock<SyncSender<LogLine>> = OnceLock::new();

enum LogLine {
    Line(Vec<u8>),
    /// A request to reply when all lines before it are written.
    Flush(SyncSender<()>),
}

/// Starts logging as configured.
///
/// # Errors
/// When the thread cannot be started.
pub(crate) fn start(config: &ServerConfig) -> std::io::Result<()> {
    let (sender, receiver) = sync_channel(MAX_QUEUED_LINES);
    std::thread::Builder::new().name("log".into()).spawn(move || write(&receiver))?;
    LINE_QUEUE.get_or_init(|| sender);
    let (level, handle) = reload::Layer::new(filter(config.log));
    LEVEL.get_or_init(|| handle);
    let lines = fmt::layer()
        .with_writer(|| LogQueue)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let lines = match config.log_format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        // systemd's journal already adds the time.
        LogFormat::Text if std::env::var_os("JOURNAL_STREAM").is_some() => {
            lines.without_time().boxed()
        }
        LogFormat::Text => lines.boxed(),
    };
    tracing_subscriber::registry().with(level).with(lines).init();
    Ok(())
}

/// Changes the level of the log.
pub(crate) fn set_level(level: LogLevel) {
    if let Some(handle) = LEVEL.get() {
        // This fails only during the end of the program.
        let _ = handle.modify(|current| *current = filter(level));
    }
}

/// Returns the filter of a level.
fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}

/// Returns the number of lines that were not written.
pub(crate) fn lost() -> u64 {
    LINES_LOST.load(Ordering::Relaxed)
}

/// Waits until the lines so far are written, at most for [`LAST_LINES`].
pub(crate) fn flush() {
    let (sender, receiver) = sync_channel(1);
    if LINE_QUEUE.get().is_some_and(|lines| lines.try_send(LogLine::Flush(sender)).is_ok()) {
        // A pipe without a reader must not delay the end of the program any longer.
        let _ = receiver.recv_timeout(LAST_LINES);
    }
}

/// Writes the lines of the queue to standard error.
fn write(entries: &Receiver<LogLine>) {
    for entry in entries {
        match entry {
            LogLine::Line(line) => {
                let failed = std::io::stderr().write_all(&line).is_err();
                LINES_LOST.fetch_add(u64::from(failed), Ordering::Relaxed);
            }
            // The thread that waited may have given up.
            LogLine::Flush(done) => drop(done.send(())),
        }
    }
}

/// Writer of single lines that puts each one into the queue, and never fails.
struct LogQueue;

impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let sent = LINE_QUEUE
            .get()
            .is_some_and(|lines| lines.try_send(LogLine::Line(line.into())).is_ok());
        LINES_LOST.fetch_add(u64::from(!sent), Ordering::Relaxed);
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
