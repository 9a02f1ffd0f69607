//! Lists of record types: windows of bits (RFC 4034 section 4.1.2), and the single window of NXT (RFC 2535).

use std::collections::BTreeSet;

use domain::base::Rtype;
use wire::Qtype;

use super::data::Data;
use crate::words::{Mistake, Words};

/// Largest size of the bits of a window, in octets.
const MAX_WINDOW: usize = 32;
/// Largest type in the bits of NXT.
const MAX_NXT: u16 = 127;

/// Reads the types at the end of an entry; in NXT they may be numbers.
fn types(words: &mut Words<'_>, max: u16) -> Result<BTreeSet<u16>, Mistake> {
    let mut types = BTreeSet::new();
    while let Some(word) = words.next() {
        let by_number = || word.number(max.into()).ok().filter(|_| max == MAX_NXT);
        let rtype = word.rtype().map(Rtype::to_int).or_else(|| by_number().map(|n| n as u16));
        let rtype = rtype.filter(|&number| number <= max);
        types.insert(rtype.ok_or_else(|| word.is_not("a record type"))?);
    }
    Ok(types)
}

/// Appends the bits of types in one window of 256.
fn bits(types: impl Iterator<Item = u16>, out: &mut Vec<u8>) {
    let begin = out.len();
    for number in types {
        let octet = usize::from(number % 256 / 8);
        if out.len() <= begin + octet {
            out.resize(begin + octet + 1, 0);
        }
        out[begin + octet] |= 0x80 >> (number % 8);
    }
}

/// Reads types to the end of the entry.
pub(super) fn parse(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), Mistake> {
    let types = types(words, u16::MAX)?;
    let windows: BTreeSet<u16> = types.iter().map(|number| number >> 8).collect();
    for window in windows {
        out.extend([window as u8, 0]);
        let begin = out.len();
        bits(types.iter().copied().filter(|number| number >> 8 == window), out);
        out[begin - 1] = (out.len() - begin) as u8;
    }
    Ok(())
}

/// Appends a type and a blank before it, unless it is the first.
fn put(number: usize, first: &mut bool, out: &mut Vec<u8>) {
    if !std::mem::take(first) {
        out.push(b' ');
    }
    out.extend_from_slice(Qtype(number as u16).to_string().as_bytes());
}

/// Appends the types of windows; `None` if a window is empty, out of order or ends with zeros.
pub(super) fn print(data: &mut Data<'_>, out: &mut Vec<u8>) -> Option<()> {
    let (mut before, mut first) = (None, true);
    while !data.0.is_empty() {
        let window = data.u8()?;
        let len = usize::from(data.u8()?);
        let bits = data.take(len).filter(|bits| len <= MAX_WINDOW && bits.last() > Some(&0))?;
        if before.is_some_and(|before| before >= window) {
            return None;
        }
        before = Some(window);
        put_bits(usize::from(window), bits, &mut first, out);
    }
    Some(())
}

/// Appends the types of the bits of a window.
fn put_bits(window: usize, bits: &[u8], first: &mut bool, out: &mut Vec<u8>) {
    for (at, octet) in bits.iter().enumerate() {
        for bit in (0..8).filter(|bit| octet & 0x80 >> bit != 0) {
            put(window << 8 | at << 3 | bit, first, out);
        }
    }
}

/// Reads the types of an NXT record.
pub(super) fn parse_old(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), Mistake> {
    bits(types(words, MAX_NXT)?.into_iter(), out);
    Ok(())
}

/// Appends the types of an NXT record; `None` if its bits end with zeros.
pub(super) fn print_old(data: &mut Data<'_>, out: &mut Vec<u8>) -> Option<()> {
    let bits = data.take(data.0.len())?;
    if bits.len() > usize::from(MAX_NXT / 8 + 1) || bits.last() == Some(&0) {
        return None;
    }
    put_bits(0, bits, &mut true, out);
    Some(())
}
