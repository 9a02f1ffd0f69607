//! What others see of the queries: the query log, and dnstap with the readers of its authors and of BIND.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::faults::{dns64d, ipv4_only, is_right, wait_for};
use crate::kit::held::Held;

/// The reader of the authors of frame streams, which writes a file.
struct Capture {
    child: Held,
}

impl Capture {
    /// Starts it; `None` if it is not installed.
    fn start(dir: &Path) -> Option<Self> {
        let mut command = Command::new("fstrm_capture");
        command.args(["-t", "protobuf:dnstap.Dnstap", "-u"]).arg(dir.join("socket"));
        let child = command.arg("-w").arg(dir.join("frames")).spawn().ok().map(Held)?;
        let capture = Capture { child };
        wait_for("the reader listens", || dir.join("socket").exists());
        Some(capture)
    }

    /// Ends it; the file is complete then.
    fn end(mut self) {
        kill(Pid::from_raw(self.child.0.id() as i32), Signal::SIGTERM).expect("it is alive");
        self.child.0.wait().expect("our own child");
    }
}

fn config(dir: &Path) -> String {
    format!("[dnstap]\nsocket = \"{}\"\nidentity = \"here\"", dir.join("socket").display())
}

#[test]
fn readers_of_dnstap_see_queries_and_answers() {
    let (script, dir) = (ipv4_only(), tempfile::tempdir().expect("a folder"));
    // The server waits for its reader, not the reverse.
    let mut server = dns64d(&[&script], &config(dir.path()));
    assert!(is_right(&server.ask("early.example AAAA")));
    wait_for("frames without a reader are counted", || {
        server.metric("dns64d_dnstap_frames_lost_total") == 2
    });
    let Some(capture) = Capture::start(dir.path()) else {
        return skip::because("fstrm_capture is not installed");
    };
    wait_for("the reader is connected", || {
        server.log().lines().any(|line| line.contains("dnstap: ") && line.ends_with(" reads"))
    });
    for query in ["one.example AAAA", "two.example AAAA +tcp", "one.example AAAA"] {
        assert!(is_right(&server.ask(query)), "{query}");
    }
    wait_for("all frames are taken", || server.metric("dns64d_dnstap_frames_total") == 6);
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success(), "{}", server.log());
    capture.end();
    let output = Command::new("dnstap-read").arg("-y").arg(dir.path().join("frames")).output();
    let Ok(output) = output else { return skip::because("dnstap-read is not installed") };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let count = |what: &str| text.matches(what).count();
    assert!(output.status.success(), "{output:?}");
    assert_eq!((count("CLIENT_QUERY"), count("CLIENT_RESPONSE")), (3, 3), "{text}");
    assert_eq!((count("socket_protocol: UDP"), count("socket_protocol: TCP")), (4, 2), "{text}");
    assert_eq!((count("identity: here"), count("version: dns64d")), (6, 6), "{text}");
    assert_eq!(count("one.example. 60 IN AAAA 2001:db8:64::c000:221"), 2, "{text}");
    assert!(text.contains("query_address: \"127.0.0.1\""), "{text}");
    assert!(!text.contains("early.example"), "{text}");
}

#[test]
fn a_reader_that_takes_nothing_delays_no_answer() {
    let (script, dir) = (ipv4_only(), tempfile::tempdir().expect("a folder"));
    let reader = UnixListener::bind(dir.path().join("socket")).expect("a socket");
    let mut server = dns64d(&[&script], &config(dir.path()));
    // It accepts and then reads no more.
    let (mut stream, _) = reader.accept().expect("the server connects");
    let mut ready = [0; 42];
    stream.read_exact(&mut ready).expect("an offer");
    assert_eq!(&ready[..12], b"\0\0\0\0\0\0\0\x22\0\0\0\x04");
    stream.write_all(b"\0\0\0\0\0\0\0\x04\0\0\0\x01").expect("the server reads");
    let socket = server.socket_of(std::net::Ipv4Addr::LOCALHOST);
    let query = crate::kit::client::Query::parse("many.example AAAA +do").octets;
    wait_for("frames are lost", || {
        for _ in 0..2_000 {
            socket.send(&query).expect("loopback");
        }
        assert!(is_right(&server.ask("answered.example AAAA")));
        server.metric("dns64d_dnstap_frames_lost_total") > 0
    });
    assert!(server.resident() < 256 << 20, "{}", server.resident());
    server.signal(Signal::SIGTERM);
    assert!(server.wait().success(), "{}", server.log());
}

#[test]
fn a_reload_changes_nothing_about_dnstap() {
    let (script, dir) = (ipv4_only(), tempfile::tempdir().expect("a folder"));
    let with = config(dir.path());
    for (before, after, frames) in [(&with[..], "", 2), ("", &with[..], 0)] {
        let server = dns64d(&[&script], before);
        server.reload(&[script.address()], after);
        wait_for("the reload", || server.log().contains("read again"));
        assert!(server.log().contains("a change of dnstap.socket needs a restart"));
        assert!(is_right(&server.ask("reloaded.example AAAA")));
        wait_for("the counters", || server.metric("dns64d_queries_udp_total") >= 1);
        wait_for("the frames", || server.metric("dns64d_dnstap_frames_lost_total") == frames);
    }
}

#[test]
fn one_of_so_many_answers_is_logged() {
    let script = ipv4_only();
    let server = dns64d(&[&script], "server.log-queries = 5\nserver.log-format = \"json\"");
    for n in 0..20 {
        server.ask(&format!("n{n}.example AAAA{}", if n == 5 { " +tcp" } else { "" }));
    }
    let lines = || {
        let log = server.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines.filter(|line: &serde_json::Value| line["message"] == "answered").collect::<Vec<_>>()
    };
    wait_for("four lines", || lines().len() == 4);
    let seen: Vec<String> = lines()
        .iter()
        .map(|line| {
            let word = |key: &str| line[key].as_str().unwrap_or("").to_owned();
            assert!(line["microseconds"].as_u64().is_some_and(|time| time > 0), "{line}");
            let words = ["client", "transport", "name", "type", "rcode"].map(word);
            format!("{} {}", words.join(" "), line["answers"])
        })
        .collect();
    assert_eq!(
        seen,
        [
            "127.0.0.1 udp n0.example AAAA NOERROR 1",
            "127.0.0.1 tcp n5.example AAAA NOERROR 1",
            "127.0.0.1 udp n10.example AAAA NOERROR 1",
            "127.0.0.1 udp n15.example AAAA NOERROR 1",
        ]
    );
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(lines().len(), 4);
}
