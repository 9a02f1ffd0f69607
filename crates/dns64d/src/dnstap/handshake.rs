//! The handshake of frame streams over a bidirectional transport: READY, ACCEPT, START; and at the end STOP, FINISH
//! (<https://farsightsec.github.io/fstrm/>).
//!
//! A control frame is an escape (four zero octets), its length and its content: a type, and fields with type and length.

use std::io::{self, Read, Write};

/// Content type of dnstap.
const CONTENT: &[u8] = b"protobuf:dnstap.Dnstap";
/// Type of the field that has the content type.
const CONTENT_TYPE: u32 = 1;
/// Longest control frame, in octets.
const MAX_CONTROL: usize = 512;

/// Types of control frames.
const ACCEPT: u32 = 1;
const START: u32 = 2;
const STOP: u32 = 3;
const READY: u32 = 4;

/// Offers the content type, waits until the reader accepts it, and begins.
///
/// # Errors
/// Errors of the stream, or a reader that does not accept the content type.
pub(super) fn start(stream: &mut (impl Read + Write)) -> io::Result<()> {
    stream.write_all(&control(READY, Some(CONTENT)))?;
    let answer = read_control(stream)?;
    if !accepts(&answer) {
        return Err(io::Error::other("it does not accept protobuf:dnstap.Dnstap"));
    }
    stream.write_all(&control(START, Some(CONTENT)))
}

/// Ends the stream, and waits until the reader has taken all.
///
/// # Errors
/// Errors of the stream.
pub(super) fn finish(stream: &mut (impl Read + Write)) -> io::Result<()> {
    stream.write_all(&control(STOP, None))?;
    read_control(stream).map(drop)
}

/// Makes a control frame.
fn control(kind: u32, content: Option<&[u8]>) -> Vec<u8> {
    let mut body = kind.to_be_bytes().to_vec();
    if let Some(content) = content {
        body.extend_from_slice(&CONTENT_TYPE.to_be_bytes());
        body.extend_from_slice(&(content.len() as u32).to_be_bytes());
        body.extend_from_slice(content);
    }
    [&[0; 4][..], &(body.len() as u32).to_be_bytes(), &body].concat()
}

/// Reads the content of a control frame.
fn read_control(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut escape, mut len) = ([0; 4], [0; 4]);
    stream.read_exact(&mut escape)?;
    stream.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len) as usize;
    if escape != [0; 4] || len > MAX_CONTROL {
        return Err(io::Error::other("it does not speak frame streams"));
    }
    let mut body = vec![0; len];
    stream.read_exact(&mut body)?;
    Ok(body)
}

/// Returns whether a control frame accepts our content type; one without a content type accepts any.
fn accepts(body: &[u8]) -> bool {
    let Some((kind, mut rest)) = body.split_first_chunk() else { return false };
    let mut named = false;
    while let Some((field, after)) = rest.split_first_chunk() {
        let Some((len, after)) = after.split_first_chunk() else { return false };
        let len = u32::from_be_bytes(*len) as usize;
        let Some((content, after)) = after.split_at_checked(len) else { return false };
        if u32::from_be_bytes(*field) == CONTENT_TYPE {
            if content == CONTENT {
                return u32::from_be_bytes(*kind) == ACCEPT;
            }
            named = true;
        }
        rest = after;
    }
    u32::from_be_bytes(*kind) == ACCEPT && !named && rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_reader_accepts_our_content_type_or_any() {
        let body = |kind, content| control(kind, content)[8..].to_vec();
        assert!(accepts(&body(ACCEPT, Some(CONTENT))) && accepts(&body(ACCEPT, None)));
        assert!(!accepts(&body(ACCEPT, Some(b"other"))) && !accepts(&body(STOP, Some(CONTENT))));
        let two = [body(ACCEPT, Some(b"other")), body(ACCEPT, Some(CONTENT))[4..].to_vec()];
        assert!(accepts(&two.concat()));
    }

    proptest! {
        #[test]
        fn any_answer_is_accepted_or_not(body in prop::collection::vec(any::<u8>(), 0..60), cut in 0usize..40) {
            accepts(&body);
            let right = &control(ACCEPT, Some(CONTENT))[8..];
            let cut = cut.min(right.len());
            prop_assert_eq!(accepts(&right[..cut]), cut == 4 || cut == right.len());
            let mut stream = &body[..];
            prop_assert!(read_control(&mut stream).is_err() || body.starts_with(&[0; 4]));
        }
    }
}
