//! The text of record data: one description of each type, which the parser and the printer share.
//!
//! ```text
//!   10 mail.example.  ──parse──>  00 0a 04 m a i l 07 e x a m p l e 00  ──print──>  10 mail.example.
//!   MX: U16, Name
//! ```
//!
//! The table has every type that BIND 9 reads. Any other type, and any of these, can be written in the form of RFC 3597:
//! `\# LENGTH HEX`. Fields that are only a number, a name or a text are in [`parse`] and [`print`]; each field with a form of
//! its own is a file, with both directions.

mod addresses;
mod bitmap;
mod codes;
mod data;
pub(crate) mod encoded;
mod field;
mod gateway;
mod loc;
mod services;
#[cfg(test)]
mod tests;

use domain::base::Rtype;

use crate::words::{Mistake, Words};
use codes::{ALGORITHMS, CERTIFICATES, DIGESTS, FLAGS, HASHES, PROTOCOLS, SCHEMES};
use data::Data;
use field::Field;

/// Largest size of record data, in octets.
const MAX_DATA: usize = u16::MAX as usize;

/// Types for which BIND accepts unknown data.
const AMTRELAY: u16 = 260;
const KEYDATA: u16 = 65_533;

/// The fields of each type, in order, sorted by the number of the type.
#[rustfmt::skip]
const FORMATS: [(u16, &[Field]); 83] = {
    use Field::*;
    [
        (1, &[A]), // A
        (2, &[Name]), // NS
        (3, &[Name]), // MD
        (4, &[Name]), // MF
        (5, &[Name]), // CNAME
        (6, &[Name, Name, U32, Period, Period, Period, Period]), // SOA
        (7, &[Name]), // MB
        (8, &[Name]), // MG
        (9, &[Name]), // MR
        (11, &[A, WellKnown]), // WKS
        (12, &[Name]), // PTR
        (13, &[Text, Text]), // HINFO
        (14, &[Name, Name]), // MINFO
        (15, &[U16, Name]), // MX
        (16, &[Texts]), // TXT
        (17, &[Name, Name]), // RP
        (18, &[U16, Name]), // AFSDB
        (19, &[Text]), // X25
        (20, &[Text, TextIfAny]), // ISDN
        (21, &[U16, Name]), // RT
        (22, &[Nsap]), // NSAP
        (23, &[Name]), // NSAP-PTR
        (24, &[Type, Code8(&ALGORITHMS), U8, U32, Time, Time, U16, Name, Base64]), // SIG
        (25, &[Code16(&FLAGS), Code8(&PROTOCOLS), Code8(&ALGORITHMS), Base64IfAny]), // KEY
        (26, &[U16, Name, Name]), // PX
        (27, &[Text, Text, Text]), // GPOS
        (28, &[Aaaa]), // AAAA
        (29, &[Loc]), // LOC
        (30, &[Name, OldTypes]), // NXT
        (31, &[Hex]), // EID
        (32, &[Hex]), // NIMLOC
        (33, &[U16, U16, U16, Name]), // SRV
        (34, &[Atm]), // ATMA
        (35, &[U16, U16, Text, Text, Text, Name]), // NAPTR
        (36, &[U16, Name]), // KX
        (37, &[Code16(&CERTIFICATES), U16, Code8(&ALGORITHMS), Base64]), // CERT
        (38, &[A6]), // A6
        (39, &[Name]), // DNAME
        (40, &[U8, U8, U8, Base64IfAny]), // SINK
        (42, &[Addresses]), // APL
        (43, &[U16, Code8(&ALGORITHMS), Code8(&DIGESTS), Hex]), // DS
        (44, &[U8, U8, Hex]), // SSHFP
        (45, &[Gateway, Base64IfAny]), // IPSECKEY
        (46, &[Type, Code8(&ALGORITHMS), U8, U32, Time, Time, U16, Name, Base64]), // RRSIG
        (47, &[Name, Types]), // NSEC
        (48, &[Code16(&FLAGS), Code8(&PROTOCOLS), Code8(&ALGORITHMS), Base64IfAny]), // DNSKEY
        (49, &[Base64]), // DHCID
        (50, &[Code8(&HASHES), U8, U16, Salt, Hash, Types]), // NSEC3
        (51, &[Code8(&HASHES), U8, U16, Salt]), // NSEC3PARAM
        (52, &[U8, U8, U8, Hex]), // TLSA
        (53, &[U8, U8, U8, Hex]), // SMIMEA
        (55, &[Identity, Names]), // HIP
        (56, &[Texts]), // NINFO
        (57, &[Code16(&FLAGS), Code8(&PROTOCOLS), Code8(&ALGORITHMS), Base64IfAny]), // RKEY
        (58, &[Name, Name]), // TALINK
        (59, &[U16, Code8(&ALGORITHMS), Code8(&DIGESTS), Hex]), // CDS
        (60, &[Code16(&FLAGS), Code8(&PROTOCOLS), Code8(&ALGORITHMS), Base64IfAny]), // CDNSKEY
        (61, &[Base64]), // OPENPGPKEY
        (62, &[U32, U16, Types]), // CSYNC
        (63, &[U32, U8, U8, Hex]), // ZONEMD
        (64, &[U16, Name, Services]), // SVCB
        (65, &[U16, Name, Services]), // HTTPS
        (66, &[Type, Code8(&SCHEMES), U16, Name]), // DSYNC
        (67, &[Base64]), // HHIT
        (68, &[Base64]), // BRID
        (99, &[Texts]), // SPF
        (104, &[U16, Locator]), // NID
        (105, &[U16, A]), // L32
        (106, &[U16, Locator]), // L64
        (107, &[U16, Name]), // LP
        (108, &[Eui(6)]), // EUI48
        (109, &[Eui(8)]), // EUI64
        (256, &[U16, U16, Value]), // URI
        (257, &[U8, Tag, Value]), // CAA
        (258, &[Texts]), // AVC
        (259, &[U32, U32, U8, Text, Base64IfAny]), // DOI
        (AMTRELAY, &[AmtRelay]),
        (261, &[Texts]), // RESINFO
        (262, &[Texts]), // WALLET
        (263, &[Texts]), // CLA
        (32768, &[U16, Code8(&ALGORITHMS), Code8(&DIGESTS), Hex]), // TA
        (32769, &[U16, Code8(&ALGORITHMS), Code8(&DIGESTS), Hex]), // DLV
        (KEYDATA, &[Time, Time, Time, Code16(&FLAGS), Code8(&PROTOCOLS), Code8(&ALGORITHMS), Base64IfAny]),
    ]
};

/// Returns the fields of a type; `None` for types that have only the form of RFC 3597.
fn fields(rtype: Rtype) -> Option<&'static [Field]> {
    let found = FORMATS.binary_search_by_key(&rtype.to_int(), |&(number, _)| number);
    found.ok().map(|at| FORMATS[at].1)
}

/// Reads the data of a record to the end of the entry, and writes it to `out` in wire form; relative names are below
/// `origin`, which is empty if it is not known.
pub(crate) fn parse(
    rtype: Rtype,
    words: &mut Words<'_>,
    origin: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Mistake> {
    out.clear();
    if is_generic(rtype, words) {
        return parse_generic(rtype, words, out);
    }
    let Some(fields) = fields(rtype) else {
        let why = format!("data of the type {rtype} is written as \\# LENGTH HEX (RFC 3597)");
        return Err(words
            .peek()
            .map_or_else(|| words.mistake_here(&why), |word| word.mistake(&why)));
    };
    let begin = words.clone();
    for field in fields {
        field.parse(words, origin, out)?;
    }
    if out.len() > MAX_DATA {
        return Err(begin.mistake_here(format!("the data has more than {MAX_DATA} octets")));
    }
    words.end("the record")
}

/// Returns whether data is in the form of RFC 3597; `\#` may also be the first of several texts.
fn is_generic(rtype: Rtype, words: &Words<'_>) -> bool {
    let mut words = words.clone();
    let marked = words.next().is_some_and(|word| !word.quoted && word.text == b"\\#");
    let is_number = words.next().is_some_and(|word| word.number(u64::MAX).is_ok());
    marked && (is_number || !matches!(fields(rtype), Some([Field::Texts])))
}

/// Returns whether data of a type may be any octets: BIND accepts unknown types.
fn is_opaque(rtype: Rtype, data: &[u8]) -> bool {
    match rtype.to_int() {
        KEYDATA => true,
        AMTRELAY => gateway::is_unknown_relay(data),
        _ => fields(rtype).is_none(),
    }
}

/// Reads data in the form of RFC 3597.
fn parse_generic(rtype: Rtype, words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), Mistake> {
    let mark = words.need("\\#")?;
    let len = words.need("the number of octets")?.number(MAX_DATA as u64)? as usize;
    encoded::hex(&words.rest(), out).map_err(|why| mark.mistake(why))?;
    if out.len() != len {
        return Err(mark.mistake(format!("the data has {} octets, not {len}", out.len())));
    }
    if !is_opaque(rtype, out) && !print(rtype, out, &mut Vec::new()) {
        return Err(mark.mistake(format!("these octets are not data of the type {rtype}")));
    }
    Ok(())
}

/// Appends data as text, with absolute names; returns `false`, and appends nothing, if the type or the octets have only
/// the form of RFC 3597.
pub(crate) fn print(rtype: Rtype, data: &[u8], out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    let printed = fields(rtype).is_some_and(|fields| print_fields(fields, data, out).is_some());
    if !printed {
        out.truncate(begin);
    }
    printed
}

/// Appends all fields; `None` if the octets do not fit them.
fn print_fields(fields: &[Field], data: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut data = Data(data);
    for (number, field) in fields.iter().enumerate() {
        let before = out.len();
        if number > 0 {
            out.push(b' ');
        }
        let start = out.len();
        field.print(&mut data, out)?;
        if out.len() == start {
            // The field is empty, and needs no blank.
            out.truncate(before);
        }
    }
    data.0.is_empty().then_some(())
}

/// Writes the names in data in lower case, for the types of RFC 1035 and their like (RFC 4034 section 6.2).
pub fn fold_names(rtype: Rtype, data: &mut [u8]) {
    let end = data.len();
    let names = match rtype {
        Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::DNAME | Rtype::MINFO | Rtype::RP => 0..end,
        Rtype::MX | Rtype::AFSDB | Rtype::RT | Rtype::KX => 2..end,
        Rtype::SRV => 6..end,
        Rtype::SOA => 0..end.saturating_sub(20),
        _ => return,
    };
    if let Some(names) = data.get_mut(names) {
        names.make_ascii_lowercase();
    }
}
