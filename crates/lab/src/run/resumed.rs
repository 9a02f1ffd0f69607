//! What a resumed run must still have, so that its trials go with those before them.

use std::collections::BTreeSet;

use experiment::Experiment;
use record::{InputFile, Run};

use super::error::RunError;
use crate::query_stream::unchanged;

/// Checks that a resumed run has the files that it began with (`inputs` are those of now), and searches by the same rules.
///
/// # Errors
/// [`RunError::Changed`].
pub(super) fn check(
    run: &Run,
    experiment: &Experiment,
    inputs: &[InputFile],
) -> Result<(), RunError> {
    unchanged(&run.plan.inputs, inputs)
        .and_then(|()| searches_as_before(run, experiment))
        .map_err(RunError::Changed)
}

/// Returns why the repeats of a cell would be of two rules: then they are not values of one thing. A file without a rule has another default
/// in another version.
fn searches_as_before(run: &Run, experiment: &Experiment) -> Result<(), String> {
    let searches = experiment.points.iter().filter_map(|point| point.settings.search());
    let rules: BTreeSet<String> = searches.map(|search| search.rule.name().to_string()).collect();
    let old = run.results.iter().find(|cell| !cell.rule.is_empty() && !rules.contains(&cell.rule));
    old.map_or(Ok(()), |cell| {
        let now = rules.into_iter().collect::<Vec<_>>().join(" and ");
        Err(format!(
            "the run began with searches by the rule `{}` (dnsdyno {}), and its file means `{now}` in this version: \
             begin a new run, or resume it with that version",
            cell.rule,
            run.plan.version,
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use record::CellRecord;

    use super::*;

    const SEARCH: &str = "name = \"x\"\ntitle = \"X\"\nrole = \"dns64\"\nservers = [\"unbound\"]\nmethod = \"search\"\n\
                          search = { goal = \"zero-loss\", start = \"1k\", max = \"2k\", resolution = 0.1, duration = \"1s\" }\n";

    #[test]
    fn a_run_goes_on_with_the_rule_it_began_with() {
        let said = |text: &str, rule: &str| {
            let experiment = Experiment::parse(text, Path::new("x.toml")).expect("an experiment");
            let cell = CellRecord { rule: rule.to_owned(), ..CellRecord::default() };
            let run = Run { results: vec![cell], ..Run::default() };
            check(&run, &experiment, &[]).map_or_else(|e| e.to_string(), |()| String::new())
        };
        for rule in ["", "rfc8219"] {
            assert_eq!(said(SEARCH, rule), "");
        }
        let (load, _) = SEARCH.split_once("search =").expect("a search");
        let load = load.replace("\"search\"", "\"load\"");
        let load = format!("{load}load = {{ rates = [\"1k\"], duration = \"1s\" }}\n");
        assert_eq!(said(&load, ""), "");
        let other = said(SEARCH, "clean-windows");
        assert!(
            other.contains("by the rule `clean-windows`") && other.contains("`rfc8219`"),
            "{other}"
        );
    }
}
