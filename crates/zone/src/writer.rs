//! A zone file writer that writes one record at a time.

use std::io::{self, Write};

use domain::base::Rtype;
use wire::Name;

use crate::text::Text;
use crate::{Record, Written};

/// A zone file writer; it omits an owner or TTL that equals the previous one.
pub struct ZoneWriter<'a, W: Write> {
    text: Text<'a, W>,
    /// The TTL of `$TTL` in seconds; `None` before the first record.
    ttl: Option<u32>,
    owner: Vec<u8>,
}

impl<'a, W: Write> ZoneWriter<'a, W> {
    /// Returns a writer to `out`.
    pub fn new(out: &'a mut W) -> Self {
        ZoneWriter { text: Text::new(out), ttl: None, owner: Vec::new() }
    }

    /// Writes a record; `apex` must be the same for all records of a file.
    ///
    /// # Errors
    /// If writing fails.
    pub fn put(&mut self, record: &Record, apex: &[u8]) -> io::Result<()> {
        let with_owner = self.begin(record.owner(), record.ttl(), apex);
        let ttl = self.ttl.unwrap_or_default();
        self.text.record(record, apex, ttl, with_owner)
    }

    /// Writes a record whose owner and data are in wire form, uncompressed.
    ///
    /// # Errors
    /// If writing fails.
    pub fn put_wire(
        &mut self,
        owner: &[u8],
        ttl: u32,
        rtype: u16,
        data: &[u8],
        apex: &[u8],
    ) -> io::Result<()> {
        if self.begin(owner, ttl, apex) {
            self.text.name(owner, apex);
        }
        if Some(ttl) != self.ttl {
            self.text.put(b"\t").number(u64::from(ttl));
        }
        let rtype = Rtype::from_int(rtype);
        if !self.text.data(rtype, data, apex) {
            self.text.any_data(rtype, data);
        }
        self.text.end(1)
    }

    /// Writes the rest of the buffer and returns the total size.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(self) -> io::Result<Written> {
        self.text.finish()
    }

    /// Writes the origin before the first record; returns whether the owner differs from the one before.
    fn begin(&mut self, owner: &[u8], ttl: u32, apex: &[u8]) -> bool {
        if self.ttl.is_none() {
            let zone = Name::from_wire(apex).unwrap_or(Name::ROOT);
            let dot = if zone.is_root() { "" } else { "." };
            self.text.put(format!("$ORIGIN {zone}{dot}\n$TTL {ttl}\n").as_bytes());
            self.ttl = Some(ttl);
        }
        let another = self.owner != owner;
        if another {
            self.owner.clear();
            self.owner.extend_from_slice(owner);
        }
        another
    }
}
