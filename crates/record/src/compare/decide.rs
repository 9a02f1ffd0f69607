//! Decision of a whole comparison from all its figures: fine, slower, or inconclusive.

use super::fail_if::Decision;
use super::figures::Weight;
use super::{ADVICE, CompareTerms, Compared, Comparison, Outcome, is_rate, is_time};

/// Decides a comparison whose figures are complete, and gives the reasons.
pub(super) fn decide(comparison: &mut Comparison, terms: &CompareTerms) {
    let mut found: Vec<(Decision, String)> = Vec::new();
    for figure in &comparison.figures {
        let name = crate::cell_name(&figure.server, None, &figure.settings);
        let name = format!("{name}: {}", figure.figure);
        if terms.fail_if.is_empty() {
            found.extend(
                by_verdict(figure, terms.resolution).map(|(d, why)| (d, format!("{name} {why}"))),
            );
        }
        for condition in terms.fail_if.iter().filter(|c| c.figure == figure.figure) {
            if figure.outcome == Outcome::NotComparable {
                let reason = format!("{name}: {}", figure.outcome.words());
                found.push((Decision::Inconclusive, reason));
                continue;
            }
            let why = match figure.interval {
                Some(_) => String::new(),
                None => format!(" ({})", without_interval(figure)),
            };
            let reason = condition.reason(&name, "the first run", figure.possible);
            found.push((condition.decision(figure.possible), reason + &why));
        }
    }
    for missing in &comparison.missing {
        let name = crate::cell_name(&missing.server, None, &missing.settings);
        found.push((Decision::Inconclusive, format!("{name}: {}", missing.why)));
    }
    comparison.decision = found.iter().map(|(d, _)| *d).max().unwrap_or(Decision::Fine);
    let decisive = found.into_iter().filter(|(d, _)| *d == comparison.decision);
    comparison.reasons = decisive.map(|(_, why)| why).collect();
}

/// Returns the decision by the verdict and the interval of a figure, with its reason; `None` if the figure is fine.
fn by_verdict(figure: &Compared, resolution: f64) -> Option<(Decision, String)> {
    if figure.weight == Weight::IfNamed || figure.outcome == Outcome::NotComparable {
        return None;
    }
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    if matches!(figure.outcome, Outcome::Slower | Outcome::Worse) {
        let change = figure.ratio - 1.0;
        return Some((
            Decision::Slower,
            format!("is {} ({:+.1} %)", figure.outcome.words(), change * 100.0),
        ));
    }
    let less_is_worse = is_rate(&figure.unit) || figure.unit == "share";
    if figure.weight != Weight::Full || !(less_is_worse || is_time(&figure.unit)) {
        return None;
    }
    let Some((low, high)) = figure.possible else {
        return Some((Decision::Inconclusive, without_interval(figure)));
    };
    let worst = if less_is_worse { 1.0 - low } else { high - 1.0 };
    if worst <= resolution {
        return None;
    }
    let any = if less_is_worse { 0.999 } else { 1e3 };
    let much = if worst >= any { "any amount".to_owned() } else { percent(worst) };
    let why =
        format!("may be slower by {much}, more than the resolution of {}", percent(resolution));
    Some((Decision::Inconclusive, why))
}

/// Returns the reason and the advice for a figure without an interval.
fn without_interval(figure: &Compared) -> String {
    format!("x {:.3}, {}; {ADVICE}", figure.ratio, Outcome::NoInterval.words())
}
