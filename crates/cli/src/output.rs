//! Files that commands write.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Opens a file for writing, and says which could not be.
pub(crate) fn create(path: &Path) -> Result<std::fs::File, Failure> {
    std::fs::File::create(path)
        .map_err(|e| Failure::input(anyhow::anyhow!("cannot write {}: {e}", path.display())))
}

/// Opens the output: a file, or the standard output for `-`.
pub(crate) fn output(path: &PathBuf) -> Result<Box<dyn std::io::Write + Send>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdout()));
    }
    Ok(Box::new(create(path)?))
}
