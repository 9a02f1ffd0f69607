//! Experiments of others: what a file starts, or sends load to, is shown and asked about before anything happens.
//!
//! A `[custom.NAME]` table has a command for the shell, or the address of a server. Such a file is a program, and runs with
//! the rights of the lab. No other setting is a command: values of variables are those that adapters list.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::anyhow;
use experiment::{Custom, Experiment};
use lab::RunOptions;

use crate::failure::Failure;

/// Lets the user decide about what an experiment's file or store starts, unless it is trusted already.
///
/// # Errors
/// When the user says no, or when there is no terminal on which to ask.
pub(super) fn ask(
    experiment: &Experiment,
    options: &RunOptions,
    trusted: bool,
) -> Result<(), Failure> {
    let actions = actions(experiment, options);
    // The first process has asked.
    if trusted || actions.is_empty() || lab::is_inside() {
        return Ok(());
    }
    let list = format!("this experiment is a program; it would\n  {}", actions.join("\n  "));
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::BadInput(anyhow!("{list}\nread it, and run it with --trust")));
    }
    eprint!("{list}\nrun it? [y/N] ");
    io::stderr().flush().map_err(Failure::run)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::run)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::BadInput(anyhow!("nothing was run"))),
    }
}

/// Returns what custom servers do, a line for each: those of the file, and those that a resumed run has from its store. Those
/// of the command line are the user's own.
fn actions(experiment: &Experiment, options: &RunOptions) -> Vec<String> {
    let stored = options.custom.iter().filter(|_| options.resumed.is_some());
    let stored = stored.map(|(name, custom)| (name, custom));
    let action = |(name, custom): (&String, &Custom)| match custom.address {
        Some(address) => format!("send load to {address} (custom.{name})"),
        // What a file has must not change what the terminal shows.
        None => format!("start {} (custom.{name})", custom.command.escape_debug()),
    };
    experiment.common().custom.iter().chain(stored).map(action).collect()
}
