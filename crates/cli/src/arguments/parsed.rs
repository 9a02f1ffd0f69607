//! The arguments of a command for another part of the program.

use std::ffi::OsString;

use clap::{Args, Command};

use crate::failure::Failure;

/// Returns the arguments of a command from `words`, and the defaults of the others.
pub(crate) fn parsed<T: Args, W: Into<OsString> + Clone>(
    words: impl IntoIterator<Item = W>,
) -> Result<T, Failure> {
    let command = T::augment_args(Command::new("dnsdyno").no_binary_name(true));
    let matches = command.try_get_matches_from(words).map_err(Failure::input)?;
    T::from_arg_matches(&matches).map_err(Failure::input)
}
