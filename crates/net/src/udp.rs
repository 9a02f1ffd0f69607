//! Batched UDP sockets.
//!
//! | feature | kernel option | what it saves |
//! |---|---|---|
//! | many messages a call | `sendmmsg(2)`, `recvmmsg(2)` | a system call per datagram |
//! | segmentation offload | `UDP_SEGMENT` | a walk through the stack per datagram sent |
//! | receive coalescing | `UDP_GRO` | a walk through the stack per datagram received |
//! | receive stamps | `SO_TIMESTAMPNS` | the wait in the queue, in latencies |
//! | drop counts | `SO_RXQ_OVFL` | guessing |
//! | large buffers | `SO_RCVBUFFORCE`, `SO_SNDBUFFORCE` | drops in bursts |
//! | the address asked | `IP_PKTINFO`, `IPV6_PKTINFO` | a socket per address for wildcard binds |
//!
//! Each is probed when a socket is made, is left out where the kernel lacks it, and can be switched
//! off. Segmentation that fails at run time (`EIO`, `EINVAL`, `EMSGSIZE`: a device that cannot) is
//! switched off for good and the datagrams are sent one by one.

#![allow(unsafe_code)]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use measure::Nanos;
use socket2::{Domain, Protocol, Socket, Type};

use crate::batch::{Frame, Message, RxBatch, SocketId, TxBatch};
use crate::cmsg::{self, Ancillary, ControlBuffer};
use crate::engine::{Engine, EngineCounters, Wait};
use crate::sys;

/// What is asked of the sockets. What the kernel does not give is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Segmentation offload on sending (`UDP_SEGMENT`).
    pub gso: bool,
    /// Coalescing on receiving (`UDP_GRO`).
    pub gro: bool,
    /// Receive stamps by the kernel (`SO_TIMESTAMPNS`).
    pub timestamps: bool,
    /// Bytes of receive and of send buffer for each socket.
    pub buffer: usize,
}

impl Default for UdpOptions {
    /// Everything on, 16 MiB buffers: at a million small datagrams a second that is some milliseconds of absence.
    fn default() -> Self {
        UdpOptions { gso: true, gro: true, timestamps: true, buffer: 16 << 20 }
    }
}

/// What is in force: a condition of every result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpFacts {
    /// How many sockets there are.
    pub sockets: usize,
    /// Segmentation offload on sending.
    pub gso: bool,
    /// Coalescing on receiving.
    pub gro: bool,
    /// Receive stamps by the kernel.
    pub timestamps: bool,
    /// Bytes of receive buffer for each socket, as the kernel counts them.
    pub receive_buffer: usize,
    /// Bytes of send buffer for each socket, as the kernel counts them.
    pub send_buffer: usize,
}

/// Messages to a system call.
const BATCH: usize = 64;
/// Datagrams to a segmented message: the kernel's limit before Linux 6.9 (`UDP_MAX_SEGMENTS`).
const MAX_SEGMENTS: usize = 64;
/// Without coalescing a DNS message of more than this is cut (and counted).
const PLAIN_SLOT: usize = 4_096;
/// A coalesced message is as long as an IP packet can be.
const GRO_SLOT: usize = 65_535;
/// Waits for room in a full send queue: so often, so long each.
const SEND_RETRIES: usize = 100;
const SEND_RETRY_MS: i32 = 1;
/// Most sockets of one engine.
pub const MAX_SOCKETS: usize = 4_096;

/// One socket of the engine.
#[derive(Debug)]
struct UdpSocket {
    socket: Socket,
    /// The peer of a connected socket.
    peer: Option<SocketAddr>,
    /// `SO_RXQ_OVFL` as last seen.
    dropped: u32,
}

/// Batched UDP sockets of one worker.
pub struct UdpEngine {
    sockets: Vec<UdpSocket>,
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    names: Vec<libc::sockaddr_storage>,
    vectors: Vec<libc::iovec>,
    controls: Vec<ControlBuffer>,
    headers: Vec<libc::mmsghdr>,
    options: UdpOptions,
    facts: UdpFacts,
    counters: EngineCounters,
    /// Wall clock minus monotonic clock, and when it was taken.
    stamp_offset: (u64, Nanos),
}

// SAFETY: the raw pointers inside `headers` and `vectors` are set anew before each system call and
// point only into buffers that the engine owns or borrows for that call.
unsafe impl Send for UdpEngine {}

impl UdpEngine {
    /// An engine without sockets.
    ///
    /// # Errors
    /// When the kernel gives no epoll instance.
    pub fn new(options: UdpOptions) -> io::Result<Self> {
        // SAFETY: the call takes no pointers; a non-negative result is a descriptor that nobody else owns.
        let epoll = unsafe {
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let facts = UdpFacts {
            gso: options.gso,
            gro: options.gro,
            timestamps: options.timestamps,
            ..UdpFacts::default()
        };
        // SAFETY: all-zero is a valid value of these plain C structures.
        let (name, vector, header) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed()) };
        Ok(UdpEngine {
            sockets: Vec::new(),
            epoll,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; BATCH],
            names: vec![name; BATCH],
            vectors: vec![vector; BATCH],
            controls: vec![ControlBuffer::new(); BATCH],
            headers: vec![header; BATCH],
            options,
            facts,
            counters: EngineCounters::default(),
            stamp_offset: (sys::realtime().0.wrapping_sub(sys::monotonic().0), sys::monotonic()),
        })
    }

    /// A client: one socket for each of `sources`, connected to `target`. Port 0 takes a free one.
    ///
    /// # Errors
    /// A source address that cannot be bound or the target that cannot be reached, named.
    pub fn client(
        target: SocketAddr,
        sources: &[SocketAddr],
        options: UdpOptions,
    ) -> io::Result<Self> {
        let mut engine = Self::new(options)?;
        for &source in sources {
            engine.connect(target, source)?;
        }
        Ok(engine)
    }

    /// A server: one socket for each of `listen`. With `share_port` other workers may listen on the
    /// same addresses, and the kernel spreads the clients over them (`SO_REUSEPORT`).
    ///
    /// # Errors
    /// An address that cannot be bound, named.
    pub fn server(
        listen: &[SocketAddr],
        share_port: bool,
        options: UdpOptions,
    ) -> io::Result<Self> {
        let mut engine = Self::new(options)?;
        for &address in listen {
            engine.listen(address, share_port)?;
        }
        Ok(engine)
    }

    /// Adds a socket bound to `source` and connected to `target`.
    ///
    /// # Errors
    /// As [`client`](Self::client).
    pub fn connect(&mut self, target: SocketAddr, source: SocketAddr) -> io::Result<SocketId> {
        let socket = Socket::new(Domain::for_address(target), Type::DGRAM, Some(Protocol::UDP))?;
        if !source.ip().is_unspecified() {
            // Addresses of a routed prefix need not be on an interface.
            let _ = if source.is_ipv4() {
                socket.set_freebind_v4(true)
            } else {
                socket.set_freebind_v6(true)
            };
        }
        socket.bind(&source.into()).map_err(|e| named(e, "cannot send from", source))?;
        socket.connect(&target.into()).map_err(|e| named(e, "cannot send to", target))?;
        self.add(socket, Some(target))
    }

    /// Adds a socket that listens on `address`.
    ///
    /// # Errors
    /// As [`server`](Self::server).
    pub fn listen(&mut self, address: SocketAddr, share_port: bool) -> io::Result<SocketId> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if share_port {
            socket.set_reuse_port(true)?;
        }
        socket.bind(&address.into()).map_err(|e| named(e, "cannot listen on UDP", address))?;
        if address.ip().is_unspecified() {
            let (level, option) = if address.is_ipv4() {
                (libc::IPPROTO_IP, libc::IP_PKTINFO)
            } else {
                (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
            };
            set_option(&socket, level, option, 1)?;
        }
        self.add(socket, None)
    }

    /// The address of a socket.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn local_address(&self, id: SocketId) -> io::Result<SocketAddr> {
        let address = self.sockets[usize::from(id.0)].socket.local_addr()?;
        address.as_socket().ok_or_else(|| io::Error::other("not an internet socket"))
    }

    /// What is in force.
    pub fn facts(&self) -> UdpFacts {
        self.facts
    }

    /// Probes the options on a new socket and takes it in.
    fn add(&mut self, socket: Socket, peer: Option<SocketAddr>) -> io::Result<SocketId> {
        if self.sockets.len() == MAX_SOCKETS {
            return Err(io::Error::other(format!("more than {MAX_SOCKETS} sockets in one worker")));
        }
        socket.set_nonblocking(true)?;
        self.enlarge_buffers(&socket)?;
        // Setting the option to a size and back tells whether the kernel knows it.
        self.facts.gso &= set_option(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 1_200).is_ok()
            && set_option(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        self.facts.gro &=
            set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, i32::from(self.options.gro)).is_ok();
        if self.options.timestamps {
            self.facts.timestamps &=
                set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1).is_ok();
        }
        // Without this option there are no counts, and nothing else changes.
        let _ = set_option(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        let id = SocketId(self.sockets.len() as u16);
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: u64::from(id.0) };
        // SAFETY: both descriptors are open and `event` is valid for the call.
        check(unsafe {
            libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                socket.as_raw_fd(),
                &raw mut event,
            )
        })?;
        self.sockets.push(UdpSocket { socket, peer, dropped: 0 });
        self.facts.sockets = self.sockets.len();
        Ok(id)
    }

    /// Buffers as large as asked where we may force them, else as large as the system lets us.
    fn enlarge_buffers(&mut self, socket: &Socket) -> io::Result<()> {
        let size = i32::try_from(self.options.buffer).unwrap_or(i32::MAX / 2);
        if set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, size).is_err() {
            set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, size)?;
        }
        if set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, size).is_err() {
            set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, size)?;
        }
        self.facts.receive_buffer = socket.recv_buffer_size()?;
        self.facts.send_buffer = socket.send_buffer_size()?;
        Ok(())
    }

    /// Which sockets have something, after waiting as told; their number, in `events`.
    fn poll(&mut self, wait: Wait) -> io::Result<usize> {
        let timeout = match wait {
            Wait::No => Nanos::ZERO,
            Wait::Until(until) => until.since(sys::monotonic()),
        };
        let spec = libc::timespec {
            tv_sec: (timeout.0 / 1_000_000_000) as i64,
            tv_nsec: (timeout.0 % 1_000_000_000) as i64,
        };
        // SAFETY: `events` has room for the stated number; `spec` outlives the call; no signal mask is passed.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as libc::c_int,
                &raw const spec,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        match check(n as i32) {
            Ok(n) => Ok(n as usize),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(e) => Err(e),
        }
    }

    /// Receives what one socket has, as far as there are slots; returns whether slots are left.
    fn receive_from(&mut self, index: usize, rx: &mut RxBatch, now: Nanos) -> io::Result<bool> {
        let first = rx.frames.len();
        let room = (rx.slots - first).min(BATCH);
        if room == 0 {
            return Ok(false);
        }
        let connected = self.sockets[index].peer;
        for i in 0..room {
            self.vectors[i] = libc::iovec {
                iov_base: rx.arena[(first + i) * rx.slot_len..].as_mut_ptr().cast(),
                iov_len: rx.slot_len,
            };
            let header = &mut self.headers[i].msg_hdr;
            header.msg_iov = &raw mut self.vectors[i];
            header.msg_iovlen = 1;
            (header.msg_control, header.msg_controllen) = self.controls[i].room();
            (header.msg_name, header.msg_namelen) = match connected {
                Some(_) => (std::ptr::null_mut(), 0),
                None => {
                    ((&raw mut self.names[i]).cast(), size_of::<libc::sockaddr_storage>() as u32)
                }
            };
            header.msg_flags = 0;
        }
        self.counters.receive_calls += 1;
        // SAFETY: the first `room` headers point to names, vectors and control buffers of the engine and to
        // distinct slots of the batch's arena, all alive and not otherwise used during the call.
        let n = unsafe {
            libc::recvmmsg(
                self.sockets[index].socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                room as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        let n = match check(n) {
            Ok(n) => n as usize,
            Err(e) => return self.receive_error(e).map(|()| true),
        };
        for i in 0..n {
            self.take(index, i, (first + i) * rx.slot_len, connected, rx, now);
        }
        Ok(n < room)
    }

    /// Turns a received header into a frame.
    fn take(
        &mut self,
        index: usize,
        i: usize,
        offset: usize,
        connected: Option<SocketAddr>,
        rx: &mut RxBatch,
        now: Nanos,
    ) {
        let header = &self.headers[i];
        let len = header.msg_len as usize;
        let Ancillary { segment, stamp, dropped, to } = cmsg::read(&header.msg_hdr);
        if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
            self.counters.oversize += 1;
        }
        let socket = &mut self.sockets[index];
        if let Some(total) = dropped {
            self.counters.dropped += u64::from(total.wrapping_sub(socket.dropped));
            socket.dropped = total;
        }
        let Some(peer) = connected.or_else(|| socket_address(&self.names[i])) else { return };
        let at = stamp.map_or(now, |wall| Nanos(wall.wrapping_sub(self.stamp_offset.0)).min(now));
        let frame = Frame {
            socket: SocketId(index as u16),
            peer,
            to,
            at,
            offset,
            len,
            segment: segment.unwrap_or(len.max(1)),
        };
        self.counters.received += if len == 0 { 1 } else { len.div_ceil(frame.segment) as u64 };
        rx.add(frame);
    }

    /// Passing errors are counted.
    fn receive_error(&mut self, error: io::Error) -> io::Result<()> {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(()),
            Some(code) if is_unreachable(code) => {
                self.counters.refused += 1;
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Sends messages that all go through socket `index`, as many as one call takes; returns how many.
    fn send_through(
        &mut self,
        index: usize,
        arena: &mut [u8],
        messages: &[Message],
    ) -> io::Result<usize> {
        let n = messages.len().min(BATCH);
        for (i, message) in messages[..n].iter().enumerate() {
            let bytes = &mut arena[message.offset..message.offset + message.len];
            self.vectors[i] =
                libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            let header = &mut self.headers[i].msg_hdr;
            header.msg_iov = &raw mut self.vectors[i];
            header.msg_iovlen = 1;
            header.msg_flags = 0;
            let (peer, from) = match message.to {
                crate::Destination::Connected(_) => (None, None),
                crate::Destination::Peer { peer, from, .. } => (Some(peer), from),
            };
            (header.msg_name, header.msg_namelen) = match peer {
                None => (std::ptr::null_mut(), 0),
                Some(peer) => {
                    ((&raw mut self.names[i]).cast(), write_address(peer, &mut self.names[i]))
                }
            };
            let segment = (message.segments > 1).then_some(message.segment as u16);
            (header.msg_control, header.msg_controllen) = self.controls[i].write(segment, from);
        }
        self.counters.send_calls += 1;
        // SAFETY: the first `n` headers point to names, vectors and control buffers of the engine and to the
        // batch's arena, all alive during the call; the kernel only reads them (but for `msg_len`).
        let sent = check(unsafe {
            libc::sendmmsg(
                self.sockets[index].socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                n as u32,
                0,
            )
        })? as usize;
        self.counters.sent += messages[..sent].iter().map(|m| m.segments as u64).sum::<u64>();
        Ok(sent)
    }

    /// What to do about the error of the message `message`: `Ok(true)` to try it again, `Ok(false)` to give it up.
    fn send_error(
        &mut self,
        error: io::Error,
        message: &Message,
        index: usize,
        tries: usize,
    ) -> io::Result<bool> {
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(true),
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) if tries < SEND_RETRIES => {
                wait_for_room(&self.sockets[index].socket);
                Ok(true)
            }
            Some(code) if is_unreachable(code) => {
                // The pending error of an earlier datagram; it is cleared by being told.
                self.counters.refused += 1;
                Ok(tries < 2)
            }
            Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP)
                if message.segments > 1 =>
            {
                self.facts.gso = false;
                Ok(true)
            }
            Some(
                libc::EAGAIN
                | libc::ENOBUFS
                | libc::ENOMEM
                | libc::EPERM
                | libc::EMSGSIZE
                | libc::EINVAL,
            ) => Ok(false),
            _ => Err(error),
        }
    }

    /// Sends the run of messages that begins at `messages[0]` and goes through one socket.
    fn send_run(&mut self, arena: &mut [u8], messages: &[Message]) -> io::Result<()> {
        let index = usize::from(messages[0].to.socket().0);
        let (mut done, mut tries) = (0, 0);
        while done < messages.len() {
            let message = &messages[done];
            if !self.facts.gso && message.segments > 1 {
                self.send_singly(index, arena, message)?;
                done += 1;
                continue;
            }
            match self.send_through(index, arena, &messages[done..]) {
                Ok(sent) => {
                    done += sent;
                    tries = 0;
                }
                Err(e) => {
                    tries += 1;
                    if !self.send_error(e, message, index, tries)? {
                        self.counters.send_errors += message.segments as u64;
                        done += 1;
                        tries = 0;
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends the datagrams of a segmented message one by one: segmentation turned out not to work.
    fn send_singly(&mut self, index: usize, arena: &mut [u8], message: &Message) -> io::Result<()> {
        let mut offset = message.offset;
        let end = message.offset + message.len;
        while offset < end {
            let len = message.segment.min(end - offset);
            let single = Message { to: message.to, offset, len, segment: len, segments: 1 };
            let mut tries = 0;
            while let Err(e) = self.send_through(index, arena, &[single]) {
                tries += 1;
                if !self.send_error(e, &single, index, tries)? {
                    self.counters.send_errors += 1;
                    break;
                }
            }
            offset += len;
        }
        Ok(())
    }
}

impl Engine for UdpEngine {
    fn now(&mut self) -> Nanos {
        sys::monotonic()
    }

    fn batches(&self) -> (RxBatch, TxBatch) {
        let slot = if self.facts.gro { GRO_SLOT } else { PLAIN_SLOT };
        let segments = if self.facts.gso { MAX_SEGMENTS } else { 1 };
        (RxBatch::new(BATCH, slot), TxBatch::new(512, 512 << 10, segments))
    }

    fn receive(&mut self, rx: &mut RxBatch, wait: Wait) -> io::Result<()> {
        rx.clear();
        let now = sys::monotonic();
        if now > self.stamp_offset.1 + Nanos::from_secs(1) {
            self.stamp_offset = (sys::realtime().0.wrapping_sub(sys::monotonic().0), now);
        }
        if let ([_], Wait::No) = (&self.sockets[..], wait) {
            return self.receive_from(0, rx, now).map(|_| ());
        }
        let ready = self.poll(wait)?;
        let now = sys::monotonic();
        for i in 0..ready {
            let index = self.events[i].u64 as usize;
            if !self.receive_from(index, rx, now)? {
                break;
            }
        }
        Ok(())
    }

    fn send(&mut self, tx: &mut TxBatch) -> io::Result<()> {
        let mut start = 0;
        while start < tx.messages.len() {
            let socket = tx.messages[start].to.socket();
            let run = tx.messages[start..].iter().take_while(|m| m.to.socket() == socket).count();
            self.send_run(&mut tx.arena, &tx.messages[start..start + run])?;
            start += run;
        }
        tx.clear();
        tx.limit_segments(if self.facts.gso { MAX_SEGMENTS } else { 1 });
        Ok(())
    }

    fn counters(&self) -> EngineCounters {
        self.counters
    }
}

/// Errors that an ICMP message brought to a connected socket.
fn is_unreachable(code: i32) -> bool {
    matches!(
        code,
        libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENETDOWN
            | libc::EPROTO
    )
}

/// An error with the address it is about.
fn named(error: io::Error, what: &str, address: SocketAddr) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {address}: {error}"))
}

/// A negative result of a system call as its error.
fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sets an integer socket option.
fn set_option(socket: &Socket, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the option's value is an int that lives through the call, of the stated size.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    })
    .map(|_| ())
}

/// Waits a moment for room in a send queue.
fn wait_for_room(socket: &Socket) {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one valid pollfd; a failure only means that we try again at once.
    unsafe { libc::poll(&raw mut poll, 1, SEND_RETRY_MS) };
}

/// Reads what the kernel wrote as a peer's address.
fn socket_address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the storage holds a sockaddr_in, which is smaller and no stricter aligned.
            let v4 = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            Some(SocketAddr::from((
                u32::from_be(v4.sin_addr.s_addr).to_be_bytes(),
                u16::from_be(v4.sin_port),
            )))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for a sockaddr_in6.
            let v6 = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let port = u16::from_be(v6.sin6_port);
            Some(
                std::net::SocketAddrV6::new(
                    v6.sin6_addr.s6_addr.into(),
                    port,
                    v6.sin6_flowinfo,
                    v6.sin6_scope_id,
                )
                .into(),
            )
        }
        _ => None,
    }
}

/// Writes a peer's address for the kernel; its length.
fn write_address(address: SocketAddr, name: &mut libc::sockaddr_storage) -> u32 {
    match address {
        SocketAddr::V4(v4) => {
            // SAFETY: the storage is larger than a sockaddr_in and aligned for all of its kin.
            let out = unsafe { &mut *std::ptr::from_mut(name).cast::<libc::sockaddr_in>() };
            out.sin_family = libc::AF_INET as u16;
            out.sin_port = v4.port().to_be();
            out.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            size_of::<libc::sockaddr_in>() as u32
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above, for a sockaddr_in6.
            let out = unsafe { &mut *std::ptr::from_mut(name).cast::<libc::sockaddr_in6>() };
            out.sin6_family = libc::AF_INET6 as u16;
            out.sin6_port = v6.port().to_be();
            out.sin6_flowinfo = v6.flowinfo();
            out.sin6_addr.s6_addr = v6.ip().octets();
            out.sin6_scope_id = v6.scope_id();
            size_of::<libc::sockaddr_in6>() as u32
        }
    }
}

/// Sources for a client: `count` sockets over the addresses of `ips` in turn, each with a free port.
pub fn sources(ips: &[IpAddr], count: usize) -> Vec<SocketAddr> {
    ips.iter()
        .cycle()
        .take(if ips.is_empty() { 0 } else { count })
        .map(|&ip| SocketAddr::new(ip, 0))
        .collect()
}
