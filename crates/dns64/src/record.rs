//! Records outside of a message, uncompressed.

use wire::{Qclass, Qtype};

/// Appends an uncompressed record to `out`.
pub(crate) fn push(out: &mut Vec<u8>, owner: &[u8], rtype: Qtype, ttl: u32, data: &[u8]) {
    out.extend_from_slice(owner);
    out.extend_from_slice(&rtype.0.to_be_bytes());
    out.extend_from_slice(&Qclass::IN.0.to_be_bytes());
    out.extend_from_slice(&ttl.to_be_bytes());
    out.extend_from_slice(&(data.len() as u16).to_be_bytes());
    out.extend_from_slice(data);
}
