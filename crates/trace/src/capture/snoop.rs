//! The snoop format (RFC 1761): numbers in big-endian order.

use measure::Nanos;

use super::window::{Fault, MAX_FRAME, Order, Window, WindowFrame};

/// The first bytes of a file.
pub(super) const MAGIC: [u8; 4] = *b"snoo";
/// The rest of the magic, and the version.
const REST_OF_HEADER: [u8; 8] = [b'p', 0, 0, 0, 0, 0, 0, 2];
/// Size of the header of a packet in bytes.
const HEADER: usize = 24;
const ORDER: Order = Order { big: true };

/// Data link types of snoop, and their link types; others are refused.
const LINKS: [(u32, u16); 6] = [
    // IEEE 802.3 and Ethernet
    (0, 1),
    (4, 1),
    // Token Ring
    (2, 6),
    // FDDI
    (8, 10),
    // IP over Fibre Channel, and IP without a link layer
    (17, 122),
    (26, 242),
];

/// The state of a file.
#[derive(Default)]
pub(super) struct Snoop {
    link: u16,
}

impl Snoop {
    pub(super) fn read_header(&mut self, window: &mut Window) -> Result<(), Fault> {
        if !window.need(16)? {
            return Err(Fault::Cut("the file's header"));
        }
        let header = window.block();
        if header[4..12] != REST_OF_HEADER {
            return Err(Fault::Damaged(format!(
                "snoop of the version {:02x?}; it must be 2",
                &header[8..12]
            )));
        }
        let kind = ORDER.u32(header, 12);
        let link = LINKS.iter().find(|(own, _)| *own == kind).map(|found| found.1);
        self.link = link.ok_or_else(|| {
            Fault::Damaged(format!("snoop with the unknown data link type {kind}"))
        })?;
        window.spent = 16;
        Ok(())
    }

    #[inline]
    pub(super) fn next(&mut self, window: &mut Window) -> Result<Option<WindowFrame>, Fault> {
        if !window.next_header(HEADER, "a packet's header")? {
            return Ok(None);
        }
        let header = window.block();
        let word = |at| ORDER.u32(header, at);
        let (wire_len, caught, record) = (word(0), word(4), word(8));
        let (seconds, micros) = (word(16), word(20));
        let (len, record) = (caught as usize, record as usize);
        // The record is the header, the frame and up to three bytes, or more in some files.
        if len > MAX_FRAME || record < HEADER + len || record > HEADER + MAX_FRAME + 64 {
            return Err(Fault::Damaged(format!(
                "a packet of {len} bytes in a record of {record}; the largest packet has {MAX_FRAME}"
            )));
        }
        if !window.need(record)? {
            return Err(Fault::Cut("a packet"));
        }
        let at = u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1_000;
        let start = window.at + HEADER;
        window.spent = record;
        Ok(Some(WindowFrame { at: Nanos(at), link: self.link, wire_len, start, len }))
    }
}
