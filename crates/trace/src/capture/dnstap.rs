//! dnstap in frame streams (`wire::dnstap`, `wire::frame_stream`): messages as a server saw them, each a frame of the pseudo
//! link type [`LINK`].
//!
//! The START frame is the header of the file. A stream without its STOP frame is cut short: its server or its reader was
//! killed. Streams that follow each other (`cat a b`) are one.

use measure::Nanos;
use wire::dnstap::Message;
use wire::frame_stream::{Control, Split, split};

use super::window::{Fault, Window, WindowFrame};

/// The first bytes of a file, with which a control frame begins.
pub(super) const MAGIC: [u8; 4] = [0; 4];
/// The link type of frames that are dnstap: none of the registry.
pub(crate) const LINK: u16 = u16::MAX;

/// A part of a stream.
enum StreamPart {
    Frame(WindowFrame),
    Control,
    /// The end of the stream.
    End,
}

/// The state of a file.
#[derive(Default)]
pub(super) struct Dnstap {
    /// Whether frames may follow: after START, before STOP.
    started: bool,
    /// Time of the last frame; also used for frames without a time.
    last: Nanos,
}

impl Dnstap {
    /// Reads the START frame, with which a frame stream begins.
    pub(super) fn read_header(&mut self, window: &mut Window) -> Result<(), Fault> {
        match self.part(window)? {
            StreamPart::Control if self.started => Ok(()),
            StreamPart::End => Err(Fault::Cut("the file's header")),
            _ => Err(Fault::Damaged("a frame stream that does not begin with START".to_owned())),
        }
    }

    pub(super) fn next(&mut self, window: &mut Window) -> Result<Option<WindowFrame>, Fault> {
        loop {
            match self.part(window)? {
                StreamPart::Frame(found) => return Ok(Some(found)),
                StreamPart::Control => {}
                StreamPart::End if self.started => {
                    return Err(Fault::Cut("a stream of frames, which has no STOP"));
                }
                StreamPart::End => return Ok(None),
            }
        }
    }

    /// Reads the next part of the frame stream.
    fn part(&mut self, window: &mut Window) -> Result<StreamPart, Fault> {
        window.advance();
        let mut needed = 1;
        loop {
            if !window.need(needed)? {
                let ended = window.block().is_empty();
                return if ended { Ok(StreamPart::End) } else { Err(Fault::Cut("a frame")) };
            }
            match split(window.block()).map_err(|why| Fault::Damaged(why.to_string()))? {
                Split::More(more) => needed = more,
                Split::Control { kind, dnstap, len } => {
                    window.spent = len;
                    return self.control(kind, dnstap).map(|()| StreamPart::Control);
                }
                Split::Frame { .. } if !self.started => {
                    return Err(Fault::Damaged("a frame in front of START".to_owned()));
                }
                Split::Frame { octets, len } => {
                    let (frame, start) = (octets.len(), window.at + len - octets.len());
                    self.last = time(octets).unwrap_or(self.last);
                    window.spent = len;
                    let (at, wire_len) = (self.last, frame as u32);
                    return Ok(StreamPart::Frame(WindowFrame {
                        at,
                        link: LINK,
                        wire_len,
                        start,
                        len: frame,
                    }));
                }
            }
        }
    }

    fn control(&mut self, kind: Control, dnstap: bool) -> Result<(), Fault> {
        let wrong = |what: &str| Err(Fault::Damaged(what.to_owned()));
        match kind {
            Control::Start if !dnstap => {
                wrong("frames of another content type than protobuf:dnstap.Dnstap")
            }
            Control::Start if self.started => wrong("a second START frame, without STOP before it"),
            Control::Stop if !self.started => wrong("a STOP frame without START"),
            Control::Start | Control::Stop => {
                self.started = kind == Control::Start;
                Ok(())
            }
            // In a dump of a socket, both sides are not in one stream.
            Control::Ready | Control::Accept | Control::Finish => {
                wrong("a control frame of a connection in a file")
            }
        }
    }
}

/// Returns the time of a frame's query or response, since 1970.
fn time(frame: &[u8]) -> Option<Nanos> {
    let message = Message::read(frame).ok().flatten()?;
    let (query, response) = (message.query_time, message.response_time);
    let at = if message.kind.is_query() { query.or(response) } else { response.or(query) }?;
    // Times after the year 2554 do not fit.
    Some(Nanos(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)))
}
