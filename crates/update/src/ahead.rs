//! Signatures made before the messages are sent, for a load that sends each of them often, with
//! other ids (RFC 8945): a signature covers the id of the message, and contains it.
//!
//! The algorithms are those of dnsperf; HMAC-MD5 and HMAC-SHA224, which [`crate::Key`] does not have, are only good for a
//! test.

use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};
use wire::Name;

use crate::Update;
use crate::tsig::{KeyError, key_parts};

/// Seconds that a signature is valid before and after its time: 18 hours.
const FUDGE_S: u16 = u16::MAX;
const TYPE_TSIG: u16 = 250;
const CLASS_ANY: u16 = 255;
/// Offset of the number of additional records in a header.
const ADDITIONAL_AT: usize = 10;

/// Makes the HMAC of a message with a secret.
type MakeMac = fn(&[u8], &[u8]) -> Vec<u8>;

/// The algorithms: the word in arguments, the name in messages, and the function.
const ALGORITHMS: [(&str, &str, MakeMac); 6] = [
    ("hmac-md5", "hmac-md5.sig-alg.reg.int", mac::<Hmac<Md5>>),
    ("hmac-sha1", "hmac-sha1", mac::<Hmac<Sha1>>),
    ("hmac-sha224", "hmac-sha224", mac::<Hmac<Sha224>>),
    ("hmac-sha256", "hmac-sha256", mac::<Hmac<Sha256>>),
    ("hmac-sha384", "hmac-sha384", mac::<Hmac<Sha384>>),
    ("hmac-sha512", "hmac-sha512", mac::<Hmac<Sha512>>),
];

fn mac<M: Mac + KeyInit>(secret: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

/// A key for signatures of messages that are sent later.
#[derive(Clone, Debug)]
pub struct AheadKey {
    /// Names of the key and of the algorithm, in wire form and in lower case.
    name: Vec<u8>,
    algorithm: Vec<u8>,
    mac: MakeMac,
    secret: Vec<u8>,
}

impl FromStr for AheadKey {
    type Err = KeyError;

    /// Reads `[ALGORITHM:]NAME:SECRET`, as dnsperf does; the default algorithm is HMAC-MD5.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let [algorithm, name, secret] = key_parts(text, "hmac-md5")?;
        let (_, wire_name, mac) = ALGORITHMS
            .into_iter()
            .find(|(word, ..)| word.eq_ignore_ascii_case(algorithm.trim_end_matches('.')))
            .ok_or_else(|| KeyError::AheadAlgorithm(algorithm.to_owned()))?;
        let wire = |name: &str| {
            let name: Option<Name> = name.parse().ok();
            name.map(|name| name.as_wire().to_ascii_lowercase())
        };
        Ok(AheadKey {
            name: wire(name).ok_or_else(|| KeyError::Name(name.to_owned()))?,
            algorithm: wire(wire_name).ok_or_else(|| KeyError::Name(wire_name.to_owned()))?,
            mac,
            secret: domain::utils::base64::decode(secret)
                .map_err(|_| KeyError::Secret(name.to_owned()))?,
        })
    }
}

impl AheadKey {
    /// Signs an update, with a time in seconds since 1970.
    pub fn sign_update(&self, update: &Update, now_s: u64) -> Vec<u8> {
        self.sign(update.to_wire(0), now_s)
    }

    /// Signs a message whose id is 0, with a time in seconds since 1970.
    ///
    /// # Panics
    /// If the message is shorter than a header.
    pub fn sign(&self, mut message: Vec<u8>, now_s: u64) -> Vec<u8> {
        let time = &now_s.to_be_bytes()[2..];
        let (class, fudge) = (CLASS_ANY.to_be_bytes(), FUDGE_S.to_be_bytes());
        // Class and TTL; time and fudge; error and length of other data (RFC 8945 section 4.3.3).
        let variables: [&[u8]; 7] =
            [&self.name, &class, &[0; 4], &self.algorithm, time, &fudge, &[0; 4]];
        let mac = (self.mac)(&self.secret, &[&message, &variables.concat()[..]].concat());
        let length = self.algorithm.len() + 6 + 2 + 2 + mac.len() + 2 + 2 + 2;
        let record: [&[u8]; 10] = [
            &self.name,
            &TYPE_TSIG.to_be_bytes(),
            &class,
            &[0; 4],
            &(length as u16).to_be_bytes(),
            &self.algorithm,
            time,
            &fudge,
            &(mac.len() as u16).to_be_bytes(),
            &mac,
        ];
        // The original id, the error, the length of other data.
        message.extend([&record.concat()[..], &[0; 6]].concat());
        let count = u16::from_be_bytes([message[ADDITIONAL_AT], message[ADDITIONAL_AT + 1]]) + 1;
        message[ADDITIONAL_AT..ADDITIONAL_AT + 2].copy_from_slice(&count.to_be_bytes());
        message
    }
}

#[cfg(test)]
mod tests {
    use domain::base::Message;
    use domain::rdata::tsig::Time48;
    use domain::tsig::ServerTransaction;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn signatures_are_valid_for_hours_and_with_other_ids() {
        let query = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01".to_vec();
        let edns = [&query[..10], &[0, 1], &query[12..], &wire::Edns::default().to_opt()].concat();
        for algorithm in ["hmac-sha1", "hmac-sha256", "HMAC-SHA384", "hmac-sha512."] {
            let text = format!("{algorithm}:Lab.Test:c2VjcmV0LXNlY3JldC1zZWNyZXQ=");
            let key: AheadKey = text.parse().expect("a key");
            // The same key, for a server.
            let server: crate::Key = text.parse().expect("a key");
            for (message, records) in [(&query, 1), (&edns, 2)] {
                let signed = key.sign(message.clone(), NOW);
                assert_eq!(signed[11], records);
                let mut request = Message::from_octets(signed).expect("a message");
                request.header_mut().set_id(4_711);
                let later = Time48::from_u64(NOW + 60_000);
                let checked = ServerTransaction::request(&server.shared(), &mut request, later);
                assert!(checked.expect("a valid signature").is_some(), "{algorithm}");
            }
        }
    }

    #[test]
    fn hmac_md5_is_that_of_rfc_2202() {
        let key: AheadKey = "k:Smplc3VzIQ==".parse().expect("a key");
        assert!(key.algorithm.starts_with(b"\x08hmac-md5\x07sig-alg"));
        let wanted = [
            0x75, 0x0c, 0x78, 0x3e, 0x6a, 0xb0, 0xb5, 0x03, 0xea, 0xa8, 0x6e, 0x31, 0x0a, 0x5d,
            0xb7, 0x38,
        ];
        assert_eq!((key.mac)(b"Jefe", b"what do ya want for nothing?"), wanted);
        let (_, _, sha224) = ALGORITHMS[2];
        // RFC 4231 section 4.3.
        let start = [0xa3, 0x0e, 0x01, 0x09, 0x8b, 0xc6, 0xdb, 0xbf, 0x45, 0x69, 0x0f, 0x3a];
        assert_eq!(sha224(b"Jefe", b"what do ya want for nothing?")[..12], start);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for (text, part) in [
            ("lab", "`lab` is not a key"),
            ("hmac-sha3:lab:c2VjcmV0", "`hmac-sha3` is not one of hmac-md5, "),
            ("lab:%%", "the secret of the key lab is not Base64"),
            ("a..b:c2VjcmV0", "`a..b` is not a domain name"),
        ] {
            let error = text.parse::<AheadKey>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
