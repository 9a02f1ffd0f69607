//! Sockets to the upstream servers.
//!
//! Each server has its own sockets with random ports. They are connected, so that the kernel accepts only datagrams
//! from its address and port. One socket is drawn at random for each batch of queries (so that a batch may leave as one
//! segmented message), for at most 64 queries. The sockets get new ports one after the other. A role opens no socket;
//! it requests the change from the caller of the engine.

use std::net::SocketAddr;

use chacha20::ChaCha12Rng;
use chacha20::rand_core::Rng;
use engine::SocketId;
use measure::Nanos;

use super::{Server, ServerId, Upstreams};

/// Highest number of queries on one socket before another one is drawn.
const MAX_RUN: u32 = 64;
/// Time after which a socket that could not be opened is tried again, at most.
const OPEN_AGAIN: Nanos = Nanos::from_secs(1);

/// One of the sockets to a server.
#[derive(Clone, Copy)]
pub(super) struct Socket {
    server: ServerId,
    /// Number of queries that wait for a reply on it.
    waiting: u32,
    /// Whether the socket is about to get a new port or another server.
    leaving: bool,
}

/// Request to bind a socket to a new random port and connect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketChange {
    /// The socket; `None` for a new one.
    pub socket: Option<SocketId>,
    /// Address to which the socket is connected.
    pub target: SocketAddr,
    /// Address of the server in the configuration.
    pub address: SocketAddr,
    server: ServerId,
}

impl Upstreams {
    /// Returns the server to which a socket is connected; `None` for a socket to clients.
    #[inline]
    pub(crate) fn server_of(&self, socket: SocketId) -> Option<ServerId> {
        self.sockets.get(usize::from(socket.0)).copied().flatten().map(|socket| socket.server)
    }

    /// Draws other sockets for the next queries.
    #[inline]
    pub(crate) fn shuffle(&mut self, rng: &mut ChaCha12Rng) {
        for server in &mut self.servers {
            if server.run > 0 {
                server.draw(rng);
            }
        }
    }

    /// Returns the socket for one more query to a server; `None` while it has none.
    #[inline]
    pub(crate) fn take_socket(
        &mut self,
        server: ServerId,
        rng: &mut ChaCha12Rng,
    ) -> Option<SocketId> {
        let server = &mut self.servers[usize::from(server)];
        if server.run == MAX_RUN {
            server.draw(rng);
        }
        // A socket that is about to change takes no more queries. At most one socket changes at a
        // time, except for removed servers.
        let mut socket = *server.sockets.get(server.current)?;
        if self.sockets[usize::from(socket.0)].is_some_and(|socket| socket.leaving) {
            server.current = (server.current + 1) % server.sockets.len();
            socket = server.sockets[server.current];
        }
        server.run += 1;
        if let Some(socket) = &mut self.sockets[usize::from(socket.0)] {
            socket.waiting += 1;
        }
        Some(socket)
    }

    /// Notes that a query on this socket has ended.
    #[inline]
    pub(crate) fn give_back(&mut self, socket: SocketId) {
        if let Some(socket) = &mut self.sockets[usize::from(socket.0)] {
            debug_assert!(socket.waiting > 0);
            socket.waiting = socket.waiting.saturating_sub(1);
        }
    }

    /// Returns a socket that must be opened or changed now, if there is one; see
    /// [`socket_changed`](Self::socket_changed).
    pub(crate) fn next_socket_change(
        &mut self,
        now: Nanos,
        rng: &mut ChaCha12Rng,
    ) -> Option<SocketChange> {
        let wanting = |s: &Server| {
            s.has_ports() && now >= s.open_at && s.sockets.len() < self.config.source_ports
        };
        if let Some(server) = self.servers.iter().position(wanting) {
            return self.change(self.spare(), server as ServerId);
        }
        if self.renewing.is_none() && now >= self.renew_at {
            self.renew_at = now + self.config.port_lifetime;
            let living: Vec<usize> =
                (0..self.servers.len()).filter(|&i| self.servers[i].has_ports()).collect();
            let server = *living.get(rng.next_u32() as usize % living.len().max(1))?;
            let sockets = &self.servers[server].sockets;
            // A server with one socket has no other one for the time of the change.
            if sockets.len() > 1 {
                let socket = sockets[rng.next_u32() as usize % sockets.len()];
                self.renewing = Some(socket);
                if let Some(socket) = &mut self.sockets[usize::from(socket.0)] {
                    socket.leaving = true;
                }
            }
        }
        let socket = self.renewing?;
        let Socket { server, waiting, .. } = self.sockets[usize::from(socket.0)]?;
        if waiting == 0 { self.change(Some(socket), server) } else { None }
    }

    /// Makes the request to connect a socket to a server; `None` if the server has no address.
    fn change(&self, socket: Option<SocketId>, server: ServerId) -> Option<SocketChange> {
        let Server { address, way, .. } = self.servers[usize::from(server)];
        Some(SocketChange { socket, target: way?, address, server })
    }

    /// Returns a socket of a removed server without pending queries.
    fn spare(&self) -> Option<SocketId> {
        let mut sockets = self.servers.iter().filter(|s| s.retired).flat_map(|s| &s.sockets);
        let is_idle = |id: &&SocketId| {
            self.sockets[usize::from(id.0)].is_some_and(|socket| socket.waiting == 0)
        };
        sockets.find(is_idle).copied()
    }

    /// Notes that a socket was opened or changed and has the number `socket`.
    pub(crate) fn socket_changed(&mut self, change: SocketChange, socket: SocketId) {
        for server in &mut self.servers {
            server.sockets.retain(|&other| other != socket);
            // `current` stays an index of `sockets`: the server may be added again.
            server.current = server.current.min(server.sockets.len().saturating_sub(1));
        }
        let server = &mut self.servers[usize::from(change.server)];
        server.sockets.push(socket);
        let index = usize::from(socket.0);
        if self.sockets.len() <= index {
            self.sockets.resize(index + 1, None);
        }
        self.sockets[index] = Some(Socket { server: change.server, waiting: 0, leaving: false });
        self.renewing = self.renewing.filter(|&other| other != socket);
    }

    /// Notes that a change failed: it is tried again later, and changes for other servers continue.
    pub(crate) fn socket_change_failed(&mut self, change: SocketChange, now: Nanos) {
        self.renew_at = now + self.config.port_lifetime;
        let soon = self.config.port_lifetime.min(OPEN_AGAIN);
        self.servers[usize::from(change.server)].open_at = now + soon;
        if let Some(id) = change.socket
            && let Some(socket) = &mut self.sockets[usize::from(id.0)]
        {
            socket.leaving = false;
            self.renewing = self.renewing.filter(|&other| other != id);
        }
    }
}

impl Server {
    /// Returns whether the server needs source ports.
    fn has_ports(&self) -> bool {
        !self.retired && self.transport.is_datagram() && self.way.is_some()
    }

    /// Draws at random from which of its sockets the next queries leave.
    fn draw(&mut self, rng: &mut ChaCha12Rng) {
        self.run = 0;
        if self.sockets.len() > 1 {
            self.current = rng.next_u32() as usize % self.sockets.len();
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::upstreams;
    use super::*;
    use crate::config::{Config, UpstreamConfig};

    /// Makes the requested changes, as an engine would; returns the number of new sockets.
    pub(in super::super) fn open(
        upstreams: &mut Upstreams,
        rng: &mut ChaCha12Rng,
        next: &mut u16,
    ) -> u16 {
        let before = *next;
        while let Some(change) = upstreams.next_socket_change(Nanos::ZERO, rng) {
            if change.socket.is_some() && upstreams.renewing.is_some() {
                upstreams.socket_change_failed(change, Nanos::ZERO);
                break;
            }
            let id = change.socket.unwrap_or(SocketId(*next));
            *next += u16::from(change.socket.is_none());
            upstreams.socket_changed(change, id);
        }
        *next - before
    }

    #[test]
    fn sockets_are_drawn_evenly_and_get_new_ports_when_idle() {
        let (mut up, mut rng) = upstreams(&["192.0.2.1:53"], 8);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..800 {
            up.shuffle(&mut rng);
            *counts.entry(up.take_socket(0, &mut rng).expect("one")).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 8);
        assert!(counts.values().all(|n| (60..140).contains(n)), "{counts:?}");
        // A batch stays on one socket, up to 64 queries.
        up.shuffle(&mut rng);
        let run: Vec<_> = (0..64).map(|_| up.take_socket(0, &mut rng)).collect();
        assert!(run.iter().all(|socket| *socket == run[0]));

        let later = Nanos::from_secs(10);
        assert_eq!(up.next_socket_change(later, &mut rng), None, "all are in use");
        let leaving = up.renewing.expect("one is to go");
        for _ in 0..200 {
            up.shuffle(&mut rng);
            assert_ne!(up.take_socket(0, &mut rng), Some(leaving));
        }
        while up.sockets[usize::from(leaving.0)].expect("it is there").waiting > 0 {
            up.give_back(leaving);
        }
        let change = up.next_socket_change(later, &mut rng).expect("it is idle");
        assert_eq!(change.socket, Some(leaving));
        up.socket_changed(change, leaving);
        assert_eq!((up.next_socket_change(later, &mut rng), up.server(0).ports()), (None, 8));
    }

    #[test]
    fn a_reload_keeps_states_and_uses_sockets_of_removed_servers() {
        let (mut up, mut rng) = upstreams(&["192.0.2.1:53", "192.0.2.2:53"], 4);
        up.answered(1, Nanos::ZERO, Nanos::from_millis(5));
        let waiting = up.take_socket(0, &mut rng).expect("one");
        let servers = ["192.0.2.3:53", "192.0.2.2:53"].map(|s| s.parse().expect("an address"));
        let upstream = UpstreamConfig { servers: servers.to_vec(), ..up.config.clone() };
        up.reload(&Config { upstream, ..Config::default() }, &Some);
        let mut next = 100;
        assert_eq!(open(&mut up, &mut rng, &mut next), 1, "one still waits");
        assert_eq!(up.server(1).rtt, Nanos::from_millis(5));
        assert_eq!(up.server_of(waiting), Some(0));
        assert!((0..500).all(|_| up.choose(0, None, &mut rng) != 0));
        assert_eq!(up.servers().map(|s| s.ports()).sum::<usize>(), 8);
    }

    #[test]
    fn a_server_without_a_route_keeps_no_other_one_from_its_sockets() {
        let (mut up, mut rng) = upstreams(&["192.0.2.1:53"], 4);
        let servers = ["192.0.2.2:53", "192.0.2.3:53"].map(|s| s.parse().expect("an address"));
        let upstream = UpstreamConfig { servers: servers.to_vec(), ..up.config.clone() };
        up.reload(&Config { upstream, ..Config::default() }, &Some);
        let change = up.next_socket_change(Nanos::ZERO, &mut rng).expect("it has no socket");
        assert_eq!(change.address, servers[0]);
        up.socket_change_failed(change, Nanos::ZERO);
        let change = up.next_socket_change(Nanos::ZERO, &mut rng).expect("the other one has none");
        assert_eq!(change.address, servers[1]);
        let later = up.config.port_lifetime.min(OPEN_AGAIN);
        let change = up.next_socket_change(later, &mut rng).expect("it has no socket");
        assert_eq!(change.address, servers[0], "it is tried again");
    }

    #[test]
    fn another_source_route_or_port_to_avoid_gives_all_sockets_anew() {
        let (mut up, mut rng) = upstreams(&["192.0.2.1:53"], 4);
        let source = vec!["192.0.2.9".parse().expect("an address")];
        let device = crate::config::RouteConfig { device: "vrf".into(), ..Default::default() };
        let sourced = UpstreamConfig { source, ..up.config.clone() };
        let routed = UpstreamConfig { route: device, ..up.config.clone() };
        let avoid_ports = vec!["5000-9000".parse().expect("ports")];
        let avoiding = UpstreamConfig { avoid_ports, ..up.config.clone() };
        for upstream in [sourced, routed, avoiding, up.config.clone()] {
            up.reload(&Config { upstream: upstream.clone(), ..Config::default() }, &Some);
            assert_eq!(up.servers().map(|s| s.ports()).sum::<usize>(), 0, "none is right");
            open(&mut up, &mut rng, &mut 100);
            up.reload(&Config { upstream, ..Config::default() }, &Some);
            assert_eq!(up.servers().map(|s| s.ports()).sum::<usize>(), 4, "all stay");
        }
    }

    #[test]
    fn a_server_that_has_given_sockets_away_is_used_again_with_the_others() {
        let (mut up, mut rng) = upstreams(&["192.0.2.1:53"], 8);
        let reload = |up: &mut Upstreams, server: &str, source_ports: usize| {
            let servers = vec![server.parse().expect("an address")];
            let upstream = UpstreamConfig { servers, source_ports, ..up.config.clone() };
            up.reload(&Config { upstream, ..Config::default() }, &Some);
        };
        // The first four go to the other server, so that the index 7 is past the end.
        up.servers[0].current = 7;
        reload(&mut up, "192.0.2.2:53", 4);
        open(&mut up, &mut rng, &mut 100);
        reload(&mut up, "192.0.2.1:53", 4);
        assert_eq!(up.next_socket_change(Nanos::ZERO, &mut rng), None, "four are left");
        let socket = up.take_socket(0, &mut rng).expect("one of the four");
        assert_eq!(up.server_of(socket), Some(0));
    }
}
