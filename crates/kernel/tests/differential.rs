//! The program of the AuthDNS against the AuthDNS: a reply that it gives is the same, octet for octet.

use std::net::SocketAddr;

use auth::{AaaaPolicy, Auth, AuthConfig, MAX_REPLY};
use kernel::{KernelAuth, KernelError, Listen};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use wire::Namespace;
use wire::name::MAX_NAME;

/// Environment variable with the number of queries for all configurations together, and that number without it.
const QUERIES_VARIABLE: &str = "DNSDYNO_QUERIES";
const QUERIES: u64 = 200_000;
const ETHERNET: usize = 14;
const UDP: usize = 8;

/// A query, and whether the program has to answer it.
struct Case {
    message: Vec<u8>,
    plain: bool,
}

struct Random(ChaCha12Rng);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len() as u64) as usize]
    }

    /// Letters in any case.
    fn any_case(&mut self, name: &mut [u8]) {
        for octet in name.iter_mut().filter(|octet| octet.is_ascii_alphabetic()) {
            if self.one_in(2) {
                *octet ^= 0x20;
            }
        }
    }

    /// A name in the forward zone, without its zone.
    fn front(&mut self, namespace: &Namespace) -> String {
        let inside = namespace.nth(self.below(namespace.size()));
        let address = if self.one_in(5) { (self.below(1 << 32) as u32).into() } else { inside };
        let [a, b, c, d] = address.octets();
        match self.below(13) {
            0..=3 => format!("{a:03}-{b:03}-{c:03}-{d:03}."),
            4..=5 => format!("{a}-{b}-{c}-{d}."),
            6 => format!("{a:02}-{b}-{c}-{d}."),
            7 => format!("x.{a}-{b}-{c}-{d}."),
            8 => self
                .pick(&["www.", "10-1-2.", "-1-2-3.", "256-1-2-3.", "ns.", "ns12.", "a.b.c.d."])
                .into(),
            9 => "ns1.".into(),
            10 => "ns1.ns1.".into(),
            11 => String::new(),
            _ => format!("{}.", "q".repeat(1 + self.below(63) as usize)),
        }
    }

    /// A name in a reverse zone or near one: of an address, above and below those of addresses, and with a label that is none.
    fn reverse(&mut self, config: &AuthConfig) -> String {
        let namespace = &config.namespace;
        let inside = namespace.nth(self.below(namespace.size()));
        let address = if self.one_in(5) { (self.below(1 << 32) as u32).into() } else { inside };
        let (zone, mut labels) = if self.one_in(2) {
            ("in-addr.arpa", address.octets().map(|octet| octet.to_string()).to_vec())
        } else {
            let mut bits = u128::from(config.pref64.embed(address));
            if self.one_in(5) {
                bits ^= 1 << self.below(128);
            }
            let digits = (0..32).map(|digit| format!("{:x}", bits >> (124 - 4 * digit) & 15));
            ("ip6.arpa", digits.collect())
        };
        if self.one_in(4) {
            labels.truncate(self.below(labels.len() as u64 + 1) as usize);
        }
        if self.one_in(6) && !labels.is_empty() {
            let at = self.below(labels.len() as u64) as usize;
            labels[at] = self.pick(&["00", "01", "256", "1000", "a", "g", "F", "0", "x-y"]).into();
        }
        if self.one_in(8) {
            labels.push(self.pick(&["0", "1", "255", "f", "www"]).into());
        }
        labels.iter().rev().fold(String::new(), |name, label| name + label + ".") + zone
    }

    /// A name as text, and whether it is in a zone.
    fn name(&mut self, config: &AuthConfig, zones: &[String]) -> (String, bool) {
        let zone = config.namespace.zone().to_string();
        let name = match self.below(10) {
            0 => {
                let other = self.pick(&["example", "xdns64perf.test", "test", "1.in-addr.arpa"]);
                self.front(&config.namespace) + other
            }
            1..=3 => self.reverse(config),
            _ => self.front(&config.namespace) + zone.trim_end_matches('.'),
        };
        let lower = name.to_ascii_lowercase();
        let is_in = |zone: &String| lower == *zone || lower.ends_with(&format!(".{zone}"));
        let is_inside = zones.iter().any(is_in);
        (name, is_inside)
    }

    fn query(&mut self, config: &AuthConfig, zones: &[String]) -> Case {
        let (name, mut plain) = self.name(config, zones);
        let mut question = Vec::new();
        for label in name.split('.').filter(|label| !label.is_empty()) {
            question.push(label.len() as u8);
            question.extend_from_slice(label.as_bytes());
        }
        question.push(0);
        plain &= question.len() <= MAX_NAME;
        self.any_case(&mut question);
        let qtype: u16 = match self.below(15) {
            0..=3 => 1,
            4..=7 => 28,
            8 => 15,
            9 => 65,
            10 => 2,
            11 => 6,
            12..=13 => 12,
            _ => self.below(300) as u16,
        };
        plain &= qtype != 41 && !(128..=255).contains(&qtype);
        question.extend_from_slice(&qtype.to_be_bytes());
        let qclass: u16 = if self.one_in(30) { 3 } else { 1 };
        plain &= qclass == 1;
        question.extend_from_slice(&qclass.to_be_bytes());
        let edns = self.one_in(2);
        let flags = (self.0.next_u32() as u16) & 0x01f0;
        let mut message = (self.0.next_u32() as u16).to_be_bytes().to_vec();
        message.extend_from_slice(&flags.to_be_bytes());
        message.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::from(edns)]);
        message.extend_from_slice(&question);
        if edns {
            let version = u8::from(self.one_in(20));
            let options: &[u8] = if self.one_in(4) { &[0, 3, 0, 0] } else { &[] };
            plain &= version == 0 && options.is_empty();
            message.extend_from_slice(&[0, 0, 41]);
            message.extend_from_slice(&(self.0.next_u32() as u16).to_be_bytes());
            message.extend_from_slice(&[
                0,
                version,
                self.0.next_u32() as u8,
                0,
                0,
                options.len() as u8,
            ]);
            message.extend_from_slice(options);
        }
        if self.one_in(3) {
            plain = false;
            self.spoil(&mut message);
        }
        Case { message, plain }
    }

    /// Changes, cuts or extends a message.
    fn spoil(&mut self, message: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            match self.below(4) {
                0 => message.truncate(self.below(message.len() as u64 + 1) as usize),
                1 => message.extend((0..self.below(40)).map(|i| i as u8)),
                _ if message.is_empty() => {}
                _ => {
                    let at = self.below(message.len() as u64) as usize;
                    message[at] = self.0.next_u32() as u8;
                }
            }
        }
    }

    /// A frame with the message, over IPv4 or IPv6.
    fn frame(&mut self, message: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let udp = (UDP + message.len()) as u16;
        if self.one_in(2) {
            frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend_from_slice(&udp.to_be_bytes());
            frame.extend_from_slice(&[17, 64]);
            frame.extend_from_slice(&[0xfd; 16]);
            frame.extend_from_slice(&[0xfe; 16]);
        } else {
            frame.extend_from_slice(&[8, 0, 0x45, 0]);
            frame.extend_from_slice(&(20 + udp).to_be_bytes());
            frame.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        }
        frame.extend_from_slice(&[0x30, 0x39, 0, 53]);
        frame.extend_from_slice(&udp.to_be_bytes());
        frame.extend_from_slice(&[0x12, 0x34]);
        frame.extend_from_slice(message);
        // A short frame is filled up.
        frame.resize(frame.len().max(60), 0);
        frame
    }
}

/// Adds words of 16 bits as the checksums of the Internet do.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Checks addresses, lengths and checksums of a reply; returns its message.
fn message<'a>(query: &[u8], reply: &'a [u8]) -> &'a [u8] {
    assert_eq!((&reply[..6], &reply[6..12]), (&query[6..12], &query[..6]), "MAC addresses");
    assert_eq!(reply[12..14], query[12..14]);
    let v6 = reply[12] == 0x86;
    let (ip, from, to) = if v6 { (40, 22, 38) } else { (20, 26, 30) };
    let size = to - from;
    let at = ETHERNET + ip;
    assert_eq!(
        (&reply[from..to], &reply[to..to + size]),
        (&query[to..to + size], &query[from..to])
    );
    assert_eq!(
        (&reply[at..at + 2], &reply[at + 2..at + 4]),
        (&query[at + 2..at + 4], &query[at..at + 2])
    );
    let len = u16::from_be_bytes([reply[at + 4], reply[at + 5]]);
    assert_eq!(reply.len(), at + usize::from(len), "the frame ends with the datagram");
    let of_ip = if v6 { &reply[18..20] } else { &reply[16..18] };
    let more = if v6 { 0 } else { 20 };
    assert_eq!(u16::from_be_bytes([of_ip[0], of_ip[1]]), len + more);
    if !v6 {
        assert_eq!(sum(&[&reply[ETHERNET..at]]), 0xffff, "checksum of IPv4");
    }
    let pseudo = [0, 17, reply[at + 4], reply[at + 5]];
    assert_eq!(sum(&[&reply[from..to + size], &pseudo, &reply[at..]]), 0xffff, "checksum of UDP");
    assert_ne!(reply[at + 6..at + 8], [0, 0]);
    &reply[at + UDP..]
}

/// The zones of an AuthDNS, in lower case, without a dot at their end.
fn zones(config: &AuthConfig) -> Vec<String> {
    let reverse = config.prebuilt().reverse.into_iter().flatten();
    let zones = reverse.chain([*config.namespace.zone()]);
    zones.map(|zone| zone.to_string().trim_end_matches('.').to_ascii_lowercase()).collect()
}

fn configs() -> Vec<AuthConfig> {
    let of = |prefix: &str, zone: &str, pref64: &str, aaaa| {
        let namespace = Namespace::new(prefix.parse().expect(prefix), zone.parse().expect(zone));
        let namespace = namespace.expect("a namespace");
        AuthConfig { pref64: pref64.parse().expect(pref64), aaaa, ..AuthConfig::new(namespace) }
    };
    vec![
        of("10.0.0.0/8", "dns64perf.test", "2001:db8:64::/96", AaaaPolicy::Never),
        of("0.0.0.0/0", "a.B.c.example", "64:ff9b:1::/48", AaaaPolicy::Share(0.3)),
        of("192.0.2.77/32", "t", "2001:db8::/32", AaaaPolicy::Always),
        of("10.16.0.0/12", &["l"; 100].join("."), "2001:db8:100::/40", AaaaPolicy::Share(0.999)),
        of("10.1.0.0/16", &"w".repeat(63), "2001:db8:1:2::/64", AaaaPolicy::Always),
    ]
}

#[test]
fn replies_are_those_of_the_sockets() {
    let all = std::env::var(QUERIES_VARIABLE).ok();
    let all = all.map_or(QUERIES, |all| all.parse().expect(QUERIES_VARIABLE));
    let count = all.div_ceil(configs().len() as u64);
    let own = ["10.0.0.2:53", "[fefe:fefe:fefe:fefe:fefe:fefe:fefe:fefe]:53"];
    let own: Vec<SocketAddr> = own.iter().map(|at| at.parse().expect(at)).collect();
    let listen = Listen::new(&own).expect("one address of each family");
    for (number, config) in configs().into_iter().enumerate() {
        let mut kernel = match KernelAuth::load(&config, &listen) {
            Err(why @ KernelError::NotPermitted) => return skip::because(why),
            loaded => loaded.unwrap_or_else(|why| panic!("{why}")),
        };
        let mut sockets = Auth::new(config.clone());
        let zones = zones(&config);
        let mut random = Random(ChaCha12Rng::seed_from_u64(number as u64));
        let (mut answered, mut plain) = (0, 0);
        for _ in 0..count {
            let case = random.query(&config, &zones);
            let frame = random.frame(&case.message);
            let (mut out, mut expected) = ([0; 2_048], [0; MAX_REPLY]);
            let len = kernel.run(&frame, &mut out).expect("runs");
            plain += u64::from(case.plain);
            match len {
                Some(len) => {
                    answered += 1;
                    let reply = message(&frame, &out[..len]);
                    let of_sockets = sockets.answer(&case.message, &mut expected);
                    let of_sockets = of_sockets.map(|len| &expected[..len]);
                    assert_eq!(Some(reply), of_sockets, "to {:02x?}", case.message);
                }
                None => assert!(!case.plain, "no reply to {:02x?}", case.message),
            }
        }
        let counters = kernel.counters().expect("counters");
        assert_eq!(counters.answers + counters.nodata + counters.nxdomain, answered);
        assert_eq!((counters.queries, counters.dropped), (counters.passed + answered, 0));
        assert!(answered >= plain && plain > count / 4, "{answered} of {plain} of {count}");
    }
}

#[test]
fn frames_of_others_are_passed_up() {
    let config = configs().swap_remove(0);
    let only_v4 = Listen::new(&["10.0.0.2:53".parse().expect("an address")]).expect("one address");
    let mut kernel = match KernelAuth::load(&config, &only_v4) {
        Err(why @ KernelError::NotPermitted) => return skip::because(why),
        loaded => loaded.unwrap_or_else(|why| panic!("{why}")),
    };
    let zones = zones(&config);
    let mut random = Random(ChaCha12Rng::seed_from_u64(7));
    let mut frame_of = |v6: bool| loop {
        let case = random.query(&config, &zones);
        let frame = random.frame(&case.message);
        if case.plain && frame.len() > 60 && (frame[12] == 0x86) == v6 {
            return frame;
        }
    };
    let (v4, v6) = (frame_of(false), frame_of(true));
    let mut answers = |frame: &[u8]| kernel.run(frame, &mut [0; 2_048]).expect("runs").is_some();
    assert!(answers(&v4), "the frame itself is answered");
    assert!(!answers(&v6), "there is no address of IPv6");
    let changed = |at: usize, octets: &[u8]| {
        let mut frame = v4.clone();
        frame[at..at + octets.len()].copy_from_slice(octets);
        frame
    };
    let ip = ETHERNET;
    let udp = ETHERNET + 20;
    for (what, frame) in [
        ("multicast", changed(0, &[1, 0, 0x5e])),
        ("another protocol", changed(12, &[0x88, 0xa8])),
        ("options of IP", changed(ip, &[0x46])),
        ("a fragment", changed(ip + 6, &[0x20, 0])),
        ("TCP", changed(ip + 9, &[6])),
        ("another address", changed(ip + 16, &[10, 0, 0, 3])),
        ("another port", changed(udp + 2, &[0, 54])),
        ("a datagram longer than its packet", changed(udp + 4, &[1, 0])),
        ("a datagram shorter than its packet", changed(udp + 4, &[0, 30])),
        ("a packet longer than its frame", changed(ip + 2, &[4, 0])),
        ("a frame that is cut", v4[..v4.len() - 1].to_vec()),
        ("more padding than a frame has", [v4.clone(), vec![0; 80]].concat()),
    ] {
        assert!(!answers(&frame), "{what}");
    }
}
