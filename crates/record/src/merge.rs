//! The trials of several Testers, merged to the trial that one Tester as large as all of them would have had.
//!
//! ```text
//! slice 1/3 (a.json) ─┐ counts        added
//! slice 2/3 (b.json) ─┼ histograms    added, bucket by bucket ──> percentiles
//! slice 3/3 (c.json) ─┘ void rules    those of each part, of the whole schedule, and of the starts
//!                       limiter       that of a part whose own resources ended, else that of all
//! ```
//!
//! A histogram of `dnsdyno load --json` is complete, so that a merged one equals bit for bit the histogram of one Tester. Parts that are not
//! of one load are refused.

mod outcome;
mod part;
mod sums;
mod together;

use crate::request::TrialResult;

use outcome::MergedParts;

pub use part::{LostPart, MergeError, MergeTerms, Part};

/// Merges the parts of one load to a trial of the whole, without a verdict; `version` and `command`
/// go into its conditions.
///
/// # Errors
/// If the parts are not all slices of one load, or not complete.
pub fn merge(
    mut parts: Vec<Part>,
    terms: &MergeTerms,
    version: &str,
    command: &str,
) -> Result<TrialResult, MergeError> {
    parts.sort_by_key(Part::slice);
    together::check(&parts, &terms.lost)?;
    let mut trial = sums::add_up(&parts)?;
    trial.conditions.version = version.to_owned();
    trial.conditions.command = command.to_owned();
    Ok(MergedParts { parts: &parts, terms }.conclude(trial))
}

#[cfg(test)]
mod tests;
