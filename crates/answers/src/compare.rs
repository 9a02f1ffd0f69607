//! Comparison of two answers: the kinds of their differences.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use measure::Nanos;

use crate::answer::{Answer, Rr};
use crate::kind::{DifferenceKind, Kinds};
use crate::spool::Raw;

/// Difference that the TTLs of a record may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TtlTolerance {
    /// Any: caches of different ages are compared.
    Any,
    /// At most this number of seconds.
    Seconds(u32),
    /// This share (0 to 1) of the larger TTL.
    Share(f64),
    /// This number of seconds; any number if the server with the lower TTL has a cache, which
    /// counts TTLs down between two queries.
    Cached(u32),
}

impl TtlTolerance {
    /// Returns whether a TTL counts as equal to another one that was seen `aged_s` seconds earlier.
    fn allows(self, earlier: u32, later: u32, aged_s: u32) -> bool {
        // A cache counts down.
        let least = earlier.saturating_sub(aged_s);
        let apart = if later > earlier { later - earlier } else { least.saturating_sub(later) };
        match self {
            TtlTolerance::Any => true,
            TtlTolerance::Seconds(seconds) | TtlTolerance::Cached(seconds) => apart <= seconds,
            TtlTolerance::Share(share) => f64::from(apart) <= share * f64::from(earlier.max(later)),
        }
    }
}

impl fmt::Display for TtlTolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TtlTolerance::Any => f.pad("any"),
            TtlTolerance::Seconds(seconds) | TtlTolerance::Cached(seconds) => {
                write!(f, "{seconds}s")
            }
            TtlTolerance::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

impl FromStr for TtlTolerance {
    type Err = String;

    /// Reads `any`, `exact`, a time such as `5s`, or a share such as `10%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "`{text}` is not a difference of TTLs: write exact, a time such as 5s, a share such as 10%, or any"
            )
        };
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.parse::<f64>().ok().filter(|p| (0.0..=100.0).contains(p));
            return percent.map(|p| TtlTolerance::Share(p / 100.0)).ok_or_else(bad);
        }
        match text {
            "any" => Ok(TtlTolerance::Any),
            "exact" => Ok(TtlTolerance::Seconds(0)),
            _ => {
                let seconds = text.parse::<Nanos>().map_err(|_| bad())?.as_secs_f64();
                Ok(TtlTolerance::Seconds(seconds.min(u32::MAX.into()) as u32))
            }
        }
    }
}

/// What counts as a difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Difference that TTLs may have.
    pub ttl: TtlTolerance,
    /// Kinds that are not compared.
    pub ignored: Kinds,
}

/// Outcome of a query at one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A reply that could be parsed.
    Answer(Box<Answer>),
    /// A reply that cannot be parsed.
    Malformed,
    /// The server sent no reply within the timeout.
    Timeout,
    /// An error of the socket.
    Failed,
}

impl Outcome {
    /// Parses the outcome at a server.
    pub fn of(raw: &Raw) -> Self {
        match raw {
            Raw::Message { bytes, .. } => match Answer::read(bytes) {
                Some(answer) => Outcome::Answer(answer.into()),
                None => Outcome::Malformed,
            },
            Raw::Timeout => Outcome::Timeout,
            Raw::Failed(_) => Outcome::Failed,
        }
    }
}

/// Returns the kinds of the differences of two answers, the second of which came `aged_s` seconds
/// later: a cache may have counted its TTLs down by that.
pub fn compare(first: &Outcome, second: &Outcome, terms: &Terms, aged_s: u32) -> Kinds {
    compare_by(first, second, terms, |one, other| terms.ttl.allows(one, other, aged_s))
}

/// Returns the kinds of the differences of two answers that were given at the same time; a TTL
/// below the other one is no difference where its server counts down.
pub(crate) fn compare_aging(answers: [&Outcome; 2], count_down: [bool; 2], terms: &Terms) -> Kinds {
    let aging = matches!(terms.ttl, TtlTolerance::Cached(_));
    compare_by(answers[0], answers[1], terms, |one, other| {
        let lower = if one < other { count_down[0] } else { count_down[1] };
        terms.ttl.allows(one, other, 0) || aging && lower
    })
}

/// Returns whether a server's second answer has the records of its first one, each with a lower TTL.
pub(crate) fn counts_down(first: &Outcome, second: &Outcome) -> bool {
    let (Outcome::Answer(first), Outcome::Answer(second)) = (first, second) else { return false };
    let lower = |earlier, later| later < earlier || earlier == 0;
    answers(first, second, lower).is_empty()
}

fn compare_by(
    first: &Outcome,
    second: &Outcome,
    terms: &Terms,
    same_ttl: impl Fn(u32, u32) -> bool,
) -> Kinds {
    let kinds = match (first, second) {
        (Outcome::Answer(first), Outcome::Answer(second)) => answers(first, second, same_ttl),
        (first, second) if first == second => Kinds::NONE,
        (Outcome::Timeout, _) | (_, Outcome::Timeout) => DifferenceKind::Timeout.into(),
        (Outcome::Failed, _) | (_, Outcome::Failed) => DifferenceKind::Error.into(),
        _ => DifferenceKind::Malformed.into(),
    };
    kinds.without(terms.ignored)
}

fn answers(first: &Answer, second: &Answer, same_ttl: impl Fn(u32, u32) -> bool) -> Kinds {
    let mut of_records = Kinds::NONE;
    let sections = first.sections.iter().zip(&second.sections);
    for ((one, other), kind) in sections.zip([
        DifferenceKind::Answer,
        DifferenceKind::Authority,
        DifferenceKind::Additional,
    ]) {
        of_records = of_records | records(one, other, kind, &same_ttl);
    }
    let fields = [
        (DifferenceKind::Question, first.question != second.question),
        (DifferenceKind::Rcode, first.rcode != second.rcode),
        (DifferenceKind::Flags, first.flags != second.flags),
        (DifferenceKind::Edns, first.opt != second.opt),
    ];
    let fields: Kinds =
        fields.into_iter().filter(|(_, differ)| *differ).map(|(kind, _)| kind).collect();
    fields | of_records
}

/// Returns the kinds of differences in a section: `kind` for records that only one side has,
/// signatures, TTLs of records that both have.
fn records(
    first: &[Rr],
    second: &[Rr],
    kind: DifferenceKind,
    same_ttl: impl Fn(u32, u32) -> bool,
) -> Kinds {
    let (mut first, mut second) = (first.iter().peekable(), second.iter().peekable());
    let mut kinds = Kinds::NONE;
    let of = |record: &Rr| if record.is_signature() { DifferenceKind::Signatures } else { kind };
    loop {
        let order = match (first.peek(), second.peek()) {
            (None, None) => return kinds,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one.identity().cmp(&other.identity()),
        };
        let one = if order == Ordering::Greater { None } else { first.next() };
        let other = if order == Ordering::Less { None } else { second.next() };
        kinds = match (one, other) {
            (Some(one), Some(other)) if same_ttl(one.ttl, other.ttl) => kinds,
            (Some(_), Some(_)) => kinds.with(DifferenceKind::Ttl),
            (Some(record), None) | (None, Some(record)) => kinds.with(of(record)),
            (None, None) => return kinds,
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::Rcode;

    use super::*;

    const EXACT: Terms = Terms { ttl: TtlTolerance::Seconds(0), ignored: Kinds::NONE };

    fn record(rtype: u16, key: &[u8], ttl: u32) -> Rr {
        let owner = b"\x01a\0".to_vec();
        Rr { owner, rtype, class: 1, key: key.to_vec(), ttl, data: key.to_vec() }
    }

    fn answer() -> Answer {
        Answer {
            question: b"\x01a\0\0\x01\0\x01".to_vec(),
            rcode: Rcode::NOERROR,
            flags: 0x0180,
            sections: [
                vec![record(1, &[1], 60), record(1, &[2], 60), record(46, b"sig", 60)],
                vec![record(2, b"n", 60)],
                vec![record(28, &[3], 60)],
            ],
            opt: None,
        }
    }

    fn seen(change: impl FnOnce(&mut Answer)) -> Outcome {
        let mut answer = answer();
        change(&mut answer);
        Outcome::Answer(answer.into())
    }

    fn kinds(one: &Outcome, other: &Outcome) -> Vec<String> {
        let found = compare(one, other, &EXACT, 0);
        assert_eq!(found, compare(other, one, &EXACT, 0), "the order does not matter");
        found.words()
    }

    #[test]
    fn each_field_has_its_kind() {
        let one = seen(|_| {});
        assert_eq!(kinds(&one, &one.clone()), Vec::<String>::new());
        let table: [(&[&str], Outcome); 12] = [
            (&["question"], seen(|a| a.question[1] = b'b')),
            (&["rcode"], seen(|a| a.rcode = Rcode::NXDOMAIN)),
            (&["flags"], seen(|a| a.flags ^= 0x400)),
            (&["answer"], seen(|a| a.sections[0][0].key = vec![0])),
            (&["answer"], seen(|a| drop(a.sections[0].remove(1)))),
            (&["signatures"], seen(|a| drop(a.sections[0].pop()))),
            (&["authority"], seen(|a| a.sections[1][0].owner = b"\x01b\0".to_vec())),
            (&["additional"], seen(|a| a.sections[2].clear())),
            (&["ttl"], seen(|a| a.sections[0][1].ttl = 61)),
            (
                &["answer", "ttl"],
                seen(|a| (a.sections[0][0].key[0], a.sections[1][0].ttl) = (9, 5)),
            ),
            (&["malformed"], Outcome::Malformed),
            (&["timeout"], Outcome::Timeout),
        ];
        for (wanted, other) in &table {
            let mut other = other.clone();
            if let Outcome::Answer(answer) = &mut other {
                answer.sections.iter_mut().for_each(|section| section.sort_unstable());
            }
            assert_eq!(kinds(&one, &other), *wanted);
        }
        assert_eq!(kinds(&one, &Outcome::Failed), ["error"]);
        assert_eq!(kinds(&Outcome::Failed, &Outcome::Timeout), ["timeout"]);
        assert_eq!(kinds(&Outcome::Failed, &Outcome::Failed), Vec::<String>::new());
        let terms = Terms { ignored: DifferenceKind::Timeout.into(), ..EXACT };
        assert!(compare(&one, &Outcome::Timeout, &terms, 0).is_empty());
    }

    #[test]
    fn ttls_have_a_tolerance_and_age() {
        for (text, earlier, later, aged_s, allowed) in [
            ("exact", 60, 60, 0, true),
            ("exact", 60, 59, 0, false),
            ("exact", 60, 57, 3, true),
            ("exact", 60, 56, 3, false),
            ("exact", 60, 61, 3, false),
            ("5s", 60, 65, 0, true),
            ("5s", 60, 54, 0, false),
            ("5s", 2, 0, 9, true),
            ("10%", 100, 110, 0, true),
            ("10%", 100, 89, 0, false),
            ("any", 0, u32::MAX, 0, true),
        ] {
            let tolerance: TtlTolerance = text.parse().expect(text);
            assert_eq!(
                tolerance.allows(earlier, later, aged_s),
                allowed,
                "{text} {earlier} {later}"
            );
        }
        assert_eq!("10%".parse().map(|t: TtlTolerance| t.to_string()), Ok("10%".into()));
        for bad in ["", "5", "-1s", "101%", "x%", "NaN%"] {
            assert!(bad.parse::<TtlTolerance>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn sections_differ_exactly_if_they_have_other_records(
            one in prop::collection::vec(0u8..4, 0..6), other in prop::collection::vec(0u8..4, 0..6),
        ) {
            let section = |keys: &[u8]| {
                let mut section: Vec<Rr> = keys.iter().map(|key| record(1, &[*key], 5)).collect();
                section.sort_unstable();
                section
            };
            let sorted = |keys: &[u8]| { let mut keys = keys.to_vec(); keys.sort_unstable(); keys };
            let (a, b) = (seen(|a| a.sections[0] = section(&one)), seen(|a| a.sections[0] = section(&other)));
            prop_assert_eq!(compare(&a, &b, &EXACT, 0).is_empty(), sorted(&one) == sorted(&other));
        }
    }
}
