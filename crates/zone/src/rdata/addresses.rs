//! Addresses of other kinds than A and AAAA: EUI48 and EUI64, NID and L64, NSAP, ATMA, APL, A6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::data::{Data, put, put_name};
use super::encoded;
use crate::words::{Mistake, Word, Words};

/// Reads `len` octets written as `00-11-22`.
pub(super) fn parse_eui(len: usize, word: &Word<'_>, out: &mut Vec<u8>) -> Result<(), Mistake> {
    let pairs: Vec<&[u8]> = word.text.split(|&octet| octet == b'-').collect();
    let begin = out.len();
    let good = pairs.len() == len && pairs.iter().all(|pair| pair.len() == 2);
    let good = good && pairs.iter().all(|pair| encoded::hex(pair, out).is_ok());
    if good {
        return Ok(());
    }
    out.truncate(begin);
    Err(word.is_not(&format!("{len} octets such as 00-00-5e-00-53-2a")))
}

/// Appends octets in hexadecimal with dashes, as `00-11-22` (RFC 7043).
pub(super) fn print_eui(octets: &[u8], out: &mut Vec<u8>) {
    for (number, octet) in octets.iter().enumerate() {
        if number > 0 {
            out.push(b'-');
        }
        encoded::put_hex(&[*octet], out);
    }
}

/// Reads 64 bits as four groups of hexadecimal digits (RFC 6742 section 2.1.2).
pub(super) fn parse_locator(word: &Word<'_>, out: &mut Vec<u8>) -> Result<(), Mistake> {
    let group = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_hexdigit());
        u16::from_str_radix(text, 16).ok().filter(|_| digits)
    };
    let groups: Option<Vec<u16>> = word.as_str().split(':').map(group).collect();
    let groups = groups.filter(|groups| groups.len() == 4);
    let groups = groups.ok_or_else(|| word.is_not("a locator such as 2001:db8:1140:1000"))?;
    out.extend(groups.iter().flat_map(|group| group.to_be_bytes()));
    Ok(())
}

/// Appends 64 bits as four groups of hexadecimal digits.
pub(super) fn print_locator(octets: &[u8], out: &mut Vec<u8>) {
    for (number, group) in octets.chunks(2).enumerate() {
        if number > 0 {
            out.push(b':');
        }
        encoded::put_hex(group, out);
    }
}

/// Returns the characters of a text without its dots.
fn without_dots(text: &[u8]) -> Vec<u8> {
    text.iter().copied().filter(|&octet| octet != b'.').collect()
}

/// Reads an NSAP address: hexadecimal digits with dots, after `0x` (RFC 1706).
pub(super) fn parse_nsap(word: &Word<'_>, out: &mut Vec<u8>) -> Result<(), Mistake> {
    let digits = word.text.strip_prefix(b"0x").or_else(|| word.text.strip_prefix(b"0X"));
    let digits = digits.map(without_dots).filter(|digits| !digits.is_empty());
    let digits = digits.ok_or_else(|| word.is_not("an NSAP address such as 0x47.0005.80"))?;
    encoded::hex(&digits, out).map_err(|why| word.mistake(why))
}

/// Appends an NSAP address; `None` if it is empty.
pub(super) fn print_nsap(octets: &[u8], out: &mut Vec<u8>) -> Option<()> {
    (!octets.is_empty()).then(|| {
        out.extend_from_slice(b"0x");
        encoded::put_hex(octets, out);
    })
}

/// Reads an ATM address: `+` and digits (E.164), or hexadecimal digits; dots are ignored.
pub(super) fn parse_atm(word: &Word<'_>, out: &mut Vec<u8>) -> Result<(), Mistake> {
    if let Some(digits) = word.text.strip_prefix(b"+") {
        let digits = without_dots(digits);
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(word.is_not("an ATM address such as +61.2.0000.0000"));
        }
        out.push(1);
        out.extend(digits);
        return Ok(());
    }
    let digits = without_dots(word.text);
    if digits.is_empty() {
        return Err(word.is_not("an ATM address such as 39.246f.00"));
    }
    out.push(0);
    encoded::hex(&digits, out).map_err(|why| word.mistake(why))
}

/// Appends an ATM address; `None` if it is of another format.
pub(super) fn print_atm(octets: &[u8], out: &mut Vec<u8>) -> Option<()> {
    match octets {
        [0, rest @ ..] if !rest.is_empty() => encoded::put_hex(rest, out),
        [1, rest @ ..] if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => {
            out.push(b'+');
            out.extend_from_slice(rest);
        }
        _ => return None,
    }
    Some(())
}

/// Reads the address prefixes of APL (RFC 3123): `1:192.0.2.0/24 !2:2001:db8::/32`.
pub(super) fn parse_apl(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), Mistake> {
    while let Some(word) = words.next() {
        let item = apl_item(word.as_str());
        let (negated, address, prefix) = item.ok_or_else(|| {
            word.is_not("an address prefix such as 1:192.0.2.0/24 or !2:2001:db8::/32")
        })?;
        let (family, octets) = match address {
            IpAddr::V4(address) => (1u16, address.octets().to_vec()),
            IpAddr::V6(address) => (2, address.octets().to_vec()),
        };
        let used = octets.iter().rposition(|&octet| octet != 0).map_or(0, |last| last + 1);
        out.extend(family.to_be_bytes());
        out.extend([prefix, u8::from(negated) << 7 | used as u8]);
        out.extend_from_slice(&octets[..used]);
    }
    Ok(())
}

/// Reads an address prefix of APL.
fn apl_item(text: &str) -> Option<(bool, IpAddr, u8)> {
    let (negated, text) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
    let (family, text) = text.split_once(':')?;
    let (address, prefix) = text.split_once('/')?;
    let prefix = prefix.parse::<u8>().ok().filter(|_| !prefix.starts_with('+'))?;
    match family {
        "1" if prefix <= 32 => Some((negated, address.parse::<Ipv4Addr>().ok()?.into(), prefix)),
        "2" if prefix <= 128 => Some((negated, address.parse::<Ipv6Addr>().ok()?.into(), prefix)),
        _ => None,
    }
}

/// Appends the address prefixes of APL; `None` if one is malformed or of another family.
pub(super) fn print_apl(data: &mut Data<'_>, out: &mut Vec<u8>) -> Option<()> {
    let mut first = true;
    while !data.0.is_empty() {
        let (family, prefix, len) = (data.u16()?, data.u8()?, data.u8()?);
        let octets = data.take(usize::from(len & 0x7f))?;
        let size = match family {
            1 if prefix <= 32 => 4,
            2 if prefix <= 128 => 16,
            _ => return None,
        };
        if octets.len() > size || octets.last() == Some(&0) {
            return None;
        }
        let mut address = [0; 16];
        address[..octets.len()].copy_from_slice(octets);
        if !std::mem::take(&mut first) {
            out.push(b' ');
        }
        if len & 0x80 != 0 {
            out.push(b'!');
        }
        if size == 4 {
            let [a, b, c, d, ..] = address;
            put(out, format_args!("1:{}/{prefix}", Ipv4Addr::new(a, b, c, d)));
        } else {
            put(out, format_args!("2:{}/{prefix}", Ipv6Addr::from(address)));
        }
    }
    Some(())
}

/// Returns the number of octets of the address in an A6 record, and the mask of the first one (RFC 2874 section 3.1).
fn a6_suffix(prefix: u8) -> (usize, u8) {
    let octets = 16 - usize::from(prefix / 8);
    (octets, 0xff >> (prefix % 8))
}

/// Reads an A6 record: the length of the prefix, the rest of the address, and the name of the prefix.
pub(super) fn parse_a6(
    words: &mut Words<'_>,
    origin: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Mistake> {
    let prefix = words.need("the length of a prefix")?.number(128)? as u8;
    out.push(prefix);
    if prefix < 128 {
        let word = words.need("an IPv6 address")?;
        let address: Option<Ipv6Addr> = word.as_str().parse().ok();
        let octets = address.ok_or_else(|| word.is_not("an IPv6 address such as ::1"))?.octets();
        let (len, mask) = a6_suffix(prefix);
        let begin = out.len();
        out.extend_from_slice(&octets[16 - len..]);
        out[begin] &= mask;
    }
    if prefix > 0 { words.need("the name of the prefix")?.name(origin, out) } else { Ok(()) }
}

/// Appends an A6 record; `None` if it is malformed.
pub(super) fn print_a6(data: &mut Data<'_>, out: &mut Vec<u8>) -> Option<()> {
    let prefix = data.u8().filter(|&prefix| prefix <= 128)?;
    put(out, prefix);
    if prefix < 128 {
        let (len, mask) = a6_suffix(prefix);
        let suffix = data.take(len)?;
        if suffix[0] & !mask != 0 {
            return None;
        }
        let mut octets = [0; 16];
        octets[16 - len..].copy_from_slice(suffix);
        put(out, format_args!(" {}", Ipv6Addr::from(octets)));
    }
    if prefix > 0 {
        out.push(b' ');
        put_name(out, &data.name()?);
    }
    Some(())
}
