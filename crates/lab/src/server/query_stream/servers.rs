//! Queries to the servers of an Internet in a box during the measurement of a resolver, from the
//! AuthDNS's log.
//!
//! ```text
//!   10.53.0.1 . h1.d7.t3 A referral t3          t3 is delegated from here on
//!   10.53.1.4 t3 h1.d7.t3 A referral d7.t3
//!   10.53.64.5 d7.t3 h1.d7.t3 A answer          a question of the Measurer that no cache had
//!   10.53.64.5 - h1.d8.t3 A refused             a server without a zone for the name
//!   dropped 9                                   replies that were not sent, since too many waited for their delays
//!   lost 3                                      queries that the log lacks
//! ```

use std::collections::HashSet;
use std::io::{self, BufRead};

/// Queries to the servers of an Internet in a box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerQueries {
    /// Number of all queries that the servers got.
    pub(super) all: u64,
    /// Number of queries with a question of the Measurer to a server that has its answer: no cache had it.
    pub(super) missed: u64,
    /// Number of queries to a server without a zone for the name.
    pub(super) refused: u64,
    /// Number of queries to a server of a zone that no referral had named before.
    pub(super) unnamed: u64,
    /// Number of replies that the AuthDNS dropped, since too many waited for their delays.
    pub(super) dropped: u64,
    /// Number of queries missing in the log, as the log reports.
    pub(super) lost: u64,
}

impl ServerQueries {
    /// Reads a log; `questions` are the Measurer's, each a line of its query file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn read(log: impl BufRead, questions: &HashSet<String>) -> io::Result<Self> {
        let mut found = ServerQueries::default();
        let mut named = HashSet::from([".".to_owned()]);
        for line in log.split(b'\n') {
            found.add(&String::from_utf8_lossy(&line?), questions, &mut named);
        }
        Ok(found)
    }

    /// Adds a line; `named` are the zones in referrals so far. An incomplete line counts as a lost
    /// query.
    fn add(&mut self, line: &str, questions: &HashSet<String>, named: &mut HashSet<String>) {
        let words: Vec<&str> = line.split(' ').collect();
        let raise = |sum: &mut u64, by: u64| *sum = sum.saturating_add(by);
        let number = |count: &str| count.parse().unwrap_or(1);
        let (zone, question, verdict, below) = match words.as_slice() {
            ["dropped", count] => return raise(&mut self.dropped, number(count)),
            ["lost", count] => return raise(&mut self.lost, number(count)),
            [_, zone, name, rtype, verdict, below @ ..] => {
                (*zone, format!("{name} {rtype}"), *verdict, below)
            }
            _ => return raise(&mut self.lost, 1),
        };
        self.all += 1;
        match (verdict, below) {
            ("refused", _) => self.refused += 1,
            ("referral", [below]) => {
                named.insert((*below).to_owned());
            }
            _ => self.missed += u64::from(questions.contains(&question)),
        }
        self.unnamed += u64::from(verdict != "refused" && !named.contains(zone));
    }

    /// Returns the problems, in words: replies that were dropped, and queries to a server of a zone
    /// that no referral had named.
    pub(super) fn notes(&self) -> Vec<String> {
        let ServerQueries { all, refused, unnamed, dropped, .. } = self;
        let dropped = (*dropped > 0).then(|| {
            format!("the AuthDNS dropped {dropped} replies: too many replies were delayed at once")
        });
        let astray = (refused + unnamed > 0).then(|| {
            format!(
                "of {all} queries to the servers, {refused} went to a server without a zone for \
                the name, and {unnamed} to a server of a zone that no referral had named before"
            )
        });
        dropped.into_iter().chain(astray).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(lines: &[&str]) -> ServerQueries {
        let questions = HashSet::from(["h1.d7.t3 A".to_owned(), "h2.d7.t3 AAAA".to_owned()]);
        ServerQueries::read(lines.join("\n").as_bytes(), &questions).expect("in memory")
    }

    #[test]
    fn queries_are_counted_by_what_they_found() {
        let way = [
            "10.53.0.1 . h1.d7.t3 A referral t3",
            "10.53.1.4 t3 h1.d7.t3 A referral d7.t3",
            "10.53.64.5 d7.t3 h1.d7.t3 A answer",
            "10.53.64.5 d7.t3 h2.d7.t3 AAAA nodata",
            "10.53.64.5 d7.t3 h2.d7.t3 A answer",
        ];
        let whole = read(&way);
        assert_eq!(whole, ServerQueries { all: 5, missed: 2, ..ServerQueries::default() });
        assert_eq!(whole.notes(), [""; 0]);
        let refused = "10.53.1.4 - h1.d7.t4 A refused";
        let astray = read(&[way[0], way[2], refused, "dropped 9", "lost 7", "10.53"]);
        let wanted =
            ServerQueries { all: 3, missed: 1, refused: 1, unnamed: 1, dropped: 9, lost: 8 };
        assert_eq!(astray, wanted);
        let [dropped, told] = &astray.notes()[..] else { panic!("{:?}", astray.notes()) };
        assert!(dropped.starts_with("the AuthDNS dropped 9 replies: "), "{dropped}");
        assert!(
            told.starts_with("of 3 queries to the servers, 1 went to a server without"),
            "{told}"
        );
    }

    proptest! {
        #[test]
        fn any_log_is_read(log in prop::collection::vec(any::<u8>(), 0..200), words: [String; 7]) {
            let questions = HashSet::from(["a A".to_owned()]);
            for log in [&log[..], words.join(" ").as_bytes(), b"lost 99999999999999999999"] {
                let found = ServerQueries::read(log, &questions).expect("in memory");
                prop_assert!(found.missed + found.refused <= found.all);
            }
        }
    }
}
