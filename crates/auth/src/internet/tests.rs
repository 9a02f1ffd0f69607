//! Replies of the Internet in a box: from the root to the answer, the proofs of a signed zone, and any message.

use proptest::prelude::*;
use wire::message::{HEADER, Record, flag, name_at, question_end};
use wire::{Edns, Header, QueryTemplate};

use super::*;
use crate::responder::MAX_REPLY;

fn name(text: &str) -> Name {
    text.parse().expect(text)
}

/// Returns the data of a record of a test; signatures and proofs have no more than their first field.
fn data(rtype: Qtype, text: &str) -> Vec<u8> {
    match rtype {
        Qtype::A => text.parse::<Ipv4Addr>().expect(text).octets().to_vec(),
        Qtype::NS | Qtype::CNAME | Qtype::NSEC => name(text).as_wire().to_vec(),
        Qtype::SOA => [&b"\x01m\0\x01h\0"[..], &[0; 16], &60u32.to_be_bytes()].concat(),
        Qtype::RRSIG => text.parse::<Qtype>().expect(text).0.to_be_bytes().to_vec(),
        _ => text.as_bytes().to_vec(),
    }
}

/// Returns a zone of lines: owner, type, data.
fn zone(apex: &str, lines: &[&str]) -> ZoneBuilder {
    let mut builder = ZoneBuilder::new(name(apex));
    for line in lines {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [owner, rtype, text] = words[..] else { panic!("{line}: owner, type and data") };
        let rtype = rtype.parse().expect(rtype);
        let added = builder.add(name(owner).as_wire(), rtype, 300, &data(rtype, text));
        added.expect(line);
    }
    builder
}

/// The root, two top-level domains and three domains, one of them without glue.
fn zones() -> Vec<ZoneBuilder> {
    vec![
        zone(
            ".",
            &[
                ". SOA -",
                ". NS a.root-servers",
                "a.root-servers A 10.53.0.1",
                "t1 NS a.nic-servers.t1",
                "a.nic-servers.t1 A 10.53.1.0",
                "t2 NS a.nic-servers.t2",
                "a.nic-servers.t2 A 10.53.1.2",
            ],
        ),
        zone(
            "t1",
            &[
                "t1 SOA -",
                "t1 NS a.nic-servers.t1",
                "a.nic-servers.t1 A 10.53.1.0",
                "d1.t1 NS ns1.d1.t1",
                "ns1.d1.t1 A 10.53.64.1",
                "d2.t1 NS ns1.d1.t2",
            ],
        ),
        zone(
            "t2",
            &[
                "t2 SOA -",
                "t2 NS a.nic-servers.t2",
                "a.nic-servers.t2 A 10.53.1.2",
                "d1.t2 NS ns1.d1.t2",
                "ns1.d1.t2 A 10.53.64.2",
            ],
        ),
        zone(
            "D1.t1",
            &[
                "d1.t1 SOA -",
                "d1.t1 NS ns1.d1.t1",
                "ns1.d1.t1 A 10.53.64.1",
                "H1.d1.t1 A 198.18.0.1",
                "x.y.d1.t1 A 198.18.0.2",
                "alias.d1.t1 CNAME h1.d1.t1",
            ],
        ),
        zone("d2.t1", &["d2.t1 SOA -", "d2.t1 NS ns1.d1.t2", "*.d2.t1 A 198.18.0.3"]),
        zone("d1.t2", &["d1.t2 SOA -", "d1.t2 NS ns1.d1.t2", "ns1.d1.t2 A 10.53.64.2"]),
    ]
}

fn internet(zones: Vec<ZoneBuilder>) -> InternetConfig {
    let zones = Arc::new(InternetZones::new(zones).expect("valid zones"));
    InternetConfig { zones, delays: Vec::new(), log: None }
}

/// A reply: its header and its records by section, each with owner and type, and with its data if that is a name or an IPv4
/// address.
struct Parsed {
    header: Header,
    sections: [Vec<String>; 3],
}

impl Parsed {
    fn of(reply: &[u8]) -> Self {
        let header = Header::read(reply).expect("a header");
        let mut at = question_end(reply).expect("a question");
        let sections = [1, 2, 3].map(|section: usize| {
            let records = (0..header.counts[section]).map(|_| {
                let (record, end) = Record::read(reply, at).expect("a record");
                at = end;
                let owner = name_at(reply, record.owner).expect("a name");
                match record.rtype {
                    Qtype::A => {
                        let octets = record.rdata.first_chunk::<4>().expect("an address");
                        format!("{owner} A {}", Ipv4Addr::from(*octets))
                    }
                    Qtype::NS => {
                        format!("{owner} NS {}", Name::from_wire(record.rdata).expect("a name"))
                    }
                    other => format!("{owner} {other}"),
                }
            });
            records.collect()
        });
        assert_eq!(at, reply.len());
        Parsed { header, sections }
    }

    fn is_final(&self) -> bool {
        self.header.flags & flag::AA != 0
    }
}

fn ask(
    internet: &InternetConfig,
    server: &str,
    qname: &str,
    qtype: Qtype,
    edns: Option<Edns>,
) -> Parsed {
    let query = QueryTemplate::new(&name(qname), qtype, false, false, edns.as_ref());
    let mut out = [0; MAX_DATAGRAM];
    let server = Some(server.parse().expect(server));
    let reply = internet.reply(server, query.bytes(), Carrier::Datagram, &mut out);
    Parsed::of(&out[..reply.len])
}

/// Resolves a name from the root as RFC 1034 section 5.3.3 says; returns the last reply and the number of referrals.
fn resolve(internet: &InternetConfig, qname: &str, qtype: Qtype) -> (Parsed, u32) {
    let (mut server, mut referrals) = ("10.53.0.1".to_owned(), 0);
    loop {
        let reply = ask(internet, &server, qname, qtype, None);
        if reply.is_final() {
            return (reply, referrals);
        }
        referrals += 1;
        assert!(referrals < 4, "{qname} leads in a circle");
        let glue = reply.sections[2].first().cloned();
        let record = glue.unwrap_or_else(|| {
            let (_, target) = reply.sections[1][0].rsplit_once(' ').expect("a server");
            resolve(internet, target, Qtype::A).0.sections[0][0].clone()
        });
        let (_, address) = record.rsplit_once(' ').expect("an address");
        server = address.to_owned();
    }
}

#[test]
fn names_are_found_from_the_root() {
    let internet = internet(zones());
    for (qname, qtype, rcode, answers, referrals) in [
        (".", Qtype::NS, 0, 1, 0),
        (".", Qtype::A, 0, 0, 0),
        ("a.root-servers", Qtype::A, 0, 1, 0),
        ("root-servers", Qtype::A, 0, 0, 0),
        ("com", Qtype::A, 3, 0, 0),
        ("t1", Qtype::SOA, 0, 1, 1),
        ("T1", Qtype::DS, 0, 0, 0),
        ("d1.t1", Qtype::DS, 0, 0, 1),
        ("nx.t1", Qtype::A, 3, 0, 1),
        ("h1.D1.t1", Qtype::A, 0, 1, 2),
        ("h1.d1.t1", Qtype::AAAA, 0, 0, 2),
        ("y.d1.t1", Qtype::A, 0, 0, 2),
        ("nx.d1.t1", Qtype::A, 3, 0, 2),
        ("alias.d1.t1", Qtype::A, 0, 1, 2),
        ("anything.d2.t1", Qtype::A, 0, 1, 2),
        ("an.y.thing.d2.t1", Qtype::A, 0, 1, 2),
        ("anything.d2.t1", Qtype::AAAA, 0, 0, 2),
        ("d1.t2", Qtype::ANY, 0, 2, 2),
    ] {
        let (reply, found) = resolve(&internet, qname, qtype);
        let counts = (u16::from(reply.header.rcode()), reply.sections[0].len(), found);
        assert_eq!(counts, (rcode, answers, referrals), "{qname} {qtype}");
        let soas = reply.sections[1].iter().filter(|record| record.ends_with(" SOA")).count();
        assert_eq!(soas, usize::from(answers == 0), "{qname} {qtype}: a negative answer has a SOA");
    }
}

#[test]
fn a_delegation_has_glue_if_its_servers_are_in_the_zone() {
    let internet = internet(zones());
    let referral = ask(&internet, "10.53.1.0", "h1.d1.t1", Qtype::A, None);
    assert_eq!(referral.sections[1], ["d1.t1 NS ns1.d1.t1"]);
    assert_eq!(referral.sections[2], ["ns1.d1.t1 A 10.53.64.1"]);
    let referral = ask(&internet, "10.53.1.0", "h1.d2.t1", Qtype::A, None);
    assert_eq!(referral.sections[1], ["d2.t1 NS ns1.d1.t2"]);
    assert_eq!(referral.sections[2], [""; 0]);
    let priming = ask(&internet, "10.53.0.1", ".", Qtype::NS, None);
    assert_eq!(priming.sections[2], ["a.root-servers A 10.53.0.1"]);
}

#[test]
fn servers_refuse_what_is_not_theirs_and_all_is_logged() {
    let (log, logged) = Log::new();
    let internet = InternetConfig { log: Some(log.clone()), ..internet(zones()) };
    for (server, qname, qtype, rcode) in [
        ("10.53.1.2", "h1.d1.t1", Qtype::A, 5),
        ("10.53.1.0", "h1.d1.t1", Qtype::A, 0),
        ("10.53.64.1", "h1.d1.t1", Qtype::A, 0),
        ("10.53.64.1", "h1.d1.t1", Qtype::AXFR, 5),
        ("10.53.64.1", "d1.t1", Qtype(128), 4),
        ("10.53.99.9", ".", Qtype::NS, 5),
    ] {
        let reply = ask(&internet, server, qname, qtype, None);
        assert_eq!(reply.header.rcode(), rcode, "{server} {qname} {qtype}");
    }
    let query = QueryTemplate::new(&Name::ROOT, Qtype::NS, false, false, None);
    for nobody in [None, Some(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST))] {
        let reply = internet.reply(nobody, query.bytes(), Carrier::Datagram, &mut [0; MAX_REPLY]);
        assert_eq!(reply, Reply::NONE);
    }
    let lines: Vec<String> = logged.try_iter().map(|query| query.to_string()).collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(
        lines[..3],
        [
            "10.53.1.2 - h1.d1.t1 A refused",
            "10.53.1.0 t1 h1.d1.t1 A referral d1.t1",
            "10.53.64.1 d1.t1 h1.d1.t1 A answer",
        ]
    );
    assert_eq!(log.lost().load(std::sync::atomic::Ordering::Relaxed), 0);
}

/// A signed zone: a host, a delegation without and one with DS, and a wildcard below an empty name. NSD 4.6.1 gives the same records
/// for it, signed by dnssec-signzone.
fn signed() -> InternetConfig {
    let lines = [
        "s SOA -",
        "s RRSIG SOA",
        "s NS ns.x",
        "s RRSIG NS",
        "s NSEC b.s",
        "s RRSIG NSEC",
        "b.s A 198.18.0.1",
        "b.s RRSIG A",
        "b.s NSEC d.s",
        "b.s RRSIG NSEC",
        "d.s NS ns.x",
        "d.s NSEC e.s",
        "d.s RRSIG NSEC",
        "e.s NS ns.x",
        "e.s DS -",
        "e.s RRSIG DS",
        "e.s NSEC *.w.s",
        "e.s RRSIG NSEC",
        "*.w.s A 198.18.0.2",
        "*.w.s RRSIG A",
        "*.w.s NSEC s",
        "*.w.s RRSIG NSEC",
    ];
    let servers = zone("x", &["x SOA -", "x NS ns.x", "ns.x A 10.53.64.9"]);
    internet(vec![zone("s", &lines), servers])
}

/// Name and type of a question; return code, answer section, and parts of the authority section of its reply.
type Row = (&'static str, Qtype, u8, &'static [&'static str], &'static [&'static [&'static str]]);

#[test]
fn a_signed_zone_proves_what_it_says() {
    const SOA: [&str; 2] = ["s SOA", "s RRSIG"];
    let internet = signed();
    let edns = Edns { dnssec_ok: true, ..Edns::default() };
    let table: [Row; 10] = [
        ("b.s", Qtype::A, 0, &["b.s A 198.18.0.1", "b.s RRSIG"], &[]),
        ("b.s", Qtype::AAAA, 0, &[], &[&SOA, &["b.s NSEC", "b.s RRSIG"]]),
        ("c.s", Qtype::A, 3, &[], &[&SOA, &["b.s NSEC", "b.s RRSIG", "s NSEC", "s RRSIG"]]),
        ("h.d.s", Qtype::A, 0, &[], &[&["d.s NS ns.x", "d.s NSEC", "d.s RRSIG"]]),
        ("h.e.s", Qtype::A, 0, &[], &[&["e.s NS ns.x", "e.s DS", "e.s RRSIG"]]),
        ("e.s", Qtype::DS, 0, &["e.s DS", "e.s RRSIG"], &[]),
        ("d.s", Qtype::DS, 0, &[], &[&SOA, &["d.s NSEC", "d.s RRSIG"]]),
        ("w.s", Qtype::A, 0, &[], &[&SOA, &["e.s NSEC", "e.s RRSIG"]]),
        (
            "h.w.s",
            Qtype::A,
            0,
            &["h.w.s A 198.18.0.2", "h.w.s RRSIG"],
            &[&["*.w.s NSEC", "*.w.s RRSIG"]],
        ),
        ("h.w.s", Qtype::AAAA, 0, &[], &[&SOA, &["*.w.s NSEC", "*.w.s RRSIG"]]),
    ];
    for (qname, qtype, rcode, answer, authority) in table {
        let reply = ask(&internet, "10.53.64.9", qname, qtype, Some(edns.clone()));
        assert_eq!(reply.header.rcode(), rcode, "{qname} {qtype}");
        assert_eq!(reply.sections[0], answer, "{qname} {qtype}");
        assert_eq!(reply.sections[1], authority.concat(), "{qname} {qtype}");
        assert_eq!(reply.sections[2], [". OPT"], "{qname} {qtype}");
        // Who does not want DNSSEC gets none of its records, unless it asks for them.
        let plain = ask(&internet, "10.53.64.9", qname, qtype, None);
        let of_dnssec = |record: &&String| {
            let (_, rtype) = record.split_once(' ').expect("owner and type");
            ["RRSIG", "NSEC", "DS"].contains(&rtype) && qtype != Qtype::DS
        };
        assert_eq!(plain.sections.iter().flatten().filter(of_dnssec).count(), 0, "{qname} {qtype}");
    }
}

#[test]
fn a_long_answer_is_whole_over_a_stream_only() {
    let mut large = zone("x", &["x SOA -", "x NS ns.x", "ns.x A 10.53.64.9"]);
    let texts = (0u8..40).map(|number| [&[60][..], &[number; 60]].concat());
    for text in texts {
        large.add(name("x").as_wire(), Qtype::TXT, 300, &text).expect("a record");
    }
    let internet = internet(vec![large]);
    let query = QueryTemplate::new(&name("x"), Qtype::TXT, false, false, Some(&Edns::default()));
    for (carrier, room, records) in
        [(Carrier::Datagram, MAX_DATAGRAM, 0), (Carrier::Stream, MAX_STREAMED, 40)]
    {
        let (mut out, server) = (vec![0; room], Some(Ipv4Addr::new(10, 53, 64, 9).into()));
        let reply = internet.reply(server, query.bytes(), carrier, &mut out);
        let parsed = Parsed::of(&out[..reply.len]);
        assert_eq!(
            (parsed.sections[0].len(), parsed.header.is_truncated()),
            (records, records == 0)
        );
    }
}

#[test]
fn each_server_has_one_of_the_delays() {
    let internet =
        InternetConfig { delays: vec![Nanos(1), Nanos(2), Nanos(3)], ..internet(zones()) };
    let mut counts = [0; 3];
    for number in 0..3_000 {
        let server = Some(IpAddr::V4(Ipv4Addr::from(0x0a35_4000 + number)));
        let lane = internet.lane(server);
        assert_eq!(lane, internet.lane(server));
        counts[lane] += 1;
    }
    assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    assert_eq!(internet.lane(None), 0);
}

#[test]
fn zones_that_cannot_be_served_are_named() {
    let soa = || zone("x", &["x SOA -", "x NS ns.y"]);
    let told =
        |zones: Vec<ZoneBuilder>| InternetZones::new(zones).expect_err("not served").to_string();
    assert!(told(vec![soa()]).contains("no name server of the zone x has an A record"));
    assert!(told(vec![soa(), soa()]).contains("there are two files of the zone x"));
    assert!(told(vec![zone("x", &["a.x A 198.18.0.1"])]).contains("the zone x has no SOA record"));
    let mut hashed = soa();
    let error = hashed.add(name("x").as_wire(), Qtype::NSEC3, 300, &[]).expect_err("NSEC3");
    assert!(error.to_string().contains("the zone x has a record NSEC3, which is not served"));
    let mut large = soa();
    for number in 0..=255 {
        large.add(name("x").as_wire(), Qtype::TXT, 300, &[number; 64]).expect("a record");
    }
    assert!(told(vec![large]).contains("the records TXT at x have 19456 octets"));
}

proptest! {
    #[test]
    fn any_message_to_any_server_gets_a_bounded_reply(
        server in 0u32..0x1_0000, message in prop::collection::vec(any::<u8>(), 0..80),
        label in "[a-z*]{1,63}", qtype: u16, dnssec_ok: bool, room in HEADER..MAX_DATAGRAM,
    ) {
        let internets = [internet(zones()), signed()];
        let edns = Edns { dnssec_ok, ..Edns::default() };
        for internet in &internets {
            let server = Some(IpAddr::V4(Ipv4Addr::from(0x0a35_0000 | server)));
            let mut out = vec![0; room];
            let _ = internet.reply(server, &message, Carrier::Datagram, &mut out);
            for zone in [".", "t1", "d1.t1", "d2.t1", "s", "w.s"] {
                let qname = name(zone).prepend(label.as_bytes()).expect("a short name");
                let query = QueryTemplate::new(&qname, Qtype(qtype), true, false, Some(&edns));
                let reply = internet.reply(server, query.bytes(), Carrier::Stream, &mut out);
                prop_assert!(reply.len <= room);
                if reply.len > 0 {
                    let header = Header::read(&out[..reply.len]).expect("a header");
                    prop_assert!(header.is_response());
                }
            }
        }
    }
}
