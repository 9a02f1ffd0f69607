//! A client and a server in two network namespaces that a veth pair joins.

use std::collections::{BTreeSet, HashMap};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use kernel::{KernelCache, KernelError};

use crate::kit::message::Reply;
use crate::nat64::{in_namespace, shell};

/// Addresses of the server on the link, and that of the client.
pub(super) const SERVER4: &str = "10.88.0.2";
pub(super) const SERVER6: &str = "fd88::2";
pub(super) const CLIENT4: &str = "10.88.0.1";
/// Longest wait for a reply, after which the query is sent again, and how often it is sent.
const PATIENCE: Duration = Duration::from_secs(3);
const TRIES: usize = 4;
/// The same for a query that may have no reply.
const SHORT_PATIENCE: Duration = Duration::from_millis(300);

/// The client's end of the link. The test itself runs at the server's end, device `v1`.
pub(super) struct Link {
    v4: UdpSocket,
    v6: UdpSocket,
    /// Number of queries that were sent again.
    pub(super) repeated: u64,
}

impl Link {
    /// Runs a test at the server's end; skips it if there can be no namespaces or programs here.
    pub(super) fn run(test: impl FnOnce(&mut Link) + Send) {
        Self::run_with(|| (), |link, ()| test(link));
    }

    /// Works as [`run`](Self::run), with an upstream that `make` starts at the client's end.
    pub(super) fn run_with<U: Send>(
        make: impl FnOnce() -> U + Send,
        test: impl FnOnce(&mut Link, U) + Send,
    ) {
        let setup = [
            "ip link add v0 type veth peer name v1",
            "ip addr add 10.88.0.1/24 dev v0",
            "ip addr add fd88::1/64 dev v0 nodad",
            "ip link set v0 up",
        ];
        in_namespace(&setup, || {
            match KernelCache::load(1, 0) {
                Err(why @ KernelError::NotPermitted) => return skip::because(why),
                loaded => drop(loaded.unwrap_or_else(|why| panic!("{why}"))),
            }
            // Frames of the server's program reach an end that receives through NAPI; no program is attached here to wake it.
            let gro = "ethtool -K v0 gro on";
            shell(gro).unwrap_or_else(|error| panic!("{gro}: {error}"));
            let bind = |address: &str| UdpSocket::bind(address).expect("a port");
            let mut link = Link { v4: bind("0.0.0.0:0"), v6: bind("[::]:0"), repeated: 0 };
            for socket in [&link.v4, &link.v6] {
                socket.set_read_timeout(Some(PATIENCE)).expect("a time");
            }
            let client = namespace();
            let upstream = make();
            in_namespace(&[], || {
                let server = namespace();
                for command in [
                    &format!("nsenter --net={client} ip link set v1 netns {server}")[..],
                    "ip addr add 10.88.0.2/24 dev v1",
                    "ip addr add fd88::2/64 dev v1 nodad",
                    "ip link set v1 up",
                ] {
                    shell(command).unwrap_or_else(|error| panic!("{command}: {error}"));
                }
                test(&mut link, upstream);
            });
        });
    }

    /// Sends a query to a server and returns its reply; it is sent again if there is none.
    pub(super) fn ask(&mut self, server: SocketAddr, query: &[u8]) -> Vec<u8> {
        self.ask_all(&[(server, query)]).remove(0)
    }

    /// Sends queries to servers at once, and returns the reply to each; those without one are sent again. Those for one server have
    /// different ids.
    pub(super) fn ask_all(&mut self, queries: &[(SocketAddr, &[u8])]) -> Vec<Vec<u8>> {
        let mut replies = vec![Vec::new(); queries.len()];
        for attempt in 0..TRIES {
            let left = |replies: &[Vec<u8>]| {
                let left = queries.iter().enumerate();
                left.filter(|(at, _)| replies[*at].is_empty()).count()
            };
            for (at, (server, query)) in queries.iter().enumerate() {
                if replies[at].is_empty() {
                    let socket = if server.is_ipv4() { &self.v4 } else { &self.v6 };
                    socket.send_to(query, server).expect("it can be sent");
                    self.repeated += u64::from(attempt > 0);
                }
            }
            for socket in [&self.v4, &self.v6] {
                receive(socket, queries, &mut replies);
            }
            if left(&replies) == 0 {
                return replies;
            }
        }
        let missing = queries.iter().zip(&replies).find(|(_, reply)| reply.is_empty());
        panic!("no reply of a server to a query: {missing:02x?}");
    }

    /// Sends a query in text form so many times over IPv4, with the ids from 0 on; returns the replies to them.
    pub(super) fn ask_at_once(&self, server: SocketAddr, query: &str, times: u16) -> Pending<'_> {
        let mut query = crate::kit::client::Query::parse(query).octets;
        for id in 0..times {
            query[..2].copy_from_slice(&id.to_be_bytes());
            self.v4.send_to(&query, server).expect("it can be sent");
        }
        Pending { link: self, server, ids: (0..times).collect() }
    }

    /// Returns whether a query in text form gets a reply, sent once.
    pub(super) fn is_answered(&self, server: SocketAddr, query: &str) -> bool {
        self.v4.set_read_timeout(Some(SHORT_PATIENCE)).expect("a time");
        let is_answered = !self.ask_at_once(server, query, 1).replies().is_empty();
        self.v4.set_read_timeout(Some(PATIENCE)).expect("a time");
        is_answered
    }

    /// Works as [`ask`](Self::ask) with a query in text form.
    pub(super) fn ask_text(&mut self, server: SocketAddr, query: &str) -> Reply {
        let query = crate::kit::client::Query::parse(query);
        Reply::parse(&self.ask(server, &query.octets))
    }
}

/// Queries that have been sent.
pub(super) struct Pending<'a> {
    link: &'a Link,
    server: SocketAddr,
    ids: BTreeSet<u16>,
}

impl Pending<'_> {
    /// Waits for a reply to each query; returns those that came in time.
    pub(super) fn replies(mut self) -> Vec<Reply> {
        let (mut octets, mut replies) = ([0; 4_096], Vec::new());
        while !self.ids.is_empty()
            && let Ok((len, from)) = self.link.v4.recv_from(&mut octets)
        {
            let id = u16::from_be_bytes([octets[0], octets[1]]);
            if from == self.server && len >= 12 && self.ids.remove(&id) {
                replies.push(Reply::parse(&octets[..len]));
            }
        }
        replies
    }
}

/// Receives the replies to queries of the socket's family until all are there, or for some time.
fn receive(socket: &UdpSocket, queries: &[(SocketAddr, &[u8])], replies: &mut [Vec<u8>]) {
    let v4 = socket.local_addr().expect("its address").is_ipv4();
    let is_missing = |at: usize, reply: &[u8]| queries[at].0.is_ipv4() == v4 && reply.is_empty();
    let places = (0..queries.len()).filter(|at| is_missing(*at, &replies[*at]));
    let key = |from: SocketAddr, octets: &[u8]| (from.port(), from.ip(), [octets[0], octets[1]]);
    let mut waiting: HashMap<_, usize> =
        places.map(|at| (key(queries[at].0, queries[at].1), at)).collect();
    let (mut octets, until) = ([0; 4_096], Instant::now() + PATIENCE);
    while !waiting.is_empty()
        && Instant::now() < until
        && let Ok((len, from)) = socket.recv_from(&mut octets)
    {
        if len >= 2
            && let Some(at) = waiting.remove(&key(from, &octets))
        {
            replies[at] = octets[..len].to_vec();
        }
    }
}

/// Returns the path of this thread's network namespace.
fn namespace() -> String {
    format!("/proc/{}/task/{}/ns/net", std::process::id(), nix::unistd::gettid())
}
