//! `dnsdyno diff` against real servers, and against scripted ones.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use measure::Nanos;
use serde_json::Value;
use trace::{Transport, Writer};
use wire::Qtype;
use wire::message::question_end;

use crate::kit::AuthDns;
use crate::kit::capture::{write, write_udp};
use crate::kit::command::{check_schema, refused, run};
use crate::kit::host::{find, free_port, installed};
use crate::kit::peer::{self, reply};
use crate::kit::serve::{Server, query, serve};

/// Runs a comparison that prints its record; returns exit code and record, which is valid by its schema.
fn compared(line: &str) -> (i32, Value) {
    let (code, out, err) = run(line);
    let record = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{line}: {e}: {err}"));
    check_schema("answer-diff", &record);
    (code, record)
}

/// Runs `dnsdyno diff --json -`.
fn diff(args: &str) -> (i32, Value) {
    compared(&format!("diff {args} --json -"))
}

/// Starts a server as its adapter configures it; `more` is added to its configuration file.
fn adapter(name: &str, set: &[String], file: &str, more: &str, probe: Qtype) -> Server {
    let dir = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let folder = dir.path().display().to_string();
    let set: String = set.iter().map(|set| format!(" --set {set}")).collect();
    let (code, out, err) = run(&format!(
        "servers configure {name} --dir {folder} --set listen.v4=127.0.0.1 --set listen.v6=::1 \
         --set listen.port={port} --set threads=1{set}"
    ));
    assert_eq!(code, 0, "{err}");
    let path = dir.path().join(file);
    let text = std::fs::read_to_string(&path).expect("a configuration");
    std::fs::write(path, text + more).expect("written");
    let command: Vec<String> = out.split_whitespace().map(str::to_owned).collect();
    serve(dir, &command, port, "www.dns64perf.test", probe)
}

/// Starts NSD with these lines of the zone `dns64perf.test`; `None` where it is not installed, or there is no IPv6.
fn nsd(lines: &str) -> Option<Server> {
    installed("nsd")?;
    if UdpSocket::bind("[::1]:0").is_err() {
        return skip::none("there is no ::1, at which servers of adapters listen too");
    }
    let zone = tempfile::NamedTempFile::new().expect("a file");
    let head = "$ORIGIN dns64perf.test.\n$TTL 3600\n@ SOA ns1 hostmaster 1 3600 900 604800 300\n@ NS ns1\n\
                ns1 A 192.0.2.53\nwww A 192.0.2.80\n";
    std::fs::write(zone.path(), format!("{head}{lines}")).expect("written");
    let set = [
        "zone=dns64perf.test".to_owned(),
        format!("zone_file={}", zone.path().display()),
        "buffer=2097152".to_owned(),
    ];
    // It has read the zone when it answers.
    Some(adapter("nsd", &set, "nsd.conf", "", Qtype::A))
}

/// Changes a reply to a name; an empty one is not sent.
type Change = fn(&mut Vec<u8>);

/// A server over UDP in front of another that changes its replies to some names.
fn altering(server: &str, changes: BTreeMap<String, Change>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
    let address = socket.local_addr().expect("bound");
    let behind = UdpSocket::bind("127.0.0.1:0").expect("binds");
    behind.connect(server).expect("connects");
    behind.set_read_timeout(Some(Duration::from_secs(5))).expect("sets");
    std::thread::spawn(move || {
        let mut buffer = vec![0; 65_535];
        loop {
            let Ok((len, client)) = socket.recv_from(&mut buffer) else { return };
            behind.send(&buffer[..len]).expect("sent");
            let Ok(len) = behind.recv(&mut buffer) else { continue };
            let mut reply = buffer[..len].to_vec();
            let name = wire::message::name_at(&reply, 12).expect("a question").to_string();
            if let Some(change) = changes.get(&name) {
                change(&mut reply);
            }
            if !reply.is_empty() {
                let _ = socket.send_to(&reply, client);
            }
        }
    });
    address
}

/// Writes a file into a folder and returns its path.
fn file(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

/// Names that both zones have alike.
const ALIKE: usize = 490;

#[test]
fn ten_planted_differences_are_found_and_no_other() {
    let alike: String = (0..ALIKE).map(|i| format!("n{i} A 192.0.2.{}\n", i % 250)).collect();
    let odd = "drop A 192.0.2.1\ncut A 192.0.2.1\nquestion A 192.0.2.1\nflag A 192.0.2.1\nopt A 192.0.2.1\n";
    let one = "gone A 192.0.2.1\nother A 192.0.2.1\nage A 192.0.2.1\nsub NS ns.example.\nglue NS ns.glue\nns.glue A 192.0.2.1\n";
    let two = "other A 192.0.2.2\nage 60 A 192.0.2.1\nsub NS ns.example.net.\nglue NS ns.glue\nns.glue A 192.0.2.2\n";
    let (Some(first), Some(second)) =
        (nsd(&format!("{alike}{odd}{one}")), nsd(&format!("{alike}{odd}{two}")))
    else {
        return;
    };
    let changes: [(&str, Change); 5] = [
        ("drop", |reply| reply.clear()),
        ("cut", |reply| reply.truncate(reply.len() - 3)),
        ("question", |reply| {
            let end = question_end(reply).expect("a question");
            reply[end - 3] = 16;
        }),
        ("flag", |reply| reply[2] &= !4),
        // NSD's OPT record has no options.
        ("opt", |reply| {
            reply.truncate(reply.len() - 11);
            reply[11] -= 1;
        }),
    ];
    let changes = changes.map(|(name, change)| (format!("{name}.dns64perf.test"), change));
    let front = altering(&second.address, changes.into_iter().collect()).to_string();
    let dir = tempfile::tempdir().expect("a folder");
    let planted = [
        ("timeout", "drop"),
        ("malformed", "cut"),
        ("question", "question"),
        ("rcode", "gone"),
        ("flags", "flag"),
        ("answer", "other"),
        ("authority", "www.sub"),
        ("additional", "www.glue"),
        ("edns", "opt"),
        ("ttl", "age"),
    ];
    let names = (0..ALIKE).map(|i| format!("n{i}")).chain(planted.map(|(_, name)| name.to_owned()));
    let lines: String = names.map(|name| format!("{name}.dns64perf.test A\n")).collect();
    let queries = file(dir.path(), "q", &lines);
    let lines = dir.path().join("lines").display().to_string();
    let page = dir.path().join("page.html").display().to_string();
    let common = format!("--queries {queries} --edns --no-recursion --ttl exact --window 8");
    let (one, two) = (&first.address, &front);
    let (code, record) = diff(&format!("{one} {two} {common} --lines {lines} --page {page}"));
    assert_eq!(
        (code, &record["asked"], &record["differ"]),
        (3, &500.into(), &10.into()),
        "{record:#}"
    );
    for (kind, name) in planted {
        let of_kind = record["kinds"].as_array().expect("kinds").iter().find(|k| k["kind"] == kind);
        let of_kind = of_kind.unwrap_or_else(|| panic!("no {kind}: {record:#}"));
        let samples = of_kind["samples"].as_array().expect("samples").iter();
        let differs: Vec<&Value> = samples
            .filter(|sample| sample["verdict"] == "differs")
            .map(|sample| &sample["name"])
            .collect();
        assert_eq!(
            (&of_kind["differ"], differs),
            (&1.into(), vec![&format!("{name}.dns64perf.test.").into()]),
            "{kind}"
        );
    }
    let text = std::fs::read_to_string(&lines).expect("lines");
    let all: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    all.iter().for_each(|line| check_schema("answer-difference", line));
    assert_eq!(all.iter().filter(|line| line["verdict"] == "differs").count(), 10);
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("10 queries have different answers") && page.contains("192.0.2.2"));
    // All known, by name or by kind; and not compared.
    let known = "* drop.dns64perf.test A\n# alike\nmalformed,question,rcode,answer,authority * *\n\
                 flags,additional,edns,ttl *.dns64perf.test *\n";
    let known = file(dir.path(), "known", known);
    let (code, record) = diff(&format!("{one} {two} --known {known} {common}"));
    assert_eq!(
        (code, &record["differ"], &record["known"]),
        (0, &0.into(), &10.into()),
        "{record:#}"
    );
    let most = "timeout,malformed,question,rcode,flags,answer,authority,additional,edns";
    let (code, record) = diff(&format!("{one} {two} --ignore {most} {common}"));
    assert_eq!((code, &record["differ"]), (3, &1.into()), "{record:#}");
    // A server does not differ from itself.
    let (code, record) = diff(&format!("{one} {one} {common}"));
    assert_eq!((code, &record["equal"]), (0, &500.into()), "{record:#}");
}

#[test]
fn a_server_that_contradicts_itself_is_unstable() {
    let auth = AuthDns::start(&["--namespace", "10.0.0.0/8"]);
    static ODD: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    // The last octet of the only address; a reply of the AuthDNS without EDNS ends with it.
    let change: Change = |reply| {
        let last = reply.len() - 1;
        reply[last] ^= 1 + u8::from(ODD.fetch_xor(true, std::sync::atomic::Ordering::Relaxed));
    };
    let name = "010-000-000-001.dns64perf.test";
    let front = altering(auth.plain(), BTreeMap::from([(name.to_owned(), change)])).to_string();
    let dir = tempfile::tempdir().expect("a folder");
    let queries = file(dir.path(), "q", &format!("{name} A\n010-000-000-002.dns64perf.test A\n"));
    let (code, record) = diff(&format!("{} {front} --queries {queries} --pause 1ms", auth.plain()));
    assert_eq!(
        (code, &record["equal"], &record["unstable"]),
        (0, &1.into(), &1.into()),
        "{record:#}"
    );
    assert_eq!(record["kinds"][0]["samples"][0]["name"], format!("{name}."));
}

#[test]
fn replies_are_held_against_those_of_a_capture() {
    let auth = AuthDns::start(&["--namespace", "10.0.0.0/8"]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
    socket.connect(auth.plain()).expect("connects");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("sets");
    let mut out = Writer::new(Vec::new()).expect("in memory");
    let (client, server) = (([10, 0, 0, 1], 1_000), ([192, 0, 2, 53], 53));
    for number in 0..20u16 {
        let query = query(&format!("010-000-000-{number:03}.dns64perf.test"), Qtype::A, number);
        socket.send(&query).expect("sent");
        let mut buffer = [0; 512];
        let len = socket.recv(&mut buffer).expect("a reply");
        // One is captured with another address, one without a reply.
        buffer[len - 1] ^= u8::from(number == 7);
        let at = Nanos::from_millis(u64::from(number) * 10);
        write_udp(&mut out, at, client, server, &query);
        if number != 9 {
            write_udp(&mut out, at + Nanos::from_millis(1), server, client, &buffer[..len]);
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let capture = dir.path().join("capture.pcap");
    std::fs::write(&capture, out.finish().expect("in memory")).expect("written");
    let capture = capture.display().to_string();
    let differs = |record: &Value| -> Vec<String> {
        let kinds = record["kinds"].as_array().expect("kinds").iter();
        kinds.map(|kind| format!("{} {}", kind["kind"], kind["samples"][0]["name"])).collect()
    };
    let wanted = [
        "\"timeout\" \"010-000-000-009.dns64perf.test.\"",
        "\"answer\" \"010-000-000-007.dns64perf.test.\"",
    ];
    let (code, record) = diff(&format!("{} --capture {capture} --pause 1ms", auth.plain()));
    assert_eq!(
        (code, &record["asked"], differs(&record)),
        (3, &20.into(), wanted.map(str::to_owned).to_vec())
    );
    assert_eq!(record["servers"][0]["name"], "captured");
    let load =
        format!("load {} --replay {capture} --compare-replies --speed 2x --json -", auth.plain());
    let (code, record) = compared(&load);
    assert_eq!(
        (code, &record["rate_qps"], differs(&record)),
        (3, &Value::Null, wanted.map(str::to_owned).to_vec())
    );
    // Over a connection to the server, with the options that a comparison has.
    let (code, record) = compared(&format!("{load} --transport tcp"));
    assert_eq!((code, differs(&record)), (3, wanted.map(str::to_owned).to_vec()));
    assert_eq!(record["servers"][1]["name"], format!("tcp://{}", auth.plain()));
    for option in ["--tls-resume", "--keepalive", "--clients=3"] {
        let err = refused(&format!("{load} --transport tcp {option}"));
        assert!(err.contains("cannot be used with"), "{option}: {err}");
    }
    // With the settings of `diff`.
    let [lines, page] =
        ["lines.jsonl", "page.html"].map(|name| dir.path().join(name).display().to_string());
    let more = format!("--ignore timeout --ttl exact --lines {lines} --page {page}");
    let (code, record) = compared(&format!("{load} {more}"));
    let found = differs(&record);
    assert!(code == 3 && found.contains(&wanted[1].to_owned()), "{found:?}");
    assert!(!found.contains(&wanted[0].to_owned()), "{found:?}");
    let lines = std::fs::read_to_string(&lines).expect("written");
    assert!(lines.contains("010-000-000-007") && !lines.contains("010-000-000-009"), "{lines}");
    assert!(std::fs::read_to_string(&page).expect("written").contains("<html"));
    let err = refused(&format!("load {} --replay {capture} --ttl any", auth.plain()));
    assert!(err.contains("require --replay FILE --compare-replies"), "{err}");
    // The capture's queries, but not its replies.
    let (code, record) = diff(&format!("{0} {0} --capture {capture} --count 15", auth.plain()));
    assert_eq!((code, &record["asked"], &record["equal"]), (0, &15.into(), &15.into()));
    // Interrupted by a damaged end.
    let whole = std::fs::read(&capture).expect("there");
    std::fs::write(&capture, &whole[..whole.len() - 5]).expect("written");
    let (code, out, err) = run(&format!("diff {} --capture {capture} --pause 1ms", auth.plain()));
    assert!(
        code == 1 && out.contains("incomplete: ") && err.contains("is cut short"),
        "{out}{err}"
    );
}

/// A query that came over TCP is asked so: what a server says over UDP instead is no difference of servers.
#[test]
fn captured_queries_keep_their_transport() {
    // The server answers REFUSED over UDP, and NOTAUTH over TCP.
    let server = peer::start(|query, from| reply(query, if from.tcp { 9 } else { 5 }));
    let mut out = Writer::new(Vec::new()).expect("in memory");
    let to: SocketAddr = "192.0.2.53:53".parse().expect("an address");
    let refused = [(Qtype::AXFR, true), (Qtype::IXFR, true), (Qtype::A, true), (Qtype::A, false)];
    for (number, (qtype, over_tcp)) in
        (0u16..).zip(refused.into_iter().chain([(Qtype::AXFR, true)]))
    {
        let from = SocketAddr::from(([10, 0, 0, 1], 1_000 + number));
        let question = query("example.test", qtype, number);
        let mut answer = reply(&question, if over_tcp { 9 } else { 5 });
        if number == 4 {
            // The beginning of a transfer; it is not asked.
            (answer[3], answer[7]) = (0, 1);
            answer.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x04\x7f\0\0\x01");
        }
        let transport = if over_tcp { Transport::Tcp { sequence: 1 } } else { Transport::Udp };
        for (ends, bytes) in [([from, to], &question), ([to, from], &answer)] {
            write(&mut out, Nanos::from_millis(number.into()), ends, transport, bytes);
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let capture = dir.path().join("capture.pcap");
    std::fs::write(&capture, out.finish().expect("in memory")).expect("written");
    let capture = capture.display();
    for line in [
        format!("diff {server} --capture {capture}"),
        format!("load {server} --replay {capture} --compare-replies"),
    ] {
        let (code, out, err) = run(&format!("{line} --timeout 30s --json -"));
        let record: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {err}"));
        assert_eq!((code, &record["asked"], &record["equal"]), (0, &4.into(), &4.into()), "{out}");
        assert_eq!(record["servers"][1]["over_tcp"], 3);
        assert!(err.contains("transfers of zones that were not refused: 1"), "{err}");
    }
}

#[test]
fn bad_input_and_silent_servers_are_told() {
    let auth = AuthDns::start(&["--namespace", "10.0.0.0/8"]);
    let dir = tempfile::tempdir().expect("a folder");
    let queries = file(dir.path(), "q", "a.test A\n\nb.test AX\n");
    let good = file(dir.path(), "good", "a.test A\n");
    let none = file(dir.path(), "none", "; no query\n");
    let known = file(dir.path(), "known", "ttl * *\nttls * *\n");
    let diff = format!("diff {0} {0}", auth.plain());
    for (args, part) in [
        (format!("--queries {queries}"), "q:3:8: "),
        ("--queries /nowhere/q".to_owned(), "cannot read the query file /nowhere/q"),
        (format!("--queries {none}"), "none: it has no query"),
        ("--capture /nowhere/c".to_owned(), "/nowhere/c"),
        (
            format!("--queries {good} --known {known}"),
            "known:2:1: `ttls` is none of timeout, error",
        ),
        (format!("--queries {good} --ttl some"), "`some` is not a difference of TTLs"),
        (format!("--queries {good} --ignore size"), "`size` is none of timeout"),
        (format!("--queries {good} --json - --lines -"), "only one of the outputs"),
        (format!("--queries {good} --json /nowhere/x"), "cannot write /nowhere/x"),
    ] {
        let err = refused(&format!("{diff} {args}"));
        assert!(err.contains(part), "{args}: {err}");
    }
    let (code, _, err) = run(&format!("{diff} --queries {queries} --skip-bad"));
    assert!(
        code == 0 && err.contains("lines that are no queries, 1: ") && err.contains("q:3:8: "),
        "{err}"
    );
    let err = refused(&format!("diff {} --queries {good}", auth.plain()));
    assert!(err.contains("one server has nothing to be compared with"), "{err}");
    let nobody = format!("127.0.0.1:{}", free_port());
    let (code, out, err) =
        run(&format!("diff {} {nobody} --queries {good} --pause 1ms", auth.plain()));
    assert!(code == 1 && err.contains(&format!("nothing listens at {nobody}")), "{out}{err}");
}

/// Lines of the zone that the three servers ask for, and the queries.
fn mixed() -> [String; 2] {
    let (mut zone, mut queries) = (String::new(), String::new());
    for i in 0..400 {
        let record = match i % 10 {
            0..4 => format!("n{i} A 192.0.2.{}\n", i % 250),
            4 => format!("n{i} A 192.0.2.1\nn{i} AAAA 2001:db8::{i:x}\n"),
            5 => format!("n{i} AAAA 2001:db8::{i:x}\n"),
            6 => format!("n{i} CNAME n{}\n", i - 6),
            7 => format!("n{i} MX 10 ns1\n"),
            8 => (0..90).map(|last| format!("n{i} A 192.0.2.{last}\n")).collect(),
            _ => String::new(),
        };
        zone.push_str(&record);
        let qtype = ["AAAA", "AAAA", "A", "MX"][i / 10 % 4];
        queries.push_str(&format!("n{i}.dns64perf.test {qtype}\n"));
    }
    [zone, queries]
}

/// Starts dns64d behind that upstream; `None` if it is not built.
fn dns64d(upstream: &str) -> Option<Server> {
    let program = cargo_bin("dnsdyno").parent().expect("a folder").join("dns64d");
    if !program.exists() {
        return skip::none("dns64d is not built: cargo build");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let config = file(
        dir.path(),
        "dns64d.toml",
        &format!(
            "server.listen = [\"127.0.0.1:{port}\"]\nserver.workers = 1\nserver.user = \"root\"\n\
             upstream.servers = [\"{upstream}\"]\n[[dns64]]\nprefix = \"2001:db8:64::/96\"\n"
        ),
    );
    let command = [program.display().to_string(), "--config".to_owned(), config];
    Some(serve(dir, &command, port, "www.dns64perf.test", Qtype::AAAA))
}

/// Returns whether a program says that it is of this version, which the documentation is about.
fn is_of_version(program: &str, option: &str, version: &str) -> bool {
    let output = Command::new(find(program).expect("installed")).arg(option).output();
    let said = output.expect("starts").stdout;
    let same = String::from_utf8_lossy(&said).contains(version);
    if !same {
        skip::because(format_args!("the differences explained are those of {version}"));
    }
    same
}

#[test]
fn three_dns64_servers_differ_in_what_the_documentation_explains() {
    if installed("unbound").and(installed("named")).is_none() {
        return;
    }
    let [zone, queries] = mixed();
    let Some(upstream) = nsd(&zone) else { return };
    let Some(ours) = dns64d(&upstream.address) else { return };
    let port = upstream.address.rsplit(':').next().expect("a port");
    let set = [
        "role=dns64".to_owned(),
        "zone=dns64perf.test".to_owned(),
        "pref64=2001:db8:64::/96".to_owned(),
        "upstream.v4=127.0.0.1".to_owned(),
        format!("upstream.port={port}"),
        "cache_mb=64".to_owned(),
    ];
    let local = "\nserver:\n    do-not-query-localhost: no\n";
    let unbound = adapter("unbound", &set, "unbound.conf", local, Qtype::AAAA);
    let bind = adapter("bind9", &set, "named.conf", "", Qtype::AAAA);
    let dir = tempfile::tempdir().expect("a folder");
    let queries = file(dir.path(), "q", &queries);
    let servers = [&*ours.address, &*unbound.address, &*bind.address].join(" ");
    let (code, record) = diff(&format!("{servers} --queries {queries} --edns --rate 500"));
    assert!(code == 0 || code == 3, "{record:#}");
    assert_eq!(record["asked"], 400);
    for server in record["servers"].as_array().expect("servers") {
        assert!(server["replies"].as_u64() > Some(390), "{record:#}");
        assert!(server["over_tcp"].as_u64() > Some(0), "{record:#}");
    }
    if !is_of_version("unbound", "-V", "Version 1.17.")
        || !is_of_version("named", "-v", "BIND 9.18.")
    {
        return;
    }
    let page =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments/dns64-answers.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let (_, explained) = page.split_once("## Figures").expect("a chapter");
    for kind in record["kinds"].as_array().expect("kinds") {
        let word = kind["kind"].as_str().expect("a word");
        let stable = kind["among"].as_u64() > Some(0);
        assert!(
            !stable || explained.contains(&format!("| `{word}` |")),
            "{word} is not explained: {record:#}"
        );
    }
}
