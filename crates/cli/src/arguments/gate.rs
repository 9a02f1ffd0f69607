//! The server that others are compared with, and conditions on their ratios; the exit code says
//! whether one failed.

use clap::Args;
use experiment::Method;
use record::{CellRecord, Decision, FailIf, Run};
use report::view::cell_name;

use crate::commands::compare::outcome;
use crate::failure::Failure;

/// Returns what the ratio of a cell is between; `None` without one. A capacity that is a lower bound leaves its side open.
fn bounds(run: &Run, cell: &CellRecord) -> Option<(f64, f64)> {
    let ratio = cell.ratio.as_ref()?;
    let baseline = run.results.iter().find(|other| other.is(&ratio.baseline, &cell.settings));
    let open_below = baseline.is_some_and(CellRecord::is_bound);
    Some((
        if open_below { 0.0 } else { ratio.low },
        if cell.is_bound() { f64::INFINITY } else { ratio.high },
    ))
}

/// The baseline, and the conditions under which a command fails.
#[derive(Args, Clone, Debug)]
pub(crate) struct GateArgs {
    /// The server that the others are compared with, instead of the first one
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,
    /// Fail with exit code 3 if the capacity of a server is less than the baseline's by more than this, with 4 if it may be; no
    /// time limits the rounds of a search then; may be repeated
    #[arg(long, value_name = "NAME < -PERCENT%")]
    pub(crate) fail_if: Vec<FailIf>,
}

impl GateArgs {
    /// Returns how precise capacities must be, as a share of them: half of the allowed change, so
    /// that no change and the largest allowed change can be distinguished; `None` without a
    /// condition.
    pub(crate) fn precision(&self) -> Option<f64> {
        self.fail_if.iter().map(|fail_if| fail_if.change.abs() / 2.0).reduce(f64::min)
    }

    /// Refuses a method without ratios, and unknown names of servers, before anything is measured.
    pub(crate) fn check(&self, method: Method, servers: &[&str]) -> anyhow::Result<()> {
        anyhow::ensure!(
            method == Method::Capacity || self.fail_if.is_empty(),
            "--fail-if: the method is `{}`, and only `capacity` compares servers with a baseline; `run --quick` has it",
            method.word()
        );
        let named = self.baseline.iter().map(|name| ("--baseline", name));
        let conditions = self.fail_if.iter().map(|fail_if| ("--fail-if", &fail_if.figure));
        for (option, name) in named.chain(conditions) {
            anyhow::ensure!(
                servers.contains(&name.as_str()),
                "{option}: there is no server {name}; there are {}",
                servers.join(", ")
            );
        }
        Ok(())
    }

    /// Decides by the ratios of all cells of the servers, and says why.
    pub(crate) fn decide(&self, run: &Run) -> Result<(), Failure> {
        let mut worst = Decision::Fine;
        for condition in &self.fail_if {
            let cells: Vec<_> =
                run.results.iter().filter(|c| c.server == condition.figure).collect();
            if cells.is_empty() {
                worst = worst.max(Decision::Inconclusive);
            }
            for cell in cells {
                let decision = condition.decision(bounds(run, cell));
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
}

#[cfg(test)]
mod tests {
    use record::{CapacityRatio, ServerCapacity};

    use super::*;

    #[test]
    fn a_lower_bound_leaves_its_side_of_the_ratio_open() {
        let cell = |server: &str, exceeded, ratio: Option<(f64, f64)>| CellRecord {
            server: server.to_owned(),
            capacity: Some(ServerCapacity { exceeded, ..ServerCapacity::default() }),
            ratio: ratio.map(|(low, high)| CapacityRatio {
                baseline: "old".to_owned(),
                value: 1.0,
                low,
                high,
            }),
            ..CellRecord::default()
        };
        for (old, new, wanted) in [
            (false, false, (0.8, 0.9)),
            (false, true, (0.8, f64::INFINITY)),
            (true, false, (0.0, 0.9)),
            (true, true, (0.0, f64::INFINITY)),
        ] {
            let results = vec![cell("old", old, None), cell("new", new, Some((0.8, 0.9)))];
            let run = Run { results, ..Run::default() };
            assert_eq!(bounds(&run, &run.results[1]), Some(wanted), "{old} {new}");
            assert_eq!(bounds(&run, &run.results[0]), None);
        }
    }
}
