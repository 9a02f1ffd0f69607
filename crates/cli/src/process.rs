//! The process that a command runs in: its command line, and the signals that end it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use report::view::quoted;
use signal_hook::consts::SIGUSR1;

use crate::failure::Failure;

/// Returns a flag that SIGINT, SIGTERM and SIGHUP (without nohup) set; commands then end cleanly and report what they have.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in lab::ending_signals() {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::run)?;
    }
    Ok(stop)
}

/// Makes SIGUSR1 request the figures so far; it never ends a command, even one that waits for its
/// input.
pub(crate) fn catch_usr1() -> Result<(), Failure> {
    let caught = signal_hook::flag::register(SIGUSR1, FIGURES_WANTED.clone());
    caught.map(drop).map_err(Failure::run)
}

static FIGURES_WANTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Returns whether SIGUSR1 has come since the last call: it requests the figures so far, as with
/// kxdpgun.
pub(crate) fn figures_requested() -> bool {
    FIGURES_WANTED.swap(false, Ordering::Relaxed)
}

/// Returns the outcome of the process in the lab, from its exit code. A process that was killed
/// could not report it.
pub(crate) fn outside(code: u8) -> Result<(), Failure> {
    if let Some(signal) = code.checked_sub(128).filter(|signal| *signal > 0) {
        eprintln!(
            "dnsdyno: the process in the lab was killed by signal {signal}{}; what it had measured is in the store",
            if signal == 9 { " (the kernel does so when memory is short: see dmesg)" } else { "" }
        );
    }
    if code == 0 { Ok(()) } else { Err(Failure::Verdict(code)) }
}

/// Returns the words of the command line; octets that are not UTF-8 are replaced.
pub(crate) fn words() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}

/// Returns the command line as a shell takes it, for records and messages.
pub fn command_line() -> String {
    line_of(words())
}

fn line_of(words: impl Iterator<Item = String>) -> String {
    words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_shell_takes_the_command_line_of_a_record() {
        let words = ["dnsdyno", "run", "x", "--ssh", "ssh -i k"].map(str::to_owned).into_iter();
        assert_eq!(super::line_of(words), "dnsdyno run x --ssh 'ssh -i k'");
    }
}
