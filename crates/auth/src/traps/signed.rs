//! A signed zone whose keys share one tag, and answers in it with signatures that no key has made (KeyTrap, CVE-2023-50387).
//!
//! ```text
//! keytrap.ZONE        DNSKEY: a key that signs the set, and 32 others with one tag; over TCP only
//! NAME.keytrap.ZONE   A, and three RRSIGs with that tag: a validator tries each signature with each key
//! ```
//!
//! The keys and the signature of their set were made once by `scripts/keytrap.py`, for the default zone: a validator that trusts the first
//! key believes the set. Below another zone the set is bogus.

use wire::message::{OPT_FIXED, RECORD_FIXED};
use wire::name::{Labels, MAX_NAME};
use wire::{Owner, Qtype, Query, ReplyWriter};

/// Data of the DNSKEY records, the signing key first, and the signature of their set.
const KEY_DATA: &[u8] = include_bytes!("keytrap.bin");
/// Size of the data of a DNSKEY record and of a signature, in octets (RFC 6605 section 4).
const KEY: usize = 68;
const SIGNATURE: usize = 64;
/// Size of the data of an RRSIG record before the name of its signer, in octets.
const RRSIG_FIXED: usize = 18;
/// Algorithm ECDSAP256SHA256, and TTL, expiration (2080) and inception (2020) of the signatures.
const ALGORITHM: u8 = 13;
const TTL: u32 = 3_600;
const EXPIRATION: u32 = 3_471_292_800;
const INCEPTION: u32 = 1_577_836_800;
/// Number of signatures of an answer.
const FORGED_SIGNATURES: u8 = 3;
/// Address in the answers, of a range for documentation.
const ADDRESS: [u8; 4] = [192, 0, 2, 1];

/// Adds the keys and their signature; the reply is truncated if there is no room for them.
pub(crate) fn keys(writer: &mut ReplyWriter<'_>, query: &Query<'_>, ttl: u32) {
    let (keys, signature) = KEY_DATA.split_at(KEY_DATA.len() - SIGNATURE);
    for key in keys.chunks_exact(KEY) {
        if !writer.answer(Owner::Question, Qtype::DNSKEY, ttl, key) {
            return;
        }
    }
    let signed = Signed { covered: Qtype::DNSKEY, tag: tag(&keys[..KEY]), zone_at: 0 };
    signed.add(writer, query.qname, ttl, signature);
}

/// Adds an address, and as many forged signatures as fit into a reply of `limit` octets if the client wants them.
pub(crate) fn forged(writer: &mut ReplyWriter<'_>, query: &Query<'_>, ttl: u32, limit: usize) {
    writer.answer(Owner::Question, Qtype::A, ttl, &ADDRESS);
    if query.edns.as_ref().is_none_or(|edns| !edns.do_bit) {
        return;
    }
    let zone_at = 1 + usize::from(query.qname[0]);
    let signed = Signed { covered: Qtype::A, tag: tag(&KEY_DATA[KEY..2 * KEY]), zone_at };
    let record = 2 + RECORD_FIXED + RRSIG_FIXED + query.qname.len() - zone_at + SIGNATURE;
    for number in 1..=FORGED_SIGNATURES {
        if writer.position() + record + OPT_FIXED > limit {
            return;
        }
        signed.add(writer, query.qname, ttl, &[number; SIGNATURE]);
    }
}

/// The records that a signature covers.
struct Signed {
    covered: Qtype,
    /// Tag of the key that has signed (RFC 4034 appendix B).
    tag: u16,
    /// Offset of the signer's name in the queried name.
    zone_at: usize,
}

impl Signed {
    /// Adds the RRSIG record of the queried name with this signature (RFC 4034 section 3.1).
    fn add(&self, writer: &mut ReplyWriter<'_>, qname: &[u8], ttl: u32, signature: &[u8]) {
        let labels = Labels::of(qname).count() as u8;
        let mut data = [0_u8; RRSIG_FIXED + MAX_NAME + SIGNATURE];
        data[..2].copy_from_slice(&self.covered.0.to_be_bytes());
        (data[2], data[3]) = (ALGORITHM, labels);
        for (place, time) in data[4..16].chunks_exact_mut(4).zip([TTL, EXPIRATION, INCEPTION]) {
            place.copy_from_slice(&time.to_be_bytes());
        }
        data[16..RRSIG_FIXED].copy_from_slice(&self.tag.to_be_bytes());
        let signer = &qname[self.zone_at..];
        let end = RRSIG_FIXED + signer.len();
        data[RRSIG_FIXED..end].copy_from_slice(signer);
        // The canonical form of the name (RFC 6840 section 5.1); lengths of labels are never
        // letters.
        data[RRSIG_FIXED..end].make_ascii_lowercase();
        data[end..end + SIGNATURE].copy_from_slice(signature);
        writer.answer(Owner::Question, Qtype::RRSIG, ttl, &data[..end + SIGNATURE]);
    }
}

/// Returns the tag of the key with this data (RFC 4034 appendix B).
fn tag(key: &[u8]) -> u16 {
    let words = key.chunks_exact(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    (sum + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_but_the_first_share_their_tag() {
        let keys: Vec<&[u8]> = KEY_DATA[..KEY_DATA.len() - SIGNATURE].chunks_exact(KEY).collect();
        assert_eq!(KEY_DATA.len() % KEY, SIGNATURE);
        let tags: Vec<u16> = keys.iter().map(|key| tag(key)).collect();
        assert_eq!((tags.len(), tags[0]), (33, 61_767));
        assert!(tags[1..].iter().all(|tag| *tag == 28_199), "{tags:?}");
        // Zone keys of protocol 3, all different.
        assert!(keys.iter().all(|key| key[0] == 1 && key[2..4] == [3, ALGORITHM]));
        assert!((1..keys.len()).all(|i| !keys[..i].contains(&keys[i])));
    }
}
