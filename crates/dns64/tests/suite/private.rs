//! TLS and what is built on it: what is answered there, what is shown, and whom dns64d believes.
//!
//! kdig, a client not ours, asks over TLS, HTTPS and QUIC; without it these tests say that they were skipped.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

use net::tls::Authority;
use nix::sys::signal::Signal;

use crate::faults::{SYNTHESISED, dns64d, ipv4_only, is_right, wait_for};
use crate::kit::script::Script;
use crate::kit::server::{Kind, Server};

/// What is shown, and where it is asked.
struct Private {
    dir: tempfile::TempDir,
    /// Of this test alone: what is free on 127.0.0.1 may be taken by a client's connection meanwhile.
    address: Ipv4Addr,
}

/// Where TLS, HTTPS and QUIC are spoken.
const DOT: u16 = 8853;
const DOH: u16 = 8443;
const DOQ: u16 = 8854;

impl Private {
    fn new() -> Self {
        static COUNT: AtomicU8 = AtomicU8::new(1);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, 128 | high, low, COUNT.fetch_add(1, Ordering::Relaxed));
        let private = Private { dir: tempfile::tempdir().expect("a folder"), address };
        private.renew();
        private
    }

    /// Another authority and another certificate, in the same files.
    fn renew(&self) {
        let authority = Authority::new().expect("an authority");
        let names = ["dns.example", &self.address.to_string()];
        authority.write(self.dir.path(), &names).expect("writes");
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// What dns64d is told.
    fn config(&self) -> String {
        let at = self.address;
        format!(
            "[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n\
             dot = [\"{at}:{DOT}\"]\ndoh = [\"{at}:{DOH}\"]\ndoq = [\"{at}:{DOQ}\"]\n",
            self.path("server.pem"),
            self.path("server.key")
        )
    }

    /// kdig's short answer; `None` where it is not installed.
    fn kdig(&self, port: u16, arguments: &[&str]) -> Option<String> {
        let mut kdig = Command::new("kdig");
        kdig.args([&format!("@{}", self.address), "-p", &port.to_string()]);
        kdig.args(["+short", "+timeout=20", "+retry=0"]);
        match kdig.args(arguments).output() {
            Ok(output) => Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            Err(error) => {
                eprintln!("skipped, no kdig (package knot-dnsutils): {error}");
                None
            }
        }
    }
}

/// What kdig is told for each transport.
const WAYS: [(&str, u16); 4] =
    [("+tls", DOT), ("+https", DOH), ("+https-get", DOH), ("+quic", DOQ)];

#[test]
fn the_same_is_answered_over_every_transport() {
    let (script, private) = (ipv4_only(), Private::new());
    let server = dns64d(&[&script], &private.config());
    assert!(is_right(&server.ask("plain.example AAAA")));
    for (way, port) in WAYS {
        let Some(answer) = private.kdig(port, &[way, "AAAA", "private.example"]) else { return };
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
        private.kdig(DOT, &arguments)
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

/// A dns64d that asks another server by a stream transport.
fn before(upstream: SocketAddr, config: &str) -> Server {
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
    let by_tcp = before(upstream.address(), "upstream.transport = \"tcp\"");
    let tls = |name: &str, authorities: &str| {
        let config = format!(
            "[upstream]\ntransport = \"tls\"\ntls-name = \"{name}\"\ntls-authorities = \"{authorities}\"\n"
        );
        before((private.address, DOT).into(), &config)
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
    let _upstream = resolver(&script, &private);
    for (name, authorities) in
        [("other.example", private.path("ca.pem")), ("dns.example", stranger.path("ca.pem"))]
    {
        let config = format!(
            "[upstream]\ntransport = \"tls\"\ntls-name = \"{name}\"\ntls-authorities = \"{authorities}\"\n"
        );
        let server = before((private.address, DOT).into(), &config);
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
