//! A comparison of answers as a page of its own.

use maud::html;
use record::AnswerDiff;

use super::answers::{ASKED_TWICE, kinds_of, samples};
use super::frame::{Frame, frame};
use crate::answers::{conditions, servers, title, verdict, verdicts};
use crate::view::date;

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
                    li { (verdicts(diff)) }
                    li { (conditions(diff)) }
                }
                p.note { (ASKED_TWICE) }
            }
        }
        section aria-label="Servers" { h2 { "Servers" } (servers(diff).html("Outcomes of the first attempt", "")) }
        @if !diff.kinds.is_empty() {
            section aria-label="Kinds" {
                h2 { "Kinds of differences" }
                (kinds_of(diff))
            }
            section aria-label="Samples" { h2 { "Samples" } @for kind in &diff.kinds { (samples(diff, kind)) } }
        }
    };
    let title = title(diff);
    frame(&Frame { title: &title, navigation: &[], body: &body, foot: &html! {}, script: "" })
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
            "1 query has different answers",
            "&lt;a&gt;.test. A: differs",
            "&lt;a&gt;.test. A: unstable",
            "A one, C three",
            "<strong class=\"worse\">! answer: &lt;a&gt;.test. 60 IN A 192.0.2.2</strong>",
            "  NOERROR, flags aa",
            "A one, B two",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(!page.contains("<a>.test"));
        let empty = answers_page(&AnswerDiff::default());
        assert!(empty.contains("no differences") && empty.contains("</html>"));
    }
}
