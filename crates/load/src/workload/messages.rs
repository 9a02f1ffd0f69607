//! Files of whole DNS messages, as they are on a TCP connection and as dnsperf reads them with `-B`.
//!
//! ```text
//! messages.bin    length (2) | message ...        each message with its length in front, in network byte order
//! ```
//!
//! Each message is sent as it is, except for its id. A reply is valid if it has the question of its query and an expected
//! return code; a message without a readable question, or of another opcode than QUERY, only needs a response with an expected
//! return code.

use std::io::{self, BufReader, Read};
use std::path::Path;

use wire::message::{HEADER, Header};
use wire::{Expect, Invalid, reply};

use super::expected::check_by_hash;
use super::read::{QueryFileError, RecordReceiver};

/// Key of messages whose replies need no question.
const ANY_QUESTION: u32 = 0;
/// Mask of the opcode in the flags of a header, and the bit of a response.
const OPCODE_MASK: u16 = 0x7800;
const QR: u16 = 0x8000;

/// Reads the messages of `input` of at most `most` octets into `records`.
pub(super) fn read(
    mut input: BufReader<impl Read>,
    path: &Path,
    most: usize,
    records: &mut impl RecordReceiver,
) -> Result<(), QueryFileError> {
    let (mut number, mut offset, mut message) = (0, 0, vec![0; most]);
    loop {
        number += 1;
        let bad =
            |why: String| QueryFileError::BadMessage { path: path.to_owned(), number, offset, why };
        let unreadable = |source: io::Error| match source.kind() {
            io::ErrorKind::UnexpectedEof => bad("the file ends within this message".to_owned()),
            _ => QueryFileError::Unreadable(path.to_owned(), source),
        };
        if input.buffer().is_empty() {
            records.pause()?;
        }
        let mut length = [0; 2];
        match input.read(&mut length[..1]).map_err(unreadable)? {
            0 => return Ok(()),
            _ => input.read_exact(&mut length[1..]).map_err(unreadable)?,
        }
        let length = usize::from(u16::from_be_bytes(length));
        let Some(message) = message.get_mut(..length).filter(|message| message.len() >= 2) else {
            return Err(bad(format!("it has {length} octets, not 2 to {most}")));
        };
        input.read_exact(message).map_err(unreadable)?;
        records.push(key(message), message)?;
        offset += 2 + length as u64;
    }
}

/// Returns the key of a message in its workload: the hash of a query's question; one number for all other messages.
pub fn key(message: &[u8]) -> u32 {
    let query = Header::read(message).is_some_and(|header| header.flags & (OPCODE_MASK | QR) == 0);
    let question = reply::question(message).filter(|_| query);
    question.map_or(ANY_QUESTION, reply::question_hash)
}

/// Validates a reply to a message with `key`.
pub(crate) fn check(key: u32, message: &[u8], expect: &Expect) -> Result<u8, Invalid> {
    if key != ANY_QUESTION {
        return check_by_hash(key, u32::MAX, message, expect);
    }
    let header = Header::read(message).ok_or(Invalid::Malformed)?;
    if message.len() < HEADER || header.flags & QR == 0 {
        return Err(Invalid::NotResponse);
    }
    match (header.flags & 15) as u8 {
        rcode if expect.accepts(rcode) => Ok(rcode),
        rcode => Err(Invalid::Rcode(rcode)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::file::{Content, QueryFile, QueryOptions};
    use super::super::{MAX_QUERY, Workload};
    use super::*;

    const QUERY: &[u8] = b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
    const UPDATE: &[u8] = b"\x12\x34\x28\x00\0\x01\0\0\0\0\0\0\x01a\0\0\x06\0\x01";

    fn framed(messages: &[&[u8]]) -> Vec<u8> {
        let frame = |m: &&[u8]| [&(m.len() as u16).to_be_bytes(), *m].concat();
        messages.iter().flat_map(frame).collect()
    }

    fn compile(bytes: &[u8]) -> Result<QueryFile, QueryFileError> {
        QueryFile::compile(bytes, Path::new("m.bin"), Content::Messages { most: 512 })
    }

    fn options() -> QueryOptions {
        QueryOptions { runs: Some(1), ..QueryOptions::default() }
    }

    #[test]
    fn messages_are_sent_as_they_are_and_replies_checked() {
        let file = compile(&framed(&[QUERY, UPDATE, b"\xff\xff"])).expect("messages");
        let mut stream = file.workload(0, 1, options());
        let mut out = [0; MAX_QUERY];
        let mut keys = Vec::new();
        for sent in [QUERY, UPDATE, b"\xff\xff"] {
            let composed = stream.next(&mut out).expect("a message");
            assert_eq!(&out[..composed.len], sent);
            keys.push(composed.key);
        }
        assert_eq!(stream.next(&mut out), None);
        let reply = |message: &[u8], rcode: u8| {
            let mut reply = message.to_vec();
            (reply[2], reply[3]) = (reply[2] | 0x80, rcode);
            reply
        };
        assert_eq!(stream.check(keys[0], &reply(QUERY, 3)), Ok(3));
        assert_eq!(stream.check(keys[0], &reply(UPDATE, 0)), Err(Invalid::WrongQuestion));
        assert_eq!(stream.check(keys[1], &reply(UPDATE, 0)), Ok(0));
        assert_eq!(stream.check(keys[1], &reply(UPDATE, 5)), Err(Invalid::Rcode(5)));
        assert_eq!(stream.check(keys[1], UPDATE), Err(Invalid::NotResponse));
        assert_eq!(stream.check(keys[2], b"\0"), Err(Invalid::Malformed));
    }

    #[test]
    fn errors_name_number_and_position() {
        let long = [0; 600];
        for (bytes, why) in [
            (
                framed(&[QUERY, &long]),
                "m.bin: message 2, at octet 21: it has 600 octets, not 2 to 512",
            ),
            (
                framed(&[QUERY])[..20].to_vec(),
                "m.bin: message 1, at octet 0: the file ends within this message",
            ),
            (vec![0], "m.bin: message 1, at octet 0: the file ends within this message"),
            (framed(&[b"x"]), "m.bin: message 1, at octet 0: it has 1 octets"),
            (Vec::new(), "m.bin: the file has no query"),
        ] {
            let error = compile(&bytes).expect_err(why).to_string();
            assert!(error.starts_with(why), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, reply: Vec<u8>) {
            if let Ok(file) = compile(&bytes) {
                let (mut stream, mut out) = (file.workload(0, 1, options()), [0; MAX_QUERY]);
                while let Some(composed) = stream.next(&mut out) {
                    let _ = stream.check(composed.key, &reply);
                }
            }
        }
    }
}
