//! Admission of clients: who may send queries and how many, and how many replies each network gets.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use measure::Nanos;

use crate::config::{Config, Group, LimitsConfig, ServerConfig};
use crate::policy::{Policy, View};

/// Number of clients that are remembered, by a hash of their address.
const MAX_KNOWN_CLIENTS: usize = 1_024;
/// Number of client networks with their own counts; beyond that, networks share counts.
const MAX_NETWORKS: usize = 1 << 14;
/// Number of answers to networks with their own counts; beyond that, answers share counts.
const MAX_ANSWERS: usize = 1 << 16;

/// The rules for a client's address, looked up once and cached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientFacts {
    /// Whether the client may send queries.
    pub(crate) allowed: bool,
    /// The `[[view]]` that contains the client.
    pub(crate) group: Group,
    /// Blocks whose prefixes the client gets.
    pub(crate) view: View,
    /// Place of the client's network in the table of shares; two networks may have the same place.
    pub(crate) network: u16,
}

/// Rules and counts for clients and their networks.
pub(crate) struct Admission {
    server: ServerConfig,
    policy: Arc<Policy>,
    /// Limits whose prefix lengths define a client's network; the lengths never change after the
    /// start.
    limits: LimitsConfig,
    hasher: RandomState,
    known_clients: Vec<Option<(IpAddr, ClientFacts)>>,
    /// Outstanding queries of each network.
    shares: Vec<u32>,
    share_limit: u32,
    /// Limits of replies to a network, and of equal answers to it.
    rate: Rate,
    answer_rate: Rate,
}

/// Rate limit of replies to each network, or of each answer to it.
struct Rate {
    /// Replies per second; 0 for no limit.
    limit: u32,
    slip: u32,
    buckets: Vec<Bucket>,
}

/// Replies that a network may still get.
#[derive(Clone, Copy)]
struct Bucket {
    /// Replies left, in billionths of a reply.
    tokens: u64,
    filled: Nanos,
    /// Number of consecutive replies over the limit.
    over: u32,
}

/// What happens to a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Send,
    /// Send an empty reply with TC: a genuine client repeats its query over TCP.
    Slip,
    Drop,
}

impl Admission {
    /// Makes the rules of a configuration for a worker with `outstanding` places.
    pub(crate) fn new(config: &Config, policy: Arc<Policy>, outstanding: usize) -> Self {
        let limits = &config.limits;
        Admission {
            server: config.server.clone(),
            policy,
            limits: limits.clone(),
            hasher: RandomState::new(),
            known_clients: vec![None; MAX_KNOWN_CLIENTS],
            shares: vec![0; MAX_NETWORKS],
            share_limit: ((outstanding as f64 * limits.client_share).ceil() as u32).max(1),
            rate: Rate::new(limits.responses_per_second, limits.slip, MAX_NETWORKS),
            answer_rate: Rate::new(limits.same_responses_per_second, limits.slip, MAX_ANSWERS),
        }
    }

    /// Applies another configuration. The counts of outstanding queries stay, with the sizes of networks from
    /// the start.
    pub(crate) fn reload(&mut self, config: &Config, policy: Arc<Policy>, outstanding: usize) {
        let mut after = Admission::new(config, policy, outstanding);
        after.hasher = self.hasher.clone();
        after.limits.client_ipv4_bits = self.limits.client_ipv4_bits;
        after.limits.client_ipv6_bits = self.limits.client_ipv6_bits;
        after.shares = std::mem::take(&mut self.shares);
        *self = after;
    }

    /// Returns the properties of a client.
    #[inline]
    pub(crate) fn client(&mut self, address: IpAddr) -> ClientFacts {
        let place = self.hasher.hash_one(address) as usize % MAX_KNOWN_CLIENTS;
        match self.known_clients[place] {
            Some((known, facts)) if known == address => facts,
            _ => {
                let facts = self.look_up(address);
                self.known_clients[place] = Some((address, facts));
                facts
            }
        }
    }

    #[cold]
    fn look_up(&self, address: IpAddr) -> ClientFacts {
        let network = self.limits.network_of(address);
        ClientFacts {
            allowed: self.server.permits(address),
            group: self.policy.group(address),
            view: self.policy.view(address),
            network: (self.hasher.hash_one((network, 1u8)) as usize % MAX_NETWORKS) as u16,
        }
    }

    /// Counts a new outstanding query of a network; returns `false` if the network already has its share.
    #[inline]
    pub(crate) fn enter(&mut self, network: u16) -> bool {
        let share = &mut self.shares[usize::from(network)];
        let fits = *share < self.share_limit;
        *share += u32::from(fits);
        fits
    }

    /// Notes that an outstanding query of a network has ended.
    #[inline]
    pub(crate) fn leave(&mut self, network: u16) {
        let share = &mut self.shares[usize::from(network)];
        debug_assert!(*share > 0, "network {network} has no outstanding query");
        *share = share.saturating_sub(1);
    }

    /// Returns whether a network gets one more UDP reply; `answer` is a hash of the answer.
    #[inline]
    pub(crate) fn reply(&mut self, network: u16, answer: &[u8], now: Nanos) -> Verdict {
        let verdict = self.rate.take(network.into(), now);
        if self.answer_rate.limit == 0 || verdict != Verdict::Send {
            return verdict;
        }
        let place = self.hasher.hash_one((network, answer)) as usize % MAX_ANSWERS;
        self.answer_rate.take(place, now)
    }
}

impl Rate {
    /// Makes a limit with this number of buckets.
    fn new(limit: u32, slip: u32, buckets: usize) -> Self {
        let bucket = Bucket { tokens: 0, filled: Nanos::ZERO, over: 0 };
        Rate { limit, slip, buckets: vec![bucket; if limit == 0 { 0 } else { buckets }] }
    }

    /// Takes a token for a reply from a bucket.
    #[inline]
    fn take(&mut self, place: usize, now: Nanos) -> Verdict {
        let Rate { limit, slip, buckets } = self;
        if *limit == 0 {
            return Verdict::Send;
        }
        let bucket = &mut buckets[place];
        // The bucket holds the replies of at most one second.
        let filled = now.since(bucket.filled).0.min(1_000_000_000) * u64::from(*limit);
        bucket.tokens = (bucket.tokens + filled).min(u64::from(*limit) * 1_000_000_000);
        bucket.filled = now;
        if bucket.tokens >= 1_000_000_000 {
            bucket.tokens -= 1_000_000_000;
            bucket.over = 0;
            return Verdict::Send;
        }
        bucket.over = bucket.over.wrapping_add(1);
        if *slip > 0 && bucket.over % *slip == 0 { Verdict::Slip } else { Verdict::Drop }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nat64::Nat64s;

    fn admission(file: &str) -> Admission {
        let config = Config::parse(file).expect(file);
        Admission::new(&config, Arc::new(Policy::new(&config, &Nat64s::of(&config))), 10)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn lists_permit_and_deny_clients() {
        let mut open = admission("[server]\nallow = [\"any\"]\ndeny = [\"10.0.0.0/8\"]");
        let mut default = admission("");
        for (client, in_open, in_default) in [
            ("127.0.0.1", true, true),
            ("::1", true, true),
            ("10.1.1.1", false, false),
            ("2001:db8::1", true, false),
        ] {
            // Twice: looked up, and remembered.
            for _ in 0..2 {
                assert_eq!(open.client(ip(client)).allowed, in_open, "{client}");
                assert_eq!(default.client(ip(client)).allowed, in_default, "{client}");
            }
        }
    }

    #[test]
    fn a_network_gets_no_more_than_its_share() {
        let mut admission = admission("[limits]\nclient-share = 0.3\nclient-ipv4-bits = 24");
        let network = admission.client(ip("192.0.2.1")).network;
        assert_eq!(admission.client(ip("192.0.2.200")).network, network);
        assert_ne!(admission.client(ip("192.0.3.1")).network, network);
        assert_eq!([(); 4].map(|()| admission.enter(network)), [true, true, true, false]);
        admission.leave(network);
        assert!(admission.enter(network) && !admission.enter(network));
    }

    #[test]
    fn the_rate_of_replies_is_limited() {
        let mut admission = admission("[limits]\nresponses-per-second = 10\nslip = 3");
        let second = Nanos::from_secs(5);
        let count = |admission: &mut Admission, now, of| {
            (0..60).filter(|_| admission.reply(7, b"", now) == of).count()
        };
        assert_eq!(count(&mut admission, second, Verdict::Send), 10);
        assert_eq!(count(&mut admission, second, Verdict::Slip), 20);
        // Half a second later five more replies are sent; another network has its own limit.
        assert_eq!(count(&mut admission, second + Nanos::from_millis(500), Verdict::Send), 5);
        assert_eq!(admission.reply(8, b"", second), Verdict::Send);
        let mut unlimited = self::admission("");
        assert_eq!(count(&mut unlimited, second, Verdict::Send), 60);
    }

    #[test]
    fn the_rate_of_equal_answers_is_limited() {
        let mut admission = admission("[limits]\nsame-responses-per-second = 5\nslip = 0");
        let mut sent = |answer: &[u8], network| {
            let now = Nanos::from_secs(5);
            (0..20).filter(|_| admission.reply(network, answer, now) == Verdict::Send).count()
        };
        assert_eq!(
            [sent(b"one", 7), sent(b"two", 7), sent(b"one", 8), sent(b"one", 7)],
            [5, 5, 5, 0]
        );
    }
}
