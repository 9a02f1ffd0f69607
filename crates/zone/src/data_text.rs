//! Record data as text, as in a zone file.

use domain::base::Rtype;

use crate::rdata::{self, encoded};

/// Returns uncompressed data of a type as text with absolute names; data that is not of the type, and data of an unknown type, has
/// the form of RFC 3597.
pub fn data_text(rtype: u16, data: &[u8]) -> String {
    let mut text = Vec::new();
    if !rdata::print(Rtype::from_int(rtype), data, &mut text) {
        text.extend_from_slice(format!("\\# {} ", data.len()).as_bytes());
        encoded::put_hex(data, &mut text);
    }
    String::from_utf8_lossy(text.trim_ascii_end()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_text() {
        for (rtype, data, text) in [
            (1, &[192, 0, 2, 1][..], "192.0.2.1"),
            (15, b"\0\x0a\x01a\0", "10 a."),
            (16, b"\x02hi", "\"hi\""),
            (1, b"\x01", "\\# 1 01"),
            (65_280, b"\xab\xcd", "\\# 2 ABCD"),
            (65_280, b"", "\\# 0"),
        ] {
            assert_eq!(data_text(rtype, data).to_uppercase(), text.to_uppercase());
        }
    }
}
