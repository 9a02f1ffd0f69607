//! Text of a master file, put together in a buffer and handed on a mebibyte at a time.
//!
//! `write!` goes through the formatting machinery for every number; at tens of bytes a record that is what a
//! generator then spends its time on. Here a record is a few copies.

use std::io::{self, Write};

use super::Written;

/// Handed on when so much is there.
const CHUNK: usize = 1 << 20;

/// A buffered writer of lines that counts.
pub(super) struct Text<'a, W: Write> {
    out: &'a mut W,
    buffer: Vec<u8>,
    written: Written,
}

impl<'a, W: Write> Text<'a, W> {
    pub(super) fn new(out: &'a mut W) -> Self {
        let buffer = Vec::with_capacity(CHUNK + 4096);
        Text { out, buffer, written: Written::default() }
    }

    /// Appends octets.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.buffer.extend_from_slice(bytes);
        self
    }

    /// Appends a number.
    #[inline]
    pub(super) fn number(&mut self, mut n: u64) -> &mut Self {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                break;
            }
        }
        self.put(&digits[at..])
    }

    /// Appends octets in hexadecimal.
    pub(super) fn hex(&mut self, bytes: &[u8]) -> &mut Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for byte in bytes {
            self.put(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        self
    }

    /// Appends an IPv4 address.
    #[inline]
    pub(super) fn v4(&mut self, address: u32) -> &mut Self {
        let [a, b, c, d] = address.to_be_bytes().map(u64::from);
        self.number(a).put(b".").number(b).put(b".").number(c).put(b".").number(d)
    }

    /// Ends a line that holds so many records.
    #[inline]
    pub(super) fn end(&mut self, records: u64) -> io::Result<()> {
        self.buffer.push(b'\n');
        self.written.records += records;
        if self.buffer.len() >= CHUNK { self.hand_on() } else { Ok(()) }
    }

    fn hand_on(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.written.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> io::Result<Written> {
        self.hand_on()?;
        self.out.flush()?;
        Ok(self.written)
    }
}

/// The first lines of every zone: origin, TTL, SOA.
pub(super) fn begin<W: Write>(
    text: &mut Text<'_, W>,
    zone: &wire::Name,
    ttl: u32,
    primary: &str,
) -> io::Result<()> {
    let dot = if zone.is_root() { "" } else { "." };
    text.put(format!("$ORIGIN {zone}{dot}\n$TTL {ttl}\n").as_bytes());
    text.put(format!("@\tIN\tSOA\t{primary} hostmaster 1 3600 600 604800 300").as_bytes());
    text.end(1)
}
