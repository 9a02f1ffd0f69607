//! Experiments whose queries are a stream: of a file, a capture, a zone or a part of it; with real servers.

use std::path::Path;

use measure::Nanos;
use serde_json::Value;
use trace::Writer;
use wire::Qtype;

use crate::kit::capture::write_udp;
use crate::kit::command::{Ran, dnsdyno, run_in, told};
use crate::kit::serve::query;

/// A zone of four hosts; names before `m` are half of it.
const ZONE: &str = "@ 60 IN SOA ns hostmaster 1 60 60 60 60\n@ 60 IN NS ns\nalpha 60 IN A 192.0.2.1\n\
                    beta 60 IN A 192.0.2.2\nns 60 IN A 192.0.2.3\nzulu 60 IN A 192.0.2.4\n";

/// An experiment of one repeat; `more` begins with keys of the experiment as a whole.
fn experiment(role: &str, method: &str, servers: &[&str], more: &str) -> String {
    format!(
        "name = \"x\"\ntitle = \"x\"\nrole = \"{role}\"\nmethod = \"{method}\"\nservers = {servers:?}\nrepeats = 1\n\
         {more}\n[closed]\nduration = \"300ms\"\nwindow = 8\n"
    )
}

/// Writes the zone and a query file into `dir`.
fn files(dir: &Path, queries: &str) {
    std::fs::write(dir.join("zone"), format!("$ORIGIN hosts.test.\n{ZONE}")).expect("writes");
    std::fs::write(dir.join("q.txt"), queries).expect("writes");
}

/// Runs an experiment in a folder, with trials of 300 ms.
fn run(dir: &Path, text: &str, line: &str) -> Option<Ran> {
    Ran::experiment(dir, "300ms", text, line)
}

/// Runs an experiment with these queries; its record, or `None` where there is no lab or a server is missing.
fn measured(dir: &Path, text: &str, queries: &str) -> Option<Value> {
    files(dir, queries);
    let Ran { told, run: record, .. } = run(dir, text, "")?;
    assert!(record.is_object(), "{told}");
    if let Some(skipped) = record["skipped"].get(0) {
        let why = skipped["why"].as_str().expect("a reason");
        assert!(why.contains("is not installed"), "{skipped}");
        return skip::none(why);
    }
    Some(record)
}

/// That every trial of a cell was answered as expected, or is void with its reason; returns the workloads.
fn workloads(record: &Value) -> Vec<String> {
    let cells = record["results"].as_array().expect("cells");
    let trials = cells.iter().flat_map(|cell| cell["trials"].as_array().expect("trials"));
    let workload = |trial: &Value| {
        assert_eq!(trial["invalid"], serde_json::json!({}), "{}", trial["conditions"]);
        assert!(trial["valid"].as_u64() > Some(0), "{}", trial["conditions"]);
        trial["conditions"]["workload"].as_str().expect("text").to_owned()
    };
    trials.map(workload).collect()
}

/// Returns a capture of `names.len()` queries, ten milliseconds apart.
fn capture(names: &[String]) -> Vec<u8> {
    let mut out = Writer::new(Vec::new()).expect("in memory");
    for (number, name) in (0..).zip(names) {
        let at = Nanos::from_millis(10 * u64::from(number));
        let ends = [([192, 0, 2, 10], 5_555), ([192, 0, 2, 1], 53)];
        write_udp(&mut out, at, ends[0], ends[1], &query(name, Qtype::A, number));
    }
    out.finish().expect("in memory")
}

#[test]
fn a_query_file_is_asked_named_and_hashed() {
    let dir = tempfile::tempdir().expect("a folder");
    let workload = "[workload]\nnamespace = \"10.0.0.0/24\"\nqueries = \"q.txt\"";
    let queries = "010-000-000-001.dns64perf.test AAAA\n010-000-000-002.dns64perf.test A\n";
    let text = experiment("authoritative", "closed", &["authdns"], workload);
    files(dir.path(), queries);
    let Some(dry) = run(dir.path(), &text, "--dry-run") else { return };
    assert!(dry.code == 0 && dry.told.contains("q.txt, 69 octets, SHA-256 "), "{}", dry.told);
    let Some(record) = measured(dir.path(), &text, queries) else { return };
    let path = dir.path().join("q.txt").canonicalize().expect("a path").display().to_string();
    let input = &record["inputs"][0];
    assert_eq!((&input["key"], &input["octets"]), (&"queries".into(), &69.into()));
    assert_eq!(input["sha256"].as_str().map(str::len), Some(64));
    let all = workloads(&record);
    assert!(all.iter().all(|workload| *workload == format!("2 queries of {path}")), "{all:?}");
    let differs = record["results"][0]["differs"].to_string();
    assert!(differs.contains("the queries are a stream: names repeat"), "{differs}");
    let (code, _, told) = run_in(dir.path(), "report last");
    assert_eq!(code, 0, "{told}");
    let page = std::fs::read_to_string(dir.path().join("report.html")).expect("the page");
    let sha256 = input["sha256"].as_str().expect("a hash");
    assert!(page.contains(&format!("queries {path}")) && page.contains(sha256));
}

#[test]
fn a_stream_that_does_not_fit_is_refused_with_its_place() {
    let dir = tempfile::tempdir().expect("a folder");
    let cases = [
        (
            "resolver",
            "queries = \"q.txt\"",
            "x.toml:8:11: ",
            "q.txt:2: `www.example.com` is not in dns64perf.test (the zone",
        ),
        (
            "authoritative",
            "queries = \"q.txt\"",
            "x.toml:8:11: ",
            "give the `zone-file` of these queries",
        ),
        (
            "authoritative",
            "queries = \"none.txt\"",
            "x.toml:8:11: cannot read",
            "begins at the folder",
        ),
        ("authoritative", "queries = \"bad.txt\"", "x.toml:8:11: ", "bad.txt:1:3: "),
        ("authoritative", "replay = \"q.txt\"", "x.toml:8:10: ", "q.txt"),
        ("authoritative", "slice = \"1/2\"", "x.toml:8:9: ", "give the `zone-file` too"),
        (
            "authoritative",
            "queries = \"q.txt\"\nreplay = \"q.txt\"",
            "x.toml:9:10: ",
            "both streams",
        ),
        (
            "authoritative",
            "queries = \"q.txt\"\nzone-file = \"zone\"",
            "x.toml:8:11: ",
            "`slice = \"1/1\"` leaves",
        ),
    ];
    for (role, keys, place, why) in cases {
        let workload = format!("[workload]\n{keys}\nnamespace = \"10.0.0.0/24\"");
        let servers = if role == "resolver" { "unbound" } else { "authdns" };
        let text = experiment(role, "closed", &[servers], &workload);
        let first = if role == "resolver" { "010-000-000-001.dns64perf" } else { "alpha.hosts" };
        files(dir.path(), &format!("{first}.test A\nwww.example.com AAAA\n"));
        std::fs::write(dir.path().join("bad.txt"), "a AX\n").expect("writes");
        let Some(Ran { code, told, .. }) = run(dir.path(), &text, "--dry-run") else { return };
        assert_eq!(code, 2, "{keys}: {told}");
        assert!(told.contains(place) && told.contains(why), "{keys}: {told}");
    }
}

#[test]
fn a_changed_file_is_not_resumed() {
    let dir = tempfile::tempdir().expect("a folder");
    let more = "[workload]\nnamespace = \"10.0.0.0/24\"\nqueries = \"q.txt\"\n\
                [custom.broken]\ncommand = \"false\"\nready = \"1s\"";
    let queries = "010-000-000-001.dns64perf.test AAAA\n";
    let text = experiment("authoritative", "closed", &["authdns", "broken"], more);
    files(dir.path(), queries);
    let Some(ran) = run(dir.path(), &text, "--trust") else { return };
    assert_eq!(ran.code, 1, "{}", ran.told);
    std::fs::write(dir.path().join("q.txt"), queries.replace("001", "009")).expect("writes");
    let resume = |from: &Path| {
        let mut command = dnsdyno("run --wait --trust --resume last");
        command.env("DNSDYNO_STORE", dir.path().join("runs.db"));
        command.env("DNSDYNO_TEST_TRIAL", "300ms");
        told(command.current_dir(from).output().expect("starts"))
    };
    let (code, _, err) = resume(dir.path());
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("is not the one that the run began with"), "{err}");
    // The old content is good again, from any folder.
    std::fs::write(dir.path().join("q.txt"), queries).expect("writes");
    let (code, out, err) = resume(Path::new("/"));
    assert_eq!(code, 1, "{err}");
    assert!(out.contains("broken") || err.contains("broken"), "{err}");
}

#[test]
fn servers_have_a_part_of_a_zone_file_and_its_queries() {
    let dir = tempfile::tempdir().expect("a folder");
    let workload = "[workload]\nzone-file = \"zone\"\nqueries = \"q.txt\"\nslice = \"1/2\"";
    let queries = "alpha.hosts.test A\nzulu.hosts.test A\nwww.example.com A\nbeta.hosts.test MX\n";
    let servers = ["nsd", "knot", "bind9", "pdns", "yadifa"];
    let text = experiment("authoritative", "closed", &servers, workload);
    let Some(record) = measured(dir.path(), &text, queries) else { return };
    let all = workloads(&record);
    assert!(!all.is_empty());
    for workload in all {
        // zulu is in the other part, example.com in none.
        assert!(
            workload.starts_with("2 queries of ") && workload.ends_with("q.txt.1-of-2"),
            "{workload}"
        );
    }
}

#[test]
fn a_real_server_has_the_zone_behind_resolvers() {
    let dir = tempfile::tempdir().expect("a folder");
    let workload = "[workload]\nhosts = 100";
    for (role, servers) in [
        ("resolver", &["unbound", "bind9"][..]),
        ("dns64", &["dns64d", "knot-resolver", "pdns-recursor"]),
    ] {
        let text = experiment(role, "closed", servers, workload);
        let Some(record) = measured(dir.path(), &text, "") else { continue };
        let all = workloads(&record);
        assert!(all.len() >= servers.len(), "{all:?}");
        assert!(all.iter().all(|one| one.starts_with("200000 queries of ")), "{all:?}");
    }
}

#[test]
fn a_capture_is_replayed_at_the_rate_of_the_trial_and_in_its_order() {
    let dir = tempfile::tempdir().expect("a folder");
    let names: Vec<String> =
        (0..200).map(|i| format!("010-000-000-{:03}.dns64perf.test", i % 100)).collect();
    std::fs::write(dir.path().join("c.pcap"), capture(&names)).expect("writes");
    let workload = "[workload]\nnamespace = \"10.0.0.0/24\"\nreplay = \"c.pcap\"\n[load]\nrates = [\"1k\", \"2k\"]\nduration = \"1s\"\ntimeout = \"5s\"";
    let text = experiment("authoritative", "load", &["authdns"], workload);
    if let Some(record) = measured(dir.path(), &text, "") {
        let trials = record["results"][0]["trials"].as_array().expect("trials");
        for trial in trials {
            assert_eq!((&trial["sent"], &trial["valid"]), (&200.into(), &200.into()), "{trial}");
            let pacing = trial["conditions"]["pacing"].as_str().expect("text");
            assert!(pacing.starts_with("replay at "), "{pacing}");
        }
        let rates: Vec<_> = trials.iter().filter_map(|trial| trial["rate_qps"].as_f64()).collect();
        assert!(rates.contains(&1_000.0) && rates.contains(&2_000.0), "{rates:?}");
    }
    let workload = "[workload]\nnamespace = \"10.0.0.0/24\"\nreplay = \"c.pcap\"";
    let text = experiment("authoritative", "closed", &["authdns"], workload);
    let Some(record) = measured(dir.path(), &text, "") else { return };
    let all = workloads(&record);
    assert!(all.iter().all(|one| one.starts_with("200 queries of ")), "{all:?}");
}

#[test]
fn replicated_zones_have_streams_too() {
    let dir = tempfile::tempdir().expect("a folder");
    let workload = "[workload]\nzone-file = \"zone\"\nqueries = \"q.txt\"";
    let queries = "alpha.hosts.test A\nnone.hosts.test A\nzulu.hosts.test A\n";
    let servers = ["nsd", "knot"];
    let text = experiment("authoritative", "signed-unsigned", &servers, workload);
    let Some(record) = measured(dir.path(), &text, queries) else { return };
    let all = workloads(&record);
    assert!(!all.is_empty() && all.iter().all(|one| one.starts_with("3 queries of ")), "{all:?}");
    // Generated queries for a zone of the user's own, whose primary sends it to a secondary.
    let workload =
        "[workload]\nzone-file = \"zone\"\nslice = \"1/1\"\n[replication]\nprimary = \"knot\"";
    let text = experiment("authoritative", "query-under-update", &["nsd"], workload);
    let Some(record) = measured(dir.path(), &text, "") else { return };
    assert!(
        workloads(&record).iter().all(|one| one.starts_with("200000 queries of ")),
        "{}",
        record["skipped"]
    );
}

#[test]
fn every_method_asks_the_stream() {
    let dir = tempfile::tempdir().expect("a folder");
    let queries = "010-000-000-001.dns64perf.test AAAA\n010-000-000-002.dns64perf.test AAAA\n";
    let workload = "[workload]\nqueries = \"q.txt\"\n";
    let methods = [
        ("lockstep", "[lockstep]\nexperiments = 2\nlanes = 2"),
        ("load", "[load]\nrates = [\"500\"]\nduration = \"300ms\""),
        (
            "search",
            "[search]\ngoal = \"loss < 50%\"\nstart = \"1k\"\nmax = \"2k\"\nresolution = 0.5\nduration = \"200ms\"\nself-test = false",
        ),
        (
            "generators",
            "[generators]\nexperiments = 1\n[matrix]\ngenerators.generator = [\"script\", \"dnsperf\"]\n\
             generators.processes = [1, 2]",
        ),
        ("generators", "[generators]\ngenerator = \"window\""),
    ];
    for (method, more) in methods {
        let more = format!("{workload}{more}");
        let text = experiment("dns64", method, &["dns64d"], &more);
        let Some(record) = measured(dir.path(), &text, queries) else { continue };
        let all = workloads(&record);
        assert!(method == "generators" || !all.is_empty(), "{method}: {}", record["skipped"]);
        assert!(all.iter().all(|one| one.starts_with("2 queries of ")), "{method}: {all:?}");
        for cell in record["results"].as_array().expect("cells") {
            let void = cell["void_repeats"].is_array();
            let unanswered = &cell["figures"]["unanswered"]["values"][0];
            assert!(method != "generators" || void || *unanswered == 0.0, "{}", cell["figures"]);
            let cpu = &cell["figures"]["cpu_dut"]["values"][0];
            assert!(
                method != "generators" || void || cpu.as_f64() >= Some(0.0),
                "{}",
                cell["figures"]
            );
        }
    }
}

#[test]
fn no_name_is_used_again_in_silence() {
    let dir = tempfile::tempdir().expect("a folder");
    let namespace = "[workload]\nnamespace = \"10.0.0.0/24\"\n";
    let load = "[load]\nrates = [\"400\", \"500\"]\nduration = \"300ms\"";
    let text = experiment("authoritative", "load", &["authdns"], &format!("{namespace}{load}"));
    let Some(record) = measured(dir.path(), &text, "") else { return };
    let notes = record["results"][0]["notes"].to_string();
    assert!(notes.contains("names were used more than once in different trials"), "{notes}");
    let repeats = "[workload]\nnamespace = \"10.0.0.0/16\"\nrepeat-share = 0.5\nrepeat-names = 7\n";
    let load = "[load]\nrates = [\"400\"]\nduration = \"300ms\"";
    let text = experiment("dns64", "load", &["dns64d"], &format!("{repeats}{load}"));
    let Some(record) = measured(dir.path(), &text, "") else { return };
    let differs = record["results"][0]["differs"].to_string();
    assert!(differs.contains("queries repeat names: the optional test of caching"), "{differs}");
}
