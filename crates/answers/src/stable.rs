//! Compares the answers to two sendings of the same query: which differences of which servers
//! occurred both times.

use crate::compare::{Outcome, Terms, compare, compare_aging, counts_down};
use crate::kind::{DifferenceKind, Kinds};

/// Differences of every two of some servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pairs {
    servers: usize,
    /// The kinds of the servers 0 and 1, 0 and 2, ..., 1 and 2, ...
    kinds: Vec<Kinds>,
}

impl Pairs {
    /// Compares every two answers that were given at the same time.
    pub(crate) fn of(seen: &[Outcome], terms: &Terms) -> Self {
        let kinds = both(seen.len()).map(|[i, j]| compare(&seen[i], &seen[j], terms, 0)).collect();
        Pairs { servers: seen.len(), kinds }
    }

    /// Compares every two answers of two sendings, the second `aged_s` seconds later: a kind of
    /// difference counts if it occurs both times, and neither of the two servers differs from
    /// itself in it.
    pub(crate) fn stable(
        first: &[Outcome],
        second: &[Outcome],
        terms: &Terms,
        aged_s: u32,
    ) -> Self {
        let own = first.iter().zip(second).map(|(one, other)| compare(one, other, terms, aged_s));
        let own: Vec<Kinds> = own.collect();
        let down: Vec<bool> =
            first.iter().zip(second).map(|(one, two)| counts_down(one, two)).collect();
        let kinds = both(first.len()).zip(Pairs::of(first, terms).kinds).map(|([i, j], one)| {
            let other = compare_aging([&second[i], &second[j]], [down[i], down[j]], terms);
            one.both(other).without(own[i] | own[j])
        });
        Pairs { servers: first.len(), kinds: kinds.collect() }
    }

    /// Returns the kinds of all pairs.
    pub(crate) fn all(&self) -> Kinds {
        self.kinds.iter().fold(Kinds::NONE, |all, kinds| all | *kinds)
    }

    /// Returns every two servers that differ, with the first kind in which they do.
    pub(crate) fn unlike(&self) -> impl Iterator<Item = ([usize; 2], DifferenceKind)> {
        let pairs = both(self.servers).zip(&self.kinds);
        pairs.filter_map(|(pair, kinds)| Some((pair, kinds.first()?)))
    }

    /// Returns the servers in groups: no server of a group differs from its first.
    pub(crate) fn groups(&self) -> Vec<Vec<usize>> {
        let unlike: Vec<[usize; 2]> = self.unlike().map(|(pair, _)| pair).collect();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for server in 0..self.servers {
            match groups.iter_mut().find(|group| !unlike.contains(&[group[0], server])) {
                Some(group) => group.push(server),
                None => groups.push(vec![server]),
            }
        }
        groups
    }
}

/// Returns every two of some servers, by their numbers.
fn both(servers: usize) -> impl Iterator<Item = [usize; 2]> {
    (0..servers).flat_map(move |i| (i + 1..servers).map(move |j| [i, j]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Answer;
    use crate::compare::TtlTolerance;

    const TERMS: Terms = Terms { ttl: TtlTolerance::Seconds(0), ignored: Kinds::NONE };

    /// An answer to `a A` with this return code and an A record with this last octet and TTL.
    fn answer(rcode: u8, last: u8, ttl: u8) -> Outcome {
        let mut message = b"\0\x07\x80\0\0\x01\0\x01\0\0\0\0\x01a\0\0\x01\0\x01".to_vec();
        message[3] = rcode;
        message.extend_from_slice(b"\xc0\x0c\0\x01\0\x01\0\0\0");
        message.extend_from_slice(&[ttl, 0, 4, 192, 0, 2, last]);
        Outcome::Answer(Answer::read(&message).expect("an answer").into())
    }

    fn words(pairs: &Pairs) -> String {
        pairs.all().words().join(" ")
    }

    #[test]
    fn what_differs_both_times_is_stable() {
        let (a, b) = (answer(0, 1, 60), answer(0, 2, 60));
        let stable = |first: [&Outcome; 2], second: [&Outcome; 2]| {
            let [first, second] = [first, second].map(|seen| seen.map(Clone::clone));
            words(&Pairs::stable(&first, &second, &TERMS, 2))
        };
        assert_eq!(stable([&a, &b], [&a, &b]), "answer");
        // It went away, a server contradicts itself, or it is another difference.
        assert_eq!(stable([&a, &b], [&b, &b]), "");
        assert_eq!(stable([&a, &b], [&b, &a]), "");
        assert_eq!(stable([&a, &Outcome::Timeout], [&a, &answer(3, 1, 60)]), "");
        assert_eq!(stable([&a, &Outcome::Timeout], [&a, &Outcome::Timeout]), "timeout");
        // The addresses rotate, the return code does not.
        assert_eq!(stable([&a, &answer(3, 2, 60)], [&b, &answer(3, 1, 60)]), "rcode");
        // Both caches count down.
        assert_eq!(stable([&a, &answer(0, 1, 30)], [&answer(0, 1, 59), &answer(0, 1, 28)]), "ttl");
    }

    #[test]
    fn a_cache_that_counts_down_is_no_difference() {
        let terms = Terms { ttl: TtlTolerance::Cached(5), ignored: Kinds::NONE };
        let found = |first: [u8; 2], second: [u8; 2]| {
            let [first, second] = [first, second].map(|ttls| ttls.map(|ttl| answer(0, 1, ttl)));
            words(&Pairs::stable(&first, &second, &terms, 2))
        };
        // Two caches, a cache and its authoritative server.
        assert_eq!(found([60, 30], [58, 28]), "");
        assert_eq!(found([60, 30], [60, 28]), "");
        // Two servers that do not count, a cache that remembers for longer than its server says.
        assert_eq!(found([60, 30], [60, 30]), "ttl");
        assert_eq!(found([60, 30], [58, 30]), "ttl");
        let exact = |ttl| [answer(0, 1, ttl), answer(0, 1, ttl - 30)];
        assert_eq!(words(&Pairs::stable(&exact(60), &exact(58), &TERMS, 2)), "ttl");
    }

    #[test]
    fn servers_that_agree_are_a_group() {
        let (a, b) = (answer(0, 1, 60), answer(0, 2, 60));
        let pairs = Pairs::of(&[a.clone(), b.clone(), a, Outcome::Timeout, b], &TERMS);
        assert_eq!(pairs.groups(), [vec![0, 2], vec![1, 4], vec![3]]);
        assert_eq!(
            pairs.all(),
            [DifferenceKind::Timeout, DifferenceKind::Answer].into_iter().collect()
        );
        assert_eq!(pairs.unlike().count(), 8);
        assert!(Pairs::of(&[Outcome::Malformed, Outcome::Malformed], &TERMS).all().is_empty());
    }
}
