//! The hidden command of the lab's own processes: it does the task that is JSON on its standard
//! input, and writes the result, JSON too, to its standard output.

mod attack;
mod transfers;

use std::io::{read_to_string, stdin};
use std::path::Path;

use ::update::Zones;
use anyhow::anyhow;
use lab::Task;

use super::{auth, diff, load, update};
use crate::failure::Failure;

pub(crate) fn run() -> Result<(), Failure> {
    let task = serde_json::from_str(&read_to_string(stdin()).map_err(Failure::run)?);
    let task: Task = task.map_err(|e| Failure::input(anyhow!("the task of the lab: {e}")))?;
    let place = Path::new("-");
    let written = match task {
        Task::Answers(task) => return diff::of_lab(*task),
        Task::Auth(task) => return auth::of_lab(*task),
        Task::Measure(request) => record::write(place, &load::measure(*request)?),
        Task::Attack(request) => record::write(place, &attack::run(*request)?),
        Task::Updates { sender, updates, outcomes } => {
            let zones = Zones::of(sender.server);
            record::write(place, &update::transmit(&sender, &updates, &outcomes, &zones)?.0)
        }
        Task::Transfers { interface, secondaries } => {
            record::write(place, &transfers::count(&interface, &secondaries)?)
        }
    };
    written.map_err(Failure::run)
}
