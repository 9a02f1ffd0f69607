//! Exit codes of commands: 2 for bad input, 1 for a run that failed, codes of their own for verdicts.

use std::process::ExitCode;

use crate::output;

/// Why a command fails, which decides its exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input is wrong: the command did nothing, or only read the input before the error.
    BadInput(anyhow::Error),
    /// The command started and failed; its measurements are stored.
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

    /// Returns the outcome of a command whose result was written or not; a failure of the writing does not hide a verdict.
    pub(crate) fn with_verdict(
        written: Result<(), Self>,
        outcome: Result<(), Self>,
    ) -> Result<(), Self> {
        match (written, outcome) {
            (Err(unwritten), Err(verdict)) => {
                unwritten.report();
                Err(verdict)
            }
            (written, outcome) => written.and(outcome),
        }
    }

    /// Prints the error and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (error, code) = match self {
            Failure::BadInput(error) => (error, 2),
            Failure::Failed(error) => (error, 1),
            Failure::Silent => return ExitCode::from(1),
            Failure::Verdict(code) => return ExitCode::from(code),
        };
        output::write_error(format_args!("dnsdyno: {}\n", in_one_line(&error)));
        ExitCode::from(code)
    }
}

/// Returns an error with its causes in one line. A cause that is already part of the text before it
/// is left out.
pub(crate) fn in_one_line(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| {
        if text.is_empty() {
            cause
        } else if text.contains(&cause) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_stands_where_the_result_cannot_be_written() {
        let unwritten = || Err(Failure::run(anyhow::anyhow!("the disk is full")));
        let slower = || Err(Failure::Verdict(3));
        assert!(matches!(Failure::with_verdict(unwritten(), slower()), Err(Failure::Verdict(3))));
        assert!(matches!(Failure::with_verdict(Ok(()), slower()), Err(Failure::Verdict(3))));
        assert!(matches!(Failure::with_verdict(unwritten(), Ok(())), Err(Failure::Failed(_))));
        assert!(Failure::with_verdict(Ok(()), Ok(())).is_ok());
    }
}
