//! An answer in a form in which equal answers are equal: records sorted, names uncompressed and in lower case.

use wire::message::{HEADER, Record, flag, name_at, skip_name};
use wire::{EdnsSeen, Header, Name, Qclass, Qtype, Rcode};

use crate::data::{canonical, signature_key};

/// Options of EDNS that differ from reply to reply, or identify the server: NSID, COOKIE,
/// keepalive, padding.
const OWN_OPTIONS: [u16; 4] = [3, 10, 11, 12];
/// The option of extended errors (RFC 8914), whose code counts and whose text does not.
const EXTENDED_ERROR: u16 = 15;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rr {
    /// Owner name in wire form, in lower case.
    pub(crate) owner: Vec<u8>,
    /// Number of the record type.
    pub(crate) rtype: u16,
    pub(crate) class: u16,
    /// The part of the data that is compared.
    pub(crate) key: Vec<u8>,
    /// TTL in seconds.
    pub(crate) ttl: u32,
    /// The whole data in canonical form.
    pub(crate) data: Vec<u8>,
}

impl Rr {
    /// Returns whether the record is a signature.
    pub(crate) fn is_signature(&self) -> bool {
        self.rtype == Qtype::RRSIG.0
    }

    /// Returns the key by which records are compared: everything but the TTL.
    pub(crate) fn identity(&self) -> impl Ord + '_ {
        (&self.owner, self.rtype, self.class, &self.key)
    }
}

/// The fields of an OPT record that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opt {
    pub(crate) version: u8,
    /// Largest UDP reply that the server accepts, in octets.
    pub(crate) udp_size: u16,
    pub(crate) dnssec_ok: bool,
    /// Sorted codes of the options; an extended error also has its own code, others have 0.
    pub(crate) options: Vec<[u16; 2]>,
}

/// The parts of an answer that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The questions: names in lower case, types, classes, in wire form.
    pub(crate) question: Vec<u8>,
    pub(crate) rcode: Rcode,
    /// The flags and the opcode, without QR and the return code.
    pub(crate) flags: u16,
    /// Records of the answer, authority and additional sections, sorted.
    pub(crate) sections: [Vec<Rr>; 3],
    pub(crate) opt: Option<Opt>,
}

/// Bits of the flags field that are not compared as flags: QR and the return code.
const NOT_FLAGS: u16 = flag::QR | 0xf;

impl Answer {
    /// Parses a reply; `None` if its number of records differs from its header, or if it has two
    /// OPT records.
    pub fn read(message: &[u8]) -> Option<Self> {
        let header = Header::read(message)?;
        let (question, mut at) = questions(message, header.counts[0])?;
        let mut answer = Answer {
            question,
            rcode: Rcode(header.rcode().into()),
            flags: header.flags & !NOT_FLAGS,
            sections: Default::default(),
            opt: None,
        };
        for (section, &count) in header.counts[1..].iter().enumerate() {
            for _ in 0..count {
                let (record, end) = Record::read(message, at)?;
                at = end;
                if record.rtype == Qtype::OPT && section == 2 {
                    answer.add_opt(&record)?;
                } else {
                    answer.sections[section].push(rr(message, &record)?);
                }
            }
            answer.sections[section].sort_unstable();
        }
        (at == message.len()).then_some(answer)
    }

    fn add_opt(&mut self, record: &Record<'_>) -> Option<()> {
        let edns = EdnsSeen::from_record(record)?;
        let code = |option: Option<(u16, &[u8])>| {
            let (code, data) = option?;
            let info = data.first_chunk().map_or(0, |info| u16::from_be_bytes(*info));
            Some([code, if code == EXTENDED_ERROR { info } else { 0 }])
        };
        let all = edns.options().map(code).collect::<Option<Vec<_>>>().unwrap_or_default();
        let mut options: Vec<_> =
            all.into_iter().filter(|[code, _]| !OWN_OPTIONS.contains(code)).collect();
        options.sort_unstable();
        self.rcode = Rcode(self.rcode.0 | u16::from(edns.extended_rcode) << 4);
        let (version, udp_size, dnssec_ok) = (edns.version, edns.udp_size, edns.do_bit);
        self.opt.replace(Opt { version, udp_size, dnssec_ok, options }).is_none().then_some(())
    }
}

/// Reads the questions; returns them with their names in lower case, and the offset after them.
fn questions(message: &[u8], count: u16) -> Option<(Vec<u8>, usize)> {
    let (mut questions, mut at) = (Vec::new(), HEADER);
    for _ in 0..count {
        let fixed = skip_name(message, at)?;
        questions.extend_from_slice(name_at(message, at)?.to_lowercase().as_wire());
        questions.extend_from_slice(message.get(fixed..fixed + 4)?);
        at = fixed + 4;
    }
    Some((questions, at))
}

fn rr(message: &[u8], record: &Record<'_>) -> Option<Rr> {
    let data = canonical(message, record)?;
    Some(Rr {
        owner: name_at(message, record.owner)?.to_lowercase().as_wire().to_vec(),
        rtype: record.rtype.0,
        class: record.class.0,
        key: if record.rtype == Qtype::RRSIG { signature_key(&data) } else { data.clone() },
        ttl: record.ttl,
        data,
    })
}

/// The first question of a query.
pub(crate) struct Question {
    pub(crate) name: Name,
    pub(crate) qtype: Qtype,
    pub(crate) qclass: Qclass,
}

impl Question {
    /// Reads the first question of a message; `None` if it has none.
    pub(crate) fn read(message: &[u8]) -> Option<Self> {
        let name = name_at(message, HEADER).filter(|_| message.get(4..6) != Some(&[0, 0]))?;
        let fixed: &[u8; 4] = message.get(skip_name(message, HEADER)?..)?.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        Some(Question { name, qtype: Qtype(word(0)), qclass: Qclass(word(2)) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A reply to `www.Example A` with two addresses in this order, compressed or not, and an OPT record with this option.
    fn reply(addresses: [u8; 2], owner: &[u8], option: &[u8]) -> Vec<u8> {
        let mut message = vec![0, 7, 0x85, 0, 0, 1, 0, 2, 0, 0, 0, 1];
        message.extend_from_slice(b"\x03www\x07Example\0\0\x01\0\x01");
        for last in addresses {
            message.extend_from_slice(owner);
            message.extend_from_slice(&[0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, last]);
        }
        message.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, option.len() as u8]);
        message.extend_from_slice(option);
        message
    }

    #[test]
    fn order_case_and_compression_do_not_matter() {
        let one = Answer::read(&reply([1, 2], b"\xc0\x0c", &[])).expect("an answer");
        let two = Answer::read(&reply([2, 1], b"\x03WWW\x07exAMPLE\0", &[])).expect("an answer");
        assert_eq!(one, two);
        assert_eq!((one.rcode, one.flags), (Rcode::NOERROR, flag::AA | flag::RD));
        assert_ne!(one, Answer::read(&reply([1, 3], b"\xc0\x0c", &[])).expect("an answer"));
    }

    #[test]
    fn options_of_the_server_itself_are_left_out() {
        let plain = Answer::read(&reply([1, 2], b"\xc0\x0c", &[])).expect("an answer");
        let cookie =
            Answer::read(&reply([1, 2], b"\xc0\x0c", &[0, 10, 0, 1, 9])).expect("an answer");
        assert_eq!(plain, cookie);
        let error = |text: &[u8]| [&[0, 15, 0, 2 + text.len() as u8, 0, 22][..], text].concat();
        let read =
            |option: &[u8]| Answer::read(&reply([1, 2], b"\xc0\x0c", option)).expect("an answer");
        assert_eq!(read(&error(b"")), read(&error(b"no route")));
        assert_eq!(read(&error(b"")).opt.expect("EDNS").options, [[15, 22]]);
    }

    #[test]
    fn what_is_cut_or_too_long_is_malformed() {
        let whole = reply([1, 2], b"\xc0\x0c", &[0, 15, 0, 2, 0, 22]);
        assert!((0..whole.len()).all(|len| Answer::read(&whole[..len]).is_none()));
        assert_eq!(Answer::read(&[&whole[..], b"x"].concat()), None);
        let mut twice = whole.clone();
        twice[11] = 2;
        twice.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Answer::read(&twice), None);
    }

    #[test]
    fn questions_are_read() {
        let question = Question::read(&reply([1, 2], b"\xc0\x0c", &[])).expect("a question");
        assert_eq!(question.name.to_string(), "www.Example");
        assert_eq!((question.qtype, question.qclass), (Qtype::A, Qclass::IN));
        assert!(Question::read(&[0; 12]).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(answer) = Answer::read(&bytes) {
                prop_assert!(answer.sections.iter().all(|section| section.is_sorted()));
            }
            let _ = Question::read(&bytes);
        }
    }
}
