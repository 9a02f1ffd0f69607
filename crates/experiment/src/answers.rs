//! The method `answers`: the same queries to all servers at once, and their answers compared.
//!
//! ```text
//!   queries ──> all servers ──> repeat those that differ ──> AnswerDiff ──> figures of each server
//! ```
//!
//! Answers do not depend on performance: only a reply that the Tester itself lost makes a
//! comparison void.

mod methods;

use record::AnswerDiff;

/// Answers of all servers to the same queries, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedAnswers {
    /// Differences between the servers' answers; servers have the names of their adapters.
    pub diff: AnswerDiff,
    /// Number of replies that the Tester's host received and dropped.
    pub dropped: u64,
}

/// Returns the figures of a server: its answers, and the number of queries with another answer than
/// each other server.
pub fn figures(diff: &AnswerDiff, server: &str) -> Vec<(String, &'static str, f64)> {
    let Some(number) = diff.servers.iter().position(|other| other.name == server) else {
        return Vec::new();
    };
    let own = &diff.servers[number];
    let counts = [
        ("replies", Some(own.replies)),
        ("timeouts", Some(own.timeouts)),
        ("errors", Some(own.errors)),
        ("malformed", Some(own.malformed)),
        ("over_tcp", Some(own.over_tcp)),
        ("alone", own.alone),
    ];
    let counts = counts.into_iter().filter_map(|(name, count)| Some((name.to_owned(), count?)));
    let others = diff.servers.iter().enumerate().filter(|(other, _)| *other != number);
    let pairs = others.map(|(other, name)| {
        let pair = diff.pairs.iter().find(|pair| pair.is_of(number, other));
        (format!("differs_from_{}", name.name), pair.map_or(0, |pair| pair.differ))
    });
    counts.chain(pairs).map(|(name, count)| (name, "", count as f64)).collect()
}

#[cfg(test)]
mod tests {
    use record::{AnswerPair, AnswerServer};

    use super::*;

    #[test]
    fn a_server_has_its_outcomes_and_a_figure_for_each_other() {
        let server = |name: &str| AnswerServer {
            name: name.into(),
            replies: 10,
            alone: Some(2),
            ..AnswerServer::default()
        };
        let pair = AnswerPair { first: 0, second: 2, differ: 7, ..AnswerPair::default() };
        let diff = AnswerDiff {
            servers: ["a", "b", "c"].map(server).into(),
            pairs: vec![pair],
            ..AnswerDiff::default()
        };
        let of = |server: &str, figure: &str| {
            let all = figures(&diff, server);
            all.into_iter().find(|(name, ..)| name == figure).map(|(.., value)| value)
        };
        assert_eq!((of("a", "replies"), of("a", "alone")), (Some(10.0), Some(2.0)));
        assert_eq!((of("a", "differs_from_c"), of("c", "differs_from_a")), (Some(7.0), Some(7.0)));
        assert_eq!((of("a", "differs_from_b"), of("a", "differs_from_a")), (Some(0.0), None));
        assert_eq!(figures(&diff, "d"), []);
    }
}
