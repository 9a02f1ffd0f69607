//! Records with whole names, without pointers into the message.

use wire::Qtype;
use wire::message::{Record, name_at};
use wire::reply::readable::Shape;

/// Appends a record of `message` to `out` with uncompressed names: its owner, and the names in the
/// data of types whose names may be compressed (RFC 1035 section 3.3, RFC 3597 section 4).
pub(super) fn push_record(out: &mut Vec<u8>, message: &[u8], record: &Record<'_>) -> Option<()> {
    let owner = name_at(message, record.owner)?;
    out.extend_from_slice(owner.as_wire());
    let fixed_at = record.rdata_at - 10;
    out.extend_from_slice(&message[fixed_at..record.rdata_at - 2]);
    let len_at = out.len();
    out.extend_from_slice(&[0, 0]);
    push_data(out, message, record.rtype, record.rdata_at, record.rdata.len())?;
    let len = u16::try_from(out.len() - len_at - 2).ok()?;
    out[len_at..len_at + 2].copy_from_slice(&len.to_be_bytes());
    Some(())
}

/// Appends the data of a record of `message` to `out` with uncompressed names.
pub(super) fn push_data(
    out: &mut Vec<u8>,
    message: &[u8],
    rtype: Qtype,
    at: usize,
    len: usize,
) -> Option<()> {
    let Shape { front, names, after } =
        Shape::of(rtype).unwrap_or(Shape { front: len, names: 0, after: 0 });
    let end = at + len;
    let mut at = at + front;
    out.extend_from_slice(message.get(at - front..at).filter(|_| at <= end)?);
    for _ in 0..names {
        out.extend_from_slice(name_at(message, at)?.as_wire());
        at = wire::message::skip_name(message, at)?;
    }
    out.extend_from_slice(message.get(at..end).filter(|rest| rest.len() == after)?);
    Some(())
}
