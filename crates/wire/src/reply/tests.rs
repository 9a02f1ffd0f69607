//! Tables of replies, and properties: the check never panics, and accepts no reply that another parser refuses.

use domain::base::iana::{Class, Rcode as DomainRcode, Rtype};
use domain::base::{Message, Name as DomainName, ParsedName, ToName};
use domain::rdata::{Aaaa, Cname};
use proptest::prelude::*;

use super::readable::are_readable;
use super::*;
use crate::edns::Edns;
use crate::message::flag;
use crate::name::Name;
use crate::query::QueryTemplate;
use crate::rr::Rcode;
use crate::server::Query;
use crate::writer::{Owner, ReplyWriter};

const WANTED: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x64, 0, 0, 0, 0x0a01, 0x0203);
const OTHER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x64, 0, 0, 0, 0x0a01, 0x0204);
const ALL: [Expect; 8] = [
    Expect::Answered,
    Expect::NoError,
    Expect::A(Ipv4Addr::new(10, 1, 2, 3)),
    Expect::Aaaa(WANTED),
    Expect::Embeds(Ipv4Addr::new(10, 1, 2, 3)),
    Expect::AnyAaaa,
    Expect::NoData,
    Expect::Rcodes(Rcodes::NXDOMAIN),
];

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Returns a query with an OPT record for the name that all these tests use.
fn query(qtype: Qtype) -> Vec<u8> {
    let edns = Edns::default();
    QueryTemplate::new(&name("010-001-002-003.dns64perf.test"), qtype, true, false, Some(&edns))
        .bytes()
        .to_vec()
}

/// Returns a reply to [`query`] with the records that `fill` adds.
fn reply_to(qtype: Qtype, fill: impl FnOnce(&mut ReplyWriter<'_>)) -> Vec<u8> {
    let query = query(qtype);
    let query = Query::parse(&query).unwrap();
    let mut out = [0; 4096];
    let mut writer = ReplyWriter::new(&mut out, 4096, &query).unwrap();
    fill(&mut writer);
    let len = writer.finish();
    out[..len].to_vec()
}

/// Returns the reply of a correct DNS64 server.
fn good() -> Vec<u8> {
    reply_to(Qtype::AAAA, |writer| {
        writer.opt(1232, false);
        writer.answer(Owner::Question, Qtype::AAAA, 60, &WANTED.octets());
    })
}

/// Returns the question of [`query`].
fn question_of(qtype: Qtype) -> Vec<u8> {
    question(&query(qtype)).unwrap().to_vec()
}

/// Returns the verdict on a reply to an AAAA query.
fn verdict(reply: &[u8], expect: Expect) -> Result<u8, Invalid> {
    check(reply, &question_of(Qtype::AAAA), &expect)
}

#[test]
fn the_common_reply_is_valid_on_both_paths() {
    let reply = good();
    assert!(is_common(&reply, &question_of(Qtype::AAAA), Qtype::AAAA, &WANTED.octets()));
    assert_eq!(check_fully(&reply, &question_of(Qtype::AAAA), &Expect::Aaaa(WANTED)), Ok(0));
    let embeds = |last| Expect::Embeds(Ipv4Addr::new(10, 1, 2, last));
    assert!(is_common_embedding(&reply, &question_of(Qtype::AAAA), Ipv4Addr::new(10, 1, 2, 3)));
    for expect in
        [Expect::Aaaa(WANTED), embeds(3), Expect::AnyAaaa, Expect::Answered, Expect::NoError]
    {
        assert_eq!(verdict(&reply, expect), Ok(0), "{expect:?}");
        assert_eq!(check_fully(&reply, &question_of(Qtype::AAAA), &expect), Ok(0), "{expect:?}");
    }
    for (expect, reason) in [
        (Expect::Aaaa(OTHER), Invalid::WrongAddress),
        (embeds(4), Invalid::WrongAddress),
        (Expect::A(Ipv4Addr::LOCALHOST), Invalid::WrongType),
        (Expect::NoData, Invalid::UnexpectedAnswer),
        (Expect::Rcodes(Rcodes::NXDOMAIN), Invalid::Rcode(0)),
    ] {
        assert_eq!(verdict(&reply, expect), Err(reason), "{expect:?}");
    }
}

#[test]
fn only_the_name_of_the_question_ignores_case() {
    let mut reply = good();
    reply[HEADER..HEADER + 31].make_ascii_uppercase();
    assert_eq!(verdict(&reply, Expect::Aaaa(WANTED)), Ok(0));
    let mut https = question_of(Qtype::HTTPS);
    let hash = question_hash(&https);
    let reply = reply_to(Qtype(97), |_| ());
    assert_eq!(check(&reply, &https, &Expect::Answered), Err(Invalid::WrongQuestion));
    let name_len = https.len() - 4;
    https[..name_len].make_ascii_uppercase();
    assert_eq!(question_hash(&https), hash);
    assert_ne!(question_hash(question(&reply).unwrap()), hash);
}

#[test]
fn every_fault_has_its_reason() {
    let edit = |edit: fn(&mut Vec<u8>)| {
        let mut reply = good();
        edit(&mut reply);
        reply
    };
    let expect = Expect::Aaaa(WANTED);
    for (what, reply, reason) in [
        ("empty", vec![], Invalid::Malformed),
        ("half a header", edit(|r| r.truncate(11)), Invalid::Malformed),
        ("QR 0", edit(|r| r[2] &= 0x7f), Invalid::NotResponse),
        ("opcode", edit(|r| r[2] |= 0x20), Invalid::NotResponse),
        ("TC", edit(|r| r[2] |= 0x02), Invalid::Truncated),
        ("SERVFAIL", edit(|r| r[3] |= 2), Invalid::Rcode(2)),
        ("another label", edit(|r| r[20] ^= 1), Invalid::WrongQuestion),
        ("another type", edit(|r| r[45] = 1), Invalid::WrongQuestion),
        ("two questions", edit(|r| r[5] = 2), Invalid::Malformed),
        ("no question", edit(|r| r[5] = 0), Invalid::WrongQuestion),
        ("a cut question", edit(|r| r.truncate(40)), Invalid::Malformed),
        ("a cut answer", edit(|r| r.truncate(70)), Invalid::Malformed),
        ("a cut OPT", edit(|r| r.truncate(r.len() - 1)), Invalid::Malformed),
        ("octets after the last record", edit(|r| r.push(0)), Invalid::Malformed),
        ("one answer missing", edit(|r| r[7] = 2), Invalid::Malformed),
        ("a wrong address", edit(|r| r[75] ^= 1), Invalid::WrongAddress),
        ("a wrong class", edit(|r| r[53] = 3), Invalid::NoAnswer),
        ("BADVERS", edit(|r| *r.iter_mut().nth_back(5).unwrap() = 1), Invalid::Rcode(16)),
        (
            "a code above all known ones",
            edit(|r| *r.iter_mut().nth_back(5).unwrap() = 0xff),
            Invalid::Rcode(255),
        ),
        ("a pointer to itself", edit(|r| r[49] = 48), Invalid::Malformed),
        ("a pointer forward", edit(|r| r[49] = 60), Invalid::Malformed),
        ("a pointer into the header", edit(|r| r[49] = 2), Invalid::Malformed),
        ("a pointer to the zone", edit(|r| r[49] = 28), Invalid::NoAnswer),
    ] {
        assert_eq!(verdict(&reply, expect), Err(reason), "{what}");
    }
}

#[test]
fn the_class_of_an_answer_must_match_the_question() {
    for (class, result) in
        [(Qclass::IN, Ok(0)), (Qclass::ANY, Ok(0)), (Qclass(3), Err(Invalid::NoAnswer))]
    {
        let mut reply = good();
        reply[46..48].copy_from_slice(&class.0.to_be_bytes());
        let question = reply[12..48].to_vec();
        assert_eq!(check(&reply, &question, &Expect::Aaaa(WANTED)), result, "{class:?}");
        assert_eq!(check_fully(&reply, &question, &Expect::Aaaa(WANTED)), result, "{class:?}");
    }
}

#[test]
fn a_server_that_refuses_may_leave_the_question_out() {
    for (rcode, reason) in [
        (1, Invalid::Rcode(1)),
        (4, Invalid::Rcode(4)),
        (5, Invalid::Rcode(5)),
        (0, Invalid::WrongQuestion),
        (3, Invalid::WrongQuestion),
    ] {
        let reply = Header { id: 0, flags: flag::QR | rcode, counts: [0; 4] }.to_bytes();
        for expect in ALL {
            assert_eq!(verdict(&reply, expect), Err(reason), "{rcode} {expect:?}");
        }
    }
}

#[test]
fn names_that_do_not_exist_or_have_no_data() {
    let soa = |writer: &mut ReplyWriter<'_>| {
        let zone = Owner::At(28);
        assert!(writer.authority(zone, Qtype::SOA, 60, &[&[0xc0, 28, 0xc0, 28], &[0; 20]]));
    };
    let none = reply_to(Qtype::AAAA, |writer| {
        writer.rcode(Rcode::NXDOMAIN);
        soa(writer);
    });
    let empty = reply_to(Qtype::AAAA, soa);
    for (reply, expect, result) in [
        (&none, Expect::Answered, Ok(3)),
        (&none, Expect::Rcodes(Rcodes::NXDOMAIN), Ok(3)),
        (&none, Expect::NoError, Err(Invalid::Rcode(3))),
        (&none, Expect::NoData, Err(Invalid::Rcode(3))),
        (&none, Expect::Aaaa(WANTED), Err(Invalid::Rcode(3))),
        (&empty, Expect::Answered, Ok(0)),
        (&empty, Expect::NoError, Ok(0)),
        (&empty, Expect::NoData, Ok(0)),
        (&empty, Expect::Rcodes(Rcodes::NXDOMAIN), Err(Invalid::Rcode(0))),
        (&empty, Expect::Aaaa(WANTED), Err(Invalid::NoAnswer)),
        (&empty, Expect::AnyAaaa, Err(Invalid::NoAnswer)),
    ] {
        assert_eq!(verdict(reply, expect), result, "{expect:?}");
    }
}

/// A record of a test: owner, type, and a name or an address as data.
type Row<'a> = (&'a str, Qtype, &'a str);

/// Makes a reply to an AAAA query whose answers are `rows`, uncompressed.
fn answers(rows: &[Row<'_>]) -> Vec<u8> {
    reply_to(Qtype::AAAA, |writer| {
        for (owner, rtype, data) in rows {
            let owner = name(owner);
            let data = match data.parse::<Ipv6Addr>() {
                Ok(address) => address.octets().to_vec(),
                Err(_) => name(data).as_wire().to_vec(),
            };
            assert!(writer.answer(Owner::Name(owner.as_wire()), *rtype, 60, &data));
        }
    })
}

#[test]
fn aliases_are_followed() {
    const Q: &str = "010-001-002-003.dns64perf.test";
    const RIGHT: &str = "2001:db8:64::a01:203";
    const WRONG: &str = "2001:db8:64::a01:204";
    let (aaaa, cname, dname) = (Qtype::AAAA, Qtype::CNAME, Qtype::DNAME);
    let cases: [(&str, &[Row<'_>], Result<u8, Invalid>); 17] = [
        ("one alias", &[(Q, cname, "a.test"), ("A.test", aaaa, RIGHT)], Ok(0)),
        (
            "out of order",
            &[("b.test", aaaa, RIGHT), ("a.test", cname, "b.test"), (Q, cname, "a.test")],
            Ok(0),
        ),
        (
            "wrong address at the end",
            &[(Q, cname, "a.test"), ("a.test", aaaa, WRONG)],
            Err(Invalid::WrongAddress),
        ),
        (
            "right address outside the chain",
            &[(Q, cname, "a.test"), ("b.test", aaaa, RIGHT)],
            Err(Invalid::NoAnswer),
        ),
        ("wrong address outside the chain", &[("b.test", aaaa, WRONG), (Q, aaaa, RIGHT)], Ok(0)),
        ("one right, one wrong", &[(Q, aaaa, RIGHT), (Q, aaaa, WRONG)], Err(Invalid::WrongAddress)),
        (
            "wrong address before the alias",
            &[("a.test", aaaa, WRONG), (Q, cname, "a.test"), ("a.test", aaaa, RIGHT)],
            Err(Invalid::WrongAddress),
        ),
        ("the right address twice", &[(Q, aaaa, RIGHT), (Q, aaaa, RIGHT)], Ok(0)),
        ("an alias to nothing", &[(Q, cname, "a.test")], Err(Invalid::NoAnswer)),
        ("an alias to itself", &[(Q, cname, Q)], Err(Invalid::NoAnswer)),
        ("a loop", &[(Q, cname, "a.test"), ("a.test", cname, Q)], Err(Invalid::NoAnswer)),
        ("other types only", &[(Q, Qtype::PTR, "a.test")], Err(Invalid::WrongType)),
        ("an address of odd size", &[(Q, aaaa, "a.test")], Err(Invalid::Malformed)),
        (
            "a DNAME",
            &[("dns64perf.test", dname, "x.test"), ("010-001-002-003.x.test", aaaa, RIGHT)],
            Ok(0),
        ),
        (
            "a DNAME and its synthesized CNAME",
            &[
                ("test", dname, "example"),
                (Q, cname, "010-001-002-003.dns64perf.example"),
                ("010-001-002-003.dns64perf.example", aaaa, RIGHT),
            ],
            Ok(0),
        ),
        ("the owner of a DNAME is not below it", &[(Q, dname, "a.test")], Err(Invalid::WrongType)),
        ("a signature of the address", &[(Q, aaaa, RIGHT), (Q, Qtype::RRSIG, "a.test")], Ok(0)),
    ];
    for (what, rows, result) in cases {
        assert_eq!(verdict(&answers(rows), Expect::Aaaa(WANTED)), result, "{what}");
    }
}

#[test]
fn no_data_at_the_end_of_an_alias() {
    const Q: &str = "010-001-002-003.dns64perf.test";
    let alias = answers(&[(Q, Qtype::CNAME, "a.test")]);
    assert_eq!(verdict(&alias, Expect::NoData), Ok(0));
    let data = answers(&[(Q, Qtype::CNAME, "a.test"), ("a.test", Qtype::AAAA, "::1")]);
    assert_eq!(verdict(&data, Expect::NoData), Err(Invalid::UnexpectedAnswer));
}

#[test]
fn chains_are_followed_to_the_limit_and_no_further() {
    for (hops, result) in [(16, Ok(0)), (17, Err(Invalid::NoAnswer))] {
        let mut names = vec!["010-001-002-003.dns64perf.test".to_string()];
        names.extend((1..=hops).map(|hop| format!("n{hop}.test")));
        let mut rows: Vec<Row<'_>> =
            names.windows(2).map(|pair| (&pair[0][..], Qtype::CNAME, &pair[1][..])).collect();
        rows.push((&names[hops], Qtype::AAAA, "2001:db8:64::a01:203"));
        assert_eq!(verdict(&answers(&rows), Expect::Aaaa(WANTED)), result, "{hops}");
        rows.reverse();
        assert_eq!(verdict(&answers(&rows), Expect::Aaaa(WANTED)), result, "{hops} backwards");
    }
}

#[test]
fn a_message_made_to_be_slow_is_refused() {
    // Thousands of records, each with an owner name at the end of a long chain of pointers.
    let question = question_of(Qtype::AAAA);
    let mut reply = Header { id: 0, flags: flag::QR, counts: [1, 0, 0, 0] }.to_bytes().to_vec();
    reply.extend_from_slice(&question);
    let mut count = 0u16;
    let mut last = reply.len() as u16;
    let mut push = |reply: &mut Vec<u8>, owner: &[u8], rdata: &[u8]| {
        reply.extend_from_slice(owner);
        reply.extend_from_slice(&[0, 16, 0, 1, 0, 0, 0, 0]);
        reply.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        reply.extend_from_slice(rdata);
        count += 1;
    };
    let mut pointers = vec![0];
    let base = last + 11;
    for step in 0..4000u16 {
        let target = base + if step == 0 { 0 } else { 1 + 2 * (step - 1) };
        pointers.extend_from_slice(&(0xc000 | target).to_be_bytes());
        last = base + 1 + 2 * step;
    }
    push(&mut reply, &[0], &pointers);
    for _ in 0..4000 {
        push(&mut reply, &(0xc000 | last).to_be_bytes(), &[]);
    }
    reply[6..8].copy_from_slice(&count.to_be_bytes());
    assert_eq!(verdict(&reply, Expect::Answered), Ok(0));
    assert_eq!(verdict(&reply, Expect::Aaaa(WANTED)), Err(Invalid::Malformed));
}

#[test]
fn reasons_are_distinct_and_stable() {
    let reasons: Vec<_> =
        (0..Invalid::COUNT).map(|index| Invalid::from_index(index).unwrap()).collect();
    for (index, invalid) in reasons.iter().enumerate() {
        assert_eq!(invalid.index(), index);
        assert_eq!(reasons.iter().filter(|other| other.reason() == invalid.reason()).count(), 1);
    }
    assert_eq!(Invalid::from_index(Invalid::COUNT), None);
    assert_eq!(Invalid::Rcode(200).reason(), "rcode-other");
    assert_eq!(Invalid::WrongAddress.to_string(), "wrong-address");
    assert_eq!(Invalid::Rcode(2).reason(), "servfail");
}

#[test]
fn lower_case_is_that_of_ascii() {
    for byte in 0..=255u8 {
        let word = u64::from_le_bytes([byte; 8]);
        assert_eq!(lower_case(word).to_le_bytes(), [byte.to_ascii_lowercase(); 8], "{byte}");
    }
}

/// Returns the addresses that another parser finds at the end of the chain of CNAMEs; `None` if it refuses the message.
fn oracle(reply: &[u8], question: &[u8]) -> Option<Vec<Ipv6Addr>> {
    let message = Message::from_octets(reply).ok()?;
    let sole = message.sole_question().ok()?;
    let (qname, tail) = question.split_at(question.len() - 4);
    let mut current: DomainName<Vec<u8>> = DomainName::from_octets(qname.to_vec()).ok()?;
    let numbers =
        [sole.qtype().to_int().to_be_bytes(), sole.qclass().to_int().to_be_bytes()].concat();
    let right = message.header().qr()
        && !message.header().tc()
        && message.opt_rcode() == DomainRcode::NOERROR.into()
        && sole.qname().name_eq(&current)
        && numbers == tail;
    if !right {
        return None;
    }
    let records: Vec<_> = message.answer().ok()?.collect::<Result<_, _>>().ok()?;
    for _ in 0..=chain::MAX_HOPS {
        let alias = records.iter().find(|record| {
            record.rtype() == Rtype::CNAME
                && record.class() == Class::IN
                && record.owner().name_eq(&current)
        });
        let Some(alias) = alias else { break };
        let target = alias.to_record::<Cname<ParsedName<&[u8]>>>().ok()??.into_data().into_cname();
        current = target.to_name();
    }
    let addresses = records.iter().filter(|record| {
        record.rtype() == Rtype::AAAA
            && record.class() == Class::IN
            && record.owner().name_eq(&current)
    });
    addresses.map(|record| Some(record.to_record::<Aaaa>().ok()??.data().addr())).collect()
}

/// One change to a message.
#[derive(Clone, Debug)]
enum Change {
    Set(prop::sample::Index, u8),
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, u8),
    Copy(prop::sample::Index, prop::sample::Index, u8),
}

fn change() -> impl Strategy<Value = Change> {
    use prop::sample::Index;
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Change::Set(at, value)),
        (any::<Index>(), 0u8..8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        any::<Index>().prop_map(Change::Cut),
        (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Change::Insert(at, value)),
        (any::<Index>(), any::<Index>(), 1u8..40)
            .prop_map(|(from, to, len)| Change::Copy(from, to, len)),
    ]
}

/// Applies a change to a message.
fn apply(message: &mut Vec<u8>, change: &Change) {
    if message.is_empty() {
        return;
    }
    let len = message.len();
    match change {
        Change::Set(at, value) => message[at.index(len)] = *value,
        Change::Flip(at, bit) => message[at.index(len)] ^= 1 << bit,
        Change::Cut(at) => message.truncate(at.index(len)),
        Change::Insert(at, value) => message.insert(at.index(len), *value),
        Change::Copy(from, to, count) => {
            let from = from.index(len);
            let to = to.index(len);
            let count = usize::from(*count).min(len - from.max(to));
            message.copy_within(from..from + count, to);
        }
    }
}

/// Generates the replies that tests change: the common one, one with aliases, one without EDNS.
fn seeds() -> impl Strategy<Value = Vec<u8>> {
    const Q: &str = "010-001-002-003.dns64perf.test";
    let right = "2001:db8:64::a01:203";
    let chained = answers(&[
        (Q, Qtype::CNAME, "a.test"),
        ("a.test", Qtype::CNAME, "b.test"),
        ("b.test", Qtype::AAAA, right),
        ("b.test", Qtype::AAAA, right),
    ]);
    let plain = answers(&[(Q, Qtype::AAAA, right)]);
    prop_oneof![Just(good()), Just(chained), Just(plain)]
}

/// Returns whether all records of the answer section can be read.
fn answers_are_readable(reply: &[u8], question: &[u8]) -> bool {
    let count = u16::from_be_bytes([reply[6], reply[7]]);
    are_readable(reply, HEADER + question.len(), count.into())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn arbitrary_bytes_do_not_panic(reply: Vec<u8>, question: Vec<u8>) {
        for expect in ALL {
            let _ = check(&reply, &question, &expect);
            let _ = check(&reply, &question_of(Qtype::AAAA), &expect);
        }
        let _ = (id(&reply), super::question(&reply), question_hash(&question));
    }

    #[test]
    fn no_changed_reply_is_accepted_with_a_wrong_answer(
        mut reply in seeds(),
        changes in prop::collection::vec(change(), 0..6),
    ) {
        let question = question_of(Qtype::AAAA);
        changes.iter().for_each(|change| apply(&mut reply, change));
        for expect in ALL {
            let whole = check_fully(&reply, &question, &expect);
            prop_assert_eq!(check(&reply, &question, &expect), whole);
        }
        if check(&reply, &question, &Expect::Aaaa(WANTED)).is_ok() {
            match oracle(&reply, &question) {
                Some(found) => {
                    prop_assert!(!found.is_empty() && found.iter().all(|&address| address == WANTED), "{:?}", found);
                }
                // It reads the owners of all records, the check those of aliases and addresses.
                None => prop_assert!(!answers_are_readable(&reply, &question)),
            }
        }
    }

    #[test]
    fn written_replies_are_valid(bits: u128, other: u128, edns: bool, ttl: u32) {
        let address = Ipv6Addr::from(bits);
        let reply = reply_to(Qtype::AAAA, |writer| {
            if edns {
                writer.opt(1232, true);
            }
            writer.answer(Owner::Question, Qtype::AAAA, ttl, &address.octets());
        });
        prop_assert_eq!(verdict(&reply, Expect::Aaaa(address)), Ok(0));
        prop_assert_eq!(verdict(&reply, Expect::Aaaa(Ipv6Addr::from(other))).is_ok(), other == bits);
    }

    #[test]
    fn hashes_ignore_case_and_nothing_else(label in "[a-zA-Z0-9-]{1,40}", flip: u64, at: prop::sample::Index, bit in 0u8..8) {
        let wire = |label: &str| {
            let mut wire = name(&format!("{label}.example")).as_wire().to_vec();
            wire.extend_from_slice(&[0, 28, 0, 1]);
            wire
        };
        let plain = wire(&label);
        let mixed: String = label.chars().enumerate().map(|(number, letter)| {
            if flip >> (number % 64) & 1 == 1 { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() }
        }).collect();
        prop_assert_eq!(question_hash(&plain), question_hash(&wire(&mixed)));
        let mut changed = plain.clone();
        changed[at.index(plain.len())] ^= 1 << bit;
        prop_assert_eq!(
            question_hash(&plain) == question_hash(&changed),
            same_question(&plain, &changed),
        );
    }
}
