//! A result as JSON, in a file or on the standard output.

use std::path::{Path, PathBuf};

use clap::Args;
use record::{RecordError, Run};

use crate::failure::Failure;
use crate::output::{self, is_stdout};

/// Where a result is written as JSON.
#[derive(Args, Clone, Debug)]
pub(crate) struct JsonArgs {
    /// Write the result as JSON to this file (-: to the standard output, in place of the text)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl JsonArgs {
    /// Shows a result as [`show`] does.
    pub(crate) fn show(
        &self,
        write: impl FnOnce(&Path) -> Result<(), RecordError>,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        show(self.json.as_deref(), write, text)
    }
}

/// Shows a run with its `heading` as [`show`] does, and the decision of its conditions below it, also beside JSON.
pub(crate) fn show_run(json: Option<&Path>, run: &Run, heading: &str) -> Result<(), Failure> {
    if let Some(gate) = run.gate.as_ref().filter(|_| json.is_some_and(is_stdout)) {
        eprintln!("{}", gate.line());
    }
    show(json, |path| record::write(path, run), || format!("{heading}{}", output::run(run, json)))
}

/// Calls `write` with the path for the JSON, if there is one, and prints the text, unless the JSON
/// is on the standard output. Each is done even if the other fails.
pub(crate) fn show(
    json: Option<&Path>,
    write: impl FnOnce(&Path) -> Result<(), RecordError>,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let written = json.map_or(Ok(()), write).map_err(Failure::run);
    if !json.is_some_and(is_stdout) {
        print!("{}", text());
    }
    written
}
