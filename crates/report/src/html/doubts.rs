//! Warnings about the figures of a run: skipped cells, void trials, differences from RFC 8219, and disturbances by
//! the host. Each warning appears once, with everything it applies to.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use measure::Path;
use measure::warning::summarise;
use record::{Run, Skipped};

use super::summary::seam;
use crate::view::number::counted;
use crate::view::search::interrupted;
use crate::view::skipped_name;
use crate::view::table::{by_key, each_once, shortened, sorted_once};

/// Largest length of a reason on one line; a longer one is cut, and its full text folded.
const MAX_LINE: usize = 160;

/// Largest number of reasons of void trials; the table of trials has all.
const MAX_REASONS: usize = 3;

/// Returns all warnings, one item each.
pub(crate) fn doubts(run: &Run) -> Vec<Markup> {
    let mut out = Vec::new();
    if !run.complete {
        out.push(html! { strong { "INCOMPLETE" } ": the run ended early; it shows what was measured until then." });
    }
    out.extend(run.seams.iter().map(|s| html! { (seam(s)) }));
    out.extend(skipped(run));
    for cell in &run.results {
        if cell.certificate.as_ref().is_some_and(|c| !c.passed) {
            out.push(html! { (cell.server) ": the Tester failed its self-test: nothing here is the server’s capacity." });
        }
        if let Some(s) = cell.shortened_s {
            out.push(html! { (cell.server) ": " strong { "SHORTENED" } " by a test: each trial sent for " (s) " s, whatever its plan says; this is no measurement." });
        }
    }
    for cell in &run.results {
        let name = record::cell_name(&cell.server, None, &cell.settings);
        out.extend(interrupted(cell).map(|what| html! { (name) ": " (what) "." }));
        out.extend(cell.notes.iter().map(|note| html! { (name) ": " (note) "." }));
    }
    let trials = || run.results.iter().flat_map(|c| &c.trials).map(|t| &t.trial);
    out.extend(void(run));
    if run.results.iter().any(|c| c.path() == Some(Path::HostOffload)) {
        out.push(html! { "Path host-offload: segmented messages crossed the links whole, as on no wire. No figure of a wire compares with these." });
    }
    out.extend(differs(run));
    let warnings = summarise(trials().flat_map(|t| &t.warnings));
    out.extend(
        warnings.iter().map(|w| html! { (w.text) " (" (counted(w.count, "trial", "trials")) ")" }),
    );
    let of_host = run.plan.host.iter().flat_map(|host| &host.warnings);
    out.extend(of_host.map(|w| html! { "Host: " (w.with_advice()) }));
    out
}

/// Returns the sentence about void trials: with their reasons, or, for searches, their results.
fn void(run: &Run) -> Option<Markup> {
    let all = || run.results.iter().flat_map(|cell| &cell.trials);
    let reasons: Vec<_> = all().filter_map(|t| t.trial.void.0.as_ref()).collect();
    let searched = run.results.iter().any(|cell| cell.method == "search");
    let mut told = each_once(reasons.iter().map(ToString::to_string));
    let more = told.split_off(told.len().min(MAX_REASONS)).len();
    told.extend(
        (more > 0).then(|| format!("and {}", counted(more, "more reason", "more reasons"))),
    );
    let count = counted(reasons.len(), "trial was", "trials were");
    (!reasons.is_empty()).then(|| {
        html! {
            (count) " void and show" @if reasons.len() == 1 { "s" } " nothing about the server"
            @if searched { "; the searches repeated or skipped them." }
            @else { ": " (told.join("; ")) "." }
        }
    })
}

/// Lists the skipped cells by reason.
fn skipped(run: &Run) -> Vec<Markup> {
    let lines = run.skipped.iter().map(|skipped| (first_line(&skipped.why), skipped));
    by_key(lines).iter().map(|(line, of)| reason(line, of)).collect()
}

/// Renders a reason on one line, with the skipped cells and the full text folded.
fn reason(line: &str, of: &[&Skipped]) -> Markup {
    let whole = of[0].why.trim();
    let servers = sorted_once(of.iter().map(|s| s.server.as_str()));
    let what = match of {
        [one] => skipped_name(one),
        _ => format!("{} at {} settings", servers.join(", "), of.len()),
    };
    html! {
        (what) ": not measured: " (line)
        @if of.len() > 1 || whole != line {
            details {
                summary { @if whole == line { "which" } @else { "which, and why" } }
                @if of.len() > 1 { ul { @for s in of { li { (skipped_name(s)) } } } }
                @if whole != line { pre { (whole) } }
            }
        }
    }
}

/// Returns the first line, cut if it is long.
fn first_line(text: &str) -> String {
    shortened(text.trim().lines().next().unwrap_or_default().trim_end_matches(':'), MAX_LINE)
}

/// Lists the differences from RFC 8219, by the servers they apply to.
fn differs(run: &Run) -> Vec<Markup> {
    let mut by_what: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for cell in &run.results {
        for what in &cell.differs {
            by_what.entry(what).or_default().insert(&cell.server);
        }
    }
    let mut by_servers: BTreeMap<BTreeSet<&str>, Vec<&str>> = BTreeMap::new();
    for (what, servers) in by_what {
        by_servers.entry(servers).or_default().push(what);
    }
    let all: BTreeSet<&str> = run.results.iter().map(|c| c.server.as_str()).collect();
    let of = |servers: &BTreeSet<&str>| match *servers == all {
        true => String::new(),
        false => format!(" ({})", servers.iter().copied().collect::<Vec<_>>().join(", ")),
    };
    by_servers
        .iter()
        .map(|(servers, whats)| html! { "Differs from RFC 8219" (of(servers)) ": " (whats.join("; ")) "." })
        .collect()
}

#[cfg(test)]
mod tests {
    use record::CellRecord;

    use super::*;

    fn skipped(server: &str, clients: &str, why: &str) -> Skipped {
        let settings = [("clients".to_owned(), clients.to_owned())].into();
        Skipped { server: server.to_owned(), settings, why: why.to_owned() }
    }

    #[test]
    fn a_reason_appears_once_and_a_log_is_folded() {
        let log = "nsd ended by itself\n  the end of its log:\n  | too many <files>";
        let run = Run {
            complete: true,
            skipped: vec![
                skipped("bind9", "1", "BIND does not speak quic"),
                skipped("nsd", "1", log),
                skipped("bind9", "16", "BIND does not speak quic"),
            ],
            ..Run::default()
        };
        let said: Vec<String> = doubts(&run).into_iter().map(Markup::into_string).collect();
        assert_eq!(said.len(), 2);
        let beginnings = [
            "bind9 at 2 settings: not measured: BIND does not speak quic<details>",
            "nsd clients=1: not measured: nsd ended by itself<details>",
        ];
        said.iter().zip(beginnings).for_each(|(s, b)| assert!(s.starts_with(b), "{s}"));
        assert!(said[0].contains("<li>bind9 clients=16</li>"), "{}", said[0]);
        assert!(said[1].contains("| too many &lt;files&gt;</pre>"), "{}", said[1]);
    }

    #[test]
    fn long_lines_are_cut_between_words() {
        assert_eq!(first_line("why:\nbecause"), "why");
        let cut = first_line(&"word ".repeat(100));
        assert!(cut.ends_with("word …") && cut.chars().count() <= MAX_LINE + 2, "{cut}");
    }

    #[test]
    fn differences_name_their_servers() {
        let cell = |server: &str, differs: &[&str]| CellRecord {
            differs: differs.iter().map(|d| (*d).to_owned()).collect(),
            ..CellRecord::new(server, BTreeMap::new(), "search")
        };
        let results = vec![cell("nsd", &["a", "b", "c"]), cell("knot", &["a", "b"])];
        let run = Run { complete: true, results, ..Run::default() };
        let said: Vec<String> = doubts(&run).into_iter().map(Markup::into_string).collect();
        assert_eq!(said, ["Differs from RFC 8219: a; b.", "Differs from RFC 8219 (nsd): c."]);
    }
}
