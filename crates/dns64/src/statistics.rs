//! Statistics of answers to clients: by type and return code, synthesised ones by prefix, and
//! latencies.

use measure::Nanos;
use wire::{Pref64, Qtype, Rcode};

/// Types below this number are counted one by one, the others together.
const COUNTED_TYPES: usize = 260;
/// Return codes below this number are counted one by one, the others together.
const COUNTED_RCODES: usize = 24;
/// Upper bound of the first class of latencies, in nanoseconds; each further one is twice as high.
const FIRST: u64 = 64_000;
/// Number of classes with a bound: up to 8.4 s.
const LATENCY_CLASSES: usize = 18;

/// Counts of a worker since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    types: [u64; COUNTED_TYPES + 1],
    rcodes: [u64; COUNTED_RCODES + 1],
    latencies: [u64; LATENCY_CLASSES + 1],
    /// Sum of all latencies, from which Prometheus computes the mean.
    total: Nanos,
    /// Answers synthesised under each block's prefix; without a prefix there are none.
    prefixes: Vec<(Option<Pref64>, u64)>,
}

impl Default for Statistics {
    fn default() -> Self {
        Statistics::new(std::iter::empty())
    }
}

/// Number of answers whose latency is at most `limit`; without a limit, of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyClass {
    /// The highest latency of the class; `None` for any.
    pub limit: Option<Nanos>,
    /// Number of answers up to this bound.
    pub answers: u64,
}

impl Statistics {
    /// Makes counts of zero for these prefixes.
    pub(crate) fn new(prefixes: impl Iterator<Item = Option<Pref64>>) -> Self {
        Statistics {
            types: [0; COUNTED_TYPES + 1],
            rcodes: [0; COUNTED_RCODES + 1],
            latencies: [0; LATENCY_CLASSES + 1],
            total: Nanos::ZERO,
            prefixes: prefixes.map(|prefix| (prefix, 0)).collect(),
        }
    }

    /// Changes the prefixes; those that stay keep their counts.
    pub(crate) fn set_prefixes(&mut self, prefixes: impl Iterator<Item = Option<Pref64>>) {
        let mut old = std::mem::take(&mut self.prefixes);
        let mut take = |prefix: Option<Pref64>| {
            let same = old.iter_mut().find(|(before, _)| *before == prefix);
            same.map_or(0, |(_, count)| std::mem::take(count))
        };
        self.prefixes = prefixes.map(|prefix| (prefix, take(prefix))).collect();
    }

    /// Counts an answer to a client.
    #[inline]
    pub(crate) fn answered(&mut self, qtype: Qtype, rcode: Rcode, latency: Nanos) {
        self.types[usize::from(qtype.0).min(COUNTED_TYPES)] += 1;
        self.rcodes[usize::from(rcode.0).min(COUNTED_RCODES)] += 1;
        let class = (latency.0.saturating_sub(1) / FIRST).checked_ilog2().map_or(0, |log| log + 1);
        self.latencies[(class as usize).min(LATENCY_CLASSES)] += 1;
        self.total += latency;
    }

    /// Counts an answer synthesised under the prefix of a block.
    #[inline]
    pub(crate) fn synthesised(&mut self, block: usize) {
        if let Some((_, count)) = self.prefixes.get_mut(block) {
            *count += 1;
        }
    }

    /// Adds a batch of answers that a second cache sent: their numbers by type, with the sum of all
    /// higher types at the end, and the number of NXDOMAIN answers. All others were NOERROR.
    pub fn answered_in_front(&mut self, types: &[u64], nxdomain: u64) {
        for (qtype, count) in types.iter().enumerate() {
            self.types[qtype.min(COUNTED_TYPES)] += count;
        }
        let all: u64 = types.iter().sum();
        self.rcodes[usize::from(Rcode::NXDOMAIN.0)] += nxdomain;
        self.rcodes[usize::from(Rcode::NOERROR.0)] += all.saturating_sub(nxdomain);
        self.latencies[0] += all;
    }

    /// Counts answers that a program in front of the server synthesised, by block.
    pub fn synthesised_in_front(&mut self, blocks: &[u64]) {
        for ((_, count), more) in self.prefixes.iter_mut().zip(blocks) {
            *count += more;
        }
    }

    /// Adds the counts of another worker.
    pub fn merge(&mut self, other: &Statistics) {
        let add = |to: &mut [u64], from: &[u64]| to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        add(&mut self.types, &other.types);
        add(&mut self.rcodes, &other.rcodes);
        add(&mut self.latencies, &other.latencies);
        self.total += other.total;
        for &(prefix, count) in &other.prefixes {
            match self.prefixes.iter_mut().find(|(known, _)| *known == prefix) {
                Some((_, sum)) => *sum += count,
                None => self.prefixes.push((prefix, count)),
            }
        }
    }

    /// Returns the number of answers of each type with answers; "other" sums high type numbers.
    pub fn types(&self) -> impl Iterator<Item = (String, u64)> {
        named(&self.types, |number| Qtype(number).to_string())
    }

    /// Returns the number of answers with each return code that has any.
    pub fn rcodes(&self) -> impl Iterator<Item = (String, u64)> {
        named(&self.rcodes, |number| Rcode(number).to_string())
    }

    /// Returns the number of answers synthesised under each prefix.
    pub fn prefixes(&self) -> impl Iterator<Item = (Pref64, u64)> {
        self.prefixes.iter().filter_map(|&(prefix, count)| Some((prefix?, count)))
    }

    /// Returns the number of answers up to each latency, ascending; the last class has all of them.
    pub fn latencies(&self) -> Vec<LatencyClass> {
        let mut answers = 0;
        let class = |(number, count): (usize, &u64)| {
            answers += count;
            let limit = (number < LATENCY_CLASSES).then_some(Nanos(FIRST << number));
            LatencyClass { limit, answers }
        };
        self.latencies.iter().enumerate().map(class).collect()
    }

    /// Returns the sum of all latencies.
    pub fn total_latency(&self) -> Nanos {
        self.total
    }

    /// Returns the upper bound of this quantile of the latencies; `None` without an answer, or if
    /// it is above all bounds.
    pub fn latency(&self, share: f64) -> Option<Nanos> {
        let classes = self.latencies();
        let all = classes.last()?.answers;
        let enough = |class: &&LatencyClass| class.answers as f64 >= share * all as f64;
        classes.iter().find(enough).filter(|_| all > 0)?.limit
    }
}

/// Returns the counts above zero with their names; the last one is "other".
fn named(counts: &[u64], name: impl Fn(u16) -> String) -> impl Iterator<Item = (String, u64)> {
    let last = counts.len() - 1;
    counts.iter().enumerate().filter(|(_, count)| **count > 0).map(move |(number, &count)| {
        (if number == last { "other".to_owned() } else { name(number as u16) }, count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_type_return_code_and_latency() {
        let prefix = |prefix: &str| Some(prefix.parse().expect("a prefix"));
        let (one, two) = (prefix("64:ff9b::/96"), prefix("2001:db8::/96"));
        let mut counts = Statistics::new([one].into_iter());
        for (qtype, rcode, us) in
            [(28, 0, 0), (28, 3, 64), (1, 0, 65), (257, 2, 128), (4_000, 23, 9_000_000)]
        {
            counts.answered(Qtype(qtype), Rcode(rcode), Nanos::from_micros(us));
        }
        counts.synthesised(0);
        counts.synthesised(7);
        let mut sum = Statistics::default();
        sum.merge(&counts);
        sum.merge(&counts);
        let names = |counts: Vec<(String, u64)>| {
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>()
        };
        assert_eq!(names(sum.types().collect()), ["A 2", "AAAA 4", "CAA 2", "other 2"]);
        let rcodes = ["NOERROR 4", "SERVFAIL 2", "NXDOMAIN 2", "BADCOOKIE 2"];
        assert_eq!(names(sum.rcodes().collect()), rcodes);
        let classes = sum.latencies();
        let first: Vec<u64> = classes.iter().take(3).map(|class| class.answers).collect();
        assert_eq!(first, [4, 8, 8]);
        assert_eq!(classes[1].limit, Some(Nanos::from_micros(128)));
        assert_eq!(classes.last(), Some(&LatencyClass { limit: None, answers: 10 }));
        assert_eq!(sum.latency(0.4), Some(Nanos::from_micros(64)));
        assert_eq!((sum.latency(0.5), sum.latency(1.0)), (Some(Nanos::from_micros(128)), None));
        assert_eq!(Statistics::default().latency(0.5), None);
        // A prefix that stays keeps its count.
        sum.set_prefixes([two, None, one].into_iter());
        assert_eq!(sum.prefixes().map(|(_, count)| count).collect::<Vec<_>>(), [0, 2]);
    }
}
