//! `dnsdyno diff` over every transport, against our AuthDNS and against real servers.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use wire::Qtype;

use crate::kit::AuthDns;
use crate::kit::command::run;
use crate::kit::host::{find, free_port};
use crate::kit::serve::{Server, serve};

/// Number of names of a comparison.
const NAMES: usize = 60;

/// Runs `dnsdyno diff` on the names of the AuthDNS; returns exit code, record, and standard error.
fn diff(servers: &str, args: &str) -> (i32, Value, String) {
    let queries = tempfile::NamedTempFile::new().expect("a file");
    let line = |i: usize| format!("010-000-000-{i:03}.dns64perf.test A\n");
    std::fs::write(queries.path(), (0..NAMES).map(line).collect::<String>()).expect("written");
    let common =
        format!("--json - --timeout 30s --pause 1ms --queries {}", queries.path().display());
    let (code, out, err) = run(&format!("diff {servers} {common} {args}"));
    (code, serde_json::from_str(&out).unwrap_or_default(), err)
}

/// Checks that all servers answered every query, and alike.
fn check_alike(servers: &str, args: &str) -> Value {
    let (code, record, error) = diff(servers, args);
    assert_eq!((code, &record["equal"]), (0, &NAMES.into()), "{servers}: {error}{record:#}");
    let each = record["servers"].as_array().expect("servers");
    assert_eq!(each.len(), servers.split(' ').count());
    for server in each {
        assert_eq!((&server["replies"], &server["over_tcp"]), (&NAMES.into(), &0.into()));
    }
    record
}

#[test]
fn one_server_answers_alike_over_all_transports() {
    let auth = AuthDns::encrypted(&["--namespace", "10.0.0.0/8"]);
    let (authority, plain) = (auth.authority(), auth.plain());
    let with = |transport: &str| format!("{transport}://{}", auth.address(transport));
    let all = ["tcp", "tls", "https", "quic", "http3"].map(with);
    let record = check_alike(&format!("{plain} {}", all.join(" ")), &format!("--ca {authority}"));
    let name = |number: usize| record["servers"][number]["name"].as_str();
    assert_eq!((name(0), name(1)), (Some(plain), Some(&*all[0])));
    assert_eq!(record["window"], 8);
    // By one option for all, with more queries at once, and a path.
    let address = auth.address("https");
    check_alike(&format!("{address} {address}"), "--transport https --http-method get");
    check_alike(&format!("{plain} {plain}"), "--transport tcp --window 32");
    let (code, record, error) = diff(&format!("{plain} https://{address}/nowhere"), "");
    assert!(code == 1 && error.contains("answered none"), "{error}");
    assert!(error.contains("the query failed: http-404"), "{error}");
    assert_eq!(record["servers"][1]["errors"], record["asked"]);
}

#[test]
fn a_certificate_of_another_name_or_authority_ends_the_comparison() {
    let auth = AuthDns::encrypted(&[]);
    let stranger = AuthDns::encrypted(&[]);
    for transport in ["tls", "https", "quic", "http3"] {
        let server = format!("{transport}://{}", auth.address(transport));
        for (authority, name) in [(&auth, "example.com"), (&stranger, "127.0.0.1")] {
            let args = format!("--ca {} --tls-name {name}", authority.authority());
            let (code, _, error) = diff(&format!("{} {server}", auth.plain()), &args);
            let why = format!("{server} answered none of the first 32 queries");
            assert!(code == 1 && error.contains(&why), "{error}");
            assert!(error.contains("the connection failed: bad-certificate"), "{error}");
        }
    }
}

#[test]
fn connections_that_end_cost_no_query() {
    // A connection that goes away is followed by another; one that was used before, and is closed with a query on it, too.
    for (fault, transports) in [
        ("goaway/7", &["https", "http3"][..]),
        ("close/7", &["tcp", "tls", "https", "quic", "http3"]),
    ] {
        for transport in transports {
            let auth = AuthDns::encrypted(&["--stream-fault", fault]);
            let server = format!("{transport}://{}", auth.address(transport));
            check_alike(&format!("{} {server}", auth.plain()), "--window 1");
            let printed = auth.end();
            let faults = printed.contains(" faults over streams");
            assert!(faults && !printed.contains("\n0 faults"), "{transport} {fault}: {printed}");
        }
    }
}

#[test]
fn options_that_fit_no_server_are_refused() {
    for (first, args, why) in [
        ("tcp://127.0.0.1:1", "--ca x", "--ca requires --transport tls"),
        ("tls://127.0.0.1:1", "--http-path /q", "--http-path requires"),
        ("tls://127.0.0.1:1", "--ca /nowhere/ca", "--ca: /nowhere/ca: "),
        ("quic://127.0.0.1:1", "--tls-version 1.2", "QUIC has TLS 1.3 only"),
        ("dot://127.0.0.1:1", "", "`dot` in `dot://127.0.0.1:1` is not a transport"),
        ("tls://127.0.0.1:1/q", "", "a path requires https or http3"),
    ] {
        let (code, _, error) = diff(&format!("{first} 127.0.0.1:1"), args);
        assert!(code == 2 && error.contains(why), "{first} {args}: {error}");
    }
}

/// A real server in front of the AuthDNS, with its addresses of TLS, HTTPS and QUIC that it has.
struct Real {
    server: Server,
    private: Vec<String>,
}

/// Starts a server with this configuration, in which `PORT0` to `PORT3` are its ports: plain, TLS, HTTPS, QUIC; `None` if it is
/// not installed.
fn real(
    auth: &AuthDns,
    program: &str,
    file: &str,
    config: &str,
    args: &[&str],
    transports: &[&str],
) -> Option<Real> {
    let own = cargo_bin("dnsdyno").with_file_name(program);
    let Some(program) = find(program).or_else(|| own.exists().then_some(own)) else {
        return skip::none(format_args!("{program} is not installed"));
    };
    let dir = tempfile::tempdir().expect("a folder");
    let ports: [u16; 4] = std::array::from_fn(|_| free_port());
    let folder = |path: &std::path::Path| path.display().to_string();
    let upstream = auth.plain().rsplit(':').next().expect("a port");
    let mut config = config.replace("UPSTREAM", upstream).replace("DIR", &folder(dir.path()));
    for (number, port) in ports.iter().enumerate() {
        config = config.replace(&format!("PORT{number}"), &port.to_string());
    }
    for name in ["server.pem", "server.key"] {
        config = config.replace(name, &folder(&auth.dir.path().join(name)));
    }
    std::fs::write(dir.path().join(file), config).expect("written");
    let command = [folder(&program)].into_iter().chain(args.iter().map(|arg| (*arg).to_owned()));
    let command: Vec<String> = command.collect();
    let server = serve(dir, &command, ports[0], "010-000-000-001.dns64perf.test", Qtype::A);
    let port = |transport: &str| match transport {
        "tcp" => ports[0],
        "tls" => ports[1],
        "https" | "http3" => ports[2],
        _ => ports[3],
    };
    let over_tcp = transports.iter().filter(|transport| !["quic", "http3"].contains(transport));
    over_tcp.for_each(|transport| wait_for_streams(port(transport)));
    let address = |transport: &&str| format!("{transport}://127.0.0.1:{}", port(transport));
    Some(Real { server, private: transports.iter().map(address).collect() })
}

/// Waits until a server that listens on a port of TCP keeps a connection: some listen before they
/// serve, and reset what came until then.
fn wait_for_streams(port: u16) {
    let keeps = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(100))).expect("sets");
        matches!(stream.read(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock)
    };
    for _ in 0..300 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok_and(keeps) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("port {port} keeps no connection");
}

/// Compares the answers of a real server over its transports.
fn check_real(program: &str, file: &str, config: &str, args: &[&str], transports: &[&str]) {
    let auth = AuthDns::encrypted(&["--namespace", "10.0.0.0/8"]);
    let Some(real) = real(&auth, program, file, config, args, transports) else { return };
    let servers = format!("{} {}", real.server.address, real.private.join(" "));
    check_alike(&servers, &format!("--ca {} --edns", auth.authority()));
    // Another server stands beside it: over UDP and over TLS they do not answer alike, since one is authoritative.
    let (code, record, error) =
        diff(&format!("tls://{} {}", auth.address("tls"), real.private[1]), "--ignore ttl");
    assert_eq!((code, &record["differ"]), (3, &NAMES.into()), "{error}{record:#}");
    assert_eq!(record["kinds"][0]["kind"], "flags", "{record:#}");
}

#[test]
fn dns64d_answers_alike_over_all_transports() {
    let config = "server.listen = [\"127.0.0.1:PORT0\"]\nserver.workers = 1\nserver.user = \"root\"\n\
        upstream.servers = [\"127.0.0.1:UPSTREAM\"]\n[[dns64]]\nprefix = \"2001:db8:64::/96\"\n\
        [limits]\nclient-share = 1.0\nclient-memory-share = 1.0\n\
        [tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\ndot = [\"127.0.0.1:PORT1\"]\n\
        doh = [\"127.0.0.1:PORT2\"]\ndoq = [\"127.0.0.1:PORT3\"]\n";
    let transports = ["tcp", "tls", "https", "quic", "http3"];
    check_real("dns64d", "c.toml", config, &["--config", "c.toml"], &transports);
}

#[test]
fn unbound_answers_alike_over_tls_and_https() {
    let config = "server:\n    username: \"\"\n    chroot: \"\"\n    directory: \"DIR\"\n    pidfile: \"\"\n\
        \x20   use-syslog: no\n    do-daemonize: no\n    do-not-query-localhost: no\n    local-zone: test. nodefault\n    module-config: \"iterator\"\n\
        \x20   interface: 127.0.0.1@PORT0\n    interface: 127.0.0.1@PORT1\n    interface: 127.0.0.1@PORT2\n\
        \x20   tls-port: PORT1\n    https-port: PORT2\n    tls-service-key: \"server.key\"\n\
        \x20   tls-service-pem: \"server.pem\"\nremote-control:\n    control-enable: no\n\
        forward-zone:\n    name: \".\"\n    forward-addr: 127.0.0.1@UPSTREAM\n";
    check_real("unbound", "u.conf", config, &["-d", "-c", "u.conf"], &["tcp", "tls", "https"]);
}

#[test]
fn knot_resolver_answers_alike_over_tls_and_https() {
    let config = "net.tls('server.pem', 'server.key')\nnet.listen('127.0.0.1', PORT0, { kind = 'dns' })\n\
        net.listen('127.0.0.1', PORT1, { kind = 'tls' })\nnet.listen('127.0.0.1', PORT2, { kind = 'doh2' })\n\
        trust_anchors.remove('.')\ncache.size = 10 * MB\n\
        policy.add(policy.all(policy.STUB('127.0.0.1@UPSTREAM')))\n";
    check_real("kresd", "k.conf", config, &["-n", "-c", "k.conf", "."], &["tcp", "tls", "https"]);
}

#[test]
fn dnsdist_answers_alike_over_tls_and_https() {
    let config = "setLocal('127.0.0.1:PORT0')\naddTLSLocal('127.0.0.1:PORT1', 'server.pem', 'server.key')\n\
        addDOHLocal('127.0.0.1:PORT2', 'server.pem', 'server.key', '/dns-query')\n\
        newServer({ address = '127.0.0.1:UPSTREAM', healthCheckMode = 'up' })\n";
    let args = ["--supervised", "--disable-syslog", "-C", "d.conf"];
    let auth = AuthDns::encrypted(&["--namespace", "10.0.0.0/8"]);
    let transports = ["tcp", "tls", "https"];
    let Some(real) = real(&auth, "dnsdist", "d.conf", config, &args, &transports) else { return };
    // It passes on what the AuthDNS says.
    let servers = format!("{} {} {}", auth.plain(), real.server.address, real.private.join(" "));
    check_alike(&servers, &format!("--ca {} --edns", auth.authority()));
}
