//! What several unit tests use.

use record::Trial;

/// Returns the trial of the tests of `record`.
pub(crate) fn trial() -> Trial {
    let text = include_str!("../../record/tests/fixtures/trial.json");
    serde_json::from_str(text).expect("a trial")
}
