//! Outputs of commands: files, the standard output, and the standard error.
//!
//! A closed terminal, a full disk, a reader that has closed its pipe or does not read it never ends
//! or stops what a command measures. So `println!` and `eprintln!` of this crate do not panic,
//! unlike the macros of the standard library: text that standard error does not accept is lost, and
//! an error of the standard output is reported at the end (a closed pipe is no error).

use std::fmt::Arguments;
use std::fs::Metadata;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};

use crate::failure::Failure;

macro_rules! print {
    ($($text:tt)*) => { $crate::output::to_stdout(format_args!($($text)*)) };
}

macro_rules! println {
    () => { $crate::output::to_stdout(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::to_stdout(format_args!("{}\n", format_args!($($text)*))) };
}

macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::to_stderr(format_args!($($text)*)) };
}

macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::to_stderr(format_args!("{}\n", format_args!($($text)*))) };
}

/// First error of the standard output.
static STDOUT_ERROR: Mutex<Option<io::Error>> = Mutex::new(None);

/// Writes text to the standard output; [`finish`] returns the first error.
pub(crate) fn to_stdout(text: Arguments<'_>) {
    note(io::stdout().lock().write_fmt(text));
}

/// Prints the implied demands of a goal.
pub(crate) fn print_goal_note(goal: Option<&measure::Goal>) {
    if let Some((goal, note)) = goal.and_then(|goal| Some((goal, goal.note()?))) {
        eprintln!("goal {goal}: {note}");
    }
}

/// Returns the tables of a run, with what a reader should do below them unless this process is quiet.
pub(crate) fn run(run: &record::Run, json: Option<&Path>) -> String {
    let file = json.filter(|path| !is_stdout(path)).map(|path| path.display().to_string());
    if is_quiet() { report::result(run) } else { report::run_in(run, file.as_deref()) }
}

/// Longest time that a reader of standard error may let this process wait.
const PATIENCE_MS: u16 = 1_000;
/// Largest part of a text that a ready pipe always accepts at once, in octets (POSIX: `PIPE_BUF` is
/// at least that).
const MAX_PIPE_WRITE: usize = 512;
/// Whether the reader did not read in time, so that this process does not wait again.
static READER_STUCK: AtomicBool = AtomicBool::new(false);
/// Whether standard error has only the error that ends the command.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses standard error, except for the error that ends the command.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Returns whether this process prints only results and errors.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes text to standard error, unless this process is quiet.
pub(crate) fn to_stderr(text: Arguments<'_>) {
    if !is_quiet() {
        write_error(text);
    }
}

/// Writes text to standard error, as far as it takes the text: with a full pipe that nobody reads,
/// or a stopped terminal, the text is lost, and this process continues.
pub(crate) fn write_error(text: Arguments<'_>) {
    let mut out = io::stderr().lock();
    for part in text.to_string().as_bytes().chunks(MAX_PIPE_WRITE) {
        let patience = if READER_STUCK.load(Ordering::Relaxed) { 0 } else { PATIENCE_MS };
        let taken = is_ready(&out, patience);
        READER_STUCK.store(!taken, Ordering::Relaxed);
        // An error cannot be reported anywhere.
        if !taken || out.write_all(part).is_err() {
            return;
        }
    }
}

/// Waits up to `patience_ms` milliseconds until a stream accepts text; returns whether it does.
fn is_ready(stream: &impl AsFd, patience_ms: u16) -> bool {
    let mut streams = [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)];
    match poll(&mut streams, patience_ms) {
        Ok(ready) => ready > 0,
        // A signal that ends the run does not wait for a reader.
        Err(Errno::EINTR) => false,
        // If `poll` fails, as for a closed stream, writing shows it.
        Err(_) => true,
    }
}

/// Records the first error of the standard output.
fn note(written: io::Result<()>) {
    let Err(error) = written else { return };
    if let Ok(mut first) = STDOUT_ERROR.lock() {
        first.get_or_insert(error);
    }
}

/// Flushes the standard output.
///
/// # Errors
/// If a write to the standard output failed, unless its reader had closed it; the first such error.
pub(crate) fn finish() -> Result<(), Failure> {
    note(io::stdout().lock().flush());
    let failed = STDOUT_ERROR.lock().ok().and_then(|mut first| first.take());
    match failed.filter(|error| error.kind() != ErrorKind::BrokenPipe) {
        Some(error) => {
            Err(Failure::run(anyhow::anyhow!("cannot write the standard output: {error}")))
        }
        None => Ok(()),
    }
}

/// Checks at the start of a command that its output files can be written.
///
/// # Errors
/// The error of such a write, before any measurement.
pub(crate) fn try_writing<'a>(
    paths: impl IntoIterator<Item = &'a Option<PathBuf>>,
) -> Result<(), Failure> {
    paths
        .into_iter()
        .flatten()
        .try_for_each(|path| record::try_writing(path).map_err(Failure::input))
}

/// Creates a file for writing; the error names the file.
pub(crate) fn create(path: &Path) -> Result<std::fs::File, Failure> {
    std::fs::File::create(path)
        .map_err(|e| Failure::input(anyhow::anyhow!("cannot write {}: {e}", path.display())))
}

/// Returns the failure of an output that could be opened and not be written.
pub(crate) fn unwritable(path: &Path, error: io::Error) -> Failure {
    if is_stdout(path) && error.kind() == ErrorKind::BrokenPipe {
        // The reader has closed the pipe.
        return Failure::Verdict(0);
    }
    Failure::run(anyhow::anyhow!("cannot write {}: {error}", path.display()))
}

/// Makes a folder and its parents, unless it exists; the error names it.
pub(crate) fn make_folder(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).map_err(|e| {
        Failure::input(anyhow::anyhow!("cannot make the folder {}: {e}", path.display()))
    })
}

/// Refuses an output that is one of the files that the command reads: they would be empty before
/// they are read.
pub(crate) fn not_an_input<P: AsRef<Path>>(
    path: &Path,
    inputs: impl IntoIterator<Item = P>,
) -> Result<(), Failure> {
    let file = |path: &Path| {
        let file = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
        Some((file.dev(), file.ino()))
    };
    let Some(written) = file(path) else { return Ok(()) };
    if inputs.into_iter().any(|input| file(input.as_ref()) == Some(written)) {
        let why = "the command reads this file: take another for its output";
        return Err(Failure::input(anyhow::anyhow!("cannot write {}: {why}", path.display())));
    }
    Ok(())
}

/// Opens an output: a file, or the standard output for `-`.
pub(crate) fn output(path: &PathBuf) -> Result<Box<dyn std::io::Write + Send>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdout()));
    }
    Ok(Box::new(create(path)?))
}

/// Returns whether an output is the standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes to the standard output; a reader that closes it early is no failure.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(Failure::run),
    }
}
