//! The program that resolves: what it asks upstream, which replies it takes, and what it makes of them.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use engine::clock::monotonic;
use kernel::tester::Route;
use kernel::{
    Draw, Embedding, HandedQuery, KernelCache, KernelResolver, Resolved, Rules, Stored, Upstream,
};
use measure::Nanos;
use wire::edns::opt_fixed;
use wire::message::{HEADER, Header, Record, question_end};
use wire::{Name, Qtype, Query};

use self::expected::{check_answer, ends_with_its_records, is_no_data, negative_ttl_of};
use crate::frames::{Datagram, change, frame, read};
use crate::kit::{ETHERNET, Random, for_everyone, loaded, message, queries, stored};

mod expected;

const GENERATION: u64 = 3;
/// The prefix, and where those of each length of RFC 6052 have the IPv4 address.
const PREFIX: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0x64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const PLACES: [[u8; 4]; 6] =
    [[12, 13, 14, 15], [4, 5, 6, 7], [5, 6, 7, 9], [6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12]];
/// An extended error (RFC 8914): the records are synthesised.
const OPTIONS: &[u8] = &[0, 15, 0, 2, 0, 29];
/// Upstream and our address towards it, over IPv4 and IPv6.
const UPSTREAMS: [(&str, &str); 2] =
    [("192.0.2.1:53", "192.0.2.9"), ("[2001:db8::1]:5353", "2001:db8::9")];
const TTL_WITHOUT_SOA: u32 = 600;
const MAX_TTL: u32 = 3_000;
/// For few transactions: no test reaches the end of the time for a reply, and an answer may have no life.
const FEW: Bounds = Bounds { timeout: Nanos::from_secs(3_600), ttls: [0, 86_400] };
/// For many: what has no reply does not take all slots.
const MANY: Bounds = Bounds { timeout: Nanos::from_millis(200), ttls: [100, 2_500] };
/// Number of queries after which random numbers are made.
const ROUND: u64 = 1_000;

/// The time for a reply of upstream, and the shortest and the longest TTL of an answer.
#[derive(Clone, Copy)]
struct Bounds {
    timeout: Nanos,
    ttls: [u32; 2],
}

struct Sent {
    id: [u8; 2],
    port: u16,
    message: Vec<u8>,
}

/// The program, and which upstream it asks.
pub(crate) struct Model {
    kernel: KernelResolver,
    upstream: SocketAddr,
    source: IpAddr,
    bounds: Bounds,
    places: [u8; 4],
    names: u64,
    /// Names that were answered: a changed one may come again, and its answer may be in the cache still.
    resolved: HashSet<Name>,
    /// Numbers of answers, and of transactions handed over.
    pub(crate) answered: u64,
    pub(crate) handed: u64,
}

impl Model {
    /// Loads the program for any number of transactions, of which some have no reply; `None` if this user may not.
    pub(crate) fn for_many(upstream: usize) -> Option<Self> {
        Self::new(upstream, MANY)
    }

    /// Loads the program with these bounds; `None` if this user may not.
    fn new(upstream: usize, bounds: Bounds) -> Option<Self> {
        let mut kernel = loaded(KernelCache::load_resolver(4 << 20, 77))?;
        kernel.cache.serve(&for_everyone([1; 4], Some(0)), GENERATION).expect("it serves");
        let Upstream { server, route, .. } = how_to_ask(upstream, bounds);
        let source = route.source;
        let mut model = Model {
            kernel,
            upstream: server,
            source,
            bounds,
            places: PLACES[0],
            names: 0,
            resolved: HashSet::new(),
            answered: 0,
            handed: 0,
        };
        // Twice: the second time the maps are not empty.
        model.use_prefix(PLACES[1]);
        model.use_prefix(PLACES[0]);
        model.ask(upstream);
        Some(model)
    }

    /// Sets the rules, with a prefix that has the IPv4 address at these places.
    fn use_prefix(&mut self, places: [u8; 4]) {
        let networks = vec![([0; 4], 0, true), ([10, 0, 0, 0], 8, false)];
        let embedding =
            Embedding { block: 0, base: PREFIX.into(), places, max_ttl: MAX_TTL, networks };
        let apart = vec![b"\x05apart\x04test\0".to_vec()];
        self.kernel.rules.set(&Rules { embeddings: vec![embedding], apart }).expect("few rules");
        self.places = places;
    }

    /// Lets the program ask another upstream.
    fn ask(&mut self, upstream: usize) {
        let how = how_to_ask(upstream, self.bounds);
        (self.upstream, self.source) = (how.server, how.route.source);
        self.kernel.rules.ask(Some(&how)).expect("the loopback is there");
    }

    /// Makes random numbers, and reads what was handed over.
    pub(crate) fn serve(&mut self, random: &mut Random) {
        self.kernel.draws.refill(|| draw(random));
        while let Some(HandedQuery { query, .. }) = self.kernel.work.handed() {
            assert!(Query::parse(&query).is_ok(), "{query:02x?}");
            self.handed += 1;
        }
    }

    /// Sends a client's query for the AAAA records of a name; returns what the program sends, and the frame of the query.
    fn query(&mut self, random: &mut Random, name: &str) -> Option<(Vec<u8>, Vec<u8>)> {
        let name: Name = name.parse().expect("a name");
        let mut query = (random.next() as u16).to_be_bytes().to_vec();
        query.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        query.extend_from_slice(name.as_wire());
        query.extend_from_slice(&[0, 28, 0, 1]);
        let frame = random.frame(&query);
        self.run(&frame).map(|out| (out, frame))
    }

    /// Returns the frame of upstream's reply to a query, with this return code and these A records, each with its TTL.
    fn reply_with(&self, sent: &Sent, rcode: u8, addresses: &[([u8; 4], u8)]) -> Vec<u8> {
        let end = question_end(&sent.message).expect("a question");
        let mut message = sent.message[..end].to_vec();
        let count = addresses.len() as u8;
        message[2..12].copy_from_slice(&[0x81, 0x80 | rcode, 0, 1, 0, count, 0, 0, 0, 0]);
        for (address, ttl) in addresses {
            message.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, *ttl, 0, 4]);
            message.extend_from_slice(address);
        }
        frame(self.upstream.ip(), self.source, [self.upstream.port(), sent.port], &message, false)
    }

    fn counted(&self) -> Resolved {
        self.kernel.resolved.read().expect("counters")
    }

    fn run(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; 2_048];
        let len = self.kernel.cache.run(frame, &mut out).expect("runs")?;
        out.truncate(len);
        Some(out)
    }

    /// Sends a query of a client and what upstream may reply; `is_spoiled` says whether frames are changed. Fails if the program
    /// asks or answers wrongly.
    pub(crate) fn transaction(&mut self, random: &mut Random, is_spoiled: bool) {
        self.names += 1;
        let query = client_query(random, self.names);
        let mut client = random.frame(&query);
        if is_spoiled && random.one_in(4) {
            change(random, &mut client);
        }
        let Some(mut out) = self.run(&client) else { return };
        let asked = read(&client).unwrap_or_else(|| panic!("answered {client:02x?}"));
        // Both addresses: a changed frame may come from that of the way to upstream.
        if out[..12] == [&client[6..12], &client[..6]].concat() {
            let name = name_of(&asked.message);
            assert!(is_spoiled || self.resolved.contains(&name), "{name} has an answer at once");
            message(&client, &out);
            return;
        }
        let mut negative_ttl = TTL_WITHOUT_SOA;
        for qtype in [Qtype::AAAA, Qtype::A] {
            let sent = self.sent(&out);
            self.check_sent(&asked.message, &sent, qtype);
            // Forged and broken replies first; any of them may end the transaction.
            let mut next = None;
            for _ in 0..=random.below(3) {
                let mut frame = self.reply(random, &sent, qtype);
                if is_spoiled && random.one_in(2) {
                    change(random, &mut frame);
                }
                next = self.run(&frame).map(|out| (out, frame));
                if next.is_some() {
                    break;
                }
            }
            let Some((next, frame)) = next else { return };
            let reply = self.is_reply(&frame, &sent);
            let reply = reply.unwrap_or_else(|| panic!("took {frame:02x?}"));
            match qtype {
                Qtype::AAAA => {
                    assert!(is_no_data(&reply), "{reply:02x?}");
                    negative_ttl = negative_ttl_of(&reply).unwrap_or(TTL_WITHOUT_SOA);
                }
                _ => {
                    let longest = negative_ttl.min(MAX_TTL);
                    let answer = message(&client, &next);
                    check_answer(&asked.message, &reply, longest, self.places, answer);
                    self.answered += 1;
                    self.resolved.insert(name_of(&asked.message));
                    if !is_spoiled {
                        self.check_again(&client, &next);
                    }
                }
            }
            out = next;
        }
    }

    /// Checks that the query of an answer has the same one again, no more than a second older.
    fn check_again(&mut self, client: &[u8], first: &[u8]) {
        let again = self.run(client).expect("it was stored");
        let (first, again) = (message(client, first), message(client, &again));
        let mut expected = first.to_vec();
        let mut at = question_end(first).expect("a question");
        for _ in 0..Header::read(first).expect("a header").counts[1] {
            let (one, end) = Record::read(first, at).expect("a record");
            let (other, _) = Record::read(again, at).expect("a record");
            assert!(one.ttl - other.ttl <= 1, "{} after {}", other.ttl, one.ttl);
            expected[one.rdata_at - 6..][..4].copy_from_slice(&other.ttl.to_be_bytes());
            at = end;
        }
        assert_eq!(again, expected);
    }

    /// Reads a frame to upstream, with right checksums and addresses.
    fn sent(&self, frame: &[u8]) -> Sent {
        assert_eq!(frame[..12], [2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3]);
        let Datagram { from, to, message } = read(frame).expect("a datagram");
        assert_eq!((from.ip(), to), (self.source, self.upstream));
        Sent { id: [message[0], message[1]], port: from.port(), message }
    }

    /// Checks a query to upstream for a client's query.
    fn check_sent(&self, asked: &[u8], sent: &Sent, qtype: Qtype) {
        let (asked, own) = (Query::parse(asked).expect("one"), Query::parse(&sent.message));
        let own = own.expect("a query");
        assert!(asked.qname.eq_ignore_ascii_case(own.qname) && own.rd && !own.cd);
        assert_eq!((own.qtype, own.qclass), (qtype, asked.qclass));
        assert_eq!(own.edns.is_some(), self.upstream.is_ipv4());
        assert!(sent.port >= 1_024);
        let name = name_of(&sent.message);
        assert!(!name.ends_with(&"apart.test".parse().expect("a name")), "{name}");
    }

    /// Makes the frame of a reply to a query, mostly a plain one.
    fn reply(&self, random: &mut Random, sent: &Sent, qtype: Qtype) -> Vec<u8> {
        let end = question_end(&sent.message).expect("a question");
        let mut message = sent.message[..end].to_vec();
        message[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
        let address = |random: &mut Random| [192, 0, 2, random.below(250) as u8];
        match (qtype, random.below(8)) {
            (Qtype::AAAA, 0) | (_, 1) => {
                message[7] = 1;
                message.extend_from_slice(&[0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16]);
                message.extend_from_slice(&[7; 16]);
            }
            (_, 2) => message[3] |= random.below(16) as u8,
            (Qtype::AAAA, 3..=5) => {
                message[9] = 1;
                let ttl = random.below(5_000) as u16;
                let own = message[HEADER..end - 4].to_vec();
                let at = |labels: usize| {
                    let place = (0..labels).fold(0, |at, _| at + 1 + usize::from(own[at]));
                    [0xc0, (HEADER + place) as u8]
                };
                // Above the name, written out or not, the name itself, the root; and others.
                let owner = match random.below(16) {
                    0 => vec![0],
                    1 => at(0).to_vec(),
                    2 => at(1).to_vec(),
                    3 => b"\x04tesT\0".to_vec(),
                    4 => b"\x05other\x04test\0".to_vec(),
                    5 => b"\x03est\0".to_vec(),
                    6 => [&[1, b'x'][..], &at(1)].concat(),
                    7 => [&own[..1 + usize::from(own[0])], &at(1)].concat(),
                    _ => b"\x04test\0".to_vec(),
                };
                message.extend_from_slice(&owner);
                message.extend_from_slice(b"\0\x06\0\x01\0\0");
                message.extend_from_slice(&ttl.to_be_bytes());
                message.extend_from_slice(&[0, 24, 0xc0, 12, 0xc0, 12]);
                message.extend_from_slice(&[0; 16]);
                message.extend_from_slice(&(random.below(5_000) as u32).to_be_bytes());
            }
            (Qtype::AAAA, _) => {}
            _ => {
                let count = 1 + random.below(9) as u8;
                message[7] = count;
                for _ in 0..count {
                    message.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0]);
                    message.extend_from_slice(&(random.below(5_000) as u16).to_be_bytes());
                    message.extend_from_slice(&[0, 4]);
                    let is_mapped = !random.one_in(30);
                    let own = if is_mapped { address(random) } else { [10, 0, 0, 1] };
                    message.extend_from_slice(&own);
                }
            }
        }
        if random.one_in(2) {
            message[11] = 1;
            message.extend_from_slice(&opt_fixed(1_232, 0, false, 0));
        }
        if random.one_in(12) {
            random.make_odd(&mut message);
        }
        if random.one_in(10) {
            // Another id, or another case.
            let at = [0, 1, 13][random.below(3) as usize];
            message[at] ^= 0x20;
        }
        let from = if random.one_in(20) { self.upstream.port() + 1 } else { self.upstream.port() };
        let to = if random.one_in(20) { sent.port ^ 1 } else { sent.port };
        let other = random.one_in(20);
        frame(self.upstream.ip(), self.source, [from, to], &message, other)
    }

    /// Returns the message of a frame if it is a reply to a query.
    fn is_reply(&self, frame: &[u8], sent: &Sent) -> Option<Vec<u8>> {
        let Datagram { from, to, message } = read(frame)?;
        let end = question_end(&message)?;
        let is_own = from == self.upstream
            && to == SocketAddr::new(self.source, sent.port)
            && message[..2] == sent.id
            && message[2] & 0xf8 == 0x80
            && message[4..6] == [0, 1]
            && ends_with_its_records(&message, end)
            && message[HEADER..end] == sent.message[HEADER..question_end(&sent.message)?];
        is_own.then_some(message)
    }
}

/// Returns how an upstream is asked.
fn how_to_ask(upstream: usize, bounds: Bounds) -> Upstream {
    let (server, source) = UPSTREAMS[upstream];
    let route = Route {
        device: "lo".to_owned(),
        source: source.parse().expect(source),
        hardware: [2, 0, 0, 0, 0, 3],
        neighbour: [2, 0, 0, 0, 0, 4],
    };
    Upstream {
        server: server.parse().expect(server),
        route,
        generation: GENERATION,
        timeout: bounds.timeout,
        udp_size: if upstream == 0 { 1_232 } else { 0 },
        traffic_class: 0,
        mixed_case: true,
        ttl_without_soa: TTL_WITHOUT_SOA,
        min_ttl: bounds.ttls[0],
        max_ttl: bounds.ttls[1],
        options: OPTIONS.to_vec(),
    }
}

fn draw(random: &mut Random) -> Draw {
    Draw {
        id: random.next() as u16,
        port: 1_024 + random.below(64_000) as u16,
        seed: random.next(),
    }
}

/// Returns the name that a query asks for, in lower case.
fn name_of(query: &[u8]) -> Name {
    let query = Query::parse(query).expect("a query");
    Name::from_wire(query.qname).expect("a name").to_lowercase()
}

/// Returns a client's query for a new name, sometimes one that is not plain.
fn client_query(random: &mut Random, number: u64) -> Vec<u8> {
    let zone = random.pick(&["test", "test", "Example.test", "apart.test", "xapart.test"]);
    let name: Name = format!("n{number}.{zone}").parse().expect("a name");
    let edns = random.one_in(2);
    let mut query = (random.next() as u16).to_be_bytes().to_vec();
    let flags = if random.one_in(12) { random.next() as u16 } else { 0x0100 };
    query.extend_from_slice(&flags.to_be_bytes());
    query.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::from(edns)]);
    query.extend_from_slice(name.as_wire());
    let qtype = if random.one_in(10) { random.below(70) as u8 } else { 28 };
    query.extend_from_slice(&[0, qtype, 0, 1]);
    if edns {
        let size = random.below(1_500) as u16;
        query.extend_from_slice(&opt_fixed(size, 0, random.one_in(10), 0));
    }
    if random.one_in(16) {
        random.make_odd(&mut query);
    }
    query
}

#[test]
fn resolutions_are_right() {
    let count = queries(UPSTREAMS.len());
    for upstream in 0..UPSTREAMS.len() {
        let Some(mut model) = Model::for_many(upstream) else { return };
        let mut random = Random::new(31 + upstream as u64);
        for number in 0..count {
            if number % ROUND == 0 {
                model.serve(&mut random);
                model.use_prefix(PLACES[(number / ROUND) as usize % PLACES.len()]);
            }
            model.transaction(&mut random, false);
        }
        model.serve(&mut random);
        let counted = model.kernel.resolved.read().expect("counters");
        assert_eq!((counted.answers, counted.no_draw), (model.answered, 0));
        assert_eq!((counted.handed, counted.blocks[0]), (model.handed, model.answered));
        // An eighth, give or take what the kernel draws.
        assert!(model.answered > count / 10, "{} of {count}", model.answered);
        assert!(counted.strays > 0 && counted.queries > counted.replies);
    }
}

#[test]
fn what_has_no_reply_is_found_once() {
    let Some(mut model) = Model::new(0, FEW) else { return };
    let mut random = Random::new(41);
    model.serve(&mut random);
    let mut asked = 0;
    for number in 0..100 {
        let query = client_query(&mut random, number);
        asked += u64::from(model.run(&random.frame(&query)).is_some());
    }
    let mut expired = |now: Nanos| {
        let mut found = 0;
        model.kernel.work.expired(now, |_| found += 1).expect("they are read");
        found
    };
    let later = monotonic() + Nanos::from_secs(3_700);
    let times = [monotonic(), later, later].map(&mut expired);
    assert!(asked > 10);
    assert_eq!(times, [0, asked, 0]);
}

#[test]
fn without_random_numbers_or_a_way_nothing_is_asked() {
    let Some(mut model) = Model::new(0, FEW) else { return };
    let mut random = Random::new(51);
    let mut asked = |model: &mut Model| {
        let queries = (0..50).map(|number| client_query(&mut random, number));
        let frames: Vec<Vec<u8>> = queries.collect();
        let frames = frames.iter().map(|query| random.frame(query)).collect::<Vec<_>>();
        frames.iter().filter(|frame| model.run(frame).is_some()).count()
    };
    assert_eq!(asked(&mut model), 0);
    assert!(model.kernel.resolved.read().expect("counters").no_draw > 0);
    model.serve(&mut Random::new(52));
    assert!(asked(&mut model) > 10);
    model.kernel.rules.ask(None).expect("it may");
    assert_eq!(asked(&mut model), 0);
}

/// An address that is mapped.
const MAPPED: [u8; 4] = [192, 0, 2, 33];
/// Return code of a failure.
const SERVFAIL: u8 = 2;

#[test]
fn a_name_is_asked_for_once_at_a_time() {
    let Some(mut model) = Model::new(0, FEW) else { return };
    let mut random = Random::new(61);
    model.serve(&mut random);
    let mut asks = |model: &mut Model, name: &str| model.query(&mut random, name);
    let (out, _) = asks(&mut model, "one.test").expect("it is asked for");
    // Of any client, in any letter case.
    for name in ["one.test", "ONE.Test", "one.test"] {
        assert_eq!(asks(&mut model, name), None, "{name}");
    }
    assert_eq!((model.counted().equal, model.counted().queries), (3, 1));
    assert!(asks(&mut model, "another.test").is_some());
    // Until its answer, which nobody keeps.
    let sent = model.sent(&out);
    let out = model.run(&model.reply_with(&sent, 0, &[])).expect("the second query");
    assert_eq!(asks(&mut model, "one.test"), None);
    let sent = model.sent(&out);
    assert!(model.run(&model.reply_with(&sent, 0, &[(MAPPED, 0)])).is_some());
    let (out, _) = asks(&mut model, "one.test").expect("it is asked for");
    // A reply that the server continues with.
    let sent = model.sent(&out);
    assert_eq!(model.run(&model.reply_with(&sent, SERVFAIL, &[])), None);
    assert_eq!(model.counted().handed, 1);
    assert_eq!(asks(&mut model, "one.test"), None);
    assert_eq!(model.counted().equal, 5);
}

#[test]
fn replies_of_the_server_before_are_taken_as_its_own() {
    let Some(mut model) = Model::new(0, FEW) else { return };
    let mut random = Random::new(71);
    model.serve(&mut random);
    let (out, _) = model.query(&mut random, "one.test").expect("it is asked for");
    let sent = model.sent(&out);
    let own = model.reply_with(&sent, 0, &[]);
    model.ask(1);
    // Nobody else's reply is.
    let foreign = model.reply_with(&sent, 0, &[]);
    assert_eq!((model.run(&foreign), model.counted().strays), (None, 1));
    let out = model.run(&own).expect("the second query");
    // To the server that is asked now.
    let second = model.sent(&out);
    // Over IPv6 what has no checksum is no reply.
    let mut unchecked = model.reply_with(&second, SERVFAIL, &[]);
    unchecked[ETHERNET + 40 + 6..][..2].fill(0);
    assert_eq!((model.run(&unchecked), model.kernel.work.handed()), (None, None));
    assert!(model.run(&model.reply_with(&second, 0, &[(MAPPED, 60)])).is_some());
    // What is handed over names its server: as asked, as before, and when none is asked any more.
    let mut handed = |model: &mut Model, name: &str, change: &dyn Fn(&mut Model)| {
        let (out, _) = model.query(&mut random, name).expect("it is asked for");
        let sent = model.sent(&out);
        let (reply, server) = (model.reply_with(&sent, SERVFAIL, &[]), model.upstream);
        change(model);
        assert_eq!(model.run(&reply), None);
        let handed = model.kernel.work.handed().expect("a transaction");
        assert_eq!(handed.reply.map(|(server, _)| server), Some(server), "{name}");
    };
    handed(&mut model, "two.test", &|_| ());
    handed(&mut model, "three.test", &|model| model.ask(0));
    handed(&mut model, "four.test", &|model| model.kernel.rules.ask(None).expect("it may"));
    assert_eq!(model.counted().strays, 1);
}

#[test]
fn what_the_sockets_have_is_not_asked_for() {
    let Some(mut model) = Model::new(0, FEW) else { return };
    let mut random = Random::new(81);
    model.serve(&mut random);
    let now = monotonic();
    for (name, generation, age, is_asked) in [
        ("\x04left\x04test\0", GENERATION, 0, false),
        ("\x05other\x04test\0", GENERATION - 1, 0, true),
        ("\x03old\x04test\0", GENERATION, 60, true),
    ] {
        let header = [0, 0, 0x81, 0x82, 0, 1, 0, 0, 0, 0, 0, 0];
        let message = [&header[..], name.as_bytes(), &[0, 28, 0, 1]].concat();
        let since = Nanos(now.0.saturating_sub(Nanos::from_secs(age).0));
        let stored = Stored { view: 1, ..stored(28, &message, generation, since) };
        let encoded = stored.encode_for_sockets(77).expect("a short name");
        model.kernel.answers.store(&encoded);
        let name = Name::from_wire(name.as_bytes()).expect("a name").to_string();
        assert_eq!(model.query(&mut random, &name).is_some(), is_asked, "{name}");
    }
    assert_eq!(model.counted().equal, 0);
}

#[test]
fn renewed_random_numbers_are_used_at_once() {
    let Some(mut model) = Model::new(0, FEW) else { return };
    let mut random = Random::new(91);
    model.serve(&mut random);
    let mut port = |model: &mut Model, name: &str| {
        let (out, _) = model.query(&mut random, name)?;
        Some(model.sent(&out).port)
    };
    assert!(port(&mut model, "before.test").is_some());
    let mut ids = Random::new(92);
    model.kernel.draws.renew(|| Draw { port: 5_555, ..draw(&mut ids) });
    // Some names may have the same place.
    let ports = (0..600).filter_map(|number| port(&mut model, &format!("n{number}.test")));
    let ports: Vec<u16> = ports.collect();
    assert!(ports.len() > 590 && ports.iter().all(|port| *port == 5_555), "{}", ports.len());
}
