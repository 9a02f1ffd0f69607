//! Arguments that define a difference of answers, and name the outputs.

use std::path::PathBuf;

use answers::{DifferenceKind, KnownDifferences, Terms, TtlTolerance};
use anyhow::anyhow;
use clap::{ArgAction, Args};

use crate::failure::Failure;

/// Largest difference of two TTLs that counts as equal, in seconds: two caches are filled one after
/// the other.
const USUAL_TTL_S: u32 = 5;

/// What counts as a difference, and where the differences are written.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Differences")]
pub(crate) struct TermArgs {
    /// Write all queries whose answers differ to this file, a line of JSON each (- for the standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) lines: Option<PathBuf>,
    /// Write the result to this file as an HTML page
    #[arg(long, value_name = "FILE")]
    pub(super) page: Option<PathBuf>,
    /// Difference that TTLs may have: exact, a time (5s), a share (10%), any [default: 5s, and what
    /// a cache counts down; any with a capture]
    #[arg(long, value_name = "DIFFERENCE")]
    pub(super) ttl: Option<TtlTolerance>,
    /// Kinds of differences that are not compared: timeout, error, malformed, question, rcode, flags, answer, signatures,
    /// authority, additional, edns, ttl
    #[arg(long, value_name = "LIST", value_delimiter = ',', action = ArgAction::Set)]
    pub(super) ignore: Vec<DifferenceKind>,
    /// A file of known differences, a line each: KINDS NAME TYPE, such as `ttl,additional *.example.com *`
    #[arg(long, value_name = "FILE")]
    pub(super) known: Option<PathBuf>,
}

impl TermArgs {
    /// Returns whether any of these arguments is given.
    pub(crate) fn is_given(&self) -> bool {
        let files = [&self.lines, &self.page, &self.known];
        self.ttl.is_some() || !self.ignore.is_empty() || files.iter().any(|file| file.is_some())
    }

    /// Returns the terms of a comparison of servers, or with a capture.
    pub(super) fn terms(&self, captured: bool) -> Terms {
        let usual = if captured { TtlTolerance::Any } else { TtlTolerance::Cached(USUAL_TTL_S) };
        Terms { ttl: self.ttl.unwrap_or(usual), ignored: self.ignore.iter().copied().collect() }
    }

    /// Reads the known differences.
    pub(super) fn known(&self) -> Result<KnownDifferences, Failure> {
        let Some(path) = &self.known else { return Ok(KnownDifferences::default()) };
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| {
            Failure::input(anyhow!("cannot read the known differences {shown}: {e}"))
        })?;
        KnownDifferences::parse(&text).map_err(|e| Failure::input(anyhow!("{shown}:{e}")))
    }
}
