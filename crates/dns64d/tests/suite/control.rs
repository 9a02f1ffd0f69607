//! `dns64d ctl`: a running server seen and changed through its socket.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use domain::base::iana::Rtype;
use serde_json::Value;

use crate::faults::{A, dns64d, ipv4_only, is_right, wait_for};
use crate::kit::client::Query;
use crate::kit::script::Script;
use crate::kit::server::{Kind, PREFIX, Server};

/// A server with a control socket.
struct Controlled {
    server: Server,
    script: Script,
    dir: tempfile::TempDir,
}

impl Controlled {
    fn start() -> Self {
        let (script, dir) = (ipv4_only(), tempfile::tempdir().expect("a folder"));
        let server = dns64d(&[&script], &config(&dir.path().join("control")));
        Controlled { server, script, dir }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("control")
    }

    /// Returns what `dns64d ctl` says, as text.
    fn ctl(&self, words: &str) -> String {
        let output = ctl(&self.socket(), words);
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Returns what `dns64d ctl` says, as JSON.
    fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.ctl(&format!("--json {words}"))).expect("JSON")
    }

    /// Returns how often upstream was asked for the A records of a name.
    fn asked(&self, name: &str) -> usize {
        let asked = self.script.asked();
        asked.iter().filter(|asked| asked.name == name && asked.rtype == Rtype::A).count()
    }
}

fn config(socket: &Path) -> String {
    format!("control.socket = \"{}\"", socket.display())
}

fn ctl(socket: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dns64d"));
    command.args(["ctl", "--socket"]).arg(socket).args(words.split(' '));
    command.output().expect("it runs")
}

#[test]
fn state_and_statistics_are_shown() {
    let controlled = Controlled::start();
    let server = &controlled.server;
    for name in ["one.example AAAA", "two.example AAAA +tcp", "one.example A", "x.example MX"] {
        server.ask(name);
    }
    let status = controlled.json("status");
    assert_eq!(status["state"], "ready");
    assert_eq!(status["prefixes"][0], PREFIX);
    assert_eq!(status["upstream"][0]["server"], controlled.script.address().to_string());
    assert_eq!(status["upstream"][0]["alive_for_workers"], 1);
    wait_for("statistics are published", || {
        controlled.json("stats")["latency"]["answers"].as_u64() == Some(4)
    });
    let stats = controlled.json("stats");
    assert_eq!(stats["answers_by_type"]["AAAA"], 2);
    assert_eq!(stats["answers_by_rcode"]["NOERROR"].as_u64(), Some(4), "{stats}");
    assert_eq!(stats["queries_by_transport"]["tcp"], 1);
    assert_eq!(stats["queries_by_transport"]["udp"], 3);
    assert_eq!(stats["synthesised_by_prefix"][PREFIX], 2);
    assert!(stats["latency"]["p99_below_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{stats}");
    let text = controlled.ctl("stats");
    assert!(text.contains("answers by type:\n  A:    1\n  AAAA: 2\n"), "{text}");
    // The same for Prometheus.
    assert_eq!(server.metric("dns64d_answers_by_type_total{type=\"AAAA\"}"), 2);
    assert_eq!(server.metric("dns64d_answer_seconds_count"), 4);
    assert_eq!(server.metric("dns64d_answer_seconds_bucket{le=\"+Inf\"}"), 4);
}

#[test]
fn the_cache_is_shown_and_flushed() {
    let controlled = Controlled::start();
    let names = ["www.one.example", "one.example", "none.example"];
    let ask_all = || {
        for name in names {
            assert!(is_right(&controlled.server.ask(&format!("{name} AAAA"))), "{name}");
        }
        names.map(|name| controlled.asked(name))
    };
    assert_eq!(ask_all(), [1, 1, 1]);
    assert_eq!(ask_all(), [1, 1, 1], "they are cached");
    let dump = controlled.json("dump");
    let mut dumped: Vec<&str> = dump["answers"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|a| a["name"].as_str())
        .collect();
    dumped.sort_unstable();
    assert_eq!(dumped, ["none.example", "one.example", "www.one.example"], "{dump}");
    assert_eq!(dump["answers"][0]["type"], "AAAA");
    assert_eq!(controlled.json("flush name ONE.example")["removed"], 1);
    assert_eq!(ask_all(), [1, 2, 1]);
    assert_eq!(controlled.json("flush zone one.example")["removed"], 2);
    assert_eq!(ask_all(), [2, 3, 1]);
    assert_eq!(controlled.ctl("flush all"), "removed: 3\n");
    assert_eq!(controlled.json("status")["cache"]["answers"].as_u64().map(|n| n <= 3), Some(true));
    assert_eq!(ask_all(), [3, 4, 2]);
    // An answer that has addresses of the name beside a service: `HTTPS 1 one.example.`
    let service = "svc.example 600 TYPE65 \\# 15 0001036f6e65076578616d706c6500";
    controlled.script.on("svc.example HTTPS", service);
    controlled.ctl("flush all");
    assert_eq!(controlled.server.ask("svc.example HTTPS").additional.len(), 1);
    assert_eq!(controlled.json("flush name one.example")["removed"], 1);
}

#[test]
fn a_server_is_taken_out_of_service_and_back() {
    let controlled = Controlled::start();
    let server = &controlled.server;
    let query = Query::parse("tcp.example AAAA +tcp");
    let by_tcp = || query.ask(server.address(), Duration::from_secs(20));
    assert!(by_tcp().is_some_and(|reply| is_right(&reply)));
    assert_eq!(controlled.json("drain")["state"], "draining");
    let health = server.http("/health");
    assert!(health.starts_with("HTTP/1.1 503") && health.contains("draining"), "{health}");
    assert!(by_tcp().is_none(), "a new connection is refused");
    let refused = "dns64d_connections_refused_total{transport=\"tcp\",reason=\"draining\"}";
    wait_for("the refusal is counted", || server.metric(refused) == 1);
    assert!(is_right(&server.ask("udp.example AAAA")), "queries over UDP are answered");
    assert_eq!(controlled.json("drain --undo")["state"], "ready");
    assert!(by_tcp().is_some_and(|reply| is_right(&reply)));
    assert!(server.http("/health").starts_with("HTTP/1.1 200"));
}

#[test]
fn a_reload_shows_what_has_changed() {
    let controlled = Controlled::start();
    let Controlled { server, script, .. } = &controlled;
    let own = config(&controlled.socket());
    assert_eq!(controlled.json("reload")["changes"], Value::Array(Vec::new()));
    let other = format!("{own}\ncache.max-ttl = \"1h\"\nserver.workers = 2");
    server.rewrite(&[script.address()], &other);
    let changes = &controlled.json("reload")["changes"];
    let seen: Vec<[&str; 4]> = changes
        .as_array()
        .expect("a list")
        .iter()
        .map(|change| {
            ["setting", "before", "after", "takes_effect"]
                .map(|key| change[key].as_str().unwrap_or(""))
        })
        .collect();
    let expected = [
        ["cache.max-ttl", "\"1d\"", "\"1h\"", "now"],
        ["server.workers", "1", "2", "after a restart"],
    ];
    assert_eq!(seen, expected);
    // A configuration with an error changes nothing.
    server.rewrite(&[script.address()], &format!("{own}\ncache.max-ttl = \"0s\""));
    let output = ctl(&controlled.socket(), "reload");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cache.max-ttl") && said.contains("nothing was changed"), "{said}");
    assert!(is_right(&server.ask("still.example AAAA")));
    // The level of the log.
    server.rewrite(&[script.address()], &own);
    controlled.ctl("log error");
    controlled.ctl("reload");
    wait_for("the reload has set the configured level", || {
        server.log().contains("cache.max-ttl, server.workers")
    });
    let before = server.log().len();
    controlled.ctl("log error");
    controlled.ctl("flush all");
    controlled.ctl("log info");
    controlled.ctl("flush name quiet.example");
    let removed = || server.log()[before..].matches("removed from the cache").count();
    wait_for("one line", || removed() > 0);
    assert_eq!(removed(), 1);
}

#[test]
fn a_read_that_hangs_and_silent_clients_keep_nobody_out() {
    let mut controlled = Controlled::start();
    let own = config(&controlled.socket());
    // What is no file is refused at once.
    let path = controlled.server.config();
    std::fs::remove_file(&path).expect("it is there");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let output = ctl(&controlled.socket(), "reload");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("no regular file"), "{said}");
    // A read that never ends: nobody writes into this pipe.
    let pipe = path.with_extension("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let pipe = pipe.display();
    let tls = format!(
        "{own}\n[tls]\ncertificate = \"{pipe}\"\nkey = \"{pipe}\"\ndot = [\"127.0.0.1:8853\"]"
    );
    controlled.server.reload(&[controlled.script.address()], &tls);
    wait_for("the server says that it reads", || {
        let output = ctl(&controlled.socket(), "reload --dry-run");
        String::from_utf8_lossy(&output.stderr).contains("is being read")
    });
    let silent = || UnixStream::connect(controlled.socket()).expect("connects");
    let _silent: Vec<UnixStream> = (0..100).map(|_| silent()).collect();
    assert_eq!(controlled.json("status")["state"], "ready");
    assert!(is_right(&controlled.server.ask("still.example AAAA")));
    controlled.server.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(controlled.server.wait().success(), "{}", controlled.server.log());
}

#[test]
fn a_dry_run_changes_nothing_and_a_value_that_runs_needs_no_restart() {
    let controlled = Controlled::start();
    let Controlled { server, script, .. } = &controlled;
    let own = config(&controlled.socket());
    let takes_effect = |words: &str| controlled.json(words)["changes"][0]["takes_effect"].clone();
    server.rewrite(&[script.address()], &format!("{own}\nserver.workers = 2"));
    for _ in 0..2 {
        assert_eq!(takes_effect("reload --dry-run"), "after a restart", "it is a change still");
    }
    assert_eq!(takes_effect("reload"), "after a restart");
    server.rewrite(&[script.address()], &own);
    assert_eq!(takes_effect("reload"), "now");
    assert_eq!(server.log().matches("a change of server.workers needs a restart").count(), 1);
}

#[test]
fn one_server_has_the_socket_and_its_owner_only() {
    let controlled = Controlled::start();
    let socket = controlled.socket();
    let mode = std::fs::metadata(&socket).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    let upstreams = [controlled.script.address()];
    let second = Server::start(Kind::Dns64d, &upstreams, &config(&socket));
    let error = second.err().expect("it does not start");
    assert!(error.contains("another server has this socket"), "{error}");
    // Nonsense affects nobody.
    let output = ctl(&socket, "flush name a..b");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(controlled.json("status")["state"], "ready");
    drop(controlled);
    // A socket that nobody reads: no server. The next server replaces it.
    let dir = tempfile::tempdir().expect("a folder");
    let left = dir.path().join("left");
    drop(UnixListener::bind(&left).expect("binds"));
    let output = ctl(&left, "status");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("control.socket"), "{said}");
    let script = Script::start(&[]);
    script.others(Rtype::A, A);
    let server = dns64d(&[&script], &config(&left));
    assert!(ctl(&left, "status").status.success());
    server.signal(nix::sys::signal::Signal::SIGTERM);
    wait_for("the socket is removed at the end", || !left.exists());
}
