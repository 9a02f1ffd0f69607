//! DNAME records without the CNAME records that belong to them.

use wire::message::{Record, name_at, records};
use wire::{Name, Qtype};

use super::Reply;
use crate::record::push;

/// Adds to the chain from `qname` on the DNAME record whose substitution makes a name too long
/// (YXDOMAIN, RFC 6672 section 2.2), and its signatures if `dnssec`. Returns the last name of the
/// chain; `None` if there is no such record.
pub(super) fn push_refused(
    chain: &mut Vec<u8>,
    qname: &[u8],
    reply: &Reply<'_>,
    dnssec: bool,
) -> Option<Name> {
    let aliases = records(chain, 0).filter(|alias| alias.rtype == Qtype::CNAME);
    let name = Name::from_wire(aliases.last().map_or(qname, |alias| alias.rdata)).ok()?;
    let answers = usize::from(reply.header.counts[1]);
    let (record, owner) = reply
        .records()
        .take(answers)
        .filter(|record| record.rtype == Qtype::DNAME)
        .filter_map(|record| Some((record, name_at(reply.bytes, record.owner)?)))
        .find(|(_, owner)| *owner != name && name.ends_with(owner))?;
    reply.push(chain, &record)?;
    if dnssec {
        reply.push_signatures(chain, &owner, Qtype::DNAME);
    }
    Some(name)
}

/// Adds the CNAME records to a chain from `qname` on that a server must make from DNAME records, for clients that do not
/// know DNAME (RFC 6672 section 3.1). Returns whether some were missing; `None` for a chain that cannot be followed.
pub(super) fn add_missing_cnames(chain: &mut Vec<u8>, qname: &[u8]) -> Option<bool> {
    let mut out = Vec::with_capacity(chain.len());
    let mut name = qname.to_vec();
    // The CNAME that must follow the last DNAME.
    let mut expected: Option<(Vec<u8>, u32)> = None;
    let mut mended = false;
    let mut add = |out: &mut Vec<u8>, name: &mut Vec<u8>, expected: Option<(Vec<u8>, u32)>| {
        if let Some((target, ttl)) = expected {
            push(out, name, Qtype::CNAME, ttl, &target);
            *name = target;
            mended = true;
        }
    };
    let mut at = 0;
    while at < chain.len() {
        let (record, end) = Record::read(chain, at)?;
        let owner = &chain[at..record.rdata_at - 10];
        let is_alias = record.rtype == Qtype::CNAME || record.rtype == Qtype::DNAME;
        if is_alias && !(record.rtype == Qtype::CNAME && owner.eq_ignore_ascii_case(&name)) {
            add(&mut out, &mut name, expected.take());
        }
        out.extend_from_slice(&chain[at..end]);
        match record.rtype {
            Qtype::CNAME => {
                expected = None;
                name = record.rdata.to_vec();
            }
            Qtype::DNAME => {
                let front = wire::name::strip_suffix(&name, owner)?;
                expected = Some(([front, record.rdata].concat(), record.ttl));
            }
            _ => {}
        }
        at = end;
    }
    add(&mut out, &mut name, expected.take());
    *chain = out;
    Some(mended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_cname_is_added_behind_its_dname() {
        let dname = b"\x03old\0\0\x27\0\x01\0\0\0\x32\0\x05\x03new\0";
        let cname = b"\x01a\x03old\0\0\x05\0\x01\0\0\0\x32\0\x07\x01a\x03new\0";
        let whole = [&dname[..], cname].concat();
        for (chain, mended) in [(dname.to_vec(), true), (whole.clone(), false)] {
            let mut chain = chain;
            assert_eq!(add_missing_cnames(&mut chain, b"\x01a\x03old\0"), Some(mended));
            assert_eq!(chain, whole);
        }
        assert_eq!(add_missing_cnames(&mut dname.to_vec(), b"\x01a\x05other\0"), None);
    }
}
