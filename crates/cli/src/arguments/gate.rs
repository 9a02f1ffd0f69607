//! The server that others are compared with, and conditions on their ratios; the exit code says
//! whether one failed.

use clap::Args;
use experiment::Method;
use record::{FailIf, Run};

use crate::commands::compare::outcome;
use crate::failure::Failure;

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
    /// Refuses a method without ratios, and unknown names of servers, before anything is measured.
    pub(crate) fn check(&self, method: Method, servers: &[&str]) -> anyhow::Result<()> {
        anyhow::ensure!(
            method == Method::Capacity || self.fail_if.is_empty(),
            "--fail-if: the method is `{}`, and only `capacity` compares servers with a baseline; `run --quick` has it",
            method.word()
        );
        if let Some(condition) = self.fail_if.iter().find(|condition| condition.change > 0.0) {
            anyhow::bail!(
                "--fail-if '{condition}': a server fails when its capacity is less: write '{} < -{}%'",
                condition.figure,
                condition.change * 100.0
            );
        }
        let named = self.baseline.iter().map(|name| ("--baseline", name));
        let conditions = self.fail_if.iter().map(|fail_if| ("--fail-if", &fail_if.figure));
        for (option, name) in named.chain(conditions) {
            anyhow::ensure!(
                servers.contains(&name.as_str()),
                "{option}: there is no server {name}; there are {}",
                servers.join(", ")
            );
        }
        let baseline = self.baseline.as_deref().or(servers.first().copied());
        if let Some(condition) = self.fail_if.iter().find(|f| Some(f.figure.as_str()) == baseline) {
            anyhow::bail!(
                "--fail-if '{condition}': {} is the baseline, which has no ratio: name another server",
                condition.figure
            );
        }
        Ok(())
    }

    /// Returns the outcome of a command by the decision of its run.
    pub(crate) fn outcome(run: &Run) -> Result<(), Failure> {
        run.gate.as_ref().map_or(Ok(()), |gate| outcome(gate.decision))
    }
}
