//! Rules of synthesis: the prefixes of each client, the addresses that are mapped, the excluded
//! names.
//!
//! ```text
//!   client ──> view: the blocks that serve it, as bits      (once per query); of a pool only one
//!   name ────> rule: usual, never, always                   (lists; the longest domain wins)
//!   IPv4 ────> one IPv6 address for each block of the view that maps it
//! ```

mod plain;
mod pools;

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use measure::Nanos;
use wire::{Name, Pref64};

use crate::config::{
    BlockConfig, Config, ForwardConfig, Group, Ipv4, LeaveAlone, MAX_BLOCKS, SynthesisConfig,
};
use crate::designation::Designation;
use crate::nat64::{Lifetime, Nat64, Nat64s};
use crate::question::KeyFlags;
pub(crate) use crate::question::View;
pub use plain::PlainBlock;
use pools::Pools;

/// Networks of IPv4 that no NAT64 reaches: "this" network, loopback, addresses of one link, multicast and reserved ones (RFC 6890,
/// RFC 1112).
const UNREACHABLE: [Ipv4Net; 4] = [
    Ipv4Net::new_assert(Ipv4Addr::new(0, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16),
    Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// Rule of synthesis for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// Synthesised if there is no AAAA record.
    Usual,
    /// Never synthesised: the AAAA records come from upstream.
    Never,
    /// Synthesised even if there are AAAA records.
    Always,
}

/// The rules of a configuration, prepared for a look-up by each query.
#[derive(Debug)]
pub struct Policy {
    /// Settings that need no preparation.
    pub synthesis: SynthesisConfig,
    blocks: Vec<Block>,
    pools: Pools,
    /// Domains with their own rule.
    domains: Vec<(Group, Name, NameRule)>,
    /// Networks of the clients of each `[[view]]`, in the order of the file.
    groups: Vec<Vec<IpNet>>,
    /// Servers of all names, then servers of single zones, in the order in which they are queried.
    forwards: Vec<ForwardConfig>,
    /// Encrypted transports of this server that clients can discover.
    pub(crate) designation: Option<Designation>,
    /// The embeddings of all blocks and of the well-known prefix, the longest first, for reverse
    /// names.
    embeddings: Vec<Embedding>,
}

/// A reverse name under a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReverseName {
    /// The prefix under which the reverse name is.
    pub(crate) prefix: Pref64,
    /// The embedded address; `None` for a name that is shorter than an address's name.
    pub(crate) inner: Option<Ipv4Addr>,
}

/// A prefix, prepared for use.
#[derive(Debug)]
struct Block {
    /// `None` while the prefix is not known: it serves no client.
    embedding: Option<Embedding>,
    /// Time until which the prefix may be used, and the largest TTL under it, in seconds.
    lifetime: Lifetime,
    max_ttl: u32,
    clients: Vec<IpNet>,
    mapped: Vec<Ipv4Net>,
    not_mapped: Vec<Ipv4Net>,
    /// Whether only global addresses are mapped.
    only_global: bool,
    /// Networks whose AAAA records count as absent.
    exclude: Vec<Ipv6Net>,
    /// Whether it serves only queries with RD, and whether it also changes answers for validating
    /// clients.
    recursive_only: bool,
    break_dnssec: bool,
    /// Whether its clients get no A records for names with addresses of IPv6.
    drops_ipv4: bool,
}

/// How IPv4 addresses are embedded in IPv6 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Embedding {
    prefix: Pref64,
    /// Bits after the IPv4 address.
    suffix: u128,
}

impl Policy {
    /// Makes the rules of a configuration with these prefixes.
    pub fn new(config: &Config, nat64s: &Nat64s) -> Self {
        let synthesis = &config.synthesis;
        let mut domains = Vec::new();
        let views = config.view.iter().enumerate();
        let views = views.map(|(v, view)| (Group::of_view(v), &view.never, &view.always));
        // Equal domains are in this order: domains of a view, then domains that are never
        // synthesised.
        for (group, never, always) in
            views.chain([(Group::ALL, &synthesis.never, &synthesis.always)])
        {
            let rule = |rule| move |name: &Name| (group, name.to_lowercase(), rule);
            domains.extend(never.iter().map(rule(NameRule::Never)));
            domains.extend(always.iter().map(rule(NameRule::Always)));
        }
        // A block keeps its place when prefixes are learned; its further prefixes come after all
        // blocks.
        let first = nat64s.blocks.iter().map(|(block, known)| (block, known.first()));
        let more = nat64s
            .blocks
            .iter()
            .flat_map(|(block, known)| known.iter().skip(1).map(move |nat64| (block, Some(nat64))));
        let all: Vec<_> = first.chain(more).take(MAX_BLOCKS).collect();
        let block = |&(block, nat64): &_| Block::new(block, nat64, &config.synthesis);
        let blocks: Vec<Block> = all.iter().map(block).collect();
        let well_known = Embedding { prefix: Pref64::WELL_KNOWN, suffix: 0 };
        let known = blocks.iter().filter_map(|block| block.embedding);
        let mut embeddings: Vec<_> = known.chain([well_known]).collect();
        // Of two prefixes that contain an address the longer one leads to its NAT64.
        embeddings.sort_by_key(|embedding| Reverse(embedding.prefix.prefix_len()));
        Policy {
            synthesis: config.synthesis.clone(),
            embeddings,
            pools: Pools::new(&all, &config.limits),
            blocks,
            domains,
            groups: config.view.iter().map(|view| view.clients.clone()).collect(),
            forwards: config.pools(),
            designation: Designation::of(config),
        }
    }

    /// Returns the group of a client.
    pub(crate) fn group(&self, client: IpAddr) -> Group {
        let is_within = |clients: &Vec<IpNet>| clients.iter().any(|n| n.contains(&client));
        match self.groups.iter().position(is_within) {
            _ if self.groups.is_empty() => Group::ALL,
            None => Group::OTHERS,
            Some(view) => Group::of_view(view),
        }
    }

    /// Returns whether a view has a rule or a zone of its own that contains a name in lower case.
    pub(crate) fn is_apart(&self, name: &[u8]) -> bool {
        let zones =
            self.forwards.iter().flat_map(|f| f.zones.iter().map(move |zone| (f.group, zone)));
        let mut all = zones.chain(self.domains.iter().map(|(group, name, _)| (*group, name)));
        all.any(|(group, domain)| group != Group::ALL && is_within(name, domain))
    }

    /// Returns the blocks that serve a client.
    pub fn view(&self, client: IpAddr) -> View {
        self.view_where(client, |network| network.contains(&client))
    }

    /// Returns the blocks that serve the clients of a network, except in smaller networks of their
    /// lists. The first address of the network determines the block of a pool.
    pub(crate) fn view_of_network(&self, clients: IpNet) -> View {
        self.view_where(clients.network(), |network| network.contains(&clients))
    }

    /// Returns the networks of the clients of all blocks.
    pub(crate) fn client_networks(&self) -> impl Iterator<Item = &IpNet> {
        self.blocks.iter().flat_map(|block| &block.clients)
    }

    /// Returns the blocks with a network for which `is_within` is true.
    fn view_where(&self, client: IpAddr, is_within: impl Fn(&IpNet) -> bool) -> View {
        let serves =
            |block: &Block| block.embedding.is_some() && block.clients.iter().any(&is_within);
        let bits = self.blocks.iter().enumerate().filter(|(_, block)| serves(block));
        let all = View(bits.fold(0, |view, (i, _)| view | 1 << i));
        let prefix = |block: usize| self.blocks[block].embedding.map(|e| e.prefix);
        self.pools.choose(all, client, prefix)
    }

    /// Returns the prefixes of all blocks in their order; `None` for one that is not known.
    pub fn prefixes(&self) -> impl Iterator<Item = Option<Pref64>> {
        self.blocks.iter().map(|block| block.embedding.map(|embedding| embedding.prefix))
    }

    /// Returns the prefixes that are known, each with whether its NAT64 works, as far as is known.
    pub fn nat64s(&self) -> impl Iterator<Item = (Pref64, bool)> {
        let all = self.prefixes().enumerate();
        all.filter_map(|(block, prefix)| Some((prefix?, self.pools.works(block))))
    }

    /// Returns the largest TTL of addresses under the prefixes of a view at `now`, in seconds.
    pub(crate) fn longest_ttl(&self, view: View, now: Nanos) -> u32 {
        let longest = |block: &Block| block.max_ttl.min(block.lifetime.seconds_left(now));
        self.served(view).map(longest).min().unwrap_or(u32::MAX)
    }

    /// Returns the blocks that have other prefixes than in `before`, and all prefixes that only one of both has.
    pub(crate) fn changes(&self, before: &Policy) -> (View, Vec<Pref64>) {
        let at = |policy: &Policy, i: usize| policy.blocks.get(i).and_then(|b| b.embedding);
        let differs = |i: &usize| at(self, *i) != at(before, *i);
        let bits = (0..MAX_BLOCKS).filter(differs).fold(0, |bits, i| bits | 1 << i);
        let missing = |all: &[Embedding], of: &[Embedding]| -> Vec<Pref64> {
            let missing = of.iter().filter(|embedding| !all.contains(embedding));
            missing.map(|embedding| embedding.prefix).collect()
        };
        let (new, old) = (&self.embeddings, &before.embeddings);
        (View(bits), [missing(new, old), missing(old, new)].concat())
    }

    /// Returns the rule for a name in lower case and a group of clients. The longest domain that
    /// contains the name decides; for equal ones the group's view goes before all clients, `never`
    /// takes precedence over `always`. A zone with its own servers counts only if these are
    /// queried.
    pub fn rule(&self, group: Group, name: &[u8]) -> NameRule {
        let mut found = ((0, Group::ALL.0), NameRule::Usual);
        for (own, domain, rule) in &self.domains {
            let len = domain.wire_len();
            if len > found.0.0 && own.includes(group) && is_within(name, domain) {
                found = ((len, own.0), *rule);
            }
        }
        let place = ForwardConfig::find(&self.forwards, group, name);
        let forward = &self.forwards[place.number];
        let decides = (place.len, forward.group.0) >= found.0;
        if decides && !forward.dns64 { NameRule::Never } else { found.1 }
    }

    /// Returns whether there are zones with servers of their own.
    pub(crate) fn has_zones(&self) -> bool {
        self.forwards.len() > 1
    }

    /// Returns the number of the pool of servers for a name in lower case and a group of clients.
    pub(crate) fn pool_for(&self, group: Group, name: &Name) -> usize {
        ForwardConfig::find(&self.forwards, group, name.as_wire()).number
    }

    /// Returns whether NXDOMAIN to AAAA counts as empty for a name in lower case.
    pub(crate) fn ignores_nxdomain(&self, group: Group, name: &[u8]) -> bool {
        let place = ForwardConfig::find(&self.forwards, group, name);
        self.forwards[place.number].ignore_nxdomain
            || self.synthesis.ignore_nxdomain.iter().any(|domain| is_within(name, domain))
    }

    /// Returns whether a zone with servers of its own that is at or below `domain` contains a name; all are in lower case.
    pub(crate) fn forwards_below(&self, group: Group, name: &[u8], domain: &[u8]) -> bool {
        let own = self.forwards.iter().skip(1).filter(|forward| forward.group.includes(group));
        own.flat_map(|forward| &forward.zones).any(|zone| {
            is_within(name, zone) && wire::name::strip_suffix(zone.as_wire(), domain).is_some()
        })
    }

    /// Returns the blocks of a view that serve a query with these bits: a validator (DO and CD) gets unchanged data (RFC
    /// 6147 section 5.5) unless the configuration says otherwise.
    pub(crate) fn permitted(&self, view: View, flags: KeyFlags) -> View {
        let validates = self.synthesis.leave_alone == LeaveAlone::Cd && flags.dnssec && flags.cd;
        if flags.rd && !validates {
            return view;
        }
        self.only(view, |block| {
            (flags.rd || !block.recursive_only) && (!validates || block.break_dnssec)
        })
    }

    /// Returns the blocks of a view that change data for a query with these bits; `signed` says whether the data has
    /// signatures.
    pub(crate) fn changing(&self, view: View, flags: KeyFlags, signed: bool) -> View {
        if !signed || !flags.dnssec || self.synthesis.leave_alone == LeaveAlone::Cd {
            return view;
        }
        self.only(view, |block| block.break_dnssec)
    }

    /// Returns the blocks of a view whose clients get no A records for a query with these bits.
    /// Clients that request signatures would treat an unsigned absence as bogus, so they get the
    /// records unless the configuration breaks their validation.
    pub(crate) fn dropping(&self, view: View, flags: KeyFlags) -> View {
        self.only(view, |block| block.drops_ipv4 && (!flags.dnssec || block.break_dnssec))
    }

    /// Returns the blocks of a view that satisfy a condition.
    fn only(&self, view: View, condition: impl Fn(&Block) -> bool) -> View {
        let blocks = self.blocks.iter().enumerate();
        let some = blocks.filter(|(i, block)| view.0 & 1 << i != 0 && condition(block));
        View(some.fold(0, |bits, (i, _)| bits | 1 << i))
    }

    /// Returns whether an AAAA record with this address counts as absent in a view: all its blocks must
    /// exclude it.
    pub(crate) fn is_excluded(&self, view: View, address: Ipv6Addr) -> bool {
        self.all_exclude(view, |network| network.contains(&address))
    }

    /// Returns whether all blocks of a view exclude every address of IPv6: then NAT64 is preferred,
    /// and IPv6 is used only for names without IPv4 addresses.
    pub(crate) fn prefers_nat64(&self, view: View) -> bool {
        self.all_exclude(view, |network| network.prefix_len() == 0)
    }

    /// Returns whether a view has blocks, and each excludes a network for which `is_it` is true.
    fn all_exclude(&self, view: View, is_it: impl Fn(&Ipv6Net) -> bool) -> bool {
        let mut blocks = self.served(view).peekable();
        blocks.peek().is_some() && blocks.all(|block| block.exclude.iter().any(&is_it))
    }

    /// Returns the address by which this host itself reaches an IPv4 address: through the first
    /// NAT64 that works and maps it, or, if no block maps it, the address itself; `None` while the
    /// prefix of a suitable block is not known.
    pub(crate) fn address_through_nat64(&self, address: Ipv4Addr) -> Option<IpAddr> {
        let mapping = || self.blocks.iter().enumerate().filter(|(_, block)| block.maps(address));
        let known =
            || mapping().filter_map(|(i, block)| Some((i, block.embedding?.embed(address))));
        let working = known().find(|(i, _)| self.pools.works(*i)).or_else(|| known().next());
        match working {
            Some((_, through)) => Some(through.into()),
            None if mapping().next().is_some() => None,
            None => Some(address.into()),
        }
    }

    /// Returns the IPv6 addresses for an IPv4 address in a view.
    pub fn map(&self, view: View, address: Ipv4Addr) -> impl Iterator<Item = Ipv6Addr> {
        self.map_always(self.mapping(view, address), address)
    }

    /// Returns the blocks of a view that map an address.
    pub(crate) fn mapping(&self, view: View, address: Ipv4Addr) -> View {
        self.only(view, |block| block.maps(address))
    }

    /// Works as [`map`](Self::map) for an address that all prefixes map (those of `ipv4only.arpa`, RFC 7050).
    pub(crate) fn map_always(
        &self,
        view: View,
        address: Ipv4Addr,
    ) -> impl Iterator<Item = Ipv6Addr> {
        let embeddings = move |blocks| self.served(blocks).filter_map(|block| block.embedding);
        // Several blocks may have the same prefix.
        let is_first =
            move |(i, own): &(usize, Embedding)| !embeddings(view).take(*i).any(|e| e == *own);
        embeddings(view).enumerate().filter(is_first).map(move |(_, own)| own.embed(address))
    }

    /// Returns the meaning of the reverse name of the first `len` bits of an address; `None` if it
    /// is under no prefix of the configuration and not under the well-known one (RFC 6147 section
    /// 5.3.1).
    pub(crate) fn reverse(&self, bits: u128, len: u32) -> Option<ReverseName> {
        self.embeddings.iter().find_map(|embedding| {
            let inner = match len {
                128 => Some(embedding.extract(bits.into())?),
                _ if embedding.has_below(bits, len) => None,
                _ => return None,
            };
            Some(ReverseName { prefix: embedding.prefix, inner })
        })
    }

    /// Returns the blocks of a view.
    fn served(&self, view: View) -> impl Iterator<Item = &Block> {
        self.blocks.iter().enumerate().filter(move |(i, _)| view.0 & 1 << i != 0).map(|(_, b)| b)
    }
}

impl Block {
    fn new(config: &BlockConfig, nat64: Option<&Nat64>, all: &SynthesisConfig) -> Self {
        Block {
            exclude: config.exclude.as_ref().unwrap_or(&all.exclude).clone(),
            recursive_only: config.recursive_only.unwrap_or(all.recursive_only),
            break_dnssec: config.break_dnssec.unwrap_or(all.break_dnssec),
            drops_ipv4: config.ipv4 == Ipv4::Drop,
            embedding: nat64
                .map(|nat64| Embedding { prefix: nat64.prefix, suffix: config.suffix.into() }),
            lifetime: nat64.map_or_else(Lifetime::unlimited, |nat64| nat64.lifetime.clone()),
            max_ttl: (config.max_ttl.0 / 1_000_000_000) as u32,
            clients: config.clients.clone(),
            mapped: config.mapped.clone(),
            not_mapped: config.not_mapped.clone(),
            only_global: nat64.is_some_and(|n| n.prefix.is_well_known()) && !config.map_non_global,
        }
    }

    /// Returns whether an address is mapped.
    fn maps(&self, address: Ipv4Addr) -> bool {
        self.names(|network| network.contains(&address))
            && !self.not_mapped.iter().any(|network| network.contains(&address))
            && (!self.only_global || is_global(address))
    }

    /// Returns whether `mapped` has a network for which `contains` is true: one that contains an address or a network. For addresses in
    /// a network of [`UNREACHABLE`] only entries within that network count, not larger ones.
    fn names(&self, contains: impl Fn(&&Ipv4Net) -> bool) -> bool {
        let apart = UNREACHABLE.iter().find(&contains);
        let mut within = self.mapped.iter().filter(contains);
        within.any(|mapped| apart.is_none_or(|apart| apart.contains(mapped)))
    }
}

impl Embedding {
    /// Returns the IPv6 address that embeds an IPv4 address.
    fn embed(&self, address: Ipv4Addr) -> Ipv6Addr {
        Ipv6Addr::from(u128::from(self.prefix.embed(address)) | self.suffix)
    }

    /// Returns the IPv4 address that an IPv6 address embeds, if it does, with any suffix: a NAT64 translates all of them
    /// (RFC 6052 sections 2.2 and 2.3).
    fn extract(&self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        self.prefix.extract(Ipv6Addr::from(u128::from(address) & !self.suffix_mask()))
    }

    /// Returns whether there are addresses with these first `len` bits.
    fn has_below(&self, bits: u128, len: u32) -> bool {
        let embed = |address: [u8; 4]| u128::from(self.prefix.embed(address.into()));
        let [all_zero, all_ones] = [[0; 4], [255; 4]].map(embed);
        let known = !u128::MAX.checked_shr(len).unwrap_or(0) & !self.suffix_mask();
        let differs = (bits ^ all_zero) & !(all_zero ^ all_ones) & known;
        len >= u32::from(self.prefix.prefix_len()) && differs == 0
    }

    /// Returns the bits behind the IPv4 address, which end at bit 128; the u octet is in front of them.
    fn suffix_mask(&self) -> u128 {
        u128::MAX.checked_shr(u32::from(self.prefix.prefix_len()) + 40).unwrap_or(0)
    }
}

/// Returns whether a domain contains a name; both are in lower case.
fn is_within(name: &[u8], domain: &Name) -> bool {
    wire::name::strip_suffix(name, domain.as_wire()).is_some()
}

/// Returns whether an address is global: not in the registry of special-purpose addresses (RFC 6890), nor in section 3 of
/// RFC 5735, to which RFC 6052 section 3.1 refers and which also lists the anycast addresses of 6to4 relays.
fn is_global(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [192, 168, ..]
            | [198, 18..=19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
            | [224..=255, ..]
    )
}

#[cfg(test)]
mod tests;
