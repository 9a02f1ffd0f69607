//! The resolution of dns64d in XDP: the maps of `bpf/resolver_maps.h` besides those of the cache.
//!
//! ```text
//!   rules ──Rules──> maps "embeddings", "mapped", "apart" <── program ──> upstream
//!   random numbers ──> map "draws" (`draws`) <──────────────────┤
//!   server <── HandedQuery ── ring "events" <── other replies ──┤
//!      └────── HandedQuery ── maps "deadlines", "slots" <── no reply ┘
//! ```

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

use aya::maps::lpm_trie::Key;
use aya::maps::{Array, HashMap, LpmTrie, MapData, RingBuf};
use measure::Nanos;
use nix::net::if_::if_nametoindex;

use crate::cache::sums;
use crate::error::KernelError;
use crate::program::Programs;
pub use crate::records::MAX_BLOCKS;
use crate::records::{
    EmbeddingRecord, EventRecord, MAX_OPTIONS, Mapped, Record, ResolvedCounts, STORED_NAME, Slot,
    UpstreamRecord, Way, address, filled, octets,
};
use crate::shared::SharedWords;
use crate::stored::mix;
use crate::tester::Route;

/// Longest reply that is handed over, in octets.
const HANDED: usize = 1024;
/// Number of servers whose replies are accepted: the queried one, and the previous one.
const UPSTREAMS: usize = 2;
/// Number of slots, and of places.
const SLOTS: usize = 65_536;
/// Word of a place on which a core works.
const BUSY_WORD: u64 = u64::MAX;
/// Bits of a word for the number of the slot; the other bits are the deadline.
const SLOT_OF: u64 = SLOTS as u64 - 1;
/// Highest number of names with their own treatment, and of networks.
pub const MAX_RULES: usize = 65_536;
/// Stage of a query for AAAA.
const STAGE_AAAA: u8 = 1;
/// Time after the end of a slot's wait until it is taken over, so that no core still works on it;
/// the clock of the program may be a tick late.
const SETTLE_TIME: Nanos = Nanos::from_millis(50);

/// How a block makes IPv6 addresses: `base` with the octets of the IPv4 address at these places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedding {
    /// Number of the block in the configuration, from 0.
    pub block: u32,
    /// The address with zeros in the places of the IPv4 address.
    pub base: Ipv6Addr,
    /// Places of the octets of the IPv4 address.
    pub places: [u8; 4],
    /// Largest TTL of an address, in seconds.
    pub max_ttl: u32,
    /// Networks of IPv4 addresses, and whether the block maps those that are in no smaller network of the list.
    pub networks: Vec<([u8; 4], u8, bool)>,
}

/// Rules for the queries that the program may resolve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Blocks whose prefixes the program may use.
    pub embeddings: Vec<Embedding>,
    /// Names in wire form and in lower case, at and below which the program resolves nothing.
    pub apart: Vec<Vec<u8>>,
}

/// The server that the program queries, and the terms of its queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Address and port of the server.
    pub server: SocketAddr,
    /// Device and addresses of the frames to it.
    pub route: Route,
    /// Generation of the rules under which it may be queried.
    pub generation: u64,
    /// Time to wait for a reply.
    pub timeout: Nanos,
    /// UDP payload size in queries, in octets; 0: without EDNS.
    pub udp_size: u16,
    /// Class of the traffic: the octet in the header of IP.
    pub traffic_class: u8,
    /// Whether the letters of names are in random case.
    pub mixed_case: bool,
    /// TTL of addresses if upstream gives no SOA record, and the bounds of TTLs, in seconds.
    pub ttl_without_soa: u32,
    /// Shortest time for which an address is cached, even if its TTL is shorter, in seconds.
    pub min_ttl: u32,
    /// Longest TTL of an address, in seconds.
    pub max_ttl: u32,
    /// EDNS options of replies to clients, in wire form.
    pub options: Vec<u8>,
}

/// Maps of rules and of the way to upstream.
pub struct ResolverRules {
    upstreams: Array<MapData, UpstreamRecord>,
    embeddings: Array<MapData, EmbeddingRecord>,
    mapped: LpmTrie<MapData, Mapped, u32>,
    apart: HashMap<MapData, u64, u32>,
    /// Lengths of the names in `apart`, as bits.
    lengths: u128,
    seed: u64,
    /// The servers in `upstreams`, by place.
    known: [KnownServer; UPSTREAMS],
    /// Place of the server that is queried, or was queried last.
    current: usize,
}

/// A server in the map of upstreams.
#[derive(Clone, Copy)]
struct KnownServer {
    /// The server and our address towards it.
    ends: Option<(SocketAddr, IpAddr)>,
    entry: UpstreamRecord,
}

/// Maps that the server serves while the program runs.
pub struct ResolverWork {
    events: RingBuf<MapData>,
    deadlines: SharedWords,
    slots: Array<MapData, Slot>,
    /// The last word of each place whose slot was taken over.
    taken: Vec<u64>,
}

/// The map in which each core counts the outcomes of resolutions.
pub struct ResolverCounters(Array<MapData, ResolvedCounts>);

/// Values of the counters, all cores together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Number of answers to clients after resolution.
    pub answers: u64,
    /// Number of queries to upstream, and of replies to them.
    pub queries: u64,
    /// Number of replies from upstream for which a slot waited.
    pub replies: u64,
    /// Number of transactions handed over with a reply.
    pub handed: u64,
    /// Number of messages from upstream for which no slot waited.
    pub strays: u64,
    /// Number of queries left to the sockets without a random number.
    pub no_draw: u64,
    /// Number of queries left to the sockets without a free slot.
    pub no_slot: u64,
    /// Number of queries left to the sockets because the same question was pending.
    pub equal: u64,
    /// Number of answers by block.
    pub blocks: Vec<u64>,
}

/// A client's query that the server continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedQuery {
    /// Address and port of the client, which gets the answer.
    pub client: SocketAddr,
    /// The address of this server that the client queried.
    pub server: SocketAddr,
    /// The client's query as it came.
    pub query: Vec<u8>,
    /// The reply to the query for AAAA, with the question as it was sent, and the server that sent
    /// it; `None` without a usable reply.
    pub reply: Option<(SocketAddr, Vec<u8>)>,
}

/// Makes the maps of the resolver of a program that is loaded.
///
/// # Errors
/// If the object lacks one, or the kernel does not share the memory of one.
pub(crate) fn maps(
    program: &mut Programs,
    seed: u64,
) -> Result<(ResolverRules, ResolverWork, ResolverCounters), KernelError> {
    let rules = ResolverRules {
        upstreams: Array::try_from(program.take("upstreams")?)?,
        embeddings: Array::try_from(program.take("embeddings")?)?,
        mapped: LpmTrie::try_from(program.take("mapped")?)?,
        apart: HashMap::try_from(program.take("apart")?)?,
        lengths: 0,
        seed,
        known: [KnownServer { ends: None, entry: UpstreamRecord::ZERO }; UPSTREAMS],
        current: 0,
    };
    let work = ResolverWork {
        events: RingBuf::try_from(program.take("events")?)?,
        deadlines: SharedWords::of(program, "deadlines", SLOTS)?,
        slots: Array::try_from(program.take("slots")?)?,
        taken: vec![0; SLOTS],
    };
    let counters = ResolverCounters(Array::try_from(program.take("resolutions")?)?);
    Ok((rules, work, counters))
}

impl ResolverRules {
    /// Replaces the rules. The program must not resolve during this; without a generation it does
    /// not.
    ///
    /// # Errors
    /// If a map has no room, or the kernel refuses an entry.
    pub fn set(&mut self, rules: &Rules) -> Result<(), KernelError> {
        let networks: Vec<_> = self.mapped.keys().collect::<Result<_, _>>()?;
        networks.iter().try_for_each(|network| self.mapped.remove(network))?;
        let names: Vec<_> = self.apart.keys().collect::<Result<_, _>>()?;
        names.iter().try_for_each(|name| self.apart.remove(name))?;
        for embedding in &rules.embeddings {
            let &Embedding { block, base, places, max_ttl, .. } = embedding;
            let entry = EmbeddingRecord { base: base.octets(), places, max_ttl };
            self.embeddings.set(block, entry, 0)?;
            for &(address, len, is_mapped) in &embedding.networks {
                let key = Key::new(32 + u32::from(len), Mapped { block, address });
                self.mapped.insert(&key, u32::from(is_mapped), 0)?;
            }
        }
        self.lengths = 0;
        for name in rules.apart.iter().filter(|name| (1..=STORED_NAME).contains(&name.len())) {
            let hash = name.iter().fold(self.seed, |hash, octet| mix(hash, u64::from(*octet)));
            self.apart.insert(hash, 1, 0)?;
            self.lengths |= 1 << (name.len() - 1);
        }
        Ok(())
    }

    /// Sets the route to upstream, without which the program resolves nothing. Replies of the
    /// previously queried server are still accepted.
    ///
    /// # Errors
    /// If the device of the route is gone, or the kernel refuses it.
    pub fn ask(&mut self, upstream: Option<&Upstream>) -> Result<(), KernelError> {
        let Some(upstream) = upstream else {
            return (0..UPSTREAMS).try_for_each(|place| self.ask_no_longer(place));
        };
        let ends = Some((upstream.server, upstream.route.source));
        let same = self.known.iter().position(|known| known.ends == ends);
        let place = same.unwrap_or((self.current + 1) % UPSTREAMS);
        let entry = self.entry(upstream, place)?;
        self.upstreams.set(place as u32, entry, 0)?;
        self.known[place] = KnownServer { ends, entry };
        self.current = place;
        (0..UPSTREAMS)
            .filter(|other| *other != place)
            .try_for_each(|other| self.ask_no_longer(other))
    }

    /// Stops queries to the server; its replies are still accepted.
    fn ask_no_longer(&mut self, place: usize) -> Result<(), KernelError> {
        if std::mem::take(&mut self.known[place].entry.generation) != 0 {
            self.upstreams.set(place as u32, self.known[place].entry, 0)?;
        }
        Ok(())
    }

    /// Returns the entry of a server in the map of upstreams.
    fn entry(&self, upstream: &Upstream, place: usize) -> Result<UpstreamRecord, KernelError> {
        let Upstream { server, route, .. } = upstream;
        let device = if_nametoindex(route.device.as_str())
            .map_err(|e| KernelError::Plan(format!("the device {}: {e}", route.device)))?;
        let options = upstream.options.get(..MAX_OPTIONS).unwrap_or(&upstream.options);
        Ok(UpstreamRecord {
            generation: upstream.generation,
            timeout: upstream.timeout.0,
            lengths: [self.lengths as u64, (self.lengths >> 64) as u64],
            way: Way {
                from: octets(route.source),
                to: octets(server.ip()),
                from_mac: route.hardware,
                to_mac: route.neighbour,
                to_port: server.port().to_be(),
                device,
                v6: u8::from(server.is_ipv6()),
                tos: upstream.traffic_class,
                ..Way::ZERO
            },
            ttl_without_soa: upstream.ttl_without_soa,
            min_ttl: upstream.min_ttl,
            max_ttl: upstream.max_ttl,
            udp_size: upstream.udp_size,
            mixed_case: u8::from(upstream.mixed_case),
            options_len: options.len() as u8,
            options: filled(options),
            place: place as u32,
            spare: 0,
        })
    }
}

impl ResolverWork {
    /// Returns the next transaction that the program hands over; `None` if there is none.
    pub fn handed(&mut self) -> Option<HandedQuery> {
        loop {
            let item = self.events.next()?;
            if let Some(handed) = read_event(&item) {
                return Some(handed);
            }
        }
    }

    /// Returns the ring of events, to wait for.
    pub fn ring(&self) -> impl std::os::fd::AsFd {
        &self.events
    }

    /// Passes the transactions without a reply until `now` to `with`, each once.
    ///
    /// # Errors
    /// If the kernel does not return them.
    pub fn expired(
        &mut self,
        now: Nanos,
        mut with: impl FnMut(HandedQuery),
    ) -> Result<(), KernelError> {
        for (at, taken) in self.deadlines.words().iter().zip(&mut self.taken) {
            let word = at.load(Ordering::Acquire);
            let deadline = word & !SLOT_OF;
            let is_over = word != BUSY_WORD && now.0 > deadline.saturating_add(SETTLE_TIME.0);
            if word == 0 || !is_over || *taken == word {
                continue;
            }
            *taken = word;
            let slot = self.slots.get(&((word & SLOT_OF) as u32), 0)?;
            // Unless the slot has another query by now.
            if at.load(Ordering::Acquire) == word {
                slot.query().into_iter().for_each(&mut with);
            }
        }
        Ok(())
    }
}

impl ResolverCounters {
    /// Returns the counters.
    ///
    /// # Errors
    /// If the kernel does not return them.
    pub fn read(&self) -> Result<Resolved, KernelError> {
        let sums = sums(&self.0)?;
        let ResolvedCounts { answers, queries, replies, handed, strays, .. } = sums;
        let ResolvedCounts { no_draw, no_slot, equal, blocks, .. } = sums;
        let blocks = blocks.to_vec();
        let counted =
            Resolved { answers, queries, replies, handed, strays, no_draw, no_slot, equal, blocks };
        Ok(counted)
    }
}

/// Reads an event; `None` if the octets are no event.
fn read_event(octets: &[u8]) -> Option<HandedQuery> {
    let EventRecord { slot, reply_len, port, server, .. } = EventRecord::read(octets)?;
    let mut handed = slot.query()?;
    let reply = octets[size_of::<EventRecord>()..].get(..reply_len as usize);
    let sent = slot.name.get(..slot.name_len.into())?;
    // A reply must have the letter case of the query.
    let is_own =
        |reply: &&[u8]| reply.len() <= HANDED && reply.get(12..12 + sent.len()) == Some(sent);
    let reply = reply.filter(is_own).filter(|_| slot.stage == STAGE_AAAA);
    handed.reply = reply.map(|reply| (address(server, port), reply.to_vec()));
    Some(handed)
}

impl Slot {
    /// Returns the client's query; `None` if its length is not possible.
    fn query(&self) -> Option<HandedQuery> {
        let Way { from, to, from_port, to_port, .. } = self.way;
        let query = self.query.get(..self.len.into())?.to_vec();
        let (client, server) = (address(to, to_port), address(from, from_port));
        Some(HandedQuery { client, server, query, reply: None })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::records::STORED_QUERY;

    /// Writes an event as the program does.
    fn event(name: &[u8], stage: u8, reply: &[u8]) -> Vec<u8> {
        let query = [b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0", name, &[0, 28, 0, 1]].concat();
        let address = |text: &str| octets(text.parse().expect("an address"));
        let (from, to) = (address("fd00::1"), address("10.0.0.1"));
        let (from_port, to_port) = (53u16.to_be(), 0x1234u16.to_be());
        let slot = Slot {
            way: Way { from, to, from_port, to_port, ..Way::ZERO },
            len: query.len() as u16,
            name_len: name.len() as u8,
            stage,
            query: filled(&query),
            name: filled(&name.to_ascii_uppercase()),
            ..Slot::ZERO
        };
        let server = address("192.0.2.1");
        let reply_len = reply.len() as u32;
        let event = EventRecord { slot, reply_len, port: from_port, spare: 0, server };
        [event.octets(), reply, &[0; 9]].concat()
    }

    #[test]
    fn events_are_read_as_the_program_writes_them() {
        let name = b"\x03www\x04test\0";
        let own = [&[7; 12][..], b"\x03WWW\x04TEST\0", &[0, 28, 0, 1]].concat();
        let handed = read_event(&event(name, STAGE_AAAA, &own)).expect("an event");
        assert_eq!(handed.client, "10.0.0.1:4660".parse().expect("an address"));
        assert_eq!(handed.server, "[fd00::1]:53".parse().expect("an address"));
        let server = "192.0.2.1:53".parse().expect("an address");
        assert_eq!((handed.query.len(), handed.reply), (12 + 10 + 4, Some((server, own.clone()))));
        // Of another stage, in another letter case, too short.
        for (stage, reply) in [(2, &own[..]), (1, &own.to_ascii_lowercase()), (1, &own[..20])] {
            let handed = read_event(&event(name, stage, reply)).expect("an event");
            assert_eq!(handed.reply, None, "{reply:?}");
        }
        assert_eq!(read_event(&[0; size_of::<Slot>()]), None);
    }

    proptest! {
        #[test]
        fn any_octets_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..2 * size_of::<EventRecord>())) {
            if let Some(handed) = read_event(&bytes) {
                prop_assert!(handed.query.len() <= STORED_QUERY);
            }
        }
    }
}
