//! A run as JSON Lines: an object for each trial, with its cell. Programs read it line by line,
//! however long the run.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use serde_with_macros::skip_serializing_none;

use crate::{Run, TrialRecord};

/// A trial and its cell.
#[skip_serializing_none]
#[derive(Serialize)]
struct Line<'a> {
    run: Option<i64>,
    experiment: &'a str,
    server: &'a str,
    server_version: Option<&'a str>,
    settings: &'a BTreeMap<String, String>,
    method: &'a str,
    #[serde(flatten)]
    trial: &'a TrialRecord,
}

/// Writes each trial of `run` to `out`, whole.
///
/// # Errors
/// The errors of `out`.
pub fn write_json_lines(run: &Run, mut out: impl Write) -> io::Result<()> {
    for cell in &run.results {
        for trial in &cell.trials {
            let line = Line {
                run: run.id,
                experiment: &run.plan.experiment,
                server: &cell.server,
                server_version: cell.server_version.as_deref(),
                settings: &cell.settings,
                method: &cell.method,
                trial,
            };
            let mut text = serde_json::to_vec(&line)?;
            text.push(b'\n');
            out.write_all(&text)?;
        }
    }
    Ok(())
}
