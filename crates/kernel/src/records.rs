//! The records that programs and this process read and write in their maps: the structures of
//! `bpf/`, field by field. The comments in `bpf/` explain the fields; a test compares both sides by
//! the type information (BTF) of the objects.

#![allow(unsafe_code)]

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use aya::Pod;

/// Highest number of veth devices on which the program is attached.
pub(crate) const DEVICES: usize = 64;
/// Number of types that are counted one by one, and the place of all others.
const TYPES: usize = 261;
/// Octets of a name that a program stores.
pub(crate) const STORED_NAME: usize = 128;
/// Longest query of a client that the program resolves, in octets.
pub(crate) const STORED_QUERY: usize = 160;
/// Longest options of replies after a resolution, in octets.
pub(crate) const MAX_OPTIONS: usize = 16;
/// Highest number of blocks with a prefix.
pub const MAX_BLOCKS: usize = 32;
/// Octets in which a Tester's program has the frame of a query.
const FRAME: usize = 520;
/// Most instants at which a Tester counts outstanding queries.
const INSTANTS: usize = 128;

/// A structure without padding, of which all octets are valid.
///
/// # Safety
/// It consists of numbers and arrays of them.
pub(crate) unsafe trait Record: Pod {
    /// Name of the structure in C, and the name and place (in octets) of each field.
    #[cfg(test)]
    const LAYOUT: (&'static str, &'static [(&'static str, usize)]);

    /// The record whose octets are all 0, the initial value in an array map.
    const ZERO: Self;

    /// Reads the record at the start of some octets; `None` if there are too few.
    fn read(octets: &[u8]) -> Option<Self> {
        let octets = octets.get(..size_of::<Self>())?;
        // SAFETY: there are as many octets, and each of their values is a valid record.
        Some(unsafe { octets.as_ptr().cast::<Self>().read_unaligned() })
    }

    /// Returns the octets of the record, as the program reads them.
    fn octets(&self) -> &[u8] {
        // SAFETY: the record has no padding, so all octets are initialised.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }
}

macro_rules! records {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $name:ident is $c:literal { $($field:ident: $type:ty,)* }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(C)]
        $vis struct $name { $(pub(crate) $field: $type,)* }

        const _: () = {
            const fn is_plain<T: Pod>() {}
            $(is_plain::<$type>();)*
            assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*, "no padding");
        };

        // SAFETY: the fields are plain and leave no padding.
        unsafe impl Pod for $name {}

        // SAFETY: as above.
        unsafe impl Record for $name {
            #[cfg(test)]
            const LAYOUT: (&'static str, &'static [(&'static str, usize)]) =
                ($c, &[$((stringify!($field), std::mem::offset_of!($name, $field)),)*]);

            // SAFETY: zeros are valid numbers.
            const ZERO: Self = unsafe { std::mem::zeroed() };
        }
    )*};
}

records! {
    /// What the cache answers: settings.
    pub(crate) struct Config is "config" {
        generation: u64,
        seed: u64,
        max_size: u16, opt_size: u16,
        tos: u8, v4_bits: u8, v6_bits: u8, spare: u8,
        period: u64, same_period: u64,
        slip: u32, sets: u32, blocks: u32, spare2: u32,
        veths: [u32; DEVICES],
    }

    /// An address with a port, both as on the wire.
    pub(crate) struct Place is "place" { address: [u8; 16], port: u16, spare: u16, }

    /// The clients of a network.
    pub(crate) struct Client is "client" { allowed: u32, views: [u32; 4], plain: u32, }

    /// The question of a stored answer.
    pub(crate) struct Key is "key" { hash: u64, view: u32, r#type: u16, flags: u8, name_len: u8, }

    /// A stored answer, before its data.
    pub(crate) struct EntryHead is "entry" {
        generation: u64,
        stored: u64, until: u64,
        check: u64,
        answers: u16, authority: u16, additional: u16,
        flags: u16,
        body_len: u16, options_len: u16, ttls: u16, words: u16,
    }

    /// Counters of the cache, on one core.
    pub(crate) struct Counts is "counts" {
        queries: u64, answers: u64, nxdomain: u64, passed: u64, dropped: u64, limited: u64, slipped: u64,
        types: [u64; TYPES],
    }

    /// Way to an upstream server: addresses, ports and device of the frames.
    pub(crate) struct Way is "way" {
        from: [u8; 16], to: [u8; 16],
        from_mac: [u8; 6], to_mac: [u8; 6],
        from_port: u16, to_port: u16,
        device: u32,
        v6: u8, tos: u8, spare: [u8; 2],
    }

    /// A server that is asked, and how.
    pub(crate) struct UpstreamRecord is "upstream" {
        generation: u64,
        timeout: u64,
        lengths: [u64; 2],
        way: Way,
        ttl_without_soa: u32, min_ttl: u32, max_ttl: u32,
        udp_size: u16,
        mixed_case: u8,
        options_len: u8, options: [u8; MAX_OPTIONS],
        place: u32, spare: u32,
    }

    /// How a block makes addresses.
    pub(crate) struct EmbeddingRecord is "embedding" { base: [u8; 16], places: [u8; 4], max_ttl: u32, }

    /// An IPv4 address of a block, after the length of a prefix.
    pub(crate) struct Mapped is "mapped_key" { block: u32, address: [u8; 4], }

    /// A query of a client that is being resolved.
    pub(crate) struct Slot is "slot" {
        generation: u64,
        hash: u64, held: u64,
        way: Way,
        port: u16, id: u16,
        view: u32, block: u32, negative_ttl: u32,
        len: u16, limit: u16,
        name_len: u8, stage: u8, opt: u8, place: u8, hold_way: u8, spare: [u8; 7],
        query: [u8; STORED_QUERY],
        name: [u8; STORED_NAME],
    }

    /// A transaction that the server continues, before the reply.
    pub(crate) struct EventRecord is "event" {
        slot: Slot,
        reply_len: u32,
        port: u16, spare: u16, server: [u8; 16],
    }

    /// Counters of the resolution, on one core.
    pub(crate) struct ResolvedCounts is "resolved" {
        answers: u64, queries: u64, replies: u64, handed: u64, strays: u64, no_draw: u64, no_slot: u64, equal: u64,
        blocks: [u64; MAX_BLOCKS],
    }

    /// Names that the AuthDNS has, and the addresses in its answers.
    pub(crate) struct AuthRecord is "config" {
        aaaa_below: u64,
        base: [u64; 2], vary: [u64; 2], first: [u64; 2],
        prefix: u32, mask: u32,
        v4: [u8; 4], v6: [u8; 16],
        soa_ttl: u32,
        port: u16, opt_size: u16,
        soa_len: [u16; 2], ns_len: [u16; 2], pointer_len: u16,
        octet_at: [u8; 4],
        addresses: u8, redirected: u8, spare: [u8; 4],
        a: [u8; 16], aaaa: [u8; 28], server_a: [u8; 16], server_aaaa: [u8; 28],
        soa: [u8; 64], reverse_soa: [u8; 320],
        ns: [u8; 64], reverse_ns: [u8; 304],
        pointer: [u8; 272],
        zones: [Zone; 3],
        padding: [u8; 4],
    }

    /// A zone of the AuthDNS.
    pub(crate) struct Zone is "zone" { len: u16, given: u16, name: [u8; 256], }

    /// Counters of the AuthDNS, on one core.
    pub(crate) struct AuthCounts is "counts" {
        queries: u64, answers: u64, nodata: u64, nxdomain: u64, passed: u64, dropped: u64,
    }

    /// What the workers of a Tester have in common.
    pub(crate) struct TesterConfig is "config" {
        start: u64, timeout: u64, until: u64,
        step_ns: u64, steps: u64,
        names: u64, mask: u64, keys: [u64; 3], shift: u32, first: u32, sequential: u32, list: u32,
        workers: u32, ifindex: u32,
        slot_bits: u32, port_bits: u32, ports: u32, port: u32, salt: u32, many_sources: u32,
        frame_len: u32, question_len: u32, tail_len: u32, blank_len: u32,
        sum: u32, ip_sum: u32, tail_sum: u32,
        step: u32, instants: u32, seconds: u32,
        v6: u32, expect: u32, target_port: u32, rcodes: u32,
        closed: u32, keeps_places: u32,
        target: [u8; 16], address: [u8; 16], octet_at: [u8; 4],
        stopped: u32,
        frame: [u8; FRAME],
    }

    /// A worker of a Tester, on its core.
    pub(crate) struct Generator is "generator" {
        active: u64, worker: u64,
        planned: u64, end: u64,
        due: u64, fraction: u64, gap: u64, scale: u64, random: u64,
        position: u64, left: u64, taken: u64,
        next: u64, oldest: u64,
        last: u64, cursor: u64,
        late_from: u64, late_until: u64, late_worst: u64, late_queries: u64,
        stall_from: u64, stall_until: u64,
        window: u64, opened: u64, holder: u64, freed: u64,
        idle: u64,
    }

    /// Counters of a Tester, on one core.
    pub(crate) struct LoadCounts is "counts" {
        sent: u64, valid: u64, late: u64, lost: u64, duplicates: u64, unexpected: u64, blocked: u64, unread: u64,
        exhausted: u64, finished: u64,
        last_sent: u64, octets: u64, nxdomain: u64, query_octets: u64, while_sending: u64, waited: u64, last_reply: u64,
        rise: [u64; INSTANTS], fall: [u64; INSTANTS],
    }

    /// Counters of one second of a load, on one core.
    pub(crate) struct SecondCounts is "second" { sent: u64, valid: u64, nxdomain: u64, }

    /// Counters of one step of a load, on one core.
    pub(crate) struct StepCounts is "step" {
        sent: u64, answered: u64, latency: u64, answered_of_sent: u64,
    }

    /// A listed question: its first chunk, its length, and its part of the checksum.
    pub(crate) struct ListedQuestion is "question" { chunk: u32, len: u16, sum: u16, }

    /// Something that happened to a query, before the reply.
    pub(crate) struct LoadEvent is "event" {
        kind: u64, due: u64, sent: u64, at: u64,
        key: u32, port: u16, id: u16,
        len: u32, after_lost: u32,
    }
}

/// Returns the sums of the counters of all cores; they are words.
///
/// # Panics
/// If the record does not consist of words.
pub(crate) fn sum<R: Record>(cores: impl IntoIterator<Item = R>) -> R {
    let mut sums = vec![0; size_of::<R>() / 8];
    for core in cores {
        sums.iter_mut().zip(words(core.octets())).for_each(|(sum, count)| *sum += count);
    }
    let octets: Vec<u8> = sums.into_iter().flat_map(u64::to_ne_bytes).collect();
    R::read(&octets).expect("it consists of words")
}

/// Returns the words of eight octets, the last one filled up with zeros.
pub(crate) fn words(octets: &[u8]) -> impl Iterator<Item = u64> {
    octets.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    })
}

/// Returns a field with zeros after its value.
///
/// # Panics
/// If the value is longer than the field.
pub(crate) fn filled<const N: usize>(value: &[u8]) -> [u8; N] {
    let mut field = [0; N];
    field[..value.len()].copy_from_slice(value);
    field
}

/// Returns the octets of an address; IPv4 is mapped to IPv6.
pub(crate) fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Returns an address with a port as on the wire; IPv4 was mapped to IPv6.
pub(crate) fn address(octets: [u8; 16], port: u16) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::from(octets).to_canonical(), u16::from_be(port))
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Self {
        Place { address: octets(address.ip()), port: address.port().to_be(), spare: 0 }
    }
}

impl From<Place> for SocketAddr {
    fn from(place: Place) -> Self {
        address(place.address, place.port)
    }
}

#[cfg(test)]
mod tests;
