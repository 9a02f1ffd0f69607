//! The live view of a run: a terminal's whole screen during the run.
//!
//! ```text
//!   Event, LiveUpdate ──> Board ──┬──> report::live::draw ──> View (ratatui on standard error)
//!                                 └──> report::live::metrics (Prometheus)
//!   keys ──> View ──> the lab's flag: interrupted
//! ```
//!
//! If standard error is no terminal, or with `--plain`, the same steps are printed as plain lines.

mod board;
mod view;

pub(crate) use board::Board;
pub(crate) use view::{LiveView, is_wanted, live_view_variable};
