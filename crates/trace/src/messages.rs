//! Extraction of DNS messages from frames: from datagrams, fragments and TCP streams.

use std::net::SocketAddr;

use measure::Nanos;

use crate::capture::{Capture, CaptureError, Frame};
use crate::fragments::Fragments;
use crate::packet::{self, Body, Content, Ends};
use crate::tcp::{Segment, Streams, TcpCounts};

/// The transport of a captured message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A datagram.
    Udp,
    /// A TCP stream.
    Tcp {
        /// The sequence number of the length field in front of the message.
        sequence: u32,
    },
}

/// A captured DNS message, not parsed yet.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The number of the frame that completed the message, from 1.
    pub frame: u64,
    /// Time of capture of that frame, since 1970.
    pub at: Nanos,
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// The transport.
    pub transport: Transport,
    /// Whether it was reassembled from IP fragments.
    pub fragmented: bool,
    /// Whether the capture has only the start of the message.
    pub cut: bool,
    /// Length on the wire, in octets.
    pub len: usize,
    /// The captured octets.
    pub bytes: &'a [u8],
}

/// Counts of a capture, without those of its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of frames.
    pub frames: u64,
    /// Length of all frames on the wire, in bytes.
    pub wire_bytes: u64,
    /// Number of frames without IP.
    pub not_ip: u64,
    /// Number of frames of an unknown link type.
    pub unknown_link: u64,
    /// Number of IP packets with malformed headers.
    pub malformed_packets: u64,
    /// Number of IP packets of other protocols and ports.
    pub other_packets: u64,
    /// Number of IP fragments.
    pub fragments: u64,
    /// Number of packets with missing fragments.
    pub unfinished_packets: u64,
    /// Number of messages of which the capture has only the start.
    pub cut_messages: u64,
    /// Counts of TCP to and from the DNS ports.
    pub tcp: TcpCounts,
}

/// A reader of the DNS messages in a capture.
pub struct Messages {
    ports: Vec<u16>,
    counts: Counts,
    fragments: Fragments,
    streams: Streams,
}

impl Messages {
    /// Returns a reader that treats packets to and from `ports` as DNS.
    pub fn new(ports: Vec<u16>) -> Self {
        Messages {
            ports,
            counts: Counts::default(),
            fragments: Fragments::default(),
            streams: Streams::default(),
        }
    }

    /// Reads `capture` to its end and calls `visit` with each message, in the order of completion.
    ///
    /// # Errors
    /// If the capture is cut short or damaged. The messages before that place were visited, and the counts are valid.
    pub fn read(
        &mut self,
        capture: &mut Capture,
        mut visit: impl FnMut(&Message<'_>),
    ) -> Result<(), CaptureError> {
        loop {
            match capture.next_frame() {
                Ok(Some(frame)) => self.frame(&frame, &mut visit),
                Ok(None) => {
                    self.finish(&mut visit);
                    return Ok(());
                }
                Err(error) => {
                    self.finish(&mut visit);
                    return Err(error);
                }
            }
        }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts;
        counts.unfinished_packets = self.fragments.unfinished();
        counts.tcp = self.streams.counts;
        counts
    }

    /// Handles a frame.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>, visit: &mut impl FnMut(&Message<'_>)) {
        self.counts.frames += 1;
        self.counts.wire_bytes += u64::from(frame.wire_len);
        match packet::dissect(frame.link, frame.bytes) {
            Content::Packet(ends, body) => self.packet(frame, ends, &body, false, visit),
            Content::Fragment(ends, part) => {
                self.counts.fragments += 1;
                let Some(joined) = self.fragments.add(ends, &part, frame.at) else { return };
                match packet::joined(joined.protocol, &joined.payload, joined.cut) {
                    Some(body) => self.packet(frame, ends, &body, true, visit),
                    None => self.counts.malformed_packets += 1,
                }
            }
            Content::NotIp => self.counts.not_ip += 1,
            Content::Malformed => self.counts.malformed_packets += 1,
            Content::UnknownLink => self.counts.unknown_link += 1,
        }
    }

    /// Calls `visit` with the messages that are left at the end of the capture.
    pub fn finish(&mut self, visit: &mut impl FnMut(&Message<'_>)) {
        let frame = self.counts.frames;
        self.streams.finish(|at, source, destination, sequence, bytes| {
            let transport = Transport::Tcp { sequence };
            visit(&Message {
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

    /// Returns whether packets between these ports count as DNS.
    #[inline]
    fn is_dns(&self, source: u16, destination: u16) -> bool {
        self.ports.contains(&destination) || self.ports.contains(&source)
    }

    /// Handles a whole packet.
    #[inline]
    fn packet(
        &mut self,
        frame: &Frame<'_>,
        ends: Ends,
        body: &Body<'_>,
        fragmented: bool,
        visit: &mut impl FnMut(&Message<'_>),
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
                visit(&Message {
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
                    // A segment that is cut short counts as a gap.
                    payload: if cut { &[] } else { segment.payload() },
                };
                self.counts.cut_messages += u64::from(cut);
                let (frame, at) = (frame.number, frame.at);
                self.streams.add(&part, at, |sequence, bytes| {
                    let transport = Transport::Tcp { sequence };
                    visit(&Message {
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
