//! The pacing of a trial in its record: a sentence in the JSON, and typed for decisions.

use std::fmt;

use measure::Pacing;
use serde::{Deserialize, Serialize};

/// Pacing of a trial's queries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct RecordedPacing {
    words: String,
    pacing: Option<Pacing>,
}

impl RecordedPacing {
    /// Returns the pacing, with rates as rounded as in the JSON; `None` for a replay, whose queries have times of their own.
    pub fn get(&self) -> Option<Pacing> {
        self.pacing
    }

    /// Returns whether queries leave by a schedule, whatever the server does, as in a replay.
    pub fn is_open_loop(&self) -> bool {
        self.pacing.is_none_or(Pacing::is_open_loop)
    }
}

impl From<Pacing> for RecordedPacing {
    fn from(pacing: Pacing) -> Self {
        RecordedPacing::from(pacing.describe())
    }
}

impl From<String> for RecordedPacing {
    fn from(words: String) -> Self {
        RecordedPacing { pacing: Pacing::described(&words), words }
    }
}

impl From<RecordedPacing> for String {
    fn from(pacing: RecordedPacing) -> Self {
        pacing.words
    }
}

impl fmt::Display for RecordedPacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}
