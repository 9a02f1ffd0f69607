//! The state of an upstream server.

use std::net::{IpAddr, SocketAddr};

use engine::SocketId;
use measure::{Nanos, Transport};

use super::cookie::UpstreamCookie;
use crate::config::{PortRange, RouteConfig};

/// Number of queries to a server that may be sent again early without a reply to another query.
pub(super) const MAX_REPEATS: u32 = 1_000;
/// Share of a server that answers all queries.
pub(super) const ALL: u32 = 1 << 16;

/// One upstream server as a worker sees it: its round trips, losses and cookies.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Address at which it is reached; `None` while it is not known.
    pub(super) way: Option<SocketAddr>,
    /// Source address of queries to the server (`None`: the kernel chooses), the route settings, and
    /// the ports that its sockets avoid.
    pub(super) source: Option<IpAddr>,
    pub(super) route: RouteConfig,
    pub(super) avoid_ports: Vec<PortRange>,
    /// Number of the server's pool, and its weight in the pool (0: the pool has no weights).
    pub(super) pool: usize,
    pub(super) weight: u32,
    pub(super) transport: Transport,
    pub(super) sockets: Vec<SocketId>,
    /// Time from which on sockets that it lacks are opened.
    pub(super) open_at: Nanos,
    /// Index of the current socket, and its number of queries so far.
    pub(super) current: usize,
    pub(super) run: u32,
    /// Smoothed round trip time, zero before the first reply, and the mean deviation (RFC 6298).
    pub(crate) rtt: Nanos,
    pub(super) rtt_deviation: Nanos,
    /// Time of the last reply.
    pub(crate) heard_at: Nanos,
    /// Number of timeouts since the server's last reply.
    pub(super) timeouts: u32,
    /// Number of queries that may be sent again early: each reply adds one, up to [`MAX_REPEATS`].
    pub(super) repeats: u32,
    /// Share of answered queries, lately; [`ALL`] for all of them.
    pub(super) share: u32,
    /// Time since which the server is suspected to be dead, and the number of probes without a
    /// reply since then.
    pub(super) suspected: Option<Nanos>,
    pub(super) lost_probes: u32,
    pub(crate) dead: bool,
    /// Time of the next probe, and the wait until the one after it.
    pub(super) probe_at: Nanos,
    pub(super) probe_wait: Nanos,
    pub(super) case: CaseTrust,
    pub(super) cookie: UpstreamCookie,
    /// Whether the server's AD bit is trusted.
    pub(super) trusted: bool,
    /// Whether the server is no longer in the configuration.
    pub(super) retired: bool,
}

/// Whether a server keeps the letter case of names in its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseTrust {
    /// Not known yet; holds the number of replies in another case; none had the right case so far.
    Unknown(u8),
    Keeps,
    /// The server changes the case; it is tried again at this time.
    Changes(Nanos),
}

impl Server {
    pub(super) fn new(
        address: SocketAddr,
        way: Option<SocketAddr>,
        pool: usize,
        cookie: UpstreamCookie,
        probe_wait: Nanos,
    ) -> Self {
        Server {
            address,
            way,
            source: None,
            route: RouteConfig::default(),
            avoid_ports: Vec::new(),
            pool,
            weight: 0,
            transport: Transport::Udp,
            sockets: Vec::new(),
            open_at: Nanos::ZERO,
            current: 0,
            run: 0,
            rtt: Nanos::ZERO,
            rtt_deviation: Nanos::ZERO,
            heard_at: Nanos::ZERO,
            timeouts: 0,
            repeats: MAX_REPEATS / 10,
            share: ALL,
            suspected: None,
            lost_probes: 0,
            dead: false,
            probe_at: Nanos::ZERO,
            probe_wait,
            case: CaseTrust::Unknown(0),
            cookie,
            trusted: false,
            retired: false,
        }
    }

    /// Returns whether the server can be used: without streams it needs a socket.
    pub(super) fn is_usable(&self) -> bool {
        !self.retired && (!self.transport.is_datagram() || !self.sockets.is_empty())
    }

    /// Returns whether the server has not replied since a time.
    pub(crate) fn is_silent_since(&self, time: Nanos) -> bool {
        self.heard_at <= time
    }

    /// Returns whether the server is for some zones only.
    pub(crate) fn is_for_zones(&self) -> bool {
        self.pool > 0
    }

    /// Returns the number of source ports in use.
    pub(crate) fn ports(&self) -> usize {
        self.sockets.len()
    }
}
