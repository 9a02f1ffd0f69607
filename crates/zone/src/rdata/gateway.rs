//! Data whose form depends on a number in it: the gateways of IPSECKEY and AMTRELAY, the host identity of HIP.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::data::{Data, put, put_name};
use super::encoded;
use crate::words::{Mistake, Words};

/// Reads a gateway of this kind: 0 is none, 1 an IPv4 address, 2 an IPv6 address, 3 a name.
fn parse_gateway(
    kind: u8,
    words: &mut Words<'_>,
    origin: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Mistake> {
    let word = words.need("a gateway")?;
    match kind {
        0 if word.text == b"." => Ok(()),
        0 => Err(word.is_not("`.`, the gateway of kind 0")),
        1 => {
            let address: Option<Ipv4Addr> = word.as_str().parse().ok();
            out.extend(address.ok_or_else(|| word.is_not("an IPv4 address"))?.octets());
            Ok(())
        }
        2 => {
            let address: Option<Ipv6Addr> = word.as_str().parse().ok();
            out.extend(address.ok_or_else(|| word.is_not("an IPv6 address"))?.octets());
            Ok(())
        }
        3 => word.name(origin, out),
        other => Err(word.mistake(format!("a gateway of kind {other}: 0 to 3 are known"))),
    }
}

/// Appends a gateway; `None` if it is malformed.
fn print_gateway(kind: u8, data: &mut Data<'_>, out: &mut Vec<u8>) -> Option<()> {
    match kind {
        0 => out.push(b'.'),
        1 => put(out, Ipv4Addr::from(data.u32()?)),
        2 => put(out, Ipv6Addr::from(<[u8; 16]>::try_from(data.take(16)?).ok()?)),
        3 => put_name(out, &data.name()?),
        _ => return None,
    }
    Some(())
}

/// Reads precedence, kind, algorithm and gateway of IPSECKEY (RFC 4025); the key follows.
pub(super) fn parse_ipseckey(
    words: &mut Words<'_>,
    origin: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Mistake> {
    out.push(words.need("a precedence")?.number(255)? as u8);
    let kind = words.need("the kind of gateway")?.number(255)? as u8;
    out.push(kind);
    out.push(words.need("an algorithm")?.number(255)? as u8);
    parse_gateway(kind, words, origin, out)
}

/// Appends precedence, kind, algorithm and gateway of IPSECKEY.
pub(super) fn print_ipseckey(data: &mut Data<'_>, out: &mut Vec<u8>) -> Option<()> {
    let (precedence, kind, algorithm) = (data.u8()?, data.u8()?, data.u8()?);
    put(out, format_args!("{precedence} {kind} {algorithm} "));
    print_gateway(kind, data, out)
}

/// Reads precedence, discovery bit, kind and relay of AMTRELAY (RFC 8777).
pub(super) fn parse_amtrelay(
    words: &mut Words<'_>,
    origin: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Mistake> {
    out.push(words.need("a precedence")?.number(255)? as u8);
    let discovery = words.need("the discovery bit")?.number(1)? as u8;
    let kind = words.need("the kind of relay")?.number(127)? as u8;
    out.push(discovery << 7 | kind);
    parse_gateway(kind, words, origin, out)
}

/// Appends precedence, discovery bit, kind and relay of AMTRELAY.
pub(super) fn print_amtrelay(data: &mut Data<'_>, out: &mut Vec<u8>) -> Option<()> {
    let (precedence, kind) = (data.u8()?, data.u8()?);
    put(out, format_args!("{precedence} {} {} ", kind >> 7, kind & 0x7f));
    print_gateway(kind & 0x7f, data, out)
}

/// Returns whether data of AMTRELAY has a kind of relay that RFC 8777 does not know.
pub(super) fn is_unknown_relay(data: &[u8]) -> bool {
    data.get(1).is_some_and(|kind| kind & 0x7f > 3)
}

/// Reads algorithm, host identity and public key of HIP (RFC 8005); names of servers follow.
pub(super) fn parse_identity(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), Mistake> {
    let algorithm = words.need("an algorithm")?.number(255)? as u8;
    let (mut identity, mut key) = (Vec::new(), Vec::new());
    let word = words.need("a host identity tag in hexadecimal")?;
    encoded::hex(word.text, &mut identity).map_err(|why| word.mistake(why))?;
    let len = u8::try_from(identity.len()).ok().filter(|&len| len > 0);
    let len = len.ok_or_else(|| word.mistake("the tag has 1 to 255 octets"))?;
    let word = words.need("a public key in base64")?;
    encoded::base64(word.text, &mut key).map_err(|why| word.mistake(why))?;
    let key_len = u16::try_from(key.len()).ok().filter(|&len| len > 0);
    let key_len = key_len.ok_or_else(|| word.mistake("the key has 1 to 65535 octets"))?;
    out.extend([len, algorithm]);
    out.extend(key_len.to_be_bytes());
    out.extend(identity);
    out.extend(key);
    Ok(())
}

/// Appends algorithm, host identity and public key of HIP.
pub(super) fn print_identity(data: &mut Data<'_>, out: &mut Vec<u8>) -> Option<()> {
    let (len, algorithm, key_len) = (data.u8()?, data.u8()?, data.u16()?);
    let (identity, key) = (data.take(len.into())?, data.take(key_len.into())?);
    if identity.is_empty() || key.is_empty() {
        return None;
    }
    put(out, format_args!("{algorithm} "));
    encoded::put_hex(identity, out);
    out.push(b' ');
    encoded::put_base64(key, out);
    Some(())
}
