//! A DNS message as traffic analysis needs it: whether it is well-formed, its question, its EDNS fields.

use wire::message::{HEADER, Record, name_at, skip_name};
use wire::{Header, Name, Qclass, Qtype, Rcode};

/// The first question of a message.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// The name, uncompressed, in the letter case of the message.
    pub name: Name,
    /// The query type (QTYPE) in the question.
    pub qtype: Qtype,
    /// The query class (QCLASS) in the question.
    pub qclass: Qclass,
}

/// The fields of an OPT record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt {
    /// UDP payload size of the sender, in octets.
    pub udp_size: u16,
    /// The upper eight bits of the return code.
    pub extended_rcode: u8,
    /// The version of EDNS; 0 is the only one in use.
    pub version: u8,
    /// Whether the sender requests DNSSEC records.
    pub dnssec_ok: bool,
    /// Offset of the options in the message, and their size in octets.
    pub options: (usize, usize),
}

/// A message, parsed as far as statistics need it.
#[derive(Clone, Copy, Debug)]
pub struct Dns {
    /// The header of twelve octets.
    pub header: Header,
    /// The first question, if it is readable.
    pub question: Option<Question>,
    /// The OPT record, if there is one.
    pub opt: Option<Opt>,
    /// Whether the message has exactly the records that the header announces, all readable.
    pub whole: bool,
}

impl Dns {
    /// Parses `message` in at most one step per octet; `None` if it is shorter than a header.
    #[inline]
    pub fn read(message: &[u8]) -> Option<Self> {
        let header = Header::read(message)?;
        let mut dns = Dns { header, question: None, opt: None, whole: false };
        let end = dns.sections(message);
        dns.whole = end == Some(message.len());
        Some(dns)
    }

    /// Returns whether the message is a response.
    #[inline]
    pub fn is_response(&self) -> bool {
        self.header.is_response()
    }

    /// Returns the return code, with the upper bits of EDNS.
    pub fn rcode(&self) -> Rcode {
        let upper = self.opt.map_or(0, |opt| u16::from(opt.extended_rcode));
        Rcode(upper << 4 | u16::from(self.header.rcode()))
    }

    /// Reads the sections; returns the offset after the last record, or `None` if one is malformed.
    fn sections(&mut self, message: &[u8]) -> Option<usize> {
        let mut at = HEADER;
        for number in 0..self.header.counts[0] {
            let fixed = skip_name(message, at)?;
            let bytes: &[u8; 4] = message.get(fixed..)?.first_chunk()?;
            if number == 0 {
                self.question = Some(Question {
                    name: name_at(message, at)?,
                    qtype: Qtype(u16::from_be_bytes([bytes[0], bytes[1]])),
                    qclass: Qclass(u16::from_be_bytes([bytes[2], bytes[3]])),
                });
            }
            at = fixed + 4;
        }
        let [_, answers, authority, additional] = self.header.counts.map(u32::from);
        for number in 0..answers + authority + additional {
            let (record, end) = Record::read(message, at)?;
            if record.rtype == Qtype::OPT && number >= answers + authority {
                self.opt = Some(Opt {
                    udp_size: record.class.0,
                    extended_rcode: (record.ttl >> 24) as u8,
                    version: (record.ttl >> 16) as u8,
                    dnssec_ok: record.ttl & 0x8000 != 0,
                    options: (record.rdata_at, record.rdata.len()),
                });
            }
            at = end;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_and_replies_are_parsed() {
        let name: Name = "www.example".parse().expect("a name");
        let template =
            wire::QueryTemplate::new(&name, Qtype::MX, true, false, Some(&Default::default()));
        let query = template.bytes();
        let dns = Dns::read(query).expect("a header");
        let question = dns.question.expect("a question");
        assert_eq!((question.name, question.qtype, question.qclass), (name, Qtype::MX, Qclass::IN));
        assert!(dns.whole && !dns.is_response());
        assert_eq!(dns.opt.map(|opt| (opt.udp_size, opt.dnssec_ok)), Some((1232, false)));
        // A reply without records and with the return code BADVERS.
        let mut reply = query.to_vec();
        reply[2] |= 0x80;
        let at = reply.len() - 6;
        reply[at] = 1;
        let dns = Dns::read(&reply).expect("a header");
        assert_eq!(dns.rcode(), Rcode::BADVERS);
        for len in 0..query.len() {
            assert!(!Dns::read(&query[..len]).is_some_and(|dns| dns.whole), "{len}");
        }
        reply.push(0);
        assert!(!Dns::read(&reply).expect("a header").whole);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes: Vec<u8>) {
            if let Some(dns) = Dns::read(&bytes) {
                let _ = (dns.rcode(), dns.is_response());
            }
        }
    }
}
