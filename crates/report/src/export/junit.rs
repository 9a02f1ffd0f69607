//! A run as a test report, which CI systems show: its goals are the tests.

use maud::{Markup, PreEscaped, html};
use record::{CellRecord, DecidedCondition, Decision, Run};

use crate::stored::figures;
use crate::view::name::skipped_name;
use crate::view::{cell_name, quantity};

/// Returns a run in JUnit's XML. A cell whose goal was missed, or in which no search found a rate that meets it, is a failure; one that
/// has no figure since its trials stayed void is an error; what was not measured is skipped. Each condition of `--fail-if` is a test: a
/// failure if it holds, an error if that is not sure.
pub fn junit(run: &Run) -> String {
    let name = text(&run.plan.experiment);
    let conditions = run.gate.iter().flat_map(|gate| &gate.conditions);
    let decided = |decision| conditions.clone().filter(|one| one.decision == decision).count();
    let tests = run.results.len() + run.skipped.len() + conditions.clone().count();
    let errors = run.results.iter().filter(|cell| void(cell).is_some()).count();
    let errors = errors + decided(Decision::Inconclusive);
    let failures = run.results.iter().filter(|cell| is_failure(cell)).count();
    let failures = failures + decided(Decision::Slower);
    let all = html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        testsuites name="dnsdyno" tests=(tests) failures=(failures) errors=(errors) {
            testsuite name=(name) tests=(tests) failures=(failures) errors=(errors) skipped=(run.skipped.len()) {
                @for cell in &run.results { (case(cell, &name)) }
                @for (number, one) in conditions.enumerate() { (condition(run, number, one, &name)) }
                @for skipped in &run.skipped {
                    testcase name=(text(&skipped_name(skipped))) classname=(name) {
                        skipped message=(text(&skipped.why)) {}
                    }
                }
            }
        }
    };
    all.into_string() + "\n"
}

/// Returns the name of a condition, `number` in the order of the run; with its cell if the server
/// has several, which a condition is decided for in their order.
fn condition_name(run: &Run, number: usize, one: &DecidedCondition) -> String {
    let of_server = run.results.iter().filter(|cell| cell.server == one.condition.figure);
    let cells: Vec<&CellRecord> = of_server.collect();
    let before = run.gate.iter().flat_map(|gate| gate.conditions.iter().take(number));
    let place = before.filter(|other| other.condition == one.condition).count();
    match cells[..] {
        [_, _, ..] => format!("{}: {}", cell_name(cells[place % cells.len()]), one.condition),
        _ => one.condition.to_string(),
    }
}

fn condition(run: &Run, number: usize, one: &DecidedCondition, experiment: &str) -> Markup {
    html! {
        testcase name=(text(&condition_name(run, number, one))) classname=(experiment) {
            @match one.decision {
                Decision::Slower => { failure message=(text(&one.reason)) {} }
                Decision::Inconclusive => { error message=(text(&format!("not sure: {}", one.reason))) {} }
                Decision::Fine => {}
            }
            system-out { (text(&one.reason)) }
        }
    }
}

fn case(cell: &CellRecord, experiment: &str) -> Markup {
    let goal = goal(cell);
    let name = cell_name(cell);
    let name = if goal.is_empty() { name } else { format!("{name}: {goal}") };
    let capacity =
        cell.median_qps.map(|qps| format!("capacity {}\n", quantity(qps, cell.capacity_unit())));
    html! {
        testcase name=(text(&name)) classname=(experiment) {
            @if let Some(why) = void(cell) {
                error message=(text(&why)) {}
            } @else if let Some(why) = missed(cell, &goal) {
                failure message=(text(&why)) {}
            }
            system-out { (text(&(capacity.unwrap_or_default() + &figures(cell)))) }
        }
    }
}

fn goal(cell: &CellRecord) -> String {
    match cell.goal.as_str() {
        "" => cell.trials.iter().find_map(|trial| trial.trial.goal.clone()).unwrap_or_default(),
        goal => goal.to_owned(),
    }
}

fn is_failure(cell: &CellRecord) -> bool {
    void(cell).is_none() && missed(cell, &goal(cell)).is_some()
}

/// Returns a text without characters that XML cannot contain (section 2.2), as a server's own
/// messages may.
fn text(of: &str) -> String {
    of.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Returns why a cell is no result about its server; `None` if it is one.
fn void(cell: &CellRecord) -> Option<String> {
    let repeat = cell.void_repeats.first().map(|void| void.why.clone());
    if cell.method == "search" {
        let why = || repeat.unwrap_or("no search came to its end".to_owned());
        return cell.capacities.is_empty().then(why);
    }
    let trials = &cell.trials;
    let all = !trials.is_empty() && trials.iter().all(|trial| trial.trial.void.is_void());
    let why = trials.last().and_then(|trial| trial.trial.void.0.as_ref());
    let void = why.filter(|_| all).map(ToString::to_string);
    let why = || repeat.unwrap_or("the run ended before it had a figure".to_owned());
    void.or_else(|| (!cell.has_figure()).then(why))
}

/// Returns the description of a missed goal; `None` if the cell met it, or has none.
fn missed(cell: &CellRecord, goal: &str) -> Option<String> {
    if cell.method == "search" {
        return cell.median_qps.is_none().then(|| format!("no rate meets `{goal}`"));
    }
    let failed =
        cell.trials.iter().find(|t| !t.trial.void.is_void() && t.trial.passed == Some(false))?;
    Some(format!("`{goal}` missed: {}", crate::view::goal::missed(&failed.trial)))
}

#[cfg(test)]
mod tests {
    use record::Gate;

    use super::*;

    #[test]
    fn conditions_of_several_cells_have_their_names() {
        let cell = |cores: &str| {
            CellRecord::new("new", [("cores".to_owned(), cores.into())].into(), "capacity")
        };
        let condition: record::FailIf = "new < -3%".parse().expect("a condition");
        for (cells, wanted) in [
            (vec![cell("1")], &["new &lt; -3%"][..]),
            (vec![cell("1"), cell("2")], &["cores=1: new &lt; -3%", "cores=2: new &lt; -3%"]),
        ] {
            let gate =
                Gate::of(std::slice::from_ref(&condition), &cells.iter().collect::<Vec<_>>());
            let all = junit(&Run { results: cells, gate, ..Run::default() });
            for name in wanted {
                assert_eq!(all.matches(&format!("{name}\"")).count(), 1, "{name} in {all}");
            }
        }
    }
}
