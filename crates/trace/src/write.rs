//! Captures written: one packet for each message, whatever it came in.
//!
//! pcap with nanoseconds, link type RAW: addresses, ports, times and messages are kept; link layers, handshakes and
//! fragmentation are not. A message over TCP is a segment of its own (two if it is too long for one), and the
//! sequence numbers of a connection go on without gaps, so that what was left out does not look lost.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

use etherparse::PacketBuilder;

use crate::capture::MAX_FRAME;
use crate::messages::{Message, Transport};

/// LINKTYPE_RAW: the frame begins with the IP header.
const RAW: u32 = 101;
/// The hop limit of the packets.
const HOPS: u8 = 64;
/// Octets in a datagram at most: an IPv4 packet has 65,535 with its headers.
const MAX_DATAGRAM: usize = 65_507;
/// Octets of a stream in one packet at most.
const MAX_SEGMENT: usize = 65_000;
/// Connections whose sequence numbers are remembered; beyond it all begin anew.
const MAX_CONNECTIONS: usize = 1 << 16;

/// Writes a capture.
pub struct Writer<W: Write> {
    out: W,
    /// The sequence number that each direction of a connection goes on with.
    next: HashMap<(SocketAddr, SocketAddr), u32>,
    packet: Vec<u8>,
    stream: Vec<u8>,
    /// Messages written.
    pub messages: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// Of the output.
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
            messages: 0,
        })
    }

    /// Writes a message.
    ///
    /// # Errors
    /// Of the output.
    pub fn write(&mut self, message: &Message<'_>) -> io::Result<()> {
        self.messages += 1;
        match message.transport {
            Transport::Udp => self.datagram(message),
            Transport::Tcp { sequence } => self.segments(message, sequence),
        }
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// Of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn datagram(&mut self, message: &Message<'_>) -> io::Result<()> {
        let (source, destination) = (message.source.port(), message.destination.port());
        // What a cut capture does not hold counts in the lengths, and is cut again below.
        self.stream.clear();
        let bytes = &message.bytes[..message.bytes.len().min(MAX_DATAGRAM)];
        self.stream.extend_from_slice(bytes);
        self.stream.resize(message.len.clamp(bytes.len(), MAX_DATAGRAM), 0);
        let missing = self.stream.len() - bytes.len();
        self.packet.clear();
        match (message.source.ip(), message.destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                PacketBuilder::ipv4(from.octets(), to.octets(), HOPS)
                    .udp(source, destination)
                    .write(&mut self.packet, &self.stream)
            }
            (from, to) => PacketBuilder::ipv6(octets(from), octets(to), HOPS)
                .udp(source, destination)
                .write(&mut self.packet, &self.stream),
        }
        .map_err(io::Error::other)?;
        self.record(message, missing)
    }

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
            match (message.source.ip(), message.destination.ip()) {
                (IpAddr::V4(from), IpAddr::V4(to)) => {
                    PacketBuilder::ipv4(from.octets(), to.octets(), HOPS)
                        .tcp(source, destination, at, u16::MAX)
                        .ack(0)
                        .write(&mut self.packet, part)
                }
                (from, to) => PacketBuilder::ipv6(octets(from), octets(to), HOPS)
                    .tcp(source, destination, at, u16::MAX)
                    .ack(0)
                    .write(&mut self.packet, part),
            }
            .map_err(io::Error::other)?;
            at = at.wrapping_add(part.len() as u32);
            self.record(message, 0)?;
        }
        self.stream = stream;
        self.next.insert(key, at);
        Ok(())
    }

    /// Writes the packet without its last `missing` octets.
    fn record(&mut self, message: &Message<'_>, missing: usize) -> io::Result<()> {
        let caught = &self.packet[..self.packet.len() - missing];
        // A time beyond the year 2106 does not fit; it is held to that.
        let seconds = u32::try_from(message.at.0 / 1_000_000_000).unwrap_or(u32::MAX);
        let fraction = (message.at.0 % 1_000_000_000) as u32;
        for word in [seconds, fraction, caught.len() as u32, self.packet.len() as u32] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.write_all(caught)
    }
}

/// The address as one of IPv6.
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
