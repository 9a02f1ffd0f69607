//! The resolution of dns64d in XDP: the maps of `bpf/resolver.bpf.c` besides those of the cache.
//!
//! ```text
//!   rules ──Rules──> maps "embeddings", "mapped", "apart" <── program ──> upstream
//!   random numbers ──> map "draws" (`draws`) <──────────────────┤
//!   server <── Handed ── ring "events" <── other replies ───────┤
//!      └────── Handed ── maps "deadlines", "slots" <── no reply ┘
//! ```

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

use aya::maps::lpm_trie::Key;
use aya::maps::{Array, HashMap, LpmTrie, MapData, RingBuf};
use measure::Nanos;
use nix::net::if_::if_nametoindex;

use crate::cache::{octets, sums};
use crate::error::KernelError;
use crate::layout::Layout;
use crate::program::Loaded;
use crate::shared::SharedWords;
use crate::stored::mix;
use crate::tester::Route;

/// Sizes of the structures in `bpf/resolver.bpf.c`, in octets.
const UPSTREAM: usize = 128;
const EMBEDDING: usize = 24;
const MAPPED: usize = 8;
const SLOT: usize = 400;
const EVENT: usize = SLOT + 24;
const HANDED: usize = 1024;
/// Places of fields in a slot.
const SERVER_AT: usize = 24;
const CLIENT_AT: usize = 40;
const SERVER_PORT_AT: usize = 68;
const CLIENT_PORT_AT: usize = 70;
const LEN_AT: usize = 96;
const NAME_LEN_AT: usize = 100;
const QUERY_AT: usize = 112;
const NAME_AT: usize = 272;
/// Places of fields in an event: port and address of the server that was asked.
const ASKED_PORT_AT: usize = SLOT + 4;
const ASKED_AT: usize = SLOT + 8;
/// Number of servers whose replies are taken: the one that is asked, and the one before it.
const UPSTREAMS: usize = 2;
/// Number of slots, which is that of places.
const SLOTS: usize = 65_536;
/// Word of a place on which a core works.
const BUSY: u64 = u64::MAX;
/// What a word has of the number of the slot; the rest is the deadline.
const SLOT_OF: u64 = SLOTS as u64 - 1;
/// Octets of a name that the program compares.
const MAX_NAME: usize = 128;
/// Highest number of blocks with a prefix.
pub const MAX_BLOCKS: usize = 32;
/// Highest number of names apart, and of networks.
pub const MAX_RULES: usize = 65_536;
/// Longest options of replies, in octets.
const MAX_OPTIONS: usize = 16;
/// Stage of a query for AAAA.
const STAGE_AAAA: u8 = 1;
/// Time after the end of a slot's wait until it is taken over, so that no core works on it any more; the clock of the program may be a tick late.
const SETTLED: Nanos = Nanos::from_millis(50);
/// Number of counters of each core.
const COUNTERS: usize = 8 + MAX_BLOCKS;

/// How a block makes IPv6 addresses: `base` with the octets of the IPv4 address at these places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedding {
    /// Number of the block.
    pub block: u32,
    /// All other octets.
    pub base: Ipv6Addr,
    /// Places of the octets of the IPv4 address.
    pub places: [u8; 4],
    /// Largest TTL of an address, in seconds.
    pub max_ttl: u32,
    /// Networks of IPv4 addresses, and whether the block maps those that are in no smaller network of the list.
    pub networks: Vec<([u8; 4], u8, bool)>,
}

/// What the program may resolve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Blocks whose prefixes it may use.
    pub embeddings: Vec<Embedding>,
    /// Names in wire form and in lower case, at and below which it resolves nothing.
    pub apart: Vec<Vec<u8>>,
}

/// How the program asks upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The server.
    pub server: SocketAddr,
    /// The way to it.
    pub route: Route,
    /// Generation of the rules with which it may be asked.
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
    /// See `ttl_without_soa`.
    pub min_ttl: u32,
    /// See `ttl_without_soa`.
    pub max_ttl: u32,
    /// EDNS options of replies to clients, in wire form.
    pub options: Vec<u8>,
}

/// Maps of rules and of the way to upstream.
pub struct ResolverRules {
    upstreams: Array<MapData, [u8; UPSTREAM]>,
    embeddings: Array<MapData, [u8; EMBEDDING]>,
    mapped: LpmTrie<MapData, [u8; MAPPED], u32>,
    apart: HashMap<MapData, u64, u32>,
    /// Lengths of the names in `apart`, as bits.
    lengths: u128,
    seed: u64,
    /// The servers in `upstreams`.
    known: [Known; UPSTREAMS],
    /// Place of the server that is asked, or was asked last.
    current: usize,
}

/// A server in the map of upstreams.
#[derive(Clone, Copy)]
struct Known {
    /// The server and our address towards it.
    ends: Option<(SocketAddr, IpAddr)>,
    entry: [u8; UPSTREAM],
}

/// Maps that the server serves while the program runs.
pub struct ResolverWork {
    events: RingBuf<MapData>,
    deadlines: SharedWords,
    slots: Array<MapData, [u8; SLOT]>,
    /// The last word of each place whose slot was taken over.
    taken: Vec<u64>,
}

/// Counters of the resolution.
pub struct ResolverCounters(Array<MapData, [u64; COUNTERS]>);

/// Values of the counters, all cores together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Number of answers to clients after resolution.
    pub answers: u64,
    /// Number of queries to upstream, and of replies to them.
    pub queries: u64,
    /// See `queries`.
    pub replies: u64,
    /// Number of transactions handed over with a reply.
    pub handed: u64,
    /// Number of messages from upstream for which no slot waited.
    pub strays: u64,
    /// Number of queries left to the sockets for want of a random number, and of a slot.
    pub no_draw: u64,
    /// See `no_draw`.
    pub no_slot: u64,
    /// Number of queries left to the sockets since their name was being resolved.
    pub equal: u64,
    /// Number of answers by block.
    pub blocks: Vec<u64>,
}

/// A client's query that the server continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The client.
    pub client: SocketAddr,
    /// The server's address that it asked.
    pub server: SocketAddr,
    /// Its query.
    pub query: Vec<u8>,
    /// The reply to the query for AAAA, with the question as it was sent, and the server that sent it; `None` if there is none of
    /// use.
    pub reply: Option<(SocketAddr, Vec<u8>)>,
}

/// Makes the maps of the resolver of a program that is loaded.
///
/// # Errors
/// If the object lacks one, or the kernel does not share the memory of one.
pub(crate) fn maps(
    program: &mut Loaded,
    seed: u64,
) -> Result<(ResolverRules, ResolverWork, ResolverCounters), KernelError> {
    let rules = ResolverRules {
        upstreams: Array::try_from(program.take("upstreams")?)?,
        embeddings: Array::try_from(program.take("embeddings")?)?,
        mapped: LpmTrie::try_from(program.take("mapped")?)?,
        apart: HashMap::try_from(program.take("apart")?)?,
        lengths: 0,
        seed,
        known: [Known { ends: None, entry: [0; UPSTREAM] }; UPSTREAMS],
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
    /// Replaces the rules. The program must not resolve meanwhile: without a generation it does not.
    ///
    /// # Errors
    /// If a map has no room, or the kernel refuses an entry.
    pub fn set(&mut self, rules: &Rules) -> Result<(), KernelError> {
        let networks: Vec<_> = self.mapped.keys().collect::<Result<_, _>>()?;
        networks.iter().try_for_each(|network| self.mapped.remove(network))?;
        let names: Vec<_> = self.apart.keys().collect::<Result<_, _>>()?;
        names.iter().try_for_each(|name| self.apart.remove(name))?;
        for embedding in &rules.embeddings {
            let mut entry = Layout::<EMBEDDING>::new();
            entry.put(16, &embedding.base.octets());
            entry.put(4, &embedding.places);
            entry.put_u32(embedding.max_ttl);
            self.embeddings.set(embedding.block, entry.finish(), 0)?;
            for &(address, len, is_mapped) in &embedding.networks {
                let mut data = Layout::<MAPPED>::new();
                data.put_u32(embedding.block);
                data.put(4, &address);
                let key = Key::new(32 + u32::from(len), data.finish());
                self.mapped.insert(&key, u32::from(is_mapped), 0)?;
            }
        }
        self.lengths = 0;
        for name in rules.apart.iter().filter(|name| (1..=MAX_NAME).contains(&name.len())) {
            let hash = name.iter().fold(self.seed, |hash, octet| mix(hash, u64::from(*octet)));
            self.apart.insert(hash, 1, 0)?;
            self.lengths |= 1 << (name.len() - 1);
        }
        Ok(())
    }

    /// Sets how upstream is asked; without it the program resolves nothing. Replies of the server that was asked before are taken
    /// nevertheless.
    ///
    /// # Errors
    /// If the device of the way is gone, or the kernel refuses it.
    pub fn ask(&mut self, upstream: Option<&Upstream>) -> Result<(), KernelError> {
        let Some(upstream) = upstream else {
            return (0..UPSTREAMS).try_for_each(|place| self.ask_no_longer(place));
        };
        let ends = Some((upstream.server, upstream.route.source));
        let same = self.known.iter().position(|known| known.ends == ends);
        let place = same.unwrap_or((self.current + 1) % UPSTREAMS);
        let entry = self.entry(upstream, place)?;
        self.upstreams.set(place as u32, entry, 0)?;
        self.known[place] = Known { ends, entry };
        self.current = place;
        (0..UPSTREAMS)
            .filter(|other| *other != place)
            .try_for_each(|other| self.ask_no_longer(other))
    }

    /// Lets the program only take replies of a server.
    fn ask_no_longer(&mut self, place: usize) -> Result<(), KernelError> {
        // The generation stands first.
        let generation = self.known[place].entry[..8].iter_mut();
        if generation.fold(0, |any, octet| any | std::mem::take(octet)) != 0 {
            self.upstreams.set(place as u32, self.known[place].entry, 0)?;
        }
        Ok(())
    }

    /// Returns `struct upstream`.
    fn entry(&self, upstream: &Upstream, place: usize) -> Result<[u8; UPSTREAM], KernelError> {
        let Upstream { server, route, .. } = upstream;
        let device = if_nametoindex(route.device.as_str())
            .map_err(|e| KernelError::Plan(format!("the device {}: {e}", route.device)))?;
        let mut entry = Layout::<UPSTREAM>::new();
        entry.put_u64(upstream.generation);
        entry.put_u64(upstream.timeout.0);
        entry.put_u64(self.lengths as u64);
        entry.put_u64((self.lengths >> 64) as u64);
        entry.put(16, &octets(route.source));
        entry.put(16, &octets(server.ip()));
        entry.put(6, &route.hardware);
        entry.put(6, &route.neighbour);
        entry.put(2, &[]);
        entry.put(2, &server.port().to_be_bytes());
        entry.put_u32(device);
        entry.put(4, &[u8::from(server.is_ipv6()), upstream.traffic_class]);
        entry.put_u32(upstream.ttl_without_soa);
        entry.put_u32(upstream.min_ttl);
        entry.put_u32(upstream.max_ttl);
        entry.put(2, &upstream.udp_size.to_ne_bytes());
        let options = upstream.options.get(..MAX_OPTIONS).unwrap_or(&upstream.options);
        entry.put(2, &[u8::from(upstream.mixed_case), options.len() as u8]);
        entry.put(MAX_OPTIONS, options);
        entry.put_u32(place as u32);
        entry.put_u32(0);
        Ok(entry.finish())
    }
}

impl ResolverWork {
    /// Returns what the program hands over, one transaction at a time; `None` if there is nothing more.
    pub fn handed(&mut self) -> Option<Handed> {
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

    /// Gives `with` the transactions that had no reply until `now`, each once.
    ///
    /// # Errors
    /// If the kernel does not give them.
    pub fn expired(&mut self, now: Nanos, mut with: impl FnMut(Handed)) -> Result<(), KernelError> {
        for (at, taken) in self.deadlines.words().iter().zip(&mut self.taken) {
            let word = at.load(Ordering::Acquire);
            let deadline = word & !SLOT_OF;
            let is_over = word != BUSY && now.0 > deadline.saturating_add(SETTLED.0);
            if word == 0 || !is_over || *taken == word {
                continue;
            }
            *taken = word;
            let octets = self.slots.get(&((word & SLOT_OF) as u32), 0)?;
            // Unless the slot has another query by now.
            if at.load(Ordering::Acquire) == word {
                read_slot(&octets).into_iter().for_each(&mut with);
            }
        }
        Ok(())
    }
}

impl ResolverCounters {
    /// Returns the counters.
    ///
    /// # Errors
    /// If the kernel does not give them.
    pub fn read(&self) -> Result<Resolved, KernelError> {
        let [answers, queries, replies, handed, strays, no_draw, no_slot, equal, blocks @ ..] =
            sums(&self.0)?;
        let blocks = blocks.to_vec();
        let counted =
            Resolved { answers, queries, replies, handed, strays, no_draw, no_slot, equal, blocks };
        Ok(counted)
    }
}

/// Reads an event; `None` if it is none.
fn read_event(bytes: &[u8]) -> Option<Handed> {
    let (head, rest) = bytes.split_at_checked(EVENT)?;
    let mut handed = read_slot(head)?;
    let len = u32::from_ne_bytes(*head.get(SLOT..)?.first_chunk()?) as usize;
    let reply = rest.get(..len).filter(|reply| !reply.is_empty() && len <= HANDED);
    let name_len = usize::from(head[NAME_LEN_AT]);
    let sent = head.get(NAME_AT..)?.get(..name_len)?;
    // Only a reply in the letter case of the query is one to it.
    let is_own = |reply: &&[u8]| reply.get(12..12 + name_len) == Some(sent);
    let is_first = head[NAME_LEN_AT + 1] == STAGE_AAAA;
    let server = SocketAddr::new(address(head, ASKED_AT)?, port(head, ASKED_PORT_AT)?);
    let reply = reply.filter(is_own).filter(|_| is_first);
    handed.reply = reply.map(|reply| (server, reply.to_vec()));
    Some(handed)
}

/// Reads an address; IPv4 is mapped to IPv6.
fn address(bytes: &[u8], at: usize) -> Option<IpAddr> {
    let octets = bytes.get(at..)?.first_chunk::<16>()?;
    Some(IpAddr::from(*octets).to_canonical())
}

/// Reads a port as on the wire.
fn port(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads a slot; `None` if it is none.
fn read_slot(bytes: &[u8]) -> Option<Handed> {
    let len = usize::from(u16::from_ne_bytes(*bytes.get(LEN_AT..)?.first_chunk()?));
    let query = bytes.get(QUERY_AT..NAME_AT)?.get(..len)?.to_vec();
    let client = SocketAddr::new(address(bytes, CLIENT_AT)?, port(bytes, CLIENT_PORT_AT)?);
    let server = SocketAddr::new(address(bytes, SERVER_AT)?, port(bytes, SERVER_PORT_AT)?);
    Some(Handed { client, server, query, reply: None })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes an event as the program does.
    fn event(name: &[u8], stage: u8, reply: &[u8]) -> Vec<u8> {
        let query = [b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0", name, &[0, 28, 0, 1]].concat();
        let mut slot = Layout::<EVENT>::new();
        slot.put(SERVER_AT, &[]);
        slot.put(16, &octets("fd00::1".parse().expect("an address")));
        slot.put(16, &octets("10.0.0.1".parse().expect("an address")));
        slot.put(6 + 6, &[]);
        slot.put(4, &[0, 53, 0x12, 0x34]);
        slot.put(LEN_AT - CLIENT_PORT_AT - 2, &[]);
        slot.put(4, &(query.len() as u16).to_ne_bytes());
        slot.put(QUERY_AT - NAME_LEN_AT, &[name.len() as u8, stage]);
        slot.put(NAME_AT - QUERY_AT, &query);
        slot.put(MAX_NAME, &name.to_ascii_uppercase());
        slot.put_u32(reply.len() as u32);
        slot.put(4, &[0, 53]);
        slot.put(16, &octets("192.0.2.1".parse().expect("an address")));
        [&slot.finish()[..], reply, &[0; 9]].concat()
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
        assert_eq!(read_event(&[0; SLOT]), None);
    }

    proptest! {
        #[test]
        fn any_octets_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..2 * EVENT)) {
            if let Some(handed) = read_event(&bytes) {
                prop_assert!(handed.query.len() <= NAME_AT - QUERY_AT);
            }
        }
    }
}
