//! Signatures of requests and replies with a shared key (RFC 8945), by the `domain` crate.

use std::str::FromStr;
use std::sync::Arc;

use domain::base::iana::{Opcode, Rcode};
use domain::base::message_builder::{AdditionalBuilder, MessageBuilder};
use domain::base::question::ComposeQuestion;
use domain::base::record::ComposeRecord;
use domain::base::wire::Composer;
use domain::base::{Message, Name};
use domain::rdata::tsig::Time48;
use domain::tsig::{Algorithm, ClientTransaction, KeyName, ValidationError};
use serde::{Deserialize, Serialize};

use crate::Update;

/// A key that is shared with a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key {
    key: Arc<domain::tsig::Key>,
    name: String,
    algorithm: String,
    secret: String,
}

/// The reason why a text is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text does not have the form of a key.
    #[error("`{0}` is not a key: write [ALGORITHM:]NAME:SECRET, such as hmac-sha256:lab:c2VjcmV0")]
    Form(String),
    /// The algorithm is not supported.
    #[error(
        "`{0}` is not a supported algorithm: write hmac-sha1, hmac-sha256, hmac-sha384 or hmac-sha512"
    )]
    Algorithm(String),
    /// The algorithm cannot be used for messages that are signed ahead.
    #[error(
        "`{0}` is not one of hmac-md5, hmac-sha1, hmac-sha224, hmac-sha256, hmac-sha384 and hmac-sha512"
    )]
    AheadAlgorithm(String),
    /// The name is not a domain name.
    #[error("the key name `{0}` is not a domain name")]
    Name(String),
    /// The secret is not Base64.
    #[error("the secret of the key {0} is not Base64")]
    Secret(String),
    /// The file contains no key.
    #[error("the file contains no `key NAME {{ algorithm ...; secret ...; }};`")]
    File,
}

/// The reason why a reply is not trusted, or why the server refuses the signature of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TsigError {
    /// The server does not know the key.
    #[error("the server does not know the key (BADKEY): check its name and algorithm")]
    BadKey,
    /// The secret differs from the server's.
    #[error("the server refuses the signature (BADSIG): its key has another secret")]
    BadSignature,
    /// The clocks of client and server differ.
    #[error("the clock of the server differs by more than five minutes (BADTIME)")]
    BadTime,
    /// The reply has no signature.
    #[error("the reply is not signed")]
    Unsigned,
    /// The signature of the reply is not valid.
    #[error("the signature of the reply is not valid")]
    Reply,
    /// The reply is not a valid message.
    #[error("the reply is malformed")]
    Malformed,
}

impl Key {
    /// Returns the name of the key.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the algorithm, such as `hmac-sha256`.
    pub fn algorithm(&self) -> &str {
        &self.algorithm
    }

    /// Returns the secret in Base64.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Reads the text of a key file, in the format of `tsig-keygen` of BIND.
    ///
    /// # Errors
    /// If the text contains no valid key.
    pub fn from_file_text(text: &str) -> Result<Self, KeyError> {
        let words: Vec<&str> = text
            .split(|c: char| c.is_ascii_whitespace() || matches!(c, '"' | ';' | '{' | '}'))
            .filter(|word| !word.is_empty())
            .collect();
        let after = |what: &str| {
            let at = words.iter().position(|word| *word == what)?;
            words.get(at + 1).copied()
        };
        match (after("key"), after("algorithm"), after("secret")) {
            (Some(name), Some(algorithm), Some(secret)) => {
                format!("{algorithm}:{name}:{secret}").parse()
            }
            _ => Err(KeyError::File),
        }
    }

    /// Signs an update; returns the message to send, and the state to check the reply with.
    pub fn sign(&self, update: &Update, id: u16, now_s: u64) -> (Vec<u8>, Signed) {
        let mut message = raw_message(update, id);
        let (key, now) = (self.key.clone(), Time48::from_u64(now_s));
        let signed = ClientTransaction::request_with_fudge(key, &mut message, now, FUDGE_S)
            .expect("the message leaves room for its signature");
        (message.finish(), Signed(signed))
    }

    /// Returns the key of the library.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> Arc<domain::tsig::Key> {
        self.key.clone()
    }
}

/// Seconds that the clocks of client and server may differ (RFC 8945 section 10).
const FUDGE_S: u16 = 300;
/// Why adding to a message does not fail.
const VEC_HAS_ROOM: &str = "a Vec has room for a message";

/// The state of a signed request, to check its reply.
#[derive(Clone, Debug)]
pub struct Signed(ClientTransaction<Arc<domain::tsig::Key>>);

impl Signed {
    /// Checks the signature of a reply and returns its RCODE.
    ///
    /// # Errors
    /// If the server refuses the signature of the request, or the signature of the reply is not valid.
    pub fn check(&self, reply: &[u8], now_s: u64) -> Result<u8, TsigError> {
        let mut message = Message::from_octets(reply.to_vec()).map_err(|_| TsigError::Malformed)?;
        match self.0.answer(&mut message, Time48::from_u64(now_s)) {
            Ok(()) => Ok(message.header().rcode().to_int()),
            Err(ValidationError::ServerBadKey) => Err(TsigError::BadKey),
            Err(ValidationError::ServerBadSig) => Err(TsigError::BadSignature),
            Err(ValidationError::ServerBadTime { .. } | ValidationError::BadTime) => {
                Err(TsigError::BadTime)
            }
            // A server that refuses a request without checking its signature does not sign the reply.
            Err(ValidationError::ServerUnsigned) => match message.header().rcode() {
                Rcode::NOERROR => Err(TsigError::Unsigned),
                rcode => Ok(rcode.to_int()),
            },
            Err(ValidationError::FormErr) => Err(TsigError::Malformed),
            // NOTAUTH means that the server refuses the signature, even if its TSIG record has no
            // error.
            Err(_) if message.header().rcode() == Rcode::NOTAUTH => Err(TsigError::BadSignature),
            Err(_) => Err(TsigError::Reply),
        }
    }
}

impl TryFrom<String> for Key {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl From<Key> for String {
    fn from(Key { algorithm, name, secret, .. }: Key) -> Self {
        format!("{algorithm}:{name}:{secret}")
    }
}

/// Splits `[ALGORITHM:]NAME:SECRET` into its parts; `algorithm` is the default.
pub(crate) fn key_parts<'t>(text: &'t str, algorithm: &'t str) -> Result<[&'t str; 3], KeyError> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [name, secret] => Ok([algorithm, name, secret]),
        [algorithm, name, secret] => Ok([algorithm, name, secret]),
        // The message must not contain the secret.
        _ => Err(KeyError::Form(parts.first().copied().unwrap_or_default().to_owned())),
    }
}

impl FromStr for Key {
    type Err = KeyError;

    /// Reads `[ALGORITHM:]NAME:SECRET`, as dig and nsupdate do; the default algorithm is HMAC-SHA256.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let [algorithm, name, secret] = key_parts(text, "hmac-sha256")?;
        let kind = match algorithm.to_ascii_lowercase().trim_end_matches('.') {
            "hmac-sha1" => Algorithm::Sha1,
            "hmac-sha256" => Algorithm::Sha256,
            "hmac-sha384" => Algorithm::Sha384,
            "hmac-sha512" => Algorithm::Sha512,
            _ => return Err(KeyError::Algorithm(algorithm.to_owned())),
        };
        let octets = domain::utils::base64::decode::<Vec<u8>>(secret)
            .map_err(|_| KeyError::Secret(name.to_owned()))?;
        let key_name: KeyName = Name::<Vec<u8>>::from_str(name)
            .ok()
            .and_then(|name| KeyName::from_octets(name.as_slice().try_into().ok()?).ok())
            .ok_or_else(|| KeyError::Name(name.to_owned()))?;
        let key = domain::tsig::Key::new(kind, &octets, key_name, None, None)
            .map_err(|_| KeyError::Secret(name.to_owned()))?;
        let (name, secret) = (name.to_owned(), secret.to_owned());
        Ok(Key { key: Arc::new(key), name, algorithm: algorithm.to_ascii_lowercase(), secret })
    }
}

/// Octets that are copied into a message unchanged.
struct Raw<'a>(&'a [u8]);

impl ComposeQuestion for Raw<'_> {
    fn compose_question<T: Composer + ?Sized>(&self, target: &mut T) -> Result<(), T::AppendError> {
        target.append_slice(self.0)
    }
}

impl ComposeRecord for Raw<'_> {
    fn compose_record<T: Composer + ?Sized>(&self, target: &mut T) -> Result<(), T::AppendError> {
        target.append_slice(self.0)
    }
}

/// Returns the update as a message of the `domain` crate, which can sign it.
fn raw_message(update: &Update, id: u16) -> AdditionalBuilder<Vec<u8>> {
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(id);
    builder.header_mut().set_opcode(Opcode::UPDATE);
    let mut question = builder.question();
    question.push(Raw(&update.zone_section())).expect(VEC_HAS_ROOM);
    let mut answer = question.answer();
    for record in update.raw_prerequisites() {
        answer.push(Raw(record)).expect(VEC_HAS_ROOM);
    }
    let mut authority = answer.authority();
    for record in update.raw_operations() {
        authority.push(Raw(record)).expect(VEC_HAS_ROOM);
    }
    authority.additional()
}

#[cfg(test)]
mod tests {
    use domain::tsig::ServerTransaction;
    use proptest::prelude::*;

    use super::*;
    use crate::message::{Operation, Prerequisite};

    const KEY: &str = "hmac-sha256:lab:c2VjcmV0LXNlY3JldC1zZWNyZXQ=";
    const NOW: u64 = 1_800_000_000;

    fn update() -> Update {
        let mut update = Update::new("test".parse().unwrap());
        update.require(b"\x01a\x04test\0", Prerequisite::NameAbsent).unwrap();
        let data = [192, 0, 2, 1];
        update.push(b"\x01a\x04test\0", Operation::Add { rtype: 1, ttl: 60, data: &data }).unwrap();
        update
    }

    proptest! {
        #[test]
        fn any_text_is_a_key_or_refused(
            text in "((hmac-sha(1|256)|\\PC{0,9})\\.?:)?[a-z.]{0,6}:[A-Za-z0-9+/=]{0,12}|\\PC{0,30}"
        ) {
            let _ = (text.parse::<crate::AheadKey>(), Key::from_file_text(&text));
            if let Ok(key) = text.parse::<Key>() {
                let parts = format!("{}:{}:{}", key.algorithm(), key.name(), key.secret());
                let again: Key = parts.parse().expect("a key");
                prop_assert_eq!(again.sign(&update(), 7, NOW).0, key.sign(&update(), 7, NOW).0);
            }
        }

        #[test]
        fn other_octets_are_no_signed_reply(
            reply in prop::collection::vec(any::<u8>(), 0..200), at: prop::sample::Index, octet: u8
        ) {
            let key: Key = KEY.parse().unwrap();
            let (mut wire, signed) = key.sign(&update(), 77, NOW);
            prop_assert!(!matches!(signed.check(&reply, NOW), Ok(0)));
            // Nor is the request itself, changed or not.
            let at = at.index(wire.len());
            wire[at] = octet;
            prop_assert!(!matches!(signed.check(&wire, NOW), Ok(0)));
        }
    }

    #[test]
    fn signatures_of_request_and_reply_are_checked() {
        let key: Key = KEY.parse().unwrap();
        let (wire, signed) = key.sign(&update(), 77, NOW);
        let plain = update().to_wire(77);
        assert_eq!(wire[12..plain.len()], plain[12..]);
        assert_eq!(wire[..11], plain[..11]);
        assert_eq!(wire[11], 1, "one additional record, the signature");

        let mut request = Message::from_octets(wire).unwrap();
        let now = Time48::from_u64(NOW);
        let server = ServerTransaction::request(&key.key, &mut request, now).unwrap().unwrap();
        let reply = MessageBuilder::new_vec().start_answer(&request, Rcode::YXDOMAIN).unwrap();
        let mut reply = reply.additional();
        server.answer(&mut reply, now).unwrap();
        let reply = reply.finish();
        assert_eq!(signed.check(&reply, NOW), Ok(6));
        let mut forged = reply.clone();
        forged[3] &= 0xf0;
        assert_eq!(signed.check(&forged, NOW), Err(TsigError::Reply));
        assert_eq!(signed.check(&reply, NOW + 3_600), Err(TsigError::BadTime));
        assert_eq!(signed.check(&reply[..11], NOW), Err(TsigError::Malformed));
        let bare = MessageBuilder::new_vec().start_answer(&request, Rcode::NOERROR).unwrap();
        assert_eq!(signed.check(&bare.finish(), NOW), Err(TsigError::Unsigned));
        let refused = MessageBuilder::new_vec().start_answer(&request, Rcode::REFUSED).unwrap();
        assert_eq!(signed.check(&refused.finish(), NOW), Ok(5));
    }

    #[test]
    fn a_server_refuses_a_wrong_key() {
        let client_key: Key = KEY.parse().unwrap();
        for (server_key, error) in [
            ("hmac-sha256:other:c2VjcmV0LXNlY3JldC1zZWNyZXQ=", TsigError::BadKey),
            ("hmac-sha256:lab:b3RoZXItb3RoZXItb3RoZXI=", TsigError::BadSignature),
        ] {
            let (wire, signed) = client_key.sign(&update(), 1, NOW);
            let server_key: Key = server_key.parse().unwrap();
            let mut request = Message::from_octets(wire).unwrap();
            let refused =
                ServerTransaction::request(&server_key.key, &mut request, Time48::from_u64(NOW));
            let reply = refused.unwrap_err().build_message(&request, MessageBuilder::new_vec());
            assert_eq!(signed.check(&reply.unwrap().finish(), NOW), Err(error));
        }
    }

    #[test]
    fn keys_are_read() {
        let file = "key \"lab\" {\n\talgorithm hmac-sha512;\n\tsecret \"c2VjcmV0\";\n};\n";
        let key = Key::from_file_text(file).unwrap();
        assert_eq!((key.name(), key.algorithm(), key.secret()), ("lab", "hmac-sha512", "c2VjcmV0"));
        assert_eq!("lab:c2VjcmV0".parse::<Key>().unwrap().algorithm(), "hmac-sha256");
        for (text, part) in [
            ("lab", "`lab` is not a key"),
            ("hmac-md5:lab:c2VjcmV0", "`hmac-md5` is not a supported algorithm"),
            ("hmac-sha1:a..b:c2VjcmV0", "`a..b` is not a domain name"),
            ("lab:%%", "the secret of the key lab is not Base64"),
            ("a:b:c:SECRET", "`a` is not a key"),
        ] {
            let error = text.parse::<Key>().unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("SECRET:"), "{error}");
        }
        assert_eq!(Key::from_file_text("key lab {").unwrap_err(), KeyError::File);
    }
}
