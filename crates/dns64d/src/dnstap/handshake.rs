//! The handshake of frame streams over a bidirectional transport: READY, ACCEPT, START; and at the end STOP, FINISH
//! (`wire::frame_stream`).

use std::io::{self, Read, Write};

use wire::frame_stream::{Control, Split, split};

/// Offers the content type of dnstap, waits until the reader accepts it, and begins.
///
/// # Errors
/// Errors of the stream, or a reader that does not accept the content type.
pub(super) fn start(stream: &mut (impl Read + Write)) -> io::Result<()> {
    stream.write_all(&Control::Ready.frame())?;
    if !matches!(read_control(stream)?, (Control::Accept, true)) {
        return Err(io::Error::other("it does not accept protobuf:dnstap.Dnstap"));
    }
    stream.write_all(&Control::Start.frame())
}

/// Ends the stream, and waits until the reader has read all frames.
///
/// # Errors
/// Errors of the stream.
pub(super) fn finish(stream: &mut (impl Read + Write)) -> io::Result<()> {
    stream.write_all(&Control::Stop.frame())?;
    read_control(stream).map(drop)
}

/// Reads a control frame: its kind, and whether it permits dnstap.
fn read_control(stream: &mut impl Read) -> io::Result<(Control, bool)> {
    let wrong = || io::Error::other("it does not speak frame streams");
    let mut octets = Vec::new();
    loop {
        match split(&octets).map_err(|_| wrong())? {
            Split::Control { kind, dnstap, .. } => return Ok((kind, dnstap)),
            Split::Frame { .. } => return Err(wrong()),
            // A reader sends control frames only: the first four octets are zero.
            Split::More(_) if octets.len() >= 4 && octets[..4] != [0; 4] => return Err(wrong()),
            Split::More(needed) => {
                let have = octets.len();
                octets.resize(needed, 0);
                stream.read_exact(&mut octets[have..])?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_reader_accepts_or_is_refused() {
        let read = |mut octets: &[u8]| read_control(&mut octets);
        assert!(matches!(read(&Control::Accept.frame()), Ok((Control::Accept, true))));
        assert!(matches!(read(&Control::Finish.frame()), Ok((Control::Finish, true))));
        for bad in [&b"HTTP/1.1 400"[..], &[0, 0, 0, 1, 7], &[0; 8], &[]] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..60), cut in 0usize..50) {
            let mut stream = &body[..];
            prop_assert!(read_control(&mut stream).is_err() || body.starts_with(&[0; 4]));
            let right = Control::Accept.frame();
            let mut stream = &right[..cut.min(right.len())];
            prop_assert_eq!(read_control(&mut stream).is_ok(), cut >= right.len());
        }
    }
}
