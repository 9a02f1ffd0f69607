//! Reloads and shutdown under load.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::sys::signal::Signal;

use super::{MAX_WAIT, SYNTHESISED, dns64d, ipv4_only, is_right, recovers, wait_for};
use crate::kit::client::{self, Query};
use crate::kit::message::Reply;

/// The other prefix, which reloads switch to.
const OTHER: &str = "2001:db8:65::c000:221";

#[test]
fn reload_under_load_loses_no_query() {
    let (first, second) = (ipv4_only(), ipv4_only());
    let server = dns64d(&[&first], "");
    let (end, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let configs = [
        ("dns64 = [{ prefix = \"2001:db8:65::/96\" }]\nserver.workers = 1", &second),
        ("cache.size = \"0\"\nupstream.source-ports = 32", &first),
        ("limits.outstanding = 1000\nupstream.mixed-case = false", &second),
        ("", &first),
    ];
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (server, end, asked) = (&server, &end, &asked);
            scope.spawn(move || {
                let by = if client == 0 { "+tcp" } else { "" };
                let mut n = 0;
                while !end.load(Ordering::Relaxed) {
                    n += 1;
                    let reply = server.ask(&format!("r-{client}-{n}.example AAAA {by}"));
                    let address = reply.answer.first().map(|seen| seen.data.clone());
                    let right = [SYNTHESISED, OTHER].contains(&address.as_deref().unwrap_or(""));
                    assert!(reply.rcode == "NOERROR" && right, "{reply}");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for (config, upstream) in configs.iter().cycle().take(12) {
            server.rewrite(&[upstream.address()], config);
            server.signal(Signal::SIGHUP);
            let before = asked.load(Ordering::Relaxed);
            // A client that failed has reported why; the others continue.
            wait_for("queries between reloads", || asked.load(Ordering::Relaxed) >= before + 40);
        }
        end.store(true, Ordering::Relaxed);
    });
    assert_eq!(server.log().matches("read again").count(), 12, "{}", server.log());
    assert!(
        !first.asked().is_empty() && !second.asked().is_empty(),
        "both upstreams received queries"
    );
}

#[test]
fn a_configuration_with_errors_changes_nothing() {
    let script = ipv4_only();
    let server = dns64d(&[&script], "");
    server.rewrite(&[script.address()], "dns64 = [{ prefix = \"2001:db8:65::/97\" }]");
    server.signal(Signal::SIGHUP);
    wait_for("the error is logged", || server.log().contains("nothing was changed"));
    assert!(is_right(&server.ask("still.example AAAA")));
    server.rewrite(&[script.address()], "dns64 = [{ prefix = \"2001:db8:65::/96\" }]");
    server.signal(Signal::SIGHUP);
    let mut n = 0;
    wait_for("the other prefix", || {
        n += 1;
        server.ask(&format!("other-{n}.example AAAA")).answer[0].data == OTHER
    });
}

#[test]
fn pending_queries_are_answered_before_the_end() {
    let script = ipv4_only();
    for name in ["udp", "tcp"] {
        script.on(&format!("{name}.example AAAA"), "");
        script.on(&format!("{name}.example A"), &format!("hold; {name}.example 60 A 192.0.2.33"));
    }
    let mut server = dns64d(&[&script], "upstream.first-timeout = \"10s\"");
    recovers(&server, "before");
    let mut stream = TcpStream::connect(server.address()).expect("loopback");
    stream.set_read_timeout(Some(MAX_WAIT)).expect("a timeout");
    stream.write_all(&client::frame(&Query::parse("tcp.example AAAA").octets)).expect("loopback");
    std::thread::scope(|scope| {
        let server = &server;
        let udp = scope.spawn(move || server.ask("udp.example AAAA"));
        let held = |name: &str| {
            script
                .asked()
                .iter()
                .any(|asked| asked.name == name && asked.rtype == domain::base::iana::Rtype::A)
        };
        wait_for("both are pending", || held("udp.example") && held("tcp.example"));
        server.signal(Signal::SIGTERM);
        wait_for("the signal has arrived", || server.log().contains("stopping"));
        script.release();
        assert!(is_right(&udp.join().expect("no panic")), "by UDP");
        let octets = client::read_frame(&mut stream).expect("an answer by TCP");
        assert!(is_right(&Reply::parse(&octets)), "by TCP");
    });
    assert!(server.wait().success(), "{}", server.log());
}
