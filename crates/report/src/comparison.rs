//! The comparison of two runs as a table.

use std::fmt::Write;

use record::{Compared, Comparison, Missing, Outcome};

use crate::view::Align::{Left, Right};
use crate::view::name::compared_name;
use crate::view::unit::with_unit;
use crate::view::{align, significant};

/// Returns the table and the notes that are needed to read it.
pub fn comparison(c: &Comparison) -> String {
    let heads = ["what", "first", "second", "ratio", "interval", "verdict", "shows from"];
    let rows = c.figures.iter().map(row);
    let rows: Vec<[String; 7]> = std::iter::once(heads.map(str::to_owned)).chain(rows).collect();
    let mut out = align(&rows, &[Left, Right, Right, Right, Left]);
    let percent = |share: f64| significant((share * 1e6).round() / 1e4);
    let _ = writeln!(
        out,
        "\nThe ratio is the second over the first; all verdicts together are {} % sure, a difference below \
         {} % is none. Only a difference of more than \"shows from\" could have been seen.",
        percent(c.confidence),
        percent(c.margin)
    );
    for figure in c.figures.iter().filter(|f| !f.notes.is_empty()) {
        let _ = writeln!(out, "{}: {}", compared_name(figure), figure.notes.join("; "));
    }
    let mut list = |what: &str, cells: &[Missing]| {
        for cell in cells {
            let _ = writeln!(
                out,
                "{what} {}: {}",
                record::cell_name(&cell.server, None, &cell.settings),
                cell.why
            );
        }
    };
    list("MISSING", &c.missing);
    list("new", &c.added);
    for line in &c.differs {
        let _ = writeln!(out, "differs: {line}");
    }
    for line in &c.doubts {
        let _ = writeln!(out, "doubt: {line}");
    }
    let reasons = match c.reasons[..] {
        [] => "nothing is slower".to_owned(),
        _ => c.reasons.join("; "),
    };
    let _ = writeln!(out, "{}: {reasons}", c.decision.verdict());
    out
}

fn row(f: &Compared) -> [String; 7] {
    let value = |x: f64| with_unit(x, &f.unit);
    let comparable = f.outcome != Outcome::NotComparable;
    let interval = f.interval.filter(|_| comparable);
    [
        compared_name(f),
        value(f.first),
        value(f.second),
        if comparable { ratio(f.ratio) } else { "-".to_owned() },
        interval.map_or("-".to_owned(), |(low, high)| format!("{} to {}", ratio(low), ratio(high))),
        f.outcome.words().to_owned(),
        f.smallest
            .filter(|_| comparable)
            .filter(|smallest| *smallest < UNBOUNDED_RATIO)
            .map_or("-".to_owned(), |s| format!("{:.1} %", (s - 1.0) * 100.0)),
    ]
}

/// A ratio from which on its first figure may be zero, such as the share of valid replies of a dead
/// server.
const UNBOUNDED_RATIO: f64 = 1e9;

/// Writes a ratio.
pub(crate) fn ratio(of: f64) -> String {
    if of < UNBOUNDED_RATIO { format!("{of:.3}") } else { "unbounded".to_owned() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_ratio_to_zero_is_no_number() {
        assert_eq!([0.0, 1.0894, 1_800.0].map(super::ratio), ["0.000", "1.089", "1800.000"]);
        assert_eq!(super::ratio(f64::MAX), "unbounded");
    }
}
