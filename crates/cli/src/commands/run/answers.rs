//! The settings of a comparison of answers that are words in its file, read before anything starts.

use answers::{DifferenceKind, KnownDifferences, TtlTolerance};
use experiment::{Experiment, FileError};

/// Checks the tolerance of TTLs, the kinds that are not compared, and the file of known differences of each comparison.
pub(super) fn check(experiment: &Experiment) -> Result<(), FileError> {
    for point in experiment.points.iter().filter(|point| point.settings.method.compares()) {
        let settings = &point.settings.answers;
        let bad = |key: &str, why: String| experiment.bad(point, key, why);
        let ttl = settings.ttl.parse::<TtlTolerance>();
        ttl.map_err(|e| bad("answers.ttl", e.to_string()))?;
        for word in &settings.ignore {
            word.parse::<DifferenceKind>().map_err(|e| bad("answers.ignore", e.to_string()))?;
        }
        if let Some(path) = &settings.known {
            let path = experiment.folder().join(path);
            let shown = path.display();
            let text = std::fs::read_to_string(&path);
            let text =
                text.map_err(|e| bad("answers.known", format!("cannot read {shown}: {e}")))?;
            KnownDifferences::parse(&text)
                .map_err(|e| bad("answers.known", format!("{shown}:{e}")))?;
        }
    }
    Ok(())
}
