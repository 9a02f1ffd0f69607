//! What would be done, in words: the list of experiments, and the plan of one.

use std::collections::BTreeMap;
use std::path::Path;

use experiment::{Experiment, estimate, self_test_estimate, visit_estimate};
use lab::Checked;
use lab::built_in::EXPERIMENTS;
use lab::replication::plan::ReplicationPlan;
use measure::Nanos;


/// So many points of a matrix are listed one by one.
const LISTED: usize = 40;

/// Prints the built-in experiments, how long each takes, and what it is.
pub(crate) fn list() {
    println!("{:<22}{:>8}{:>10}  what it measures", "experiment", "--quick", "full");
    for (name, text) in EXPERIMENTS {
        if let Ok(experiment) = Experiment::parse(text, Path::new(name)) {
            let full = time(&experiment);
            let title = experiment.common().title.clone();
            let quick = time(&experiment.quick());
            println!("{name:<22}{quick:>8}{full:>10}  {title}");
        }
    }
    for (name, text) in EXPERIMENTS {
        if let Ok(plan) = ReplicationPlan::parse(text, Path::new(name), false) {
            println!("{name:<22}{:>8}{:>10}  {}", "-", "-", plan.title);
        }
    }
    println!("\nTimes are for all servers of each. `dnsdyno run NAME --dry-run` shows the plan.");
    println!("How long experiments with updates take is up to the servers: they say no time.");
}

fn time(experiment: &Experiment) -> String {
    minutes(estimate(experiment, experiment.common().servers.len(), |_| true))
}

/// Prints the plan of an experiment.
pub(crate) fn show(checked: &Checked<'_>) {
    let experiment = checked.experiment;
    let common = experiment.common();
    println!("{}: {}", common.name, common.title);
    let servers: Vec<String> = checked
        .adapters
        .iter()
        .map(|adapter| match adapter.program() {
            _ if adapter.remote.is_some() => {
                let at = adapter.remote.map(|address| address.to_string());
                format!("{} (at {})", adapter.name, at.unwrap_or_default())
            }
            Ok(_) => adapter.name.clone(),
            Err(_) => format!("{} (not installed: package {})", adapter.name, adapter.package),
        })
        .collect();
    println!("servers: {}", servers.join(", "));
    let form = if experiment.is_quick { "short" } else { "full" };
    println!("form: {form}; method: {}; repeats: {}", common.method.word(), common.repeats);
    let installed = checked.adapters.iter().filter(|adapter| adapter.program().is_ok()).count();
    let points = &experiment.points;
    println!("cells: {installed} servers x {} points; order: {:?}", points.len(), common.order);
    for point in points.iter().take(LISTED) {
        let words = settings_words(&point.varied);
        match checked.cannot(point) {
            Some(why) => println!("  {words:<60} skipped: {why}"),
            None => {
                let each = minutes(visit_estimate(&point.settings));
                println!("  {words:<60} {each:>8} a visit");
            }
        }
    }
    if points.len() > LISTED {
        println!("  ... and {} more", points.len() - LISTED);
    }
    let self_test = self_test_estimate(experiment);
    if self_test != Nanos::ZERO {
        println!("self-test of the Tester: about {}", minutes(self_test));
    }
    if let Some(budget) = common.budget {
        println!("time budget: {budget}; no repeat is begun after it");
    }
    println!(
        "about {} in all",
        minutes(estimate(experiment, installed, |point| checked.cannot(point).is_none()))
    );
}

/// Settings as `name value` pairs.
fn settings_words(settings: &BTreeMap<String, String>) -> String {
    if settings.is_empty() {
        return "(nothing is varied)".to_owned();
    }
    let words: Vec<String> =
        settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
    words.join(", ")
}

/// A time as people plan with it: seconds, minutes or hours.
pub(crate) fn minutes(time: Nanos) -> String {
    match time.as_secs_f64() {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5_400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}
