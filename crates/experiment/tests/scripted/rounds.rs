//! Rounds of the method `capacity` on simulated servers.

use std::collections::BTreeMap;
use std::path::Path;

use experiment::capacity::{are_enough, sum_up};
use experiment::{Bench, Circumstances, Experiment, NameBudget, add_visit, visit};
use record::{CellRecord, TrialRecord};

/// Makes rounds of servers side by side until they are enough, with some settings; calls `begin` before each visit.
pub(crate) fn measured<B: Bench>(
    servers: &mut [B],
    settings: &str,
    begin: impl Fn(&mut B, u32),
) -> Vec<CellRecord> {
    let text = format!(
        "name = \"x\"\ntitle = \"X\"\nrole = \"dns64\"\nservers = [\"x\"]\nmethod = \"capacity\"\n{settings}\n"
    );
    let mut experiment = Experiment::parse(&text, Path::new("x.toml")).expect("valid");
    let settings = experiment.points.remove(0).settings;
    let names = ["first", "second", "third"];
    let cell = |i: usize| CellRecord::new(names[i], BTreeMap::new(), "capacity");
    let mut cells: Vec<CellRecord> = (0..servers.len()).map(cell).collect();
    for round in 0..settings.repeats {
        for (server, cell) in servers.iter_mut().zip(&mut cells) {
            begin(server, round);
            let mut names = NameBudget::new(1 << 30, true);
            let known = settings.clone().knowing(cell);
            let mut trials = Vec::new();
            let mut seen = |trial: &TrialRecord| trials.push(trial.clone());
            let found = visit(&known, server, &mut names, round, &mut seen).expect("a visit");
            cell.trials.extend(trials);
            add_visit(cell, &settings, found, &Circumstances::default());
        }
        sum_up(&mut cells.iter_mut().collect::<Vec<_>>(), Some("first"));
        if are_enough(cells.iter(), settings.capacity.precision, &[], round + 1) {
            break;
        }
    }
    cells
}
