//! Listening sockets that outlive the program: passed by the service manager (`LISTEN_FDS`, sd_listen_fds(3)), and given to it
//! to keep (`FDSTORE=1`, sd_pid_notify_with_fds(3)).
//!
//! ```text
//!   systemd ──sockets of a socket unit, sockets of the server before──> dns64d
//!           <──new sockets, each with a name──────────────────────────── dns64d
//! ```
//!
//! While no server runs, the kernel keeps what arrives: datagrams up to `server.socket-buffer` for
//! each socket, connections up to the backlog. A socket is recognised by its kind and its address,
//! not by its name, so that socket units need no names. One without a setting is closed, and the
//! service manager is asked to drop it.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::Context;
use dns64::config::RouteConfig;
use listenfd::ListenFd;
use sd_notify::NotifyState;
use socket2::SockRef;
use streams::{serve, tcp};
use udp::{Prepare, UdpEngine, UdpOptions};

use crate::route;

/// Longest time until the service manager closes a socket that it should no longer keep.
const MAX_CLOSE_TIME: Duration = Duration::from_secs(5);

/// Sockets of the service manager, by kind, each with its name.
#[derive(Default)]
pub(crate) struct Kept {
    udp: Vec<(String, UdpSocket)>,
    tcp: Vec<(String, TcpListener)>,
}

impl Kept {
    /// Takes the sockets that the service manager passed to this process, except sockets that are
    /// bound to another device than that of `route`.
    pub(crate) fn take(route: &RouteConfig) -> Self {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':').map(str::to_owned);
        let mut passed = ListenFd::from_env();
        let mut kept = Kept::default();
        for number in 0..passed.len() {
            let name = names.next().unwrap_or_default();
            if let Ok(Some(socket)) = passed.take_udp_socket(number) {
                kept.udp.push((name, socket));
            } else if let Ok(Some(socket)) = passed.take_tcp_listener(number) {
                kept.tcp.push((name, socket));
            } else {
                tracing::warn!(name, "a socket of the service manager is neither UDP nor TCP");
            }
        }
        kept.follow(route);
        // In the order of the workers that had them, so that clients reach the cache of their
        // earlier worker.
        kept.udp.sort_by_cached_key(|(name, _)| (name.len(), name.clone()));
        kept
    }

    /// Keeps the sockets that are bound to the device of `route`, and gives them its class of traffic. The others are closed,
    /// and their addresses are free when this returns.
    fn follow(&mut self, route: &RouteConfig) {
        let udp = self.udp.extract_if(.., |(_, socket)| !follows(route, (&*socket).into()));
        let udp = udp.map(|(name, socket)| (name, socket.local_addr().ok()));
        let tcp = self.tcp.extract_if(.., |(_, socket)| !follows(route, (&*socket).into()));
        let tcp = tcp.map(|(name, socket)| (name, socket.local_addr().ok()));
        let (udp, tcp): (Vec<_>, Vec<_>) = (udp.collect(), tcp.collect());
        for (name, _) in udp.iter().chain(&tcp) {
            tracing::warn!(name, "a kept socket is replaced: server.route has changed");
            forget(name);
        }
        let is_free = || {
            udp.iter().filter_map(|(_, at)| *at).all(|at| UdpSocket::bind(at).is_ok())
                && tcp.iter().filter_map(|(_, at)| *at).all(|at| TcpListener::bind(at).is_ok())
        };
        // The service manager keeps the sockets open until it has read the messages.
        let since = Instant::now();
        while !is_free() && since.elapsed() < MAX_CLOSE_TIME {
            std::thread::sleep(MAX_CLOSE_TIME / 100);
        }
    }

    /// Makes the engines of the workers on these addresses; `prepare` is called with each new socket before it is bound.
    ///
    /// # Errors
    /// When an address cannot be bound.
    pub(crate) fn engines(
        &mut self,
        listen: &[SocketAddr],
        workers: usize,
        options: UdpOptions,
        prepare: Prepare<'_>,
    ) -> io::Result<Vec<UdpEngine>> {
        let is_wanted = |entry: &mut (String, UdpSocket)| {
            entry.1.local_addr().is_ok_and(|address| listen.contains(&address))
        };
        let bound = self.udp.extract_if(.., is_wanted).map(|(_, socket)| socket).collect();
        UdpEngine::servers(listen, workers, options, prepare, workers > 1 || keeps(), bound)
    }

    /// Returns a listening TCP socket; a new one is prepared before it is bound.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub(crate) fn tcp(
        &mut self,
        address: SocketAddr,
        prepare: Prepare<'_>,
    ) -> io::Result<TcpListener> {
        if let Some(socket) = take_at(&mut self.tcp, address, TcpListener::local_addr) {
            return socket.set_nonblocking(true).map(|()| socket);
        }
        let socket = tcp::listen_with(address, prepare)?;
        keep("tcp", 0, socket.local_addr()?, socket.as_fd());
        Ok(socket)
    }

    /// Returns a UDP socket for QUIC; a new one is prepared before it is bound.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub(crate) fn quic(
        &mut self,
        address: SocketAddr,
        prepare: Prepare<'_>,
    ) -> io::Result<UdpSocket> {
        if let Some(socket) = take_at(&mut self.udp, address, UdpSocket::local_addr) {
            return socket.set_nonblocking(true).map(|()| socket);
        }
        let socket = serve::listen_with(address, prepare)?;
        keep("quic", 0, socket.local_addr()?, socket.as_fd());
        Ok(socket)
    }

    /// Closes the sockets for which there is no setting.
    pub(crate) fn close(self) {
        let udp = self.udp.iter().map(|(name, socket)| (name, "UDP", socket.local_addr()));
        let tcp = self.tcp.iter().map(|(name, socket)| (name, "TCP", socket.local_addr()));
        for (name, kind, address) in udp.chain(tcp) {
            let address = address.map_or_else(|error| error.to_string(), |at| at.to_string());
            tracing::warn!(
                name,
                "closing the socket for {kind} {address} of the service manager: no setting has this address"
            );
            forget(name);
        }
    }
}

/// Removes the first socket at `address` and returns it.
fn take_at<T>(
    all: &mut Vec<(String, T)>,
    address: SocketAddr,
    address_of: fn(&T) -> io::Result<SocketAddr>,
) -> Option<T> {
    let is_here = |(_, socket): &(String, T)| address_of(socket).ok() == Some(address);
    let place = all.iter().position(is_here)?;
    Some(all.remove(place).1)
}

/// Stores the listening sockets of the workers in the service manager. A socket that is already
/// stored is not changed.
///
/// # Errors
/// Errors of the kernel.
pub(crate) fn keep_all(engines: &[UdpEngine]) -> anyhow::Result<()> {
    for (number, engine) in engines.iter().enumerate() {
        for (address, socket) in engine.listening().context("server.listen")? {
            keep("udp", number, address, socket);
        }
    }
    Ok(())
}

/// Gives a socket the class of traffic of `route`; returns false if it is bound to another device.
fn follows(route: &RouteConfig, socket: SockRef<'_>) -> bool {
    let device = socket.device().ok().flatten().unwrap_or_default();
    let is_same = device.strip_suffix(b"\0").unwrap_or(&device) == route.device.as_bytes();
    let rest = RouteConfig { device: String::new(), ..route.clone() };
    is_same && route::prepare(&rest, socket.as_fd()).is_ok()
}

/// Removes a socket from the service manager.
fn forget(name: &str) {
    let _ = sd_notify::notify(false, &[NotifyState::FdStoreRemove, NotifyState::FdName(name)]);
}

/// Returns whether there is a service manager that can store sockets.
fn keeps() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Stores a socket in the service manager for the next server, even after a crash of this one. It
/// ignores sockets beyond the number that the unit permits (`FileDescriptorStoreMax`).
fn keep(kind: &str, number: usize, address: SocketAddr, socket: BorrowedFd<'_>) {
    // The names of descriptors have no colons.
    let name = format!("{kind}-{number}@{address}").replace(':', "_");
    let state = [NotifyState::FdStore, NotifyState::FdName(&name)];
    if let Err(error) = sd_notify::notify_with_fds(false, &state, &[socket]) {
        tracing::warn!(name, "the service manager does not store a socket: {error}");
    }
}
