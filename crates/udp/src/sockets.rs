//! The engine of UDP sockets: the sockets of one worker, read and written in batches.

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use engine::{Engine, EngineCounters, RxBatch, SocketId, TxBatch, Wait, clock};
use measure::Nanos;

use crate::doorbell::Doorbell;
use crate::options::{BATCH, UdpFacts, UdpOptions};
use crate::ready::Ready;
use crate::receive::Receiver;
use crate::send::Sender;
use crate::socket::{self, Prepare, UdpSocket};

/// Slots of a receive batch with coalesced messages of up to 128 datagrams each.
const GRO_SLOTS: usize = 32;
/// Bytes of a slot: the longest IP packet.
const SLOT_LEN: usize = 65_535;
/// Datagrams of a send batch: one reply to each datagram of a receive batch.
const SEND_BATCH: usize = GRO_SLOTS * 128;
/// Bytes of a send batch; unused memory is not resident.
const SEND_BYTES: usize = 8 << 20;
/// Highest number of datagrams in a segmented message: the kernel's limit before Linux 6.9
/// (`UDP_MAX_SEGMENTS`).
const MAX_SEGMENTS: usize = 64;
/// Highest number of sockets of one engine.
pub const MAX_SOCKETS: usize = 4_096;

/// Batched UDP sockets of one worker: connected ones, listening ones, or both.
pub struct UdpEngine {
    sockets: Vec<UdpSocket>,
    ready: Ready,
    doorbell: Option<Doorbell>,
    receiver: Receiver,
    sender: Sender,
    options: UdpOptions,
    facts: UdpFacts,
    counters: EngineCounters,
}

impl UdpEngine {
    /// Makes an engine without sockets.
    ///
    /// # Errors
    /// None so far; opening sockets may fail.
    pub fn new(options: UdpOptions) -> io::Result<Self> {
        let facts = UdpFacts {
            gso: options.gso,
            gro: options.gro,
            timestamps: options.timestamps,
            drop_counts: true,
            ..UdpFacts::default()
        };
        Ok(UdpEngine {
            sockets: Vec::new(),
            ready: Ready::new(),
            doorbell: None,
            receiver: Receiver::new(),
            sender: Sender::new(),
            options,
            facts,
            counters: EngineCounters::default(),
        })
    }

    /// Makes a client engine: one socket for each of `sources`, connected to `target`. Port 0
    /// requests a free port.
    ///
    /// # Errors
    /// When a source address cannot be bound or the target cannot be reached; the error names it.
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

    /// Makes a server engine: one socket for each of `listen`. With `share_port` other workers may listen on
    /// the same addresses, and the kernel distributes the clients over them (`SO_REUSEPORT`).
    ///
    /// # Errors
    /// When an address cannot be bound; the error names it.
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

    /// Makes a server engine for each of `workers` workers, all on the same addresses; `prepare` is called with each socket
    /// before it is bound. An address whose port another process shares is refused too, since that process would get a
    /// part of the datagrams.
    ///
    /// The workers receive the already bound sockets of `bound` in turn, such as those that a
    /// service manager keeps; all must be of these addresses. A worker without one gets a new
    /// socket, or the same as the first worker if that one does not share its port. With
    /// `share_port` later servers may add sockets to the ports.
    ///
    /// # Errors
    /// When an address cannot be bound; the error names it.
    pub fn servers(
        listen: &[SocketAddr],
        workers: usize,
        options: UdpOptions,
        prepare: Prepare<'_>,
        share_port: bool,
        mut bound: Vec<std::net::UdpSocket>,
    ) -> io::Result<Vec<Self>> {
        let mut engines =
            (0..workers).map(|_| Self::new(options)).collect::<io::Result<Vec<_>>>()?;
        let mut beyond = Vec::new();
        for &address in listen {
            let is_here =
                |socket: &mut std::net::UdpSocket| socket.local_addr().ok() == Some(address);
            let adopted = bound.extract_if(.., is_here).map(UdpSocket::adopted);
            let mut sockets = adopted.collect::<io::Result<Vec<_>>>()?;
            // A free port chosen by the kernel is the same for all workers.
            let address = match sockets.is_empty() {
                true => socket::free_address(address, prepare)?,
                false => address,
            };
            while sockets.len() < workers {
                sockets.push(match sockets.first() {
                    Some(first) if !first.shares_port()? => first.try_clone()?,
                    _ => UdpSocket::listening(address, share_port, prepare)?,
                });
            }
            beyond.extend(sockets.drain(workers..));
            for (engine, socket) in engines.iter_mut().zip(sockets) {
                engine.add(socket)?;
            }
        }
        // There were more workers before: datagrams on their sockets must not be lost.
        for (number, socket) in beyond.into_iter().enumerate() {
            engines[number % workers].add(socket)?;
        }
        Ok(engines)
    }

    /// Adds a socket bound to `source` and connected to `target`.
    ///
    /// # Errors
    /// As [`client`](Self::client).
    pub fn connect(&mut self, target: SocketAddr, source: SocketAddr) -> io::Result<SocketId> {
        self.connect_with(target, source, &|_| Ok(()))
    }

    /// Works as [`connect`](Self::connect); `prepare` is called with the socket before it is bound.
    ///
    /// # Errors
    /// As [`client`](Self::client), and those of `prepare`.
    pub fn connect_with(
        &mut self,
        target: SocketAddr,
        source: SocketAddr,
        prepare: Prepare<'_>,
    ) -> io::Result<SocketId> {
        self.add(UdpSocket::connected(target, source, prepare)?)
    }

    /// Adds a socket that listens on `address`.
    ///
    /// # Errors
    /// As [`server`](Self::server).
    pub fn listen(&mut self, address: SocketAddr, share_port: bool) -> io::Result<SocketId> {
        self.add(UdpSocket::listening(address, share_port, &|_| Ok(()))?)
    }

    /// Stops reading the listening sockets. Datagrams that arrive later remain in the kernel, for
    /// another process with the same sockets.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn stop_listening(&mut self) -> io::Result<()> {
        let listening =
            |(index, socket): (usize, &UdpSocket)| socket.peer.is_none().then_some(index);
        let all: Vec<usize> = self.sockets.iter().enumerate().filter_map(listening).collect();
        all.into_iter().try_for_each(|index| self.ready.remove(index))
    }

    /// Replaces a socket by a new one, bound to `source` and connected to `target`, after
    /// `prepare`. The old one is closed with its unread datagrams. After an error the old one is
    /// kept.
    ///
    /// # Errors
    /// As [`client`](Self::client).
    pub fn replace(
        &mut self,
        id: SocketId,
        target: SocketAddr,
        source: SocketAddr,
        prepare: Prepare<'_>,
    ) -> io::Result<()> {
        let mut socket = UdpSocket::connected(target, source, prepare)?;
        socket.probe(&self.options, &mut self.facts)?;
        let index = usize::from(id.0);
        self.counters.dropped += self.sockets[index].dropped();
        self.ready.replace(index, &socket)?;
        self.sockets[index] = socket;
        Ok(())
    }

    /// Returns a doorbell with which other threads end this worker's waits.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn doorbell(&mut self) -> io::Result<Doorbell> {
        if let Some(bell) = &self.doorbell {
            return Ok(bell.clone());
        }
        let bell = Doorbell::new()?;
        self.ready.set_doorbell(bell.fd())?;
        self.facts.epoll = true;
        self.doorbell = Some(bell.clone());
        Ok(bell)
    }

    /// Probes the options on a new socket and adds it.
    fn add(&mut self, mut socket: UdpSocket) -> io::Result<SocketId> {
        if self.sockets.len() == MAX_SOCKETS {
            return Err(io::Error::other(format!("more than {MAX_SOCKETS} sockets in one worker")));
        }
        socket.probe(&self.options, &mut self.facts)?;
        let id = SocketId(self.sockets.len() as u16);
        self.ready.add(&socket)?;
        self.sockets.push(socket);
        self.facts.sockets = self.sockets.len();
        self.facts.epoll = self.ready.is_epoll();
        Ok(id)
    }

    /// Returns the address of a socket.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn local_address(&self, id: SocketId) -> io::Result<SocketAddr> {
        self.sockets[usize::from(id.0)].local_address()
    }

    /// Returns the listening sockets with their addresses, for a service manager that keeps them.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn listening(&self) -> io::Result<Vec<(SocketAddr, BorrowedFd<'_>)>> {
        let listening = self.sockets.iter().filter(|socket| socket.peer.is_none());
        listening.map(|socket| Ok((socket.local_address()?, socket.as_fd()))).collect()
    }

    /// Returns the active options; segmentation may have been switched off since the start.
    pub fn facts(&self) -> UdpFacts {
        self.facts
    }

    /// Receives from the sockets that have datagrams, as far as there are slots.
    fn collect(&mut self, rx: &mut RxBatch) -> io::Result<()> {
        while !rx.is_full() {
            let Some(index) = self.ready.next() else { break };
            self.receiver.receive(index, &self.sockets[index], rx, &mut self.counters)?;
        }
        Ok(())
    }
}

impl Engine for UdpEngine {
    fn now(&mut self) -> Nanos {
        clock::monotonic()
    }

    fn batches(&self) -> (RxBatch, TxBatch) {
        let slots = if self.facts.gro { GRO_SLOTS } else { BATCH };
        let segments = if self.facts.gso { MAX_SEGMENTS } else { 1 };
        (RxBatch::new(slots, SLOT_LEN), TxBatch::new(SEND_BATCH, SEND_BYTES, segments))
    }

    #[inline(never)] // like `send`: into a worker loop of a crate that `make dist` compiles for size
    fn receive(&mut self, rx: &mut RxBatch, wait: Wait) -> io::Result<()> {
        rx.clear();
        if self.ready.look()? {
            self.collect(rx)?;
        }
        if let (true, Wait::Until(until)) = (rx.is_empty(), wait) {
            let timeout = until.since(clock::monotonic());
            if timeout > Nanos::ZERO && self.ready.wait(timeout)? {
                self.collect(rx)?;
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn send(&mut self, tx: &mut TxBatch) -> io::Result<()> {
        let result = self.sender.send(&self.sockets, tx, &mut self.facts.gso, &mut self.counters);
        tx.clear();
        tx.limit_segments(if self.facts.gso { MAX_SEGMENTS } else { 1 });
        result
    }

    fn was_rung(&mut self) -> bool {
        self.doorbell.as_ref().is_some_and(Doorbell::was_rung)
    }

    fn counters(&self) -> EngineCounters {
        let dropped: u64 = self.sockets.iter().map(UdpSocket::dropped).sum();
        EngineCounters { dropped: self.counters.dropped + dropped, ..self.counters }
    }
}

/// Makes source addresses for a client: `count` sockets over the addresses of `ips` in turn, each with a free
/// port.
pub fn sources(ips: &[IpAddr], count: usize) -> Vec<SocketAddr> {
    ips.iter()
        .cycle()
        .take(if ips.is_empty() { 0 } else { count })
        .map(|&ip| SocketAddr::new(ip, 0))
        .collect()
}
