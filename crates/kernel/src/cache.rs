//! The cache of dns64d in XDP: answers queries from answers that the server has given; with the program that also resolves it is a
//! [`KernelResolver`].
//!
//! ```text
//!   server ──Stored──> Encoded ──AnswerMap──> maps "sets", "blocks" <── program ──> client
//!      └────Serving───> maps "config", "listen", "clients" <────┘
//! ```

use std::net::{IpAddr, SocketAddr};

use aya::maps::lpm_trie::Key;
use aya::maps::{Array, HashMap, LpmTrie, MapData};
use aya::programs::ProgramFd;
use aya::util::nr_cpus;
use nix::net::if_::if_nametoindex;

use crate::answers::{AnswerMap, MapSizes};
use crate::attached::{self, ALIVE};
use crate::draws::{self, ResolverDraws};
use crate::error::KernelError;
use crate::program::{Programs, XdpMode};
use crate::records::{Client, Config, Counts, DEVICES, Place, Record, octets, sum};
use crate::resolver::{self, ResolverCounters, ResolverRules, ResolverWork};
use crate::tester::is_veth;

/// The programs and maps of `bpf/cache.bpf.c` and `bpf/resolver.bpf.c`.
static CACHE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cache"));
static RESOLVER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/resolver"));
/// Configuration of the answering program: addresses, clients, sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Addresses and ports for which the program answers; the socket workers handle all others.
    pub listen: Vec<SocketAddr>,
    /// Clients by network; the longest network decides.
    pub clients: Vec<ClientNetwork>,
    /// Largest reply over UDP, in octets.
    pub max_udp_size: u16,
    /// UDP payload size in OPT records, in octets.
    pub edns_udp_size: u16,
    /// Class of the traffic: the octet in the header of IP.
    pub traffic_class: u8,
    /// Most replies a second to a client network.
    pub limits: ReplyLimits,
}

/// Limits of replies to each client network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Replies a second; 0 for no limit.
    pub per_second: u32,
    /// Equal answers a second; 0 for no limit.
    pub same_per_second: u32,
    /// Every n-th reply over the limit is truncated instead of suppressed; 0 for none.
    pub slip: u32,
    /// Length of the prefix of a network, for IPv4, in bits.
    pub ipv4_bits: u8,
    /// Length of the prefix of a network, for IPv6, in bits.
    pub ipv6_bits: u8,
}

impl ReplyLimits {
    /// Returns the time for a reply in nanoseconds; 0 for no limit.
    fn period(per_second: u32) -> u64 {
        1_000_000_000u64.checked_div(per_second.into()).map_or(0, |period| period.max(1))
    }
}

/// Clients in a network, without clients in smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientNetwork {
    /// First address of the network.
    pub address: IpAddr,
    /// Length of the prefix, in bits.
    pub prefix_len: u8,
    /// Whether they may send queries.
    pub allowed: bool,
    /// Blocks that serve the clients, for queries without RD and with RD, then the same for queries
    /// with DO and CD.
    pub views: [u32; 4],
    /// The block whose prefix alone serves the clients, so that the program may resolve; `None`
    /// without such a block.
    pub plain: Option<u32>,
}

/// Counters of the program, all cores together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheCounters {
    /// Number of messages to the server's addresses.
    pub queries: u64,
    /// Number of replies, truncated ones among them.
    pub answers: u64,
    /// Number of NXDOMAIN replies; all others are NOERROR.
    pub nxdomain: u64,
    /// Number of messages that the sockets were left to answer.
    pub passed: u64,
    /// Number of messages without a reply, since there was no room in the frame.
    pub dropped: u64,
    /// Number of replies over the limits, truncated or left out.
    pub limited: u64,
    /// Number of replies in `limited` that were truncated.
    pub slipped: u64,
    /// Number of replies by the type of the question; the last one is for all higher types.
    pub types: Vec<u64>,
}

/// The cache in the kernel, until it is dropped. It does not answer before [`serve`](Self::serve).
pub struct KernelCache {
    program: Programs,
    /// Name of the program in the object: of the cache, or the one that also resolves.
    name: &'static str,
    /// Numbers of the devices on which the program stays.
    stays_on: Vec<(u32, XdpMode)>,
    /// Whether the maps are completely filled.
    is_whole: bool,
    config: Array<MapData, Config>,
    listen: HashMap<MapData, Place, u32>,
    clients: LpmTrie<MapData, [u8; 16], Client>,
    seed: u64,
    /// Sizes of the maps of answers.
    room: MapSizes,
    /// Numbers of the veth devices on which it is attached.
    veths: Vec<u32>,
}

/// The cache with the program that also resolves, and its maps.
pub struct KernelResolver {
    /// The cache, which the program consults first.
    pub cache: KernelCache,
    /// The map of its answers, which workers of the server write.
    pub answers: AnswerMap,
    /// The map of its counters, which each core adds to.
    pub counters: CounterMap,
    /// Rules of the resolution.
    pub rules: ResolverRules,
    /// Ids, ports and letter cases for queries to upstream, which the server draws.
    pub draws: ResolverDraws,
    /// Maps that the server updates while the program runs.
    pub work: ResolverWork,
    /// The map of counters of the resolution.
    pub resolved: ResolverCounters,
}

/// The map in which each core counts the outcomes of messages.
pub struct CounterMap(Array<MapData, Counts>);

impl KernelCache {
    /// Loads the program with `memory` octets for answers. `seed` must be drawn from the operating
    /// system, so that an attacker cannot make answers displace each other.
    ///
    /// # Errors
    /// If this user may not, or the kernel refuses it.
    pub fn load(memory: usize, seed: u64) -> Result<(Self, AnswerMap, CounterMap), KernelError> {
        let room = MapSizes::within(memory, false);
        let [sets, blocks] = room.sizes();
        let program = Programs::maps(CACHE, &[sets, blocks, ("counters", cores()?)])?;
        Self::of(program, "dns64d_cache", seed, room)
    }

    /// Works as [`load`](Self::load), with the program that also resolves.
    ///
    /// # Errors
    /// If this user may not, or the kernel refuses it.
    pub fn load_resolver(memory: usize, seed: u64) -> Result<KernelResolver, KernelError> {
        let (cores, room) = (cores()?, MapSizes::within(memory, true));
        let mut sizes = room.sizes().to_vec();
        sizes.extend([("counters", cores), ("resolutions", cores)]);
        sizes.extend(draws::sizes(cores));
        let program = Programs::maps(RESOLVER, &sizes)?;
        let (mut cache, answers, counters) = Self::of(program, "dns64d_resolver", seed, room)?;
        let (rules, work, resolved) = resolver::maps(&mut cache.program, seed)?;
        let draws = ResolverDraws::of(&mut cache.program, cores)?;
        Ok(KernelResolver { cache, answers, counters, rules, draws, work, resolved })
    }

    fn of(
        mut program: Programs,
        name: &'static str,
        seed: u64,
        room: MapSizes,
    ) -> Result<(Self, AnswerMap, CounterMap), KernelError> {
        let config = Array::try_from(program.take("config")?)?;
        let listen = HashMap::try_from(program.take("listen")?)?;
        let clients = LpmTrie::try_from(program.take("clients")?)?;
        let counters = CounterMap(Array::try_from(program.take("counters")?)?);
        program.load(name)?;
        program.load(ALIVE)?;
        // This is last: it closes the descriptors of the maps, which are needed to load the
        // programs.
        let answers = AnswerMap::of(&mut program, room)?;
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

    /// Attaches the program to a device until it is dropped. A program that a process has left there at its end is removed.
    ///
    /// # Errors
    /// If the device is missing, does not have this mode, or has another program.
    pub fn attach(&mut self, device: &str, mode: XdpMode) -> Result<(), KernelError> {
        let index = index_of(device)?;
        // With a program that cannot be removed the kernel refuses this one, and says why.
        let _ = attached::clear(index);
        self.program.attach(self.name, device, mode)?;
        self.note_veth(device, index);
        Ok(())
    }

    /// Works as [`attach`](Self::attach), but the program stays after the end of this process if it
    /// has [served](Self::serve), until another process attaches one, and serves its stored answers
    /// until they expire.
    ///
    /// # Errors
    /// If the device is missing, does not have this mode or has another program, or if this user may not look up programs, which the
    /// next process has to.
    pub fn attach_to_stay(&mut self, device: &str, mode: XdpMode) -> Result<(), KernelError> {
        if !attached::may_look_up() {
            return Err(KernelError::MayNotStay);
        }
        let index = index_of(device)?;
        let attached = attached::attach(index, mode, self.fd()?);
        attached.map_err(|error| KernelError::cannot_attach(device, &error))?;
        self.stays_on.push((index, mode));
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

    /// Replaces the configuration, and serves only answers of this generation. If this fails, the
    /// program does not answer.
    ///
    /// # Errors
    /// If a map has no room, or the kernel refuses an entry.
    pub fn serve(&mut self, serving: &Serving, generation: u64) -> Result<(), KernelError> {
        // No query may be answered with only half of the new rules.
        self.configure(serving, 0)?;
        self.is_whole = false;
        let places: Vec<_> = self.listen.keys().collect::<Result<_, _>>()?;
        places.iter().try_for_each(|place| self.listen.remove(place))?;
        let networks: Vec<_> = self.clients.keys().collect::<Result<_, _>>()?;
        networks.iter().try_for_each(|network| self.clients.remove(network))?;
        for address in &serving.listen {
            self.listen.insert(Place::from(*address), 1, 0)?;
        }
        for network in &serving.clients {
            let above = if network.address.is_ipv4() { 96 } else { 0 };
            let key = Key::new(above + u32::from(network.prefix_len), octets(network.address));
            let client = Client {
                allowed: u32::from(network.allowed),
                views: network.views,
                plain: network.plain.map_or(0, |block| block + 1),
            };
            self.clients.insert(&key, client, 0)?;
        }
        self.is_whole = true;
        self.configure(serving, generation)
    }

    /// Serves only answers of this generation; none before [`serve`](Self::serve) has filled the
    /// maps completely.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn configure(&mut self, serving: &Serving, generation: u64) -> Result<(), KernelError> {
        let limits = &serving.limits;
        let mut veths = [0; DEVICES];
        veths[..self.veths.len()].copy_from_slice(&self.veths);
        let config = Config {
            generation: if self.is_whole { generation } else { 0 },
            seed: self.seed,
            max_size: serving.max_udp_size,
            opt_size: serving.edns_udp_size,
            tos: serving.traffic_class,
            v4_bits: 96 + limits.ipv4_bits,
            v6_bits: limits.ipv6_bits,
            period: ReplyLimits::period(limits.per_second),
            same_period: ReplyLimits::period(limits.same_per_second),
            slip: limits.slip,
            sets: self.room.sets,
            blocks: self.room.of_program,
            veths,
            ..Config::ZERO
        };
        Ok(self.config.set(0, config, 0)?)
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
    /// Removes the program of a server that did not start: it has no valid answers.
    fn drop(&mut self) {
        let Ok(program) = self.fd() else { return };
        for (device, mode) in self.stays_on.iter().filter(|_| !self.is_whole) {
            // The device, or the right to change it, may be lost.
            let _ = attached::remove(*device, *mode, program);
        }
    }
}

impl CounterMap {
    /// Returns the counters.
    ///
    /// # Errors
    /// If the kernel does not give them.
    pub fn read(&self) -> Result<CacheCounters, KernelError> {
        let Counts { queries, answers, nxdomain, passed, dropped, limited, slipped, types } =
            sums(&self.0)?;
        let types = types.to_vec();
        Ok(CacheCounters { queries, answers, nxdomain, passed, dropped, limited, slipped, types })
    }
}

/// Returns the sums of per-core counters.
///
/// # Errors
/// If the kernel does not give them.
pub(crate) fn sums<R: Record>(counters: &Array<MapData, R>) -> Result<R, KernelError> {
    Ok(sum(counters.iter().collect::<Result<Vec<_>, _>>()?))
}

/// Returns the number of cores.
fn cores() -> Result<u32, KernelError> {
    let cores = nr_cpus().map_err(|(path, error)| KernelError::Cores(path, error))?;
    Ok(cores as u32)
}

/// Returns the number of a device.
///
/// # Errors
/// If there is no such device.
fn index_of(device: &str) -> Result<u32, KernelError> {
    if_nametoindex(device).map_err(|error| KernelError::cannot_attach(device, &error))
}
