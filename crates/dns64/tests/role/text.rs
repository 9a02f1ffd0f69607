//! Messages as text, written and read by the `domain` crate.
//!
//! A reply is written as items separated by `;`: a return code, flags, records as in a zone file, `authority`
//! and `additional` for the section of the records that follow, `ede N` for an extended error, and `option CODE HEX`. It has an OPT
//! record if the query has one, and its names are compressed, with the question as the sender of the query
//! spelled it.

use std::collections::VecDeque;

use domain::base::iana::{Class, OptRcode, OptionCode, Rcode, Rtype};
use domain::base::name::{FlattenInto, ParsedName};
use domain::base::opt::UnknownOptData;
use domain::base::{Message, MessageBuilder, Name, Record, StaticCompressor};
use domain::rdata::{AllRecordData, ZoneRecordData};
use domain::zonefile::inplace::{Entry, Zonefile};
use wire::Edns;
use wire::message::Header;
use wire::query::QueryTemplate;

use crate::bench::{Bench, Sent};

/// SOA record of these replies: TTL 200 s, minimum 100 s.
pub(crate) const SOA: &str = "authority; example. 200 SOA ns.example. host.example. 1 2 3 4 100";

/// The same record as clients get it: its TTL is the time of the absence (RFC 2308 section 5).
pub(crate) const GIVEN_SOA: &str =
    "authority; example. 100 SOA ns.example. host.example. 1 2 3 4 100";

type Data = Record<Name<bytes::Bytes>, ZoneRecordData<bytes::Bytes, Name<bytes::Bytes>>>;

fn record(text: &str) -> Data {
    let mut zone = Zonefile::from(format!("{text}\n").as_str());
    zone.set_origin(Name::root_bytes());
    zone.set_default_class(Class::IN);
    match zone.next_entry() {
        Ok(Some(Entry::Record(record))) => record.flatten_into(),
        other => panic!("no record: {text}: {other:?}"),
    }
}

/// Composes the reply to `query` that `text` describes.
pub(crate) fn reply(query: &[u8], text: &str) -> Vec<u8> {
    let query = Message::from_octets(query).expect("a query");
    let asked = query.sole_question().expect("a question");
    let mut sections: [Vec<Data>; 3] = Default::default();
    let (mut section, mut rcode, mut options) = (0, OptRcode::NOERROR, Vec::new());
    let target = StaticCompressor::new(Vec::new());
    let mut builder = MessageBuilder::from_target(target).expect("room");
    let header = builder.header_mut();
    header.set_id(query.header().id());
    header.set_qr(true);
    header.set_ra(true);
    for item in text.split(';').map(str::trim).filter(|item| !item.is_empty()) {
        match item {
            "authority" => section = 1,
            "additional" => section = 2,
            "ad" => header.set_ad(true),
            _ if item.starts_with("option ") => {
                let (code, hex) = item["option ".len()..].split_once(' ').expect("code and data");
                let mut data = Edns::default();
                data.add_option(&format!("{code}:{hex}")).expect("an option");
                options.extend(data.options);
            }
            "tc" => header.set_tc(true),
            _ if item.starts_with("ede ") => {
                let code: u16 = item["ede ".len()..].parse().expect("a code");
                options.push((15, code.to_be_bytes().to_vec()));
            }
            _ if item.contains(' ') => sections[section].push(record(item)),
            _ => rcode = item.parse().expect("a return code"),
        }
    }
    header.set_rcode(Rcode::masked_from_int((rcode.to_int() & 15) as u8));
    let mut question = builder.question();
    question.push(asked).expect("room");
    let mut answer = question.answer();
    sections[0].iter().for_each(|record| answer.push(record).expect("room"));
    let mut authority = answer.authority();
    sections[1].iter().for_each(|record| authority.push(record).expect("room"));
    let mut additional = authority.additional();
    sections[2].iter().for_each(|record| additional.push(record).expect("room"));
    if let Some(opt) = query.opt() {
        let dnssec = opt.dnssec_ok();
        let added = additional.opt(|opt| {
            opt.set_udp_payload_size(1232);
            opt.set_dnssec_ok(dnssec);
            opt.set_rcode(rcode);
            options.iter().try_for_each(|(code, data)| {
                let data = UnknownOptData::new(OptionCode::from_int(*code), &data[..]);
                opt.push(&data.expect("a short option"))
            })
        });
        added.expect("room");
    }
    additional.finish().into_target()
}

/// Returns a message as text, in the form in which replies are written; the letter case of names is that of the
/// message.
pub(crate) fn shown(message: &[u8]) -> String {
    let message = Message::from_octets(message).expect("a message");
    let mut items = vec![message.opt_rcode().to_string()];
    items.extend(message.header().ad().then(|| "ad".to_owned()));
    items.extend(message.header().tc().then(|| "tc".to_owned()));
    let sections =
        [message.answer(), message.authority(), message.additional()].map(|s| s.expect("fine"));
    for (name, section) in ["", "authority", "additional"].iter().zip(sections) {
        let records: Vec<String> = section
            .map(|record| record.expect("a record"))
            .filter(|record| record.rtype() != Rtype::OPT)
            .map(|record| {
                let record = record.into_any_record::<AllRecordData<_, ParsedName<_>>>();
                let record = record.expect("data that can be read");
                let (owner, ttl) = (record.owner(), record.ttl().as_secs());
                format!("{owner}. {ttl} {} {}", record.rtype(), record.data())
            })
            .collect();
        if !records.is_empty() && !name.is_empty() {
            items.push((*name).to_owned());
        }
        items.extend(records);
    }
    if let Some(opt) = message.opt() {
        for option in opt.opt().iter::<UnknownOptData<_>>() {
            let option = option.expect("an option");
            items.push(match (option.code().to_int(), option.as_slice()) {
                (15, &[high, low, ..]) => format!("ede {}", u16::from_be_bytes([high, low])),
                (code, data) => format!("option {code} {data:?}"),
            });
        }
    }
    items.join("; ")
}

/// Composes a query: `NAME TYPE` and the options `+do +cd +ad -rd +noedns +option=CODE:HEX`.
pub(crate) fn query(text: &str) -> Vec<u8> {
    let mut words = text.split(' ');
    let mut word = || words.next().expect("name and type").to_owned();
    let (name, qtype) = (word().parse().expect("a name"), word().parse().expect("a type"));
    let (mut edns, mut flags, mut rd) = (Some(Edns::default()), 0, true);
    for option in words {
        match (option, &mut edns) {
            ("+cd", _) => flags |= 0x10,
            ("+ad", _) => flags |= 0x20,
            ("-rd", _) => rd = false,
            ("+noedns", edns) => *edns = None,
            ("+do", Some(edns)) => edns.dnssec_ok = true,
            (_, Some(edns)) => {
                let option = option.strip_prefix("+option=").expect(text);
                edns.add_option(option).expect("an option");
            }
            _ => panic!("{text}: {option} is not an option"),
        }
    }
    let template = QueryTemplate::new(&name, qtype, rd, false, edns.as_ref());
    let mut message = template.bytes().to_vec();
    message[3] |= flags;
    message
}

/// What became of a query.
pub(crate) struct Exchange {
    /// The reply to the client as text.
    pub(crate) answer: String,
    /// The queries to upstream in order: `name TYPE`, with ` +cd` if the bit is set, and their EDNS options.
    pub(crate) asked: Vec<String>,
    /// Simulated time from the query to the reply, in milliseconds.
    pub(crate) ms: u64,
}

impl Bench {
    /// Sends a query and replies to the upstream queries as `script` says, by `name TYPE` or `name TYPE +cd`;
    /// others get no reply.
    pub(crate) fn exchange(&mut self, text: &str, script: &[(&str, &str)]) -> Exchange {
        let mut exchange = Exchange { answer: String::new(), asked: Vec::new(), ms: 0 };
        let mut out = self.ask(1, &query(text));
        let mut pending: VecDeque<Sent> = VecDeque::new();
        while exchange.ms < 60_000 {
            if let Some((_, answer)) = out.clients.first() {
                exchange.answer = shown(answer);
                break;
            }
            pending.extend(std::mem::take(&mut out.upstream));
            if let Some(sent) = pending.pop_front() {
                let asked = asked(&sent);
                let question = asked.split(" option").next().expect("a question");
                let scripted = script.iter().find(|(expected, _)| *expected == question);
                exchange.asked.push(asked.clone());
                out = match scripted {
                    Some((_, text)) => self.reply(&sent, &reply(&sent.bytes, text)),
                    None => Default::default(),
                };
                continue;
            }
            exchange.ms += 1;
            out = self.wait(1).pop().map(|(_, out)| out).unwrap_or_default();
        }
        exchange
    }
}

/// Returns a query to upstream as text.
fn asked(sent: &Sent) -> String {
    let mut text = format!("{} {}", sent.name().to_lowercase(), sent.qtype());
    if Header::read(&sent.bytes).expect("a header").flags & 0x10 != 0 {
        text.push_str(" +cd");
    }
    let message = Message::from_octets(&sent.bytes).expect("a query");
    if let Some(opt) = message.opt() {
        for option in opt.opt().iter::<UnknownOptData<_>>() {
            let option = option.expect("an option");
            text.push_str(&format!(" option {}", option.code().to_int()));
        }
    }
    text
}

/// A question, a reply with an A record for its name, and the synthesised answer.
pub(crate) const AAAA: &str = "v4.example AAAA";
pub(crate) const A: (&str, &str) = ("v4.example A", "v4.example. 60 A 8.8.4.4");
pub(crate) const SYNTHESISED: &str = "NOERROR; v4.example. 60 AAAA 64:ff9b::808:404; ede 29";

/// A signature of v4.example, of this type.
pub(crate) fn signature(rtype: &str) -> String {
    format!("v4.example. 60 RRSIG {rtype} 13 2 60 1893456000 1577836800 1 example. AAAA")
}

/// A bench without a cache.
pub(crate) fn uncached(config: &str) -> Bench {
    let cache = if config.ends_with("[cache]") { "size = 0" } else { "cache.size = 0" };
    Bench::new(&format!("{config}\n{cache}"))
}

/// A query, the queries to upstream with their replies, and the expected answer.
pub(crate) type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

/// Checks a table of cases.
pub(crate) fn check(config: &str, cases: &[Case<'_>]) {
    for (query, script, expected) in cases {
        assert_eq!(uncached(config).exchange(query, script).answer, *expected, "{config}: {query}");
    }
}
