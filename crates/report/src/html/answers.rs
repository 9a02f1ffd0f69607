//! A comparison of answers as a page.

use maud::{Markup, html};
use record::{AnswerDiff, AnswerDifference, AnswerKind, AnswerSeen};

use super::frame::{Frame, frame};
use super::parts::{Narrow, fold, table};
use crate::answers::{conditions, count, kinds, letter, meaning, servers, title, verdict};
use crate::view::date;

/// Largest number of records of a section that the page shows of a sample.
const MAX_RECORDS: usize = 50;

/// Renders the page of a comparison of answers.
pub fn answers_page(diff: &AnswerDiff) -> String {
    let worse = diff.differ > 0 || diff.incomplete.is_some();
    let body = html! {
        section #summary aria-label="Summary" {
            h2 { "Summary" }
            article.run {
                p.meta { (date(diff.started_unix_s)) " · dnsdyno " (diff.version) }
                p.verdict.worse[worse].better[!worse] { (verdict(diff)) }
                ul.findings {
                    li { (count(diff.equal)) " equal, " (count(diff.differ)) " differ, " (count(diff.known)) " known, " (count(diff.unstable)) " unstable" }
                    @if diff.unchecked > 0 { li { (count(diff.unchecked)) " differ and were not asked twice" } }
                    li { (conditions(diff)) }
                }
                p.note { "What differs is asked twice: it counts if it is there both times and each server agrees with itself." }
            }
        }
        section aria-label="Servers" { h2 { "Servers" } (counts("Outcomes of the first asking", &servers(diff))) }
        @if !diff.kinds.is_empty() {
            section aria-label="Kinds" {
                h2 { "Kinds of differences" }
                (counts("Queries by the first kind in which they differ", &kinds(diff)))
                (pairs(diff))
            }
            section aria-label="Samples" { h2 { "Samples" } @for kind in &diff.kinds { (samples(diff, kind)) } }
        }
    };
    let title = title(diff);
    frame(&Frame { title: &title, navigation: &[], body: &body, foot: &html! {}, script: "" })
}

/// Renders a table whose first row has the heads; numbers stand to the right.
fn counts(caption: &str, rows: &[Vec<String>]) -> Markup {
    let Some((heads, rows)) = rows.split_first() else { return html! {} };
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let number = |text: &str| text.replace(',', "").parse::<u64>().ok();
    let rows: Vec<Markup> = rows
        .iter()
        .map(|row| {
            html! {
                @for (head, cell) in heads.iter().zip(row) {
                    @match number(cell) {
                        Some(value) => td.n data-h=(head) data-v=(value) { (cell) },
                        None => td data-h=(head) data-v=(cell) { (cell) },
                    }
                }
            }
        })
        .collect();
    table(caption, "", Narrow::Cards, &heads, &rows)
}

/// Renders how many queries every two servers answer differently; empty for two servers.
fn pairs(diff: &AnswerDiff) -> Markup {
    if diff.servers.len() < 3 || diff.pairs.is_empty() {
        return html! {};
    }
    let rows: Vec<Vec<String>> = diff
        .pairs
        .iter()
        .map(|pair| {
            let both = format!("{} and {}", letter(pair.first), letter(pair.second));
            vec![both, count(pair.differ)]
        })
        .collect();
    let heads = vec![vec!["servers".to_owned(), "differ".to_owned()]];
    counts(
        "Queries that two servers answer differently, known ones among them",
        &[heads, rows].concat(),
    )
}

/// Renders the samples of a kind.
fn samples(diff: &AnswerDiff, kind: &AnswerKind) -> Markup {
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

/// Renders what each server answered; records that not all servers have are marked.
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
    use super::*;
    use crate::answers::tests::sample;

    #[test]
    fn the_page_marks_what_differs_and_escapes_names() {
        let page = answers_page(&sample());
        for part in [
            "<h1>answers of one, two, three</h1>",
            "1 query is answered differently",
            "&lt;a&gt;.test. A: differs",
            "&lt;a&gt;.test. A: unstable",
            "A one, C three",
            "<strong class=\"worse\">! answer: &lt;a&gt;.test. 60 IN A 192.0.2.2</strong>",
            "  NOERROR, flags aa",
            "A and B",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(!page.contains("<a>.test"));
        let empty = answers_page(&AnswerDiff::default());
        assert!(empty.contains("no differences") && empty.contains("</html>"));
    }
}
