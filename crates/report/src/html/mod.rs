//! Runs as one self-contained HTML page: no network, no fonts, no library.
//!
//! ```text
//! runs ──> cells (named by what varies) ──> against_rate       latency and answers at each rate
//!      │                               ├──> summary            in words, and what is doubtful
//!      │                               ├──> capacity, figures   tables and curves (curves, plot)
//!      │                               ├──> connections         handshakes, first and later queries
//!      │                               ├──> trials, time        latency, schedule, and the course of trials
//!      │                               └──> conditions          testbed, host, files, raw data
//!      └──> comparison                                          several runs: trend, thresholds, verdicts
//! ```
//!
//! Text from records passes through maud, which escapes it; the page's own policy forbids it to load anything. Plots
//! are SVG made here. The script only sorts tables, switches the theme, unfolds what is printed and unpacks the raw data: the page is
//! readable without it.

mod against_rate;
mod capacity;
mod cells;
mod comparison;
mod conditions;
mod connections;
mod curves;
mod doubts;
mod figures;
mod frame;
mod parts;
pub(crate) mod plot;
mod summary;
mod time;
mod trials;

use maud::{Markup, html};
use record::{CompareTerms, Run};

use cells::Cells;
pub(crate) use conditions::packed;
pub(crate) use frame::{Frame, frame};
pub(crate) use parts::{Narrow, fold, pictures, table};
use plot::{Picture, distinct};
pub(crate) use summary::{finding, heading};

use crate::view::conditions::network;

pub(crate) const STYLE: &str = include_str!("style.css");

/// Renders the page of some runs; several are compared on these terms.
pub fn html(runs: &[Run], terms: &CompareTerms) -> String {
    let runs: Vec<&Run> = runs.iter().collect();
    let compared = if runs.len() > 1 {
        comparison::section(&runs, terms)
    } else {
        html! {}
    };
    page(&runs, &compared, None)
}

/// Links of a page that is part of a site.
pub(crate) struct Links {
    /// Links to other pages, each with its text.
    pub(crate) navigation: Vec<(String, String)>,
    /// File with the record of the run.
    pub(crate) record: String,
}

/// Renders the page of a run within a site.
pub(crate) fn page_of_site(run: &Run, links: &Links) -> String {
    page(&[run], &html! {}, Some(links))
}

fn page(runs: &[&Run], compared: &Markup, links: Option<&Links>) -> String {
    let parts: Vec<(&Run, Cells<'_>, String)> = runs
        .iter()
        .enumerate()
        .map(|(i, run)| (*run, Cells::of(run), format!("run-{}", i + 1)))
        .collect();
    let title = match runs {
        [run] => summary::heading(run),
        runs => comparison::title(runs),
    };
    let body = html! {
        @if let [(run, cells, _)] = &parts[..] {
            (against_rate::section(cells, &html! { h2 { "At each rate" } }))
            section #summary aria-label="Summary" { h2 { "Summary" } (summary::section(run, cells, None)) }
            h2 { "Details" }
            (sections(run, cells, 1, links))
        } @else {
            section #comparison aria-label="Comparison" { h2 { "Comparison" } (compared) }
            section #summary aria-label="Summary" {
                h2 { "Summary of each run" }
                @for (run, cells, anchor) in &parts { (summary::section(run, cells, Some(anchor))) }
            }
            @for (i, (run, cells, anchor)) in parts.iter().enumerate() {
                section id=(anchor) aria-label=(summary::heading(run)) {
                    h2 { (summary::heading(run)) }
                    (against_rate::section(cells, &html! { h3 { "At each rate" } }))
                    (sections(run, cells, i + 1, links))
                }
            }
        }
    };
    let foot = html! {
        @for (run, ..) in parts.iter().filter(|(run, ..)| !network(run).is_empty()) {
            p { (summary::heading(run)) ": " (network(run)) }
        }
    };
    let navigation = links.map_or(&[][..], |links| &links.navigation);
    frame(&Frame { title: &title, navigation, body: &body, foot: &foot, script: "" })
}

/// Renders the sections of a run after its summary.
fn sections(run: &Run, cells: &Cells<'_>, number: usize, links: Option<&Links>) -> Markup {
    html! {
        (summary::course(run))
        (capacity::section(cells))
        (figures::section(cells))
        (connections::section(cells))
        (trials::section(cells))
        (time::section(cells))
        (conditions::section(run, cells, number, links))
    }
}

/// Returns the figures of a run's page, each as an SVG file: its title and its text.
pub(crate) fn drawings(run: &Run) -> Vec<(String, String)> {
    let cells = Cells::of(run);
    let (mut all, each) = against_rate::all_pictures(&cells);
    all.extend(each);
    all.extend(capacity::plots(&cells));
    all.extend(figures::plots(&cells));
    all.extend(trials::plots(&cells));
    all.extend(time::plots(&cells));
    all.extend(capacity::traces(&cells));
    let (pictures, _) = distinct(all);
    pictures.iter().map(|picture: &Picture| (picture.title().to_owned(), picture.file())).collect()
}
