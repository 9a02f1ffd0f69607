//! The program of the cache against a model of it: which queries get which replies.

use std::net::{IpAddr, Ipv4Addr};

use auth::{AaaaPolicy, Auth, AuthConfig, MAX_REPLY};
use engine::clock::monotonic;
use kernel::{AnswerMap, ClientNetwork, CounterMap, KernelCache, ReplyLimits, Serving, Stored};
use measure::Nanos;
use wire::edns::opt_fixed;
use wire::message::{HEADER, question_end};
use wire::{Name, Namespace, Qclass, Qtype, Query, QueryTemplate};

use crate::auth::server;
use crate::kit::{CLIENT4, CLIENT6, Random, for_everyone, loaded, message, queries, seal, stored};

/// Generation of the answers that are given.
const GENERATION: u64 = 5;
const ANSWERS: u64 = 300;
const MAX_UDP_SIZE: u16 = 1_232;
const EDNS_UDP_SIZE: u16 = 1_232;
/// Number of client networks for which the map has room.
const MOST_CLIENTS: u32 = 65_536;
/// An extended error (RFC 8914).
const OPTIONS: &[u8] = &[0, 15, 0, 2, 0, 29];

struct Answer {
    name: Vec<u8>,
    qtype: Qtype,
    view: u32,
    bits: [bool; 3],
    message: Vec<u8>,
    options: &'static [u8],
    generation: u64,
    stored: Nanos,
    until: Nanos,
}

/// The program with answers, and what it is to reply.
pub(crate) struct Model {
    pub(crate) kernel: KernelCache,
    pub(crate) counters: CounterMap,
    answers: Vec<Answer>,
    clients: Vec<ClientNetwork>,
    namespace: Namespace,
}

/// Returns the networks of clients: some are not permitted, some have other blocks.
fn clients() -> Vec<ClientNetwork> {
    let of = |network: &str, prefix_len, allowed, views| {
        let address = network.parse().expect(network);
        ClientNetwork { address, prefix_len, allowed, views, plain: None }
    };
    vec![
        of("0.0.0.0", 0, false, [0; 4]),
        of("::", 0, false, [0; 4]),
        of("10.0.0.0", 8, true, [1, 1, 0, 0]),
        of("10.7.0.0", 16, true, [0, 3, 0, 3]),
        of("10.7.7.0", 24, false, [1; 4]),
        of("fdfd::", 16, true, [2, 3, 1, 0]),
        of("fdfd:fdfd:8000::", 33, true, [0; 4]),
    ]
}

impl Answer {
    /// Makes a random answer for a name: what the AuthDNS says, with other bits.
    fn random(random: &mut Random, auth: &mut Auth, name: Name, now: Nanos) -> Self {
        let qtype = Qtype(*random.pick(&[&1u16, &28, &28, &15, &65, &64, &6]));
        let query = QueryTemplate::new(&name, qtype, true, false, None);
        let mut message = vec![0; MAX_REPLY];
        let len = auth.answer(query.bytes(), &mut message).expect("a reply");
        message.truncate(len);
        if random.one_in(5) {
            lengthen(random, &mut message);
        }
        if random.one_in(3) {
            // Authentic data.
            message[3] |= 0x20;
        }
        // Half a second before the next one, so that ages are the same for a while.
        let age = Nanos::from_secs(random.below(4_000)) + Nanos::from_millis(500);
        let stored = Nanos(now.0.saturating_sub(age.0));
        let until = if random.one_in(8) { now } else { now + Nanos::from_secs(3_600) };
        let view = matches!(qtype.0, 28 | 64 | 65).then(|| random.below(4) as u32).unwrap_or(0);
        Answer {
            name: name.to_lowercase().as_wire().to_vec(),
            qtype,
            view,
            bits: [!random.one_in(4), random.one_in(4), random.one_in(3)],
            message,
            options: if random.one_in(3) { OPTIONS } else { &[] },
            generation: if random.one_in(8) { GENERATION - 1 } else { GENERATION },
            stored,
            until,
        }
    }

    fn stored(&self) -> Stored<'_> {
        let [rd, cd, dnssec] = self.bits;
        let Answer { qtype, view, ref message, options, generation, stored, until, .. } = *self;
        Stored { generation, qtype, view, rd, cd, dnssec, message, options, stored, until }
    }

    /// Returns the reply to a query at a time; `None` if it is too long for the client.
    fn reply(&self, query: &Query<'_>, now: Nanos) -> Option<Vec<u8>> {
        let age = (now.since(self.stored).0 / 1_000_000_000) as u32;
        let end = question_end(&self.message).expect("a question");
        let mut reply = self.message.clone();
        reply[..2].copy_from_slice(&query.id.to_be_bytes());
        let authentic = reply[3] & 0x20 != 0 && (query.ad || self.bits[2]);
        reply[2] = 0x80 | u8::from(query.rd);
        reply[3] = 0x80 | u8::from(authentic) << 5 | u8::from(query.cd) << 4 | reply[3] & 15;
        reply[HEADER..end].copy_from_slice(query.question);
        let mut at = end;
        while let Some((record, next)) = wire::message::Record::read(&reply, at) {
            let (place, ttl) = (record.rdata_at - 6, record.ttl.saturating_sub(age));
            reply[place..place + 4].copy_from_slice(&ttl.to_be_bytes());
            at = next;
        }
        if query.edns.is_some() {
            reply[11] += 1;
            let len = self.options.len() as u16;
            reply.extend_from_slice(&opt_fixed(EDNS_UDP_SIZE, 0, self.bits[2], len));
            reply.extend_from_slice(self.options);
        }
        (reply.len() <= query.udp_limit().min(MAX_UDP_SIZE.into())).then_some(reply)
    }
}

/// Returns what the program is told of the server and its clients.
fn serving() -> Serving {
    Serving {
        listen: server(),
        clients: clients(),
        max_udp_size: MAX_UDP_SIZE,
        edns_udp_size: EDNS_UDP_SIZE,
        traffic_class: 0,
        limits: ReplyLimits::default(),
    }
}

impl Model {
    /// Loads the program and stores random answers; `None` if this user may not.
    pub(crate) fn new(seed: u64) -> Option<Self> {
        let mut random = Random::new(seed);
        let (mut kernel, mut map, counters) = loaded(KernelCache::load(4 << 20, 77))?;
        let serving = serving();
        // Twice: the second time the maps are not empty.
        kernel.serve(&serving, 1).expect("it serves");
        kernel.serve(&serving, GENERATION).expect("it serves");
        let namespace = Namespace::with_default_zone("10.0.0.0/24".parse().expect("a prefix"));
        let aaaa = AaaaPolicy::Share(0.5);
        let mut auth = Auth::new(AuthConfig { aaaa, ..AuthConfig::new(namespace) });
        let now = monotonic();
        let mut answers: Vec<Answer> = Vec::new();
        for _ in 0..ANSWERS {
            let mut name = name_of(&namespace, random.below(256));
            if random.one_in(4) {
                name = name.prepend(b"www").expect("a short name");
            }
            let answer = Answer::random(&mut random, &mut auth, name, now);
            store(&mut map, &answer);
            answers.retain(|other| other.key() != answer.key());
            answers.push(answer);
        }
        Some(Model { kernel, counters, answers, clients: clients(), namespace })
    }

    /// Returns the replies to a message from a client at one of two times; `None` if the program is to pass it up.
    pub(crate) fn replies(
        &self,
        source: IpAddr,
        message: &[u8],
        times: [Nanos; 2],
    ) -> Option<[Vec<u8>; 2]> {
        let query = Query::parse(message).ok()?;
        let additional = u16::from_be_bytes([message[10], message[11]]);
        let plain = message[8..10] == [0, 0]
            && additional == u16::from(query.edns.is_some())
            && query.qclass == Qclass::IN
            && !query.bad_version()
            && query.edns.is_none_or(|edns| edns.options().next().is_none())
            && query.qname.len() <= 128
            && message.len() <= 300;
        let within = |client: &&ClientNetwork| {
            ipnet::IpNet::new(client.address, client.prefix_len)
                .is_ok_and(|network| network.contains(&source))
        };
        let client = self.clients.iter().filter(within).max_by_key(|client| client.prefix_len)?;
        if !plain || !client.allowed {
            return None;
        }
        let dnssec = query.edns.is_some_and(|edns| edns.do_bit);
        let validates = query.cd && dnssec;
        let view = match query.qtype.0 {
            28 | 64 | 65 => client.views[usize::from(query.rd) | usize::from(validates) << 1],
            _ => 0,
        };
        let name = query.qname.to_ascii_lowercase();
        let key = (&name[..], query.qtype, view, [query.rd, query.cd, dnssec]);
        let answer = self.answers.iter().find(|answer| answer.key() == key)?;
        if answer.generation != GENERATION || times[1] >= answer.until {
            return None;
        }
        let [first, second] = times.map(|time| answer.reply(&query, time));
        Some([first?, second?])
    }

    /// A query for one of the answers, or nearly so.
    pub(crate) fn query(&self, random: &mut Random) -> Vec<u8> {
        let answer = &self.answers[random.below(self.answers.len() as u64) as usize];
        let mut name = answer.name.clone();
        if random.one_in(10) {
            name = name_of(&self.namespace, random.below(256)).as_wire().to_vec();
        }
        random.any_case(&mut name);
        let mut bits = answer.bits;
        if random.one_in(8) {
            bits[random.below(3) as usize] ^= true;
        }
        let mut flags = u16::from(bits[0]) << 8 | u16::from(bits[1]) << 4;
        flags |= (random.next() as u16) & 0x06e0;
        let mut message = (random.next() as u16).to_be_bytes().to_vec();
        message.extend_from_slice(&flags.to_be_bytes());
        let edns = bits[2] || random.one_in(2);
        message.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::from(edns)]);
        message.extend_from_slice(&name);
        let qtype = if random.one_in(12) { random.below(300) as u16 } else { answer.qtype.0 };
        message.extend_from_slice(&qtype.to_be_bytes());
        message.extend_from_slice(&[0, if random.one_in(30) { 3 } else { 1 }]);
        if edns {
            let version = u8::from(random.one_in(30));
            let size = random.below(1_500) as u16;
            message.extend_from_slice(&opt_fixed(size, 0, bits[2], 0));
            let at = message.len() - 5;
            message[at] = version;
            if random.one_in(8) {
                let at = message.len() - 1;
                message[at] = 4;
                message.extend_from_slice(&[0, 10, 0, 0]);
            }
        }
        match random.below(8) {
            0..=1 => random.spoil(&mut message),
            2 => random.make_odd(&mut message),
            _ => {}
        }
        message
    }
}

impl Answer {
    /// What a query for it has.
    fn key(&self) -> (&[u8], Qtype, u32, [bool; 3]) {
        (&self.name, self.qtype, self.view, self.bits)
    }
}

/// Gives an answer other records, of almost as many octets as the program stores.
fn lengthen(random: &mut Random, message: &mut Vec<u8>) {
    message.truncate(question_end(message).expect("a question"));
    message[3] &= 0xf0;
    message[6..12].copy_from_slice(&[0, 2, 0, 0, 0, 0]);
    for _ in 0..2 {
        let len = 200 + random.below(40) as u8;
        message.extend_from_slice(&[0xc0, 12, 0, 16, 0, 1, 0, 0, 0x1c, 0x20, 0, len]);
        message.extend((0..len).map(|octet| octet ^ 0x55));
    }
}

fn name_of(namespace: &Namespace, number: u64) -> Name {
    let [a, b, c, d] = namespace.nth(number).octets();
    let label = format!("{a:03}-{b:03}-{c:03}-{d:03}");
    namespace.zone().prepend(label.as_bytes()).expect("a short name")
}

fn store(map: &mut AnswerMap, answer: &Answer) {
    let encoded = answer.stored().encode(77).expect("it is within the bounds");
    map.store(&encoded);
}

/// Gives a frame another client; returns its address.
pub(crate) fn set_client(random: &mut Random, frame: &mut [u8]) -> IpAddr {
    if frame[12] == 0x86 {
        let mut address = CLIENT6;
        if random.one_in(4) {
            address[random.below(16) as usize] ^= 1 << random.below(8);
        }
        frame[22..38].copy_from_slice(&address);
        IpAddr::from(address)
    } else {
        let other: [u8; 4] = [10, 7, random.below(9) as u8, 9];
        let address = [CLIENT4, other, [192, 0, 2, 1]][[0, 0, 1, 2][random.below(4) as usize]];
        frame[26..30].copy_from_slice(&address);
        seal(frame);
        IpAddr::from(address)
    }
}

#[test]
fn replies_are_those_of_the_model() {
    let Some(mut model) = Model::new(1) else { return };
    let mut random = Random::new(2);
    let (mut answered, count) = (0, queries(1));
    for _ in 0..count {
        let query = model.query(&mut random);
        let mut frame = random.frame(&query);
        let client = set_client(&mut random, &mut frame);
        let mut out = [0; 2_048];
        let before = monotonic();
        let len = model.kernel.run(&frame, &mut out).expect("runs");
        let expected = model.replies(client, &query, [before, monotonic()]);
        match (len, expected) {
            (Some(len), Some(expected)) => {
                answered += 1;
                let reply = message(&frame, &out[..len]);
                assert!(
                    expected.iter().any(|expected| expected == reply),
                    "to {query:02x?}: {reply:02x?}, not {expected:02x?}"
                );
            }
            (len, expected) => {
                assert_eq!((len, &expected), (None, &None), "to {query:02x?} of {client}");
            }
        }
    }
    let counters = model.counters.read().expect("counters");
    assert_eq!((counters.answers, counters.dropped), (answered, 0));
    assert_eq!(counters.queries, counters.passed + answered);
    assert_eq!(counters.types.iter().sum::<u64>(), answered);
    assert!(counters.nxdomain > 0 && answered > count / 8, "{answered} of {count}");
}

#[test]
fn nothing_is_answered_without_a_generation() {
    let Some(mut model) = Model::new(3) else { return };
    let mut random = Random::new(4);
    let serving = Serving { traffic_class: 46 << 2, ..serving() };
    let mut answers = |model: &mut Model, v6: bool| {
        let frames = std::iter::repeat_with(|| {
            let query = model.query(&mut random);
            random.frame(&query)
        });
        let frames: Vec<Vec<u8>> = frames.filter(|f| (f[12] == 0x86) == v6).take(500).collect();
        let mut replies = Vec::new();
        for frame in frames {
            let mut out = [0; 2_048];
            if let Some(len) = model.kernel.run(&frame, &mut out).expect("runs") {
                replies.push(out[..len].to_vec());
            }
        }
        replies
    };
    assert!(!answers(&mut model, false).is_empty());
    for generation in [0, GENERATION + 1] {
        model.kernel.configure(&serving, generation).expect("it can be set");
        assert!(answers(&mut model, false).is_empty(), "{generation}");
    }
    model.kernel.configure(&serving, GENERATION).expect("it can be set");
    // The class of the traffic is set.
    assert!(answers(&mut model, false).iter().all(|reply| reply[15] == 46 << 2));
    let v6 = answers(&mut model, true);
    assert!(!v6.is_empty() && v6.iter().all(|reply| reply[14..16] == [0x6b, 0x80]));
    // Without their network no client is permitted.
    let nobody = Serving { clients: Vec::new(), ..serving.clone() };
    model.kernel.serve(&nobody, GENERATION).expect("it serves");
    assert!(answers(&mut model, false).is_empty());
    // Rules for which there is no room are not applied in part, nor in a later generation.
    let of = |number: u32| ClientNetwork {
        address: Ipv4Addr::from_bits(u32::from_be_bytes(CLIENT4) + number).into(),
        prefix_len: 32,
        ..clients()[2]
    };
    let too_many = Serving { clients: (0..=MOST_CLIENTS).map(of).collect(), ..serving.clone() };
    assert!(model.kernel.serve(&too_many, GENERATION).is_err());
    model.kernel.configure(&too_many, GENERATION).expect("it can be set");
    assert!(answers(&mut model, false).is_empty());
    model.kernel.serve(&serving, GENERATION).expect("it serves");
    assert!(!answers(&mut model, false).is_empty());
}

#[test]
fn a_reply_that_is_shorter_than_what_ipv6_has_more_than_ipv4_is_given() {
    let Some((mut kernel, mut map, _counters)) = loaded(KernelCache::load(1 << 20, 77)) else {
        return;
    };
    kernel.serve(&for_everyone([1; 4], None), GENERATION).expect("it serves");
    let now = monotonic();
    let mut random = Random::new(9);
    for name in [&b"\0"[..], b"\x01a\0", b"\x04test\0"] {
        let header = [0, 0, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0];
        let message_of = [&header[..], name, &[0, 2, 0, 1]].concat();
        let stored = stored(2, &message_of, GENERATION, now);
        map.store(&stored.encode(77).expect("a short answer"));
        let mut query = message_of.clone();
        query[2..4].copy_from_slice(&[1, 0]);
        // Over both families.
        for _ in 0..20 {
            let frame = random.frame(&query);
            let mut out = [0; 2_048];
            let len = kernel.run(&frame, &mut out).expect("runs").expect("a reply");
            assert_eq!(message(&frame, &out[..len])[2..], message_of[2..], "{name:02x?}");
        }
    }
}

#[test]
fn replies_are_limited_by_network_and_by_answer() {
    let Some(mut model) = Model::new(7) else { return };
    let mut random = Random::new(8);
    let limited = |limits| Serving { limits, ..serving() };
    let none = ReplyLimits { ipv4_bits: 24, ipv6_bits: 56, ..ReplyLimits::default() };
    let mut answered = |model: &mut Model| loop {
        let query = model.query(&mut random);
        let frame = random.frame(&query);
        if frame[12] != 0x86 && model.kernel.run(&frame, &mut [0; 2_048]).expect("runs").is_some() {
            return frame;
        }
    };
    model.kernel.configure(&limited(none), GENERATION).expect("it can be set");
    let (one, other) = (answered(&mut model), answered(&mut model));
    let run = |model: &mut Model, frame: &[u8]| {
        let mut out = [0; 2_048];
        let len = model.kernel.run(frame, &mut out).expect("runs")?;
        let reply = message(frame, &out[..len]);
        Some(reply[2] & 2 != 0)
    };
    let rate = ReplyLimits { per_second: 20, slip: 3, ..none };
    model.kernel.configure(&limited(rate), GENERATION).expect("it can be set");
    let begun = monotonic();
    let replies: Vec<Option<bool>> = (0..120).map(|_| run(&mut model, &one)).collect();
    let count = |of| replies.iter().filter(|reply| **reply == of).count();
    let more = (monotonic().since(begun).0 / 50_000_000) as usize + 1;
    assert!((20..=20 + more).contains(&count(Some(false))), "{replies:?}");
    // Over the limit every third one has no records.
    let over = 120 - count(Some(false));
    assert!((over / 3 - more.min(over / 3)..=over / 3).contains(&count(Some(true))), "{replies:?}");
    let counted = model.counters.read().expect("counters");
    assert_eq!(counted.slipped, count(Some(true)) as u64);
    assert!(counted.limited >= over as u64);
    // A neighbour is of the same network, another network is not.
    let from = |last: [u8; 2]| {
        let mut frame = other.clone();
        frame[28..30].copy_from_slice(&last);
        seal(&mut frame);
        frame
    };
    assert!((0..60).any(|_| run(&mut model, &from([0, 200])) != Some(false)));
    assert_eq!(run(&mut model, &from([9, 1])), Some(false));
    // Equal answers only.
    let same = ReplyLimits { same_per_second: 1, ..none };
    model.kernel.configure(&limited(same), GENERATION).expect("it can be set");
    let begun = monotonic();
    let left = (0..10).filter(|_| run(&mut model, &one).is_some()).count();
    assert!(left >= 1 && left as u64 <= 2 + monotonic().since(begun).0 / 1_000_000_000);
    assert_eq!(run(&mut model, &other), Some(false));
}
