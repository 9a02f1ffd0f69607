//! A configuration, prepared for the workers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use measure::Transport;
use siphasher::sip::SipHasher13;
use wire::Name;

use crate::config::{
    BlockConfig, CacheConfig, Config, DNSTAP_QUEUE, ForwardConfig, Group, SynthesisConfig, TrustAd,
    UpstreamConfig, ViewConfig, ports,
};
use crate::nat64::Nat64s;
use crate::policy::{NameRule, Policy};
use crate::rules::{Rule, RuleSets, Rules};
use crate::special;
use crate::transaction::{Transaction, Waiter};

/// Memory of an outstanding query in octets: the query, a second client that waits for it, and its entries in the tables.
const QUESTION_MEMORY: usize = size_of::<Transaction>() + size_of::<Waiter>() + 176;
/// Memory of a worker, in octets: batches, tables of fixed size, buffers.
const WORKER_MEMORY: usize = 3 << 20;
/// Memory of the program, in octets, besides all that is counted: code, libraries, TLS sessions.
const PROGRAM_MEMORY: usize = 16 << 20;
/// Octets of answers that all workers may pass to streams in one step.
const ANSWER_STEP: usize = 8 << 20;
/// Octets of replies that outstanding queries may keep while another one is awaited, all workers together.
const MAX_KEPT_REPLIES: usize = 16 << 20;
/// Least memory for streams, in octets.
const LEAST_STREAMS: usize = 16 << 20;

impl Config {
    /// Returns the memory of everything but streams and workers, in octets.
    fn fixed_memory(&self) -> usize {
        let questions = self.limits.outstanding * QUESTION_MEMORY;
        let dnstap = if self.dnstap.is_on() { DNSTAP_QUEUE } else { 0 };
        self.cache.size.0 + questions + PROGRAM_MEMORY + ANSWER_STEP + MAX_KEPT_REPLIES + dnstap
    }

    /// Returns the least `limits.memory` that the other settings and one worker need, in octets.
    pub(crate) fn least_memory(&self) -> usize {
        self.fixed_memory() + WORKER_MEMORY + LEAST_STREAMS
    }
}

/// Settings that answers depend on.
type Sources<'a> = (
    &'a SynthesisConfig,
    &'a [BlockConfig],
    (&'a [SocketAddr], &'a [ForwardConfig]),
    (TrustAd, Transport, &'a Path),
    &'a [ViewConfig],
);

/// Settings of all workers; a reload replaces them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The configuration file as it was read last.
    pub config: Arc<Config>,
    /// The rules of synthesis from `config` and the known prefixes.
    pub policy: Arc<Policy>,
    /// Rules for single names, from the files that the configuration names.
    pub rules: Arc<RuleSets>,
    /// Number of workers that share its limits.
    pub workers: usize,
    /// Secret of the cookies of all workers.
    pub cookie_secret: [u8; 16],
}

impl Settings {
    /// Prepares a configuration for `workers` workers. Each gets at most `upstream.source-ports`
    /// ports to each server, and fewer if all workers together would exceed their share of the
    /// ports. `cookie_secret` must be drawn from the operating system.
    pub fn new(config: Config, workers: usize, cookie_secret: [u8; 16]) -> Self {
        let nat64s = Nat64s::of(&config);
        Self::following(config, &nat64s, workers, cookie_secret)
    }

    /// Works as [`new`](Self::new), with the prefixes that are known by now; they must be for this configuration.
    pub fn following(
        mut config: Config,
        nat64s: &Nat64s,
        workers: usize,
        cookie_secret: [u8; 16],
    ) -> Self {
        let policy = Arc::new(Policy::new(&config, nat64s));
        let workers = workers.max(1);
        let servers = config.upstream_servers();
        let upstream = &mut config.upstream;
        let share = ports::usable(&upstream.avoid_ports) as f64 * upstream.port_share;
        let most = share as usize / (workers * servers.max(1));
        upstream.source_ports = upstream.source_ports.min(most.max(1));
        let (config, rules) = (Arc::new(config), Arc::default());
        Settings { config, policy, rules, workers, cookie_secret }
    }

    /// Returns the settings with rules for single names.
    pub fn with_rules(self, rules: RuleSets) -> Self {
        Settings { rules: Arc::new(rules), ..self }
    }

    /// Returns the same settings with other names of hosts.
    pub fn with_hosts(&self, hosts: Arc<Rules>) -> Self {
        self.clone().with_rules(RuleSets { hosts, ..(*self.rules).clone() })
    }

    /// Returns the same settings with other prefixes; they must be for this configuration.
    pub fn with_nat64s(&self, nat64s: &Nat64s) -> Self {
        Settings { policy: Arc::new(Policy::new(&self.config, nat64s)), ..self.clone() }
    }

    /// Returns whether at most the [names of hosts](Self::with_hosts) are others.
    pub(crate) fn differs_in_hosts_only(&self, other: &Settings) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
            && Arc::ptr_eq(&self.policy, &other.policy)
            && Arc::ptr_eq(&self.rules.common, &other.rules.common)
            && self.rules.views == other.rules.views
    }

    /// Returns the address at which an upstream server is reached; `None` while the prefix of its NAT64 is not known.
    pub fn way_to(&self, server: SocketAddr) -> Option<SocketAddr> {
        match server {
            SocketAddr::V4(v4) if self.config.upstream.via_prefix && !v4.ip().is_loopback() => {
                let ip = self.policy.address_through_nat64(*v4.ip())?;
                Some(SocketAddr::new(ip, v4.port()))
            }
            _ => Some(server),
        }
    }

    /// Returns whether the clients of some view may get another answer for a name in lower case.
    pub(crate) fn is_apart(&self, name: &Name) -> bool {
        self.policy.is_apart(name.as_wire()) || self.rules.is_apart(name)
    }

    /// Returns whether a client gets an answer of this server for a name in lower case.
    pub(crate) fn answers(&self, group: Group, name: &Name) -> bool {
        match self.rules.find(group, name) {
            Some(rule) => !matches!(rule, Rule::Never | Rule::Always),
            None => special::is_local(&self.policy, group, name),
        }
    }

    /// Returns the rule of synthesis for a name that a client would query next; `None` if it gets an answer of this server.
    pub(crate) fn rule_of_target(&self, group: Group, name: &Name) -> Option<NameRule> {
        let name = name.to_lowercase();
        match self.rules.find(group, &name) {
            Some(Rule::Never) => Some(NameRule::Never),
            Some(Rule::Always) => Some(NameRule::Always),
            Some(_) => None,
            None if special::is_local(&self.policy, group, &name) => None,
            None => Some(self.policy.rule(group, name.as_wire())),
        }
    }

    /// Returns whether the name of a query, in lower case, is never synthesised, even if its
    /// aliases lead to other names.
    pub(crate) fn is_never(&self, group: Group, name: &Name) -> bool {
        match self.rules.find(group, name) {
            Some(Rule::Never) => true,
            Some(Rule::Always) => false,
            _ => self.policy.rule(group, name.as_wire()) == NameRule::Never,
        }
    }

    /// Returns how many queries one worker may have outstanding.
    pub fn outstanding(&self) -> usize {
        self.config.limits.outstanding.div_ceil(self.workers)
    }

    /// Returns whether answers that were cached under `other` are valid under these settings too:
    /// the rules but learned prefixes, the upstream servers and the cache are the same.
    pub(crate) fn has_same_answers(&self, other: &Settings) -> bool {
        let cache = |settings: &Settings| CacheConfig {
            snapshot: PathBuf::new(),
            ..settings.config.cache.clone()
        };
        self.sources() == other.sources()
            && cache(self) == cache(other)
            && (Arc::ptr_eq(&self.rules, &other.rules) || self.rules.synthesises_like(&other.rules))
            && self.workers == other.workers
    }

    /// Returns the settings that answers depend on: the rules, the upstream servers, and which of
    /// these are trusted.
    fn sources(&self) -> Sources<'_> {
        let config = &self.config;
        let UpstreamConfig { servers, trust_ad, transport, tls_authorities, .. } = &config.upstream;
        // Whether an answer is authentic is stored with it.
        let trust = (*trust_ad, *transport, tls_authorities.as_path());
        let upstream = (&servers[..], &config.forward[..]);
        (&config.synthesis, &config.dns64, upstream, trust, &config.view)
    }

    /// Returns a hash of the settings that answers depend on; a snapshot of the cache is marked
    /// with it.
    pub fn snapshot_rules(&self) -> u64 {
        let text = format!("{} {:?}", env!("CARGO_PKG_VERSION"), self.sources());
        SipHasher13::new().hash(text.as_bytes()) ^ self.rules.synthesis_hash()
    }

    /// Returns the number of threads for streams.
    pub fn stream_threads(&self) -> usize {
        match self.config.server.stream_threads {
            0 => self.workers,
            threads => threads,
        }
    }

    /// Returns the memory for streams of all workers, in octets: the rest of `limits.memory`. With
    /// very many workers there may be no rest; streams then get a small part anyway.
    pub fn stream_memory(&self) -> usize {
        let fixed = self.config.fixed_memory() + self.workers * WORKER_MEMORY;
        self.config.limits.memory.0.saturating_sub(fixed).max(LEAST_STREAMS)
    }

    /// Returns the memory for streams of one client network, in octets.
    pub fn stream_memory_of_network(&self) -> usize {
        (self.stream_memory() as f64 * self.config.limits.client_memory_share) as usize
    }

    /// Returns the number of octets of answers that one worker may pass to streams in one step: at
    /// least a few of the largest.
    pub(crate) fn answers_at_once(&self) -> usize {
        (ANSWER_STEP / self.workers).max(256 << 10)
    }

    /// Returns the number of octets of replies that the outstanding queries of one worker may keep.
    pub(crate) fn kept_replies(&self) -> usize {
        MAX_KEPT_REPLIES / self.workers
    }

    /// Returns the cache size of one worker, in octets.
    pub(crate) fn cache_size(&self) -> usize {
        self.config.cache.size.0 / self.workers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_workers_together_have_a_share_of_the_ports() {
        let config = Config::default();
        let all = ports::usable(&config.upstream.avoid_ports);
        for (workers, each) in [(1, 128), (100, 128), (1_000, 16), (100_000, 1)] {
            let settings = Settings::new(config.clone(), workers, [0; 16]);
            assert_eq!(settings.config.upstream.source_ports, each, "{workers}");
            assert!(workers * each <= all / 4 || each == 1);
        }
    }
}
