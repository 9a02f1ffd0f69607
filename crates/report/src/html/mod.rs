//! Runs as one self-contained HTML page: no network, no fonts, no library.
//!
//! ```text
//! runs ──> cells (named by what varies) ──> summary            in words, and what is doubtful
//!                                      ├──> capacity, figures   tables and curves (curves, plot)
//!                                      ├──> connections         handshakes, first and later queries
//!                                      ├──> trials, time        latency, schedule, and the course of trials
//!                                      └──> conditions          testbed, host, files, raw data
//! ```
//!
//! Text from records passes through maud, which escapes it; the page's own policy forbids it to load anything. Plots
//! are SVG made here. The script only sorts tables, switches the theme and unpacks the raw data: the page is readable
//! without it.

mod capacity;
mod cells;
mod conditions;
mod connections;
mod curves;
mod doubts;
mod figures;
mod parts;
pub(crate) mod plot;
mod summary;
mod time;
mod trials;

use maud::{DOCTYPE, PreEscaped, html};
use record::Run;

use cells::Cells;

use crate::view::conditions::network;

pub(crate) const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// Content security policy: the page may use only its own content.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Renders the page of some runs.
pub fn html(runs: &[Run]) -> String {
    let title = match runs {
        [run] => format!("{} – dnsdyno", summary::heading(run)),
        runs => format!("{} runs – dnsdyno", runs.len()),
    };
    let parts: Vec<(&Run, Cells<'_>, String)> = runs
        .iter()
        .enumerate()
        .map(|(i, run)| (run, Cells::of(run), format!("run-{}", i + 1)))
        .collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "dnsdyno report" }
                    button #theme type="button" hidden { "Light or dark" }
                }
                main {
                    section #summary aria-label="Summary" {
                        h2 { "Summary" }
                        @for (run, cells, anchor) in &parts { (summary::section(run, cells, anchor)) }
                    }
                    @for (i, (run, cells, anchor)) in parts.iter().enumerate() {
                        section id=(anchor) aria-label=(summary::heading(run)) {
                            h2 { (summary::heading(run)) }
                            (summary::course(run))
                            (capacity::section(cells))
                            (figures::section(cells))
                            (connections::section(cells))
                            (trials::section(cells))
                            (time::section(cells))
                            (conditions::section(run, cells, i + 1))
                        }
                    }
                }
                footer {
                    p { "Made by dnsdyno " (env!("CARGO_PKG_VERSION")) ". Every number says what limited it." }
                    @for (run, ..) in parts.iter().filter(|(run, ..)| !network(run).is_empty()) {
                        p { (summary::heading(run)) ": " (network(run)) }
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}
