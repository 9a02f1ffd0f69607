//! What is said to a job of Testers, and what it says: a line of JSON each.

use record::{TesterCount, Trial, TrialRequest};
use serde::{Deserialize, Serialize};

/// Message to the conductor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    /// Run a trial.
    Trial {
        /// Request of the whole.
        request: Box<TrialRequest>,
    },
    /// End the running trial early.
    Stop,
}

/// Message of the conductor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// The ranks are there.
    Ready {
        /// Version of the conductor.
        version: String,
    },
    /// The Testers have agreed on the start of the trial.
    Starts {
        /// Time until then, in nanoseconds.
        in_ns: u64,
    },
    /// It is alive; the sums of the Testers' counters.
    Counters {
        /// Number of queries sent, replies in time, valid ones among them, queries without a reply in time, and queries
        /// without a valid one.
        counters: [u64; 5],
        /// Those of each Tester.
        testers: Vec<TesterCount>,
    },
    /// The trial has ended.
    Trial {
        /// Record of the whole.
        trial: Box<Trial>,
    },
    /// The request cannot be accepted.
    Refused {
        /// Why.
        why: String,
    },
    /// There was no trial.
    Failed {
        /// Why.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_said_is_understood(counters: [u64; 5], text: String) {
            let all = [
                Answer::Ready { version: text.clone() },
                Answer::Starts { in_ns: counters[0] },
                Answer::Counters {
                    counters,
                    testers: vec![TesterCount { name: text.clone(), sent: counters[0], bad: counters[4] }],
                },
                Answer::Refused { why: text.clone() },
                Answer::Failed { why: text },
            ];
            for answer in all {
                let line = serde_json::to_string(&answer).expect("JSON");
                prop_assert!(!line.contains('\n'));
                prop_assert_eq!(serde_json::from_str::<Answer>(&line).expect("an answer"), answer);
            }
        }

        #[test]
        fn any_text_is_understood_or_refused(text in ".{0,60}|[{}a-z\":,0-9]{0,60}") {
            let _ = serde_json::from_str::<Ask>(&text);
            let _ = serde_json::from_str::<Answer>(&text);
        }
    }
}
