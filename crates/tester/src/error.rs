//! Why a trial cannot be run.

use std::io;

use load::workload::file::QueryFileError;
use trace::CaptureError;

/// A field of a request that cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Its value cannot be.
    #[error("`{field}`: {why}")]
    Value {
        /// Path of the field in the request, dots between.
        field: &'static str,
        /// What is wrong, and what would be accepted.
        why: String,
    },
    /// It goes with other transports only.
    #[error("`{field}` goes with the transport {wanted}{because}")]
    Transport {
        /// Path of the field in the request, dots between.
        field: &'static str,
        /// The transports that it goes with.
        wanted: String,
        /// Why, from a colon on; empty where it is plain.
        because: &'static str,
    },
}

impl Invalid {
    /// A field whose value cannot be.
    pub(crate) fn value(field: &'static str, why: impl ToString) -> Self {
        Invalid::Value { field, why: why.to_string() }
    }
}

/// Why a trial cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum TesterError {
    /// A field of the request cannot be accepted.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The query file cannot be used.
    #[error(transparent)]
    QueryFile(#[from] QueryFileError),
    /// The capture cannot be used.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The system refused something.
    #[error("{what}{}{source}", if what.is_empty() { "" } else { ": " })]
    Io {
        /// What was tried; empty where the source says it.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The queries of a capture could not be kept.
    #[error("cannot keep the queries of the capture: {0}; set TMPDIR to a place with room")]
    NoRoom(io::Error),
    /// A worker panicked; its message is on standard error.
    #[error("a worker panicked")]
    Panicked,
}

impl TesterError {
    /// Whether the request was wrong, so that nothing was done.
    pub fn is_bad_input(&self) -> bool {
        matches!(
            self,
            TesterError::Invalid(_) | TesterError::QueryFile(_) | TesterError::Capture(_)
        )
    }

    /// An error of the system while `what` was tried.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| TesterError::Io { what, source }
    }
}

impl From<io::Error> for TesterError {
    fn from(source: io::Error) -> Self {
        TesterError::Io { what: "", source }
    }
}
