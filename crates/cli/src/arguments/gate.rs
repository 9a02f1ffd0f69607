//! The server that others are compared with, and whether one of them is slower by more than is allowed; the exit code tells which.

use clap::Args;
use experiment::Method;
use record::{Decision, FailIf, Run};
use report::view::cell_name;

use crate::commands::compare::outcome;
use crate::failure::Failure;

/// The baseline, and the conditions under which a command fails.
#[derive(Args, Clone, Debug)]
pub(crate) struct GateArgs {
    /// The server that the others are compared with, instead of the first one
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,
    /// Fail with exit code 3 if the capacity of a server is less than the baseline's by more than this, with 4 if it may be; may be
    /// repeated
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

    /// Refuses a method without ratios, and names that are none of the servers', before anything is measured.
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
}
