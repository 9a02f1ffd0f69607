//! Answers as text, for records.

use record::AnswerSeen;
use wire::message::flag;
use wire::{Header, Name, Opcode, Qclass, Qtype};

use crate::answer::{Answer, Opt, Question, Rr};
use crate::spool::Raw;

/// The flags, from the highest bit.
const FLAGS: [(u16, &str); 7] = [
    (flag::AA, "aa"),
    (flag::TC, "tc"),
    (flag::RD, "rd"),
    (flag::RA, "ra"),
    (1 << 6, "z"),
    (flag::AD, "ad"),
    (flag::CD, "cd"),
];
/// Largest number of octets of a malformed reply that are shown.
const MAX_OCTETS: usize = 512;

/// Returns the outcome at a server, as text.
pub(crate) fn render(raw: &Raw, query: &[u8]) -> AnswerSeen {
    let none = |outcome: &str, detail: Option<String>| AnswerSeen {
        outcome: outcome.to_owned(),
        detail,
        ..AnswerSeen::default()
    };
    match raw {
        Raw::Timeout => none("timeout", None),
        Raw::Failed(why) => none("error", Some(why.clone())),
        Raw::Message { bytes, tcp } => match Answer::read(bytes) {
            None => AnswerSeen { tcp: *tcp, ..none("malformed", Some(hex(bytes))) },
            Some(answer) => AnswerSeen { tcp: *tcp, ..reply(&answer, bytes, query) },
        },
    }
}

fn reply(answer: &Answer, bytes: &[u8], query: &[u8]) -> AnswerSeen {
    let asked = Answer::read(query).map(|query| query.question);
    let [answers, authority, additional] =
        [0, 1, 2].map(|section: usize| answer.sections[section].iter().map(record).collect());
    AnswerSeen {
        outcome: "reply".to_owned(),
        detail: None,
        tcp: false,
        rcode: answer.rcode.to_string(),
        flags: flags(answer.flags),
        question: (asked.as_ref() != Some(&answer.question)).then(|| question(bytes)),
        answer: answers,
        authority,
        additional,
        edns: answer.opt.as_ref().map(opt),
    }
}

fn question(message: &[u8]) -> String {
    Question::read(message).map_or("none".to_owned(), |found| {
        format!("{} {} {}", absolute(&found.name), found.qclass, found.qtype)
    })
}

/// Returns a name with the dot at its end.
pub(crate) fn absolute(name: &Name) -> String {
    if name.is_root() { ".".to_owned() } else { format!("{name}.") }
}

/// Returns the opcode, unless it is QUERY, and the flags.
fn flags(flags: u16) -> String {
    let opcode = Header { id: 0, flags, counts: [0; 4] }.opcode();
    let opcode = (opcode != Opcode::QUERY).then(|| opcode.to_string());
    let set = FLAGS.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, word)| (*word).to_owned());
    opcode.into_iter().chain(set).collect::<Vec<_>>().join(" ")
}

fn record(record: &Rr) -> String {
    let owner =
        Name::from_wire(&record.owner).map_or_else(|e| e.to_string(), |name| absolute(&name));
    let (class, rtype) = (Qclass(record.class), Qtype(record.rtype));
    format!(
        "{owner} {} {class} {rtype} {}",
        record.ttl,
        zone::data_text(record.rtype, &record.data)
    )
}

fn opt(opt: &Opt) -> String {
    let dnssec_ok = if opt.dnssec_ok { ", do" } else { "" };
    let options: String = opt
        .options
        .iter()
        .map(|[code, info]| {
            if *info == 0 { format!(", option {code}") } else { format!(", extended error {info}") }
        })
        .collect();
    format!("version {}, {} octets{dnssec_ok}{options}", opt.version, opt.udp_size)
}

fn hex(bytes: &[u8]) -> String {
    let shown: String = bytes.iter().take(MAX_OCTETS).map(|octet| format!("{octet:02x}")).collect();
    if bytes.len() > MAX_OCTETS { format!("{shown}... ({} octets)", bytes.len()) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_text() {
        let query = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";
        let mut bytes = query.to_vec();
        (bytes[2], bytes[3], bytes[7], bytes[11]) = (0x85, 0x80, 1, 1);
        bytes.extend_from_slice(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01");
        bytes.extend_from_slice(b"\0\0\x29\x04\xd0\0\0\x80\0\0\x06\0\x0f\0\x02\0\x16");
        let shown = render(&Raw::Message { bytes: bytes.clone(), tcp: true }, query);
        assert_eq!(
            (shown.outcome.as_str(), shown.rcode.as_str(), shown.tcp),
            ("reply", "NOERROR", true)
        );
        assert_eq!((shown.flags.as_str(), shown.question.as_deref()), ("aa rd ra", None));
        assert_eq!(shown.answer, ["www.example. 60 IN A 192.0.2.1"]);
        assert_eq!(shown.edns.as_deref(), Some("version 0, 1232 octets, do, extended error 22"));
        let other = render(&Raw::Message { bytes: bytes.clone(), tcp: false }, &query[..12]);
        assert_eq!(other.question.as_deref(), Some("www.example. IN A"));
        let cut = render(&Raw::Message { bytes: bytes[..14].to_vec(), tcp: false }, query);
        assert_eq!((cut.outcome.as_str(), cut.detail.map(|d| d.len())), ("malformed", Some(28)));
        assert_eq!(
            render(&Raw::Failed("refused".into()), query).detail.as_deref(),
            Some("refused")
        );
        assert_eq!(render(&Raw::Timeout, query).outcome, "timeout");
    }
}
