//! Outputs of commands: files, and the standard output.

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

/// Writes to the standard output; a reader that closes it early is no failure.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(Failure::run),
    }
}
