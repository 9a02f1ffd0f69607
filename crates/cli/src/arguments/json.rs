//! A result as JSON, in a file or on the standard output.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use record::RecordError;

use crate::failure::Failure;
use crate::output::print;

/// Where a result is written as JSON.
#[derive(Args, Clone, Debug)]
pub(crate) struct JsonArgs {
    /// Write the result as JSON to this file (-: to the standard output, in place of the text)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl JsonArgs {
    /// Calls `write` with the path for the JSON, if there is one, and prints the text, unless the JSON is on the standard output.
    pub(crate) fn show(
        &self,
        write: impl FnOnce(&Path) -> Result<(), RecordError>,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        if let Some(path) = &self.json {
            write(path).map_err(Failure::run)?;
        }
        if self.json.as_deref() == Some(Path::new("-")) { Ok(()) } else { print(text) }
    }
}
