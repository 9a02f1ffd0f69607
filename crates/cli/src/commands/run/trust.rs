//! Consent for experiments from others: the commands and targets of a file are shown, and the user
//! must approve them before the run.
//!
//! A `[custom.NAME]` table has a command for the shell, or the address of a server. Such a file is
//! a program, and runs with the rights of the lab; its files may hold commands too. The process in
//! the lab compares the approved commands with the ones that it reads itself. No other setting is a
//! command: values of variables are those that adapters list.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::anyhow;
use experiment::{Custom, Experiment};
use lab::RunOptions;
use sha2::{Digest, Sha256};

use crate::failure::Failure;

/// Name of the hash of what the user approved, in hexadecimal, which is passed to the inner
/// process.
const APPROVED_KEY: &str = "approved";

/// Lets the user approve the commands of an experiment's file or store, unless they are already
/// trusted. Returns the hash of the approved commands for the inner process.
///
/// # Errors
/// If the user refuses, if there is no terminal, or if the inner process reads other commands than
/// the approved ones.
pub(super) fn ask(
    experiment: &Experiment,
    options: &RunOptions,
    trusted: bool,
) -> Result<Vec<(&'static str, String)>, Failure> {
    let servers = servers(experiment, options);
    if trusted || servers.is_empty() {
        return Ok(Vec::new());
    }
    let approved = (APPROVED_KEY, hash(&servers));
    if lab::is_inside() {
        // The outer process has already asked the user.
        return match lab::handed(APPROVED_KEY) {
            Some(hash) if hash == approved.1 => Ok(Vec::new()),
            _ => Err(Failure::BadInput(anyhow!(
                "the experiment has changed since it was shown; nothing was run"
            ))),
        };
    }
    let actions: Vec<String> = servers.iter().flat_map(|(name, own)| actions(name, own)).collect();
    let list = format!("this experiment runs commands; it would\n  {}", actions.join("\n  "));
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::BadInput(anyhow!("{list}\nread it, and run it with --trust")));
    }
    eprint!("{list}\nrun it? [y/N] ");
    io::stderr().flush().map_err(Failure::run)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::run)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(vec![approved]),
        _ => Err(Failure::BadInput(anyhow!("nothing was run"))),
    }
}

/// Returns the custom servers of the file, and the servers that a resumed run has in its store.
/// Those of the command line are the user's own.
fn servers<'a>(experiment: &'a Experiment, options: &'a RunOptions) -> Vec<(&'a str, &'a Custom)> {
    let stored = options.custom.iter().filter(|_| options.resumed.is_some());
    let stored = stored.map(|(name, custom)| (name.as_str(), custom));
    let of_file = &experiment.common().custom;
    of_file.iter().map(|(name, custom)| (name.as_str(), custom)).chain(stored).collect()
}

/// Returns the actions of a custom server, one on each line.
fn actions(name: &str, custom: &Custom) -> Vec<String> {
    if let Some(address) = custom.address {
        return vec![format!("send load to {address} (custom.{name})")];
    }
    // Control characters in a file must not hide text on the terminal.
    let mut actions = Vec::new();
    for (path, text) in &custom.files {
        actions.push(format!("write {} (custom.{name}):", path.escape_debug()));
        actions.extend(text.lines().map(|line| format!("  | {}", line.escape_debug())));
    }
    actions.push(format!("start {} (custom.{name})", custom.command.escape_debug()));
    actions
}

/// Returns the SHA-256 of all that custom servers have, in hexadecimal.
fn hash(servers: &[(&str, &Custom)]) -> String {
    let digest = Sha256::digest(format!("{servers:?}"));
    digest.iter().map(|octet| format!("{octet:02x}")).collect()
}
