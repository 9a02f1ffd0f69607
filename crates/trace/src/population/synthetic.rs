//! Populations without a capture: clients that browse, made from a seed.
//!
//! ```text
//! client   ──> visits at any time ──> each a burst of queries ──> a new name, or one that is popular by Zipf's law
//! its rate: lognormal    1 + Poisson       geometric, 30 ms apart
//! ```
//!
//! Visits begin at any time, none before the start, so that new connections and new names come as often in the first moments as later.
//! Each client has at least one visit: clients that ask nothing are none. A client is the same however many there are beside it.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use measure::{Nanos, Rng, Zipf};

use super::{Entry, MAX_CLIENTS, MAX_QUERIES, Population, TooFew};

/// Mean number of queries of a visit.
pub const QUERIES_PER_VISIT: f64 = 5.0;
/// Mean time between two queries of a visit, seconds.
const WITHIN_VISIT_S: f64 = 0.03;
/// Standard deviation of the logarithm of a client's rate: one in six sends more than 2.7 times as
/// many as the median.
const RATE_SPREAD: f64 = 1.0;
/// Exponent of the popularity of names.
const POPULARITY_EXPONENT: f64 = 1.0;
/// Network of the clients' addresses.
const NETWORK: u32 = u32::from_be_bytes([10, 0, 0, 0]);

/// Settings of a population that is synthetic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Synthetic {
    /// Number of synthetic clients.
    pub clients: usize,
    /// Length of the covered time.
    pub period: Nanos,
    /// Mean rate of a client, in queries a second; at least a visit in the period.
    pub rate: f64,
    /// Number of different names, at least one. If new ones run out, the first ones are queried
    /// again.
    pub names: u64,
    /// Number of popular names among them, the first ones.
    pub popular: u64,
    /// Share (0 to 1) of the queries for popular names; the others are for new ones.
    pub repeats: f64,
    /// Seed of all choices: the same seed makes the same population.
    pub seed: u64,
}

impl Synthetic {
    /// Makes the population; `message` returns the query for the name with this number, below
    /// `names`.
    ///
    /// # Errors
    /// If a population cannot have that many clients or queries.
    pub fn population(&self, message: impl Fn(u64) -> Vec<u8>) -> Result<Population, TooFew> {
        if self.clients > MAX_CLIENTS {
            return Err(TooFew::Most(self.clients));
        }
        let names = self.names.max(1);
        let popular = self.popular.min(names);
        let zipf = Zipf::new(popular.max(1), POPULARITY_EXPONENT);
        let mut new_names = (popular..names).cycle();
        let mut numbers = HashMap::new();
        let mut population = Population { period: self.period, ..Population::default() };
        for client in 0..self.clients as u32 {
            let mut rng = Rng::part(self.seed, client.into());
            population.clients.push(Ipv4Addr::from(NETWORK + client).into());
            for at in self.times(&mut rng) {
                let next = population.messages.len() as u32;
                let new = if rng.unit() < self.repeats { None } else { new_names.next() };
                let name = new.unwrap_or_else(|| zipf.draw(&mut rng));
                let message = *numbers.entry(name).or_insert_with_key(|name| {
                    let mut octets: Box<[u8]> = message(*name).into();
                    octets[..2].fill(0);
                    population.messages.push(octets);
                    next
                });
                population.queries.push(Entry { at, client, message });
            }
            if population.queries.len() > MAX_QUERIES {
                return Err(TooFew::Queries(self.clients));
            }
        }
        population.queries.sort_by_key(|entry| entry.at);
        Ok(population.renumbered())
    }

    /// Draws the times of a client's queries.
    fn times(&self, rng: &mut Rng) -> Vec<Nanos> {
        let visits = self.rate * self.period.as_secs_f64() / QUERIES_PER_VISIT;
        // The mean of this share is 1.
        let share = (RATE_SPREAD * normal(rng) - RATE_SPREAD * RATE_SPREAD / 2.0).exp();
        let visits = 1 + poisson((visits - 1.0).max(0.0) * share, rng);
        let mut times = Vec::new();
        for _ in 0..visits {
            let (mut length, first) = (0, times.len());
            times.push(Nanos::ZERO);
            while rng.unit() * QUERIES_PER_VISIT >= 1.0 && times.len() < MAX_QUERIES {
                length += (exponential(rng) * WITHIN_VISIT_S * 1e9) as u64;
                times.push(Nanos(length));
            }
            // The visit ends within the period, unless the period is shorter than a visit.
            let start = rng.below(self.period.0.saturating_sub(length).max(1));
            let within = |at: &mut Nanos| at.0 = (start + at.0) % self.period.0;
            times[first..].iter_mut().for_each(within);
        }
        times
    }
}

/// Draws from the exponential distribution of mean 1.
fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.unit()).ln()
}

/// Draws from the standard normal distribution (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    (2.0 * exponential(rng)).sqrt() * (std::f64::consts::TAU * rng.unit()).cos()
}

/// Draws from a Poisson distribution: the number of arrivals at rate 1 within `mean`, at most as many as there may be queries.
fn poisson(mean: f64, rng: &mut Rng) -> usize {
    let mut at = exponential(rng);
    let mut count = 0;
    while at < mean && count < MAX_QUERIES {
        at += exponential(rng);
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A message with the number of its name.
    fn message(name: u64) -> Vec<u8> {
        [&[7; 12][..], &name.to_be_bytes()].concat()
    }

    /// The name of a message.
    fn name(message: &[u8]) -> u64 {
        u64::from_be_bytes(*message.last_chunk().expect("of eight octets"))
    }

    #[test]
    fn clients_ask_as_often_as_is_said_at_all_times() {
        let period = Nanos::from_secs(60);
        let made = Synthetic {
            clients: 4_000,
            period,
            rate: 0.5,
            names: 60_000,
            popular: 1_000,
            repeats: 0.75,
            seed: 7,
        };
        let population = made.population(message).expect("small");
        assert_eq!((population.clients(), population.period()), (4_000, period));
        let queries = population.len() as f64;
        let mean = 4_000.0 * 0.5 * 60.0;
        assert!((queries / mean - 1.0).abs() < 0.06, "{queries} of {mean}");
        for tenth in 0..10 {
            let part = period.0 / 10;
            let within = |at: Nanos| at.0 / part == tenth;
            let some = population.queries().filter(|query| within(query.at)).count() as f64;
            assert!((some * 10.0 / queries - 1.0).abs() < 0.15, "{tenth}: {some} of {queries}");
        }
        // The most popular name has 1 / H(1000) of three quarters of the queries; each of the others is for a name of its own.
        let asked = |one: fn(u64) -> bool| {
            population.queries().filter(|query| one(name(query.message))).count()
        };
        let first = asked(|name| name == 0) as f64;
        assert!((first / queries / 0.75 / 0.1336 - 1.0).abs() < 0.1, "{first} of {queries}");
        let new = asked(|name| name >= 1_000);
        assert!((new as f64 / queries / 0.25 - 1.0).abs() < 0.05, "{new} of {queries}");
        let last = population.queries().map(|query| name(query.message)).max();
        assert_eq!(last, Some(1_000 + new as u64 - 1));
        // The visits of the first moments begin there: they have not all their queries yet, and not many connect at once.
        let early =
            population.queries().filter(|query| query.at.0 < period.0 / 2_000).count() as f64;
        assert!(early < queries / 2_000.0 * 0.6, "{early} of {queries}");
        // Half of the clients ask less than half as much as the mean.
        let stats = population.behaviour(Nanos::from_secs(10));
        let per_client = stats.queries_per_client;
        assert!(per_client.p50 * 1.3 < queries / 4_000.0, "{per_client:?}");
        assert!(stats.think_s.p50 < 0.1 && stats.idle_s.count > 1_000, "{stats:?}");
    }

    #[test]
    fn too_many_clients_or_queries_are_refused() {
        let one = Synthetic {
            clients: 1,
            period: Nanos::from_secs(1),
            rate: 1.0,
            names: 1,
            popular: 1,
            repeats: 1.0,
            seed: 1,
        };
        let many = Synthetic { clients: MAX_CLIENTS + 1, ..one };
        assert_eq!(many.population(message), Err(TooFew::Most(MAX_CLIENTS + 1)));
        assert_eq!(one.population(message).expect("one client").clients(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_client_asks_within_the_period_and_a_seed_is_a_population(
            clients in 1usize..40, period in 1u64..20_000_000_000, rate in 0.0f64..20.0, names in 1u64..50,
            popular in 0u64..60, repeats in 0.0f64..=1.0, seed: u64
        ) {
            let made = Synthetic { clients, period: Nanos(period), rate, names, popular, repeats, seed };
            let population = made.population(message).expect("small");
            prop_assert_eq!(population.clients(), clients);
            prop_assert!(population.queries().all(|query| query.at < population.period()));
            prop_assert!(population.queries().all(|query| name(query.message) < names));
            prop_assert!(population.queries().zip(population.queries().skip(1)).all(|(a, b)| a.at <= b.at));
            prop_assert_eq!(&made.population(message).expect("small"), &population);
            // A client more leaves the times of the others as they are.
            let more = Synthetic { clients: clients + 1, ..made }.population(message).expect("small");
            prop_assert!(more.len() > population.len());
        }
    }
}
