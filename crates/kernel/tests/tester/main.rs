//! The programs of the Tester, frame by frame: queries are those of the workload, and replies are judged as it judges them.

mod lists;
mod windows;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use auth::{AaaaPolicy, Auth, AuthConfig, MAX_REPLY};
use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use kernel::tester::{
    EqualSteps, Event, Instants, NameOrder, Order, PlainReply, Questions, Route, TesterPlan,
};
use kernel::{KernelError, KernelTester};
use load::Workload;
use load::workload::MAX_QUERY;
use load::workload::namespace::{NamespaceExpect, NamespaceSpec, NamespaceWorkload};
use measure::stall::LateSpan;
use measure::{Nanos, Pacing, Qps};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use wire::{Edns, Expect, Namespace, Pref64, Qtype};

const ETHERNET: usize = 14;
const UDP: usize = 8;
/// Number of queries of each load.
const QUERIES: usize = 3_000;
/// Environment variable with the number of seconds for changed frames, which are then others in each run; and that number
/// without it.
const SECONDS_VARIABLE: &str = "DNSDYNO_FUZZ_SECONDS";
const SECONDS: u64 = 2;
/// Number of changed frames of each load whatever the time.
const AT_LEAST: usize = 300;
/// Shortest frame that the kernel runs a program on.
const SHORTEST: usize = 14;

/// A load, and the workload that it is made of.
struct Case {
    plan: TesterPlan,
    workload: NamespaceWorkload,
    spec: NamespaceSpec,
}

fn pref64() -> Pref64 {
    "2001:db8:1:2::/64".parse().expect("a prefix")
}

/// Makes a load of 50,000 queries a second.
fn case(target: &str, expect: NamespaceExpect, edns: Option<Edns>, sources: &[&str]) -> Case {
    let namespace = "10.16.0.0/12".parse().expect("a prefix");
    let zone = "Perf.example".parse().expect("a zone");
    let qtype = if expect == NamespaceExpect::Address { Qtype::A } else { Qtype::AAAA };
    let spec = NamespaceSpec {
        namespace: Namespace::new(namespace, zone).expect("a namespace"),
        qtype,
        expect,
        first: 77,
        names: 70_001,
        reuse: false,
        sequential: false,
        seed: 5,
        recursion_desired: true,
        edns,
    };
    let parts = spec.parts();
    let order = parts.order.map(|o| Order { mask: o.mask, shift: o.shift, keys: o.keys });
    let sources: Vec<IpAddr> = sources.iter().map(|ip| ip.parse().expect("an address")).collect();
    let expect = match expect {
        NamespaceExpect::Address => PlainReply::Address,
        NamespaceExpect::Embedded(pref64) => PlainReply::Embedded(pref64),
        NamespaceExpect::Same(Expect::Answered) => PlainReply::Rcodes(1 | 1 << 3),
        _ => PlainReply::Never,
    };
    let questions = Questions::Names(NameOrder {
        query: parts.query,
        question: parts.question,
        first: parts.first.into(),
        names: spec.names,
        order,
        reuse: false,
    });
    let workload = NamespaceWorkload::new(spec.clone(), 0, 1).expect("inside");
    let plan = plan(target, sources, questions, expect);
    Case { plan, workload, spec }
}

/// Makes a plan of 50,000 queries a second by one worker.
fn plan(
    target: &str,
    sources: Vec<IpAddr>,
    questions: Questions,
    expect: PlainReply,
) -> TesterPlan {
    TesterPlan {
        target: target.parse().expect("an address"),
        route: Route {
            device: "lo".to_owned(),
            source: sources[0],
            hardware: [2, 0, 0, 0, 0, 1],
            neighbour: [2, 0, 0, 0, 0, 2],
        },
        sources,
        questions,
        expect,
        pacing: Pacing::Constant { rate: Qps::new(50_000.0).expect("a rate") },
        keep_places: false,
        duration: Nanos::from_secs(60),
        timeout: Nanos::from_secs(30),
        cpus: vec![first_core()],
        ports: 4,
        instants: Instants { shift: 30, count: 56 },
        steps: EqualSteps { length: Nanos::from_secs(20), count: 3 },
        seed: 9,
    }
}

fn first_core() -> usize {
    let set = nix::sched::sched_getaffinity(Pid::from_raw(0)).expect("the cores of this thread");
    (0..CpuSet::count()).find(|cpu| set.is_set(*cpu) == Ok(true)).expect("a core")
}

/// Loads a plan whose queries are all due since long ago, on this thread's core; `None` if this user may not.
fn loaded(plan: &TesterPlan) -> Option<KernelTester> {
    let mut set = CpuSet::new();
    set.set(plan.cpus[0]).expect("a core");
    sched_setaffinity(Pid::from_raw(0), &set).expect("this thread may run there");
    let mut tester = match KernelTester::load(plan) {
        Err(why @ KernelError::NotPermitted) => {
            return skip::none(why);
        }
        loaded => loaded.unwrap_or_else(|why| panic!("{why}")),
    };
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("a clock");
    let now = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
    tester.start_at(Nanos(now - 10_000_000_000)).expect("starts");
    Some(tester)
}

/// Runs the generator until a query is due; after a stall it makes up for a millisecond at a time.
fn next_frame(tester: &KernelTester) -> Vec<u8> {
    loop {
        if let Some(frame) = tester.generate_once().expect("runs") {
            return frame;
        }
    }
}

/// Sums up words of 16 bits as the checksums of the Internet do.
fn sum(parts: &[&[u8]]) -> u16 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u64 = parts.iter().flat_map(|part| part.chunks(2)).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A query in its frame.
struct Query {
    source: IpAddr,
    port: u16,
    message: Vec<u8>,
}

/// Checks lengths and checksums of a frame; returns its query.
fn query(frame: &[u8], target: SocketAddr) -> Query {
    assert_eq!(frame[..12], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    let v6 = target.is_ipv6();
    assert_eq!(frame[12..14], if v6 { [0x86, 0xdd] } else { [8, 0] });
    let (from, size) = if v6 { (22, 16) } else { (26, 4) };
    let at = from + 2 * size;
    let len = usize::from(u16::from_be_bytes([frame[at + 4], frame[at + 5]]));
    assert_eq!(frame.len(), at + len, "the frame ends with the datagram");
    let of_ip = if v6 { [frame[18], frame[19]] } else { [frame[16], frame[17]] };
    assert_eq!(usize::from(u16::from_be_bytes(of_ip)), len + if v6 { 0 } else { 20 });
    if !v6 {
        assert_eq!(sum(&[&frame[ETHERNET..at]]), 0xffff, "checksum of IPv4");
    }
    let pseudo = [0, 17, frame[at + 4], frame[at + 5]];
    assert_eq!(sum(&[&frame[from..at], &pseudo, &frame[at..]]), 0xffff, "checksum of UDP");
    assert_ne!(frame[at + 6..at + 8], [0, 0]);
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    assert_eq!(port(at + 2), target.port());
    let ip = |octets: &[u8]| match octets.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(octets).expect("four")),
        _ => IpAddr::from(<[u8; 16]>::try_from(octets).expect("sixteen")),
    };
    assert_eq!(ip(&frame[from + size..at]), target.ip());
    Query {
        source: ip(&frame[from..from + size]),
        port: port(at),
        message: frame[at + UDP..].to_vec(),
    }
}

/// Makes the frame of a reply to a query in `frame`.
fn reply_frame(frame: &[u8], v6: bool, message: &[u8]) -> Vec<u8> {
    let (from, size) = if v6 { (22, 16) } else { (26, 4) };
    let at = from + 2 * size;
    let mut reply = frame[..at + UDP].to_vec();
    reply.copy_within(from..from + size, from + size);
    reply[from..from + size].copy_from_slice(&frame[from + size..at]);
    reply[at..at + 2].copy_from_slice(&frame[at + 2..at + 4]);
    reply[at + 2..at + 4].copy_from_slice(&frame[at..at + 2]);
    let len = (UDP + message.len()) as u16;
    reply[at + 4..at + 6].copy_from_slice(&len.to_be_bytes());
    let ip_len = if v6 { len } else { len + 20 };
    let place = if v6 { 18 } else { 16 };
    reply[place..place + 2].copy_from_slice(&ip_len.to_be_bytes());
    reply.extend(message);
    reply.resize(reply.len().max(60), 0);
    reply
}

fn cases() -> Vec<Case> {
    let embedded = NamespaceExpect::Embedded(pref64());
    vec![
        case("10.0.0.2:53", NamespaceExpect::Address, None, &["10.0.0.1"]),
        case("[fd00::2]:5300", embedded, Some(Edns::default()), &["fd00::1"]),
        case("10.0.0.2:53", embedded, None, &["10.0.0.1", "10.0.0.3", "10.0.0.4"]),
        case("[fd00::2]:53", NamespaceExpect::AnyPrefix, None, &["fd00::1", "fd00::9"]),
        case("10.0.0.2:53", NamespaceExpect::Same(Expect::Answered), None, &["10.0.0.1"]),
    ]
}

#[test]
fn queries_are_those_of_the_workload() {
    for mut case in cases() {
        let Some(tester) = loaded(&case.plan) else { return };
        let mut seen = std::collections::HashSet::new();
        for number in 0..QUERIES {
            let query = query(&next_frame(&tester), case.plan.target);
            let mut expected = [0; MAX_QUERY];
            let len = case.workload.next(&mut expected).expect("a name").len;
            assert_eq!(query.message[2..], expected[2..len], "number {number}");
            let source = number % case.plan.ports % case.plan.sources.len();
            assert_eq!(query.source, case.plan.sources[source]);
            let id = [query.message[0], query.message[1]];
            assert!(seen.insert((query.port, id)), "a port with an id, once");
        }
        let counts = tester.counts().expect("counts");
        assert_eq!(counts.counted.sent, QUERIES as u64);
        let times = tester.times().expect("times");
        assert_eq!(times.schedule_error.count(), QUERIES as u64);
        assert_eq!(times.series.iter().map(|second| second.sent).sum::<u64>(), QUERIES as u64);
    }
}

/// Changes a reply in one of several ways, or not at all.
fn spoil(random: &mut ChaCha12Rng, reply: &mut Vec<u8>) {
    let mut below = |n: usize| (random.next_u64() % n as u64) as usize;
    match below(8) {
        0 => {
            let at = 2 + below(reply.len() - 2);
            reply[at] ^= 1 << below(8);
        }
        1 => reply.truncate(2 + below(reply.len() - 2)),
        2 => reply.extend([0; 3]),
        3 => reply[2] |= 2,
        4 => reply[3] = reply[3] & 0xf0 | below(16) as u8,
        // The case of a letter of the zone.
        5 => reply[32] ^= 0x20,
        _ => {}
    }
}

#[test]
fn replies_are_judged_as_by_the_workload() {
    for (number, mut case) in cases().into_iter().enumerate() {
        let Some(tester) = loaded(&case.plan) else { return };
        let config = AuthConfig {
            aaaa: AaaaPolicy::Always,
            pref64: pref64(),
            ..AuthConfig::new(case.spec.namespace)
        };
        let mut auth = Auth::new(config);
        let mut random = ChaCha12Rng::seed_from_u64(number as u64);
        let (mut valid, mut handed, mut nxdomain) = (0, 0, 0);
        for _ in 0..QUERIES {
            let frame = next_frame(&tester);
            let sent = query(&frame, case.plan.target);
            let key = case.workload.next(&mut [0; MAX_QUERY]).expect("a name").key;
            let mut reply = vec![0; MAX_REPLY];
            let len = auth.answer(&sent.message, &mut reply).expect("an answer");
            reply.truncate(len);
            spoil(&mut random, &mut reply);
            let verdict = case.workload.check(key, &reply);
            let answer = reply_frame(&frame, case.plan.target.is_ipv6(), &reply);
            assert!(tester.check_once(&answer).expect("runs"));
            let mut judged = None;
            tester.events(10, |event| match event {
                Event::Reply(reply) => {
                    assert_eq!((reply.query.key, tester.port(reply.query.port)), (key, sent.port));
                    assert!(reply.query.due <= reply.query.sent && reply.query.sent <= reply.at);
                    judged = Some(case.workload.check(key, reply.message));
                }
                Event::Departures(_) | Event::Stall { .. } => {}
                other => panic!("{other:?}"),
            });
            handed += u64::from(judged.is_some());
            let counted = tester.counts().expect("counts").counted.valid;
            match judged {
                Some(judged) => assert_eq!(judged, verdict, "handed out whole"),
                None => {
                    assert!(counted == valid + 1 && verdict.is_ok(), "{verdict:?} {reply:02x?}");
                    nxdomain += u64::from(verdict == Ok(3));
                }
            }
            valid = counted;
            // The same once more is a duplicate.
            assert!(tester.check_once(&answer).expect("runs"));
        }
        let counts = tester.counts().expect("counts");
        assert_eq!(counts.counted.valid + handed, QUERIES as u64);
        assert_eq!((counts.counted.duplicates, counts.counted.unexpected), (QUERIES as u64, 0));
        assert_eq!((counts.counted.late, counts.counted.lost, counts.unread), (0, 0, 0));
        assert_eq!(counts.counted.nxdomain, nxdomain);
        assert!(case.plan.expect == PlainReply::Never || valid > QUERIES as u64 / 4, "{valid}");
        let times = tester.times().expect("times");
        assert_eq!((times.latency.count(), times.latency_from_send.count()), (valid, valid));
        let seconds = times.series.iter();
        let sums = seconds.fold((0, 0), |(v, n), s| (v + s.valid, n + s.nxdomain));
        assert_eq!(sums, (valid, nxdomain));
    }
}

/// Changes a frame: any octets, its length, bits of its headers.
fn change(random: &mut ChaCha12Rng, frame: &mut Vec<u8>) {
    let mut below = |n: usize| (random.next_u64() % n as u64) as usize;
    for _ in 0..below(4) {
        match below(6) {
            0 => frame.truncate(below(frame.len() + 1)),
            1 => frame.resize(frame.len() + below(100), 7),
            2 => {
                let at = below(frame.len());
                frame[at] = below(256) as u8;
            }
            // The headers of Ethernet, IP and UDP.
            _ => {
                let at = below(frame.len().min(62));
                frame[at] ^= 1 << below(8);
            }
        }
        frame.resize(frame.len().max(SHORTEST), 0);
    }
}

/// Sender, port of the receiver, and message of a frame, as another parser reads them.
fn read(frame: &[u8]) -> Option<(SocketAddr, u16, Vec<u8>)> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let from: IpAddr = match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => ip.header().source_addr().into(),
        NetSlice::Ipv6(ip) => ip.header().source_addr().into(),
        _ => return None,
    };
    let Some(TransportSlice::Udp(udp)) = packet.transport else { return None };
    let from = SocketAddr::new(from, udp.source_port());
    Some((from, udp.destination_port(), udp.payload().to_vec()))
}

/// Runs the checker on changed replies to a load; fails if it counts one as valid, or hands one out, that is none.
fn judge_changed_frames(case: &mut Case, random: &mut ChaCha12Rng, until: Instant) -> Option<u64> {
    let tester = loaded(&case.plan)?;
    let config = AuthConfig {
        aaaa: AaaaPolicy::Always,
        pref64: pref64(),
        ..AuthConfig::new(case.spec.namespace)
    };
    let (mut auth, mut valid) = (Auth::new(config), 0);
    let mut keys = HashMap::new();
    for number in 0..QUERIES {
        if number >= AT_LEAST && Instant::now() > until {
            break;
        }
        let frame = next_frame(&tester);
        let sent = query(&frame, case.plan.target);
        let key = case.workload.next(&mut [0; MAX_QUERY]).expect("a name").key;
        keys.insert((sent.port, [sent.message[0], sent.message[1]]), key);
        let mut reply = vec![0; MAX_REPLY];
        let len = auth.answer(&sent.message, &mut reply).expect("an answer");
        reply.truncate(len);
        if random.next_u64().is_multiple_of(3) {
            spoil(random, &mut reply);
        }
        let mut answer = reply_frame(&frame, case.plan.target.is_ipv6(), &reply);
        change(random, &mut answer);
        let taken = tester.check_once(&answer).expect("runs");
        let own = read(&answer).filter(|(from, ..)| *from == case.plan.target);
        let key_of = |port: u16, id: [u8; 2]| keys.get(&(port, id)).copied();
        let expected = own.as_ref().and_then(|(_, port, message)| {
            let key = key_of(*port, *message.first_chunk()?)?;
            Some((key, case.workload.check(key, message)))
        });
        tester.events(10, |event| {
            if let Event::Reply(handed) = event {
                let (_, port, message) = own.as_ref().unwrap_or_else(|| panic!("{answer:02x?}"));
                assert_eq!((tester.port(handed.query.port), handed.message), (*port, &message[..]));
                assert_eq!(Some(handed.query.key), expected.map(|(key, _)| key), "{answer:02x?}");
            }
        });
        let counts = tester.counts().expect("counts");
        if counts.counted.valid > valid {
            assert!(taken && counts.counted.valid == valid + 1);
            assert!(matches!(expected, Some((_, Ok(0 | 3)))), "{expected:?}: {answer:02x?}");
        }
        valid = counts.counted.valid;
    }
    Some(valid)
}

#[test]
fn changed_frames_are_judged_as_other_parsers_read_them() {
    let seconds = std::env::var(SECONDS_VARIABLE).ok();
    let seconds = seconds.map(|seconds| seconds.parse().expect(SECONDS_VARIABLE));
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("a clock");
    let seed = if seconds.is_some() { now.tv_nsec() as u64 } else { 1 };
    println!("frames of the seed {seed}");
    let (seconds, mut random) = (seconds.unwrap_or(SECONDS), ChaCha12Rng::seed_from_u64(seed));
    let (until, mut valid) = (Instant::now() + Duration::from_secs(seconds), 0);
    while Instant::now() < until {
        for mut case in cases() {
            match judge_changed_frames(&mut case, &mut random, until) {
                Some(counted) => valid += counted,
                None => return,
            }
        }
    }
    assert!(valid > 0);
}

#[test]
fn packets_of_others_are_passed_up() {
    let case = case("10.0.0.2:53", NamespaceExpect::Address, None, &["10.0.0.1"]);
    let Some(tester) = loaded(&case.plan) else { return };
    let frame = next_frame(&tester);
    let message = &query(&frame, case.plan.target).message;
    let reply = reply_frame(&frame, false, message);
    let changed = |at: usize, octets: &[u8]| {
        let mut frame = reply.clone();
        frame[at..at + octets.len()].copy_from_slice(octets);
        frame
    };
    let udp = ETHERNET + 20;
    for (what, frame, taken) in [
        ("another server", changed(26, &[10, 0, 0, 9]), false),
        ("another port of the server", changed(udp, &[0, 54]), false),
        ("a port that is not the Tester's", changed(udp + 2, &[0, 80]), false),
        ("a fragment", changed(ETHERNET + 6, &[0x20, 0]), false),
        ("TCP", changed(ETHERNET + 9, &[6]), false),
        ("another protocol", changed(12, &[0x88, 0xa8]), false),
        ("a datagram longer than its frame", changed(udp + 4, &[2, 0]), true),
        ("an id that nobody used", changed(udp + UDP, &[!message[0], !message[1]]), true),
    ] {
        assert_eq!(tester.check_once(&frame).expect("runs"), taken, "{what}");
    }
    let counts = tester.counts().expect("counts");
    assert_eq!(
        (counts.counted.unexpected, counts.counted.valid, counts.counted.duplicates),
        (2, 0, 0)
    );
}

#[test]
fn late_departures_are_told_as_spans() {
    let case = case("10.0.0.2:53", NamespaceExpect::Address, None, &["10.0.0.1"]);
    let mut plan = case.plan.clone();
    plan.duration = Nanos::from_millis(60);
    let Some(tester) = loaded(&plan) else { return };
    for _ in 0..3_000 {
        next_frame(&tester);
    }
    let (mut spans, mut late, mut runs) = (0, 0, 0);
    while late < 3_000 && runs < 10_000 {
        // The schedule is over: what is left is told.
        assert_eq!(tester.generate_once().expect("runs"), None);
        runs += 1;
        tester.events(1_000, |event| {
            if let Event::Departures(LateSpan { from, until, queries, worst }) = event {
                assert!(until > from && worst >= Nanos::from_secs(9), "{event:?}");
                (spans, late) = (spans + 1, late + queries);
            }
        });
    }
    // All of them left some ten seconds late, one just after the other.
    assert_eq!((spans, late), (1, 3_000));
}

/// Octets of replies, and numbers of them, that fill the ring of events (16 MiB): long ones, and short ones for the rest.
const LONG_REPLIES: (usize, usize) = (3_000, 5_600);
const SHORT_REPLIES: (usize, usize) = (2, 400);

/// What a generator has told.
#[derive(Debug, Default)]
struct Told {
    /// Number of queries that left late, and how late the least late span was.
    late: u64,
    worst: Option<Nanos>,
    /// Start and end of each stall.
    stalls: Vec<(Nanos, Nanos)>,
}

/// Lets the generator run once when nothing is due any more, and takes all events.
fn told(tester: &KernelTester) -> Told {
    assert_eq!(tester.generate_once().expect("runs"), None);
    let mut told = Told::default();
    tester.events(usize::MAX, |event| match event {
        Event::Departures(LateSpan { queries, worst, .. }) => {
            told.late += queries;
            told.worst = Some(told.worst.map_or(worst, |least| least.min(worst)));
        }
        Event::Stall { from, until } => told.stalls.push((from, until)),
        _ => {}
    });
    told
}

#[test]
fn what_finds_no_room_is_told_later() {
    let case = case("10.0.0.2:53", NamespaceExpect::Address, None, &["10.0.0.1"]);
    let mut plan = case.plan.clone();
    let queries = (LONG_REPLIES.1 + SHORT_REPLIES.1) as u64;
    plan.duration = Nanos::from_millis(queries / 50);
    let Some(tester) = loaded(&plan) else { return };
    for (len, replies) in [LONG_REPLIES, SHORT_REPLIES] {
        for _ in 0..replies {
            let frame = next_frame(&tester);
            let mut reply = query(&frame, plan.target).message;
            reply.resize(len, 0);
            assert!(tester.check_once(&reply_frame(&frame, false, &reply)).expect("runs"));
        }
        assert!(tester.counts().expect("counts").unread > 0, "the ring is full");
    }
    // The schedule is over, and the generator stands still; the first time there may be room for this, but for nothing else.
    let (mut standing, mut moving) = (Nanos::ZERO, Nanos::ZERO);
    for _ in 0..2 {
        standing = engine::clock::monotonic();
        std::thread::sleep(Duration::from_millis(5));
        moving = engine::clock::monotonic();
        assert_eq!(tester.generate_once().expect("runs"), None);
    }
    assert_eq!(tester.counts().expect("counts").finished, 0);
    told(&tester);
    let told = told(&tester);
    assert!(told.late == queries && told.worst >= Some(Nanos::from_secs(9)), "{told:?}");
    let covers = |(from, until): &(Nanos, Nanos)| *from <= standing && *until >= moving;
    assert!(told.stalls.iter().any(covers), "{told:?}");
    assert_eq!(tester.counts().expect("counts").finished, 1);
}

#[test]
fn replies_over_ipv6_have_a_checksum() {
    let expect = NamespaceExpect::Embedded(pref64());
    let case = case("[fd00::2]:53", expect, None, &["fd00::1"]);
    let Some(tester) = loaded(&case.plan) else { return };
    let frame = next_frame(&tester);
    let message = query(&frame, case.plan.target).message;
    let mut reply = reply_frame(&frame, true, &message);
    reply[ETHERNET + 40 + 6..][..2].fill(0);
    assert!(tester.check_once(&reply).expect("runs"));
    assert_eq!(tester.counts().expect("counts").counted.unexpected, 1);
    tester.events(10, |event| assert!(!matches!(event, Event::Reply(_)), "{event:?}"));
}

#[test]
fn random_gaps_are_exponential() {
    let rate = 1_000_000.0;
    let pacing = Pacing::Poisson { rate: Qps::new(rate).expect("a rate") };
    let mut case = case("10.0.0.2:53", NamespaceExpect::Address, None, &["10.0.0.1"]);
    case.plan.pacing = pacing;
    case.plan.timeout = Nanos::from_millis(1);
    let Some(tester) = loaded(&case.plan) else { return };
    let mut dues = Vec::new();
    let mut sent = 0;
    while dues.len() < 20_000 && sent < 60_000 {
        next_frame(&tester);
        sent += 1;
        // Nobody answers: each is lost in turn.
        tester.events(1_000, |event| {
            if let Event::Lost(query) = event {
                dues.push(query.due.0);
            }
        });
    }
    let gaps: Vec<f64> =
        dues.windows(2).map(|pair| (pair[1] - pair[0]) as f64 * rate / 1e9).collect();
    // Five standard deviations of 20,000 gaps are 0.036 of the mean, and at most 0.018 of a share.
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!((mean - 1.0).abs() < 0.04, "mean {mean} of {}", gaps.len());
    for x in [0.1, 0.5, 1.0, 2.0, 4.0] {
        let above = gaps.iter().filter(|gap| **gap > x).count() as f64 / gaps.len() as f64;
        assert!((above - f64::exp(-x)).abs() < 0.02, "{x}: {above}");
    }
}
