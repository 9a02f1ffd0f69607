//! A client and a server in two network namespaces that a veth pair joins.

use std::collections::BTreeSet;
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
        let socket = if server.is_ipv4() { &self.v4 } else { &self.v6 };
        let mut octets = [0; 4_096];
        for _ in 0..TRIES {
            socket.send_to(query, server).expect("it can be sent");
            let until = Instant::now() + PATIENCE;
            while Instant::now() < until
                && let Ok((len, from)) = socket.recv_from(&mut octets)
            {
                if from == server && len >= 2 && octets[..2] == query[..2] {
                    return octets[..len].to_vec();
                }
            }
            self.repeated += 1;
        }
        panic!("no reply of {server} to {query:02x?}");
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

/// Returns the path of this thread's network namespace.
fn namespace() -> String {
    format!("/proc/{}/task/{}/ns/net", std::process::id(), nix::unistd::gettid())
}
