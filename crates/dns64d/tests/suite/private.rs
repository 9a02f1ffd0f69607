//! TLS and the transports above it for clients: the answers and the certificates.
//!
//! kdig, an independent client, sends queries over TLS, HTTPS and QUIC; without it these tests report that
//! they are skipped.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::sys::signal::Signal;
use streams::tls::{Authority, ServerTls};

use crate::faults::{SYNTHESISED, dns64d, ipv4_only, is_right, wait_for};
use crate::kit::client::frame;
use crate::kit::script::{Asked, Script};
use crate::kit::server::{Kind, Server, printed};

/// The certificates, and the ports of the transports.
pub(crate) struct Private {
    dir: tempfile::TempDir,
    /// Address of this test only: a port that is free on 127.0.0.1 may be taken by a client's connection
    /// before the server binds it.
    pub(crate) address: Ipv4Addr,
}

/// Ports of TLS, HTTPS and QUIC.
pub(crate) const DOT: u16 = 8853;
pub(crate) const DOH: u16 = 8443;
pub(crate) const DOQ: u16 = 8854;

impl Private {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU8 = AtomicU8::new(1);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, 128 | high, low, COUNT.fetch_add(1, Ordering::Relaxed));
        let private = Private { dir: tempfile::tempdir().expect("a folder"), address };
        private.renew();
        private
    }

    /// Writes another authority and another certificate into the same files.
    fn renew(&self) {
        let authority = Authority::new().expect("an authority");
        let names = ["dns.example", &self.address.to_string()];
        authority.write(self.dir.path(), &names).expect("writes");
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Returns the settings of a server with the certificate.
    pub(crate) fn server_tls(&self, protocols: &'static [&'static [u8]]) -> ServerTls {
        let [certificate, key] =
            ["server.pem", "server.key"].map(|name| self.dir.path().join(name));
        ServerTls::from_files(&certificate, &key, protocols, false).expect("a certificate")
    }

    /// Returns the configuration of dns64d.
    pub(crate) fn config(&self) -> String {
        let at = self.address;
        format!(
            "[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n\
             dot = [\"{at}:{DOT}\"]\ndoh = [\"{at}:{DOH}\"]\ndoq = [\"{at}:{DOQ}\"]\n",
            self.path("server.pem"),
            self.path("server.key")
        )
    }

    /// Returns kdig's short answer; `None` if it is not installed.
    pub(crate) fn kdig(&self, port: u16, arguments: &[&str]) -> Option<String> {
        let mut kdig = Command::new("kdig");
        kdig.args([&format!("@{}", self.address), "-p", &port.to_string()]);
        kdig.args(["+short", "+timeout=20", "+retry=0"]);
        let output = kdig.args(arguments).output();
        let output = skip::unless_ok(output, "no kdig (package knot-dnsutils)")?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Options of kdig for each transport.
pub(crate) const WAYS: [(&str, u16); 4] =
    [("+tls", DOT), ("+https", DOH), ("+https-get", DOH), ("+quic", DOQ)];

#[test]
fn every_transport_gives_the_same_answer() {
    let (script, private) = (ipv4_only(), Private::new());
    let server = dns64d(&[&script], &private.config());
    assert!(is_right(&server.ask("plain.example AAAA")));
    for (way, port) in WAYS {
        let Some(answer) = private.kdig(port, &[way, "AAAA", "private.example"]) else { return };
        assert_eq!(answer, SYNTHESISED, "{way}: {}", server.log());
    }
}

#[test]
fn a_reload_uses_the_new_certificate_and_a_bad_one_changes_nothing() {
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
        "the server uses the old certificate, the client trusts the new one"
    );
    server.signal(Signal::SIGHUP);
    wait_for("the new certificate", || trusted().as_deref() == Some(SYNTHESISED));
    fs::write(private.path("server.pem"), "no certificate").expect("writes");
    server.signal(Signal::SIGHUP);
    wait_for("the error is logged", || server.log().contains("nothing was changed"));
    assert_eq!(trusted().as_deref(), Some(SYNTHESISED));
}

#[test]
fn a_reload_refuses_what_the_check_refuses() {
    let (script, private) = (ipv4_only(), Private::new());
    let server = dns64d(&[&script], &private.config());
    let other = Private::new();
    // In a folder that the server may read.
    fs::copy(other.path("server.key"), private.path("other.key")).expect("copies");
    let key = private.config().replace("server.key", "other.key");
    server.reload(&[script.address()], &key);
    wait_for("the error is logged", || server.log().contains("nothing was changed"));
    let dns64d = Command::new(env!("CARGO_BIN_EXE_dns64d"))
        .args(["--check", "--config"])
        .arg(server.config())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&dns64d.stderr).into_owned();
    assert!(dns64d.status.code() == Some(2) && said.contains("tls.certificate, tls.key"), "{said}");
    let log = server.log();
    assert!(log.contains("tls.certificate, tls.key"), "{log}");
}

#[test]
fn clients_are_told_of_the_encrypted_transports_that_have_a_fitting_certificate() {
    let (script, private) = (ipv4_only(), Private::new());
    let names = ["dns.example", "two.example", &private.address.to_string(), "127.0.0.1", "::1"];
    let authority = Authority::new().expect("an authority");
    authority.write(private.dir.path(), &names).expect("writes");
    let designate =
        |name: &str| format!("{}[server.designate]\nname = \"{name}\"", private.config());
    let server = dns64d(&[&script], &designate("dns.example"));
    let reply = server.ask("_dns.resolver.arpa SVCB");
    let services: Vec<&str> = reply.answer.iter().map(|service| service.data.as_str()).collect();
    let expected = [
        format!("1 dns.example. alpn=dot port={DOT}"),
        format!("2 dns.example. alpn=h2,h3 port={DOH} dohpath=/dns-query{{?dns}}"),
        format!("3 dns.example. alpn=doq port={DOQ}"),
    ];
    assert_eq!(services, expected, "{reply}");
    let address = private.address.to_string();
    let additional: Vec<_> =
        reply.additional.iter().map(|a| (a.owner.as_str(), a.data.as_str())).collect();
    assert_eq!(additional, [("dns.example", address.as_str())], "{reply}");
    assert!(server.ask("_dns.resolver.arpa A").answer.is_empty());
    // Without a name in the handshake the certificate is the one that fits.
    if let Some(answer) = private.kdig(DOT, &["+tls", "AAAA", "plain.example"]) {
        assert_eq!(answer, SYNTHESISED);
    }
    // Other addresses of [tls] need a restart; until then clients would not reach them.
    let other = designate("two.example").replace(&format!(":{DOT}"), ":8855");
    server.reload(&[script.address()], &other);
    wait_for("the other name", || {
        let reply = server.ask("_dns.resolver.arpa SVCB");
        reply.answer[0].data == expected[0].replace("dns.example", "two.example")
    });
    // A name or an address that the certificate has not.
    for (config, says) in [
        (designate("other.example"), "server.designate.name"),
        (
            format!("server.listen = [\"127.0.0.3:5353\"]\n{}", designate("dns.example")),
            "127.0.0.3",
        ),
    ] {
        let error = Server::start(Kind::Dns64d, &[script.address()], &config).err();
        assert!(error.as_ref().is_some_and(|said| said.contains(says)), "{error:?}");
    }
}

#[test]
fn missing_files_are_named() {
    let private = Private::new();
    fs::remove_file(Path::new(&private.path("server.key"))).expect("it was there");
    let script = ipv4_only();
    let error = Server::start(Kind::Dns64d, &[script.address()], &private.config());
    let error = error.err().expect("it cannot start");
    assert!(error.contains("server.key") && error.contains("tls.key"), "{error}");
}

#[test]
fn replies_on_streams_have_padding_and_keepalive_if_requested() {
    let (script, private) = (ipv4_only(), Private::new());
    let config = format!("{}[limits]\ntcp-idle = \"12s\"", private.config());
    let _server = dns64d(&[&script], &config);
    let asked = |port, way| {
        let all = ["+noshort", "+opt", "+stats", "+edns", way, "+padding=128"];
        // Over QUIC the option is an error of the protocol (RFC 9250 section 4.3.3).
        let keepalive = ["+ednsopt=11"];
        let keepalive = if way == "+quic" { &[][..] } else { &keepalive };
        private.kdig(port, &[&all[..], keepalive, &["AAAA", "padded.example"]].concat())
    };
    for (way, port) in WAYS {
        let Some(answer) = asked(port, way) else { return };
        assert!(answer.contains(";; PADDING:"), "{way}: {answer}");
        assert!(answer.contains("Received 468 B"), "{way}: {answer}");
        // 120 times 100 ms; HTTP and QUIC have no such option.
        assert_eq!(answer.contains("Option (11): 0078"), way == "+tls", "{way}: {answer}");
    }
    let forbidden = private.kdig(DOQ, &["+quic", "+ednsopt=11", "AAAA", "padded.example"]);
    assert_ne!(forbidden.as_deref(), Some(SYNTHESISED));
    // A client that does not request them gets none.
    let plain =
        ["+noshort", "+opt", "+stats", "+edns", "+nopadding", "+tls", "AAAA", "plain.example"];
    let answer = private.kdig(DOT, &plain).expect("kdig");
    assert!(!answer.contains("PADDING") && !answer.contains("468 B"), "{answer}");
}

#[test]
fn replies_without_encryption_have_no_padding() {
    let script = ipv4_only();
    let server = dns64d(&[&script], "");
    // The option of the query is padding of four octets.
    for way in ["", " +tcp"] {
        let reply = server.ask(&format!("plain.example AAAA{way} +option=12"));
        let is_padded = reply.edns.as_ref().is_some_and(|edns| edns.option(12).is_some());
        assert!(is_right(&reply) && !is_padded, "{way}: {reply}");
    }
}

/// Returns the output of `openssl s_client` for a connection that the server ends when it is idle; `None`
/// without openssl.
fn openssl(private: &Private, port: u16, arguments: &[&str]) -> Option<String> {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-ign_eof", "-connect", &format!("{}:{port}", private.address)]);
    printed(client.args(arguments).stdin(std::process::Stdio::null()), "openssl")
}

/// Starts a dns64d with a short idle time, with or without 0-RTT.
fn short_idle(script: &Script, private: &Private, early_data: bool) -> Server {
    let limits = "[limits]\ntcp-idle = \"1s\"";
    dns64d(&[script], &format!("{}early-data = {early_data}\n{limits}", private.config()))
}

#[test]
fn old_protocols_and_weak_ciphers_are_refused() {
    let (script, private) = (ipv4_only(), Private::new());
    let _server = short_idle(&script, &private, false);
    let check = |port| {
        for version in ["-tls1", "-tls1_1"] {
            // openssl does not offer these by default.
            let arguments = [version, "-cipher", "ALL:@SECLEVEL=0"];
            let Some(said) = openssl(&private, port, &arguments) else { return };
            assert!(said.contains("Cipher is (NONE)"), "{version} on {port}: {said}");
            assert!(said.contains("SSL alert number"), "{version} on {port}: {said}");
        }
        for weak in ["AES128-SHA", "ECDHE-ECDSA-AES128-SHA256", "aNULL", "AES128-GCM-SHA256"] {
            let weak = format!("{weak}:@SECLEVEL=0");
            let said = openssl(&private, port, &["-tls1_2", "-cipher", &weak]).expect("openssl");
            assert!(said.contains("alert handshake failure"), "{weak} on {port}: {said}");
        }
        for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
            let said = openssl(&private, port, &[version]).expect("openssl");
            assert!(said.contains(&format!("New, {name}")), "{version} on {port}: {said}");
            assert!(said.contains("Compression: NONE"), "{version} on {port}: {said}");
        }
    };
    // At once: what is not refused waits for its idle time.
    std::thread::scope(|scope| {
        scope.spawn(|| check(DOT));
        scope.spawn(|| check(DOH));
    });
}

/// Returns a frame of HTTP/2 (RFC 9113 section 4.1).
pub(crate) fn http2_frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Returns the head of a POST request in the encoding of RFC 7541: POST and https by their indices; path, authority and
/// content type by the indices of their names.
pub(crate) fn http2_head() -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    [
        &[0x83, 0x87, 0x04][..],
        &text("/dns-query"),
        &[0x01],
        &text("dns.example"),
        &[0x0f, 0x10],
        &text("application/dns-message"),
    ]
    .concat()
}

/// Returns a message as the first request of an HTTP/2 connection (RFC 9113): preface, empty settings, head,
/// body.
fn posted(message: &[u8]) -> Vec<u8> {
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &http2_frame(4, 0, 0, &[])[..],
        &http2_frame(1, 4, 1, &http2_head()),
        &http2_frame(0, 1, 1, message),
    ]
    .concat()
}

/// A transport of a message: port, additional options of openssl, and the encoding of the message on it.
type Carried = (u16, &'static [&'static str], fn(&[u8]) -> Vec<u8>);

/// A message that may be sent with a handshake.
pub(crate) const QUERY: &[u8] =
    b"\x07\x07\x01\0\0\x01\0\0\0\0\0\0\x05early\x07example\0\0\x1c\0\x01";
/// An update of a zone, which must not be replayed.
pub(crate) const UPDATE: &[u8] = b"\x07\x08\x28\0\0\x01\0\0\0\0\0\0\x07example\0\0\x06\0\x01";

/// Runs a check for each transport with early data permitted and not, all at once: each connection waits for its idle time.
fn for_each_way(check: impl Fn(bool, Carried) + Sync) {
    let carried: [Carried; 2] = [(DOT, &[], frame), (DOH, &["-alpn", "h2"], posted)];
    std::thread::scope(|scope| {
        for (allowed, carried) in [true, false].map(|a| carried.map(|c| (a, c))).concat() {
            let check = &check;
            scope.spawn(move || check(allowed, carried));
        }
    });
}

#[test]
fn sessions_are_resumed() {
    for_each_way(|allowed, (port, more, _)| {
        let (script, private) = (ipv4_only(), Private::new());
        let server = short_idle(&script, &private, allowed);
        let session = private.path("session");
        let s_client = |arguments: &[&str]| openssl(&private, port, &[more, arguments].concat());
        for version in ["-tls1_2", "-tls1_3"] {
            let Some(first) = s_client(&[version, "-sess_out", &session]) else { return };
            assert!(first.contains("New, TLSv1."), "{version} on {port}: {first}");
            let again = s_client(&[version, "-sess_in", &session]).expect("openssl");
            assert!(again.contains("Reused, TLSv1."), "{version} on {port}: {again}");
        }
        let asked = script.asked();
        assert!(asked.is_empty(), "{asked:?}: {}", server.log());
    });
}

#[test]
fn early_data_is_accepted_only_if_allowed() {
    for_each_way(|allowed, (port, more, way)| {
        let (script, private) = (ipv4_only(), Private::new());
        let server = short_idle(&script, &private, allowed);
        let (session, early) = (private.path("session"), private.path("early"));
        let s_client = |arguments: &[&str]| openssl(&private, port, &[more, arguments].concat());
        for (message, answered) in [(QUERY, true), (UPDATE, false)] {
            fs::write(&early, way(message)).expect("writes");
            let Some(_) = s_client(&["-tls1_3", "-sess_out", &session]) else { return };
            let arguments = ["-tls1_3", "-sess_in", &session, "-early_data", &early];
            let said = s_client(&arguments).expect("openssl");
            assert!(said.contains("Reused, TLSv1.3"), "on {port}: {said}");
            let taken = said.contains("Early data was accepted");
            assert_eq!(taken, allowed, "on {port}: {said}");
            // An answer has the name again; a refusal (NOTIMP) has only a header.
            let name = said.contains("early\u{7}example");
            assert_eq!(name, allowed && answered, "on {port}: {said}");
        }
        let asked = script.asked();
        let early = |asked: &Asked| asked.name.starts_with("early.");
        assert!(asked.iter().all(early), "{asked:?}: {}", server.log());
        assert_eq!(!asked.is_empty(), allowed, "on {port}: {}", server.log());
    });
}
