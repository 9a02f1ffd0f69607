//! `dnsdyno man`: the man pages, with the texts of `--help`.

use std::path::Path;

use clap::Command;

use crate::failure::Failure;

pub(crate) fn run(commands: Command, dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(Failure::run)?;
    clap_mangen::generate_to(commands, dir).map_err(Failure::run)
}
