//! The process that a command runs in: its command line, and the signals that end it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::failure::Failure;

/// Returns a flag that SIGINT and SIGTERM set; commands then end cleanly and report what they have.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::run)?;
    }
    Ok(stop)
}

/// Returns the command line as the user wrote it.
pub(crate) fn command_line() -> String {
    std::env::args().collect::<Vec<_>>().join(" ")
}
