//! A sink for updates: acknowledges each one at once and does nothing with it, so that the rate of a sender is the
//! sender's own. `sink [ADDRESS:PORT]`; it prints where it listens.

use std::io;
use std::net::UdpSocket;

/// Octets of a header (RFC 1035 section 4.1.1).
const HEADER: usize = 12;

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let socket = UdpSocket::bind(address)?;
    println!("{}", socket.local_addr()?);
    let mut message = [0; 65_535];
    loop {
        let (len, from) = socket.recv_from(&mut message)?;
        if len >= HEADER {
            // A response, NOERROR.
            message[2] |= 0x80;
            message[3] &= 0xf0;
            socket.send_to(&message[..len], from)?;
        }
    }
}
