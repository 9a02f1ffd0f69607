//! DNS over HTTPS as foreign clients use it: curl, and nginx as a proxy in front.

use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::faults::{dns64d, ipv4_only, wait_for};
use crate::kit::held::Held;
use crate::kit::message::Reply;
use crate::kit::script::Script;
use crate::kit::server::{free_port, printed};
use crate::private::{DOH, DOQ, Private, QUERY};

/// Versions of HTTP over TCP.
const VERSIONS: [&str; 2] = ["--http1.1", "--http2"];

/// Runs curl; returns its status line, headers and body. `None` if it is not installed.
fn curl(arguments: &[&str]) -> Option<String> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--insecure", "--include", "--max-time", "30"]);
    printed(curl.args(arguments), "curl")
}

/// Returns the status of curl's response.
fn status(said: &str) -> &str {
    said.split_ascii_whitespace().nth(1).unwrap_or_default()
}

#[test]
fn refused_requests_get_their_status() {
    let (script, private) = (ipv4_only(), Private::new());
    let server = dns64d(&[&script], &private.config());
    let url = format!("https://{}:{DOH}/dns-query", private.address);
    let dns = "content-type: application/dns-message";
    let dir = tempfile::tempdir().expect("a folder");
    let file = |len: usize| {
        let path = dir.path().join(len.to_string());
        fs::write(&path, vec![b'x'; len]).expect("writes");
        format!("@{}", path.display())
    };
    let (short, long, huge) = (file(200), file(500_000), file(5_000));
    // www.example.com A, with two letters as clients may write them (RFC 3986 section 2.3).
    let get = format!("{url}?dns=%41AABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQA%42");
    for version in VERSIONS {
        for (arguments, expected) in [
            (&["--data-binary", &short, "-H", "content-type: text/plain"][..], "415"),
            (&["--data-binary", &long, "-H", "content-type: text/plain"], "415"),
            (&["--data-binary", &long, "-H", "content-type: text/plain", "-H", "expect:"], "415"),
            (&["--data-binary", &huge, "-H", dns], "413"),
            (&["--data-binary", &long, "-H", dns], "413"),
            (&["--request", "PUT", "--data-binary", &long, "-H", dns], "405"),
            (&[], "400"),
        ] {
            let Some(said) = curl(&[&[version, &url][..], arguments].concat()) else { return };
            assert_eq!(status(&said), expected, "{version} {arguments:?}: {said}");
            assert!(!said.contains("curl:"), "{version} {arguments:?}: {said}");
        }
        let said = curl(&[version, "--request", "DELETE", &url]).expect("curl");
        assert!(said.to_lowercase().contains("allow: get, post"), "{said}");
        let other = curl(&[version, &url.replace("dns-query", "other")]).expect("curl");
        assert_eq!(status(&other), "404", "{other}");
        let answer = curl(&[version, &get]).expect("curl");
        assert_eq!(status(&answer), "200", "{answer}");
    }
    let nameless = curl(&["--http1.1", "-H", "Host:", &get]).expect("curl");
    assert_eq!(status(&nameless), "400", "{nameless}");
    assert!(server.log().is_empty() || !server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn caches_of_http_keep_answers_for_their_ttl_and_failures_not_at_all() {
    let script = Script::start(&[
        ("host.example.com A", "host.example.com 70 A 192.0.2.33"),
        ("www.example.com A", "SERVFAIL"),
    ]);
    let private = Private::new();
    let _server = dns64d(&[&script], &private.config());
    let url = format!("https://{}:{DOH}/dns-query?dns=AAABAAABAAAAAAAA", private.address);
    for (question, age) in
        [("BGhvc3QHZXhhbXBsZQNjb20AAAEAAQ", "70"), ("A3d3dwdleGFtcGxlA2NvbQAAAQAB", "0")]
    {
        let Some(said) = curl(&["--http2", &format!("{url}{question}")]) else { return };
        assert!(said.contains(&format!("cache-control: max-age={age}\r")), "{said}");
    }
}

#[test]
fn both_versions_of_http_answer_and_name_http3() {
    let (script, private) = (ipv4_only(), Private::new());
    let server = dns64d(&[&script], &private.config());
    let url = format!("https://{}:{DOH}/dns-query", private.address);
    let dir = tempfile::tempdir().expect("a folder");
    let (query, answer) = (dir.path().join("query"), dir.path().join("answer"));
    fs::write(&query, QUERY).expect("writes");
    let body = format!("@{}", query.display());
    for version in VERSIONS {
        // Media types are compared without regard to case and parameters (RFC 9110 section 8.3.1).
        for media in ["application/dns-message", "Application/DNS-Message; charset=utf-8"] {
            let media = format!("content-type: {media}");
            let headers = dir.path().join("headers");
            let Some(said) = curl(&[
                version,
                "--no-include",
                "--dump-header",
                headers.to_str().expect("UTF-8"),
                "--output",
                answer.to_str().expect("UTF-8"),
                "--data-binary",
                &body,
                "-H",
                &media,
                &url,
            ]) else {
                return;
            };
            let headers = fs::read_to_string(headers).expect("headers").to_lowercase();
            assert_eq!(status(&headers), "200", "{version}: {headers} {said}");
            let there = format!("alt-svc: h3=\":{DOH}\"");
            assert!(headers.contains(&there), "{version}: {headers}");
            assert!(headers.contains("content-type: application/dns-message"), "{headers}");
            let reply = Reply::parse(&fs::read(&answer).expect("an answer"));
            assert!(crate::faults::is_right(&reply), "{version}: {reply}");
        }
    }
    let queries = server.metric("dns64d_stream_queries_total{transport=\"https\"}");
    assert_eq!(queries, 4);
}

#[test]
fn nginx_stands_in_front() {
    let (script, private) = (ipv4_only(), Private::new());
    let _server = dns64d(&[&script], &private.config());
    let dir = tempfile::tempdir().expect("a folder");
    let (path, port) = (dir.path().display(), free_port());
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {path}/{name};"))
        .concat();
    let config = format!(
        "daemon off; master_process off; pid {path}/pid; error_log {path}/error;
         events {{}}
         http {{ access_log off; {paths}
         upstream dns {{ server {at}:{DOH}; keepalive 4; }}
         server {{ listen 127.0.0.1:{port};
         location / {{ proxy_pass https://dns; proxy_http_version 1.1;
         proxy_set_header Connection \"\"; }} }} }}",
        at = private.address
    );
    let file = dir.path().join("nginx.conf");
    fs::write(&file, config).expect("writes");
    let nginx = Command::new("nginx")
        .arg("-c")
        .arg(&file)
        .args(["-e", &format!("{path}/error")])
        .stderr(Stdio::null())
        .spawn();
    let Some(_nginx) = skip::unless_ok(nginx, "no nginx").map(Held) else { return };
    wait_for("nginx", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let (query, answer) = (dir.path().join("query"), dir.path().join("answer"));
    fs::write(&query, QUERY).expect("writes");
    for _ in 0..3 {
        let said = curl(&[
            "--no-include",
            "--output",
            answer.to_str().expect("UTF-8"),
            "--write-out",
            "HTTP %{http_code}",
            "--data-binary",
            &format!("@{}", query.display()),
            "-H",
            "content-type: application/dns-message",
            &format!("http://127.0.0.1:{port}/dns-query"),
        ]);
        let Some(said) = said else { return };
        assert_eq!(
            status(&said),
            "200",
            "{said}: {:?}",
            fs::read_to_string(dir.path().join("error"))
        );
        let reply = Reply::parse(&fs::read(&answer).expect("an answer"));
        assert!(crate::faults::is_right(&reply), "{reply}");
    }
}

#[test]
fn clients_of_another_version_of_quic_are_told_the_version() {
    let (script, private) = (ipv4_only(), Private::new());
    let _server = dns64d(&[&script], &private.config());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    // A first packet of version 2 (RFC 9369), as far as every version understands it (RFC 8999).
    let mut packet = vec![0xd3, 0x6b, 0x33, 0x43, 0xcf, 8];
    packet.extend_from_slice(b"theirs01\x08oursours");
    packet.resize(1_200, 0);
    for port in [DOQ, DOH] {
        socket.send_to(&packet, (private.address, port)).expect("loopback");
        let mut room = [0; 1_500];
        let len = socket.recv(&mut room).expect("a Version Negotiation packet");
        let versions = room[..len].strip_prefix(&room[..1]).expect("a first octet");
        let rest = b"\0\0\0\0\x08oursours\x08theirs01";
        let versions = versions.strip_prefix(rest).expect("both connection ids");
        let known = versions.chunks(4).any(|version| version == [0, 0, 0, 1]);
        assert!(known && versions.len() % 4 == 0, "{versions:?}");
    }
}
