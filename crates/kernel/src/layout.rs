//! The octets of a structure of a BPF program.

/// The octets of a structure of `N` octets, field after field.
pub(crate) struct Layout<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Layout<N> {
    /// Makes a structure of zeros.
    pub(crate) fn new() -> Self {
        Layout { bytes: [0; N], at: 0 }
    }

    /// Stores the next field, of `size` octets, with zeros after `value`.
    ///
    /// # Panics
    /// If the value is longer than the field.
    pub(crate) fn put(&mut self, size: usize, value: &[u8]) {
        assert!(value.len() <= size, "a field of {size} octets");
        self.bytes[self.at..self.at + value.len()].copy_from_slice(value);
        self.at += size;
    }

    /// Stores the next field, a number of 32 bits.
    pub(crate) fn put_u32(&mut self, value: u32) {
        self.put(4, &value.to_ne_bytes());
    }

    /// Stores the next field, a number of 64 bits.
    pub(crate) fn put_u64(&mut self, value: u64) {
        self.put(8, &value.to_ne_bytes());
    }

    /// Returns the octets.
    ///
    /// # Panics
    /// If the fields do not fill exactly `N` octets.
    pub(crate) fn finish(self) -> [u8; N] {
        assert_eq!(self.at, N, "the fields fill the structure");
        self.bytes
    }
}
