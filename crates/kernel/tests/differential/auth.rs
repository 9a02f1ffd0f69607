//! The program of the AuthDNS against the AuthDNS.

use std::net::SocketAddr;

use auth::{AaaaPolicy, Auth, AuthConfig, MAX_REPLY};
use kernel::{KernelAuth, Listen};
use wire::Namespace;
use wire::name::MAX_NAME;

use crate::kit::{ETHERNET, Random, SERVER, loaded, message, queries, seal};

/// A query, and whether the program has to answer it.
pub(crate) struct Case {
    pub(crate) message: Vec<u8>,
    plain: bool,
}

impl Random {
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

    pub(crate) fn query(&mut self, config: &AuthConfig, zones: &[String]) -> Case {
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
        let flags = (self.next() as u16) & 0x01f0;
        let mut message = (self.next() as u16).to_be_bytes().to_vec();
        message.extend_from_slice(&flags.to_be_bytes());
        message.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::from(edns)]);
        message.extend_from_slice(&question);
        if edns {
            let version = u8::from(self.one_in(20));
            let options: &[u8] = if self.one_in(4) { &[0, 3, 0, 0] } else { &[] };
            plain &= version == 0 && options.is_empty();
            message.extend_from_slice(&[0, 0, 41]);
            message.extend_from_slice(&(self.next() as u16).to_be_bytes());
            message.extend_from_slice(&[0, version, self.next() as u8, 0, 0, options.len() as u8]);
            message.extend_from_slice(options);
        }
        let is_changed = self.one_in(2);
        if is_changed {
            plain = false;
            if self.one_in(2) { self.spoil(&mut message) } else { self.make_odd(&mut message) }
        }
        Case { message, plain }
    }
}

/// The addresses of the server.
pub(crate) fn server() -> Vec<SocketAddr> {
    SERVER.iter().map(|at| at.parse().expect("a constant address")).collect()
}

/// The zones of an AuthDNS, in lower case, without a dot at their end.
pub(crate) fn zones(config: &AuthConfig) -> Vec<String> {
    let reverse = config.prebuilt().reverse.into_iter().flatten();
    let zones = reverse.chain([*config.namespace.zone()]);
    zones.map(|zone| zone.to_string().trim_end_matches('.').to_ascii_lowercase()).collect()
}

pub(crate) fn configs() -> Vec<AuthConfig> {
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
    let count = queries(configs().len());
    let listen = Listen::new(&server()).expect("one address of each family");
    for (number, config) in configs().into_iter().enumerate() {
        let Some(mut kernel) = loaded(KernelAuth::load(&config, &listen)) else { return };
        let mut sockets = Auth::new(config.clone());
        let zones = zones(&config);
        let mut random = Random::new(number as u64);
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
    let Some(mut kernel) = loaded(KernelAuth::load(&config, &only_v4)) else { return };
    let zones = zones(&config);
    let mut random = Random::new(7);
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
        seal(&mut frame);
        frame
    };
    let from = |address: [u8; 4]| changed(ETHERNET + 12, &address);
    let mut damaged = v4.clone();
    damaged[ETHERNET + 10] ^= 1;
    let ip = ETHERNET;
    let udp = ETHERNET + 20;
    for (what, frame) in [
        ("multicast", changed(0, &[1, 0, 0x5e])),
        ("a sender that is multicast", changed(6, &[0xff])),
        ("a damaged header", damaged),
        ("this network as sender", from([0, 0, 0, 7])),
        ("the loopback as sender", from([127, 0, 0, 1])),
        ("a group as sender", from([224, 0, 0, 1])),
        ("everyone as sender", from([255; 4])),
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
    assert!(answers(&changed(ip + 1, &[0xb8])), "another class of traffic, with its checksum");
}

#[test]
fn senders_that_are_no_hosts_are_passed_up_over_ipv6_too() {
    let config = configs().swap_remove(0);
    let listen = Listen::new(&server()).expect("one address of each family");
    let Some(mut kernel) = loaded(KernelAuth::load(&config, &listen)) else { return };
    let zones = zones(&config);
    let mut random = Random::new(9);
    let frame = loop {
        let case = random.query(&config, &zones);
        let frame = random.frame(&case.message);
        if case.plain && frame[12] == 0x86 {
            break frame;
        }
    };
    let mut is_answered = |from: &str| {
        let mut frame = frame.clone();
        let from: std::net::Ipv6Addr = from.parse().expect(from);
        frame[ETHERNET + 8..][..16].copy_from_slice(&from.octets());
        kernel.run(&frame, &mut [0; 2_048]).expect("runs").is_some()
    };
    assert!(is_answered("2001:db8::1") && is_answered("fe80::1") && is_answered("64:ff9b::1"));
    for from in ["::", "::1", "::ffff:10.0.0.1", "ff02::1"] {
        assert!(!is_answered(from), "{from}");
    }
}
