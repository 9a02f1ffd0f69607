//! Outputs of commands: files, and the standard output.

use std::fmt;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Creates a file for writing; the error names the file.
pub(crate) fn create(path: &Path) -> Result<std::fs::File, Failure> {
    std::fs::File::create(path)
        .map_err(|e| Failure::input(anyhow::anyhow!("cannot write {}: {e}", path.display())))
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

/// Prints to the standard output as `print!` does, but never panics.
macro_rules! out {
    ($($words:tt)*) => { $crate::output::say(format_args!($($words)*)) };
}

/// Prints a line to the standard output as `println!` does, but never panics.
macro_rules! outln {
    ($($words:tt)*) => { $crate::output::say(format_args!("{}\n", format_args!($($words)*))) };
}

/// Writes to the standard output. A reader that closes it early is no failure; any other failure is said on standard error.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let written = out.write_fmt(text).and_then(|()| out.flush());
    if let Err(e) = written.as_ref()
        && e.kind() != ErrorKind::BrokenPipe
    {
        // Nothing is left to say it with if this fails too.
        let _ = writeln!(io::stderr(), "dnsdyno: cannot write to the standard output: {e}");
    }
}

/// Writes to the standard output; a reader that closes it early is no failure.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(Failure::run),
    }
}
