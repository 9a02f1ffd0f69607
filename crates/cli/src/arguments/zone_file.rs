//! A zone file that a command reads.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use wire::Name;
use zone::{Reader, ZoneFileError};

use crate::failure::Failure;

/// A zone file to read.
#[derive(Args, Clone, Debug)]
pub(crate) struct ZoneFile {
    /// The zone file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The zone's name [default: that of its SOA record, which must then come first]
    #[arg(long, value_name = "ZONE")]
    zone: Option<Name>,
}

impl ZoneFile {
    /// Opens it.
    pub(crate) fn open(&self) -> Result<Reader<File>, ZoneFileError> {
        Reader::open(&self.file, self.zone)
    }

    /// The zone's name, from the file if need be.
    pub(crate) fn apex(&self) -> Result<Name, Failure> {
        let mut reader = self.open().map_err(Failure::input)?;
        reader.next_record().map_err(Failure::input)?;
        let empty = || Failure::input(anyhow!("{}: there is no record in it", self.file.display()));
        reader.apex().copied().ok_or_else(empty)
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.file
    }
}
