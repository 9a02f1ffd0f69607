//! The decision of the conditions of `--fail-if` about the servers of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CellRecord, Decision, FailIf, Run};

/// Decision of all conditions about a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gate {
    /// Decision of all conditions together.
    pub decision: Decision,
    /// Exit code of the command.
    pub exit_code: u8,
    /// Each condition with each cell of its server.
    pub conditions: Vec<DecidedCondition>,
}

/// Decision of one condition about one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DecidedCondition {
    /// Condition, as it was given.
    pub condition: FailIf,
    /// Decision by the interval of the ratio to the baseline.
    pub decision: Decision,
    /// Reason in words: the change, and the limit.
    pub reason: String,
}

impl Gate {
    /// Decides conditions by the ratios of the cells; `None` without a condition.
    pub fn of(fail_if: &[FailIf], cells: &[&CellRecord]) -> Option<Self> {
        let mut conditions = Vec::new();
        for condition in fail_if {
            let of_server = cells.iter().filter(|cell| cell.server == condition.figure);
            let mut decided: Vec<_> =
                of_server.map(|cell| decided(condition, cell, cells)).collect();
            if decided.is_empty() {
                let reason = format!("{} was not measured", condition.figure);
                let (condition, decision) = (condition.clone(), Decision::Inconclusive);
                decided.push(DecidedCondition { condition, decision, reason });
            }
            conditions.append(&mut decided);
        }
        let decision = conditions.iter().map(|condition| condition.decision).max()?;
        Some(Gate { decision, exit_code: decision.exit_code(), conditions })
    }

    /// Returns the verdict with the reasons that decide, in one line.
    pub fn line(&self) -> String {
        let decisive = self.conditions.iter().filter(|one| one.decision == self.decision);
        let reasons: Vec<&str> = decisive.map(|one| one.reason.as_str()).collect();
        format!("{}: {}", self.decision.verdict(), reasons.join("; "))
    }
}

/// Decides a condition about a cell.
fn decided(condition: &FailIf, cell: &CellRecord, cells: &[&CellRecord]) -> DecidedCondition {
    let (interval, name) =
        (bounds(cell, cells), crate::cell_name(&cell.server, None, &cell.settings));
    let baseline = cell.ratio.as_ref().map_or("the baseline", |ratio| ratio.baseline.as_str());
    let reason = condition.reason(&format!("{name} answers"), baseline, interval);
    let (condition, decision) = (condition.clone(), condition.decision(interval));
    DecidedCondition { condition, decision, reason }
}

/// Returns what the ratio of a cell is between; `None` without one. A capacity that is a lower bound leaves its side open.
fn bounds(cell: &CellRecord, cells: &[&CellRecord]) -> Option<(f64, f64)> {
    let ratio = cell.ratio.as_ref()?;
    let baseline = cells.iter().find(|other| other.is(&ratio.baseline, &cell.settings));
    let open_below = baseline.is_some_and(|baseline| baseline.is_bound());
    Some((
        if open_below { 0.0 } else { ratio.low },
        if cell.is_bound() { f64::INFINITY } else { ratio.high },
    ))
}

impl Run {
    /// Decides the conditions of the plan, once everything is measured.
    pub fn decide(&mut self) {
        let cells: Vec<&CellRecord> = self.results.iter().collect();
        let is_whole = self.complete && cells.iter().all(|cell| cell.has_figure());
        self.gate = Gate::of(&self.plan.fail_if, &cells).filter(|_| is_whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CapacityRatio, Figure, Plan, ServerCapacity};

    #[test]
    fn a_run_is_decided_by_its_conditions() {
        let cell = |server: &str, exceeded, ratio: Option<(f64, f64)>| CellRecord {
            server: server.to_owned(),
            capacity: Some(ServerCapacity { exceeded, ..ServerCapacity::default() }),
            ratio: ratio.map(|(low, high)| CapacityRatio {
                baseline: "old".to_owned(),
                value: 1.0,
                low,
                high,
            }),
            figures: [("capacity".to_owned(), Figure::new("qps", vec![1.0]))].into(),
            ..CellRecord::default()
        };
        for (old, new, condition, line) in [
            (
                false,
                false,
                "new < -3%",
                "FAILED (exit 3): new answers 10.0 to 20.0 % less than old; limit 3 %",
            ),
            (
                false,
                false,
                "new < -30%",
                "PASSED (exit 0): new answers 10.0 to 20.0 % less than old; limit 30 %",
            ),
            (
                false,
                true,
                "new < -3%",
                "NOT SURE (exit 4): new answers at most 20.0 % less than old; limit 3 %",
            ),
            (
                true,
                false,
                "new < -3%",
                "FAILED (exit 3): new answers at least 10.0 % less than old; limit 3 %",
            ),
            (
                true,
                true,
                "new < -3%",
                "NOT SURE (exit 4): new answers any amount less or more than old; limit 3 %",
            ),
            (false, false, "gone < -3%", "NOT SURE (exit 4): gone was not measured"),
        ] {
            let fail_if = vec![condition.parse().expect(condition)];
            let results = vec![cell("old", old, None), cell("new", new, Some((0.8, 0.9)))];
            let plan = Plan { fail_if, ..Plan::default() };
            let mut run = Run { plan, results, complete: true, ..Run::default() };
            run.decide();
            let gate = run.gate.take().expect("a condition");
            assert_eq!((gate.line().as_str(), gate.conditions.len()), (line, 1));
            run.complete = false;
            run.decide();
            assert_eq!(run.gate, None, "what is not measured is not decided");
        }
    }
}
