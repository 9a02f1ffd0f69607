//! What commands know of the process that they run in: its command line, and the signals that end it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::failure::Failure;

/// Set by SIGINT and SIGTERM: whatever runs ends cleanly and reports what it has.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::run)?;
    }
    Ok(stop)
}

/// The command line as it was given.
pub(crate) fn command_line() -> String {
    std::env::args().collect::<Vec<_>>().join(" ")
}
