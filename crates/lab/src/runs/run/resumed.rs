//! Checks that a resumed run is still the same, so that its trials can be compared with the earlier
//! ones, and restores settings from them.

use std::collections::BTreeSet;

use experiment::Experiment;
use record::{CellRecord, InputFile, Run};

use super::error::RunError;
use crate::server::query_stream::unchanged;
use crate::testbed::core_speed::FullSpeed;

/// Checks that a resumed run has the files from its start (`inputs` are the present ones), and
/// searches by the same rules.
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

/// Notes the full speed of the server's cores observed in the trials before the interruption,
/// unless the processor is of another `model` now than when the run began, or its model is not
/// known.
pub(super) fn note_speeds(run: &Run, full_speed: &FullSpeed, model: Option<&str>) {
    let began = run.plan.host.as_ref().and_then(|host| host.cpu.model.as_deref());
    if began.is_none() || began != model {
        return;
    }
    let trials = run.results.iter().flat_map(|cell| &cell.trials);
    let servers = trials.filter_map(|one| one.trial.cpu.get("dut"));
    servers.for_each(|dut| full_speed.note_earlier(dut));
}

/// Returns an error if the search rule of the experiment differs from that of earlier repeats: such
/// values cannot be compared. A file without a rule may have another default in another version.
fn searches_as_before(run: &Run, experiment: &Experiment) -> Result<(), String> {
    let searches = experiment.points.iter().filter_map(|point| point.settings.search());
    let rules: BTreeSet<String> = searches.map(|search| search.rule.name().to_string()).collect();
    let differs = |cell: &&CellRecord| !cell.rule.is_empty() && !rules.contains(&cell.rule);
    run.results.iter().find(differs).map_or(Ok(()), |cell| {
        let now = rules.iter().map(String::as_str).collect::<Vec<_>>().join(" and ");
        Err(format!(
            "the run began with searches by the rule `{}`, but in its file the rule now is \
            `{now}`: begin a new run, or resume it with the program that began it",
            cell.rule
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use measure::Nanos;
    use udp::core_speed::WorkTimes;

    use super::*;

    const SEARCH: &str = "name = \"x\"\ntitle = \"X\"\nrole = \"dns64\"\nservers = [\"unbound\"]\nmethod = \"search\"\n\
                          search = { goal = \"zero-loss\", start = \"1k\", max = \"2k\", resolution = 0.1, duration = \"1s\" }\n";

    #[test]
    fn a_run_goes_on_with_the_rule_it_began_with() {
        let said = |text: &str, rule: &str| {
            let experiment = Experiment::parse(text, Path::new("x.toml")).expect("an experiment");
            let mut cell = sample().results.swap_remove(0);
            cell.method = if text.contains("search =") { "search" } else { "load" }.to_owned();
            cell.rule = rule.to_owned();
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
        let other = said(SEARCH, "mlrsearch");
        assert!(
            other.contains("by the rule `mlrsearch`") && other.contains("`rfc8219`"),
            "{other}"
        );
    }

    /// A run with the trials and the host of the sample run of client-maximum.
    fn sample() -> Run {
        let sample =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../runs/client-maximum/record.json.gz");
        record::read_run(Path::new(sample)).expect("a run")
    }

    #[test]
    fn the_speed_before_an_interruption_is_that_of_the_same_processor() {
        let run = sample();
        let dut = run.results[0].trials[0].trial.cpu.get("dut").expect("the server's cores");
        let [seen, slow] = [dut.full_speed_work_ns.expect("measured"), 1_000_000];
        let now = run.plan.host.as_ref().and_then(|host| host.cpu.model.as_deref());
        let after = |model: Option<&str>| {
            let full_speed = FullSpeed::default();
            note_speeds(&run, &full_speed, model);
            full_speed.note(&dut.cpus, WorkTimes { mean: Nanos(slow), best: Nanos(slow) })
        };
        assert_eq!((after(Some("another one")), after(None)), (slow, slow));
        assert!(now.is_some() && after(now) <= seen, "{} ns", after(now));
    }
}
