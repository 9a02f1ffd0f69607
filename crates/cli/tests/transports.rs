//! Loads over connections, against our AuthDNS on loopback.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

/// A `dnsdyno auth` on free ports, with TLS, HTTPS and QUIC, and its authority's certificate in a folder.
struct AuthDns {
    child: Child,
    plain: String,
    tls: String,
    https: String,
    quic: String,
    dir: tempfile::TempDir,
}

impl AuthDns {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(cargo_bin("dnsdyno"))
            .args(["auth", "--listen", "127.0.0.1:0", "--tls", "127.0.0.1:0", "--duration", "60s"])
            .args(["--https", "127.0.0.1:0", "--quic", "127.0.0.1:0"])
            .args(["--tls-early-data", "--tls-write"])
            .arg(dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
        let addresses: Vec<&str> =
            line.split_ascii_whitespace().filter(|word| word.starts_with("127.0.0.1:")).collect();
        let [plain, tls, https, quic] = addresses[..] else { panic!("{line}") };
        let [plain, tls, https, quic] = [plain, tls, https, quic].map(str::to_owned);
        AuthDns { child, plain, tls, https, quic, dir }
    }

    /// Each transport with its address; the arguments for it come with its name.
    fn transports(&self) -> [(&'static str, &str); 7] {
        [
            ("tcp", &self.plain),
            ("tls", &self.tls),
            ("tls --tls-version 1.2", &self.tls),
            ("https", &self.https),
            ("https --http-method get", &self.https),
            ("quic", &self.quic),
            ("http3", &self.https),
        ]
    }

    fn authority(&self) -> String {
        self.dir.path().join("ca.pem").display().to_string()
    }
}

impl Drop for AuthDns {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A trial's JSON; whether its schedule was kept is not these tests' business.
fn load(target: &str, args: &str) -> Value {
    let output = Command::new(cargo_bin("dnsdyno"))
        .args(["load", target, "--json", "-", "--type", "A"])
        .args(args.split_ascii_whitespace())
        .output()
        .expect("starts");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn every_query_is_answered_over_few_connections_and_over_one_for_each() {
    let auth = AuthDns::start();
    for (transport, target) in auth.transports() {
        let few = load(
            target,
            &format!(
                "--transport {transport} --rate 2k --duration 500ms --timeout 30s --clients 4"
            ),
        );
        assert_eq!((&few["sent"], &few["valid"]), (&1_000.into(), &1_000.into()), "{few}");
        let name = transport.split(' ').next().expect("a word");
        assert_eq!(few["conditions"]["transport"], name);
        let c = &few["connections"];
        assert_eq!((&c["established"], &c["open_at_end"]), (&4.into(), &4.into()), "{c}");
        assert_eq!(c["steady_us"]["count"], 996);

        let one = load(
            target,
            &format!(
                "--transport {transport} --rate 100 --duration 500ms --timeout 30s --queries-per-connection 1"
            ),
        );
        assert_eq!((&one["sent"], &one["valid"]), (&50.into(), &50.into()), "{one}");
        let c = &one["connections"];
        assert_eq!((&c["attempts"], &c["first_query_us"]["count"]), (&50.into(), &50.into()));
        assert_eq!((&c["failed"], &c["resumed"]), (&serde_json::json!({}), &0.into()), "{c}");
    }
    let window = load(
        &auth.plain,
        "--transport tcp --pacing window --window 60 --duration 300ms --clients 3 --queries-per-connection 50",
    );
    assert_eq!((&window["sent"], &window["lost"]), (&window["valid"], &0.into()), "{window}");
    let c = &window["connections"];
    assert!(c["completed"].as_u64() > Some(3) && c["outstanding"] == 20, "{c}");
}

#[test]
fn certificates_are_held_to_their_authority_and_sessions_resumed() {
    let auth = AuthDns::start();
    // Queries wait for the one client, however slow this machine is.
    let loads = "--rate 100 --duration 300ms --timeout 30s --queries-per-connection 1 --clients 1";
    for (transport, target) in auth.transports() {
        if transport == "tcp" {
            continue;
        }
        let args = format!("--transport {transport} {loads}");
        let believed = load(target, &format!("{args} --ca {} --resume", auth.authority()));
        assert_eq!((&believed["sent"], &believed["valid"]), (&30.into(), &30.into()), "{believed}");
        assert_eq!(believed["connections"]["resumed"], 29, "{transport}");
        if !transport.contains("1.2") {
            let early = load(target, &format!("{args} --early-data"));
            let c = &early["connections"];
            assert_eq!((&early["valid"], &c["early_data"]), (&30.into(), &c["resumed"]), "{early}");
            // A connection of QUIC may be over before its ticket for the next has come.
            let tickets =
                if transport.starts_with("quic") || transport == "http3" { 1 } else { 29 };
            assert!(c["early_data"].as_u64() >= Some(tickets), "{early}");
        }
        let stranger =
            load(target, &format!("{args} --ca {} --tls-name example.com", auth.authority()));
        assert_eq!(stranger["valid"], 0);
        let failed = &stranger["connections"]["failed"];
        assert!(failed["bad-certificate"].as_u64() > Some(0), "{stranger}");
        assert_eq!(stranger["sent"], stranger["lost"]);
    }
}

#[test]
fn who_is_not_there_and_who_says_too_much_is_named() {
    let auth = AuthDns::start();
    let nobody = load("127.0.0.1:1", "--transport tcp --rate 50 --duration 200ms --timeout 200ms");
    assert!(nobody["connections"]["failed"]["refused"].as_u64() > Some(0), "{nobody}");
    assert_eq!((&nobody["sent"], &nobody["lost"]), (&10.into(), &10.into()), "{nobody}");
    let long = load(
        &auth.plain,
        "--transport tcp --rate 50 --duration 200ms --max-reply 40 --queries-per-connection 1",
    );
    assert_eq!(long["connections"]["failed"]["oversized"], long["sent"], "{long}");
    let quiet = load(
        &auth.plain,
        "--transport tls --rate 50 --duration 100ms --timeout 300ms --connect-timeout 100ms",
    );
    assert!(quiet["connections"]["failed"]["handshake-stalled"].as_u64() > Some(0), "{quiet}");
}

#[test]
fn a_population_comes_and_goes() {
    let auth = AuthDns::start();
    let many = load(
        &auth.plain,
        "--transport tcp --pacing poisson --rate 200 --duration 1s --timeout 30s --clients 40 --pick chance \
         --close-idle 100ms --cookies --subnets 10.0.0.0/8 --keepalive --pad 128",
    );
    assert_eq!(many["sent"], many["valid"], "{many}");
    let c = &many["connections"];
    assert!(c["closed_idle"].as_u64() > Some(0), "{c}");
    assert_eq!(c["closed_idle"], c["completed"], "{c}");
    // A length and a padded query.
    let sent = many["sent"].as_u64().expect("a number");
    assert_eq!(c["bytes_sent"].as_u64(), Some(sent * 130), "{c}");
}
