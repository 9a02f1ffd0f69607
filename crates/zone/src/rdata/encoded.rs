//! Octets in hexadecimal, in base64, and in the base32 of NSEC3.

use domain::utils::{base32, base64};

/// Appends octets that are written in hexadecimal; the mistake if they are not.
pub(crate) fn hex(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    if text.len() % 2 == 1 {
        return Err("an odd number of hexadecimal digits: two make an octet".into());
    }
    for pair in text.chunks_exact(2) {
        let digit = |octet: u8| char::from(octet).to_digit(16);
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
            let pair = String::from_utf8_lossy(pair);
            return Err(format!("`{pair}` are not hexadecimal digits"));
        };
        out.push((high << 4 | low) as u8);
    }
    Ok(())
}

/// Appends octets as hexadecimal digits, two for each.
pub(crate) fn put_hex(octets: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for octet in octets {
        out.extend([DIGITS[usize::from(octet >> 4)], DIGITS[usize::from(octet & 15)]]);
    }
}

/// Appends octets that are written in base64; the mistake if they are not.
pub(super) fn base64(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let decoded =
        std::str::from_utf8(text).ok().and_then(|text| base64::decode::<Vec<u8>>(text).ok());
    let decoded =
        decoded.ok_or("this is not base64, whose length is a multiple of four characters")?;
    out.extend(decoded);
    Ok(())
}

/// Appends octets in base64, with padding.
pub(super) fn put_base64(octets: &[u8], out: &mut Vec<u8>) {
    // Writing to a String does not fail.
    let mut text = String::with_capacity(octets.len().div_ceil(3) * 4);
    let _ = base64::display(octets, &mut text);
    out.extend_from_slice(text.as_bytes());
}

/// Appends octets that are written in base32 with the alphabet of hexadecimal digits (RFC 4648 section 7), unpadded.
pub(super) fn base32(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let decoded =
        std::str::from_utf8(text).ok().and_then(|text| base32::decode_hex::<Vec<u8>>(text).ok());
    out.extend(decoded.ok_or("this is not base32hex (RFC 4648 section 7)")?);
    Ok(())
}

/// Appends octets as text in base32 with the alphabet of hexadecimal digits, unpadded.
pub(super) fn put_base32(octets: &[u8], out: &mut Vec<u8>) {
    // Writing to a String does not fail.
    let mut text = String::new();
    let _ = base32::display_hex(octets, &mut text);
    out.extend_from_slice(text.as_bytes());
}
