//! Checks of the Tester and its certificate, as text for a terminal.

use std::fmt::Write;

use record::{Bound, CertificateFile, Check, CheckVerdict};

use crate::table::{Field, Table};
use crate::view::number::trimmed;
use crate::view::{date, quantity, thousands};

/// Returns the fields of a check, by column.
fn fields(check: &Check) -> [Field; 7] {
    let value = |x: Option<f64>| Field::number(x, |x| quantity(x, &check.unit));
    let bound = |x: f64| signed(check, x).trim_start_matches('+').to_owned();
    [
        Field::words(&check.name),
        Field::words(check.truth.to_string()),
        value(Some(check.known)),
        value(check.found),
        Field::number(check.error, |error| signed(check, error)),
        Field::number(Some(check.bound.value()), bound),
        Field::words(check.verdict.words()),
    ]
}

/// Makes the table of checks.
pub(crate) fn table(checks: &[Check]) -> Table {
    let heads = ["value", "known by", "known", "found", "error", "bound", "verdict"];
    Table::of_rows(heads, checks.iter().map(|check| fields(check).into()))
}

/// Formats an error with its sign, in the unit of the bound.
fn signed(check: &Check, error: f64) -> String {
    let text = match check.bound {
        Bound::Percent(_) => format!("{} %", trimmed(error.abs(), 2)),
        Bound::Absolute(_) => quantity(error.abs(), &check.unit),
    };
    let sign = if error < 0.0 { "-" } else { "+" };
    if text.starts_with("0 ") || text == "0" { text } else { format!("{sign}{text}") }
}

/// Returns a check on one line: "capacity 20k: 19,950 qps, known 20,100 qps (set): passed".
pub fn check_line(check: &Check) -> String {
    let [name, truth, known, found, error, _, verdict] = fields(check).map(|field| field.text);
    let why = check.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    format!("{name}: {found}, known {known} ({truth}), error {error}: {verdict}{why}")
}

/// Returns the table of checks, of passed ones of several engines and transports the worst of each
/// kind, and below it the reasons of failed ones.
pub fn checks(checks: &[Check]) -> String {
    let mut out = table(&folded(checks)).whole_text();
    for check in checks {
        if let Some(why) = &check.why {
            let (name, truth) = (&check.name, check.truth);
            let _ = writeln!(out, "{name} ({truth}): {}: {why}", check.verdict.words());
        }
    }
    out
}

/// Returns the checks, but of passed ones of several engines and transports only the worst of each
/// kind.
fn folded(checks: &[Check]) -> Vec<Check> {
    let mut rows: Vec<(Check, usize)> = Vec::new();
    for check in checks {
        let folds = check.is_of_way() && check.verdict == CheckVerdict::Passed;
        let same = |(row, count): &&mut (Check, usize)| {
            *count > 0 && (row.what(), row.truth) == (check.what(), check.truth)
        };
        match rows.iter_mut().find(same).filter(|_| folds) {
            Some((row, count)) => {
                *count += 1;
                if check.share_of_bound() > row.share_of_bound() {
                    row.clone_from(check);
                }
            }
            None => rows.push((check.clone(), usize::from(folds))),
        }
    }
    let name = |(row, count): (Check, usize)| match count {
        0 | 1 => row,
        count => Check { name: format!("{} (worst of {count})", row.name), ..row },
    };
    rows.into_iter().map(name).collect()
}

/// Returns a certificate: the certified rate, its conditions, and the table of its checks.
pub fn certificate(file: &CertificateFile) -> String {
    let mut out = if file.checks.is_empty() { String::new() } else { checks(&file.checks) };
    let _ = writeln!(out, "{}", certified(file));
    out
}

/// Returns a certificate in one line.
pub(crate) fn certified(file: &CertificateFile) -> String {
    let made = format!("made {} by dnsdyno {}", date(file.made_unix_s), file.made_by);
    let checks = match (file.checks.len(), passed(&file.checks)) {
        (0, _) => String::new(),
        (all, passed) => format!(", {passed} of {all} known values found"),
    };
    let shortened = match &file.self_test {
        Some(test) => match test.shortened_s {
            Some(s) => format!(", self-test SHORTENED by a test to {s} s"),
            None => format!(", self-test of {} s", test.duration_s),
        },
        None => String::new(),
    };
    let rate = match file.certified_qps {
        qps if qps > 0.0 => format!("for servers up to {} qps", thousands(qps)),
        _ => "it certifies no rate, since none passed".to_owned(),
    };
    format!("certificate of the Tester: {rate} ({}{checks}{shortened}; {made})", file.tested)
}

/// Returns the number of checks that passed.
pub(crate) fn passed(checks: &[Check]) -> usize {
    checks.iter().filter(|check| check.verdict == CheckVerdict::Passed).count()
}

#[cfg(test)]
mod tests {
    use record::{Known, TruthSource};

    use super::*;

    #[test]
    fn a_table_of_checks() {
        let known = |value, unit, bound| Known { truth: TruthSource::Set, value, unit, bound };
        let lost = Check::compare("lost", known(50.0, "", Bound::Absolute(2.0)), 61.0);
        let all = [
            Check::compare("capacity 20k", known(20_100.0, "qps", Bound::Percent(2.0)), 20_000.0),
            Check::compare("latency p99", known(20_000.0, "us", Bound::Absolute(500.0)), 20_080.0),
            Check { verdict: CheckVerdict::TesterLimited, ..lost }.because("a stall of 8 ms"),
            Check::without("even", known(100.0, "%", Bound::Absolute(5.0)), CheckVerdict::NotMade),
        ];
        let text = checks(&all);
        let rows: Vec<String> =
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let wanted = [
            "value known by known found error bound verdict",
            "capacity 20k set 20,100 20,000 -0.5 % 2 % passed",
            "latency p99 set 20.00 ms 20.08 ms +80.0 us 500.0 us passed",
            "lost set 50 61 +11 2 Tester-limited",
            "even set 100 % - - 5 % not made",
            "lost (set): Tester-limited: a stall of 8 ms",
        ];
        assert_eq!(rows, wanted, "{text}");
        let way = |window: u32, found| {
            let name = format!("rate, window {window}, tcp");
            Check::compare(name, known(1_000.0, "qps", Bound::Percent(3.0)), found)
        };
        let ways = [way(1, 1_001.0), way(8, 980.0), way(9, 990.0), way(64, 640.0)];
        let text = checks(&ways);
        let names: Vec<&str> =
            text.lines().skip(1).map(|l| l.split("  ").next().unwrap_or_default()).collect();
        assert_eq!(names, ["rate, window 8, tcp (worst of 3)", "rate, window 64, tcp"], "{text}");
        let line = "lost: 61, known 50 (set), error +11: Tester-limited: a stall of 8 ms";
        assert_eq!(check_line(&all[2]), line);
    }
}
