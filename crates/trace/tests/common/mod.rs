//! Captures made for tests and benchmarks.

use std::io::Cursor;
use std::path::Path;

use etherparse::{PacketBuilder, VlanId};
use measure::Nanos;
use record::TracePackets;
use trace::{Capture, CaptureError, Messages, Transport};
use wire::{Edns, Name, Qtype, QueryTemplate};

/// Start time of the captures, in seconds since 1970.
pub(crate) const START: u64 = 1_700_000_000;

/// Returns a query of `qtype` for the name with this number.
pub(crate) fn query(number: u32, qtype: Qtype) -> Vec<u8> {
    let name: Name = format!("n{number}.example").parse().expect("a name");
    let mut query =
        QueryTemplate::new(&name, qtype, true, false, Some(&Edns::default())).bytes().to_vec();
    query[..2].copy_from_slice(&(number as u16).to_be_bytes());
    query
}

/// Turns a query into a reply with this return code.
pub(crate) fn reply(mut query: Vec<u8>, rcode: u8) -> Vec<u8> {
    query[2] |= 0x80;
    query[3] = query[3] & 0xf0 | rcode;
    query
}

/// Returns an IPv4 or IPv6 packet from a client to a server, or back.
pub(crate) fn udp(ipv6: bool, client: u16, back: bool, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let [high, low] = client.to_be_bytes();
    let (client, server) = ([10, 0, high, low], [192, 0, 2, 53]);
    let (from, to) = if back { (server, client) } else { (client, server) };
    let (source, destination) = if back { (53, 4_000) } else { (4_000, 53) };
    if ipv6 {
        let wide =
            |a: [u8; 4]| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, a[0], a[1], a[2], a[3]];
        let packet = PacketBuilder::ipv6(wide(from), wide(to), 64).udp(source, destination);
        packet.write(&mut out, payload).expect("fits");
    } else {
        let packet = PacketBuilder::ipv4(from, to, 64).udp(source, destination);
        packet.write(&mut out, payload).expect("fits");
    }
    out
}

/// Returns a TCP segment over IPv4 from a client to a server, or back; flags are the letters S, F, R.
pub(crate) fn tcp(client: u8, back: bool, sequence: u32, flags: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (client, server) = ([10, 0, 0, client], [192, 0, 2, 53]);
    let (from, to) = if back { (server, client) } else { (client, server) };
    let (source, destination) = if back { (53, 4_000) } else { (4_000, 53) };
    let mut packet = PacketBuilder::ipv4(from, to, 64).tcp(source, destination, sequence, 1_000);
    for flag in flags.chars() {
        packet = match flag {
            'S' => packet.syn(),
            'F' => packet.fin(),
            _ => packet.rst(),
        };
    }
    if back || !flags.contains('S') {
        packet = packet.ack(1);
    }
    packet.write(&mut out, payload).expect("fits");
    out
}

/// Returns a message with the length field of TCP.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// Returns the frame of an IP packet for a link type; type 1 has a VLAN tag if `vlan` is true.
pub(crate) fn frame(link: u16, vlan: bool, ip: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if ip[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    let head = match (link, vlan) {
        (1, false) => [&[2; 12][..], &kind].concat(),
        (1, true) => [
            &[2; 12][..],
            &[0x81, 0],
            &VlanId::try_new(7).expect("small").value().to_be_bytes(),
            &kind,
        ]
        .concat(),
        (113, _) => [&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0][..], &kind].concat(),
        (276, _) => [&kind[..], &[0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0]].concat(),
        (0, _) => vec![if ip[0] >> 4 == 6 { 10 } else { 2 }, 0, 0, 0],
        (101, _) => Vec::new(),
        _ => panic!("link type {link}"),
    };
    [&head, ip].concat()
}

/// The form of a capture.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// The pcap format: whether big-endian, whether with nanoseconds.
    Pcap(bool, bool),
    /// The pcapng format: whether big-endian.
    Pcapng(bool),
}

/// Every form of a capture that the tests write.
pub(crate) const FORMS: [Form; 6] = [
    Form::Pcap(false, false),
    Form::Pcap(false, true),
    Form::Pcap(true, false),
    Form::Pcap(true, true),
    Form::Pcapng(false),
    Form::Pcapng(true),
];

/// Returns a capture of `frames`, one per millisecond.
pub(crate) fn capture(form: Form, link: u16, frames: &[Vec<u8>]) -> Vec<u8> {
    let big = matches!(form, Form::Pcap(true, _) | Form::Pcapng(true));
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut out = Vec::new();
    match form {
        Form::Pcap(_, nanos) => {
            out.extend(word(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }));
            out.extend([half(2), half(4)].concat());
            out.extend([word(0), word(0), word(1 << 18), word(link.into())].concat());
        }
        Form::Pcapng(_) => {
            out.extend([word(0x0a0d_0d0a), word(28), word(0x1a2b_3c4d)].concat());
            out.extend([half(1), half(0)].concat());
            out.extend([word(u32::MAX), word(u32::MAX), word(28)].concat());
            // A block of an unknown type.
            out.extend([word(0x0bad), word(16), word(0), word(16)].concat());
            out.extend([word(1), word(20)].concat());
            out.extend([half(link), half(0)].concat());
            out.extend([word(0), word(20)].concat());
        }
    }
    for (number, frame) in (0u64..).zip(frames) {
        let micros = START * 1_000_000 + number * 1_000;
        let len = frame.len() as u32;
        match form {
            Form::Pcap(_, nanos) => {
                let fraction = (micros % 1_000_000) * if nanos { 1_000 } else { 1 };
                let seconds = (micros / 1_000_000) as u32;
                out.extend([word(seconds), word(fraction as u32), word(len), word(len)].concat());
                out.extend(frame);
            }
            Form::Pcapng(_) => {
                let padding = frame.len().next_multiple_of(4) - frame.len();
                let total = (32 + frame.len() + padding) as u32;
                out.extend([word(6), word(total), word(0)].concat());
                out.extend([word((micros >> 32) as u32), word(micros as u32)].concat());
                out.extend([word(len), word(len)].concat());
                out.extend(frame);
                out.extend(vec![0; padding]);
                out.extend(word(total));
            }
        }
    }
    out
}

/// An owned copy of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) at: Nanos,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) tcp: bool,
    pub(crate) bytes: Vec<u8>,
}

/// Reads a capture; returns its messages, its counts, and the error if there is one.
pub(crate) fn read(bytes: Vec<u8>) -> (Vec<Read>, TracePackets, Option<CaptureError>) {
    let mut messages = Messages::new(vec![53]);
    let mut all = Vec::new();
    let source = match trace::source::decompress(Cursor::new(bytes)) {
        Ok(source) => source,
        Err(error) => panic!("in memory: {error}"),
    };
    let read = Capture::new(source, Path::new("test.pcap")).and_then(|mut capture| {
        messages.read(&mut capture, |message| {
            all.push(Read {
                at: message.at,
                from: message.source.to_string(),
                to: message.destination.to_string(),
                tcp: message.transport != Transport::Udp,
                bytes: message.bytes.to_vec(),
            });
        })
    });
    (all, messages.counts(), read.err())
}
