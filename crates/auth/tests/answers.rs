//! Replies of the AuthDNS, read with another library (`domain`).

use auth::{AaaaPolicy, Auth, AuthConfig, MAX_REPLY, Streamed};
use domain::base::Message;
use domain::base::iana::{OptRcode, Rcode};
use proptest::prelude::*;
use wire::{Edns, Namespace};

use crate::common::{HOST, answers, ask, authority, config, query, records};

const REVERSE6: &str = "3.0.2.0.1.0.a.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
const FORWARD_SOA: &str = "dns64perf.test 300 SOA ns1.dns64perf.test. hostmaster.dns64perf.test. 2026010100 604800 86400 2419200 300";
const REVERSE_SOA: &str = "10.in-addr.arpa 300 SOA ns1.dns64perf.test. hostmaster.dns64perf.test. 2026010100 604800 86400 2419200 300";

#[test]
fn drills_have_a_large_answer_delegations_without_addresses_and_forged_signatures() {
    let mut auth = Auth::new(AuthConfig { traps: true, ..config() });
    let large = query("large.dns64perf.test", "TXT", None);
    let mut out = [0; MAX_REPLY];
    let len = auth.answer(&large, &mut out).expect("a reply");
    let short = Message::from_octets(out[..len].to_vec()).expect("a message");
    assert!(short.header().tc() && answers(&short).is_empty(), "it does not fit");
    for edns in [None, Some(Edns::default())] {
        let mut stream = Vec::new();
        let large = query("large.dns64perf.test", "TXT", edns.as_ref());
        auth.answer_stream(Streamed::default(), &large, &mut stream);
        let whole = Message::from_octets(stream).expect("a message");
        let texts = answers(&whole);
        assert!(!whole.header().tc() && texts.len() == 16, "{texts:?}");
        assert_eq!(whole.opt().is_some(), edns.is_some());
    }
    let name = "abcdefgh2345.bomb.dns64perf.test";
    let referral = ask(&mut auth, &query(name, "A", None));
    let servers = authority(&referral);
    assert!(!referral.header().aa() && answers(&referral).is_empty());
    assert!(servers.len() >= 12, "{servers:?}");
    assert_eq!(servers[0], format!("{name} 3600 NS n00.abcdefgh2345.dns64perf.test."));
    assert_eq!(referral.header_counts().arcount(), 0, "no addresses");
    let server = ask(&mut auth, &query("n00.abcdefgh2345.dns64perf.test", "AAAA", None));
    assert_eq!(server.header().rcode(), Rcode::NXDOMAIN);
    let above = ask(&mut auth, &query("bomb.dns64perf.test", "A", None));
    assert_eq!(
        (above.header().rcode(), authority(&above)),
        (Rcode::NOERROR, vec![FORWARD_SOA.into()])
    );
    let mut stream = Vec::new();
    let keys = query("keytrap.dns64perf.test", "DNSKEY", None);
    auth.answer_stream(Streamed::default(), &keys, &mut stream);
    let keys = answers(&Message::from_octets(stream).expect("a message"));
    assert!(keys.len() == 34 && keys[33].contains(" RRSIG DNSKEY "), "{keys:?}");
    let edns = Edns { dnssec_ok: true, ..Edns::default() };
    let forged = ask(&mut auth, &query("x.keytrap.dns64perf.test", "A", Some(&edns)));
    let forged = answers(&forged);
    assert_eq!(
        (forged.len(), forged[0].as_str()),
        (4, "x.keytrap.dns64perf.test 3600 A 192.0.2.1")
    );
    assert!(forged[1..].iter().all(|record| record.contains(" RRSIG A ")), "{forged:?}");
    let plain = ask(&mut auth, &query("x.keytrap.dns64perf.test", "A", None));
    assert_eq!(answers(&plain).len(), 1, "who does not ask for signatures gets none");
    // An AuthDNS that is not for drills has none of them.
    let mut plain = Auth::new(config());
    let keytrap = ("keytrap.dns64perf.test", "DNSKEY");
    for (name, qtype) in
        [("large.dns64perf.test", "TXT"), (name, "A"), ("bomb.dns64perf.test", "A"), keytrap]
    {
        let message = ask(&mut plain, &query(name, qtype, None));
        assert_eq!(message.header().rcode(), Rcode::NXDOMAIN, "{name}");
    }
}

#[test]
fn each_name_has_its_records() {
    let mut auth = Auth::new(AuthConfig { aaaa: AaaaPolicy::Always, ..config() });
    // Name, type, and the answer, or the SOA of a NODATA reply.
    let table: [(&str, &str, Result<&str, &str>); 17] = [
        (HOST, "A", Ok("010-001-002-003.dns64perf.test 3600 A 10.1.2.3")),
        (HOST, "AAAA", Ok("010-001-002-003.dns64perf.test 3600 AAAA 2001:db8:64::a01:203")),
        (HOST, "TXT", Err(FORWARD_SOA)),
        (HOST, "ANY", Ok("010-001-002-003.dns64perf.test 3600 HINFO \"RFC8482\" \"\"")),
        (
            "010-001-002-003.DNS64Perf.TEST",
            "A",
            Ok("010-001-002-003.DNS64Perf.TEST 3600 A 10.1.2.3"),
        ),
        ("dns64perf.test", "NS", Ok("dns64perf.test 3600 NS ns1.dns64perf.test.")),
        ("dns64perf.test", "SOA", Ok(&*FORWARD_SOA.replace("test 300", "test 3600").leak())),
        ("dns64perf.test", "A", Err(FORWARD_SOA)),
        ("dns64perf.test", "DS", Err(FORWARD_SOA)),
        ("ns1.dns64perf.test", "A", Ok("ns1.dns64perf.test 3600 A 192.0.2.53")),
        ("ns1.dns64perf.test", "AAAA", Ok("ns1.dns64perf.test 3600 AAAA 2001:db8::53")),
        ("ns1.dns64perf.test", "MX", Err(FORWARD_SOA)),
        (
            "3.2.1.10.in-addr.arpa",
            "PTR",
            Ok("3.2.1.10.in-addr.arpa 3600 PTR 010-001-002-003.dns64perf.test."),
        ),
        (
            REVERSE6,
            "PTR",
            Ok(&*format!("{REVERSE6} 3600 PTR 010-001-002-003.dns64perf.test.").leak()),
        ),
        ("10.in-addr.arpa", "NS", Ok("10.in-addr.arpa 3600 NS ns1.dns64perf.test.")),
        ("1.10.in-addr.arpa", "PTR", Err(REVERSE_SOA)),
        ("3.2.1.10.in-addr.arpa", "A", Err(REVERSE_SOA)),
    ];
    for (name, qtype, wanted) in table {
        let message = ask(&mut auth, &query(name, qtype, None));
        assert_eq!(message.header().rcode(), Rcode::NOERROR, "{name} {qtype}");
        assert!(message.header().aa(), "{name} {qtype}");
        assert_eq!(answers(&message), Vec::from_iter(wanted.ok()), "{name} {qtype}");
        assert_eq!(authority(&message), Vec::from_iter(wanted.err()), "{name} {qtype}");
        assert!(message.opt().is_none(), "no OPT without one in the query");
        assert!(message.sole_question().is_ok_and(|q| q.qtype().to_string() == qtype));
    }
    let c = auth.counters();
    assert_eq!((c.queries, c.answers, c.nodata, c.errors), (17, 11, 6, 0));
}

#[test]
fn missing_names_get_nxdomain_and_other_zones_refused() {
    let mut auth = Auth::new(config());
    for name in [
        "nothing.dns64perf.test",
        "011-001-002-003.dns64perf.test",
        "a.010-001-002-003.dns64perf.test",
        "010-001-002-256.dns64perf.test",
    ] {
        let message = ask(&mut auth, &query(name, "A", None));
        assert_eq!(message.header().rcode(), Rcode::NXDOMAIN, "{name}");
        assert!(message.header().aa() && answers(&message).is_empty());
        assert_eq!(authority(&message), [FORWARD_SOA], "{name}");
    }
    let message = ask(&mut auth, &query("300.2.1.10.in-addr.arpa", "PTR", None));
    assert_eq!(
        (message.header().rcode(), &*authority(&message)),
        (Rcode::NXDOMAIN, &[REVERSE_SOA.to_owned()][..])
    );
    assert_eq!(auth.counters().nxdomain, 5);
    // Without AAAA records there is no IPv6 reverse zone.
    for name in ["www.example.com", ".", "test", "3.2.1.11.in-addr.arpa", REVERSE6] {
        let message = ask(&mut auth, &query(name, "A", None));
        let counts = message.header_counts();
        assert_eq!(
            (message.header().rcode(), message.header().aa()),
            (Rcode::REFUSED, false),
            "{name}"
        );
        assert_eq!((counts.ancount(), counts.nscount()), (0, 0), "{name}");
    }
    for (qtype, rcode) in [
        ("AXFR", Rcode::REFUSED),
        ("IXFR", Rcode::REFUSED),
        ("OPT", Rcode::NOTIMP),
        ("TYPE128", Rcode::NOTIMP),
        ("MAILA", Rcode::NOTIMP),
        ("TYPE256", Rcode::NOERROR),
    ] {
        let message = ask(&mut auth, &query("dns64perf.test", qtype, None));
        assert_eq!(message.header().rcode(), rcode, "{qtype}");
    }
}

#[test]
fn a_name_server_comes_with_its_addresses() {
    let mut auth = Auth::new(config());
    for zone in ["dns64perf.test", "10.in-addr.arpa"] {
        let message = ask(&mut auth, &query(zone, "NS", Some(&Edns::default())));
        let additional = message.additional().expect("a section");
        assert_eq!(
            records(additional)[..2],
            ["ns1.dns64perf.test 3600 A 192.0.2.53", "ns1.dns64perf.test 3600 AAAA 2001:db8::53"]
        );
    }
}

/// The TTL of the SOA in a negative reply is the smaller of its MINIMUM and its own TTL (RFC 2308 section 3); it limits
/// the TTL of a synthesised AAAA record (RFC 6147 section 5.1.7).
#[test]
fn the_negative_ttl_is_the_smaller_one() {
    for (soa_ttl, minimum, negative) in [(3_600, 300, 300), (60, 300, 60), (0, 300, 0), (5, 5, 5)] {
        let times = AuthConfig { ttl: 7, soa_ttl, negative_ttl: minimum, ..config() };
        let mut auth = Auth::new(times);
        for (name, qtype) in [(HOST, "AAAA"), ("x.dns64perf.test", "A"), ("1.10.in-addr.arpa", "A")]
        {
            let soa = authority(&ask(&mut auth, &query(name, qtype, None))).remove(0);
            let words: Vec<&str> = soa.split(' ').collect();
            assert_eq!(
                (words[1], words[9]),
                (&*negative.to_string(), &*minimum.to_string()),
                "{soa}"
            );
        }
        let soa = answers(&ask(&mut auth, &query("dns64perf.test", "SOA", None))).remove(0);
        assert_eq!(soa.split(' ').nth(1), Some(&*soa_ttl.to_string()), "the own TTL as the answer");
        assert!(answers(&ask(&mut auth, &query(HOST, "A", None)))[0].contains(" 7 A "));
    }
}

#[test]
fn a_share_of_the_names_has_aaaa_records() {
    assert!(answers(&ask(&mut Auth::new(config()), &query(HOST, "AAAA", None))).is_empty());
    let mut auth = Auth::new(AuthConfig { aaaa: AaaaPolicy::Share(0.5), ..config() });
    let with = (0..1_000).filter(|i| {
        let host = format!("010-000-{:03}-{:03}.dns64perf.test", i / 250, i % 250);
        let first = answers(&ask(&mut auth, &query(&host, "AAAA", None)));
        assert_eq!(
            first,
            answers(&ask(&mut auth, &query(&host, "AAAA", None))),
            "the same answer each time"
        );
        // The reverse name exists if the AAAA record does.
        let reverse = format!("{:02x}{:02x}", i / 250, i % 250);
        let nibbles: Vec<String> = reverse.chars().rev().map(String::from).collect();
        let reverse =
            format!("{}.{}", nibbles.join("."), &REVERSE6[8..]).replace("0.1.0.a.0", "0.0.0.a.0");
        let pointer = ask(&mut auth, &query(&reverse, "PTR", None));
        assert_eq!(answers(&pointer).len(), first.len(), "{reverse}");
        !first.is_empty()
    });
    let with = with.count();
    assert!((430..570).contains(&with), "{with}");
}

#[test]
fn edns_follows_rfc_6891() {
    let mut auth = Auth::new(config());
    for (udp_size, dnssec_ok) in [(4_096, true), (512, false), (0, true), (1_232, false)] {
        let cookie = vec![(10, b"01234567".to_vec())];
        let edns = Edns { udp_size, dnssec_ok, options: cookie };
        let message = ask(&mut auth, &query(HOST, "A", Some(&edns)));
        let opt = message.opt().expect("OPT is echoed");
        assert_eq!((opt.udp_payload_size(), opt.dnssec_ok(), opt.version()), (1_232, dnssec_ok, 0));
        assert_eq!(opt.opt().len(), 0, "unknown options are ignored");
        assert_eq!(answers(&message).len(), 1);
    }
    let mut q = query(HOST, "A", Some(&Edns::default()));
    let version = q.len() - 5;
    q[version] = 1;
    let message = ask(&mut auth, &q);
    assert_eq!((message.opt_rcode(), message.header().aa()), (OptRcode::BADVERS, false));
    assert_eq!(message.opt().map(|opt| opt.version()), Some(0));
    assert_eq!(message.header_counts().ancount(), 0);
}

#[test]
fn messages_that_are_not_valid_queries() {
    let mut auth = Auth::new(config());
    let good = query(HOST, "A", None);
    let spoiled = |at: usize, to: u8| {
        let mut message = good.clone();
        message[at] = to;
        message
    };
    let end = good.len();
    let two_opts =
        [&query(HOST, "A", Some(&Edns::default()))[..], &Edns::default().to_opt()].concat();
    let table: [(&str, Vec<u8>, Option<u8>); 14] = [
        ("nothing", vec![], None),
        ("less than a header", good[..11].to_vec(), None),
        ("a response", spoiled(2, 0x81), None),
        ("a notify", spoiled(2, 0x21), Some(4)),
        ("an update", spoiled(2, 0x29), Some(4)),
        ("a header alone", good[..12].to_vec(), Some(1)),
        ("no question announced", spoiled(5, 0), Some(1)),
        ("two questions announced", spoiled(5, 2), Some(1)),
        ("an answer announced", spoiled(7, 1), Some(1)),
        ("a cut name", good[..20].to_vec(), Some(1)),
        ("an octet too many", [&good[..], &[0]].concat(), Some(1)),
        ("an OPT record not announced", two_opts, Some(1)),
        ("a compressed name", spoiled(12, 0xc0), Some(1)),
        ("class CH", spoiled(end - 1, 3), Some(5)),
    ];
    for (what, message, rcode) in table {
        let mut out = [0; MAX_REPLY];
        let len = auth.answer(&message, &mut out);
        assert_eq!(len.map(|_| out[3] & 15), rcode, "{what}");
        if len.is_some() {
            assert_eq!((out[2] & 0x80, &out[..2]), (0x80, &good[..2]), "{what}");
        }
    }
    let c = auth.counters();
    assert_eq!((c.queries, c.ignored, c.errors), (14, 3, 11));
}

/// Every reply fits into 512 octets, also with the longest names; otherwise the writer would set TC.
#[test]
fn the_longest_replies_fit() {
    let labels =
        |lens: &[usize]| lens.iter().map(|len| "z".repeat(*len)).collect::<Vec<_>>().join(".");
    // 239 octets, the longest zone that leaves room for a host.
    let zone = labels(&[63, 63, 63, 45]);
    let namespace =
        Namespace::new("10.0.0.0/30".parse().expect("a prefix"), zone.parse().expect("a name"));
    let namespace = namespace.expect("it fits");
    let mut auth = Auth::new(AuthConfig { aaaa: AaaaPolicy::Always, ..AuthConfig::new(namespace) });
    let reverse6 = format!("0.0.0.0.0.0.{}", &REVERSE6[12..]);
    let names = [
        zone.clone(),
        format!("010-000-000-001.{zone}"),
        format!("ns1.{zone}"),
        format!("x.y.z.a.b.c.d.e.{zone}")[..].to_owned(),
        "0.0.0.10.in-addr.arpa".to_owned(),
        "0.0.10.in-addr.arpa".to_owned(),
        reverse6[16..].to_owned(),
        reverse6,
    ];
    let mut longest = 0;
    for name in &names {
        for qtype in ["A", "AAAA", "SOA", "NS", "PTR", "ANY", "TXT"] {
            // `ask` checks that TC is not set.
            let message = ask(&mut auth, &query(name, qtype, Some(&Edns::default())));
            assert_ne!(message.header().rcode(), Rcode::REFUSED, "{name}");
            if qtype == "NS" && !answers(&message).is_empty() {
                // Two addresses and the OPT record.
                assert_eq!(message.header_counts().arcount(), 3);
            }
            longest = longest.max(message.as_slice().len());
        }
    }
    assert!((380..=MAX_REPLY).contains(&longest), "{longest}");
}

proptest! {
    #[test]
    fn any_bytes_get_a_valid_reply_or_none(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        check_reply(&bytes)?;
    }

    #[test]
    fn changed_queries_get_a_valid_reply_or_none(
        name in prop::sample::select(vec![HOST, "dns64perf.test", "x.dns64perf.test", REVERSE6, "2.1.10.in-addr.arpa", "."]),
        qtype in prop::sample::select(vec!["A", "AAAA", "PTR", "NS", "SOA", "ANY", "TYPE65535"]),
        edns: bool,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        keep in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut message = query(name, qtype, edns.then(Edns::default).as_ref());
        for (at, byte) in flips {
            let at = at.index(message.len());
            message[at] = byte;
        }
        if let Some(keep) = keep {
            message.truncate(keep.index(message.len()));
        }
        check_reply(&message)?;
    }

    #[test]
    fn names_of_drills_get_a_valid_reply_or_none(
        name in prop::sample::select(vec![
            "large.dns64perf.test", "bomb.dns64perf.test", "x.bomb.dns64perf.test", "x.y.bomb.dns64perf.test",
            "keytrap.dns64perf.test", "x.keytrap.dns64perf.test",
        ]),
        qtype in prop::sample::select(vec!["A", "AAAA", "NS", "TXT", "TYPE48", "ANY"]),
        dnssec_ok: bool,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let edns = Edns { dnssec_ok, ..Edns::default() };
        let mut message = query(name, qtype, Some(&edns));
        for (at, byte) in flips {
            let at = at.index(message.len());
            message[at] = byte;
        }
        let mut auth = Auth::new(AuthConfig { traps: true, ..config() });
        let (mut out, mut stream) = ([0; MAX_REPLY], Vec::new());
        let len = auth.answer(&message, &mut out).unwrap_or(0);
        auth.answer_stream(Streamed::default(), &message, &mut stream);
        prop_assert_eq!(len == 0, stream.is_empty());
        for reply in [&out[..len], &stream[..]].into_iter().filter(|reply| !reply.is_empty()) {
            let reply = Message::from_octets(reply.to_vec()).expect("a header at least");
            let (_, answer, authority, additional) = reply.sections().expect("sections");
            for section in [answer, authority, additional] {
                prop_assert!(section.into_iter().all(|record| record.is_ok()));
            }
        }
    }

    #[test]
    fn each_address_has_its_name(bits: u32, share in 0.0..=1.0f64) {
        let namespace = Namespace::with_default_zone("0.0.0.0/0".parse().expect("a prefix"));
        let mut auth = Auth::new(AuthConfig { aaaa: AaaaPolicy::Share(share), ..AuthConfig::new(namespace) });
        let address = std::net::Ipv4Addr::from(bits);
        let name = namespace.name(address).to_string();
        let a = answers(&ask(&mut auth, &query(&name, "A", None)));
        prop_assert_eq!(a, [format!("{name} 3600 A {address}")]);
        let [a, b, c, d] = address.octets();
        let reverse = format!("{d}.{c}.{b}.{a}.in-addr.arpa");
        let pointer = answers(&ask(&mut auth, &query(&reverse, "PTR", None)));
        prop_assert_eq!(pointer, [format!("{reverse} 3600 PTR {name}.")]);
    }
}

/// Checks that a reply has at most 512 octets and is a well-formed response to the message.
fn check_reply(message: &[u8]) -> Result<(), TestCaseError> {
    let mut auth = Auth::new(AuthConfig { aaaa: AaaaPolicy::Share(0.5), ..config() });
    let mut out = [0xee; MAX_REPLY + 100];
    let len = auth.answer(message, &mut out).unwrap_or(0);
    prop_assert!(len <= MAX_REPLY);
    prop_assert!(out[len..].iter().skip(MAX_REPLY - len).all(|octet| *octet == 0xee));
    if len == 0 {
        prop_assert!(message.len() < 12 || message[2] & 0x80 != 0);
        return Ok(());
    }
    prop_assert_eq!(&out[..2], &message[..2]);
    let reply = Message::from_octets(out[..len].to_vec()).expect("a header at least");
    prop_assert!(reply.header().qr() && !reply.header().ra() && !reply.header().tc());
    prop_assert_eq!(
        reply.header().opcode(),
        Message::from_octets(message).expect("long enough").header().opcode()
    );
    let (_, answer, authority, additional) = reply.sections().expect("sections");
    for section in [answer, authority, additional] {
        prop_assert!(section.into_iter().all(|record| record.is_ok()));
    }
    Ok(())
}

#[test]
fn an_authdns_that_remembers_says_which_names_were_asked_for() {
    let chaos = |name: &str| {
        let mut message = query(name, "TXT", None);
        let class = message.len() - 2;
        message[class..].copy_from_slice(&wire::Qclass::CH.0.to_be_bytes());
        message
    };
    let config = AuthConfig { remember: true, ..config() };
    let mut workers = Auth::workers(&config, 2);
    let asked = |auth: &mut Auth| ask(auth, &chaos(HOST)).header().rcode();
    assert_eq!(asked(&mut workers[0]), Rcode::NXDOMAIN);
    ask(&mut workers[0], &query(HOST, "AAAA", None));
    // They remember together, and names alone: another one was not asked for.
    assert_eq!(asked(&mut workers[1]), Rcode::NOERROR);
    let other = ask(&mut workers[1], &chaos("010-001-002-004.dns64perf.test"));
    assert_eq!(other.header().rcode(), Rcode::NXDOMAIN);
    // How many messages have come to all of them, this one included.
    for number in 5_u64..7 {
        let told = ask(&mut workers[1], &chaos("dns64perf.test"));
        assert_eq!((told.header().rcode(), told.header_counts().ancount()), (Rcode::NOERROR, 1));
        assert!(told.as_slice().ends_with(format!("\x14{number:020}").as_bytes()), "{number}");
    }
    for name in ["a.dns64perf.test", "other.example"] {
        let refused = ask(&mut workers[1], &chaos(name));
        assert_eq!(refused.header().rcode(), Rcode::REFUSED, "{name}");
    }
    let forgetful = &mut Auth::new(AuthConfig { remember: false, ..config });
    assert_eq!(asked(forgetful), Rcode::REFUSED);
}
