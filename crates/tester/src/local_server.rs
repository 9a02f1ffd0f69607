//! The server under test on the Tester's host: drops of its sockets, and use of its threads.
//!
//! ```text
//! target ──> sockets bound to it (/proc/net/udp, tcp) ──> drops of each
//!                └──> processes that have them open   ──> run time of each of their threads
//! ```
//!
//! An ordinary user sees the drops of all sockets, and the processes of its own servers only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use measure::Nanos;
use measure::limiter::SATURATED;
use measure::procfs::NetSocket;
use measure::warning::CoreUser;
use udp::{processes, sys};

/// Counters of the server before a trial.
#[derive(Debug)]
pub(crate) struct LocalServer {
    /// Addresses at which the server is queried.
    targets: Vec<SocketAddr>,
    /// Number of datagrams that each of its sockets has dropped, by the socket's number.
    drops: BTreeMap<u64, u64>,
    processes: Vec<u32>,
    /// Run time of each of the server's threads, in nanoseconds.
    ran: BTreeMap<u32, u64>,
}

/// Observations of the server during a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ServerSeen {
    /// Number of datagrams dropped by the server's sockets.
    pub(crate) drops: u64,
    /// Share (0 to 1) of the time of sending in which the server's busiest thread ran; absent if
    /// its processes are not visible.
    pub(crate) busy: Option<f64>,
}

impl LocalServer {
    /// Reads the counters of the server, or the servers, at `targets`; `None` if these are no
    /// addresses of this host, or no process serves there.
    pub(crate) fn find(targets: impl IntoIterator<Item = SocketAddr>) -> Option<Self> {
        let own = targets.into_iter().filter(|target| sys::is_own_address(*target));
        let targets: Vec<SocketAddr> = own.collect();
        if targets.is_empty() {
            return None;
        }
        let drops = drops_at(&targets);
        let tcp = processes::tcp_sockets();
        let tcp = tcp.iter().filter(|socket| is_at(socket, &targets)).map(|socket| socket.inode);
        let sockets: BTreeSet<u64> = drops.keys().copied().chain(tcp).collect();
        let mut processes = processes::owners(&sockets);
        // The Tester's own process is excluded.
        processes.retain(|pid| *pid != std::process::id());
        let ran = run_times(&processes);
        (!sockets.is_empty()).then_some(LocalServer { targets, drops, processes, ran })
    }

    /// Returns the first of the server's processes, which warnings name.
    pub(crate) fn process(&self) -> Option<CoreUser> {
        let pid = *self.processes.first()?;
        Some(CoreUser { command: processes::name(pid)?, pid })
    }

    /// Returns the processes of the server.
    pub(crate) fn into_processes(self) -> Vec<u32> {
        self.processes
    }

    /// Returns whether a process belongs to the server.
    pub(crate) fn is(&self, pid: u32) -> bool {
        self.processes.contains(&pid)
    }

    /// Returns the cores on which the server may run; empty if its processes are not visible.
    pub(crate) fn cores(&self) -> BTreeSet<usize> {
        self.processes.iter().flat_map(|pid| processes::allowed_cpus(*pid)).collect()
    }

    /// Returns the work of the server since then, while queries were sent for `sending`.
    pub(crate) fn end(&self, sending: Nanos) -> ServerSeen {
        let now = drops_at(&self.targets);
        let dropped = now
            .iter()
            .filter_map(|(inode, drops)| Some(drops.saturating_sub(*self.drops.get(inode)?)));
        let threads = run_times(&self.processes);
        let ran = threads.iter().map(|(thread, now)| {
            now.saturating_sub(self.ran.get(thread).copied().unwrap_or(0)) as f64 / 1e9
        });
        let busiest = ran.reduce(f64::max);
        let busy = busiest.map(|ran_s| (ran_s / sending.as_secs_f64().max(1e-9)).min(1.0));
        ServerSeen { drops: dropped.sum(), busy }
    }
}

impl ServerSeen {
    /// Returns the busy share of the server if it had no CPU time left. A lower share is no
    /// evidence: it does not explain dropped queries, and without other probes it does not show
    /// that the target was not the limit.
    pub(crate) fn saturated(&self) -> Option<f64> {
        self.busy.filter(|busy| *busy >= SATURATED)
    }
}

/// Returns whether a socket receives packets to one of `targets`.
fn is_at(socket: &NetSocket, targets: &[SocketAddr]) -> bool {
    let NetSocket { local, serves, .. } = socket;
    // An IPv6 socket of any address may receive IPv4 too.
    let any =
        |target: &SocketAddr| local.ip().is_unspecified() && (local.is_ipv6() || target.is_ipv4());
    let takes = |target: &SocketAddr| {
        local.port() == target.port() && (local.ip() == target.ip() || any(target))
    };
    *serves && targets.iter().any(takes)
}

/// Returns the drops so far of each UDP socket at `targets`.
fn drops_at(targets: &[SocketAddr]) -> BTreeMap<u64, u64> {
    let all = processes::udp_sockets().into_iter().filter(|socket| is_at(socket, targets));
    all.map(|socket| (socket.inode, socket.drops)).collect()
}

/// Returns the datagrams that each UDP socket of this process has dropped so far, except sockets of
/// a server at `targets`, by the socket's number.
pub(crate) fn own_drops(targets: &[SocketAddr]) -> BTreeMap<u64, u64> {
    let own = processes::own_sockets();
    let of_client = |socket: &NetSocket| own.contains(&socket.inode) && !is_at(socket, targets);
    let sockets = processes::udp_sockets().into_iter().filter(of_client);
    sockets.map(|socket| (socket.inode, socket.drops)).collect()
}

/// Returns the run time of each thread of some processes, in nanoseconds.
fn run_times(processes: &[u32]) -> BTreeMap<u32, u64> {
    let threads = processes.iter().flat_map(|pid| processes::thread_times(*pid));
    threads.map(|(thread, times)| (thread, times.run)).collect()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn only_drops_of_the_servers_sockets_are_its_own() {
        let bound = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let (server, other) = (bound(), bound());
        let at = |socket: &UdpSocket| socket.local_addr().expect("bound");
        let found = |socket| LocalServer::find([at(socket)]).expect("it serves there");
        let (of_server, of_other) = (found(&server), found(&other));
        assert!(of_server.process().is_none(), "it is this process");
        // Nobody reads: its queue is full after some hundred.
        let second = Nanos::from_secs(1);
        let full = (0..100_000).find(|_| {
            let _ = other.send_to(&[0; 1_000], at(&server));
            of_server.end(second).drops > 0
        });
        assert!(full.is_some());
        assert_eq!(of_other.end(second), ServerSeen::default());
        drop(server);
        assert!(LocalServer::find(of_server.targets).is_none());
        assert!(LocalServer::find(["192.0.2.1:53".parse().expect("an address")]).is_none());
    }

    #[test]
    fn a_socket_of_any_address_takes_what_is_sent_to_each() {
        let socket = |local: &str, serves| NetSocket {
            local: local.parse().expect("an address"),
            inode: 1,
            serves,
            drops: 0,
        };
        let table = [
            ("127.0.0.1:53", true, "127.0.0.1:53", true),
            ("127.0.0.1:53", false, "127.0.0.1:53", false),
            ("127.0.0.2:53", true, "127.0.0.1:53", false),
            ("0.0.0.0:53", true, "127.0.0.1:53", true),
            ("0.0.0.0:53", true, "[::1]:53", false),
            ("[::]:53", true, "127.0.0.1:53", true),
            ("[::]:54", true, "[::1]:53", false),
        ];
        for (local, serves, target, takes) in table {
            let target = target.parse().expect("an address");
            assert_eq!(is_at(&socket(local, serves), &[target]), takes, "{local} {target}");
        }
    }
}
