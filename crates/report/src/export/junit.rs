//! A run as a test report, which CI systems show: its goals are the tests.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use record::{CellRecord, Run};

use crate::stored::figures;
use crate::view::name::skipped_name;
use crate::view::{cell_name, quantity};

/// Returns a run in JUnit's XML. A cell whose goal was missed, or in which no search found a rate that meets it, is a failure; one that
/// has no figure since its trials stayed void is an error; what was not measured is skipped.
pub fn junit(run: &Run) -> String {
    let mut suite = TestSuite::new(run.plan.experiment.clone());
    suite.add_test_cases(run.results.iter().map(|cell| case(cell, &run.plan.experiment)));
    for skipped in &run.skipped {
        let mut status = TestCaseStatus::skipped();
        status.set_message(skipped.why.clone());
        let mut case = TestCase::new(skipped_name(skipped), status);
        case.set_classname(run.plan.experiment.clone());
        suite.add_test_case(case);
    }
    let mut report = Report::new("dnsdyno");
    report.add_test_suite(suite);
    // It is written to memory.
    report.to_string().unwrap_or_default()
}

fn case(cell: &CellRecord, experiment: &str) -> TestCase {
    let goal = match cell.goal.as_str() {
        "" => cell.trials.iter().find_map(|trial| trial.trial.goal.clone()).unwrap_or_default(),
        goal => goal.to_owned(),
    };
    let name = cell_name(cell);
    let name = if goal.is_empty() { name } else { format!("{name}: {goal}") };
    let status = match (void(cell), missed(cell, &goal)) {
        (Some(why), _) => status(NonSuccessKind::Error, &why),
        (None, Some(why)) => status(NonSuccessKind::Failure, &why),
        (None, None) => TestCaseStatus::success(),
    };
    let mut case = TestCase::new(name, status);
    case.set_classname(experiment);
    let capacity =
        cell.median_qps.map(|qps| format!("capacity {}\n", quantity(qps, cell.capacity_unit())));
    case.set_system_out(capacity.unwrap_or_default() + &figures(cell));
    case
}

fn status(kind: NonSuccessKind, why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(why);
    status
}

/// Returns why a cell says nothing about its server; `None` if it does.
fn void(cell: &CellRecord) -> Option<String> {
    if let Some(void) = cell.void_repeats.first() {
        return Some(void.why.clone());
    }
    if cell.method == "search" {
        return cell.capacities.is_empty().then(|| "no search came to its end".to_owned());
    }
    let trials = &cell.trials;
    let all = !trials.is_empty() && trials.iter().all(|trial| trial.trial.void.is_void());
    let why = trials.last().and_then(|trial| trial.trial.void.0.as_ref());
    let void = why.filter(|_| all).map(ToString::to_string);
    void.or_else(|| (!cell.has_figure()).then(|| "the run ended before it had a figure".to_owned()))
}

/// Returns how a cell missed its goal; `None` if it met it, or has none.
fn missed(cell: &CellRecord, goal: &str) -> Option<String> {
    if cell.method == "search" {
        return cell.median_qps.is_none().then(|| format!("no rate meets `{goal}`"));
    }
    let failed =
        cell.trials.iter().find(|t| !t.trial.void.is_void() && t.trial.passed == Some(false))?;
    Some(format!("`{goal}` missed: {}", crate::view::goal::missed(&failed.trial)))
}
