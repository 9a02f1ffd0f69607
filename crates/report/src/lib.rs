//! Reports: records as text for a terminal, as one HTML page, and as a static site. This crate is pure: no role, no engine, no clock,
//! so that every report can be rebuilt from its record.

mod answers;
mod auth_hosts;
mod caveats;
mod cells;
mod checks;
mod clients;
mod comparison;
pub mod export;
mod extrapolation;
mod falls;
mod faster;
mod host;
mod hosts;
mod html;
pub mod live;
mod load_line;
mod lockstep;
mod merged;
mod no_answer;
mod results;
mod run;
pub mod site;
mod spread;
mod steps;
mod stored;
mod table;
#[cfg(test)]
mod tests;
mod trace;
mod trace_picture;
mod trace_plots;
mod trial;
mod turned;
mod updates;
pub mod view;

pub use answers::answers;
pub use checks::{certificate, check_line, checks};
pub use clients::clients;
pub use comparison::comparison;
pub use host::host;
pub use hosts::{Candidate, hosts};
pub use html::{answers_page, html};
pub use load_line::{LoadLine, load_line, workload_options};
pub use lockstep::lockstep;
pub use no_answer::{no_answer, only_error_code};
pub use run::{details, result, run, run_in};
pub use steps::{Maximum, maximum, steps};
pub use stored::{heading, runs};
pub use trace::trace;
pub use trace_picture::trace_picture;
pub use trace_plots::trace_plots;
pub use trial::{trial, trial_line, trial_of_cell};
pub use updates::updates;
