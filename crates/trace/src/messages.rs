//! From frames to DNS messages, whatever they came in: datagrams, fragments, TCP streams.

use std::net::SocketAddr;

use measure::Nanos;

use crate::capture::{Capture, CaptureError, Frame};
use crate::fragments::Fragments;
use crate::packet::{self, Body, Content, Ends};
use crate::tcp::{Segment, Streams, TcpCounts};

/// The port of DNS.
pub const DNS_PORT: u16 = 53;

/// What carried a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A datagram.
    Udp,
    /// A stream; the message's length stands at this sequence number.
    Tcp {
        /// Of the first octet of the length.
        sequence: u32,
    },
}

/// A DNS message, or what was sent as one: nothing in it has been looked at.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The frame that completed it, from 1.
    pub frame: u64,
    /// When that was caught, since 1970.
    pub at: Nanos,
    /// Who sent it.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
    /// In what.
    pub transport: Transport,
    /// Whether it was put together from IP fragments.
    pub fragmented: bool,
    /// Whether the capture holds its beginning only.
    pub cut: bool,
    /// How long it was on the wire, octets.
    pub len: usize,
    /// The message, or what was caught of it.
    pub bytes: &'a [u8],
}

/// What was seen in a capture, beside messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames.
    pub frames: u64,
    /// Bytes of frames on the wire.
    pub wire_bytes: u64,
    /// Frames that hold no IP.
    pub not_ip: u64,
    /// Frames of an unknown link type.
    pub unknown_link: u64,
    /// IP packets whose headers cannot be read.
    pub malformed_packets: u64,
    /// IP packets of other protocols and ports.
    pub other_packets: u64,
    /// IP fragments.
    pub fragments: u64,
    /// Packets whose fragments did not all come.
    pub unfinished_packets: u64,
    /// Messages of which the capture holds the beginning only.
    pub cut_messages: u64,
    /// TCP to and from the ports of DNS.
    pub tcp: TcpCounts,
}

/// Reads the DNS messages of a capture.
pub struct Messages {
    ports: Vec<u16>,
    counts: Counts,
    fragments: Fragments,
    streams: Streams,
}

impl Messages {
    /// Takes what goes to or comes from one of `ports` for DNS.
    pub fn new(ports: Vec<u16>) -> Self {
        Messages {
            ports,
            counts: Counts::default(),
            fragments: Fragments::default(),
            streams: Streams::default(),
        }
    }

    /// Reads `capture` to its end and gives every message to `each`, in the order they became whole.
    ///
    /// # Errors
    /// Where the capture is cut or damaged. What stands before that was given out, and the counts stand.
    pub fn read(
        &mut self,
        capture: &mut Capture,
        mut each: impl FnMut(&Message<'_>),
    ) -> Result<(), CaptureError> {
        loop {
            match capture.next_frame() {
                Ok(Some(frame)) => self.frame(&frame, &mut each),
                Ok(None) => {
                    self.finish(&mut each);
                    return Ok(());
                }
                Err(error) => {
                    self.finish(&mut each);
                    return Err(error);
                }
            }
        }
    }

    /// What was seen so far.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts;
        counts.unfinished_packets = self.fragments.unfinished();
        counts.tcp = self.streams.counts;
        counts
    }

    /// Takes a frame.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>, each: &mut impl FnMut(&Message<'_>)) {
        self.counts.frames += 1;
        self.counts.wire_bytes += u64::from(frame.wire_len);
        match packet::dissect(frame.link, frame.bytes) {
            Content::Packet(ends, body) => self.packet(frame, ends, &body, false, each),
            Content::Fragment(ends, part) => {
                self.counts.fragments += 1;
                let Some(joined) = self.fragments.add(ends, &part, frame.at) else { return };
                match packet::joined(joined.protocol, &joined.payload, joined.cut) {
                    Some(body) => self.packet(frame, ends, &body, true, each),
                    None => self.counts.malformed_packets += 1,
                }
            }
            Content::NotIp => self.counts.not_ip += 1,
            Content::Malformed => self.counts.malformed_packets += 1,
            Content::UnknownLink => self.counts.unknown_link += 1,
        }
    }

    /// Gives out what still waits at the end of the capture.
    pub fn finish(&mut self, each: &mut impl FnMut(&Message<'_>)) {
        let frame = self.counts.frames;
        self.streams.finish(|at, source, destination, sequence, bytes| {
            let transport = Transport::Tcp { sequence };
            each(&Message {
                frame,
                at,
                source,
                destination,
                transport,
                fragmented: false,
                cut: false,
                len: bytes.len(),
                bytes,
            });
        });
    }

    /// Whether packets between these ports are DNS.
    #[inline]
    fn is_dns(&self, source: u16, destination: u16) -> bool {
        self.ports.contains(&destination) || self.ports.contains(&source)
    }

    /// Takes a whole packet.
    #[inline]
    fn packet(
        &mut self,
        frame: &Frame<'_>,
        ends: Ends,
        body: &Body<'_>,
        fragmented: bool,
        each: &mut impl FnMut(&Message<'_>),
    ) {
        let between = |source, destination| {
            (SocketAddr::new(ends.source, source), SocketAddr::new(ends.destination, destination))
        };
        match *body {
            Body::Udp { source, destination, len, payload: bytes, cut }
                if self.is_dns(source, destination) =>
            {
                let (source, destination) = between(source, destination);
                self.counts.cut_messages += u64::from(cut);
                let (frame, at) = (frame.number, frame.at);
                let transport = Transport::Udp;
                each(&Message {
                    frame,
                    at,
                    source,
                    destination,
                    transport,
                    fragmented,
                    cut,
                    len,
                    bytes,
                });
            }
            Body::Tcp { ref segment, cut }
                if self.is_dns(segment.source_port(), segment.destination_port()) =>
            {
                let (source, destination) =
                    between(segment.source_port(), segment.destination_port());
                let part = Segment {
                    source,
                    destination,
                    sequence: segment.sequence_number(),
                    syn: segment.syn(),
                    ack: segment.ack(),
                    fin: segment.fin(),
                    rst: segment.rst(),
                    // Behind a cut segment is a gap.
                    payload: if cut { &[] } else { segment.payload() },
                };
                self.counts.cut_messages += u64::from(cut);
                let (frame, at) = (frame.number, frame.at);
                self.streams.add(&part, at, |sequence, bytes| {
                    let transport = Transport::Tcp { sequence };
                    each(&Message {
                        frame,
                        at,
                        source,
                        destination,
                        transport,
                        fragmented,
                        cut: false,
                        len: bytes.len(),
                        bytes,
                    });
                });
            }
            _ => self.counts.other_packets += 1,
        }
    }
}
