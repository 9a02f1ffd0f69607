//! dnstap of real servers: what is read has the counts of the servers' own statistics.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use wire::Qtype;
use wire::frame_stream::Control;

use crate::kit::command::{Held, dnsdyno, json, load, refused, run};
use crate::kit::host::{free_port, installed, signal, soon};
use crate::kit::serve::{Server, serve};

/// Longest time that a server has to start, or to write its last frames.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts a program; `None` if it is not installed.
fn start(command: &mut Command) -> Option<Held> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().ok().map(Held)
}

/// Ends a program by a signal and waits for it.
fn end(mut program: Held, name: &str) {
    signal(program.0.id(), name);
    program.0.wait().expect("our own child");
}

/// Returns the body of a page of a server's statistics.
fn page(port: u16, path: &str, header: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page).ok()?;
    let page = String::from_utf8(page).ok()?;
    page.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// A reader of dnstap: `dnsdyno trace stats --dnstap`.
struct Tap {
    running: Held,
    errors: BufReader<ChildStderr>,
    json: std::path::PathBuf,
}

impl Tap {
    /// Starts it at an address; it listens then.
    fn start(dir: &Path, address: &str) -> Self {
        let json = dir.join("stats.json");
        let mut child = dnsdyno(&format!("trace stats --dnstap {address} --json"))
            .arg(&json)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut errors = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("a line");
        assert_eq!(line, format!("listening at {address}\n"));
        Tap { running: Held(child), errors, json }
    }

    /// Ends it; returns its statistics and what it told.
    fn end(mut self) -> (Value, String) {
        end(self.running, "INT");
        let mut told = String::new();
        self.errors.read_to_string(&mut told).expect("text");
        let text = std::fs::read_to_string(&self.json).expect("statistics");
        (serde_json::from_str(&text).expect("JSON"), told)
    }
}

/// Sends 150 queries over UDP and 50 over TCP, which are all answered.
fn ask(port: u16) {
    for more in ["--duration 300ms", "--duration 100ms --transport tcp"] {
        let args = format!("--name www.example --type A --rate 500 --timeout 20s {more}");
        let trial = load(&format!("127.0.0.1:{port}"), &args);
        assert_eq!(trial["lost"], 0, "{trial}");
    }
}

/// Waits until a server has written its last frames: it does so after a second at the latest, and not always at its end.
fn wait_for_frames() {
    std::thread::sleep(Duration::from_secs(6));
}

/// Starts a server that answers by itself, and asks it; `None` if it is not installed.
fn asked(command: &str, port: u16) -> Option<Server> {
    let mut command: Vec<String> = command.split(' ').map(str::to_owned).collect();
    command[0] = installed(&command[0])?;
    let dir = tempfile::tempdir().expect("a folder");
    let server = serve(dir, &command, port, "www.example", Qtype::A);
    ask(port);
    Some(server)
}

/// Queries, replies, and those over TCP, as a server counts them itself.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    queries: u64,
    tcp: u64,
    replies: u64,
}

/// Returns the counts of what was read.
fn counts(stats: &Value) -> Counts {
    let of = |way: &str, key: &str| stats[way][key].as_u64().expect("a number");
    assert_eq!(stats["packets"]["malformed"], 0, "{stats}");
    Counts {
        queries: of("queries", "messages"),
        tcp: of("queries", "tcp"),
        replies: of("replies", "messages"),
    }
}

/// Writes the configuration of an Unbound that answers by itself and writes dnstap to a socket.
fn unbound(dir: &Path, port: u16) -> std::path::PathBuf {
    let folder = dir.display();
    let text = format!(
        "server:\n directory: \"{folder}\"\n username: \"\"\n chroot: \"\"\n pidfile: \"\"\n use-syslog: no\n \
         interface: 127.0.0.1\n port: {port}\n num-threads: 2\n do-daemonize: no\n module-config: \"iterator\"\n \
         extended-statistics: yes\n local-zone: \"example.\" redirect\n local-data: \"example. A 192.0.2.1\"\n\
         remote-control:\n control-enable: yes\n control-interface: \"{folder}/control\"\n control-use-cert: no\n\
         dnstap:\n dnstap-enable: yes\n dnstap-socket-path: \"{folder}/tap\"\n dnstap-send-identity: yes\n \
         dnstap-log-client-query-messages: yes\n dnstap-log-client-response-messages: yes\n"
    );
    let path = dir.join("unbound.conf");
    std::fs::write(&path, text).expect("written");
    path
}

/// Returns what an Unbound counted.
fn counts_of_unbound(config: &Path) -> Counts {
    let mut command = Command::new("unbound-control");
    let output = command.arg("-c").arg(config).arg("stats_noreset").output().expect("installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("{name}: {text}")).parse::<u64>().expect("a number")
    };
    let queries = of("total.num.queries");
    Counts { queries, tcp: of("num.query.tcp"), replies: queries }
}

#[test]
fn a_socket_has_the_counts_of_unbound() {
    let dir = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let config = unbound(dir.path(), port);
    let socket = dir.path().join("tap");
    let tap = Tap::start(dir.path(), socket.to_str().expect("UTF-8"));
    let command = format!("unbound -d -c {}", config.display());
    let Some(server) = asked(&command, port) else { return };
    let wanted = counts_of_unbound(&config);
    wait_for_frames();
    end(server.child, "TERM");
    let (stats, told) = tap.end();
    assert_eq!(counts(&stats), wanted, "{told}{stats}");
    assert!(wanted.queries > 200 && wanted.tcp == 50, "{wanted:?} {told}");
    assert!(!socket.exists(), "the socket is removed");
    assert_eq!(stats["captures"][0].as_str(), socket.to_str());
}

#[test]
fn a_file_of_fstrm_capture_has_the_counts_of_unbound_and_its_part_is_kept() {
    let dir = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let config = unbound(dir.path(), port);
    let (socket, file) = (dir.path().join("tap"), dir.path().join("frames"));
    let mut command = Command::new("fstrm_capture");
    command.args(["-t", "protobuf:dnstap.Dnstap", "-u"]).arg(&socket).arg("-w").arg(&file);
    let Some(reader) = start(&mut command) else {
        return skip::because("fstrm_capture is not installed");
    };
    soon("the reader listens", || socket.exists().then_some(()));
    let command = format!("unbound -d -c {}", config.display());
    let Some(server) = asked(&command, port) else { return };
    let wanted = counts_of_unbound(&config);
    wait_for_frames();
    end(server.child, "TERM");
    end(reader, "TERM");
    let line = format!("trace stats {} --json -", file.display());
    let stats = json(&line);
    assert_eq!(counts(&stats), wanted, "{stats}");
    // Cut in the middle, what stands before is read and the rest is told.
    let whole = std::fs::read(&file).expect("written");
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("written");
    let (code, out, told) = run(&line);
    assert_eq!(code, 1);
    assert!(told.contains("the capture is cut short: it ends in the middle of a "), "{told}");
    let part = counts(&serde_json::from_str(&out).expect("JSON"));
    assert!(part.queries * 3 > wanted.queries && part.queries < wanted.queries, "{part:?}");
    // Also the clients of a stream can be replayed.
    let (_, clients, _) = run(&format!("trace clients {}", file.display()));
    assert!(clients.contains(&format!("1 client with {} queries", part.queries)), "{clients}");
}

#[test]
fn a_file_has_the_counts_of_bind() {
    let dir = tempfile::tempdir().expect("a folder");
    let (port, pages, folder) = (free_port(), free_port(), dir.path().display());
    let zone = "$TTL 60\n@ SOA ns me 1 60 60 60 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.1\n";
    std::fs::write(dir.path().join("zone"), zone).expect("written");
    let text = format!(
        "options {{ directory \"{folder}\"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n \
         pid-file none; recursion no; dnssec-validation no; dnstap {{ all; }}; dnstap-output file \"{folder}/tap\"; }};\n\
         controls {{ }};\nstatistics-channels {{ inet 127.0.0.1 port {pages} allow {{ 127.0.0.1; }}; }};\n\
         zone \"example\" {{ type primary; file \"zone\"; }};\n"
    );
    let config = dir.path().join("named.conf");
    std::fs::write(&config, text).expect("written");
    let command = format!("named -g -n 2 -c {}", config.display());
    let Some(server) = asked(&command, port) else { return };
    let body = page(pages, "/json/v1/server", "").expect("statistics");
    let own: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e}: {body}"));
    let of = |key: &str| own["nsstats"][key].as_u64().unwrap_or(0);
    let wanted = Counts { queries: of("Requestv4"), tcp: of("ReqTCP"), replies: of("Response") };
    end(server.child, "TERM");
    let stats = json(&format!("trace stats {} --json -", dir.path().join("tap").display()));
    assert_eq!(counts(&stats), wanted, "{stats}");
    assert!(wanted.queries > 200 && wanted.tcp == 50, "{wanted:?}");
    assert_eq!(stats["incomplete"], Value::Null);
}

#[test]
fn a_tcp_socket_has_the_counts_of_dnsdist() {
    let dir = tempfile::tempdir().expect("a folder");
    let (port, pages, taps) = (free_port(), free_port(), free_port());
    let text = format!(
        "setLocal(\"127.0.0.1:{port}\")\nsetSecurityPollSuffix(\"\")\n\
         webserver(\"127.0.0.1:{pages}\")\nsetWebserverConfig({{apiKey=\"key\", password=\"key\", acl=\"127.0.0.0/8\"}})\n\
         tap = newFrameStreamTcpLogger(\"127.0.0.1:{taps}\")\n\
         addAction(AllRule(), DnstapLogAction(\"front\", tap))\n\
         addAction(AllRule(), SpoofAction(\"192.0.2.1\"))\n\
         addSelfAnsweredResponseAction(AllRule(), DnstapLogResponseAction(\"front\", tap))\n"
    );
    let config = dir.path().join("dnsdist.conf");
    std::fs::write(&config, text).expect("written");
    let tap = Tap::start(dir.path(), &format!("127.0.0.1:{taps}"));
    let command = format!("dnsdist --supervised --disable-syslog -C {}", config.display());
    let Some(server) = asked(&command, port) else { return };
    let body = page(pages, "/jsonstat?command=stats", "X-API-Key: key\r\n").expect("statistics");
    let own: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e}: {body}"));
    let of = |key: &str| own[key].as_u64().unwrap_or(0);
    let wanted = (of("queries"), of("rule-drop"));
    wait_for_frames();
    end(server.child, "TERM");
    let (stats, told) = tap.end();
    let found = counts(&stats);
    assert_eq!((found.queries, found.tcp), (wanted.0, 50), "{told}{own}");
    assert_eq!((found.replies, wanted.1), (found.queries, 0), "{told}{own}");
}

#[test]
fn connections_that_are_cut_or_foreign_are_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let tap = Tap::start(dir.path(), &format!("127.0.0.1:{port}"));
    // One that speaks something else, and one that breaks within its second frame.
    let connect = || TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    connect().write_all(b"GET / HTTP/1.1\r\n\r\n").expect("loopback");
    let mut stream = connect();
    let seed = include_bytes!("../../../fuzz/seeds/dnstap/stream");
    stream.write_all(&Control::Ready.frame()).expect("loopback");
    let mut accept = vec![0; Control::Accept.frame().len()];
    stream.read_exact(&mut accept).expect("an answer");
    assert_eq!(accept, Control::Accept.frame());
    let end = seed.len() - Control::Stop.frame().len() - 7;
    stream.write_all(&seed[..end]).expect("loopback");
    drop(stream);
    // A whole one gets its FINISH.
    let mut stream = connect();
    stream.write_all(seed).expect("loopback");
    let mut finish = Vec::new();
    stream.read_to_end(&mut finish).expect("an answer");
    assert_eq!(finish, Control::Finish.frame());
    let (stats, told) = tap.end();
    assert_eq!(stats["queries"]["messages"].as_u64(), Some(2), "{stats}");
    assert_eq!(stats["replies"]["messages"].as_u64(), Some(1), "{stats}");
    assert!(
        told.contains("1 of 3 connections ended without STOP; their frames were read"),
        "{told}"
    );
    assert!(told.contains("1 of 3 connections wrote no dnstap"), "{told}");
    let told = refused("trace stats --dnstap tap");
    assert!(told.contains("neither the path of"), "{told}");
}
