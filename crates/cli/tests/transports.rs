//! Loads over connections, against our AuthDNS on loopback.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::kit::AuthDns;
use crate::kit::command::{self, Held};
use crate::kit::peer::{read_frame, reply, write_frame};

/// Starts an AuthDNS that takes early data.
fn start() -> AuthDns {
    AuthDns::encrypted(&["--tls-early-data"])
}

/// Each transport with its address; the arguments for it come with its name.
fn transports(auth: &AuthDns) -> [(&'static str, &str); 7] {
    let all = [
        "tcp",
        "tls",
        "tls --tls-version 1.2",
        "https",
        "https --http-method get",
        "quic",
        "http3",
    ];
    all.map(|words| (words, auth.address(words.split(' ').next().unwrap_or_default())))
}

/// A load of A queries.
fn load(target: &str, args: &str) -> Value {
    command::load(target, &format!("--type A {args}"))
}

#[test]
fn every_query_is_answered_over_few_connections_and_over_one_for_each() {
    let auth = start();
    for (transport, target) in transports(&auth) {
        // By a URI, and by options.
        let (name, options) = transport.split_once(' ').unwrap_or((transport, ""));
        let path = if name.starts_with("http") { "/dns-query" } else { "" };
        let how = "--rate 2k --duration 500ms --timeout 30s --clients 4";
        let few = load(&format!("{name}://{target}{path}"), &format!("{options} {how}"));
        assert_eq!((&few["sent"], &few["valid"]), (&1_000.into(), &1_000.into()), "{few}");
        assert_eq!(few["conditions"]["transport"], name);
        let c = &few["connections"];
        assert_eq!((&c["established"], &c["open_at_end"]), (&4.into(), &4.into()), "{c}");
        assert_eq!(c["steady_us"]["count"], 996);

        let how = "--rate 100 --duration 500ms --timeout 30s --queries-per-connection 1";
        let one = load(target, &format!("--transport {transport} {how}"));
        assert_eq!((&one["sent"], &one["valid"]), (&50.into(), &50.into()), "{one}");
        let c = &one["connections"];
        assert_eq!((&c["attempts"], &c["first_query_us"]["count"]), (&50.into(), &50.into()));
        assert_eq!((&c["failed"], &c["resumed"]), (&serde_json::json!({}), &0.into()), "{c}");
    }
}

#[test]
fn every_query_of_a_window_is_answered() {
    let auth = start();
    // More than a server of HTTP takes at once (100), all of them there before the connection is.
    for (transport, target) in transports(&auth) {
        let many = load(
            target,
            &format!(
                "--transport {transport} --pacing window --window 250 --duration 200ms --timeout 30s --clients 1 \
                 --queries-per-connection 10000"
            ),
        );
        assert_eq!((&many["sent"], &many["lost"]), (&many["valid"], &0.into()), "{many}");
        assert_eq!(many["connections"]["failed"], serde_json::json!({}), "{many}");
    }
    let window = load(
        auth.plain(),
        "--transport tcp --pacing window --window 60 --duration 300ms --clients 3 --queries-per-connection 50",
    );
    assert_eq!((&window["sent"], &window["lost"]), (&window["valid"], &0.into()), "{window}");
    let c = &window["connections"];
    assert!(c["completed"].as_u64() > Some(3) && c["outstanding"] == 20, "{c}");
}

/// Checks a transport with certificates, at its address.
fn check_certificates(auth: &AuthDns, transport: &str, target: &str) {
    // Queries wait for the one client, however slow this machine is.
    let loads = "--rate 100 --duration 300ms --timeout 30s --queries-per-connection 1 --clients 1";
    let args = format!("--transport {transport} {loads}");
    let believed = load(target, &format!("{args} --ca {} --tls-resume", auth.authority()));
    assert_eq!((&believed["sent"], &believed["valid"]), (&30.into(), &30.into()), "{believed}");
    // A connection of QUIC may be over before its ticket for the next has come.
    let tickets = if transport.starts_with("quic") || transport == "http3" { 1 } else { 29 };
    let resumed = believed["connections"]["resumed"].as_u64();
    assert!((Some(tickets)..=Some(29)).contains(&resumed), "{transport}: {resumed:?}");
    if !transport.contains("1.2") {
        let early = load(target, &format!("{args} --early-data"));
        let c = &early["connections"];
        assert_eq!((&early["valid"], &c["early_data"]), (&30.into(), &c["resumed"]), "{early}");
        assert!(c["early_data"].as_u64() >= Some(tickets), "{early}");
    }
    let stranger =
        load(target, &format!("{args} --ca {} --tls-name example.com", auth.authority()));
    assert_eq!(stranger["valid"], 0);
    let failed = &stranger["connections"]["failed"];
    assert!(failed["bad-certificate"].as_u64() > Some(0), "{stranger}");
    assert_eq!((&stranger["sent"], &stranger["lost"]), (&0.into(), &0.into()), "{stranger}");
}

#[test]
fn certificates_are_held_to_their_authority_and_sessions_resumed() {
    let auth = &start();
    // All at the same time: with one client each they mostly wait.
    std::thread::scope(|scope| {
        for (transport, target) in transports(auth).into_iter().filter(|(name, _)| *name != "tcp") {
            scope.spawn(move || check_certificates(auth, transport, target));
        }
    });
}

#[test]
fn who_is_not_there_and_who_says_too_much_is_named() {
    let auth = start();
    let nobody = load("127.0.0.1:1", "--transport tcp --rate 50 --duration 200ms --timeout 200ms");
    assert!(nobody["connections"]["failed"]["refused"].as_u64() > Some(0), "{nobody}");
    let never_sent = ["sent", "lost", "unserved"].map(|count| nobody[count].as_u64());
    assert_eq!(never_sent, [Some(0), Some(0), Some(10)], "{nobody}");
    let long = load(
        auth.plain(),
        "--transport tcp --rate 50 --duration 200ms --max-reply 40 --queries-per-connection 1",
    );
    assert_eq!(long["connections"]["failed"]["oversized"], long["sent"], "{long}");
    let quiet = load(
        auth.plain(),
        "--transport tls --rate 50 --duration 100ms --timeout 300ms --connect-timeout 100ms",
    );
    assert!(quiet["connections"]["failed"]["handshake-stalled"].as_u64() > Some(0), "{quiet}");
}

#[test]
fn a_population_comes_and_goes() {
    let auth = start();
    let many = load(
        auth.plain(),
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

#[test]
fn a_population_asks_by_datagrams_too() {
    let auth = start();
    let many = load(
        auth.plain(),
        "--transport udp --pacing poisson --rate 500 --duration 1s --timeout 30s --clients 40 --pick chance \
         --cookies --subnets 10.0.0.0/8 --pad 128",
    );
    assert_eq!(many["sent"], many["valid"], "{many}");
    let c = &many["connections"];
    let sent = many["sent"].as_u64().expect("a number");
    assert_eq!(c["bytes_sent"].as_u64(), Some(sent * 128), "{c}");
    assert_eq!((&c["failed"], &c["handshake_us"]["count"]), (&serde_json::json!({}), &0.into()));
    assert_eq!(many["conditions"]["transport"], "udp");
    // Each its own port, taken when its first query is due.
    assert!(c["peak"].as_u64() > Some(20), "{c}");
}

#[test]
fn a_mix_of_transports_is_told_apart() {
    let auth = start();
    let port = |address: &str| address.rsplit(':').next().expect("a port").to_owned();
    let (tls, https, quic) =
        (port(auth.address("tls")), port(auth.address("https")), port(auth.address("quic")));
    let mix = format!("udp=6,tcp=2,tls:{tls}=3,https:{https}=1,quic:{quic}=1,http3:{https}=1");
    let loads = "--rate 1k --duration 700ms --timeout 30s --clients 28 --cookies --pad 128";
    let all = load(auth.plain(), &format!("--transports {mix} {loads}"));
    assert_eq!((&all["sent"], &all["valid"]), (&700.into(), &700.into()), "{all}");
    let c = &all["connections"];
    for (transport, share) in
        [("udp", 6), ("tcp", 2), ("tls", 3), ("https", 1), ("quic", 1), ("http3", 1)]
    {
        let part = &c["by_transport"][transport];
        assert_eq!((&part["clients"], &part["peak"]), (&(share * 2).into(), &part["clients"]));
        let answered =
            part["first_query_us"]["count"].as_u64().zip(part["steady_us"]["count"].as_u64());
        assert_eq!(
            answered.map(|(first, more)| first + more),
            Some(share * 50),
            "{transport}: {c}"
        );
    }
    assert_eq!((&c["peak"], &c["failed"]), (&28.into(), &serde_json::json!({})), "{c}");
}

#[test]
fn more_connections_than_open_files_take_more_workers() {
    let auth = start();
    let loads = "--transport tcp --clients 300 --rate 1k --duration 300ms --timeout 30s";
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 200 && exec \"$@\"", "sh"])
        .arg(cargo_bin("dnsdyno"))
        .args(["load", auth.plain(), "--no-check", "--json", "-", "--type", "A"])
        .args(loads.split_ascii_whitespace())
        .output()
        .expect("starts");
    let all: Value = serde_json::from_slice(&output.stdout).expect("a result");
    let c = &all["connections"];
    assert_eq!((&c["peak"], &c["failed"]), (&300.into(), &serde_json::json!({})), "{all}");
    assert_eq!(all["sent"], all["valid"], "{all}");
}

/// What a peer that is no good server does with a connection.
#[derive(Clone, Copy)]
enum Deed {
    Silent,
    Half,
    Drip,
    /// Closes when the first query has come.
    Close,
    /// Resets when the first query has come.
    Reset,
    /// Answers with a frame of another protocol.
    Garbage,
}

impl Deed {
    fn with(self, stream: TcpStream) -> std::io::Result<()> {
        let (mut reader, mut writer) = (stream.try_clone()?, stream);
        writer.set_nodelay(true)?;
        for count in 0.. {
            let Some(query) = read_frame(&mut reader) else { break };
            let answer = reply(&query, 0);
            match self {
                Deed::Silent => {}
                Deed::Half if count % 2 == 0 => write_frame(&mut writer, &answer)?,
                Deed::Half => {}
                Deed::Drip => {
                    let frame = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat();
                    frame.iter().try_for_each(|octet| writer.write_all(&[*octet]))?;
                }
                Deed::Close => return Ok(()),
                Deed::Reset => {
                    return socket2::SockRef::from(&writer).set_linger(Some(Duration::ZERO));
                }
                Deed::Garbage => writer.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")?,
            }
        }
        Ok(())
    }

    /// The address of a peer that does this with every connection, as long as the test runs.
    fn peer(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // However it ends.
                std::thread::spawn(move || self.with(stream));
            }
        });
        address
    }
}

#[test]
fn bad_peers_are_counted_by_what_they_do() {
    let loads =
        "--transport tcp --rate 50 --duration 600ms --timeout 3s --clients 2 --expect answered";
    // What ends by itself does so before this, also on a busy machine.
    let patient = &loads.replace("--timeout 3s", "--timeout 10s")[..];
    for (deed, reason, loads) in [
        (Deed::Silent, "stalled", loads),
        (Deed::Close, "closed-early", patient),
        (Deed::Reset, "reset", patient),
        // "HT" is a length that we do not wait for.
        (Deed::Garbage, "oversized", patient),
    ] {
        let result = load(&deed.peer(), &format!("{loads} --max-reply 4096"));
        let failed = result["connections"]["failed"].as_object().expect("reasons").clone();
        assert!(failed.contains_key(reason), "{reason}: {result}");
        // A reset may overtake what was sent before it.
        let others = failed.keys().filter(|key| *key != reason && *key != "reset").count();
        assert_eq!((others, &result["valid"]), (0, &0.into()), "{reason}: {result}");
        assert_eq!(result["sent"], result["lost"], "{reason}: {result}");
    }
    let slow = load(&Deed::Half.peer(), loads);
    let c = &slow["connections"];
    assert!(c["slow"].as_u64() > Some(0) && slow["lost"].as_u64() > Some(0), "{slow}");
    assert_eq!(c["failed"], serde_json::json!({}), "{slow}");
    let drip = load(&Deed::Drip.peer(), &loads.replace("--timeout 3s", "--timeout 30s"));
    let c = &drip["connections"];
    assert_eq!((&drip["lost"], &c["failed"]), (&0.into(), &serde_json::json!({})), "{drip}");
    assert!(c["reads"].as_u64() > drip["sent"].as_u64(), "{drip}");
}

#[test]
fn a_peer_that_takes_no_connection_stalls() {
    // A queue of one place, taken by a connection that is never accepted: the kernel drops what comes then.
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("one");
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
    socket.bind(&any.into()).expect("a port");
    socket.listen(0).expect("listens");
    let address = socket.local_addr().expect("bound").as_socket().expect("IPv4");
    let _first = TcpStream::connect(address).expect("the queue has a place");
    let stalled = load(
        &address.to_string(),
        "--transport tcp --rate 50 --duration 300ms --timeout 300ms --connect-timeout 100ms --clients 1",
    );
    assert!(stalled["connections"]["failed"]["connect-stalled"].as_u64() > Some(0), "{stalled}");
}

#[test]
fn the_auth_dns_takes_queries_with_the_syn() {
    // Servers must be allowed to (bit 2 of the setting), in a network of our own.
    let script = "echo 3 >/proc/sys/net/ipv4/tcp_fastopen && ip link set lo up || exit 77
        \"$0\" auth --listen 127.0.0.1:5353 --duration 60s >/dev/null &
        until \"$0\" load 127.0.0.1:5353 --type A --rate 100 --duration 20ms --timeout 1s --goal zero-loss >/dev/null 2>&1
        do :; done
        \"$0\" load 127.0.0.1:5353 --no-check --type A --transport tcp --fast-open --clients 1 --queries-per-connection 1 \
            --rate 100 --duration 200ms --timeout 30s --json - >result
        kill $!
        awk '/^TcpExt:/ { if (split(names, n)) for (i in n) if (n[i] == \"TCPFastOpenPassive\") print $i; names = $0 }' \
            /proc/net/netstat";
    let dir = tempfile::tempdir().expect("a folder");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "sh", "-c", script])
        .arg(cargo_bin("dnsdyno"))
        .current_dir(dir.path())
        .output()
        .expect("unshare (package util-linux)");
    let passive = String::from_utf8_lossy(&output.stdout).trim().parse::<u64>();
    let Ok(passive) = passive else {
        let why = String::from_utf8_lossy(&output.stderr);
        return skip::because(format_args!("no network namespace: {why}"));
    };
    let text = std::fs::read_to_string(dir.path().join("result")).expect("a result");
    let result: Value = serde_json::from_str(&text).expect("a result");
    assert_eq!((&result["sent"], &result["valid"]), (&20.into(), &20.into()), "{result}");
    // The first connection brings the cookie that the others show.
    assert_eq!(passive, 19, "{result}");
}

#[test]
fn dnsdist_believes_the_header_of_the_proxy_protocol() {
    let auth = start();
    // As the servers of other tests: no client's port is there.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{low}.53", 64 | high & 63);
    let file = |name: &str| auth.dir.path().join(name).display().to_string();
    let config = format!(
        "setSecurityPollSuffix(\"\")\nsetACL(\"0.0.0.0/0\")\nsetProxyProtocolACL(\"127.0.0.0/8\")\n\
         setLocal(\"{address}:5353\")\naddTLSLocal(\"{address}:8853\", \"{}\", \"{}\")\nnewServer(\"{}\")\ngetServer(0):setUp()\n\
         known = newNMG()\nknown:addMask(\"10.77.0.0/16\")\n\
         addAction(NotRule(NetmaskGroupRule(known)), RCodeAction(DNSRCode.REFUSED))\n",
        file("server.pem"),
        file("server.key"),
        auth.plain()
    );
    std::fs::write(file("dnsdist.conf"), config).expect("writes");
    let started = Command::new("dnsdist")
        .args(["--supervised", "--disable-syslog", "-C", &file("dnsdist.conf")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(dnsdist) = started.map(Held) else {
        return skip::because("no dnsdist (package dnsdist)");
    };
    let asked = |args: &str| {
        let target = format!("{address}:{}", if args.contains("tls") { 8853 } else { 5353 });
        load(&target, &format!("{args} --clients 4 --rate 100 --duration 200ms"))
    };
    let first = |_| asked("--transport tcp --proxy 10.77.0.0/16 --timeout 2s")["valid"] != 0;
    assert!((0..60).any(first), "dnsdist does not answer");
    // In front of TLS it is no beginning of a handshake for dnsdist, unless its 1.9 is told so.
    for transport in ["udp", "tcp", "tls --proxy-within-tls"] {
        let transport = format!("{transport} --timeout 30s");
        let known = asked(&format!("--transport {transport} --proxy 10.77.0.0/16"));
        assert_eq!((&known["sent"], &known["valid"]), (&20.into(), &20.into()), "{known}");
        let strange = asked(&format!("--transport {transport} --proxy 10.78.0.0/16"));
        assert_eq!(strange["rcodes"]["REFUSED"], 20, "{strange}");
    }
    drop(dnsdist);
}

/// A link between two link-local addresses of one namespace, an AuthDNS on one of them, and a load over each transport.
const LINK: &str = r#"
ip link add va type veth peer name vb && ip link set va addrgenmode none up && ip link set vb addrgenmode none up || exit 9
ip link set lo up; ip addr add fe80::1/64 dev va nodad || exit 9
at="[fe80::1%va]"
"$DNSDYNO" auth --listen "$at:53" --tls "$at:853" --https "$at:443" --quic "$at:853" --duration 50s > auth.txt & auth=$!
trap 'kill $auth' EXIT
until grep -q fe80 auth.txt; do kill -0 $auth || exit 6; sleep 0.1; done
for transport in "udp --source fe80::1%va" tcp "tcp --source fe80::1" tls https quic "quic --source fe80::1" http3; do
    "$DNSDYNO" load fe80::1%va --type A --rate 200 --duration 200ms --timeout 30s --json - --transport $transport
done
"#;

#[test]
fn link_local_servers_are_asked_over_every_transport() {
    let dir = tempfile::tempdir().expect("a folder");
    let done = Command::new("unshare")
        .args(["-rn", "bash", "-c", LINK])
        .env("DNSDYNO", cargo_bin("dnsdyno"))
        .current_dir(dir.path())
        .output()
        .expect("starts");
    let [out, told] =
        [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if told.contains("unshare") || done.status.code() == Some(9) {
        return skip::because(format_args!("no namespace of its own: {told}"));
    }
    let trials = serde_json::Deserializer::from_str(&out).into_iter::<Value>();
    let valid: Vec<u64> =
        trials.map(|trial| trial.expect("a trial")["valid"].as_u64().expect("a count")).collect();
    assert_eq!(valid, [40; 8], "{told}");
}
