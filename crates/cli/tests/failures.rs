//! One query's failure is one query's: servers that fail a known part of the queries, over every transport, with what
//! they count themselves beside what `load` says. nginx, HAProxy, CoreDNS, aioquic and h2load are referees where they are
//! installed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::AuthDns;
use crate::kit::command;
use crate::kit::host::{find, free_port, installed};
use crate::kit::peer::read_frame;

/// Ends an AuthDNS; returns how many queries it failed.
fn faults(auth: AuthDns) -> u64 {
    let rest = auth.end();
    let line = rest.lines().find(|line| line.contains("faults over streams")).expect("a count");
    line.split(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

/// A load of A queries that are never late.
fn load(target: &str, args: &str) -> Value {
    let timeout = if args.contains("--timeout") { "" } else { "--timeout 30s" };
    let qtype = if args.contains("--queries") { "" } else { "--type A" };
    command::load(target, &format!("{qtype} {timeout} {args}"))
}

/// The warning of queries that failed.
fn warning(trial: &Value) -> Option<&Value> {
    trial["warnings"].as_array()?.iter().find(|warning| warning["kind"] == "queries-failed")
}

#[test]
fn a_query_in_ten_fails_for_itself() {
    let table = [
        ("status=503/10", "https", "http-503"),
        ("status=503/10", "http3", "http-503"),
        ("reset/10", "https", "stream-reset-INTERNAL_ERROR"),
        ("reset/10", "http3", "stream-reset-H3_INTERNAL_ERROR"),
        ("reset/10", "quic", "stream-reset-DOQ_INTERNAL_ERROR"),
    ];
    for (fault, transport, reason) in table {
        let auth = AuthDns::encrypted(&["--stream-fault", fault]);
        let args = format!("--transport {transport} --rate 1k --duration 500ms --clients 3");
        let trial = load(auth.address(transport), &args);
        assert_eq!((&trial["sent"], &trial["valid"]), (&500.into(), &450.into()), "{trial}");
        let c = &trial["connections"];
        assert_eq!((&c["queries_failed"], &c["failed"]), (&json!({ reason: 50 }), &json!({})));
        assert_eq!(c["attempts"], 3, "{fault} {transport}: {c}");
        let warning = warning(&trial).expect("a warning");
        assert_eq!((&warning["reason"], &warning["queries"]), (&reason.into(), &50.into()));
        assert_eq!(faults(auth), 50, "{fault} {transport}");
    }
}

#[test]
fn a_connection_that_is_closed_costs_the_query_that_was_due() {
    for transport in ["tcp", "tls", "https", "quic", "http3"] {
        // Another connection follows at once: with a pause before each there would be fewer. A machine that stood still for most
        // of a second is asked again.
        let many = (0..4).any(|_| closed_connections(transport) > Some(30));
        assert!(many, "{transport}: a connection is slow to follow");
    }
}

/// Loads a server that closes each connection at its tenth query for a second; returns how many queries were sent.
fn closed_connections(transport: &str) -> Option<u64> {
    let auth = AuthDns::encrypted(&["--stream-fault", "close/10"]);
    let args =
        format!("--transport {transport} --pacing window --window 1 --clients 1 --duration 1s");
    let trial = load(auth.address(transport), &args);
    let c = &trial["connections"];
    let (sent, lost) = (trial["sent"].as_u64(), trial["lost"].as_u64());
    if sent >= Some(10) {
        assert_eq!(c["queries_failed"], json!({ "closed-early": lost }), "{transport}: {trial}");
        assert_eq!((&c["failed"], lost), (&c["queries_failed"], sent.map(|n| n / 10)), "{c}");
    }
    assert_eq!(Some(faults(auth)), lost, "{transport}");
    sent
}

#[test]
fn a_connection_that_goes_away_costs_no_query() {
    let queries = queries(1_000);
    // The AuthDNS takes 100 streams of a connection at a time: of 300 queries 200 wait.
    for (transport, window, clients) in [
        ("https", 40, 2),
        ("https", 300, 1),
        ("http3", 40, 2),
        ("http3", 300, 1),
        ("http3", 300, 3),
    ] {
        let auth = AuthDns::encrypted(&["--stream-fault", "goaway/100"]);
        let args = windowed(transport, window, clients, &queries);
        let trial = load(auth.address(transport), &args);
        assert_eq!((&trial["sent"], &trial["valid"]), (&1_000.into(), &1_000.into()), "{trial}");
        let c = &trial["connections"];
        // Where fewer wait, a slow client may have had all answers when the server goes away.
        let waits = window > 100 * clients;
        assert!(!waits || c["turned_away"].as_u64() > Some(0), "{transport}: {c}");
        assert!(c["closed_by_server"].as_u64() > Some(0), "{transport}: {c}");
        assert_eq!((&c["failed"], warning(&trial)), (&json!({}), None), "{transport}: {c}");
    }
}

#[test]
fn a_refused_stream_is_counted_and_opened_again() {
    for transport in ["https", "http3"] {
        let auth = AuthDns::encrypted(&["--stream-fault", "refuse/10"]);
        let args = format!("--transport {transport} --rate 1k --duration 500ms --clients 3");
        let trial = load(auth.address(transport), &args);
        assert_eq!((&trial["sent"], &trial["valid"]), (&500.into(), &500.into()), "{trial}");
        let refused = trial["connections"]["streams_refused"].as_u64();
        assert_eq!(refused, Some(faults(auth)), "{transport}: {trial}");
        let told = trial["warnings"].as_array().expect("warnings");
        assert!(
            told.iter().any(|w| w["kind"] == "streams-refused" && w["times"].as_u64() == refused)
        );
    }
}

#[test]
fn a_server_that_never_gets_its_acknowledgement_is_suspected() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let auth = AuthDns::encrypted(&[]);
    let upstream = auth.address("tcp").to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            // Its length and its message are two small writes, and TCP_NODELAY is off.
            while let Some(reply) = read_frame(&mut stream).map(|query| ask(&upstream, &query)) {
                let length = (reply.len() as u16).to_be_bytes();
                if stream.write_all(&length).and_then(|()| stream.write_all(&reply)).is_err() {
                    break;
                }
            }
        }
    });
    // On a busy machine the latencies of a trial may be the machine's; the longer the time between queries, the more of
    // that a tenth of it takes, and the kernel waits 40 ms at most.
    let told = (0..5).any(|_| {
        let trial = load(&address, "--transport tcp --rate 30 --duration 3s --clients 1");
        assert_eq!(trial["sent"], trial["valid"], "{trial}");
        let told = trial["warnings"].as_array().expect("warnings");
        let told = told.iter().find(|warning| warning["kind"] == "median-is-gap");
        println!("{told:?}: {trial}");
        told.and_then(|told| told["gap_us"].as_f64()).is_some_and(|us| (us - 33_333.0).abs() < 1.0)
    });
    assert!(told, "no trial has the warning");
}

#[test]
fn keys_are_logged_where_the_environment_asks_for_it() {
    let auth = AuthDns::encrypted(&[]);
    for transport in ["tls", "quic"] {
        let keys = auth.dir.path().join(format!("{transport}.keys"));
        let how = format!("--transport {transport} --type A --rate 20 --duration 200ms");
        let mut command = command::dnsdyno(&format!("load {} {how}", auth.address(transport)));
        command.env("SSLKEYLOGFILE", &keys).stdout(Stdio::null()).status().expect("starts");
        let keys = std::fs::read_to_string(keys).expect("a file");
        assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0 "), "{transport}: {keys}");
    }
}

/// Asks a server by UDP.
fn ask(server: &str, query: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    socket.connect(server).expect("an address");
    socket.send(query).expect("sends");
    let mut reply = vec![0; 65_535];
    let len = socket.recv(&mut reply).expect("a reply");
    reply.truncate(len);
    reply
}

/// Answers requests of HTTP/1.1, as they come from a proxy of HTTP/2, by asking `upstream`.
fn http_backend(upstream: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let upstream = upstream.clone();
            std::thread::spawn(move || serve_http(stream.ok()?, &upstream));
        }
    });
    address
}

/// One connection of the backend; `None` at its end.
fn serve_http(stream: TcpStream, upstream: &str) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut reader, mut stream) = (BufReader::new(stream.try_clone().ok()?), stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut query = vec![0; length];
        reader.read_exact(&mut query).ok()?;
        let reply = ask(upstream, &query);
        // The media type has a parameter and another case, which change nothing.
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: Application/DNS-Message; x=y\r\nContent-Length: {}\r\n\r\n",
            reply.len()
        );
        stream.write_all(&[head.as_bytes(), &reply].concat()).ok()?;
    }
}

/// A server of the system that listens on a port of its own.
struct Referee {
    child: Child,
    address: String,
}

impl Referee {
    /// Starts a program and waits until it listens.
    fn start(command: &mut Command, address: String) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("starts");
        let referee = Referee { child, address };
        let limit = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(&referee.address).is_err() {
            assert!(Instant::now() < limit, "{command:?} does not listen at {}", referee.address);
            std::thread::sleep(Duration::from_millis(20));
        }
        referee
    }
}

impl Drop for Referee {
    fn drop(&mut self) {
        // nginx ends its worker on SIGTERM only.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// nginx's log, a line for each request: the number of its connection, and its status.
fn status_log(auth: &AuthDns) -> PathBuf {
    auth.dir.path().join("status.log")
}

/// Starts nginx in front of the AuthDNS, with more directives in its server.
fn nginx(auth: &AuthDns, directives: &str) -> Referee {
    let (dir, port) = (auth.dir.path(), free_port());
    let backend = http_backend(auth.address("tcp").to_owned());
    let config = format!(
        "daemon off; pid {dir}/nginx.pid; error_log {dir}/error.log; worker_processes 1; user root;\n\
         events {{ worker_connections 512; }}\n\
         http {{ log_format status '$connection $status'; access_log {dir}/status.log status;\n\
         client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/f;\n\
         uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;\n\
         server {{ listen 127.0.0.1:{port} ssl http2;\n\
         ssl_certificate {dir}/server.pem; ssl_certificate_key {dir}/server.key;\n{directives}\n\
         location / {{ proxy_pass http://{backend}; proxy_http_version 1.1; }} }} }}\n",
        dir = dir.display()
    );
    let file = dir.join("nginx.conf");
    std::fs::write(&file, config).expect("writes");
    let mut command = Command::new(find("nginx").expect("nginx"));
    command.arg("-c").arg(file).arg("-p").arg(dir);
    Referee::start(&mut command, format!("127.0.0.1:{port}"))
}

/// Counts the lines of a log that end with `end`. A server writes them after its answers: waits up to 20 s for `wanted`, and then
/// for what may be too much.
fn logged(log: &Path, end: &str, wanted: u64) -> u64 {
    let limit = Instant::now() + Duration::from_secs(20);
    let mut seen = 0;
    loop {
        let text = std::fs::read_to_string(log).expect("a log");
        let count = text.lines().filter(|line| line.ends_with(end)).count() as u64;
        if seen >= wanted || Instant::now() > limit {
            return count;
        }
        seen = count;
        std::thread::sleep(Duration::from_millis(if count < wanted { 20 } else { 100 }));
    }
}

#[test]
fn nginx_fails_a_query_in_ten() {
    if installed("nginx").is_none() {
        return;
    }
    // By a status, and by the reset of a stream.
    let fail = |status: &str, reason: &str| {
        let auth = AuthDns::encrypted(&[]);
        let directive = format!("if ($connection_requests ~ 0$) {{ return {status}; }}");
        let nginx = nginx(&auth, &directive);
        let trial = load(&nginx.address, "--transport https --rate 500 --duration 1s --clients 1");
        assert_eq!((&trial["sent"], &trial["valid"]), (&500.into(), &450.into()), "{trial}");
        let c = &trial["connections"];
        let failed = c["queries_failed"].as_object().expect("reasons");
        let (why, count) = failed.iter().next().expect("a reason");
        assert!(failed.len() == 1 && why.starts_with(reason) && count == 50, "{c}");
        assert_eq!((logged(&status_log(&auth), status, 50), &c["attempts"]), (50, &1.into()));
        assert_eq!(logged(&status_log(&auth), "200", 450), 450);
        (auth, nginx)
    };
    fail("444", "stream-reset-");
    let (auth, nginx) = fail("503", "http-503");
    if installed("h2load").is_none() {
        return;
    }
    let query = auth.dir.path().join("query");
    std::fs::write(
        &query,
        b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x0f010-001-002-003\x0adns64perf\x04test\0\0\x01\0\x01",
    )
    .expect("writes");
    let output = Command::new("/usr/bin/h2load")
        .args("-n 500 -c 1 -m 10 -d".split(' '))
        .arg(query)
        .args(["-H", "content-type: application/dns-message"])
        .arg(format!("https://{}/dns-query", nginx.address))
        .output()
        .expect("starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("status codes: 450 2xx, 0 3xx, 0 4xx, 50 5xx"), "{text}");
}

#[test]
fn nginx_ends_connections_after_a_hundred_requests_and_no_query_is_lost() {
    if installed("nginx").is_none() {
        return;
    }
    let auth = AuthDns::encrypted(&[]);
    let nginx = nginx(&auth, "keepalive_requests 100;");
    // A connection takes 100 queries, which are no whole number of windows of 30.
    let trial = load(&nginx.address, &windowed("https", 90, 3, &queries(1_000)));
    assert_eq!((&trial["sent"], &trial["valid"]), (&1_000.into(), &1_000.into()), "{trial}");
    let c = &trial["connections"];
    assert_eq!(c["failed"], json!({}), "{trial}");
    assert!(c["closed_by_server"].as_u64() > Some(0) && c["turned_away"].as_u64() > Some(0), "{c}");
    assert_eq!(logged(&status_log(&auth), "200", 1_000), 1_000);
}

#[test]
fn haproxy_denies_a_query_in_ten() {
    if installed("haproxy").is_none() {
        return;
    }
    let auth = AuthDns::encrypted(&[]);
    let (dir, port) = (auth.dir.path(), free_port());
    let backend = http_backend(auth.address("tcp").to_owned());
    let both = ["server.pem", "server.key"].map(|name| std::fs::read(dir.join(name)).expect("PEM"));
    std::fs::write(dir.join("both.pem"), both.concat()).expect("writes");
    // Of two threads, each would count a request before either looks at the count: both would miss the tenth.
    let config = format!(
        "global\n nbthread 1\n\
         defaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n\
         frontend doh\n bind 127.0.0.1:{port} ssl crt {dir}/both.pem alpn h2\n\
         stick-table type ip size 10 expire 60s store http_req_cnt\n\
         http-request track-sc0 src\n\
         http-request deny deny_status 503 if {{ sc_http_req_cnt(0),mod(10) eq 0 }}\n\
         default_backend dns\n\
         backend dns\n server one {backend}\n",
        dir = dir.display()
    );
    let file = dir.join("haproxy.cfg");
    std::fs::write(&file, config).expect("writes");
    let mut command = Command::new(find("haproxy").expect("haproxy"));
    command.arg("-db").arg("-f").arg(&file);
    let haproxy = Referee::start(&mut command, format!("127.0.0.1:{port}"));
    let trial = load(&haproxy.address, "--transport https --rate 500 --duration 1s --clients 4");
    assert_eq!((&trial["sent"], &trial["valid"]), (&500.into(), &450.into()), "{trial}");
    let c = &trial["connections"];
    assert_eq!(
        (&c["queries_failed"], &c["attempts"]),
        (&json!({ "http-503": 50 }), &4.into()),
        "{c}"
    );
}

/// Python with aioquic: of `DNSDYNO_AIOQUIC`, or as `make test` installs it. Says so where there is none.
fn aioquic() -> Option<PathBuf> {
    let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/aioquic/bin/python");
    let python = std::env::var_os("DNSDYNO_AIOQUIC").unwrap_or_else(|| installed.into());
    let found = Command::new(&python).args(["-c", "import aioquic"]).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        return skip::none(
            "no aioquic: scripts/install-aioquic installs it, or name a Python that has it in DNSDYNO_AIOQUIC",
        );
    }
    Some(python.into())
}

/// What `load` says of the aioquic server that fails one query in ten by `fault`; how many that server answered and
/// failed by its own count, and how many came on each connection.
fn of_aioquic(python: &Path, fault: &str, args: &str) -> (Value, [u64; 2], Vec<u64>) {
    let auth = AuthDns::encrypted(&[]);
    let mut server = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/aioquic_server.py"))
        .args(["server.pem", "server.key"].map(|name| auth.dir.path().join(name)))
        .args([auth.address("tcp"), fault])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut output = BufReader::new(server.stdout.take().expect("piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a port");
    let trial = load(&format!("127.0.0.1:{}", line.trim()), args);
    drop(server.stdin.take());
    line.clear();
    output.read_line(&mut line).expect("its counts");
    server.wait().expect("ends");
    let counts: Vec<u64> = line.split_ascii_whitespace().filter_map(|n| n.parse().ok()).collect();
    let (two, each) = counts.split_first_chunk().expect("two counts");
    (trial, *two, each.to_vec())
}

#[test]
fn aioquic_fails_a_query_in_ten() {
    let Some(python) = aioquic() else { return };
    for (fault, transport, reason) in [
        ("reset", "quic", "stream-reset-DOQ_INTERNAL_ERROR"),
        ("reset", "http3", "stream-reset-H3_INTERNAL_ERROR"),
        ("status", "http3", "http-503"),
    ] {
        let args = format!("--transport {transport} --rate 500 --duration 1s --clients 3");
        let (trial, counts, _) = of_aioquic(&python, fault, &args);
        assert_eq!((&trial["sent"], &trial["valid"]), (&500.into(), &450.into()), "{trial}");
        let c = &trial["connections"];
        assert_eq!(c["queries_failed"], json!({ reason: 50 }), "{fault} {transport}: {trial}");
        assert_eq!((&c["attempts"], counts), (&3.into(), [450, 50]), "{fault} {transport}: {c}");
    }
    let queries = queries(50);
    for transport in ["quic", "http3"] {
        let one_by_one = windowed(transport, 1, 1, &queries);
        let (trial, counts, _) = of_aioquic(&python, "close", &one_by_one);
        assert_eq!((&trial["valid"], &trial["lost"]), (&45.into(), &5.into()), "{trial}");
        assert_eq!(counts, [45, 5], "{transport}: {trial}");
    }
}

/// A file of so many queries.
fn queries(count: usize) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    for n in 0..count {
        writeln!(file, "010-000-{:03}-{:03}.dns64perf.test A", n / 256, n % 256).expect("writes");
    }
    file
}

/// A closed loop over the queries of a file, each once.
fn windowed(
    transport: &str,
    window: usize,
    clients: usize,
    queries: &tempfile::NamedTempFile,
) -> String {
    let queries = queries.path().display();
    format!(
        "--transport {transport} --pacing window --window {window} --clients {clients} \
         --queries {queries} --runs 1"
    )
}

/// What a closed connection left unanswered is sent again: each query has its answer, and the servers count no other ones.
#[test]
fn queries_of_closed_connections_are_sent_again() {
    let resend = "--resend 1000000 --timeout 60s";
    if installed("nginx").is_some() {
        let auth = AuthDns::encrypted(&[]);
        let nginx = nginx(&auth, "keepalive_requests 2;");
        let args = format!("--transport https --clients 2 --rate 400 --duration 500ms {resend}");
        let trial = load(&nginx.address, &args);
        assert_eq!((&trial["sent"], &trial["valid"]), (&200.into(), &200.into()), "{trial}");
        let answered = logged(&status_log(&auth), "200", 200);
        assert!((200..=200 + count(&trial, "resent")).contains(&answered), "{answered}: {trial}");
        assert!(count(&trial, "closed_by_server") > 90, "{trial}");
    }
    let Some(python) = aioquic() else { return };
    let queries = queries(50);
    for transport in ["quic", "http3"] {
        let args = format!("{} {resend}", windowed(transport, 1, 1, &queries));
        for fault in ["close", "refuse"] {
            let (trial, counts, each) = of_aioquic(&python, fault, &args);
            assert_eq!((&trial["valid"], &trial["lost"]), (&50.into(), &0.into()), "{trial}");
            // The server has not seen the query of a connection that it refused.
            let refused = each.iter().filter(|queries| **queries == 0).count() as u64;
            assert_eq!((counts, refused > 0), ([50, 5], fault == "refuse"), "{transport}: {trial}");
            // A query whose connection was refused had not left.
            assert_eq!(count(&trial, "resent"), 5, "{transport}: {each:?} {trial}");
        }
    }
}

/// Returns a count of the connections of a trial; 0 if it is left out.
fn count(trial: &Value, what: &str) -> u64 {
    trial["connections"][what].as_u64().unwrap_or(0)
}

/// Over datagrams, TCP and TLS the test is in `each_client`.
#[test]
fn each_client_asks_as_often_over_https_quic_and_http3() {
    let python = aioquic();
    let nginx_is_there = installed("nginx").is_some();
    for pacing in ["--rate 500", "--rate 500 --pacing poisson", "--pacing 'ramp 100..900'"] {
        let args =
            |transport| format!("--transport {transport} --clients 10 --duration 1s {pacing}");
        let even = |mut counts: Vec<u64>, sent: &Value| {
            counts.sort_unstable();
            assert_eq!((counts.len(), counts.iter().sum::<u64>().into()), (10, sent.clone()));
            assert!(counts[9] - counts[0] <= 1, "{pacing}: {counts:?}");
        };
        for (python, transport) in python.iter().flat_map(|p| [(p, "quic"), (p, "http3")]) {
            let (trial, _, counts) = of_aioquic(python, "none", &args(transport));
            even(counts, &trial["sent"]);
        }
        if nginx_is_there {
            let auth = AuthDns::encrypted(&[]);
            let nginx = nginx(&auth, "");
            let trial = load(&nginx.address, &args("https"));
            logged(&status_log(&auth), "", trial["sent"].as_u64().expect("a count"));
            let text = std::fs::read_to_string(status_log(&auth)).expect("a log");
            let mut counts = BTreeMap::<&str, u64>::new();
            for (connection, _) in text.lines().filter_map(|line| line.split_once(' ')) {
                *counts.entry(connection).or_default() += 1;
            }
            even(counts.into_values().collect(), &trial["sent"]);
        }
    }
}

/// CoreDNS in front of the AuthDNS over TLS, QUIC and HTTPS, which refuses the names that end in 7: port by transport.
const COREFILE: &str = "tls://.:PORT0 quic://.:PORT1 https://.:PORT2 {
    bind 127.0.0.1
    tls server.pem server.key
    log . \"{rcode}\"
    template ANY ANY {
        match ^[0-9-]*7[.]
        rcode REFUSED
        fallthrough
    }
    forward . AUTH {
        force_tcp
    }
}
";

#[test]
fn coredns_counts_what_load_counts() {
    let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/coredns/coredns");
    if !Path::new(installed).exists() {
        return skip::because("no CoreDNS: scripts/install-coredns builds it");
    }
    let auth = AuthDns::encrypted(&["--aaaa", "always"]);
    let dir = auth.dir.path();
    let ports = [(); 3].map(|()| free_port());
    let text = COREFILE.replace("AUTH", auth.address("tcp"));
    let text = (0..3).fold(text, |t, i| t.replace(&format!("PORT{i}"), &ports[i].to_string()));
    std::fs::write(dir.join("Corefile"), text).expect("writes");
    let mut coredns = Command::new("sh");
    coredns.current_dir(dir).args(["-c", "exec \"$0\" >coredns.log", installed]);
    let _coredns = Referee::start(&mut coredns, format!("127.0.0.1:{}", ports[0]));
    let mut before = 0;
    for (transport, port) in ["tls", "quic", "https"].into_iter().zip(ports) {
        let args = format!("--transport {transport} --rate 500 --duration 1s --clients 3");
        let trial = load(&format!("127.0.0.1:{port}"), &args);
        let refused = trial["rcodes"]["REFUSED"].as_u64().expect("a number");
        before += refused;
        assert!((25..=100).contains(&refused), "{transport}: {trial}");
        let all = logged(&dir.join("coredns.log"), "REFUSED", before);
        assert_eq!(all, before, "{transport}: {trial}");
        assert_eq!(trial["valid"], json!(500 - refused), "{transport}: {trial}");
    }
}
