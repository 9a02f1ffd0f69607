//! The fields of record data: their forms in a zone file and in a message.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use wire::Qtype;

use super::codes::{self, Codes};
use super::data::{Data, put, put_name, put_text};
use super::{addresses, bitmap, encoded, gateway, loc, services};
use crate::words::{Mistake, Word, Words};

/// A field of record data.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    /// A number of one, two or four octets.
    U8,
    U16,
    U32,
    /// A number of four octets; a time in seconds that may have units.
    Period,
    /// A number of one or two octets that may have a name; names of flags are joined by `|`.
    Code8(&'static Codes),
    Code16(&'static Codes),
    /// A record type, by name or as `TYPE123`.
    Type,
    /// A time as YYYYMMDDHHMMSS or in seconds since 1970 (RFC 4034 section 3.2).
    Time,
    /// A name, and names to the end.
    Name,
    Names,
    /// An address of IPv4; one of IPv6.
    A,
    Aaaa,
    /// A text of up to 255 octets; such a text or nothing; one or more of them to the end.
    Text,
    TextIfAny,
    Texts,
    /// A text of letters and digits (CAA).
    Tag,
    /// A text to the end of the record, without its length.
    Value,
    /// Octets to the end of the record.
    Hex,
    Base64,
    Base64IfAny,
    /// Octets with their length before them (NSEC3): hexadecimal or `-`, and base32.
    Salt,
    Hash,
    /// Record types to the end.
    Types,
    OldTypes,
    /// This number of octets as `00-11-22` (EUI48, EUI64).
    Eui(usize),
    /// Four groups of hexadecimal digits (NID, L64).
    Locator,
    /// Hexadecimal digits with dots, after `0x` (NSAP).
    Nsap,
    /// The whole data of ATMA, LOC, APL.
    Atm,
    Loc,
    Addresses,
    /// The data of IPSECKEY and AMTRELAY up to the gateway.
    Gateway,
    AmtRelay,
    /// The host identity of HIP, with its key.
    Identity,
    /// The parameters of SVCB and HTTPS (RFC 9460).
    Services,
    /// The protocol and the ports of WKS.
    WellKnown,
    /// The whole data of A6.
    A6,
}

/// Appends a text after its length.
fn parse_text(word: &Word<'_>, out: &mut Vec<u8>) -> Result<(), Mistake> {
    let begin = out.len();
    out.push(0);
    word.octets(out)?;
    let len = u8::try_from(out.len() - begin - 1);
    out[begin] = len.map_err(|_| word.mistake("a text has more than 255 octets: split it"))?;
    Ok(())
}

/// Reads a number, which may be hexadecimal after `0x` if it has 16 bits, or the names of numbers joined by `|`.
fn parse_code(word: &Word<'_>, codes: &Codes, max: u16) -> Result<u16, Mistake> {
    let digits = std::str::from_utf8(word.text).ok().and_then(|text| text.strip_prefix("0x"));
    if let Some(number) = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok())
        && max == u16::MAX
    {
        return Ok(number);
    }
    if word.text.first().is_some_and(u8::is_ascii_digit) {
        return word.number(max.into()).map(|number| number as u16);
    }
    let names = word.text.split(|&octet| octet == b'|');
    let number = names.map(|name| codes::number(codes, name)).try_fold(0, |all, n| Some(all | n?));
    number.ok_or_else(|| {
        let some: Vec<_> = codes.iter().take(4).map(|(name, _)| *name).collect();
        word.is_not(&format!("a number up to {max}, nor a known name such as {}", some.join(", ")))
    })
}

/// Reads a time as YYYYMMDDHHMMSS, or in seconds since 1970.
fn parse_time(word: &Word<'_>) -> Result<u32, Mistake> {
    if word.text.len() != 14 {
        return word.number(u32::MAX.into()).map(|number| number as u32);
    }
    let all = word.number(99_991_231_235_959)?;
    let part = |divisor: u64, modulus: u64| (all / divisor % modulus) as i64;
    let (year, month, day) =
        (part(10_000_000_000, 10_000), part(100_000_000, 100), part(1_000_000, 100));
    let (hour, minute, second) = (part(10_000, 100), part(100, 100), part(1, 100));
    if !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return Err(word.is_not("a time as YYYYMMDDHHMMSS"));
    }
    // Days from 1 March of the year 0; the arithmetic of serial numbers keeps the lower 32 bits (RFC 4034 section 3.1.5).
    let (y, m) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Ok((days * 86_400 + hour * 3_600 + minute * 60 + second) as u32)
}

/// Reads octets in an encoding from the words to the end of the entry.
fn parse_rest(
    words: &mut Words<'_>,
    decode: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), String>,
    may_be_empty: bool,
    out: &mut Vec<u8>,
) -> Result<(), Mistake> {
    let begin = words.clone();
    let Some(first) = words.peek() else {
        return if may_be_empty { Ok(()) } else { words.need("its octets").map(drop) };
    };
    let text = words.rest();
    if text.is_empty() && !may_be_empty {
        return Err(begin.mistake_here("the octets of the record are missing"));
    }
    decode(&text, out).map_err(|why| first.mistake(why))
}

/// Appends octets after their length.
fn parse_counted(
    word: &Word<'_>,
    decode: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), String>,
    out: &mut Vec<u8>,
) -> Result<(), Mistake> {
    let begin = out.len();
    out.push(0);
    decode(word.text, out).map_err(|why| word.mistake(why))?;
    let len = u8::try_from(out.len() - begin - 1);
    out[begin] = len.map_err(|_| word.mistake("more than 255 octets"))?;
    Ok(())
}

/// Reads an address of one family, whose name for errors is `what`.
fn parse_address<A: FromStr>(
    words: &mut Words<'_>,
    what: &'static str,
    example: &str,
) -> Result<A, Mistake> {
    let word = words.need(what)?;
    word.as_str().parse().map_err(|_| word.is_not(&format!("{what} such as {example}")))
}

impl Field {
    /// Reads the words of the field, and appends its wire form to `out`.
    pub(super) fn parse(
        self,
        words: &mut Words<'_>,
        origin: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Mistake> {
        match self {
            Field::U8 => out.push(words.need("a number")?.number(0xff)? as u8),
            Field::U16 => {
                out.extend((words.need("a number")?.number(0xffff)? as u16).to_be_bytes())
            }
            Field::U32 => {
                out.extend((words.need("a number")?.number(u32::MAX.into())? as u32).to_be_bytes());
            }
            Field::Period => out.extend(words.need("a time")?.period()?.to_be_bytes()),
            Field::Code8(codes) => {
                out.push(parse_code(&words.need("a number")?, codes, 0xff)? as u8)
            }
            Field::Code16(codes) => {
                out.extend(parse_code(&words.need("a number")?, codes, 0xffff)?.to_be_bytes());
            }
            Field::Type => {
                let word = words.need("a record type")?;
                let rtype = word.rtype().ok_or_else(|| word.is_not("a record type"))?;
                out.extend(rtype.to_int().to_be_bytes());
            }
            Field::Time => out.extend(parse_time(&words.need("a time")?)?.to_be_bytes()),
            Field::Name => words.need("a name")?.name(origin, out)?,
            Field::Names => {
                while let Some(word) = words.next() {
                    word.name(origin, out)?;
                }
            }
            Field::A => {
                let address: Ipv4Addr = parse_address(words, "an IPv4 address", "192.0.2.1")?;
                out.extend(address.octets());
            }
            Field::Aaaa => {
                let address: Ipv6Addr = parse_address(words, "an IPv6 address", "2001:db8::1")?;
                out.extend(address.octets());
            }
            other => other.parse_texts(words, origin, out)?,
        }
        Ok(())
    }

    /// Reads a field of text, of octets or of its own form.
    fn parse_texts(
        self,
        words: &mut Words<'_>,
        origin: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Mistake> {
        match self {
            Field::TextIfAny if words.peek().is_none() => Ok(()),
            Field::Text | Field::TextIfAny => parse_text(&words.need("a text")?, out),
            Field::Texts => {
                parse_text(&words.need("a text")?, out)?;
                while let Some(word) = words.next() {
                    parse_text(&word, out)?;
                }
                Ok(())
            }
            Field::Tag => {
                let word = words.need("a tag such as issue")?;
                if word.text.is_empty() || !word.text.iter().all(u8::is_ascii_alphanumeric) {
                    return Err(word.is_not("a tag of letters and digits, such as issue"));
                }
                parse_text(&word, out)
            }
            Field::Value => words.need("a text")?.octets(out),
            Field::Hex => parse_rest(words, encoded::hex, false, out),
            Field::Base64 => parse_rest(words, encoded::base64, false, out),
            Field::Base64IfAny => parse_rest(words, encoded::base64, true, out),
            Field::Salt => {
                let word = words.need("a salt in hexadecimal, or -")?;
                if word.text == b"-" {
                    out.push(0);
                    return Ok(());
                }
                parse_counted(&word, encoded::hex, out)
            }
            Field::Hash => parse_counted(&words.need("a hash in base32")?, encoded::base32, out),
            Field::Types => bitmap::parse(words, out),
            Field::OldTypes => bitmap::parse_old(words, out),
            Field::Eui(len) => addresses::parse_eui(len, &words.need("an address")?, out),
            Field::Locator => addresses::parse_locator(&words.need("a locator")?, out),
            Field::Nsap => addresses::parse_nsap(&words.need("an NSAP address")?, out),
            Field::Atm => addresses::parse_atm(&words.need("an ATM address")?, out),
            Field::Addresses => addresses::parse_apl(words, out),
            Field::A6 => addresses::parse_a6(words, origin, out),
            Field::Loc => loc::parse(words, out),
            Field::Gateway => gateway::parse_ipseckey(words, origin, out),
            Field::AmtRelay => gateway::parse_amtrelay(words, origin, out),
            Field::Identity => gateway::parse_identity(words, out),
            Field::Services => services::parse(words, out),
            Field::WellKnown => services::parse_well_known(words, out),
            _ => Ok(()),
        }
    }

    /// Appends the field as text; `None` if the octets are not such a field.
    pub(super) fn print(self, data: &mut Data<'_>, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Field::U8 | Field::Code8(_) => put(out, data.u8()?),
            Field::U16 | Field::Code16(_) => put(out, data.u16()?),
            Field::U32 | Field::Period | Field::Time => put(out, data.u32()?),
            Field::Type => put(out, Qtype(data.u16()?)),
            Field::Name => put_name(out, &data.name()?),
            Field::Names => {
                let mut first = true;
                while !data.0.is_empty() {
                    if !std::mem::take(&mut first) {
                        out.push(b' ');
                    }
                    put_name(out, &data.name()?);
                }
            }
            Field::A => put(out, Ipv4Addr::from(data.u32()?)),
            Field::Aaaa => put(out, Ipv6Addr::from(<[u8; 16]>::try_from(data.take(16)?).ok()?)),
            Field::TextIfAny if data.0.is_empty() => {}
            Field::Text | Field::TextIfAny => put_text(out, data.text()?),
            Field::Texts => {
                put_text(out, data.text()?);
                while !data.0.is_empty() {
                    out.push(b' ');
                    put_text(out, data.text()?);
                }
            }
            Field::Tag => {
                let tag = data.text()?;
                let readable = !tag.is_empty() && tag.iter().all(u8::is_ascii_alphanumeric);
                readable.then(|| out.extend_from_slice(tag))?;
            }
            Field::Value => put_text(out, data.rest()),
            Field::Hex => {
                encoded::put_hex(Some(data.rest()).filter(|octets| !octets.is_empty())?, out)
            }
            Field::Base64 => {
                encoded::put_base64(Some(data.rest()).filter(|octets| !octets.is_empty())?, out);
            }
            Field::Base64IfAny => encoded::put_base64(data.rest(), out),
            other => other.print_own(data, out)?,
        }
        Some(())
    }

    /// Appends a field of its own form.
    fn print_own(self, data: &mut Data<'_>, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Field::Salt => match data.text()? {
                [] => out.push(b'-'),
                salt => encoded::put_hex(salt, out),
            },
            Field::Hash => {
                let hash = data.text().filter(|hash| !hash.is_empty())?;
                encoded::put_base32(hash, out);
            }
            Field::Types => bitmap::print(data, out)?,
            Field::OldTypes => bitmap::print_old(data, out)?,
            Field::Eui(len) => addresses::print_eui(data.take(len)?, out),
            Field::Locator => addresses::print_locator(data.take(8)?, out),
            Field::Nsap => addresses::print_nsap(data.rest(), out)?,
            Field::Atm => addresses::print_atm(data.rest(), out)?,
            Field::Addresses => addresses::print_apl(data, out)?,
            Field::A6 => addresses::print_a6(data, out)?,
            Field::Loc => loc::print(data, out)?,
            Field::Gateway => gateway::print_ipseckey(data, out)?,
            Field::AmtRelay => gateway::print_amtrelay(data, out)?,
            Field::Identity => gateway::print_identity(data, out)?,
            Field::Services => services::print(data, out)?,
            Field::WellKnown => services::print_well_known(data, out)?,
            _ => return None,
        }
        Some(())
    }
}
