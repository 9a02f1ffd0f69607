//! Exit codes of commands: 2 for bad input, 1 for a run that failed, codes of their own for verdicts.

use std::process::ExitCode;

/// Failure of a command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input is wrong; nothing was done.
    BadInput(anyhow::Error),
    /// The command started and failed; what it measured is kept.
    Failed(anyhow::Error),
    /// The command failed and has printed why.
    Silent,
    /// The exit code of a verdict, such as that of `compare`.
    Verdict(u8),
}

impl Failure {
    /// Makes any error bad input.
    pub(crate) fn input(error: impl Into<anyhow::Error>) -> Self {
        Failure::BadInput(error.into())
    }

    /// Makes any error a failed run.
    pub(crate) fn run(error: impl Into<anyhow::Error>) -> Self {
        Failure::Failed(error.into())
    }

    /// Prints the error and returns the exit code.
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
