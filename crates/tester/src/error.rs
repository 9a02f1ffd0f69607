//! Errors of a trial that cannot run.

use std::io;

use kernel::KernelError;
use load::workload::file::QueryFileError;
use record::TrialResult;
use trace::CaptureError;

/// A field of a request that cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The field has a value that is not accepted.
    #[error("`{field}`: {why}")]
    Value {
        /// Path of the field in the request, dots between.
        field: &'static str,
        /// The problem, and what would be accepted.
        why: String,
    },
    /// The field needs another transport.
    #[error("`{field}` requires the transport {wanted}{because}")]
    Transport {
        /// Path of the field in the request, dots between.
        field: &'static str,
        /// Transports that support the field.
        wanted: String,
        /// Reason, from a colon on; empty if it is obvious.
        because: &'static str,
    },
}

impl Invalid {
    /// Makes the error of an invalid value.
    pub(crate) fn value(field: &'static str, why: impl ToString) -> Self {
        Invalid::Value { field, why: why.to_string() }
    }
}

/// Reason why a trial cannot run.
#[derive(Debug, thiserror::Error)]
pub enum TesterError {
    /// A field of the request cannot be accepted.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The query file cannot be used.
    #[error(transparent)]
    QueryFile(#[from] QueryFileError),
    /// The query file failed during the trial, which ended there.
    #[error("{1}; the trial ended there")]
    InputEnded(Box<TrialResult>, QueryFileError),
    /// The capture cannot be used.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The system refused an operation.
    #[error("{what}{}{source}", if what.is_empty() { "" } else { ": " })]
    Io {
        /// Operation that failed; empty if the source names it.
        what: &'static str,
        /// Error of the failed system call.
        source: io::Error,
    },
    /// The kernel cannot carry the queries.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The queries of a capture could not be stored.
    #[error("cannot store the queries of the capture: {0}; set TMPDIR to a larger folder")]
    NoRoom(io::Error),
    /// The agreed start was past when everything was ready.
    #[error(
        "the agreed start had passed when sockets and workers were ready; choose a later start"
    )]
    StartMissed,
    /// A worker panicked; its message is on standard error.
    #[error("a worker panicked")]
    Panicked,
}

impl TesterError {
    /// Takes the result from the outcome of a trial, and the error of its input, if that ended it.
    ///
    /// # Errors
    /// Any other error.
    pub fn measured(
        outcome: Result<TrialResult, Self>,
    ) -> Result<(TrialResult, Option<QueryFileError>), Self> {
        match outcome {
            Ok(result) => Ok((result, None)),
            Err(TesterError::InputEnded(result, why)) => Ok((*result, Some(why))),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the request or its input was invalid.
    pub fn is_bad_input(&self) -> bool {
        matches!(
            self,
            TesterError::Invalid(_)
                | TesterError::QueryFile(_)
                | TesterError::InputEnded(..)
                | TesterError::Capture(_)
                | TesterError::Kernel(_)
        )
    }

    /// Makes an error of the system for the operation `what`.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| TesterError::Io { what, source }
    }
}

impl From<io::Error> for TesterError {
    fn from(source: io::Error) -> Self {
        TesterError::Io { what: "", source }
    }
}
