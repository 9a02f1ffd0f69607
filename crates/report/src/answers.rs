//! The comparison of answers as text.

use std::fmt::Write as _;

use record::{AnswerDiff, AnswerDifference, AnswerKind, AnswerSeen, AnswerVerdict};

use crate::table::{Field, Table};
use crate::view::{span, thousands};

/// Meaning of each kind of difference.
const MEANINGS: [(&str, &str); 12] = [
    ("timeout", "one server does not answer in time"),
    ("error", "the socket to one server has an error"),
    ("malformed", "one reply cannot be parsed"),
    ("question", "other questions in the replies"),
    ("rcode", "other return codes"),
    ("flags", "other flags"),
    ("answer", "other records in the answer section"),
    ("signatures", "other signatures, or none"),
    ("authority", "other records in the authority section"),
    ("additional", "other records in the additional section"),
    ("edns", "other EDNS fields or options"),
    ("ttl", "other TTLs of the same records"),
];

/// Returns the meaning of a kind of difference.
pub(crate) fn meaning(kind: &str) -> &'static str {
    MEANINGS.iter().find(|(word, _)| *word == kind).map_or("", |(_, meaning)| *meaning)
}

/// Returns the letter of a server, by its number.
pub(crate) fn letter(server: usize) -> char {
    char::from(b'A' + (server % 26) as u8)
}

/// Returns a count with separators.
pub(crate) fn count(number: u64) -> String {
    thousands(number as f64)
}

/// Makes the table of counts, a row for each server.
pub(crate) fn servers(diff: &AnswerDiff) -> Table {
    let heads = ["", "server", "replies", "timeouts", "errors", "malformed", "over TCP", "alone"];
    let row = |(number, server): (usize, &record::AnswerServer)| {
        let counts =
            [server.replies, server.timeouts, server.errors, server.malformed, server.over_tcp];
        let words = [Field::words(letter(number)), Field::words(&server.name)];
        words.into_iter().chain(counts.into_iter().chain(server.alone).map(Field::count)).collect()
    };
    let shown = if diff.servers.len() > 2 { 8 } else { 7 };
    Table::of_rows(heads.into_iter().take(shown), diff.servers.iter().enumerate().map(row))
}

/// Makes the table of kinds.
pub(crate) fn kinds(diff: &AnswerDiff) -> Table {
    let row = |kind: &AnswerKind| {
        let counts = [kind.differ, kind.known, kind.unstable, kind.among].map(Field::count);
        let words = [Field::words(&kind.kind)].into_iter().chain(counts);
        words.chain([Field::words(meaning(&kind.kind))]).collect()
    };
    let heads = ["kind", "differ", "known", "unstable", "among others", "what"];
    Table::of_rows(heads, diff.kinds.iter().map(row))
}

/// Makes the table of all pairs of servers: the numbers of queries that they answer alike and
/// differently, and these by the first kind in which they differ.
pub(crate) fn pairs(diff: &AnswerDiff) -> Table {
    let name = |server: usize| {
        let of = diff.servers.get(server).map_or("", |server| server.name.as_str());
        format!("{} {of}", letter(server))
    };
    let found = |kind: &&str| diff.pairs.iter().any(|pair| pair.kinds.contains_key(*kind));
    let kinds: Vec<&str> = MEANINGS.iter().map(|(kind, _)| *kind).filter(found).collect();
    // An unstable query is no result about any two servers.
    let known = diff.asked.saturating_sub(diff.unstable + diff.unchecked);
    let row = |(first, second): (usize, usize)| {
        let pair = diff.pairs.iter().find(|pair| pair.is_of(first, second));
        let differ = pair.map_or(0, |pair| pair.differ);
        let of_kind = |kind: &&str| pair.and_then(|pair| pair.kinds.get(*kind)).copied();
        let counts = [known.saturating_sub(differ), differ].into_iter();
        let counts = counts.chain(kinds.iter().map(|kind| of_kind(kind).unwrap_or(0)));
        let names = Field::words(format!("{}, {}", name(first), name(second)));
        std::iter::once(names).chain(counts.map(Field::count)).collect()
    };
    let all =
        (1..diff.servers.len()).flat_map(|second| (0..second).map(move |first| (first, second)));
    let heads = ["servers", "alike", "differ"].into_iter().chain(kinds.iter().copied());
    Table::of_rows(heads, all.map(row))
}

/// Returns the counts by verdict, in a line.
pub(crate) fn verdicts(diff: &AnswerDiff) -> String {
    let (equal, differ) = (count(diff.equal), count(diff.differ));
    let (known, unstable) = (count(diff.known), count(diff.unstable));
    let unchecked = match diff.unchecked {
        0 => String::new(),
        unchecked => format!(", {} not repeated", count(unchecked)),
    };
    format!("{equal} equal, {differ} differ, {known} known, {unstable} unstable{unchecked}")
}

/// Returns the verdict of the comparison, in a sentence.
pub(crate) fn verdict(diff: &AnswerDiff) -> String {
    match (&diff.incomplete, diff.differ) {
        (Some(why), _) => format!("incomplete: {why}"),
        (None, 0) if diff.known + diff.unstable == 0 => "no differences".to_owned(),
        (None, 0) => "no differences but known and unstable ones".to_owned(),
        (None, 1) => "1 query has different answers".to_owned(),
        (None, differ) => format!("{} queries have different answers", count(differ)),
    }
}

/// Returns the title: the servers and the source of the queries.
pub(crate) fn title(diff: &AnswerDiff) -> String {
    let names: Vec<&str> = diff.servers.iter().map(|server| server.name.as_str()).collect();
    format!("answers of {}", names.join(", "))
}

/// Returns the conditions in words.
pub(crate) fn conditions(diff: &AnswerDiff) -> String {
    let pace = match diff.rate_qps {
        Some(qps) => format!("at most {} a second", thousands(qps)),
        None => "at the times of the capture".to_owned(),
    };
    let ignored = match diff.ignored[..] {
        [] => String::new(),
        _ => format!("; not compared: {}", diff.ignored.join(", ")),
    };
    format!(
        "{} queries of {} in {}, {pace}, {} outstanding at most, timeout {} s; TTLs may differ by {}{ignored}",
        count(diff.asked),
        diff.queries_from.join(", "),
        span(diff.elapsed_s),
        diff.window,
        diff.timeout_s,
        diff.ttl
    )
}

/// Returns the outcome of a comparison: counts, kinds, a sample of each kind.
pub fn answers(diff: &AnswerDiff) -> String {
    let mut out = String::new();
    // A write to a String never fails.
    let _ = write_answers(diff, &mut out);
    out
}

fn write_answers(diff: &AnswerDiff, out: &mut String) -> std::fmt::Result {
    writeln!(out, "{}\n{}\n", title(diff), conditions(diff))?;
    writeln!(out, "{}", servers(diff).whole_text())?;
    write_counts(diff, out)?;
    let samples = diff.kinds.iter().filter_map(|kind| {
        kind.samples.iter().find(|sample| sample.verdict == AnswerVerdict::Differs)
    });
    for sample in samples {
        write_sample(sample, out)?;
    }
    writeln!(out, "\n{}", verdict(diff))
}

/// Writes the counts by verdict, by kind, and for every two of several servers.
pub(crate) fn write_counts(diff: &AnswerDiff, out: &mut String) -> std::fmt::Result {
    writeln!(out, "{}", verdicts(diff))?;
    if !diff.kinds.is_empty() {
        write!(out, "\n{}", kinds(diff).whole_text())?;
    }
    if diff.servers.len() > 2 {
        write!(out, "\n{}", pairs(diff).whole_text())?;
    }
    Ok(())
}

/// Writes a sample: its question, and the differing parts of the answers of each group of servers.
fn write_sample(sample: &AnswerDifference, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "\n{}: {} {} ({})",
        sample.kind,
        sample.name,
        sample.qtype,
        sample.kinds.join(", ")
    )?;
    for group in &sample.groups {
        let letters: String = group.iter().map(|server| letter(*server)).collect();
        let Some(seen) = group.first().and_then(|server| sample.answers.get(*server)) else {
            continue;
        };
        writeln!(out, "  {letters:<3} {}", in_words(seen, &sample.kind))?;
    }
    Ok(())
}

/// Returns the part of an answer that a difference of this kind is about.
fn in_words(seen: &AnswerSeen, kind: &str) -> String {
    if seen.outcome != "reply" {
        let detail = seen.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
        return format!("{}{detail}", seen.outcome);
    }
    let records = |records: &[String]| match records {
        [] => "no record".to_owned(),
        records => records.join(" | "),
    };
    match kind {
        "question" => seen.question.clone().unwrap_or_else(|| "the question asked".to_owned()),
        "flags" => format!("{} {}", seen.rcode, seen.flags),
        "authority" => records(&seen.authority),
        "additional" => records(&seen.additional),
        "edns" => seen.edns.clone().unwrap_or_else(|| "no EDNS".to_owned()),
        "answer" | "signatures" | "ttl" => {
            format!("{} {}", seen.rcode, records(&[&seen.answer[..], &seen.authority].concat()))
        }
        _ => format!("{} {}", seen.rcode, records(&seen.answer)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use record::{AnswerPair, AnswerServer};

    use super::*;

    /// A comparison of three servers with a difference and an unstable query.
    pub(crate) fn sample() -> AnswerDiff {
        let server = |name: &str, alone| AnswerServer {
            name: name.into(),
            replies: 1_200,
            alone: Some(alone),
            ..AnswerServer::default()
        };
        let seen = |last: u8| AnswerSeen {
            outcome: "reply".into(),
            rcode: "NOERROR".into(),
            flags: "aa".into(),
            answer: vec![format!("<a>.test. 60 IN A 192.0.2.{last}")],
            ..AnswerSeen::default()
        };
        let difference = |verdict| AnswerDifference {
            name: "<a>.test.".into(),
            class: "IN".into(),
            qtype: "A".into(),
            verdict,
            kind: "answer".into(),
            kinds: vec!["answer".into(), "ttl".into()],
            groups: vec![vec![0, 2], vec![1]],
            answers: vec![seen(1), seen(2), seen(1)],
            ..AnswerDifference::default()
        };
        AnswerDiff {
            asked: 1_200,
            equal: 1_198,
            differ: 1,
            unstable: 1,
            elapsed_s: 3.0,
            rate_qps: Some(1_000.0),
            window: 64,
            timeout_s: 2.0,
            ttl: "5s".into(),
            queries_from: vec!["q.txt".into()],
            servers: vec![server("one", 0), server("two", 1), server("three", 0)],
            kinds: vec![AnswerKind {
                kind: "answer".into(),
                differ: 1,
                unstable: 1,
                among: 1,
                samples: vec![
                    difference(AnswerVerdict::Differs),
                    difference(AnswerVerdict::Unstable),
                ],
                ..AnswerKind::default()
            }],
            pairs: vec![AnswerPair {
                first: 0,
                second: 1,
                differ: 1,
                kinds: [("answer".to_owned(), 1)].into(),
            }],
            ..AnswerDiff::default()
        }
    }

    #[test]
    fn the_text_has_counts_a_sample_and_the_verdict() {
        let text = answers(&sample());
        for part in [
            "answers of one, two, three\n1,200 queries of q.txt in 3 s, at most 1,000 a second, 64 outstanding at most, timeout 2 s; TTLs may",
            "B  two",
            "\n1,198 equal, 1 differ, 0 known, 1 unstable\n",
            "other records in the answer section",
            "\nservers         alike  differ  answer\nA one, B two    1,198       1       1\nA one, C three",
            "answer: <a>.test. A (answer, ttl)\n  AC  NOERROR <a>.test. 60 IN A 192.0.2.1\n  B   NOERROR <a>.test. 60 IN A 192.0.2.2",
            "\n1 query has different answers\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(answers(&AnswerDiff::default()).ends_with("\nno differences\n"));
        let cut = AnswerDiff { incomplete: Some("it was interrupted".into()), ..sample() };
        assert!(answers(&cut).ends_with("incomplete: it was interrupted\n"));
    }

    #[test]
    fn a_sample_shows_what_it_is_about() {
        let seen = AnswerSeen {
            outcome: "reply".into(),
            rcode: "NXDOMAIN".into(),
            flags: "aa rd".into(),
            authority: vec!["SOA".into()],
            edns: Some("version 0".into()),
            ..AnswerSeen::default()
        };
        for (kind, words) in [
            ("rcode", "NXDOMAIN no record"),
            ("flags", "NXDOMAIN aa rd"),
            ("authority", "SOA"),
            ("additional", "no record"),
            ("edns", "version 0"),
            ("question", "the question asked"),
            ("ttl", "NXDOMAIN SOA"),
        ] {
            assert_eq!(in_words(&seen, kind), words, "{kind}");
        }
        let error = AnswerSeen {
            outcome: "error".into(),
            detail: Some("refused".into()),
            ..AnswerSeen::default()
        };
        assert_eq!(in_words(&error, "error"), "error: refused");
    }
}
