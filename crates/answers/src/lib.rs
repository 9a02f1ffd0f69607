//! Answers of several servers to the same queries, compared; one of the servers may be a capture.
//!
//! ```text
//!   queries ──> Spool ──> ask all servers ──> Seen ──> compare ──> equal
//!   (file, capture)          (a socket or                   └──> Spool ──> ask again ──> differs, known, unstable
//!                             connection each)
//! ```
//!
//! Answers are compared without regard to the order of records, to the letter case of names and to compression. What differs
//! is asked a second time: a difference counts only if it is there both times and each server agrees with itself.
//!
//! Only `ask` and `connections` open sockets and only `ask` and `diff` read a clock. Queries and what differs wait in temporary files: memory is
//! constant.

mod answer;
mod ask;
mod compare;
mod connections;
mod data;
mod diff;
mod kind;
mod known;
mod shown;
mod spool;
mod stable;
mod tally;

pub use answer::Answer;
pub use ask::ask_one;
pub use compare::{Outcome, Terms, TtlTolerance, compare};
pub use diff::{Diff, Pace, Progress, Side};
pub use kind::{DifferenceKind, Kinds};
pub use known::{KnownDifferences, KnownError};
pub use spool::{Raw, Spool, SpoolWriter};
