//! Octets of record data that become text.

use wire::Name;

/// The octets of record data that are not printed yet.
pub(super) struct Data<'a>(pub(super) &'a [u8]);

impl<'a> Data<'a> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|octets| octets[0])
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|octets| u16::from_be_bytes([octets[0], octets[1]]))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from(self.u16()?) << 16 | u32::from(self.u16()?))
    }

    pub(super) fn name(&mut self) -> Option<Name> {
        let len = wire::name::wire_len(self.0).ok()?;
        Name::from_wire(self.take(len)?).ok()
    }

    /// Returns the text that follows its length.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.u8()?;
        self.take(len.into())
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// Appends text; no error is possible.
pub(super) fn put(out: &mut Vec<u8>, text: impl std::fmt::Display) {
    use std::io::Write as _;
    // Writing to a Vec does not fail.
    let _ = write!(out, "{text}");
}

/// Appends a name with a dot at its end.
pub(super) fn put_name(out: &mut Vec<u8>, name: &Name) {
    put(out, name);
    if !name.is_root() {
        out.push(b'.');
    }
}

/// Appends a text in quotes, with escapes.
pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &octet in text {
        match octet {
            b'"' | b'\\' => out.extend([b'\\', octet]),
            b' '..=b'~' => out.push(octet),
            _ => put(out, format_args!("\\{octet:03}")),
        }
    }
    out.push(b'"');
}
