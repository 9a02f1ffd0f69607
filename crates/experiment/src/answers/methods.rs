//! The method: its steps, and when a comparison is repeated.

use crate::bench::BenchError;
use crate::visit::{RunningVisit, VisitResult};

impl RunningVisit<'_> {
    /// Compares the answers of all servers; a comparison in which the Tester dropped replies is made again.
    pub(crate) fn answers(&mut self) -> Result<VisitResult, BenchError> {
        let compared = self.retried(
            |visit| {
                let compared = visit.bench.compare_answers(&visit.settings.answers)?;
                match compared.diff.incomplete {
                    Some(why) => Err(BenchError::Failed(why)),
                    None => Ok(compared),
                }
            },
            |compared, tries| {
                let dropped = compared.dropped;
                (dropped > 0).then(|| {
                    BenchError::Void(format!(
                        "in {tries} of {tries} comparisons the Tester dropped replies, {dropped} in the last one"
                    ))
                })
            },
        )?;
        Ok(VisitResult::Answers(Box::new(compared.diff)))
    }
}
