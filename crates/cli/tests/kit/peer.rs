//! Servers of a test that share no line with ours.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use super::host;

/// Where a message came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) client: SocketAddr,
    /// Whether it came over TCP.
    pub(crate) tcp: bool,
}

/// Turns a query into its reply without data: `reply` is its return code.
pub(crate) fn reply(query: &[u8], rcode: u8) -> Vec<u8> {
    let mut reply = query.to_vec();
    (reply[2], reply[3]) = (reply[2] | 0x80, rcode);
    reply
}

/// Reads a message with its length before it; `None` at the end.
pub(crate) fn read_frame(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}

/// Writes a message with its length before it.
pub(crate) fn write_frame(stream: &mut impl Write, message: &[u8]) -> std::io::Result<()> {
    let length = (message.len() as u16).to_be_bytes();
    stream.write_all(&[&length[..], message].concat())
}

/// Answers the messages of a connection until it ends; an empty answer is none.
pub(crate) fn answer_stream(mut stream: TcpStream, answer: impl Fn(&[u8]) -> Vec<u8>) {
    while let Some(query) = read_frame(&mut stream) {
        let reply = answer(&query);
        if !reply.is_empty() && write_frame(&mut stream, &reply).is_err() {
            return;
        }
    }
}

/// Answers over UDP, one message after the other, and over TCP at a port of 127.0.0.1 while the test lasts; returns the address.
/// An empty answer is none.
pub(crate) fn start(answer: impl Fn(&[u8], Source) -> Vec<u8> + Clone + Send + 'static) -> String {
    let (tcp, udp) = host::bind_port(Ipv4Addr::LOCALHOST);
    let address = tcp.local_addr().expect("an address").to_string();
    let over_udp = answer.clone();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 65_535];
        while let Ok((len, client)) = udp.recv_from(&mut bytes) {
            let reply = over_udp(&bytes[..len], Source { client, tcp: false });
            if !reply.is_empty() {
                // A client of a test may be gone.
                let _ = udp.send_to(&reply, client);
            }
        }
    });
    std::thread::spawn(move || listen(&tcp, answer));
    address
}

/// Answers the messages of all connections.
fn listen(tcp: &TcpListener, answer: impl Fn(&[u8], Source) -> Vec<u8> + Clone + Send + 'static) {
    for stream in tcp.incoming().flatten() {
        let answer = answer.clone();
        std::thread::spawn(move || {
            let Ok(client) = stream.peer_addr() else { return };
            // Each reply goes at once, whatever the client acknowledges.
            let _ = stream.set_nodelay(true);
            answer_stream(stream, |query| answer(query, Source { client, tcp: true }));
        });
    }
}
