//! A writer of captures with one packet per message, also for messages over TCP.
//!
//! The format is pcap with nanoseconds and link type RAW. Addresses, ports, times and messages are
//! kept; link layers, handshakes and fragmentation are not. A message over TCP becomes one segment
//! (two if it is too long), and the sequence numbers of a connection have no gaps, so that omitted
//! messages do not look like losses.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep};

use crate::capture::MAX_FRAME;
use crate::messages::{Message, Transport};

/// LINKTYPE_RAW: the frame starts with the IP header.
const RAW: u32 = 101;
/// The hop limit of the packets.
const HOPS: u8 = 64;
/// Largest payload of a datagram in octets; an IPv4 packet has at most 65,535 with its headers.
const MAX_DATAGRAM: usize = 65_507;
/// Largest payload of a TCP segment, in octets.
const MAX_SEGMENT: usize = 65_000;
/// Largest number of connections with a stored sequence number; if there are more, all start again.
const MAX_CONNECTIONS: usize = 1 << 16;

/// A writer of a capture.
pub struct Writer<W: Write> {
    out: W,
    /// The next sequence number of each direction of a connection.
    next: HashMap<(SocketAddr, SocketAddr), u32>,
    packet: Vec<u8>,
    stream: Vec<u8>,
    /// The first error; no message is written after it.
    error: Option<io::Error>,
    /// Number of messages written so far.
    pub messages: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a capture.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&0xa1b2_3c4d_u32.to_le_bytes())?;
        out.write_all(&[2, 0, 4, 0])?;
        out.write_all(&[0; 8])?;
        out.write_all(&(MAX_FRAME as u32).to_le_bytes())?;
        out.write_all(&RAW.to_le_bytes())?;
        Ok(Writer {
            out,
            next: HashMap::new(),
            packet: Vec::new(),
            stream: Vec::new(),
            error: None,
            messages: 0,
        })
    }

    /// Writes a message; an error is kept for [`Writer::finish`], and the messages after it are dropped.
    pub fn write(&mut self, message: &Message<'_>) {
        if self.error.is_some() {
            return;
        }
        let written = match message.transport {
            Transport::Udp => self.datagram(message),
            Transport::Tcp { sequence } => self.segments(message, sequence),
        };
        match written {
            Ok(()) => self.messages += 1,
            Err(error) => self.error = Some(error),
        }
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes a message as a UDP datagram.
    fn datagram(&mut self, message: &Message<'_>) -> io::Result<()> {
        let (source, destination) = (message.source.port(), message.destination.port());
        // Octets that the capture does not have count in the lengths, and are removed again below.
        self.stream.clear();
        let bytes = &message.bytes[..message.bytes.len().min(MAX_DATAGRAM)];
        self.stream.extend_from_slice(bytes);
        self.stream.resize(message.len.clamp(bytes.len(), MAX_DATAGRAM), 0);
        let missing = self.stream.len() - bytes.len();
        self.packet.clear();
        let packet = between(message).udp(source, destination);
        packet.write(&mut self.packet, &self.stream).map_err(io::Error::other)?;
        self.record(message, missing)
    }

    /// Writes a message as one or two TCP segments.
    fn segments(&mut self, message: &Message<'_>, sequence: u32) -> io::Result<()> {
        self.stream.clear();
        self.stream.extend_from_slice(&(message.bytes.len() as u16).to_be_bytes());
        self.stream.extend_from_slice(message.bytes);
        if self.next.len() == MAX_CONNECTIONS {
            self.next.clear();
        }
        let key = (message.source, message.destination);
        let mut at = *self.next.entry(key).or_insert(sequence);
        let stream = std::mem::take(&mut self.stream);
        for part in stream.chunks(MAX_SEGMENT) {
            self.packet.clear();
            let (source, destination) = (message.source.port(), message.destination.port());
            let packet = between(message).tcp(source, destination, at, u16::MAX).ack(0);
            packet.write(&mut self.packet, part).map_err(io::Error::other)?;
            at = at.wrapping_add(part.len() as u32);
            self.record(message, 0)?;
        }
        self.stream = stream;
        self.next.insert(key, at);
        Ok(())
    }

    /// Writes the packet without its last `missing` octets.
    fn record(&mut self, message: &Message<'_>, missing: usize) -> io::Result<()> {
        let captured = &self.packet[..self.packet.len() - missing];
        // A time after the year 2106 does not fit; it becomes the last possible one.
        let seconds = u32::try_from(message.at.0 / 1_000_000_000).unwrap_or(u32::MAX);
        let fraction = (message.at.0 % 1_000_000_000) as u32;
        for word in [seconds, fraction, captured.len() as u32, self.packet.len() as u32] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.write_all(captured)
    }
}

/// Begins a packet between the addresses of a message.
fn between(message: &Message<'_>) -> PacketBuilderStep<IpHeaders> {
    match (message.source.ip(), message.destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), HOPS),
        (from, to) => PacketBuilder::ipv6(octets(from), octets(to), HOPS),
    }
}

/// Returns the octets of an IPv6 address; an IPv4 address becomes an IPv4-mapped one.
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
