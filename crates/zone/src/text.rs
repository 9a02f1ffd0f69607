//! A writer of master file text that collects one mebibyte in a buffer before each write.
//!
//! With `write!` the formatting of numbers would take most of the time of a generator, since a record has only tens of
//! bytes. Here a record is a few copies.

use std::io::{self, Write};
use std::net::Ipv6Addr;

use domain::base::Rtype;
use wire::name::Labels;
use wire::{Name, Qtype};

use crate::rdata::{self, encoded};
use crate::{Record, Written};

/// Number of octets in the buffer at which it is written out.
const CHUNK: usize = 1 << 20;

/// A buffered writer of lines that counts records and octets.
pub(crate) struct Text<'a, W: Write> {
    out: &'a mut W,
    buffer: Vec<u8>,
    written: Written,
}

impl<'a, W: Write> Text<'a, W> {
    pub(crate) fn new(out: &'a mut W) -> Self {
        let buffer = Vec::with_capacity(CHUNK + 4096);
        Text { out, buffer, written: Written::default() }
    }

    /// Appends octets as they are.
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.buffer.extend_from_slice(bytes);
        self
    }

    /// Appends a number in decimal digits.
    #[inline]
    pub(crate) fn number(&mut self, mut n: u64) -> &mut Self {
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

    /// Appends octets as hexadecimal digits.
    pub(crate) fn hex(&mut self, bytes: &[u8]) -> &mut Self {
        encoded::put_hex(bytes, &mut self.buffer);
        self
    }

    /// Appends an IPv4 address in its dotted form.
    #[inline]
    pub(crate) fn v4(&mut self, address: u32) -> &mut Self {
        let [a, b, c, d] = address.to_be_bytes().map(u64::from);
        self.number(a).put(b".").number(b).put(b".").number(c).put(b".").number(d)
    }

    /// Appends a name given in wire form, relative to `apex` if it is in that zone.
    pub(crate) fn name(&mut self, name: &[u8], apex: &[u8]) -> &mut Self {
        let (front, absolute) = match wire::name::strip_suffix(name, apex) {
            Some([]) => return self.put(b"@"),
            Some(front) => (front, false),
            None => (name, true),
        };
        let plain = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
        if !Labels::of(front).all(|label| label.iter().all(plain)) {
            // Rare names need escapes, which `wire` writes.
            let text = Name::from_wire(name).unwrap_or(Name::ROOT).to_string();
            return self.put(text.as_bytes()).put(b".");
        }
        for (number, label) in Labels::of(front).enumerate() {
            if number > 0 {
                self.buffer.push(b'.');
            }
            self.put(label);
        }
        if absolute {
            self.buffer.push(b'.');
        }
        self
    }

    /// Appends a record as a line, without the owner if `with_owner` is false.
    pub(crate) fn record(
        &mut self,
        record: &Record,
        apex: &[u8],
        default_ttl: u32,
        with_owner: bool,
    ) -> io::Result<()> {
        if with_owner {
            self.name(record.owner(), apex);
        }
        if record.ttl() != default_ttl {
            self.put(b"\t").number(u64::from(record.ttl()));
        }
        let rtype = record.rtype();
        if !self.data(rtype, record.data(), apex) {
            self.any_data(rtype, record.data());
        }
        self.end(1)
    }

    /// Appends type and data of the most frequent record types; returns `false` for other types.
    pub(crate) fn data(&mut self, rtype: Rtype, data: &[u8], apex: &[u8]) -> bool {
        match (rtype, data) {
            (Rtype::NS, name) => self.put(b"\tNS\t").name(name, apex),
            (Rtype::CNAME, name) => self.put(b"\tCNAME\t").name(name, apex),
            (Rtype::A, &[a, b, c, d]) => self.put(b"\tA\t").v4(u32::from_be_bytes([a, b, c, d])),
            (Rtype::AAAA, octets) => match <[u8; 16]>::try_from(octets) {
                Ok(octets) => {
                    self.put(b"\tAAAA\t").put(Ipv6Addr::from(octets).to_string().as_bytes())
                }
                Err(_) => return false,
            },
            (Rtype::DS, &[tag_high, tag_low, algorithm, kind, ref digest @ ..])
                if !digest.is_empty() =>
            {
                let tag = u16::from_be_bytes([tag_high, tag_low]);
                self.put(b"\tDS\t").number(tag.into()).put(b" ").number(algorithm.into());
                self.put(b" ").number(kind.into()).put(b" ").hex(digest)
            }
            _ => return false,
        };
        true
    }

    /// Appends type and data in the form of the type, or in the form of RFC 3597, which all servers
    /// accept.
    pub(crate) fn any_data(&mut self, rtype: Rtype, data: &[u8]) {
        let begin = self.buffer.len();
        self.put(format!("\t{}\t", Qtype(rtype.to_int())).as_bytes());
        if !rdata::print(rtype, data, &mut self.buffer) {
            self.buffer.truncate(begin);
            self.put(format!("\tTYPE{}\t\\# {} ", rtype.to_int(), data.len()).as_bytes()).hex(data);
        }
    }

    /// Ends a line that counts as this number of records.
    #[inline]
    pub(crate) fn end(&mut self, records: u64) -> io::Result<()> {
        self.buffer.push(b'\n');
        self.count_records(records)
    }

    /// Counts records in lines that are complete.
    #[inline]
    pub(crate) fn count_records(&mut self, records: u64) -> io::Result<()> {
        self.written.records += records;
        if self.buffer.len() >= CHUNK { self.write_out() } else { Ok(()) }
    }

    /// Writes the buffer to the output, and counts its octets.
    fn write_out(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.written.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the rest of the buffer and returns the total size.
    pub(crate) fn finish(mut self) -> io::Result<Written> {
        self.write_out()?;
        self.out.flush()?;
        Ok(self.written)
    }
}

/// Writes the first lines of a zone: origin, TTL, SOA.
pub(crate) fn begin<W: Write>(
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
