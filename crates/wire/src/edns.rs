//! EDNS(0): an OPT record that extends the twelve octets of the header (RFC 6891).
//!
//! A sender that uses EDNS adds one OPT record to the additional section. The fields of the record have new meanings:
//!
//! ```text
//!   00  00 29   04 d0      00        00       80 00           00 00
//!   root OPT    UDP size   RCODE>>4  version  DO + 15 zeros   rdlength, then options: code(2) length(2) data
//! ```
//!
//! The DO bit asks for DNSSEC records. A server adds an OPT record to its reply exactly when the query had one.

use thiserror::Error;

use crate::message::{OPT_FIXED, Record};
use crate::rr::Qtype;

/// Smallest UDP payload size, in octets; a smaller value counts as this one (RFC 6891 section 6.2.3).
pub(crate) const MIN_UDP_SIZE: u16 = 512;

/// UDP payload size that DNS flag day 2020 recommends to avoid fragments, in octets.
pub(crate) const DEFAULT_UDP_SIZE: u16 = 1232;

/// Largest size of the options in one OPT record, in octets.
pub const MAX_OPTIONS: usize = u16::MAX as usize;

/// The DO bit in the sixteen flags of an OPT record.
pub(crate) const DO: u16 = 1 << 15;

/// The EDNS fields of a query to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edns {
    /// Largest UDP reply that the sender accepts, in octets.
    pub udp_size: u16,
    /// Whether the sender requests DNSSEC records (the DO bit).
    pub dnssec_ok: bool,
    /// The options: code and data of each.
    pub options: Vec<(u16, Vec<u8>)>,
}

impl Default for Edns {
    fn default() -> Self {
        Self { udp_size: DEFAULT_UDP_SIZE, dnssec_ok: false, options: Vec::new() }
    }
}

impl Edns {
    /// Adds the option in `text`, written as `code:hex`, or `code` if it has no data, as for `-E` of dnsperf.
    pub fn add_option(&mut self, text: &str) -> Result<(), EdnsError> {
        let bad = || EdnsError::Option(text.into());
        let (code, hex) = text.split_once(':').unwrap_or((text, ""));
        let plain = !code.is_empty() && code.bytes().all(|b| b.is_ascii_digit());
        let code = plain.then(|| code.parse().ok()).flatten().ok_or_else(bad)?;
        let data = decode_hex(hex).ok_or_else(bad)?;
        let total = self.options_len() + 4 + data.len();
        if total > MAX_OPTIONS {
            return Err(EdnsError::TooLong(total));
        }
        self.options.push((code, data));
        Ok(())
    }

    /// Returns the OPT record in wire form; it leaves out options beyond 65,535 octets.
    pub fn to_opt(&self) -> Vec<u8> {
        let mut opt = Vec::with_capacity(OPT_FIXED + self.options_len());
        opt.extend_from_slice(&opt_fixed(self.udp_size, 0, self.dnssec_ok, 0));
        for (code, data) in &self.options {
            if opt.len() - OPT_FIXED + 4 + data.len() <= MAX_OPTIONS {
                push_option(&mut opt, *code, data);
            }
        }
        let len = (opt.len() - OPT_FIXED) as u16;
        opt[OPT_FIXED - 2..OPT_FIXED].copy_from_slice(&len.to_be_bytes());
        opt
    }

    /// Returns the size of the options, in octets.
    fn options_len(&self) -> usize {
        self.options.iter().map(|(_, data)| 4 + data.len()).sum()
    }
}

/// The reason why a text is not a valid EDNS option.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EdnsError {
    /// The text is not a code and hexadecimal octets.
    #[error(
        "`{0}` is not an EDNS option: write its code and its data in hexadecimal, as in `10:0123456789abcdef`"
    )]
    Option(String),
    /// The options together do not fit into one OPT record.
    #[error("the EDNS options take {0} octets: an OPT record holds at most 65535")]
    TooLong(usize),
}

/// The EDNS fields of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdnsSeen<'a> {
    /// Largest UDP reply that the sender accepts, in octets, at least 512.
    pub udp_size: u16,
    /// The EDNS version; a server answers BADVERS to any but 0.
    pub version: u8,
    /// The upper eight bits of the response code, zero in a query.
    pub extended_rcode: u8,
    /// Whether the sender wants DNSSEC records.
    pub do_bit: bool,
    /// The options in wire form, checked.
    options: &'a [u8],
}

impl<'a> EdnsSeen<'a> {
    /// Reads an OPT record; `None` if its options are malformed. The caller checks that the owner is the root.
    #[inline]
    pub fn from_record(record: &Record<'a>) -> Option<Self> {
        debug_assert_eq!(record.rtype, Qtype::OPT);
        let [extended_rcode, version, flags, _] = record.ttl.to_be_bytes();
        let seen = Self {
            udp_size: record.class.0.max(MIN_UDP_SIZE),
            version,
            extended_rcode,
            do_bit: flags & 0x80 != 0,
            options: record.rdata,
        };
        // Version 0 defines the layout of options; a later version may change it (RFC 6891 section 6.1.3).
        (version != 0 || seen.options().all(|option| option.is_some())).then_some(seen)
    }

    /// Returns the data of the first option with this code, if there is one.
    #[inline]
    pub fn option(&self, code: u16) -> Option<&'a [u8]> {
        self.options().flatten().find_map(|(own, data)| (own == code).then_some(data))
    }

    /// Returns code and data of each option; a `None` marks a malformed option and ends the list (only above version
    /// 0).
    pub fn options(&self) -> impl Iterator<Item = Option<(u16, &'a [u8])>> + use<'a> {
        let mut rest = self.options;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let option = split_option(rest);
            rest = option.map_or(&[], |(_, after)| after);
            Some(option.map(|(option, _)| option))
        })
    }
}

/// Returns the eleven octets of an OPT record in front of the options.
#[inline]
pub fn opt_fixed(
    udp_size: u16,
    extended_rcode: u8,
    dnssec_ok: bool,
    options_len: u16,
) -> [u8; OPT_FIXED] {
    let [t1, t0] = Qtype::OPT.0.to_be_bytes();
    let [s1, s0] = udp_size.to_be_bytes();
    let [f1, f0] = (if dnssec_ok { DO } else { 0 }).to_be_bytes();
    let [l1, l0] = options_len.to_be_bytes();
    [0, t1, t0, s1, s0, extended_rcode, 0, f1, f0, l1, l0]
}

/// Appends an option in wire form: its code, the length of its data, and the data, at most 65,535 octets.
#[inline]
pub fn push_option(out: &mut Vec<u8>, code: u16, data: &[u8]) {
    debug_assert!(data.len() <= MAX_OPTIONS, "{} octets in an EDNS option", data.len());
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(&(data.len() as u16).to_be_bytes());
    out.extend_from_slice(data);
}

/// Returns code and data of each option in wire form, up to the first that is cut short.
#[inline]
pub fn options(mut octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (option, rest) = split_option(octets)?;
        octets = rest;
        Some(option)
    })
}

/// Returns the first option and the octets after it; `None` if the option is cut short.
#[inline]
#[expect(clippy::type_complexity, reason = "an option and the rest")]
pub(crate) fn split_option(options: &[u8]) -> Option<((u16, &[u8]), &[u8])> {
    let (head, rest) = options.split_first_chunk::<4>()?;
    let (data, rest) =
        rest.split_at_checked(usize::from(u16::from_be_bytes([head[2], head[3]])))?;
    Some(((u16::from_be_bytes([head[0], head[1]]), data), rest))
}

/// Reads octets that are written as pairs of hexadecimal digits.
fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|value| value as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opt_record_is_written() {
        let mut edns = Edns { dnssec_ok: true, ..Edns::default() };
        assert_eq!(edns.to_opt(), [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]);
        edns.add_option("10:0102").unwrap();
        edns.add_option("65001").unwrap();
        assert_eq!(edns.to_opt()[9..], [0, 10, 0, 10, 0, 2, 1, 2, 253, 233, 0, 0]);
    }

    #[test]
    fn invalid_options_are_refused() {
        let mut edns = Edns::default();
        for text in ["", ":00", "x:00", "65536:00", "10:0", "10:0g", "+1:00", "10:é"] {
            assert_eq!(edns.add_option(text), Err(EdnsError::Option(text.into())), "{text}");
        }
        let large = format!("1:{}", "00".repeat(65_531));
        assert_eq!(edns.add_option(&large), Ok(()));
        assert_eq!(edns.add_option("1"), Err(EdnsError::TooLong(65_539)));
        assert_eq!(edns.to_opt().len(), OPT_FIXED + MAX_OPTIONS);
    }

    #[test]
    fn a_written_opt_record_reads_back_the_same() {
        let mut edns = Edns { udp_size: 100, dnssec_ok: true, options: vec![] };
        edns.add_option("10:aabb").unwrap();
        let opt = edns.to_opt();
        let (record, end) = Record::read(&opt, 0).unwrap();
        assert_eq!(end, opt.len());
        let seen = EdnsSeen::from_record(&record).unwrap();
        assert_eq!((seen.udp_size, seen.version, seen.do_bit), (512, 0, true));
        assert!(seen.options().eq([Some((10, &[0xaa, 0xbb][..]))]));
        for cut in 1..6 {
            let record = Record { rdata: &record.rdata[..cut], ..record };
            assert_eq!(EdnsSeen::from_record(&record), None, "{cut}");
        }
    }
}
