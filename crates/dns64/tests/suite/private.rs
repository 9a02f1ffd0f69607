//! TLS and what is built on it: what is answered there, what is shown, and whom dns64d believes.
//!
//! kdig, a client not ours, asks over TLS, HTTPS and QUIC; without it these tests say that they were skipped.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

use net::tls::Authority;
use nix::sys::signal::Signal;

use crate::faults::{SYNTHESISED, dns64d, ipv4_only, is_right, wait_for};
use crate::kit::script::Script;
use crate::kit::server::{Kind, Server};

/// What is shown, and where it is asked.
struct Private {
    dir: tempfile::TempDir,
    ports: [u16; 3],
}

impl Private {
    fn new() -> Self {
        let private = Private { dir: tempfile::tempdir().expect("a folder"), ports: free_ports() };
        private.renew();
        private
    }

    /// Another authority and another certificate, in the same files.
    fn renew(&self) {
        let authority = Authority::new().expect("an authority");
        authority.write(self.dir.path(), &["dns.example", "127.0.0.1"]).expect("writes");
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// What dns64d is told.
    fn config(&self) -> String {
        let [dot, doh, doq] = self.ports;
        format!(
            "[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n\
             dot = [\"127.0.0.1:{dot}\"]\ndoh = [\"127.0.0.1:{doh}\"]\ndoq = [\"127.0.0.1:{doq}\"]\n",
            self.path("server.pem"),
            self.path("server.key")
        )
    }

    /// What kdig is told for each transport.
    fn ways(&self) -> [(&'static str, u16); 4] {
        let [dot, doh, doq] = self.ports;
        [("+tls", dot), ("+https", doh), ("+https-get", doh), ("+quic", doq)]
    }
}

/// Ports that nobody listens on.
fn free_ports() -> [u16; 3] {
    let sockets = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
    sockets.map(|socket| socket.local_addr().expect("bound").port())
}

/// kdig's short answer; `None` where it is not installed.
fn kdig(port: u16, arguments: &[&str]) -> Option<String> {
    let mut kdig = Command::new("kdig");
    kdig.args(["@127.0.0.1", "-p", &port.to_string(), "+short", "+timeout=20", "+retry=0"]);
    match kdig.args(arguments).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        Err(error) => {
            eprintln!("skipped, no kdig (package knot-dnsutils): {error}");
            None
        }
    }
}

#[test]
fn the_same_is_answered_over_every_transport() {
    let (script, private) = (ipv4_only(), Private::new());
    let server = dns64d(&[&script], &private.config());
    assert!(is_right(&server.ask("plain.example AAAA")));
    for (way, port) in private.ways() {
        let Some(answer) = kdig(port, &[way, "AAAA", "private.example"]) else { return };
        assert_eq!(answer, SYNTHESISED, "{way}: {}", server.log());
    }
}

#[test]
fn a_reload_shows_the_new_certificate_and_a_bad_one_changes_nothing() {
    let (script, private) = (ipv4_only(), Private::new());
    let server = dns64d(&[&script], &private.config());
    let trusted = || {
        let ca = format!("+tls-ca={}", private.path("ca.pem"));
        let arguments = [&ca, "+tls-hostname=dns.example", "AAAA", "trusted.example"];
        kdig(private.ports[0], &arguments)
    };
    match trusted() {
        None => return,
        Some(answer) => assert_eq!(answer, SYNTHESISED, "{}", server.log()),
    }
    private.renew();
    assert_ne!(
        trusted().as_deref(),
        Some(SYNTHESISED),
        "the old one is shown, the new one believed"
    );
    server.signal(Signal::SIGHUP);
    wait_for("the new certificate", || trusted().as_deref() == Some(SYNTHESISED));
    fs::write(private.path("server.pem"), "no certificate").expect("writes");
    server.signal(Signal::SIGHUP);
    wait_for("the mistake is told", || server.log().contains("nothing was changed"));
    assert_eq!(trusted().as_deref(), Some(SYNTHESISED));
}

/// A dns64d that asks another one by a stream transport.
fn before(other: &Server, port: u16, config: &str) -> Server {
    let upstream = (other.address().ip(), port).into();
    Server::start(Kind::Dns64d, &[upstream], config).expect("it starts")
}

/// A resolver that speaks TLS: dns64d that synthesises nothing.
fn resolver(script: &Script, private: &Private) -> Server {
    dns64d(&[script], &format!("{}[synthesis]\nnever = [\".\"]", private.config()))
}

#[test]
fn upstream_is_asked_by_tcp_or_tls_alone() {
    let (script, private) = (ipv4_only(), Private::new());
    let upstream = resolver(&script, &private);
    let by_tcp = before(&upstream, upstream.address().port(), "upstream.transport = \"tcp\"");
    let tls = |name: &str, authorities: &str| {
        let config = format!(
            "[upstream]\ntransport = \"tls\"\ntls-name = \"{name}\"\ntls-authorities = \"{authorities}\"\n"
        );
        before(&upstream, private.ports[0], &config)
    };
    let ca = private.path("ca.pem");
    for (server, label) in [
        (by_tcp, "tcp"),
        (tls("dns.example", &ca), "named"),
        (tls("", &ca), "address"),
        (tls("other.example", ""), "any"),
    ] {
        assert!(
            is_right(&server.ask(&format!("{label}.example AAAA"))),
            "{label}: {}",
            server.log()
        );
    }
}

#[test]
fn an_upstream_that_shows_the_wrong_certificate_is_not_believed() {
    let (script, private, stranger) = (ipv4_only(), Private::new(), Private::new());
    let upstream = resolver(&script, &private);
    for (name, authorities) in
        [("other.example", private.path("ca.pem")), ("dns.example", stranger.path("ca.pem"))]
    {
        let config = format!(
            "[upstream]\ntransport = \"tls\"\ntls-name = \"{name}\"\ntls-authorities = \"{authorities}\"\n"
        );
        let server = before(&upstream, private.ports[0], &config);
        assert_eq!(server.ask("wrong.example AAAA").rcode, "SERVFAIL");
        assert!(server.log().contains("no TLS with upstream"), "{}", server.log());
    }
    assert!(script.asked().is_empty(), "nobody was asked");
}

#[test]
fn files_that_are_not_there_are_named() {
    let private = Private::new();
    fs::remove_file(Path::new(&private.path("server.key"))).expect("it was there");
    let script = ipv4_only();
    let error = Server::start(Kind::Dns64d, &[script.address()], &private.config());
    let error = error.err().expect("it cannot start");
    assert!(error.contains("server.key") && error.contains("tls.key"), "{error}");
}
