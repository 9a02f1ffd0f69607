//! Parameters of SVCB and HTTPS (RFC 9460), and the services of WKS (RFC 1035 section 3.4.2).
//!
//! ```text
//!   alpn="h2,h3" port=8443 ipv4hint=192.0.2.1 key667="any \001octets"
//! ```
//!
//! A value is a text with the escapes of texts; the items of a list have escapes of their own inside of it: `\,` and `\\`
//! (RFC 9460 appendix A.1).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::codes::{self, SERVICES, TRANSPORTS};
use super::data::{Data, put, put_text};
use super::encoded;
use crate::words::{self, Mistake, Word, Words};

/// Names of parameters by their number.
const KEYS: [&str; 9] = [
    "mandatory",
    "alpn",
    "no-default-alpn",
    "port",
    "ipv4hint",
    "ech",
    "ipv6hint",
    "dohpath",
    "ohttp",
];

/// Numbers of parameters with a form of their own.
const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4_HINT: u16 = 4;
const ECH: u16 = 5;
const IPV6_HINT: u16 = 6;
const OHTTP: u16 = 8;

/// Returns the number of a parameter, and whether it was written as `keyNNNNN`.
fn key(name: &str) -> Option<(u16, bool)> {
    if let Some(number) = KEYS.iter().position(|key| key.eq_ignore_ascii_case(name)) {
        return Some((number as u16, false));
    }
    let (word, digits) = name.split_at_checked(3)?;
    let plain = !digits.is_empty() && digits.bytes().all(|octet| octet.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain && word.eq_ignore_ascii_case("key"))?;
    Some((number, true))
}

/// Splits the text of a list at its commas, and removes the escapes of its items.
fn items(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut items, mut item) = (Vec::new(), Vec::new());
    let mut octets = text.iter();
    while let Some(&octet) = octets.next() {
        match octet {
            b'\\' => item.push(*octets.next()?),
            b',' => items.push(std::mem::take(&mut item)),
            other => item.push(other),
        }
    }
    items.push(item);
    Some(items)
}

/// Returns the value of a parameter in wire form; `None` if the text is not such a value.
fn value(key: u16, text: Option<&[u8]>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let text = match (key, text) {
        (NO_DEFAULT_ALPN | OHTTP, None) => return Some(out),
        (NO_DEFAULT_ALPN | OHTTP, Some(_)) | (_, None) => return None,
        (_, Some(text)) => text,
    };
    let list = || std::str::from_utf8(text).ok().map(|text| text.split(','));
    match key {
        MANDATORY => {
            let keys: Option<Vec<u16>> =
                list()?.map(|name| self::key(name).map(|key| key.0)).collect();
            let mut keys = keys?;
            let len = keys.len();
            keys.sort_unstable();
            keys.dedup();
            if keys.len() < len || keys.first() == Some(&MANDATORY) {
                return None;
            }
            out.extend(keys.iter().flat_map(|key| key.to_be_bytes()));
        }
        ALPN => {
            for item in items(text)? {
                out.push(u8::try_from(item.len()).ok().filter(|&len| len > 0)?);
                out.extend(item);
            }
        }
        PORT => {
            let digits = text.iter().all(u8::is_ascii_digit);
            out.extend(
                std::str::from_utf8(text)
                    .ok()?
                    .parse::<u16>()
                    .ok()
                    .filter(|_| digits)?
                    .to_be_bytes(),
            );
        }
        IPV4_HINT => {
            for address in list()? {
                out.extend(address.parse::<Ipv4Addr>().ok()?.octets());
            }
        }
        IPV6_HINT => {
            for address in list()? {
                out.extend(address.parse::<Ipv6Addr>().ok()?.octets());
            }
        }
        ECH => {
            encoded::base64(text, &mut out).ok()?;
        }
        _ => out.extend_from_slice(text),
    }
    (!out.is_empty()).then_some(out)
}

/// Returns the text of a value without quotes and escapes, and whether there is a value.
fn text_of(word: &Word<'_>, at: usize) -> Result<Vec<u8>, Mistake> {
    let text = &word.text[at..];
    let quoted = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
    let (text, mut out, mut at) = (quoted.unwrap_or(text), Vec::new(), 0);
    while at < text.len() {
        let (octet, used) = words::octet(text, at)
            .ok_or_else(|| word.is_not("a parameter: it has an invalid escape"))?;
        out.push(octet);
        at += used;
    }
    Ok(out)
}

/// Reads the parameters to the end of the entry.
pub(super) fn parse(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), Mistake> {
    let mut all = BTreeMap::new();
    while let Some(word) = words.next_pair() {
        let equals = word.text.iter().position(|&octet| octet == b'=');
        let name = std::str::from_utf8(&word.text[..equals.unwrap_or(word.text.len())]);
        let found = name.ok().and_then(key);
        let (key, generic) = found.ok_or_else(|| {
            word.is_not(&format!("a parameter: write one of {}, or keyNNNNN", KEYS.join(", ")))
        })?;
        let text = equals.map(|at| text_of(&word, at + 1)).transpose()?;
        let octets =
            if generic { Some(text.unwrap_or_default()) } else { value(key, text.as_deref()) };
        let octets = octets.ok_or_else(|| word.is_not("a parameter with a valid value"))?;
        if all.insert(key, octets).is_some() {
            return Err(word.mistake("this parameter is given twice"));
        }
    }
    if !has_mandatory(all.get(&MANDATORY).map(Vec::as_slice), |key| all.contains_key(&key)) {
        return Err(words.mistake_here("a parameter that `mandatory` names is missing"));
    }
    for (key, octets) in all {
        out.extend(key.to_be_bytes());
        let len = u16::try_from(octets.len());
        out.extend(len.map_err(|_| words.mistake_here("a value is too long"))?.to_be_bytes());
        out.extend(octets);
    }
    Ok(())
}

/// Returns whether all parameters that `mandatory` names exist (RFC 9460 section 8).
fn has_mandatory(value: Option<&[u8]>, has: impl Fn(u16) -> bool) -> bool {
    let mut keys = value.unwrap_or_default().chunks_exact(2);
    keys.all(|key| has(u16::from_be_bytes([key[0], key[1]])))
}

/// Returns the text of a value in the form of its parameter; `None` if it has only the form of `keyNNNNN`.
fn text(key: u16, value: &[u8]) -> Option<Vec<u8>> {
    let joined = |parts: Vec<String>| Some(parts.join(",").into_bytes());
    match key {
        MANDATORY => {
            let mut data = Data(value);
            let mut names = Vec::new();
            while !data.0.is_empty() {
                let key = data.u16()?;
                let name = KEYS.get(usize::from(key)).map(|name| (*name).to_owned());
                names.push(name.unwrap_or_else(|| format!("key{key}")));
            }
            joined(names)
        }
        ALPN => {
            let (mut data, mut text) = (Data(value), Vec::new());
            while !data.0.is_empty() {
                if !text.is_empty() {
                    text.push(b',');
                }
                for &octet in data.text().filter(|item| !item.is_empty())? {
                    if matches!(octet, b',' | b'\\') {
                        text.push(b'\\');
                    }
                    text.push(octet);
                }
            }
            Some(text)
        }
        PORT => joined(vec![Data(value).u16()?.to_string()]),
        IPV4_HINT => joined(
            value
                .chunks(4)
                .map(|octets| Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).to_string()))
                .collect::<Option<_>>()?,
        ),
        IPV6_HINT => joined(
            value
                .chunks(16)
                .map(|octets| Some(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).to_string()))
                .collect::<Option<_>>()?,
        ),
        ECH => {
            let mut text = Vec::new();
            encoded::put_base64(value, &mut text);
            Some(text)
        }
        _ => Some(value.to_vec()),
    }
}

/// Appends the parameters; `None` if they are malformed, out of order, or without a mandatory one.
pub(super) fn print(data: &mut Data<'_>, out: &mut Vec<u8>) -> Option<()> {
    let (mut keys, mut mandatory) = (Vec::new(), None);
    while !data.0.is_empty() {
        let (key, len) = (data.u16()?, data.u16()?);
        let octets = data.take(len.into())?;
        if keys.last().is_some_and(|&before| before >= key) {
            return None;
        }
        keys.push(key);
        mandatory = mandatory.or((key == MANDATORY).then_some(octets));
        if out.last().is_some_and(|&octet| octet != b' ') {
            out.push(b' ');
        }
        let own = text(key, octets);
        // A special form must be parsed to the same octets.
        let own = own.filter(|text| {
            let text = (!octets.is_empty()).then_some(&text[..]);
            usize::from(key) < KEYS.len() && value(key, text).as_deref() == Some(octets)
        });
        match own {
            Some(_) if octets.is_empty() => put(out, KEYS[usize::from(key)]),
            Some(text) => {
                put(out, format_args!("{}=", KEYS[usize::from(key)]));
                put_text(out, &text);
            }
            None => {
                put(out, format_args!("key{key}="));
                put_text(out, octets);
            }
        }
    }
    has_mandatory(mandatory, |key| keys.contains(&key)).then_some(())
}

/// Reads the protocol and the ports of WKS.
pub(super) fn parse_well_known(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), Mistake> {
    let word = words.need("a protocol")?;
    let number = |word: &Word<'_>, codes, max| match codes::number(codes, word.text) {
        Some(number) => Ok(number),
        None => word.number(max).map(|number| number as u16),
    };
    out.push(number(&word, &TRANSPORTS, 255)? as u8);
    let begin = out.len();
    while let Some(word) = words.next() {
        let port = number(&word, &SERVICES, 65_535)?;
        let octet = begin + usize::from(port / 8);
        if out.len() <= octet {
            out.resize(octet + 1, 0);
        }
        out[octet] |= 0x80 >> (port % 8);
    }
    Ok(())
}

/// Appends the protocol and the ports of WKS; `None` if they are malformed.
pub(super) fn print_well_known(data: &mut Data<'_>, out: &mut Vec<u8>) -> Option<()> {
    put(out, data.u8()?);
    let bits =
        data.take(data.0.len()).filter(|bits| bits.len() <= 8_192 && bits.last() != Some(&0))?;
    for (at, octet) in bits.iter().enumerate() {
        for bit in (0..8).filter(|bit| octet & 0x80 >> bit != 0) {
            put(out, format_args!(" {}", at << 3 | bit));
        }
    }
    Some(())
}
