//! ICMPv6 messages: router advertisements (RFC 4861) and echo replies (RFC 4443), over a raw socket.
//!
//! The kernel computes and checks checksums, and its filter (RFC 3542 section 3.2) drops all other
//! messages. Opening the socket needs CAP_NET_RAW, using it needs no right.

use std::io::{self, IoSliceMut};
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn6, recvmsg};
use socket2::{Domain, Protocol, Socket, Type};

use crate::sys::set_option;

/// Types of ICMPv6 messages (RFC 4443, RFC 4861).
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
const SOLICITATION: u8 = 133;
const ADVERTISEMENT: u8 = 134;
/// Option of the filter (linux/icmpv6.h).
const ICMPV6_FILTER: i32 = 1;
/// Hop limit of messages that no router has forwarded.
const UNFORWARDED: i32 = 255;
/// All routers of a link.
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// Octets of an echo message before its data.
const ECHO_HEADER: usize = 8;

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmp6<'a> {
    /// A router advertisement, whole, from a router of this link.
    Advertisement(&'a [u8]),
    /// An echo reply: its identifier and sequence number.
    EchoReply {
        /// Identifier, which the sender of the request chose.
        id: u16,
        /// Sequence number of the request.
        sequence: u16,
    },
}

/// A raw socket for ICMPv6, which never blocks.
#[derive(Debug)]
pub struct Icmp6Socket(Socket);

impl Icmp6Socket {
    /// Opens a socket.
    ///
    /// # Errors
    /// When the right CAP_NET_RAW is missing, or there is no IPv6.
    pub fn open() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
        socket.set_nonblocking(true)?;
        socket.set_recv_hoplimit_v6(true)?;
        socket.set_multicast_hops_v6(UNFORWARDED as u32)?;
        filter(&socket)?;
        Ok(Icmp6Socket(socket))
    }

    /// Returns another handle of the socket, for an event loop that waits for messages.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn handle(&self) -> io::Result<UdpSocket> {
        self.0.try_clone().map(UdpSocket::from)
    }

    /// Receives a message into `buffer`; returns it with its sender. `None` for one to be ignored.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; errors of the kernel.
    pub fn receive<'a>(
        &self,
        buffer: &'a mut [u8],
    ) -> io::Result<Option<(SocketAddrV6, Icmp6<'a>)>> {
        let mut control = nix::cmsg_space!(i32);
        let (len, from, hops) = {
            let mut parts = [IoSliceMut::new(buffer)];
            let flags = MsgFlags::empty();
            let fd = self.0.as_raw_fd();
            let message = recvmsg::<SockaddrIn6>(fd, &mut parts, Some(&mut control), flags)?;
            let hops = message.cmsgs()?.find_map(|item| match item {
                ControlMessageOwned::Ipv6HopLimit(hops) => Some(hops),
                _ => None,
            });
            (message.bytes, message.address, hops)
        };
        let Some(from) = from else { return Ok(None) };
        let from = SocketAddrV6::new(from.ip(), 0, 0, from.scope_id());
        Ok(read(&buffer[..len], from, hops).map(|message| (from, message)))
    }

    /// Requests advertisements from the routers at all interfaces; returns the number of
    /// interfaces.
    ///
    /// # Errors
    /// When the interfaces cannot be read.
    pub fn solicit(&self) -> io::Result<usize> {
        let local = |address: nix::ifaddrs::InterfaceAddress| {
            let address = *address.address?.as_sockaddr_in6()?;
            address.ip().is_unicast_link_local().then(|| address.scope_id())
        };
        let mut interfaces: Vec<u32> = getifaddrs()?.filter_map(local).collect();
        interfaces.sort_unstable();
        interfaces.dedup();
        let message = [SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        let sent = interfaces.iter().filter(|&&interface| {
            // An interface may be down; the others get their message nevertheless.
            self.send(&message, SocketAddrV6::new(ALL_ROUTERS, 0, 0, interface)).is_ok()
        });
        Ok(sent.count())
    }

    /// Sends an echo request.
    ///
    /// # Errors
    /// Errors of the kernel, such as no route.
    pub fn echo(&self, to: Ipv6Addr, id: u16, sequence: u16) -> io::Result<()> {
        let mut message = [0; ECHO_HEADER];
        message[0] = ECHO_REQUEST;
        message[4..6].copy_from_slice(&id.to_be_bytes());
        message[6..].copy_from_slice(&sequence.to_be_bytes());
        self.send(&message, SocketAddrV6::new(to, 0, 0, 0))
    }

    fn send(&self, message: &[u8], to: SocketAddrV6) -> io::Result<()> {
        self.0.send_to(message, &to.into()).map(drop)
    }
}

/// Reads a message; `None` for one that is ignored. An advertisement must come from a router of the link (RFC 4861 section
/// 6.1.2): a packet from further away has a smaller hop limit.
fn read(message: &[u8], from: SocketAddrV6, hops: Option<i32>) -> Option<Icmp6<'_>> {
    match message {
        [ADVERTISEMENT, ..] if hops == Some(UNFORWARDED) && from.ip().is_unicast_link_local() => {
            Some(Icmp6::Advertisement(message))
        }
        &[ECHO_REPLY, 0, _, _, a, b, c, d, ..] => {
            let (id, sequence) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            Some(Icmp6::EchoReply { id, sequence })
        }
        _ => None,
    }
}

/// Lets only those types pass that this module reads.
fn filter(socket: &Socket) -> io::Result<()> {
    // One bit for each type; a set bit blocks it.
    let mut blocked = [u32::MAX; 8];
    for kind in [ECHO_REPLY, ADVERTISEMENT] {
        blocked[usize::from(kind) / 32] &= !(1 << (kind % 32));
    }
    // Eight words are a struct icmp6_filter.
    set_option(socket, libc::IPPROTO_ICMPV6, ICMPV6_FILTER, blocked)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn an_echo_request_gets_its_reply() {
        let opened = skip::unless_ok(Icmp6Socket::open(), "no raw socket");
        let Some(socket) = opened else { return };
        if let Err(error) = socket.echo(Ipv6Addr::LOCALHOST, 7, 9) {
            return skip::because(format_args!("no IPv6 on loopback: {error}"));
        }
        let start = Instant::now();
        let mut buffer = [0; 1_500];
        // Other programs of this host may use echo requests too.
        while start.elapsed() < Duration::from_secs(30) {
            match socket.receive(&mut buffer) {
                Ok(Some((from, Icmp6::EchoReply { id: 7, sequence: 9 }))) => {
                    return assert_eq!(*from.ip(), Ipv6Addr::LOCALHOST);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no reply");
    }

    #[test]
    fn advertisements_come_from_routers_of_the_link() {
        let message = [ADVERTISEMENT, 0, 0, 0];
        let from = |text: &str| SocketAddrV6::new(text.parse().expect("an address"), 0, 0, 2);
        let read = |text, hops| read(&message, from(text), hops).is_some();
        assert!(read("fe80::1", Some(255)));
        assert!(!read("fe80::1", Some(254)) && !read("fe80::1", None));
        assert!(!read("2001:db8::1", Some(255)));
    }
}
