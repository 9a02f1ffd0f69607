//! The parts of a comparison of answers: tables of its counts, and samples.

use maud::{Markup, html};
use record::{AnswerDiff, AnswerDifference, AnswerKind, AnswerSeen};

use super::cells::Cells;
use super::parts::fold;
use crate::answers::{self, conditions, kinds, letter, meaning, verdicts};

/// Largest number of records of a section that the page shows of a sample.
const MAX_RECORDS: usize = 50;

/// Note on both pages about when a difference counts.
pub(super) const ASKED_TWICE: &str = "A query whose answers differ is repeated: a difference counts if it occurs both times and each server agrees with itself.";

/// Renders the numbers of queries that each two servers answer alike and differently; empty for two
/// servers.
fn pairs(diff: &AnswerDiff) -> Markup {
    if diff.servers.len() < 3 || diff.pairs.is_empty() {
        return html! {};
    }
    let caption = "Queries that two servers answer alike and not alike, by the first kind of difference; known differences among them";
    answers::pairs(diff).html(caption, "")
}

/// Renders the comparisons of a run, each with the settings of its cells; empty without any.
pub(super) fn section(cells: &Cells<'_>) -> Markup {
    let compared =
        cells.cells.iter().filter_map(|cell| Some((cell, cell.record.answers.as_ref()?)));
    html! {
        @for (cell, diff) in compared {
            @let varied = cells.varied.iter().filter_map(|key| Some((key, cell.record.settings.get(key)?)));
            @let settings: Vec<String> = varied.map(|(key, value)| format!("{key}={value}")).collect();
            h3 { "Answers compared" @if !settings.is_empty() { ", " (settings.join(" ")) } }
            ul.findings {
                li { (verdicts(diff)) }
                li { (conditions(diff)) }
            }
            p.note { (ASKED_TWICE) }
            (kinds_of(diff))
            @for kind in &diff.kinds { (samples(diff, kind)) }
        }
    }
}

/// Renders the tables of the kinds of differences, and of every two servers.
pub(super) fn kinds_of(diff: &AnswerDiff) -> Markup {
    html! {
        @if !diff.kinds.is_empty() {
            (kinds(diff).html("Queries by the first kind in which they differ", ""))
            (pairs(diff))
        }
    }
}

/// Renders the samples of a kind.
pub(super) fn samples(diff: &AnswerDiff, kind: &AnswerKind) -> Markup {
    html! {
        @if !kind.samples.is_empty() {
            h3 { (kind.kind) ": " (meaning(&kind.kind)) }
            @for sample in &kind.samples {
                @let title = format!("{} {}: {}", sample.name, sample.qtype, sample.verdict.word());
                (fold(&title, answers_of(diff, sample)))
            }
        }
    }
}

/// Renders the answer of each server; records that not all servers have are marked.
fn answers_of(diff: &AnswerDiff, sample: &AnswerDifference) -> Markup {
    html! {
        p.note { "Query " (sample.number + 1) ", kinds: " (sample.kinds.join(", ")) }
        @for group in &sample.groups {
            @let names: Vec<String> = group.iter().map(|server| {
                let name = diff.servers.get(*server).map_or("", |server| server.name.as_str());
                format!("{} {name}", letter(*server))
            }).collect();
            p { strong { (names.join(", ")) } }
            @if let Some(seen) = group.first().and_then(|server| sample.answers.get(*server)) {
                pre { @for line in lines(seen) {
                    @let mark = !everywhere(sample, &line);
                    @if mark { strong.worse { "! " (line) } "\n" } @else { "  " (line) "\n" }
                } }
            }
        }
    }
}

/// Returns whether the answers of all servers have a line.
fn everywhere(sample: &AnswerDifference, line: &str) -> bool {
    sample.answers.iter().all(|seen| lines(seen).iter().any(|other| other == line))
}

/// Returns an answer as lines.
fn lines(seen: &AnswerSeen) -> Vec<String> {
    let tcp = if seen.tcp { " over TCP" } else { "" };
    if seen.outcome != "reply" {
        let detail = seen.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
        return vec![format!("{}{tcp}{detail}", seen.outcome)];
    }
    let mut lines = vec![format!("{}{tcp}, flags {}", seen.rcode, seen.flags)];
    lines.extend(seen.question.as_ref().map(|question| format!("question {question}")));
    for (section, records) in
        [("answer", &seen.answer), ("authority", &seen.authority), ("additional", &seen.additional)]
    {
        lines.extend(records.iter().take(MAX_RECORDS).map(|record| format!("{section}: {record}")));
        if records.len() > MAX_RECORDS {
            lines.push(format!("{section}: and {} more", records.len() - MAX_RECORDS));
        }
    }
    lines.extend(seen.edns.as_ref().map(|edns| format!("EDNS {edns}")));
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use record::{CellRecord, Run};

    use super::*;
    use crate::answers::tests::sample;

    #[test]
    fn a_run_has_the_comparison_of_its_first_cell() {
        let mut cell = CellRecord::new("one", BTreeMap::new(), "answers");
        cell.answers = Some(Box::new(sample()));
        let run = Run { results: vec![cell], ..Run::default() };
        let part = section(&Cells::of(&run)).into_string();
        for text in [
            "<h3>Answers compared</h3>",
            "1,198 equal, 1 differ",
            "&lt;a&gt;.test. A: differs",
            "A one, B two",
        ] {
            assert!(part.contains(text), "{text}\n{part}");
        }
        let none = Run { results: vec![CellRecord::new("one", BTreeMap::new(), "answers")], ..run };
        assert_eq!(section(&Cells::of(&none)).into_string(), "");
    }
}
