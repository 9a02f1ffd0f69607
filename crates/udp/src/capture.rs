//! Captures the packets of an interface with a packet socket (packet(7)) and returns them as a pcap stream.
//!
//! ```text
//!   interface ──> packet socket, kernel timestamps ──> [kernel filter] ──> pcap: RAW, nanoseconds
//! ```
//!
//! The kernel removes the link layer (`SOCK_DGRAM`); only IPv4 and IPv6 are returned. It needs CAP_NET_RAW;
//! without this right, or without packet sockets, users pipe the output of tcpdump into the reader instead.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use engine::clock::monotonic;
use measure::Nanos;

use crate::sys::set_option;

/// Longest captured packet in bytes: the limit of pcap readers.
const MAX_PACKET: usize = 256 << 10;
/// Buffer of the socket in bytes, if the kernel permits it (`SO_RCVBUFFORCE`).
const BUFFER: i32 = 64 << 20;
/// Interval at which an idle socket checks whether to end, in microseconds.
const LOOK_US: libc::suseconds_t = 50_000;
/// The pcap header: nanoseconds, version 2.4, `MAX_PACKET`, LINKTYPE_RAW; in native byte order.
const PCAP_HEADER: [u32; 6] = [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, MAX_PACKET as u32, 101];
/// Octets in front of each packet in pcap.
const RECORD_OCTETS: usize = 16;
/// The filter of [`Only::TcpOverIpv4`], on packets without link layer: version 4 and protocol TCP.
const TCP_OVER_IPV4: [libc::sock_filter; 6] = [
    instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 0),
    instruction(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 0, 0, 4),
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 2, 4),
    instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 9),
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, libc::IPPROTO_TCP as u32),
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
];
const ACCEPT_PACKET: libc::sock_filter =
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, MAX_PACKET as u32);

const fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Kind of the packets that are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// All of IPv4 and IPv6.
    Ip,
    /// TCP over IPv4; other packets cost almost nothing.
    TcpOverIpv4,
}

/// When a capture ends: after a time, or on request.
#[derive(Clone, Debug)]
pub struct Until {
    /// Time after which the capture ends; `None` for no limit.
    pub duration: Option<Nanos>,
    /// The capture ends when this is set.
    pub stop: Arc<AtomicBool>,
}

/// A capture of an interface: a pcap stream that ends at its end condition.
#[derive(Debug)]
pub struct LiveCapture {
    socket: OwnedFd,
    until: Until,
    end: Option<Nanos>,
    lost: Arc<AtomicU64>,
    /// Time since 1970 at which the capture ended: packets that the kernel received before are
    /// still returned.
    over_at: Option<Nanos>,
    /// Buffer for a packet, of constant size: filling it with zeros for each packet took longer
    /// than receiving it.
    buffer: Vec<u8>,
    /// Bytes of the buffer that are packets with their headers; the ones before `given` are already
    /// returned.
    ready: usize,
    given: usize,
}

impl LiveCapture {
    /// Opens an interface by its name; `any` means all of them.
    ///
    /// # Errors
    /// When the interface does not exist, or the right to capture is missing.
    pub fn open(interface: &str, only: Only, until: Until) -> io::Result<Self> {
        let index = index(interface)?;
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: no pointer is passed; the descriptor, if there is one, has no other owner.
        let socket = unsafe {
            let fd = libc::socket(
                libc::AF_PACKET,
                libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
                // No packet arrives before the socket is bound and filtered.
                0,
            );
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        if set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER).is_err() {
            set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER)?;
        }
        set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        let timeout = libc::timeval { tv_sec: 0, tv_usec: LOOK_US };
        set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, timeout)?;
        if only == Only::TcpOverIpv4 {
            filter(&socket)?;
        }
        // SAFETY: zeroes are a valid address of this plain struct.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index;
        // SAFETY: the address is a sockaddr_ll that lives through the call, of the stated size.
        let bound = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if bound != 0 {
            return Err(io::Error::last_os_error());
        }
        let end = until.duration.map(|duration| Nanos(monotonic().0.saturating_add(duration.0)));
        let mut buffer: Vec<u8> = PCAP_HEADER.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let ready = buffer.len();
        buffer.resize(RECORD_OCTETS + MAX_PACKET, 0);
        Ok(LiveCapture {
            socket,
            until,
            end,
            lost: Arc::default(),
            over_at: None,
            buffer,
            ready,
            given: 0,
        })
    }

    /// Returns the number of packets lost because they were not read in time; known at the end.
    pub fn lost(&self) -> Arc<AtomicU64> {
        self.lost.clone()
    }

    /// Waits for the next packet and stores it with its header; returns false at the end.
    fn next_packet(&mut self) -> io::Result<bool> {
        self.given = 0;
        loop {
            let over = self.end.is_some_and(|end| monotonic() >= end);
            if self.over_at.is_none() && (over || self.until.stop.load(Ordering::Relaxed)) {
                self.over_at = Some(since_1970());
            }
            let wait = if self.over_at.is_some() { libc::MSG_DONTWAIT } else { 0 };
            let packet = match receive(&self.socket, &mut self.buffer[RECORD_OCTETS..], wait) {
                Ok(packet) => packet,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && wait == 0 => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(self.finish()),
                Err(e) => return Err(e),
            };
            if self.over_at.is_some_and(|over_at| packet.time() > over_at) {
                return Ok(self.finish());
            }
            if !packet.is_taken {
                continue;
            }
            let caught = packet.length.min(MAX_PACKET);
            let words = [packet.at.0, packet.at.1, caught as u32, packet.length as u32];
            for (place, word) in self.buffer.chunks_exact_mut(4).zip(words) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
            self.ready = RECORD_OCTETS + caught;
            return Ok(true);
        }
    }

    /// Counts the lost packets; returns that there is no further packet.
    fn finish(&mut self) -> bool {
        self.ready = 0;
        self.lost.fetch_add(lost(&self.socket), Ordering::Relaxed);
        false
    }
}

impl Read for LiveCapture {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() || (self.given == self.ready && !self.next_packet()?) {
            return Ok(0);
        }
        let part = &self.buffer[self.given..self.ready];
        let length = part.len().min(out.len());
        out[..length].copy_from_slice(&part[..length]);
        self.given += length;
        Ok(length)
    }
}

/// Returns the time since 1970, by the clock of the timestamps.
fn since_1970() -> Nanos {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(Nanos::ZERO, Nanos::from)
}

/// Returns the number of an interface; 0 means all.
fn index(interface: &str) -> io::Result<i32> {
    if interface == "any" {
        return Ok(0);
    }
    let name = CString::new(interface)?;
    // SAFETY: the name is a C string that lives through the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    i32::try_from(index).ok().filter(|&index| index > 0).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("there is no interface {interface}"))
    })
}

/// Makes the kernel drop all packets except TCP over IPv4.
fn filter(socket: &OwnedFd) -> io::Result<()> {
    let mut program = [ACCEPT_PACKET; TCP_OVER_IPV4.len() + 1];
    program[..TCP_OVER_IPV4.len()].copy_from_slice(&TCP_OVER_IPV4);
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // The kernel copies the instructions, which live to the end of this function.
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
}

/// Returns the number of packets that the kernel dropped because the buffer was full.
fn lost(socket: &OwnedFd) -> u64 {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: there is room for a tpacket_stats, and `length` says so.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    };
    if got == 0 { u64::from(statistics.tp_drops) } else { 0 }
}

/// Data of a packet's arrival.
struct Packet {
    /// Length on the wire, in bytes.
    length: usize,
    /// Time of capture: seconds since 1970 and nanoseconds.
    at: (u32, u32),
    /// Whether the packet is IP, and not the copy that a loopback interface shows for a sent
    /// packet.
    is_taken: bool,
}

impl Packet {
    /// Returns the time of capture since 1970.
    fn time(&self) -> Nanos {
        Nanos(u64::from(self.at.0) * 1_000_000_000 + u64::from(self.at.1))
    }
}

/// Receives one packet into `buffer`, with `flags` of recvmsg(2).
fn receive(socket: &OwnedFd, buffer: &mut [u8], flags: i32) -> io::Result<Packet> {
    // SAFETY: zeroes are valid values of these plain structs.
    let (mut from, mut message): (libc::sockaddr_ll, libc::msghdr) = unsafe { std::mem::zeroed() };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // Aligned for the header of a control message.
    let mut control = [0u64; 16];
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: all that the message points to lives through the call, with the sizes stated.
    let length =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_TRUNC | flags) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let mut at = (0, 0);
    // SAFETY: the kernel has filled the control buffer up to `msg_controllen`; CMSG_* stay within that, and the data
    // of SCM_TIMESTAMPNS is a timespec, read without regard to its alignment.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET
                && (*header).cmsg_type == libc::SCM_TIMESTAMPNS
            {
                let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                at = (time.tv_sec as u32, time.tv_nsec as u32);
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    let protocol = i32::from(u16::from_be(from.sll_protocol));
    let is_ip = protocol == libc::ETH_P_IP || protocol == libc::ETH_P_IPV6;
    let is_echo =
        from.sll_hatype == libc::ARPHRD_LOOPBACK && from.sll_pkttype == libc::PACKET_OUTGOING;
    Ok(Packet { length, at, is_taken: is_ip && !is_echo })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    /// Starts a capture of `lo`; `None` without the right to capture.
    fn listen(only: Only) -> Option<(LiveCapture, Arc<AtomicBool>)> {
        let stop = Arc::new(AtomicBool::new(false));
        let until = Until { duration: None, stop: stop.clone() };
        match LiveCapture::open("lo", only, until) {
            Ok(capture) => Some((capture, stop)),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                skip::none("no right to capture (CAP_NET_RAW)")
            }
            Err(e) => panic!("{e}"),
        }
    }

    /// Returns the packets of a stream without their headers until `enough` returns true.
    fn packets(
        capture: &mut LiveCapture,
        stop: &AtomicBool,
        mut enough: impl FnMut(&[u8]) -> bool,
    ) -> Vec<Vec<u8>> {
        let mut header = [0; 24];
        capture.read_exact(&mut header).expect("a header");
        assert_eq!(header[20], 101);
        let mut all = Vec::new();
        let mut record = [0; RECORD_OCTETS];
        while capture.read_exact(&mut record).is_ok() {
            let length = u32::from_ne_bytes(record[8..12].try_into().expect("four octets"));
            let seconds = u32::from_ne_bytes(record[..4].try_into().expect("four octets"));
            assert!(seconds > 1_600_000_000, "timestamp of the kernel");
            let mut packet = vec![0; length as usize];
            capture.read_exact(&mut packet).expect("a whole packet");
            if enough(&packet) {
                stop.store(true, Ordering::Relaxed);
            }
            all.push(packet);
        }
        all
    }

    #[test]
    fn a_loopback_packet_is_captured_once() {
        let Some((mut capture, stop)) = listen(Only::Ip) else { return };
        let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
        let word = format!("captured-{}", std::process::id());
        socket.send_to(word.as_bytes(), "127.0.0.1:9").expect("sent");
        socket.send_to(b"last", socket.local_addr().expect("bound")).expect("sent");
        let port = socket.local_addr().expect("bound").port().to_be_bytes();
        let all = packets(&mut capture, &stop, |packet| {
            packet.ends_with(b"last") && packet[22..24] == port
        });
        // The ICMP error quotes the packet.
        let is_udp = |packet: &&Vec<u8>| packet[9] == libc::IPPROTO_UDP as u8;
        let ours = all.iter().filter(is_udp).filter(|packet| packet.ends_with(word.as_bytes()));
        assert_eq!(ours.count(), 1);
        assert_eq!(capture.lost().load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_was_taken_before_the_end_is_returned() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("binds");
        let to = server.local_addr().expect("bound");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
        // The first socket with timestamps switches them on by a task of the kernel. A packet that came before it gets the time at
        // which it is read, which is after the end; so that one is kept open.
        let Some(_first) = listen(Only::Ip) else { return };
        for _ in 0..10 {
            let Some((mut capture, stop)) = listen(Only::Ip) else { return };
            for _ in 0..100 {
                socket.send_to(b"queued", to).expect("sent");
            }
            stop.store(true, Ordering::Relaxed);
            let all = packets(&mut capture, &stop, |_| false);
            let port = to.port().to_be_bytes();
            let returned = all.iter().filter(|packet| packet[22..24] == port).count();
            if returned == 100 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("packets that were taken before the end are not returned");
    }

    #[test]
    fn the_kernel_filter_drops_other_packets() {
        let Some((mut capture, stop)) = listen(Only::TcpOverIpv4) else { return };
        let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
        socket.send_to(b"not wanted", "127.0.0.1:9").expect("sent");
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("bound");
        let _stream = TcpStream::connect(address).expect("connects");
        let port = address.port().to_be_bytes();
        let all = packets(&mut capture, &stop, |packet| packet[22..24] == port);
        assert!(!all.is_empty(), "nothing was captured");
        assert!(all.iter().all(|packet| packet[0] >> 4 == 4 && packet[9] == 6));
    }

    #[test]
    fn a_capture_ends_in_time_and_refuses_unknown_interfaces() {
        let stop = Arc::new(AtomicBool::new(false));
        let until = Until { duration: Some(Nanos::from_millis(1)), stop };
        let error = LiveCapture::open("no-such-if", Only::Ip, until.clone()).expect_err("none");
        assert_eq!(error.to_string(), "there is no interface no-such-if");
        match LiveCapture::open("any", Only::Ip, until) {
            Ok(mut capture) => {
                let mut all = Vec::new();
                capture.read_to_end(&mut all).expect("it ends");
                assert!(all.len() >= 24);
            }
            Err(e) => skip::because(format_args!("no right to capture: {e}")),
        }
    }
}
