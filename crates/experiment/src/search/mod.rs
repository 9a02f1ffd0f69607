//! The search for the highest rate that meets a goal, by one of two rules.
//!
//! | rule | decides a rate by | for |
//! |---|---|---|
//! | [`Rule::Rfc8219`] | one trial; doubling or halving to a bracket, then bisection | the conforming form |
//! | [`Rule::Mlrsearch`] | as many short trials as it takes until no further one can change the verdict | quick forms |
//!
//! A void trial is run again and never counts as a failure: a rate at which the Tester stays void is followed by lower ones,
//! and if none of them fails, the highest that passes is a lower bound, limited by the Tester. Every trial is kept: for some
//! servers a higher rate passes although a lower one fails (NLnet Labs), and the trace shows it. docs/method.md
//! compares the rules.

mod binary;
mod bracket;
mod left;
mod mlr;
mod rule;
mod spec;
mod trials;

use measure::Void;
use record::{Capacity, TrialRecord};

pub use self::rule::{Rule, RuleError, RuleName};
pub use self::spec::{RESOLUTION, Search};
use self::trials::Trials;
use crate::bench::{Bench, BenchError};
use crate::names::NameBudget;

/// The trials of a search and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchTrace {
    /// Capacity that the trials show.
    pub capacity: Capacity,
    /// Trials of the search, in the order in which they ran.
    pub trials: Vec<TrialRecord>,
}

impl SearchTrace {
    /// Returns why the search is void, if no rate passed and the last trial was void.
    pub fn void(&self) -> Option<String> {
        let last = self.trials.last()?;
        let why = last.trial.void.0.as_ref().filter(|_| self.capacity.qps.is_none())?;
        let user = last.trial.tester_core_user().map(|user| format!("; {}", user.with_advice()));
        let remedy = user.or_else(|| why.remedy().map(|remedy| format!(": {remedy}")));
        Some(format!("{}; {why}{}", self.capacity.verdict, remedy.unwrap_or_default()))
    }

    /// Returns whether the search is void since other processes used the Tester's cores: another search would be, too.
    pub fn lacks_cores(&self) -> bool {
        let last = self.trials.last().filter(|_| self.capacity.qps.is_none());
        last.is_some_and(|last| match &last.trial.void.0 {
            Some(why @ Void::Starved { .. }) => {
                !why.depends_on_rate() || last.trial.tester_core_user().is_some()
            }
            _ => false,
        })
    }
}

impl Search {
    /// Runs the search as repeat number `repeat`; calls `seen` with each trial.
    ///
    /// # Errors
    /// The errors of the bench; `seen` has received the trials before.
    pub fn run(
        &self,
        bench: &mut dyn Bench,
        names: &mut NameBudget,
        repeat: u32,
        seen: &mut dyn FnMut(&TrialRecord),
    ) -> Result<SearchTrace, BenchError> {
        let mut trials = Trials::new(self, bench, names, repeat, seen);
        let capacity = match &self.rule {
            Rule::Rfc8219 => binary::run(&mut trials, &mut binary::by_trial)?,
            Rule::Mlrsearch { also, duration_sum } => mlr::run(&mut trials, also, *duration_sum)?,
        };
        Ok(SearchTrace { capacity, trials: trials.run })
    }
}
