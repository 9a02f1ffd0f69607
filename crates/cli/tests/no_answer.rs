//! A load without one valid answer says in one sentence why, and exits with 1. Loopback only.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, UdpSocket};

use crate::kit::AuthDns;
use crate::kit::command::run;
use crate::kit::host;

/// Runs a short load of `target`; the sentence on standard error: the load ends after a question, without a table.
fn load(target: &str, args: &str) -> String {
    let line = format!("load {target} --type A --duration 200ms --timeout 300ms {args}");
    let (code, out, err) = run(&line);
    assert_eq!((code, out.as_str()), (1, ""), "{line}: no figure of what was not measured: {err}");
    one_sentence(&err)
}

/// The only line of `err`.
fn one_sentence(err: &str) -> String {
    let lines: Vec<&str> = err.lines().collect();
    let [line] = lines[..] else { panic!("not one line: {err}") };
    let sentence = line.strip_prefix("dnsdyno: no valid answer: ");
    sentence.unwrap_or_else(|| panic!("{line}")).to_owned()
}

/// A port of 127.0.0.1 where nothing listens.
fn closed_port() -> String {
    format!("127.0.0.1:{}", host::free_port())
}

#[test]
fn a_closed_port_is_told() {
    let target = closed_port();
    let told = format!("nothing listens at {target}");
    for args in ["--rate 200", "--transport tcp", "--transport tls", "--pacing window --window 4"] {
        let sentence = load(&target, args);
        assert!(sentence.starts_with(&told), "{args}: {sentence}");
    }
}

#[test]
fn silence_is_told() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let target = silent.local_addr().expect("an address").to_string();
    let sentence = load(&target, "");
    assert!(sentence.starts_with(&format!("{target} stayed silent")), "{sentence}");
}

#[test]
fn a_refusal_of_every_query_is_told() {
    let auth = AuthDns::start(&[]);
    let target = auth.plain();
    for transport in ["udp", "tcp"] {
        let sentence = load(target, &format!("--transport {transport} --name other.example"));
        let told = format!("{target} answers every query with REFUSED");
        assert!(sentence.starts_with(&told), "{sentence}");
    }
}

#[test]
fn what_is_no_dns_is_told() {
    let echo = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let target = echo.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((len, peer)) = echo.recv_from(&mut buffer) {
            // Nobody waits for it at the end.
            let _ = echo.send_to(&buffer[..len], peer);
        }
    });
    let sentence = load(&target, "");
    assert!(sentence.contains("what listens there is no DNS server"), "{sentence}");

    let web = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = web.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in web.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                // The client may be gone. What it still sends is read, so that its end is no reset.
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
            });
        }
    });
    let sentence = load(&target, "--transport tcp");
    assert!(sentence.contains("is no DNS over this transport"), "{sentence}");
}

#[test]
fn a_missing_or_unwanted_tls_is_told() {
    let auth = AuthDns::encrypted(&[]);
    let (plain, tls) = (auth.plain(), auth.address("tls"));
    let sentence = load(tls, "--transport tcp");
    // A reset of the connection may take the alert with it.
    let alert = sentence.starts_with(&format!("{tls} expects TLS: try --transport tls"));
    assert!(alert || sentence.contains("does it expect TLS on this port?"), "{sentence}");
    let sentence = load(plain, "--transport tls");
    assert!(sentence.contains(plain), "{sentence}");
    assert!(sentence.contains("handshake") || sentence.contains("TLS"), "{sentence}");
}

#[test]
fn a_table_of_lock_step_experiments_without_an_answer_says_why() {
    let target = closed_port();
    let line = "--pacing lockstep --threads 256 --experiments 1 --timeout 100ms";
    let (code, _, err) = run(&format!("load {target} {line}"));
    assert_eq!(code, 1, "{err}");
    assert!(one_sentence(&err).starts_with("nothing listens at "), "{err}");
}
