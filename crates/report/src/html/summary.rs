//! The summary: results in words.

use std::collections::BTreeSet;

use maud::{Markup, html};
use measure::Path;
use record::testbed::cpu_list;
use record::{CellRecord, Figure, Form, Run, Seam};

use super::cells::Cells;
use super::doubts::doubts;
use super::{capacity, figures};
use crate::caveats::caveats;
use crate::faster::faster;
use crate::results;
use crate::stored::program;
use crate::view::conditions::network;
use crate::view::name::{figure_title, server_name, void_notes};
use crate::view::number::counted;
use crate::view::search::at_rate;
use crate::view::table::each_once;
use crate::view::{date, span};

/// Largest number of results in the summary; the tables have all.
const MAX_FINDINGS: usize = 12;
/// Number of warnings from which on they are folded.
const MAX_OPEN: usize = 5;

/// Renders the summary of one run; of several each has a heading with a link to its section.
pub(crate) fn section(run: &Run, cells: &Cells<'_>, heading: Option<&Markup>) -> Markup {
    let doubts = doubts(run);
    html! {
        article.run {
            @if let Some(heading) = heading { (heading) }
            @if !run.plan.title.is_empty() { p { (run.plan.title) } }
            p.meta { (facts(run)) @if figures::one_visit(cells) { " · each figure of one visit" } }
            ul.findings { @if let Some(words) = faster(run) { li { strong { (words) } } } @for words in caveats(run) { li { strong { (words) } } } @for finding in findings(cells) { li { (finding) } } }
            @if !doubts.is_empty() {
                details.doubts open[doubts.len() < MAX_OPEN] {
                    summary { "Before you believe it (" (doubts.len()) ")" }
                    ul { @for doubt in &doubts { li { (doubt) } } }
                }
            }
        }
    }
}

/// Largest number of servers in a heading.
const MAX_SERVERS: usize = 4;

/// Returns the name of the run: its number in the store, if it has one, and its subject.
pub(crate) fn heading(run: &Run) -> String {
    let id = run.id.map(|id| format!("run {id}: ")).unwrap_or_default();
    id + &subject(run)
}

/// Returns the subject of the run: its experiment, servers and target.
pub(crate) fn subject(run: &Run) -> String {
    let experiment = &run.plan.experiment;
    let servers = servers(run);
    let targets: BTreeSet<&str> = { run.results.iter() }
        .flat_map(|cell| &cell.trials)
        .map(|t| t.trial.conditions.target.as_str())
        .filter(|target| !target.is_empty() && !servers.iter().any(|server| server == target))
        .collect();
    let more = servers.len().saturating_sub(MAX_SERVERS);
    let mut of = servers[..servers.len() - more].join(", ");
    if more > 0 {
        of = format!("{of} and {more} more");
    }
    let of = if of.is_empty() { of } else { format!(" of {of}") };
    let at = match targets.len() {
        1 => targets.first().map(|target| format!(" at {target}")).unwrap_or_default(),
        _ => String::new(),
    };
    format!("{experiment}{of}{at}")
}

/// Returns the queries, the addresses of the servers, and the cores; `None` for a run without
/// trials.
pub(crate) fn subtitle(run: &Run) -> Option<String> {
    let first = |cell: &CellRecord| cell.trials.first().map(|t| t.trial.conditions.clone());
    let all: Vec<_> = run.results.iter().filter_map(|c| Some((&c.server, first(c)?))).collect();
    let (_, one) = all.first()?;
    let targets = each_once(all.iter().map(|(server, c)| match c.target == **server {
        true => (*server).clone(),
        false if c.target.is_empty() => (*server).clone(),
        false => format!("{server} = {}", c.target),
    }));
    let transports = each_once(all.iter().map(|(_, c)| match c.transport.as_str() {
        "" => "UDP".to_owned(),
        word => word.to_uppercase(),
    }));
    let workloads = each_once(all.iter().map(|(_, c)| &c.workload));
    let cores = match one.cpus.len() {
        0 => "Tester on any core".to_owned(),
        1 => format!("Tester core {}", one.cpus[0]),
        _ => format!("Tester cores {}", cpu_list(&one.cpus)),
    };
    let parts = [
        (targets.len() <= MAX_SERVERS).then(|| targets.join(", ")),
        Some(transports.join(", ")),
        workloads.first().filter(|_| workloads.len() == 1).map(|one| (*one).clone()),
        Some(cores),
        (one.path == Some(Path::OneHost)).then(|| "same host".to_owned()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    Some(parts.join(" · "))
}

/// Returns the servers of a run with their versions, in order.
fn servers(run: &Run) -> Vec<String> {
    each_once(run.results.iter().map(server_name))
}

/// Returns start, duration and command of the run.
fn facts(run: &Run) -> String {
    let mut facts = vec![
        date(run.plan.started_unix_s),
        format!("took {}", span(run.elapsed_s)),
        counted(run.results.iter().map(|c| c.trials.len()).sum(), "trial", "trials"),
        program(&run.plan),
    ];
    let network = network(run);
    if !network.is_empty() {
        facts.push(network);
    }
    if run.plan.form() != Form::Full {
        facts.push(format!("{} form", run.plan.form().word()));
    }
    facts.extend(run.plan.host.as_ref().and_then(|host| host.cpu.model.clone()));
    facts.join(" · ")
}

/// Returns the main result of a run, if it has one.
pub(crate) fn finding(run: &Run) -> Option<Markup> {
    findings(&Cells::of(run)).into_iter().next()
}

/// Returns the capacities, highest first, or the ranges of the figures.
fn findings(cells: &Cells<'_>) -> Vec<Markup> {
    let mut searched = capacity::searched(cells);
    searched.sort_by(|a, b| {
        let key = |c: &super::cells::Cell<'_>| c.record.median_qps.unwrap_or(-1.0);
        key(b).total_cmp(&key(a))
    });
    let mut out: Vec<Markup> = searched
        .iter()
        .map(|c| html! { strong { (c.name) } ": " (capacity::in_words(c.record)) })
        .collect();
    for name in figures::names(cells) {
        let with = cells.cells.iter().filter_map(|c| Some((c, c.record.figures.get(name)?)));
        // A capacity of rounds is no median of them.
        let found = |c: &super::cells::Cell<'_>| {
            c.record.capacity.as_ref().filter(|_| name == "capacity").map(results::capacity)
        };
        let value = |c, f: &Figure| found(c).map_or_else(|| f.median(), |field| field.value);
        let in_words = |c, f: &Figure| match found(c) {
            Some(field) => format!("{} ({})", field.text, field.spread),
            None => figures::in_words(f),
        };
        let mut with: Vec<_> = with.filter_map(|(c, f)| Some((c, f, value(c, f)?))).collect();
        with.sort_by(|a, b| a.2.total_cmp(&b.2));
        let spoken = figure_title(name);
        // A latency has a meaning only with its rate.
        let at = |c: &super::cells::Cell<'_>| {
            at_rate(c.record, name).map(|at| format!(", {at}")).unwrap_or_default()
        };
        match (with.first(), with.last()) {
            (Some((c, f, _)), _) if with.len() == 1 => {
                out.push(html! { strong { (spoken) } ": " (c.name) " " (in_words(c, f)) (at(c)) })
            }
            (Some((c, low, a)), Some((_, _, b))) if a == b => {
                out.push(html! { strong { (spoken) } ": " (in_words(c, low)) " for all" })
            }
            (Some((a, low, _)), Some((b, high, _))) => out.push(html! {
                strong { (spoken) } ": from " (in_words(a, low)) " (" (a.name) (at(a)) ") to "
                (in_words(b, high)) " (" (b.name) (at(b)) ")"
            }),
            _ => {}
        }
    }
    for c in &cells.cells {
        for note in void_notes(c.record) {
            out.push(html! { strong { (c.name) } ": " (note) });
        }
    }
    if out.len() > MAX_FINDINGS {
        let more = out.len() - MAX_FINDINGS;
        out.truncate(MAX_FINDINGS);
        out.push(html! { "and " (more) " more in the tables" });
    }
    out
}

/// Describes an interruption of a resumed run, in a sentence.
pub(crate) fn seam(seam: &Seam) -> String {
    format!(
        "Seam: interrupted on {} after {}, resumed {} later by dnsdyno {}.",
        date(seam.stopped_unix_s),
        counted(seam.trials_before as usize, "trial", "trials"),
        span(seam.resumed_unix_s - seam.stopped_unix_s),
        seam.version
    )
}

/// Renders the course of a run with its interruptions as a strip; empty without interruptions.
pub(crate) fn course(run: &Run) -> Markup {
    let gaps: Vec<(f64, f64)> =
        run.seams.iter().map(|s| (s.stopped_unix_s, s.resumed_unix_s)).collect();
    if gaps.is_empty() {
        return html! {};
    }
    let start = run.plan.started_unix_s;
    let end = start + run.elapsed_s + gaps.iter().map(|(a, b)| (b - a).max(0.0)).sum::<f64>();
    let x = |t: f64| 8.0 + 424.0 * ((t - start) / (end - start).max(1e-9)).clamp(0.0, 1.0);
    let alt = format!("The run’s course: {} interruptions", gaps.len());
    html! {
        figure.plot.strip {
            figcaption { "The run’s course, with its seams" }
            svg viewBox="0 0 440 52" role="img" aria-label=(alt) {
                g.s0 { path class="bar" d="M8 10H432v14H8Z" {} }
                @for ((a, b), seam) in gaps.iter().zip(&run.seams) {
                    @let (a, b) = (x(*a), x(*b).max(x(*a) + 3.0));
                    path class="gap" d=(format!("M{a:.1} 6H{b:.1}v22H{a:.1}Z")) { title { (self::seam(seam)) } }
                }
                text.tick x="8" y="42" { (date(start)) }
                text.tick x="432" y="42" text-anchor="end" { (date(end)) }
            }
            p.note { "Filled: measuring. Gaps: the run was interrupted and resumed." }
        }
    }
}
