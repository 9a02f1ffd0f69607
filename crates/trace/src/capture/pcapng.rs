//! The pcapng format: sections, interfaces, and packet blocks.

use measure::Nanos;

use super::window::{Fault, MAX_FRAME, Order, WINDOW, Window, WindowFrame};

/// The first bytes of a section.
pub(super) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Largest number of interfaces in a section.
const MAX_INTERFACES: usize = 65_536;

/// Types of blocks that are read (pcapng, section 4).
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// The state of the current section.
#[derive(Default)]
pub(super) struct Section {
    order: Order,
    interfaces: Vec<Interface>,
    /// Time of the last packet, used for simple packets, which have no time.
    last: Nanos,
}

/// The link type and the clock of an interface.
#[derive(Clone, Copy)]
struct Interface {
    link: u16,
    /// Largest captured length of a frame in bytes; 0 means no limit.
    snaplen: u32,
    ticks: Ticks,
    /// Offset added to each time, in seconds.
    offset_s: i64,
}

/// The unit of the clock.
#[derive(Clone, Copy)]
enum Ticks {
    Micros,
    Nanos,
    /// This number of ticks per second.
    PerSecond(u128),
}

impl Interface {
    /// Returns the time of a packet; times outside the range of `Nanos` become its first or last value.
    #[inline]
    fn time(&self, ticks: u64) -> Nanos {
        let nanos = match self.ticks {
            Ticks::Micros => ticks.saturating_mul(1_000),
            Ticks::Nanos => ticks,
            Ticks::PerSecond(per) => {
                u64::try_from(u128::from(ticks) * 1_000_000_000 / per).unwrap_or(u64::MAX)
            }
        };
        let offset = self.offset_s.unsigned_abs().saturating_mul(1_000_000_000);
        Nanos(if self.offset_s < 0 {
            nanos.saturating_sub(offset)
        } else {
            nanos.saturating_add(offset)
        })
    }
}

impl Section {
    /// Returns the next packet of the section, and skips other blocks.
    #[inline]
    pub(super) fn next(&mut self, window: &mut Window) -> Result<Option<WindowFrame>, Fault> {
        loop {
            if !window.next_header(12, "a block's header")? {
                return Ok(None);
            }
            if window.block()[..4] == SECTION {
                self.begin(window)?;
            }
            let kind = self.order.u32(window.block(), 0);
            let len = self.order.u32(window.block(), 4) as usize;
            if len < 12 || !len.is_multiple_of(4) {
                return Err(Fault::Damaged(format!(
                    "a block of {len} bytes; the length must be a multiple of 4, and at least 12"
                )));
            }
            let holds_packet = matches!(kind, ENHANCED_PACKET | SIMPLE_PACKET | OLD_PACKET);
            if !holds_packet && kind != INTERFACE || len > WINDOW {
                if holds_packet || kind == INTERFACE {
                    return Err(Fault::Damaged(format!(
                        "a block of {len} bytes; the largest packet has {MAX_FRAME}"
                    )));
                }
                if !window.skip(len as u64)? {
                    return Err(Fault::Cut("a block"));
                }
                continue;
            }
            if !window.need(len)? {
                return Err(Fault::Cut(if holds_packet { "a packet" } else { "an interface" }));
            }
            window.spent = len;
            let block = &window.bytes[window.at..window.at + len];
            if self.order.u32(block, len - 4) as usize != len {
                return Err(Fault::Damaged(format!(
                    "a block of {len} bytes has the length {} at its end",
                    self.order.u32(block, len - 4)
                )));
            }
            if kind == INTERFACE {
                self.interface(block)?;
                continue;
            }
            let (mut found, start) = self.packet(kind, block)?;
            found.start = window.at + start;
            self.last = found.at;
            return Ok(Some(found));
        }
    }

    /// Reads the byte order from the header of a section.
    fn begin(&mut self, window: &Window) -> Result<(), Fault> {
        let magic = &window.block()[8..12];
        let big = match *magic {
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            _ => {
                return Err(Fault::Damaged(format!(
                    "a section with the byte-order magic {magic:02x?}; it must be 1a 2b 3c 4d in either order"
                )));
            }
        };
        *self = Section { order: Order { big }, interfaces: Vec::new(), last: self.last };
        debug_assert_eq!(self.order.u32(window.block(), 0), SECTION_HEADER);
        Ok(())
    }

    /// Reads the description of an interface.
    fn interface(&mut self, block: &[u8]) -> Result<(), Fault> {
        if block.len() < 20 || self.interfaces.len() == MAX_INTERFACES {
            return Err(Fault::Damaged(format!(
                "interface {} has a description of {} bytes; at most {MAX_INTERFACES} interfaces are accepted, with 20 bytes or more",
                self.interfaces.len(),
                block.len()
            )));
        }
        let mut interface = Interface {
            link: self.order.u16(block, 8),
            snaplen: self.order.u32(block, 12),
            ticks: Ticks::Micros,
            offset_s: 0,
        };
        let (mut options, end) = (16, block.len() - 4);
        while options + 4 <= end {
            let (code, len) =
                (self.order.u16(block, options), usize::from(self.order.u16(block, options + 2)));
            let Some(value) = block[..end].get(options + 4..options + 4 + len) else { break };
            match (code, value) {
                (0, _) => break,
                (9, &[resolution]) => interface.ticks = ticks(resolution)?,
                (14, value) if len == 8 => {
                    let (a, b) = (self.order.u32(value, 0), self.order.u32(value, 4));
                    let (high, low) = if self.order.big { (a, b) } else { (b, a) };
                    interface.offset_s = (u64::from(high) << 32 | u64::from(low)) as i64;
                }
                _ => {}
            }
            options += 4 + len.next_multiple_of(4);
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// Returns the packet in a block of this kind, and its offset in the block.
    #[inline]
    fn packet(&self, kind: u32, block: &[u8]) -> Result<(WindowFrame, usize), Fault> {
        let start = if kind == SIMPLE_PACKET { 12 } else { 28 };
        if block.len() < start + 4 {
            return Err(Fault::Damaged(format!("a packet block of {} bytes", block.len())));
        }
        let word = |at| self.order.u32(block, at);
        let number = match kind {
            SIMPLE_PACKET => 0,
            OLD_PACKET => u32::from(self.order.u16(block, 8)),
            _ => word(8),
        };
        let Some(interface) = self.interfaces.get(number as usize) else {
            return Err(Fault::Damaged(format!(
                "a packet of interface {number}, but the section describes {}",
                self.interfaces.len()
            )));
        };
        let room = block.len() - start - 4;
        let (at, len, wire_len) = if kind == SIMPLE_PACKET {
            let limit = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
            (self.last, (word(8).min(limit) as usize).min(room), word(8))
        } else {
            let ticks = u64::from(word(12)) << 32 | u64::from(word(16));
            (interface.time(ticks), word(20) as usize, word(24))
        };
        if len > room || len > MAX_FRAME {
            return Err(Fault::Damaged(format!(
                "a packet of {len} bytes in a block with room for {room}"
            )));
        }
        Ok((WindowFrame { at, link: interface.link, wire_len, start, len }, start))
    }
}

/// Returns the unit for the value of the option if_tsresol.
fn ticks(resolution: u8) -> Result<Ticks, Fault> {
    Ok(match resolution {
        6 => Ticks::Micros,
        9 => Ticks::Nanos,
        0..=19 => Ticks::PerSecond(10u128.pow(resolution.into())),
        0x80..=0xbf => Ticks::PerSecond(1 << (resolution & 0x7f)),
        _ => {
            return Err(Fault::Damaged(format!(
                "a clock of resolution {resolution:#x}; at most 19 digits or 63 bits are accepted"
            )));
        }
    })
}
