//! How a command ends badly: 2 for bad input, 1 for a run that failed. A verdict has a code of its own.

use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input was wrong: nothing was done.
    BadInput(anyhow::Error),
    /// It was tried and did not succeed; what was measured is kept.
    Failed(anyhow::Error),
    /// All has been said already.
    Silent,
    /// The answer to what was asked is this exit code.
    Verdict(u8),
}

impl Failure {
    /// Bad input, from any error.
    pub(crate) fn input(error: impl Into<anyhow::Error>) -> Self {
        Failure::BadInput(error.into())
    }

    /// A failed run, from any error.
    pub(crate) fn run(error: impl Into<anyhow::Error>) -> Self {
        Failure::Failed(error.into())
    }

    /// Says why, and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (error, code) = match self {
            Failure::BadInput(error) => (error, 2),
            Failure::Failed(error) => (error, 1),
            Failure::Silent => return ExitCode::from(1),
            Failure::Verdict(code) => return ExitCode::from(code),
        };
        eprintln!("dnsdyno: {error:#}");
        ExitCode::from(code)
    }
}
