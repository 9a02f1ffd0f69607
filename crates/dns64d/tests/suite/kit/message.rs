//! Messages as text: records as in a zone file, read and written by the `domain` crate.

use std::net::IpAddr;
use std::str::FromStr;

use domain::base::iana::{Class, OptRcode, OptionCode, Rtype};
use domain::base::message_builder::AdditionalBuilder;
use domain::base::name::{FlattenInto, ParsedName};
use domain::base::opt::UnknownOptData;
use domain::base::wire::Composer;
use domain::base::{Message, MessageBuilder, Name, Record};
use domain::dep::octseq::Octets;
use domain::rdata::{AllRecordData, ZoneRecordData};
use domain::zonefile::inplace::{Entry, Zonefile};

/// Option code of EDNS client subnet (RFC 7871).
pub(crate) const ECS: u16 = 8;
/// Option code of DNS cookies (RFC 7873).
pub(crate) const COOKIE: u16 = 10;
/// TTL that stands for any TTL in an expected record.
const ANY_TTL: u32 = 0x7fff_fffe;

/// Text for data of a record that cannot be parsed.
pub(crate) const UNREADABLE: &str = "(unreadable)";

pub(crate) type Sent = Record<Name<bytes::Bytes>, ZoneRecordData<bytes::Bytes, Name<bytes::Bytes>>>;

/// Reads `OWNER [TTL] TYPE DATA`; without a TTL the record matches any.
pub(crate) fn record(text: &str) -> Sent {
    let (owner, rest) = text.trim().split_once(' ').unwrap_or_else(|| panic!("no record: {text}"));
    let line = match rest.split(' ').next().map(u32::from_str) {
        Some(Ok(_)) => format!("{owner} {rest}\n"),
        _ => format!("{owner} {ANY_TTL} {rest}\n"),
    };
    let mut zone = Zonefile::from(line.as_str());
    zone.set_origin(Name::root_bytes());
    zone.set_default_class(Class::IN);
    match zone.next_entry() {
        Ok(Some(Entry::Record(record))) => record.flatten_into(),
        other => panic!("no record: {text}: {other:?}"),
    }
}

/// Reads a name and a type: `www.example AAAA`.
pub(crate) fn question(text: &str) -> (String, Rtype) {
    let (name, rtype) =
        text.trim().split_once(' ').unwrap_or_else(|| panic!("no question: {text}"));
    (lower(name), Rtype::from_str(rtype).unwrap_or_else(|e| panic!("{text}: {e}")))
}

/// Returns a name in lower case without the dot at its end (the root is empty).
pub(crate) fn lower(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// A received record: owner, TTL, type, data as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) owner: String,
    pub(crate) rtype: Rtype,
    pub(crate) data: String,
    pub(crate) ttl: u32,
    /// Whether its owner or a name in its data has a capital letter.
    pub(crate) mixed_case: bool,
}

impl Seen {
    /// Returns whether this is the expected record; its TTL may be lower by a few seconds, or any if the
    /// expected one is.
    pub(crate) fn is(&self, expected: &Seen) -> bool {
        let ttl =
            expected.ttl == ANY_TTL || (self.ttl <= expected.ttl && self.ttl + 5 >= expected.ttl);
        ttl && self.owner == expected.owner
            && self.rtype == expected.rtype
            && self.data == expected.data
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.ttl {
            ANY_TTL => write!(f, "{} {} {}", self.owner, self.rtype, self.data),
            ttl => write!(f, "{} {ttl} {} {}", self.owner, self.rtype, self.data),
        }
    }
}

/// Returns records in the form in which they are read from a message.
pub(crate) fn as_seen(records: &[Sent]) -> Vec<Seen> {
    let mut answer = MessageBuilder::new_vec().answer();
    for record in records {
        answer.push(record).expect("a short message");
    }
    let message = answer.into_message();
    section(message.answer().expect("our own message"))
}

fn section<'a, O: Octets>(section: domain::base::message::RecordSection<'a, O>) -> Vec<Seen>
where
    O::Range<'a>: AsRef<[u8]>,
{
    let mut seen = Vec::new();
    for record in section {
        let record = record.expect("a record that can be read");
        if record.rtype() == Rtype::OPT {
            continue;
        }
        let (spelling, rtype, ttl) = (record.owner().to_string(), record.rtype(), record.ttl());
        // The test decides about data that cannot be parsed.
        let data = match record.into_any_record::<AllRecordData<_, ParsedName<_>>>() {
            Ok(record) => record.data().to_string(),
            Err(_) => UNREADABLE.to_owned(),
        };
        let capital = |text: &str| text.contains(|c: char| c.is_ascii_uppercase());
        let mixed_case = capital(&spelling) || capital(&data);
        let data = data.to_ascii_lowercase();
        seen.push(Seen { owner: lower(&spelling), rtype, data, ttl: ttl.as_secs(), mixed_case });
    }
    seen
}

/// The OPT record of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edns {
    pub(crate) size: u16,
    pub(crate) version: u8,
    pub(crate) dnssec: bool,
    pub(crate) options: Vec<(u16, Vec<u8>)>,
}

impl Edns {
    /// Returns the OPT record of a message, if it has one.
    pub(crate) fn of<O: Octets>(message: &Message<O>) -> Option<Self> {
        let opt = message.opt()?;
        let options = opt
            .opt()
            .iter::<UnknownOptData<_>>()
            .map(|option| option.expect("an option that can be read"))
            .map(|option| (option.code().to_int(), option.as_slice().to_vec()))
            .collect();
        Some(Edns {
            size: opt.udp_payload_size(),
            version: opt.version(),
            dnssec: opt.dnssec_ok(),
            options,
        })
    }

    /// Returns the data of an option.
    pub(crate) fn option(&self, code: u16) -> Option<&[u8]> {
        self.options.iter().find(|(c, _)| *c == code).map(|(_, data)| data.as_slice())
    }
}

/// Returns the data of a client subnet option for a network such as `192.0.2.0/24`.
pub(crate) fn ecs(network: &str) -> Vec<u8> {
    let (address, bits) = network.split_once('/').expect("address/bits");
    let bits: u8 = bits.parse().expect("bits");
    let (family, octets) = match address.parse().expect("an address") {
        IpAddr::V4(v4) => (1, v4.octets().to_vec()),
        IpAddr::V6(v6) => (2, v6.octets().to_vec()),
    };
    let mut data = vec![0, family, bits, 0];
    data.extend(&octets[..usize::from(bits).div_ceil(8)]);
    data
}

pub(crate) fn push_opt<T: Composer>(
    additional: &mut AdditionalBuilder<T>,
    edns: &Edns,
    rcode: OptRcode,
) {
    additional
        .opt(|opt| {
            opt.set_udp_payload_size(edns.size);
            opt.set_version(edns.version);
            opt.set_dnssec_ok(edns.dnssec);
            opt.set_rcode(rcode);
            for (code, data) in &edns.options {
                let data = UnknownOptData::new(OptionCode::from_int(*code), data.clone());
                opt.push(&data.expect("a short option"))?;
            }
            Ok(())
        })
        .expect("a short message");
}

/// Code of the option for extended errors (RFC 8914).
pub(crate) const EXTENDED_ERROR: u16 = 15;

#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) octets: usize,
    pub(crate) id: u16,
    pub(crate) rcode: String,
    /// Header flags as text: `aa`, `tc`, `rd`, `ra`, `ad`, `cd`.
    pub(crate) flags: Vec<&'static str>,
    pub(crate) answer: Vec<Seen>,
    pub(crate) authority: Vec<Seen>,
    pub(crate) additional: Vec<Seen>,
    pub(crate) edns: Option<Edns>,
}

impl Reply {
    /// Reads a reply.
    ///
    /// # Panics
    /// With octets that cannot be parsed.
    pub(crate) fn parse(octets: &[u8]) -> Self {
        let message = Message::from_octets(octets).expect("a header");
        let header = message.header();
        assert!(header.qr(), "expected a reply, received a query");
        let flags = [
            ("aa", header.aa()),
            ("tc", header.tc()),
            ("rd", header.rd()),
            ("ra", header.ra()),
            ("ad", header.ad()),
            ("cd", header.cd()),
        ];
        Reply {
            octets: octets.len(),
            id: header.id(),
            rcode: message.opt_rcode().to_string(),
            flags: flags.into_iter().filter(|(_, set)| *set).map(|(flag, _)| flag).collect(),
            answer: section(message.answer().expect("an answer section")),
            authority: section(message.authority().expect("an authority section")),
            additional: section(message.additional().expect("an additional section")),
            edns: Edns::of(&message),
        }
    }
}

impl Reply {
    /// Returns the return code and the data of the answer.
    pub(crate) fn shown(&self) -> String {
        let answers = self.answer.iter().map(|record| record.data.as_str());
        let words: Vec<&str> = std::iter::once(self.rcode.as_str()).chain(answers).collect();
        words.join(" ")
    }

    /// Returns the info codes of its extended errors.
    pub(crate) fn errors(&self) -> impl Iterator<Item = u16> {
        let options = self.edns.iter().flat_map(|edns| &edns.options);
        options
            .filter(|(code, _)| *code == EXTENDED_ERROR)
            .map(|(_, data)| u16::from_be_bytes(*data.first_chunk().expect("a code of two octets")))
    }
}

impl std::fmt::Display for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [{}] {} octets", self.rcode, self.flags.join(" "), self.octets)?;
        for (name, section) in [
            ("answer", &self.answer),
            ("authority", &self.authority),
            ("additional", &self.additional),
        ] {
            for seen in section {
                write!(f, "\n      {name}: {seen}")?;
            }
        }
        if let Some(edns) = &self.edns {
            write!(f, "\n      EDNS: {edns:?}")?;
        }
        Ok(())
    }
}
