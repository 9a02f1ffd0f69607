//! The live view of a run: its state, as a picture for a terminal and as metrics for Prometheus.
//!
//! ```text
//!   events of the run, counters of its trials ──> State ──┬──> draw (a frame of ratatui)
//!                              keys ──> Screen ──────────┘
//!                                                         └──> metrics (text)
//! ```

mod draw;
mod metrics;
mod screen;
mod state;

pub use draw::{Paint, draw};
pub use metrics::metrics;
pub use screen::Screen;
pub use state::{State, VisitProgress};
