//! `--fail-if`: whether a server of a run is slower than the baseline by more than is allowed; the exit code says it.

use experiment::Method;
use lab::Checked;
use record::{Decision, FailIf, Run};
use report::view::cell_name;

use crate::commands::compare::outcome;
use crate::failure::Failure;

/// Checks the conditions before anything is measured.
pub(super) fn check(conditions: &[FailIf], checked: &Checked<'_>) -> anyhow::Result<()> {
    let method = checked.experiment.common().method;
    for condition in conditions {
        let known: Vec<&str> = checked.adapters.iter().map(|a| a.name.as_str()).collect();
        anyhow::ensure!(
            method == Method::Capacity,
            "--fail-if: the method is `{}`, and `capacity` compares servers with a baseline; --quick has it",
            method.word()
        );
        anyhow::ensure!(
            known.contains(&condition.figure.as_str()),
            "--fail-if '{condition}': there is no server {}; there are {}",
            condition.figure,
            known.join(", ")
        );
    }
    Ok(())
}

/// Decides by the ratios of all cells of the servers, and says why.
pub(super) fn decide(conditions: &[FailIf], run: &Run) -> Result<(), Failure> {
    let mut worst = Decision::Fine;
    for condition in conditions {
        let cells: Vec<_> = run.results.iter().filter(|c| c.server == condition.figure).collect();
        if cells.is_empty() {
            worst = worst.max(Decision::Inconclusive);
        }
        for cell in cells {
            let interval = cell.ratio.as_ref().map(|ratio| (ratio.low, ratio.high));
            let decision = condition.decision(interval);
            let words = match decision {
                Decision::Fine => "does not hold",
                Decision::Inconclusive => "may hold",
                Decision::Slower => "holds",
            };
            eprintln!("{}: `{condition}` {words}", cell_name(cell));
            worst = worst.max(decision);
        }
    }
    outcome(worst)
}
