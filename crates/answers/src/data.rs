//! Record data in a form in which equal data has equal octets: names uncompressed and in lower case.

use wire::message::{Record, name_at, skip_name};

/// The names in the data of a record.
struct Names {
    /// Octets before the first name.
    after: usize,
    /// Number of names; other octets may follow them.
    count: usize,
}

/// Returns where the names are in the data of a type; `None` if it has none, or NAPTR's texts are cut short.
///
/// Compression is only allowed in the types of RFC 1035 (RFC 3597 section 4) but found in others;
/// letter case means nothing in any name. HIP, IPSECKEY, AMTRELAY and A6, whose names follow fields
/// of variable length, are compared by their octets.
fn names(record: &Record<'_>) -> Option<Names> {
    let (after, count) = match record.rtype.0 {
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, NSAP-PTR, NXT, DNAME, NSEC
        2..=5 | 7..=9 | 12 | 23 | 30 | 39 | 47 => (0, 1),
        // SOA, MINFO, RP, TALINK
        6 | 14 | 17 | 58 => (0, 2),
        // MX, AFSDB, RT, KX, SVCB, HTTPS, LP
        15 | 18 | 21 | 36 | 64 | 65 | 107 => (2, 1),
        // SIG, RRSIG
        24 | 46 => (18, 1),
        // PX
        26 => (2, 2),
        // SRV
        33 => (6, 1),
        // NAPTR
        35 => (naptr_texts(record.rdata)?, 1),
        // DSYNC
        66 => (5, 1),
        _ => return None,
    };
    Some(Names { after, count })
}

/// Returns the number of octets before the name of NAPTR: two numbers and three texts.
fn naptr_texts(rdata: &[u8]) -> Option<usize> {
    (0..3).try_fold(4, |at, _| Some(at + 1 + usize::from(*rdata.get(at)?)))
}

/// Returns the data of a record of `message` with its names uncompressed and in lower case; `None` if a name is malformed or
/// goes beyond the data.
pub(crate) fn canonical(message: &[u8], record: &Record<'_>) -> Option<Vec<u8>> {
    let Some(Names { after, count }) = names(record) else { return Some(record.rdata.to_vec()) };
    let end = record.rdata_at + record.rdata.len();
    let mut data = record.rdata.get(..after)?.to_vec();
    let mut at = record.rdata_at + after;
    for _ in 0..count {
        let name = name_at(message, at)?.to_lowercase();
        at = skip_name(message, at).filter(|at| *at <= end)?;
        data.extend_from_slice(name.as_wire());
    }
    data.extend_from_slice(message.get(at..end)?);
    Some(data)
}

/// Octets of RRSIG data in front of the signer: what is covered, algorithm, labels, original TTL; expiry and inception; key tag.
const SIGNED_FIELDS: std::ops::Range<usize> = 0..8;
const KEY_TAG: std::ops::Range<usize> = 16..18;

/// Returns the part of RRSIG data, in canonical form, that is compared: neither its times nor the
/// signature. A signature that is cut short is not changed.
pub(crate) fn signature_key(data: &[u8]) -> Vec<u8> {
    let parts = || {
        let signer = data.get(KEY_TAG.end..)?;
        let len = wire::name::wire_len(signer).ok()?;
        Some([data.get(SIGNED_FIELDS)?, data.get(KEY_TAG)?, &signer[..len]].concat())
    };
    parts().unwrap_or_else(|| data.to_vec())
}

#[cfg(test)]
mod tests {
    use wire::Qtype;

    use super::*;

    /// A header, `Example` at 12, and a record of a type with this data at 21.
    fn of(rtype: u16, rdata: &[u8]) -> Option<Vec<u8>> {
        let mut message = b"............\x07Example\0".to_vec();
        message.extend_from_slice(b"\xc0\x0c");
        message.extend_from_slice(&rtype.to_be_bytes());
        message.extend_from_slice(&[0, 1, 0, 0, 0, 9]);
        message.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        message.extend_from_slice(rdata);
        let (record, _) = Record::read(&message, 21).expect("a record");
        canonical(&message, &record)
    }

    #[test]
    fn names_are_found_in_data() {
        let pointer = b"\x01A\xc0\x0c";
        let name = b"\x01a\x07example\0";
        for (rtype, before, after) in [
            (2, &b""[..], &b""[..]),
            (15, b"AB", b""),
            (33, b"ABCDEF", b""),
            (47, b"", b"\0\x01\x40"),
            (65, b"\0\x01", b"\0\x01\0\x03\x02h2"),
            (35, b"ABCD\x01S\x00\x02!X", b""),
            (46, b"ABCDEFGHIJKLMNOPQR", b"SIG"),
        ] {
            let wanted = [before, name, after].concat();
            assert_eq!(of(rtype, &[before, pointer, after].concat()), Some(wanted), "{rtype}");
        }
        assert_eq!(
            of(6, b"\xc0\x0c\xc0\x0cREST"),
            Some(b"\x07example\0\x07example\0REST".to_vec())
        );
        // Texts and addresses stay as they are, also if they look like names.
        assert_eq!(of(16, b"\x01A\xc0\x0c"), Some(b"\x01A\xc0\x0c".to_vec()));
        assert_eq!(of(Qtype::A.0, &[192, 12, 0, 1]), Some(vec![192, 12, 0, 1]));
    }

    #[test]
    fn names_beyond_the_data_are_malformed() {
        for (rtype, rdata) in
            [(2, &b""[..]), (2, b"\x05ab"), (15, b"A"), (6, b"\xc0\x0c"), (35, b"ABCD\x09")]
        {
            let found = of(rtype, rdata);
            // NAPTR without its texts has no name to find; its octets are compared.
            assert_eq!(found.is_none(), rtype != 35, "{rtype}: {found:?}");
        }
    }

    #[test]
    fn times_and_octets_of_signatures_are_left_out() {
        let of = |times: &[u8; 8], signature: &[u8]| {
            signature_key(
                &[b"\0\x01\x08\x02\0\0\0\x09", &times[..], b"\x12\x34\x01a\0", signature].concat(),
            )
        };
        assert_eq!(of(b"........", b"x"), of(b"--------", b"yz"));
        assert_eq!(signature_key(b"short"), b"short");
    }
}
