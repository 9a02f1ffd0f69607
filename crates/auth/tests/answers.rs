//! Replies as another library (`domain`) reads them, and the role on the simulated engine.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use dnsdyno_auth::{AaaaPolicy, Auth, AuthConfig, MAX_REPLY};
use domain::base::iana::Rcode;
use domain::base::{Message, Rtype, ToName, Ttl};
use domain::rdata::{A, Aaaa, AllRecordData, Soa};
use measure::Nanos;
use net::sim::{Replies, SimEngine};
use net::{SocketId, WaitMode, drive};
use proptest::prelude::*;
use wire::{Edns, Name, Namespace, Qtype, QueryTemplate};

fn config() -> AuthConfig {
    AuthConfig::new(Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix")))
}

fn query(name: &str, qtype: &str, edns: Option<&Edns>) -> Vec<u8> {
    let (name, qtype): (Name, Qtype) = (name.parse().expect(name), qtype.parse().expect(qtype));
    let mut out = vec![0; 512];
    let len = QueryTemplate::new(&name, qtype, true, false, edns).write(0x1234, &mut out);
    out.truncate(len);
    out
}

fn ask(auth: &mut Auth, query: &[u8]) -> Message<Vec<u8>> {
    let mut out = [0; MAX_REPLY];
    let len = auth.answer(query, &mut out).expect("a reply");
    let message = Message::from_octets(out[..len].to_vec()).expect("a whole message");
    assert!(message.header().qr() && !message.header().ra() && message.header().rd());
    assert_eq!(message.header().id(), 0x1234);
    message
}

fn records(message: &Message<Vec<u8>>) -> Vec<String> {
    let section = message.answer().expect("an answer section");
    section
        .map(|r| {
            r.expect("a record")
                .into_record::<AllRecordData<_, _>>()
                .expect("parses")
                .expect("a known type")
        })
        .map(|r| {
            format!("{} {} {} {}", r.owner().to_bytes(), r.ttl().as_secs(), r.rtype(), r.data())
        })
        .collect()
}

#[test]
fn names_and_types() {
    let mut auth = Auth::new(AuthConfig { aaaa: AaaaPolicy::Always, ..config() });
    let host = "010-001-002-003.dns64perf.test";
    let reverse6 = "3.0.2.0.1.0.a.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
    let table: [(&str, &str, Rcode, &[&str]); 14] = [
        (host, "A", Rcode::NOERROR, &["010-001-002-003.dns64perf.test 3600 A 10.1.2.3"]),
        (
            host,
            "AAAA",
            Rcode::NOERROR,
            &["010-001-002-003.dns64perf.test 3600 AAAA 2001:db8:64::a01:203"],
        ),
        (host, "TXT", Rcode::NOERROR, &[]),
        (
            host,
            "ANY",
            Rcode::NOERROR,
            &["010-001-002-003.dns64perf.test 3600 HINFO \"RFC8482\" \"\""],
        ),
        ("dns64perf.test", "NS", Rcode::NOERROR, &["dns64perf.test 3600 NS ns1.dns64perf.test."]),
        ("dns64perf.test", "A", Rcode::NOERROR, &[]),
        ("ns1.dns64perf.test", "A", Rcode::NOERROR, &["ns1.dns64perf.test 3600 A 192.0.2.53"]),
        (
            "ns1.dns64perf.test",
            "AAAA",
            Rcode::NOERROR,
            &["ns1.dns64perf.test 3600 AAAA 2001:db8::53"],
        ),
        ("nothing.dns64perf.test", "A", Rcode::NXDOMAIN, &[]),
        ("011-001-002-003.dns64perf.test", "A", Rcode::NXDOMAIN, &[]),
        (
            "3.2.1.10.in-addr.arpa",
            "PTR",
            Rcode::NOERROR,
            &["3.2.1.10.in-addr.arpa 3600 PTR 010-001-002-003.dns64perf.test."],
        ),
        (
            reverse6,
            "PTR",
            Rcode::NOERROR,
            &[
                "3.0.2.0.1.0.a.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.8.b.d.0.1.0.0.2.ip6.arpa 3600 PTR 010-001-002-003.dns64perf.test.",
            ],
        ),
        ("1.10.in-addr.arpa", "PTR", Rcode::NOERROR, &[]),
        ("www.example.com", "A", Rcode::REFUSED, &[]),
    ];
    for (name, qtype, rcode, wanted) in table {
        let message = ask(&mut auth, &query(name, qtype, None));
        assert_eq!(message.header().rcode(), rcode, "{name} {qtype}");
        assert_eq!(message.header().aa(), rcode != Rcode::REFUSED, "{name} {qtype}");
        assert_eq!(records(&message), wanted, "{name} {qtype}");
        let authority: Vec<_> = message
            .authority()
            .expect("a section")
            .limit_to::<Soa<_>>()
            .map(|r| r.expect("an SOA"))
            .collect();
        let negative = wanted.is_empty() && rcode != Rcode::REFUSED;
        assert_eq!(authority.len(), usize::from(negative), "{name} {qtype}");
        if let Some(soa) = authority.first() {
            assert_eq!(
                (soa.ttl(), soa.data().minimum()),
                (Ttl::from_secs(300), Ttl::from_secs(300))
            );
            assert!(
                name.parse::<domain::base::Name<Vec<u8>>>()
                    .expect(name)
                    .ends_with(&soa.owner().to_vec())
            );
        }
        let text = message.opt();
        assert!(text.is_none(), "EDNS only when asked");
    }
    assert_eq!(auth.counters().queries, 14);
    assert_eq!(
        (
            auth.counters().answers,
            auth.counters().nodata,
            auth.counters().nxdomain,
            auth.counters().errors
        ),
        (8, 3, 2, 1)
    );
}

#[test]
fn aaaa_is_empty_by_default_and_a_share_is_a_share() {
    let host = query("010-001-002-003.dns64perf.test", "AAAA", None);
    assert!(records(&ask(&mut Auth::new(config()), &host)).is_empty());
    let mut auth = Auth::new(AuthConfig { aaaa: AaaaPolicy::Share(0.5), ..config() });
    let with = (0..1_000).filter(|i| {
        let name = format!("010-000-{:03}-{:03}.dns64perf.test", i / 250, i % 250);
        let first = ask(&mut auth, &query(&name, "AAAA", None)).header_counts().ancount();
        assert_eq!(
            first,
            ask(&mut auth, &query(&name, "AAAA", None)).header_counts().ancount(),
            "the same each time"
        );
        first == 1
    });
    let with = with.count();
    assert!((430..570).contains(&with), "{with}");
}

#[test]
fn edns_by_the_rules() {
    let mut auth = Auth::new(config());
    let edns = Edns { udp_size: 4_096, dnssec_ok: true, ..Edns::default() };
    let mut q = query("010-001-002-003.dns64perf.test", "A", Some(&edns));
    let message = ask(&mut auth, &q);
    let opt = message.opt().expect("OPT is echoed");
    assert_eq!((opt.udp_payload_size(), opt.dnssec_ok(), opt.version()), (1_232, true, 0));
    let version = q.len() - 5;
    q[version] = 1;
    let message = ask(&mut auth, &q);
    assert_eq!(message.opt_rcode(), domain::base::iana::OptRcode::BADVERS);
    assert_eq!(message.header_counts().ancount(), 0);
}

#[test]
fn what_is_no_query() {
    let mut auth = Auth::new(config());
    let good = query("010-001-002-003.dns64perf.test", "A", None);
    let mut out = [0; MAX_REPLY];
    let mut rcode = |message: &[u8]| auth.answer(message, &mut out).map(|_| out[3] & 15);
    assert_eq!(rcode(&good[..11]), None);
    let spoiled = |at: usize, to: u8| {
        let mut message = good.clone();
        message[at] = to;
        message
    };
    assert_eq!(rcode(&spoiled(2, 0x80)), None, "a response");
    assert_eq!(rcode(&spoiled(2, 0x20)), Some(4), "NOTIFY");
    assert_eq!(rcode(&spoiled(5, 2)), Some(1), "two questions announced");
    assert_eq!(rcode(&good[..20]), Some(1), "cut");
    assert_eq!(rcode(&[&good[..], &[0]].concat()), Some(1), "a byte too many");
    assert_eq!(rcode(&spoiled(good.len() - 1, 3)), Some(5), "class CH");
}

/// Drives an AuthDNS with `queries`, one a millisecond, and returns the replies with their times.
fn serve(config: AuthConfig, queries: usize) -> Vec<(Nanos, Vec<u8>)> {
    let peer: SocketAddr = "192.0.2.1:5000".parse().expect("an address");
    let mut engine = SimEngine::new(|_, _, _, _: &mut Replies| ()).recording();
    for i in 0..queries {
        let name = format!("010-001-{:03}-{:03}.dns64perf.test", i / 250, i % 250);
        engine.inject(Nanos::from_millis(i as u64), SocketId(0), peer, query(&name, "A", None));
    }
    let stop = AtomicBool::new(false);
    let mut role =
        Until { auth: Auth::new(config), end: Nanos::from_millis(queries as u64 + 1_000) };
    drive(&mut engine, &mut role, WaitMode::Sleep, &stop).expect("no errors here");
    engine.sent().iter().map(|(at, _, bytes)| (*at, bytes.clone())).collect()
}

/// An AuthDNS that ends.
struct Until {
    auth: Auth,
    end: Nanos,
}

impl net::Role for Until {
    fn handle(&mut self, now: Nanos, rx: &net::RxBatch, tx: &mut net::TxBatch) -> net::Next {
        match self.auth.handle(now, rx, tx) {
            _ if now >= self.end => net::Next::Done,
            net::Next::Idle => net::Next::At(self.end),
            net::Next::At(at) => net::Next::At(at.min(self.end)),
            other => other,
        }
    }
}

#[test]
fn delay_and_loss_are_exact() {
    let replies = serve(AuthConfig { delay: Nanos::from_millis(25), ..config() }, 100);
    assert!(
        replies.iter().enumerate().all(|(i, (at, _))| *at == Nanos::from_millis(i as u64 + 25))
    );
    assert_eq!(replies.len(), 100);
    assert_eq!(serve(AuthConfig { loss: 0.01, ..config() }, 1_000).len(), 990);
}

#[test]
fn faults_do_what_they_say() {
    let honest = serve(config(), 1)[0].1.clone();
    let spoiled = |fault: &str| {
        serve(AuthConfig { faults: vec![fault.parse().expect(fault)], ..config() }, 1)
    };
    let one = |fault: &str| spoiled(fault)[0].1.clone();
    let (len, last) = (honest.len(), honest.len() - 1);
    assert_eq!(one("wrong-address"), [&honest[..last], &[honest[last] ^ 1]].concat());
    assert_ne!(one("wrong-id")[..2], honest[..2]);
    assert_ne!(one("wrong-question")[13], honest[13]);
    assert_eq!((one("truncate")[2] & 2, one("truncate")[7]), (2, 0));
    assert_eq!(one("cut").len(), len - 9);
    assert_eq!((one("servfail")[3] & 15, one("servfail")[7]), (2, 0));
    assert_eq!(spoiled("duplicate").len(), 2);
    assert_eq!(spoiled("silent").len(), 0);
    assert_eq!(
        serve(
            AuthConfig { faults: vec!["silent:0.25".parse().expect("a fault")], ..config() },
            100
        )
        .len(),
        75
    );
}

#[test]
fn addresses_agree_with_the_types_of_domain() {
    let mut auth = Auth::new(AuthConfig { aaaa: AaaaPolicy::Always, ..config() });
    let message = ask(&mut auth, &query("010-200-000-255.dns64perf.test", "A", None));
    let a: Vec<_> = message
        .answer()
        .expect("a section")
        .limit_to::<A>()
        .map(|r| r.expect("an A").data().addr())
        .collect();
    assert_eq!(a, ["10.200.0.255".parse::<std::net::Ipv4Addr>().expect("an address")]);
    let message = ask(&mut auth, &query("010-200-000-255.dns64perf.test", "AAAA", None));
    assert_eq!(message.answer().expect("a section").limit_to::<Aaaa>().count(), 1);
    assert!(message.sole_question().is_ok_and(|q| q.qtype() == Rtype::AAAA));
}

proptest! {
    #[test]
    fn no_bytes_panic_or_are_amplified(bytes in prop::collection::vec(any::<u8>(), 0..600), flips in prop::collection::vec((0usize..60, any::<u8>()), 0..4)) {
        let mut auth = Auth::new(AuthConfig { aaaa: AaaaPolicy::Always, ..config() });
        let mut out = [0; MAX_REPLY];
        let len = auth.answer(&bytes, &mut out).unwrap_or(0);
        prop_assert!(len <= MAX_REPLY);
        let mut good = query("010-001-002-003.dns64perf.test", "AAAA", Some(&Edns::default()));
        for (at, byte) in flips {
            let at = at % good.len();
            good[at] = byte;
        }
        if let Some(len) = auth.answer(&good, &mut out) {
            prop_assert!(len <= MAX_REPLY);
            prop_assert!(Message::from_octets(out[..len].to_vec()).is_ok());
        }
    }
}
