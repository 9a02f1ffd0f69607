//! The method: what is run, and when it is run again.

use super::ComparedAnswers;
use crate::bench::{BenchError, pause_after};
use crate::visit::{Found, VOID_RETRIES, Visiting};

impl Visiting<'_> {
    /// Compares the answers of all servers; a comparison in which the Tester dropped replies is made again.
    pub(crate) fn answers(&mut self) -> Result<Found, BenchError> {
        let mut tries = 0;
        loop {
            let ComparedAnswers { diff, dropped } =
                self.bench.compare_answers(&self.settings.answers)?;
            tries += 1;
            if let Some(why) = diff.incomplete {
                return Err(BenchError::Failed(why));
            }
            if dropped == 0 {
                return Ok(Found::Answers(Box::new(diff)));
            }
            if tries > VOID_RETRIES {
                return Err(BenchError::Void(format!(
                    "{tries} of {tries} comparisons: the Tester dropped replies, {dropped} in the last"
                )));
            }
            self.bench.pause(pause_after(tries));
        }
    }
}
