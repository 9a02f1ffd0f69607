//! Benchmarks of writing, parsing and checking one message, in nanoseconds per message.
//!
//! `cargo bench -p wire` prints the figures; `cargo test` runs each benchmark once.
//! Goals on the reference machine: write a namespace query < 15 ns, check its reply < 40 ns, parse a query < 40 ns.

use std::net::{Ipv4Addr, Ipv6Addr};

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use wire::namespace::LABEL;
use wire::writer::pointer;
use wire::{
    Edns, Expect, Name, Namespace, Owner, Pref64, Qtype, Query, QueryTemplate, ReplyWriter,
    compose, reply,
};

/// Number of messages in one measured run, so that the cost of the timer does not show.
const BATCH: u32 = 1024;

fn main() {
    divan::main();
}

/// The namespace that all benchmarks use.
fn namespace() -> Namespace {
    Namespace::with_default_zone("10.0.0.0/8".parse().expect("a valid prefix"))
}

/// An AAAA query template with EDNS, as `dnsdyno load --namespace` makes it.
fn template() -> QueryTemplate {
    QueryTemplate::for_namespace(&namespace(), Qtype::AAAA, true, false, Some(&Edns::default()))
}

/// A reply and what it is checked against.
struct Reply {
    message: Vec<u8>,
    question: Vec<u8>,
    expect: Expect,
}

/// Returns a reply of a DNS64 server whose records `fill` adds, its question, and the expected address.
fn reply_with(fill: impl FnOnce(&mut ReplyWriter<'_>, Ipv6Addr)) -> Reply {
    let template = template();
    let query = Query::parse(template.bytes()).expect("our own query");
    let pref64: Pref64 = "2001:db8:64::/96".parse().expect("a valid prefix");
    let address = pref64.embed(Ipv4Addr::new(10, 0, 0, 0));
    let mut out = [0; 1232];
    let mut writer = ReplyWriter::new(&mut out, 1232, &query).expect("room for the question");
    fill(&mut writer, address);
    let len = writer.finish();
    Reply {
        message: out[..len].to_vec(),
        question: query.question.to_vec(),
        expect: Expect::Aaaa(address),
    }
}

/// Returns such a reply with the record that was asked for, and those that `more` adds.
fn aaaa_and(more: impl FnOnce(&mut ReplyWriter<'_>)) -> Reply {
    reply_with(|writer, address| {
        writer.opt(1232, false);
        writer.answer(Owner::Question, Qtype::AAAA, 60, &address.octets());
        more(writer);
    })
}

/// Returns such a reply with a name server in its authority section.
fn aaaa_with_authority() -> Reply {
    aaaa_and(|writer| {
        writer.authority(Owner::At(28), Qtype::NS, 60, &[b"\x02ns", &pointer(28)]);
    })
}

/// Runs `one` for each number of a batch and counts each call as an item.
fn each(bencher: Bencher<'_, '_>, mut one: impl FnMut(u32)) {
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| (0..BATCH).for_each(&mut one));
}

#[divan::bench]
fn write_namespace_query(bencher: Bencher<'_, '_>) {
    let (template, namespace) = (template(), namespace());
    let mut out = [0; 128];
    let mut label = [0; LABEL];
    each(bencher, |index| {
        let len = template.write(index as u16, &mut out);
        Namespace::write_label(namespace.nth(u64::from(index) * 997), &mut label);
        template.set_label(&mut out, &label);
        black_box(&out[..len]);
    });
}

#[divan::bench]
fn compose_query(bencher: Bencher<'_, '_>) {
    let template = template();
    let question = &template.bytes()[template.question_range()];
    let opt = Edns::default().to_opt();
    let mut out = [0; 128];
    each(bencher, |index| {
        let len = compose(&mut out, index as u16, black_box(question), true, Some(&opt));
        black_box(&out[..len]);
    });
}

/// Measures the check of one reply.
fn check(bencher: Bencher<'_, '_>, reply: Reply) {
    let Reply { message, question, expect } = reply;
    assert_eq!(reply::check(&message, &question, &expect), Ok(0));
    each(bencher, |_| {
        black_box(reply::check(black_box(&message), black_box(&question), black_box(&expect))).ok();
    });
}

#[divan::bench]
fn check_aaaa(bencher: Bencher<'_, '_>) {
    check(bencher, aaaa_and(|_| {}));
}

#[divan::bench]
fn check_aaaa_other_case(bencher: Bencher<'_, '_>) {
    let mut reply = aaaa_and(|_| {});
    let name_end = 12 + reply.question.len() - 4;
    reply.message[12..name_end].make_ascii_uppercase();
    check(bencher, reply);
}

#[divan::bench]
fn check_aaaa_with_authority(bencher: Bencher<'_, '_>) {
    check(bencher, aaaa_with_authority());
}

#[divan::bench]
fn check_aaaa_behind_alias(bencher: Bencher<'_, '_>) {
    let target: Name = "target.example".parse().expect("a valid name");
    check(
        bencher,
        reply_with(|writer, address| {
            writer.opt(1232, false);
            writer.answer(Owner::Question, Qtype::CNAME, 60, target.as_wire());
            writer.answer(Owner::Name(target.as_wire()), Qtype::AAAA, 60, &address.octets());
        }),
    );
}

#[divan::bench]
fn check_answered(bencher: Bencher<'_, '_>) {
    check(bencher, Reply { expect: Expect::Answered, ..aaaa_with_authority() });
}

#[divan::bench]
fn question_hash(bencher: Bencher<'_, '_>) {
    let template = template();
    let question = &template.bytes()[template.question_range()];
    each(bencher, |_| {
        black_box(reply::question_hash(black_box(question)));
    });
}

#[divan::bench]
fn parse_query(bencher: Bencher<'_, '_>) {
    let template = template();
    each(bencher, |_| {
        black_box(Query::parse(black_box(template.bytes()))).ok();
    });
}

#[divan::bench]
fn name_to_address(bencher: Bencher<'_, '_>) {
    let (template, namespace) = (template(), namespace());
    let query = Query::parse(template.bytes()).expect("our own query");
    each(bencher, |_| {
        black_box(namespace.address(black_box(query.qname)));
    });
}

#[divan::bench]
fn answer_query(bencher: Bencher<'_, '_>) {
    let (template, namespace) = (template(), namespace());
    let mut out = [0; 1232];
    each(bencher, |_| {
        let query = Query::parse(black_box(template.bytes())).expect("our own query");
        let address = namespace.address(query.qname).expect("a name of the namespace");
        let mut writer =
            ReplyWriter::new(&mut out, query.udp_limit(), &query).expect("room for the question");
        writer.opt(1232, false);
        writer.answer(Owner::Question, Qtype::A, 60, &address.octets());
        let len = writer.finish();
        black_box(&out[..len]);
    });
}

#[divan::bench]
fn embed_and_extract(bencher: Bencher<'_, '_>) {
    let pref64: Pref64 = black_box("2001:db8:100::/40".parse().expect("a valid prefix"));
    each(bencher, |index| {
        black_box(pref64.extract(pref64.embed(Ipv4Addr::from(index))));
    });
}
