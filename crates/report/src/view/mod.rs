//! Display of records: each quantity has one spelling here, used by every table, page and message.
//!
//! ```text
//!   name     cells, figures, labels of metrics               "nsd 4.6.1 cores=2"
//!   limiter  limiters in words, and their proofs             "2 of 2 searches: the server"
//!   conditions  rule, goal, link, path, in every heading     "link plain, path wire"
//!   search   each search's value, latency, goals met         "12,000; >= 13,000"
//!   goal     losses, and by what a goal was missed          "p99 12.30 ms, not < 5ms"
//!   number   significant digits, thousands, shares           "12,345", "0.01235"
//!   unit     quantities: a number with its unit              "12.5 ms", "2.5 MB"
//!   quoted   words of a command line                        "'a b'"
//!   time     dates and durations                             "2026-11-21T08:05:14Z", "12 min"
//!   bar      bars of block characters
//!   histogram  times in columns between round bounds
//!   table    columns of text, and which columns there are
//!                 └──> terminal tables, HTML page, live view, metrics, messages of a run
//! ```

pub(crate) mod bar;
pub(crate) mod conditions;
pub(crate) mod goal;
pub(crate) mod histogram;
pub(crate) mod limiter;
pub(crate) mod name;
pub(crate) mod number;
mod quoted;
pub(crate) mod search;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod unit;

pub use bar::full_bar;
pub use name::{cell_name, figure_name, labels, setting_words, skipped_name};
pub use number::thousands;
pub(crate) use number::{rate, significant};
pub use quoted::quoted;
pub use table::{Align, align};
pub(crate) use time::date;
pub use time::span;
pub use unit::time_us;
pub use unit::{quantity, short_time_us, with_unit};
