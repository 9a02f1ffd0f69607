//! Load balancers in front of dns64d that name their clients with the PROXY protocol: dnsdist and HAProxy.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::faults::{SYNTHESISED, dns64d, ipv4_only, wait_for};
use crate::kit::held::Held;
use crate::kit::server::{Server, free_port};

/// The client 127.0.0.5 gets another prefix than all others, and this host may send queries only through a proxy.
const CONFIG: &str = "[server]\nproxies = [\"127.0.0.1\"]\nallow = [\"127.0.0.5\", \"127.0.0.6\"]\n\
    [[dns64]]\nprefix = \"2001:db8:5::/96\"\nclients = [\"127.0.0.5\"]\n\
    [[dns64]]\nprefix = \"2001:db8:64::/96\"\nclients = [\"127.0.0.6\"]\n";

/// A load balancer; it ends when dropped.
struct Balancer {
    _child: Held,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Balancer {
    /// Starts a program in front of `server`; `configure` makes its configuration for a port. `None` if it is not
    /// installed.
    fn start(program: &str, options: &[&str], configure: impl Fn(u16) -> String) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a folder");
        let (port, file) = (free_port(), dir.path().join("config"));
        fs::write(&file, configure(port)).expect("writes");
        let mut command = Command::new(program);
        command.args(options).arg(&file).stdin(Stdio::null());
        let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = Held(skip::unless_ok(started, format_args!("no {program}"))?);
        wait_for("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Balancer { _child: child, port, _dir: dir })
    }

    /// Returns what dig prints for AAAA of a name, with `client` as the source address.
    fn dig(&self, client: &str, name: &str, more: &[&str]) -> Option<String> {
        let mut command = Command::new("dig");
        let port = self.port.to_string();
        command.args(["@127.0.0.1", "-p", &port, "-b", client, "AAAA", name, "+short"]);
        command.args(["+tries=3", "+timeout=10"]).args(more);
        let output = skip::unless_ok(command.output(), "no dig (package bind9-dnsutils)")?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Checks that each client gets its own prefix.
    fn check(&self, label: &str, more: &[&str]) {
        for (client, expected) in
            [("127.0.0.5", "2001:db8:5::c000:221"), ("127.0.0.6", SYNTHESISED)]
        {
            let name = format!("{label}.example");
            let Some(seen) = self.dig(client, &name, more) else { return };
            assert_eq!(seen, expected, "{label}, {client}");
        }
    }
}

#[test]
fn dnsdist_names_its_clients_over_udp_and_tcp() {
    let upstream = ipv4_only();
    let server = dns64d(&[&upstream], CONFIG);
    let to = server.address();
    let balancer = Balancer::start("dnsdist", &["--supervised", "--config"], |port| {
        format!(
            "setLocal(\"127.0.0.1:{port}\")\nsetACL({{\"127.0.0.0/8\"}})\n\
             newServer({{address=\"{to}\", useProxyProtocol=true, healthCheckMode=\"up\"}})\n"
        )
    });
    let Some(balancer) = balancer else { return };
    balancer.check("udp", &[]);
    balancer.check("tcp", &["+tcp"]);
}

#[test]
fn haproxy_names_its_clients_with_both_versions() {
    let upstream = ipv4_only();
    let server = dns64d(&[&upstream], CONFIG);
    let to = server.address();
    for version in ["send-proxy", "send-proxy-v2"] {
        let balancer = Balancer::start("haproxy", &["-db", "-f"], |port| {
            format!(
                "defaults\n mode tcp\n timeout connect 5s\n timeout client 20s\n timeout server 20s\n\
                 listen dns\n bind 127.0.0.1:{port}\n server one {to} {version}\n"
            )
        });
        let Some(balancer) = balancer else { return };
        balancer.check(version, &["+tcp"]);
    }
}

/// Returns a metric of refused connections.
fn refused(server: &Server, reason: &str) -> u64 {
    let name = format!("dns64d_connections_refused_total{{transport=\"tcp\",reason=\"{reason}\"}}");
    server.metric(&name)
}

#[test]
fn proxies_must_send_a_valid_header_and_others_must_not() {
    let upstream = ipv4_only();
    let server = dns64d(&[&upstream], CONFIG);
    let query = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x1c\0\x01";
    let socket = server.socket_of(Ipv4Addr::LOCALHOST);
    // A query without a header is dropped, and so is one that ends within it.
    let header = |command| [b"\r\n\r\n\0\r\nQUIT\n".as_slice(), &[command, 0x12, 0, 12]].concat();
    let addresses = [127, 0, 0, 5, 127, 0, 0, 1, 1, 1, 0, 53];
    socket.send(query).expect("sends");
    socket.send(&[&header(0x21)[..], &addresses[..5]].concat()).expect("sends");
    wait_for("two errors", || server.metric("dns64d_proxy_errors_total") == 2);
    // The reply to a query with a header has none.
    socket.send(&[&header(0x21)[..], &addresses, query].concat()).expect("sends");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    let mut reply = [0; 512];
    let len = socket.recv(&mut reply).expect("a reply");
    assert_eq!((&reply[..2], reply[3] & 15, reply[7]), (&query[..2], 0, 1));
    assert_eq!(
        &reply[len - 16..len],
        "2001:db8:5::c000:221".parse::<std::net::Ipv6Addr>().expect("one").octets()
    );
    // A client that a proxy names must be permitted, and the proxy itself is not.
    let mut other = addresses;
    other[3] = 7;
    socket.send(&[&header(0x21)[..], &other, query].concat()).expect("sends");
    socket.recv(&mut reply).expect("a reply");
    assert_eq!(reply[3] & 15, 5, "REFUSED");
    socket.send(&[&header(0x20)[..], &other, query].concat()).expect("sends");
    socket.recv(&mut reply).expect("a reply");
    assert_eq!(reply[3] & 15, 5, "REFUSED");
    // Nobody else may name a client.
    let stranger = UdpSocket::bind("127.0.0.6:0").expect("a port");
    let forged = [&header(0x21)[..], &addresses, query].concat();
    stranger.send_to(&forged, server.address()).expect("sends");
    wait_for("it is no query", || {
        server.metric("dns64d_ignored_total") + server.metric("dns64d_bad_queries_total") > 0
    });
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PROXY TCP4 1 2 3 4\r\n"] {
        let before = refused(&server, "proxy");
        assert!(is_closed(server.address(), bytes));
        wait_for("it is counted", || refused(&server, "proxy") == before + 1);
    }
}

/// Returns whether a connection with these octets is closed without a reply.
fn is_closed(server: SocketAddr, octets: &[u8]) -> bool {
    let mut stream = TcpStream::connect(server).expect("connects");
    stream.write_all(octets).expect("writes");
    let mut reply = Vec::new();
    // It may be reset, since the rest of the octets is not read.
    let _ = stream.read_to_end(&mut reply);
    reply.is_empty()
}
