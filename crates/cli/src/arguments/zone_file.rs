//! Zone files that commands read.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use wire::Name;
use zone::{Notes, Reader, ZoneFileError};

use crate::failure::Failure;

/// A zone file to read.
#[derive(Args, Clone, Debug)]
pub(crate) struct ZoneFile {
    /// The zone file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The zone's name [default: the owner of its SOA record, which must then be the first record]
    #[arg(long, value_name = "ZONE")]
    zone: Option<Name>,
    #[arg(skip)]
    notes: Notes,
}

impl ZoneFile {
    pub(crate) fn open(&self) -> Result<Reader<File>, ZoneFileError> {
        Reader::open(&self.file, self.zone).map(|reader| reader.with_notes(self.notes.clone()))
    }

    /// Prints what the last pass over the file left out or took from elsewhere.
    pub(crate) fn print_notes(&self) {
        print_notes(&self.notes, &self.file);
    }

    /// Returns the name of the zone, from the file if the arguments do not have it.
    pub(crate) fn apex(&self) -> Result<Name, Failure> {
        let mut reader = self.open().map_err(Failure::input)?;
        reader.next_record().map_err(Failure::input)?;
        let empty = || Failure::input(anyhow!("{}: there is no record in it", self.file.display()));
        reader.apex().copied().ok_or_else(empty)
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.file
    }
}

/// Prints the notes about a file.
pub(crate) fn print_notes(notes: &Notes, file: &Path) {
    for line in notes.lines() {
        let place = if line.starts_with(&*file.to_string_lossy()) {
            String::new()
        } else {
            format!("{}: ", file.display())
        };
        eprintln!("{place}{line}");
    }
}
