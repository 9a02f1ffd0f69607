//! Locations (LOC, RFC 1876): degrees, minutes and seconds in units of a thousandth of a second of arc, and metres in
//! centimetres.
//!
//! ```text
//!   52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m
//!   latitude       longitude     altitude size horizontal, vertical precision
//! ```

use super::data::{Data, put};
use crate::words::{Mistake, Word, Words};

/// The equator and the prime meridian.
const ZERO_ANGLE: i64 = 1 << 31;
/// Altitude of the reference, in centimetres below the ellipsoid.
const ALTITUDE_ORIGIN_CM: i64 = 10_000_000;
/// Size and both precisions that a record without them has: 1 m, 10,000 m, 10 m.
const DEFAULT_SIZES: [u8; 3] = [0x12, 0x16, 0x13];
/// Largest altitude and size in centimetres, from which on the form has no number.
const MAX_METRES: i64 = 9_000_000_000;

/// Reads a decimal number as a whole number of units of `10^-digits`.
fn decimal(text: &[u8], digits: usize) -> Option<i64> {
    let (whole, fraction) = match text.iter().position(|&octet| octet == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &text[..0]),
    };
    // As in named, `.5` is a number too.
    let is_empty = whole.is_empty() && fraction.is_empty();
    let usable = !is_empty && whole.len() <= 10 && fraction.len() <= digits;
    if !usable || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    let padded = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(digits);
    Some(whole.iter().copied().chain(padded).fold(0, |n, digit| n * 10 + i64::from(digit - b'0')))
}

/// Reads a metre value in centimetres, with or without the `m`.
fn metres(word: &Word<'_>) -> Result<i64, Mistake> {
    let text =
        word.text.strip_suffix(b"m").or_else(|| word.text.strip_suffix(b"M")).unwrap_or(word.text);
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix(b"+").unwrap_or(text)),
    };
    let number = decimal(text, 2).ok_or_else(|| word.is_not("a length in metres such as 10.5m"))?;
    Ok(if negative { -number } else { number })
}

/// Reads an angle up to its direction; the first of `directions` is positive.
fn angle(words: &mut Words<'_>, degrees: i64, directions: [u8; 2]) -> Result<u32, Mistake> {
    let mut total = 0;
    for (number, (unit, max)) in
        [(3_600_000, degrees), (60_000, 59), (1_000, 59_999)].into_iter().enumerate()
    {
        let word = words.need("an angle or a direction")?;
        let direction = word.text.first().map(u8::to_ascii_uppercase);
        if number > 0 && word.text.len() == 1 && direction.is_some_and(|d| directions.contains(&d))
        {
            return finish(&word, total, degrees, directions);
        }
        let value = if number == 2 {
            decimal(word.text, 3).filter(|&value| value <= max)
        } else {
            word.number(max as u64).ok().map(|value| value as i64 * unit)
        };
        total += value.ok_or_else(|| word.is_not("degrees, minutes or seconds in their range"))?;
    }
    finish(&words.need("a direction")?, total, degrees, directions)
}

/// Returns an angle in its direction.
fn finish(word: &Word<'_>, total: i64, degrees: i64, directions: [u8; 2]) -> Result<u32, Mistake> {
    let direction = word.text.first().filter(|_| word.text.len() == 1).map(u8::to_ascii_uppercase);
    if total > degrees * 3_600_000 {
        return Err(word.mistake(format!("the angle is larger than {degrees} degrees")));
    }
    match direction {
        Some(d) if d == directions[0] => Ok((ZERO_ANGLE + total) as u32),
        Some(d) if d == directions[1] => Ok((ZERO_ANGLE - total) as u32),
        _ => {
            let [a, b] = directions.map(char::from);
            Err(word.is_not(&format!("the direction {a} or {b}")))
        }
    }
}

/// Reads a location (RFC 1876), and appends its wire form to `out`.
pub(super) fn parse(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), Mistake> {
    let latitude = angle(words, 90, *b"NS")?;
    let longitude = angle(words, 180, *b"EW")?;
    let word = words.need("an altitude")?;
    let altitude = u32::try_from(metres(&word)? + ALTITUDE_ORIGIN_CM);
    let altitude = altitude.map_err(|_| word.is_not("an altitude from -100000 m on"))?;
    let mut sizes = DEFAULT_SIZES;
    for size in &mut sizes {
        let Some(word) = words.next() else { break };
        let centimetres = metres(&word)?;
        if !(0..=MAX_METRES).contains(&centimetres) {
            return Err(word.is_not("a length from 0 to 90000000 m"));
        }
        let mut exponent = 0;
        let mut mantissa = centimetres;
        while mantissa >= 10 {
            mantissa /= 10;
            exponent += 1;
        }
        *size = (mantissa << 4) as u8 | exponent;
    }
    out.push(0);
    out.extend(sizes);
    for number in [latitude, longitude, altitude] {
        out.extend(number.to_be_bytes());
    }
    Ok(())
}

/// Appends an angle in degrees, minutes and seconds; `None` if it is too large.
fn put_angle(value: u32, degrees: i64, directions: [char; 2], out: &mut Vec<u8>) -> Option<()> {
    let offset = i64::from(value) - ZERO_ANGLE;
    let total = offset.abs();
    if total > degrees * 3_600_000 {
        return None;
    }
    let direction = directions[usize::from(offset < 0)];
    let (degrees, minutes) = (total / 3_600_000, total / 60_000 % 60);
    let (seconds, thousandths) = (total / 1_000 % 60, total % 1_000);
    put(out, format_args!("{degrees} {minutes} {seconds}.{thousandths:03} {direction} "));
    Some(())
}

/// Appends a location; `None` if it has another version or an invalid value.
pub(super) fn print(data: &mut Data<'_>, out: &mut Vec<u8>) -> Option<()> {
    let version = data.u8()?;
    let sizes = [data.u8()?, data.u8()?, data.u8()?];
    let good = |size: &u8| size >> 4 <= 9 && size & 15 <= 9 && (size >> 4 > 0 || size & 15 == 0);
    if version != 0 || !sizes.iter().all(good) {
        return None;
    }
    put_angle(data.u32()?, 90, ['N', 'S'], out)?;
    put_angle(data.u32()?, 180, ['E', 'W'], out)?;
    let altitude = i64::from(data.u32()?) - ALTITUDE_ORIGIN_CM;
    let sign = if altitude < 0 { "-" } else { "" };
    let altitude = altitude.abs();
    put(out, format_args!("{sign}{}.{:02}m", altitude / 100, altitude % 100));
    for size in sizes {
        let centimetres = i64::from(size >> 4) * 10i64.pow(u32::from(size & 15));
        put(out, format_args!(" {}.{:02}m", centimetres / 100, centimetres % 100));
    }
    Some(())
}
