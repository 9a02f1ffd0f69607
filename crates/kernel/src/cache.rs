//! The cache of dns64d in XDP: answers queries from answers that the server has given; with the program that also resolves it is a
//! [`KernelResolver`].
//!
//! ```text
//!   server ──Stored──> Encoded ──AnswerMap──> maps "sets", "blocks" <── program ──> client
//!      └────Serving───> maps "config", "listen", "clients" <────┘
//! ```

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use aya::maps::lpm_trie::Key;
use aya::maps::{Array, HashMap, LpmTrie, MapData};
use aya::programs::ProgramFd;
use aya::util::nr_cpus;
use measure::Nanos;
use nix::net::if_::if_nametoindex;
use wire::Qtype;
use wire::message::{HEADER, Header, Record, flag};

use crate::answers::{AnswerMap, Room};
use crate::attached::{self, ALIVE};
use crate::draws::{self, ResolverDraws};
use crate::error::KernelError;
use crate::layout::Layout;
use crate::program::Loaded;
use crate::resolver::{self, ResolverCounters, ResolverRules, ResolverWork};
use crate::tester::is_veth;

/// The programs and maps of `bpf/cache.bpf.c` and `bpf/resolver.bpf.c`.
static CACHE: &[u8] = aya::include_bytes_aligned!("../bpf/cache.bpf.o");
static RESOLVER: &[u8] = aya::include_bytes_aligned!("../bpf/resolver.bpf.o");
/// Sizes of the structures in `bpf/cache.h`, in octets.
const CONFIG: usize = 56 + 4 * DEVICES;
/// Highest number of veth devices on which the program is attached.
const DEVICES: usize = 64;
pub(crate) const PLACE: usize = 20;
const CLIENT: usize = 24;
const KEY: usize = 16;
/// Parts of a stored answer, in octets, and the highest number of its records.
const MAX_NAME: usize = 128;
const MAX_OPTIONS: usize = 64;
const MAX_BODY: usize = 512;
const MAX_TTLS: usize = 16;
/// Place of the check among the words of an entry, and that of the number of words behind its head.
const CHECK_WORD: usize = 3;
const WORDS_AT: usize = 46;
/// Octets of its head.
const HEAD: usize = 48;
/// Flag of an entry without an answer: the server has one, which the sockets give.
const LEFT: u16 = 0x8000;
/// Number of types that are counted one by one, and the place of all others.
const TYPES: usize = 261;
/// Number of counters of each core.
const COUNTERS: usize = 7 + TYPES;

/// What the program answers besides answers: addresses, clients, sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Addresses of the server.
    pub listen: Vec<SocketAddr>,
    /// Clients by network; the longest network decides.
    pub clients: Vec<ClientNetwork>,
    /// Largest reply over UDP, in octets.
    pub max_udp_size: u16,
    /// UDP payload size in OPT records, in octets.
    pub edns_udp_size: u16,
    /// Class of the traffic: the octet in the header of IP.
    pub traffic_class: u8,
    /// Limits of replies.
    pub limits: ReplyLimits,
}

/// Limits of replies to each client network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Replies a second; 0 for no limit.
    pub per_second: u32,
    /// Equal answers a second; 0 for no limit.
    pub same_per_second: u32,
    /// Every n-th reply over the limit is truncated instead of left out; 0 for none.
    pub slip: u32,
    /// Length of the prefix of a network, for IPv4, in bits.
    pub ipv4_bits: u8,
    /// The same for IPv6.
    pub ipv6_bits: u8,
}

impl ReplyLimits {
    /// Returns the time for a reply in nanoseconds; 0 for no limit.
    fn period(per_second: u32) -> u64 {
        1_000_000_000u64.checked_div(per_second.into()).map_or(0, |period| period.max(1))
    }
}

/// Clients in a network, without those in smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientNetwork {
    /// First address.
    pub address: IpAddr,
    /// Length of the prefix, in bits.
    pub prefix_len: u8,
    /// Whether they may send queries.
    pub allowed: bool,
    /// Blocks that serve them, for queries without RD, with RD, and the same for those with DO and CD.
    pub views: [u32; 4],
    /// The block whose prefix alone serves them, so that the program may resolve; `None` if there is none.
    pub plain: Option<u32>,
}

/// An answer to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Generation in which it may be given.
    pub generation: u64,
    /// Type of the question.
    pub qtype: Qtype,
    /// Blocks of the clients that may get it; 0 if it is for all.
    pub view: u32,
    /// The bits RD, CD and DO of the queries that it answers.
    pub rd: bool,
    /// See `rd`.
    pub cd: bool,
    /// See `rd`.
    pub dnssec: bool,
    /// The message without an OPT record, its name in lower case.
    pub message: &'a [u8],
    /// EDNS options of the reply, in wire form.
    pub options: &'a [u8],
    /// Time (monotonic clock) since which its TTLs decrease.
    pub stored: Nanos,
    /// Time until which it may be given.
    pub until: Nanos,
}

/// An answer as the map holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    pub(crate) key: [u8; KEY],
    pub(crate) entry: Vec<u8>,
}

impl Stored<'_> {
    /// Returns the answer for a map with hashes of this seed; `None` if it is beyond the bounds of the program, or no reply
    /// without an OPT record.
    pub fn encode(&self, seed: u64) -> Option<Encoded> {
        let header = Header::read(self.message)?;
        let (name, body) = self.name_and_body()?;
        let question_end = self.message.len() - body.len();
        let ttls = ttl_places(self.message, question_end, &header.counts)?;
        if body.len() > MAX_BODY || self.options.len() > MAX_OPTIONS {
            return None;
        }
        let flags = header.flags & (flag::AD | 0xf);
        let [_, answers, authority, additional] = header.counts;
        let numbers = [answers, authority, additional, flags];
        Some(self.encoded(seed, name, numbers, &ttls, self.options, body))
    }

    /// Returns an entry which says that the sockets have an answer, since this one is not for the program; `None` if the name is
    /// beyond the bounds of the program.
    pub fn encode_left(&self, seed: u64) -> Option<Encoded> {
        let (name, _) = self.name_and_body()?;
        Some(self.encoded(seed, name, [0, 0, 0, LEFT], &[], &[], &[]))
    }

    /// Returns the name in wire form and what is behind the question; `None` if the name is beyond the bounds of the program.
    fn name_and_body(&self) -> Option<(&[u8], &[u8])> {
        let question_end = wire::message::question_end(self.message)?;
        let name = self.message.get(HEADER..question_end - 4)?;
        let fits = name.len() <= MAX_NAME && *name == *name.to_ascii_lowercase();
        fits.then(|| (name, &self.message[question_end..]))
    }

    /// Returns an entry with these numbers of records in its sections and flags, places of TTLs, options and body.
    fn encoded(
        &self,
        seed: u64,
        name: &[u8],
        numbers: [u16; 4],
        ttls: &[u16],
        options: &[u8],
        body: &[u8],
    ) -> Encoded {
        let mut head = Layout::<HEAD>::new();
        head.put_u64(self.generation);
        head.put_u64(self.stored.0);
        head.put_u64(self.until.0);
        head.put(8, &[]);
        let lens = [body.len(), options.len(), ttls.len(), 0].map(|len| len as u16);
        for number in numbers.iter().chain(&lens) {
            head.put(2, &number.to_ne_bytes());
        }
        let mut entry = head.finish().to_vec();
        let places: Vec<u8> = ttls.iter().flat_map(|place| place.to_ne_bytes()).collect();
        for part in [&places[..], name, options, body] {
            entry.extend(words(part).flat_map(u64::to_ne_bytes));
        }
        let data = ((entry.len() - HEAD) / 8) as u16;
        entry[WORDS_AT..HEAD].copy_from_slice(&data.to_ne_bytes());
        let key = self.key(name, seed);
        let check = check(&key, &entry);
        entry[8 * CHECK_WORD..][..8].copy_from_slice(&check.to_ne_bytes());
        Encoded { key, entry }
    }

    /// Returns `struct key`.
    fn key(&self, name: &[u8], seed: u64) -> [u8; KEY] {
        let flags = u8::from(self.rd) | u8::from(self.cd) << 1 | u8::from(self.dnssec) << 2;
        let mut key = Layout::<KEY>::new();
        key.put_u64(words(name).fold(seed, mix));
        key.put_u32(self.view);
        key.put(2, &self.qtype.0.to_ne_bytes());
        key.put(2, &[flags, name.len() as u8]);
        key.finish()
    }
}

/// Returns the places of the TTLs of all records behind the question; `None` if there are too many, an OPT record, or octets
/// behind them.
fn ttl_places(message: &[u8], question_end: usize, counts: &[u16; 4]) -> Option<Vec<u16>> {
    let records: u32 = counts[1..].iter().copied().map(u32::from).sum();
    if counts[0] != 1 || records as usize > MAX_TTLS {
        return None;
    }
    let (mut at, mut places) = (question_end, Vec::new());
    for _ in 0..records {
        let (record, end) = Record::read(message, at)?;
        if record.rtype == Qtype::OPT {
            return None;
        }
        // The TTL and the length stand before the data.
        places.push((record.rdata_at - 6 - question_end) as u16);
        at = end;
    }
    (at == message.len()).then_some(places)
}

/// Returns the words of eight octets, the last one filled up with zeros.
pub(crate) fn words(octets: &[u8]) -> impl Iterator<Item = u64> {
    octets.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    })
}

/// Adds a word to a hash, as the program does.
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ hash >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 29
}

/// Adds a word to the check of an entry, as the program does.
fn add(check: u64, word: u64) -> u64 {
    let check = (check ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
    check ^ check >> 32
}

/// Returns the hash of a key and of all other words of an entry.
fn check(key: &[u8; KEY], entry: &[u8]) -> u64 {
    let key = words(key).reduce(mix).unwrap_or_default();
    let others = words(entry).enumerate().filter(|(place, _)| *place != CHECK_WORD);
    others.fold(key, |check, (_, word)| add(check, word))
}

/// Counters of the program, all cores together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheCounters {
    /// Number of messages to the server's addresses.
    pub queries: u64,
    /// Number of replies.
    pub answers: u64,
    /// Number of them that say that the name does not exist; all others are NOERROR.
    pub nxdomain: u64,
    /// Number of messages that the sockets were left to answer.
    pub passed: u64,
    /// Number of messages without a reply, since there was no room in the frame.
    pub dropped: u64,
    /// Number of replies over the limits, and of those among them that were truncated and not left out.
    pub limited: u64,
    /// See `limited`.
    pub slipped: u64,
    /// Number of replies by the type of the question; the last one is for all higher types.
    pub types: Vec<u64>,
}

/// The cache in the kernel, until it is dropped. It answers nothing before it [serves](Self::serve).
pub struct KernelCache {
    program: Loaded,
    /// Name of the program.
    name: &'static str,
    /// Numbers of the devices on which it is to stay.
    stays_on: Vec<u32>,
    /// Whether its maps have all of what is served.
    is_whole: bool,
    config: Array<MapData, [u8; CONFIG]>,
    listen: HashMap<MapData, [u8; PLACE], u32>,
    clients: LpmTrie<MapData, [u8; 16], [u8; CLIENT]>,
    seed: u64,
    /// Its room for answers.
    room: Room,
    /// Numbers of the veth devices on which it is attached.
    veths: Vec<u32>,
}

/// The cache with the program that also resolves, and its maps.
pub struct KernelResolver {
    /// The cache.
    pub cache: KernelCache,
    /// Its answers.
    pub answers: AnswerMap,
    /// Its counters.
    pub counters: CounterMap,
    /// What the program may resolve, and how.
    pub rules: ResolverRules,
    /// Its random numbers.
    pub draws: ResolverDraws,
    /// What is served while it runs.
    pub work: ResolverWork,
    /// Counters of the resolution.
    pub resolved: ResolverCounters,
}

/// The map of counters.
pub struct CounterMap(Array<MapData, [u64; COUNTERS]>);

impl KernelCache {
    /// Loads the program with so many octets of memory for answers. `seed` must be drawn from the operating system, so that nobody
    /// can make answers displace each other.
    ///
    /// # Errors
    /// If this user may not, or the kernel refuses it.
    pub fn load(memory: usize, seed: u64) -> Result<(Self, AnswerMap, CounterMap), KernelError> {
        let room = Room::within(memory, false);
        let [sets, blocks] = room.sizes();
        let program = Loaded::maps(CACHE, &[sets, blocks, ("counters", cores()?)])?;
        Self::of(program, "dns64d_cache", seed, room)
    }

    /// Works as [`load`](Self::load), with the program that also resolves.
    ///
    /// # Errors
    /// If this user may not, or the kernel refuses it.
    pub fn load_resolver(memory: usize, seed: u64) -> Result<KernelResolver, KernelError> {
        let (cores, room) = (cores()?, Room::within(memory, true));
        let mut sizes = room.sizes().to_vec();
        sizes.extend([("counters", cores), ("resolutions", cores)]);
        sizes.extend(draws::sizes(cores));
        let mut program = Loaded::maps(RESOLVER, &sizes)?;
        let (rules, work, resolved) = resolver::maps(&mut program, seed)?;
        let draws = ResolverDraws::of(&mut program)?;
        let (cache, answers, counters) = Self::of(program, "dns64d_resolver", seed, room)?;
        Ok(KernelResolver { cache, answers, counters, rules, draws, work, resolved })
    }

    fn of(
        mut program: Loaded,
        name: &'static str,
        seed: u64,
        room: Room,
    ) -> Result<(Self, AnswerMap, CounterMap), KernelError> {
        let config = Array::try_from(program.take("config")?)?;
        let listen = HashMap::try_from(program.take("listen")?)?;
        let clients = LpmTrie::try_from(program.take("clients")?)?;
        let answers = AnswerMap::of(&mut program, room)?;
        let counters = CounterMap(Array::try_from(program.take("counters")?)?);
        program.load(name)?;
        program.load(ALIVE)?;
        let (stays_on, is_whole) = (Vec::new(), false);
        let cache = KernelCache {
            program,
            name,
            stays_on,
            is_whole,
            config,
            listen,
            clients,
            seed,
            room,
            veths: Vec::new(),
        };
        Ok((cache, answers, counters))
    }

    /// Attaches the program to a device, in the native mode of its driver, until it is dropped. A program that a process has left
    /// there at its end is removed.
    ///
    /// # Errors
    /// If the device is missing or has no native mode, or has another program.
    pub fn attach(&mut self, device: &str) -> Result<(), KernelError> {
        let index = index_of(device)?;
        // With a program that cannot be removed the kernel refuses this one, and says why.
        let _ = attached::clear(index);
        self.program.attach(self.name, device)?;
        self.note_veth(device, index);
        Ok(())
    }

    /// Works as [`attach`](Self::attach), but the program stays after the end of this process if it has [served](Self::serve), until
    /// another process attaches one, and gives the answers that it has until their ends.
    ///
    /// # Errors
    /// If the device is missing or has no native mode, or has another program, or if this user may not look up programs, which the
    /// next process has to.
    pub fn attach_to_stay(&mut self, device: &str) -> Result<(), KernelError> {
        if !attached::may_look_up() {
            return Err(KernelError::MayNotStay);
        }
        let index = index_of(device)?;
        let attached = attached::attach(index, self.fd()?);
        attached.map_err(|error| KernelError::cannot_attach(device, &error))?;
        self.stays_on.push(index);
        self.note_veth(device, index);
        Ok(())
    }

    /// Notes a device whose other end a program wakes by redirected frames only, if it is one.
    fn note_veth(&mut self, device: &str, index: u32) {
        if is_veth(device) && self.veths.len() < DEVICES {
            self.veths.push(index);
        }
    }

    fn fd(&self) -> Result<&ProgramFd, KernelError> {
        let fd = self.program.program(self.name)?.fd();
        fd.map_err(|error| KernelError::program(self.name, error))
    }

    /// Returns the seed with which answers are encoded.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Replaces what is served, and gives answers of this generation only. If it fails, nothing is answered.
    ///
    /// # Errors
    /// If a map has no room, or the kernel refuses an entry.
    pub fn serve(&mut self, serving: &Serving, generation: u64) -> Result<(), KernelError> {
        // A query must not meet one half of the new rules.
        self.configure(serving, 0)?;
        self.is_whole = false;
        let places: Vec<_> = self.listen.keys().collect::<Result<_, _>>()?;
        places.iter().try_for_each(|place| self.listen.remove(place))?;
        let networks: Vec<_> = self.clients.keys().collect::<Result<_, _>>()?;
        networks.iter().try_for_each(|network| self.clients.remove(network))?;
        for address in &serving.listen {
            self.listen.insert(place(*address), 1, 0)?;
        }
        for network in &serving.clients {
            let above = if network.address.is_ipv4() { 96 } else { 0 };
            let key = Key::new(above + u32::from(network.prefix_len), octets(network.address));
            let mut client = Layout::<CLIENT>::new();
            client.put_u32(u32::from(network.allowed));
            network.views.into_iter().for_each(|view| client.put_u32(view));
            client.put_u32(network.plain.map_or(0, |block| block + 1));
            self.clients.insert(&key, client.finish(), 0)?;
        }
        self.is_whole = true;
        self.configure(serving, generation)
    }

    /// Gives answers of this generation only; none if the maps do not have all of what is [served](Self::serve).
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn configure(&mut self, serving: &Serving, generation: u64) -> Result<(), KernelError> {
        let mut config = Layout::<CONFIG>::new();
        config.put_u64(if self.is_whole { generation } else { 0 });
        config.put_u64(self.seed);
        config.put(2, &serving.max_udp_size.to_ne_bytes());
        config.put(2, &serving.edns_udp_size.to_ne_bytes());
        let limits = &serving.limits;
        config.put(4, &[serving.traffic_class, 96 + limits.ipv4_bits, limits.ipv6_bits]);
        config.put_u64(ReplyLimits::period(limits.per_second));
        config.put_u64(ReplyLimits::period(limits.same_per_second));
        config.put_u32(limits.slip);
        config.put_u32(self.room.sets);
        config.put_u32(self.room.of_program);
        config.put_u32(0);
        self.veths.iter().for_each(|device| config.put_u32(*device));
        config.put(4 * (DEVICES - self.veths.len()), &[]);
        Ok(self.config.set(0, config.finish(), 0)?)
    }

    /// Runs the program on one frame without a device; returns what it sends back, `None` if it passes or drops the frame.
    ///
    /// # Errors
    /// If the kernel cannot run it.
    pub fn run(&mut self, frame: &[u8], out: &mut [u8]) -> Result<Option<usize>, KernelError> {
        self.program.answer(self.name, frame, out)
    }

    /// Runs the program on one frame without a device; returns its verdict, and the length of the frame that it leaves in `out`.
    ///
    /// # Errors
    /// If the kernel cannot run it.
    pub fn verdict(&mut self, frame: &[u8], out: &mut [u8]) -> Result<(u32, usize), KernelError> {
        self.program.run(self.name, frame, out)
    }
}

impl Drop for KernelCache {
    /// Removes the program of a server that did not start: it has no answers that it may give.
    fn drop(&mut self) {
        let Ok(program) = self.fd() else { return };
        for device in self.stays_on.iter().filter(|_| !self.is_whole) {
            // The device may have gone, or the right to change it.
            let _ = attached::remove(*device, program);
        }
    }
}

impl CounterMap {
    /// Returns the counters.
    ///
    /// # Errors
    /// If the kernel does not give them.
    pub fn read(&self) -> Result<CacheCounters, KernelError> {
        let [queries, answers, nxdomain, passed, dropped, limited, slipped, types @ ..] =
            sums(&self.0)?;
        let types = types.to_vec();
        Ok(CacheCounters { queries, answers, nxdomain, passed, dropped, limited, slipped, types })
    }
}

/// Returns counters that each core has, all cores together.
///
/// # Errors
/// If the kernel does not give them.
pub(crate) fn sums<const N: usize>(
    counters: &Array<MapData, [u64; N]>,
) -> Result<[u64; N], KernelError> {
    let mut sums = [0; N];
    for core in 0..counters.len() {
        let counts = counters.get(&core, 0)?;
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    Ok(sums)
}

/// Returns the number of cores.
fn cores() -> Result<u32, KernelError> {
    let cores = nr_cpus().map_err(|(path, error)| KernelError::Cores { path, error })?;
    Ok(cores as u32)
}

/// Returns the number of a device.
///
/// # Errors
/// If there is no such device.
fn index_of(device: &str) -> Result<u32, KernelError> {
    if_nametoindex(device).map_err(|error| KernelError::cannot_attach(device, &error))
}

/// Returns `struct place`.
pub(crate) fn place(address: SocketAddr) -> [u8; PLACE] {
    let mut place = Layout::<PLACE>::new();
    place.put(16, &octets(address.ip()));
    place.put(2 + 2, &address.port().to_be_bytes());
    place.finish()
}

/// Returns the address in `struct place`.
pub(crate) fn address_of(place: &[u8; PLACE]) -> SocketAddr {
    let [ip @ .., high, low, _, _] = *place;
    SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), u16::from_be_bytes([high, low]))
}

/// Returns the octets of an address; IPv4 is mapped to IPv6.
pub(crate) fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const MESSAGE: &[u8] =
        b"\0\0\x80\0\0\x01\0\x01\0\0\0\0\x01a\x04test\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0\x01";

    fn stored(message: &[u8]) -> Stored<'_> {
        Stored {
            generation: 1,
            qtype: Qtype::A,
            view: 0,
            rd: true,
            cd: false,
            dnssec: false,
            message,
            options: &[],
            stored: Nanos::ZERO,
            until: Nanos::from_secs(60),
        }
    }

    #[test]
    fn names_that_count_up_have_different_hashes() {
        for seed in [77, 6_766_047_775_495_826_699, 1 << 63] {
            let of = |number: u32| {
                let [a, b, c, d] = number.to_be_bytes();
                let name = format!("\x0f{a:03}-{b:03}-{c:03}-{d:03}\x09dns64perf\x04test\0");
                words(name.as_bytes()).fold(seed, mix)
            };
            let hashes: HashSet<u64> = (0..200_000).map(|number| of(7 * number)).collect();
            assert_eq!(hashes.len(), 200_000, "seed {seed}");
        }
    }

    #[test]
    fn answers_within_the_bounds_are_encoded() {
        let encoded = stored(MESSAGE).encode(7).expect("it fits");
        // The TTL stands six octets after the start of the record, and the body is its 16 octets.
        // One word of places, one of the name, two of the body.
        assert_eq!(encoded.entry[40..48], [16, 0, 0, 0, 1, 0, 4, 0]);
        assert_eq!(encoded.entry[48..58], *b"\x06\0\0\0\0\0\0\0\x01a");
        assert_eq!(encoded.entry.len(), 80);
        assert_ne!(stored(MESSAGE).encode(8).expect("it fits").key, encoded.key);
        let many: Vec<u8> = [MESSAGE, &[0xff][..]].concat();
        for message in [&many[..], &MESSAGE[..20], b"", b"\0\0\x80\0\0\0\0\0\0\0\0\0"] {
            assert_eq!(stored(message).encode(7), None, "{message:?}");
        }
        let options = [0; MAX_OPTIONS + 1];
        assert_eq!(Stored { options: &options, ..stored(MESSAGE) }.encode(7), None);
    }

    #[test]
    fn answers_beyond_the_bounds_are_left_to_the_sockets() {
        let left = stored(&many()).encode_left(7).expect("its name fits");
        assert_eq!(left.key, stored(MESSAGE).encode(7).expect("it fits").key);
        // No records, the flag, no body; the name is one word.
        assert_eq!(left.entry[32..48], [0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 1, 0]);
        for message in [&MESSAGE[..14], b""] {
            assert_eq!(stored(message).encode_left(7), None, "{message:?}");
        }
    }

    /// Returns an answer with more octets than the program takes.
    fn many() -> Vec<u8> {
        [MESSAGE, &[0; MAX_BODY][..]].concat()
    }

    proptest! {
        #[test]
        fn any_message_is_encoded_or_refused(
            message in prop::collection::vec(any::<u8>(), 0..80),
            from in 0..MESSAGE.len(),
        ) {
            let _ = stored(&message).encode(7);
            let _ = stored(&message).encode_left(7);
            let mixed = [&MESSAGE[..from], &message].concat();
            if let Some(encoded) = stored(&mixed).encode(7) {
                prop_assert!(usize::from(encoded.key[15]) <= MAX_NAME);
            }
        }
    }
}
