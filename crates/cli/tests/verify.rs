//! `dnsdyno verify` and the certificates that it and `selftest` write: what they show, and where they are refused.

use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use record::{CertificateFile, Check, CheckVerdict};
use serde_json::{Value, json};

use crate::kit::command::{Told, dnsdyno, run_in, told};
use crate::kit::shared;
use crate::kit::two_namespaces::NAMESPACES;

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Bench { dir: tempfile::tempdir().expect("a temporary folder") }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs `dnsdyno` in the folder.
    fn run(&self, line: &str) -> Told {
        run_in(self.dir.path(), line)
    }

    /// Writes a certificate of a self-test, changed by `change`.
    fn certificate(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let made = self.file("made.json");
        if !made.exists() {
            // Its verdict may be any on a busy machine.
            self.run("selftest --rate 5k --duration 100ms --write-certificate made.json");
        }
        let mut file: Value = read(&made);
        file["certified_qps"] = json!(2_000.0);
        change(&mut file);
        std::fs::write(self.file(name), file.to_string()).expect("writes");
    }
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

fn checks(path: &Path) -> Vec<Check> {
    CertificateFile::read(path).unwrap_or_else(|e| panic!("{e}")).checks
}

#[test]
fn the_table_and_the_certificate_have_every_truth() {
    let bench = Bench::new();
    let (code, out, err) =
        bench.run("verify --quick --capacities 5k --wait --write-certificate c.json --json v.json");
    let checks = checks(&bench.file("c.json"));
    assert_eq!(checks, self::checks(&bench.file("v.json")));
    let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
    let wanted = [
        "queries sent at 20k",
        "replies received at 20k",
        "sending rate at 20k",
        "even intervals at 20k",
        "lost",
        "duplicates",
        "latency p50",
        "latency p50",
        "latency p99",
        "latency p99",
        "late",
        "capacity 5k",
    ];
    // Without a capture there are three rows of a trial's sending.
    let lacks = |name: &&str| !names.contains(name) && !name.starts_with("replies");
    assert_eq!(wanted.into_iter().find(lacks), None, "{names:?}");
    for way in ["udp", "udp, 8", "tcp, 8", "tls, 8", "https, 8", "http3, 8", "quic, 8"] {
        for what in ["poisson 2k", "ramp 400..3600", "round trip, one query"] {
            let has = |name: &&str| name.contains(what) && name.contains(way);
            assert!(names.iter().any(has), "{what} over {way}: {names:?}");
        }
        // Little's law needs the middle of a loop: what it found is a time.
        let one = format!("round trip, one query, {way}");
        let has = |check: &&Check| check.name.starts_with(&one);
        let one = checks.iter().find(has).expect("a round trip");
        assert!(one.found.is_some_and(f64::is_finite), "{one:?}");
    }
    assert!(wanted.iter().all(|name| !names.contains(name) || out.contains(name)), "{out}");
    assert!(out.contains("certificate of the Tester: ") && err.contains("verify: path wire"));
    // Counts have no excuse but a stall, which is named.
    for name in ["lost", "duplicates", "late"] {
        let check = checks.iter().find(|check| check.name == name).expect(name);
        let limited = check.verdict == CheckVerdict::TesterLimited && check.why.is_some();
        assert!(check.verdict == CheckVerdict::Passed || limited, "{check:?}");
    }
    let failed = checks.iter().any(Check::is_failed);
    let certified = read(&bench.file("c.json"))["certified_qps"].as_f64().expect("a rate");
    assert_eq!(code == 0, !failed && certified > 0.0, "{out}{err}");
}

#[test]
fn the_kernel_is_held_against_sockets() {
    let bench = Bench::new();
    let (code, out, err) = bench
        .run("verify --quick --engine kernel --capacities 2k --wait --write-certificate c.json");
    if ["may not load BPF programs", "run as root"].iter().any(|part| err.contains(part)) {
        return skip::because(err);
    }
    let checks = checks(&bench.file("c.json"));
    let both = ["capacity 2k", "latency p50", "latency p90", "latency p99"];
    for name in both.map(|name| format!("{name} by both engines")) {
        assert!(checks.iter().any(|check| check.name == name), "{name}: {out}");
    }
    for name in ["queries sent at 20k", "lost", "duplicates", "late"] {
        let check = checks.iter().find(|check| check.name == name).expect(name);
        let limited = check.verdict == CheckVerdict::TesterLimited && check.why.is_some();
        assert!(check.verdict == CheckVerdict::Passed || limited, "{check:?}");
    }
    for name in ["round trip, one query, udp", "rate, window 8, delay 1ms, udp"] {
        let check = checks.iter().find(|check| check.name == name).expect(name);
        assert!(check.found.is_some_and(f64::is_finite), "{check:?}");
    }
    let counted = |check: &&Check| check.name.starts_with("queries counted by the server, windows");
    assert_eq!(checks.iter().filter(counted).count(), 3, "{out}");
    let file = read(&bench.file("c.json"));
    assert_eq!(file["tested"]["engine"], "kernel");
    let failed = checks.iter().any(Check::is_failed);
    let certified = file["certified_qps"].as_f64().expect("a rate");
    assert_eq!(code == 0, !failed && certified > 0.0, "{out}{err}");
}

#[test]
fn a_wrong_truth_is_noticed() {
    let bench = Bench::new();
    let (code, out, err) = bench.run(
        "verify --quick --loopback --capacities 5k --wrong-truth 0.3 --wait --write-certificate c.json",
    );
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("values are beyond their bounds"), "{err}");
    let checks = checks(&bench.file("c.json"));
    let counts = checks.iter().filter(|c| ["lost", "duplicates", "late"].contains(&&*c.name));
    let failed: Vec<&str> = counts.filter(|c| c.is_failed()).map(|c| c.name.as_str()).collect();
    // Late replies may be lost by a full queue.
    assert!(failed.starts_with(&["lost", "duplicates"]), "{out}");
    assert_eq!(read(&bench.file("c.json"))["certified_qps"], 0.0);
    assert!(out.contains("certificate of the Tester: it certifies no rate"), "{out}");
    // Such a certificate is of no use.
    let (code, _, err) = bench.run("search [::1]:9 --certificate c.json");
    assert_eq!(code, 2);
    assert!(err.contains("c.json is refused: it certifies no rate"), "{err}");
}

#[test]
fn a_certificate_for_other_trials_is_refused() {
    let bench = Bench::new();
    let set = |name: &str, key: &str, value: Value| {
        bench.certificate(name, |file| match key.split_once('.') {
            Some((table, key)) => file[table][key] = value,
            None => file[key] = value,
        });
    };
    set("path.json", "tested.path", json!("host-offload"));
    set("engine.json", "tested.engine", json!("streams"));
    set("transport.json", "tested.transport", json!("tcp"));
    set("kernel.json", "host.kernel", json!({ "release": "0.1" }));
    set("version.json", "dnsdyno_certificate", json!(9));
    set("rate.json", "certified_qps", json!(-1));
    set("small.json", "certified_qps", json!(10));
    std::fs::write(bench.file("no.json"), "{\"schema\": 2}\n").expect("writes");
    let table = [
        (
            "path",
            "path.json is refused: it is for the path host-offload, but the trials have the path wire",
        ),
        ("engine", "it is for the engine streams, but the trials have the engine sockets"),
        ("transport", "it is for the transport tcp, but the trials have the transport udp"),
        ("kernel", "it was made with the kernel 0.1, not"),
        ("version", "the certificate has version 9, this program reads version 1"),
        ("rate", "`certified_qps`: -1 is not a rate: write 0 or more"),
        ("no", "no.json:1:13: not a certificate: missing field `dnsdyno_certificate`"),
        ("missing", "cannot read the certificate missing.json"),
    ];
    for (name, part) in table {
        let commands = [
            format!("search [::1]:9 --certificate {name}.json"),
            format!("run dns64-rfc8219 --dry-run --certificate {name}.json"),
        ];
        for command in commands {
            let (code, out, err) = bench.run(&command);
            assert_eq!(code, 2, "{command}: {out}{err}");
            let part = part.trim_start_matches("path.json is refused: ");
            assert!(err.contains(part), "{command}: {err}");
        }
    }
    let (code, _, err) = bench.run("search [::1]:9 --min 1k --certificate small.json");
    assert_eq!(code, 2);
    assert!(err.contains("--min 1000 qps is above the certified 10 qps"), "{err}");
    let (code, out, err) = bench.run("run many-clients --dry-run --certificate made.json");
    assert_eq!(code, 2, "{out}");
    assert!(err.contains("the engine sockets, but the trials have the engine streams"), "{err}");
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/search.json");
    let page = format!("report {} -o page.html --certificate ", run.display());
    let (code, _, err) = bench.run(&format!("{page}transport.json"));
    assert_eq!(code, 2);
    assert!(err.contains("transport.json is refused: it is for the transport tcp"), "{err}");
}

#[test]
fn a_report_shows_the_certificate() {
    let bench = Bench::new();
    bench.certificate("c.json", |file| file["host"] = json!({}));
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/search.json");
    let (code, _, err) =
        bench.run(&format!("report {} -o page.html --certificate c.json", run.display()));
    assert_eq!(code, 0, "{err}");
    let page = std::fs::read_to_string(bench.file("page.html")).expect("a page");
    assert!(
        page.contains("certificate of the Tester: for servers up to 2,000 qps"),
        "no certificate"
    );
}

#[test]
fn a_trial_is_held_against_a_capture() {
    let bench = Bench::new();
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/load.json");
    let run = record::read_run(&run).expect("a run");
    record::write(&bench.file("trial.json"), &run.results[0].trials[0].trial).expect("writes");
    std::fs::write(bench.file("x.pcap"), "no capture").expect("writes");
    let (code, _, err) =
        bench.run("verify --trial trial.json --capture x.pcap --server 192.0.2.1:53");
    assert_eq!(code, 2);
    assert!(err.contains("x.pcap: not a capture"), "{err}");
    let header: Vec<u8> = [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_535, 101]
        .iter()
        .flat_map(|w| w.to_ne_bytes())
        .collect();
    std::fs::write(bench.file("x.pcap"), header).expect("writes");
    let (code, _, err) =
        bench.run("verify --trial trial.json --capture x.pcap --server 192.0.2.1:53");
    assert_eq!(code, 2);
    assert!(err.contains("x.pcap: there is no query to 192.0.2.1:53"), "{err}");
    let (code, _, err) = bench.run("verify --capacities 1");
    assert_eq!(code, 2);
    assert!(err.contains("--capacities 1 qps: the capacity must be between 1000 and"), "{err}");
}

/// Time for which the hook of tests lets a trial send.
const SHORT: &str = "300ms";

/// The program in two namespaces that a veth pair joins: searches of a server there, of one here, and a run with the one there.
const TWO_NAMESPACES: &str = r#"
$there "$0" auth --listen [fd00:77::2]:53 --namespace 0.0.0.0/2 --aaaa always --duration 30m >there.txt &
ready there.txt $!
"$0" auth --listen [::1]:53 --namespace 0.0.0.0/2 --aaaa always --duration 30m >here.txt &
ready here.txt $!
plan="--rfc8219 --namespace 0.0.0.0/2 --start 1k --max 1k --certificate tester.json"
here="--rule rfc8219 --goal zero-loss --repeats 1 --namespace 0.0.0.0/2 --start 1k --max 1k --certificate tester.json"
cat >far.toml <<'TOML'
name = "far"
title = "A server on another host"
role = "dns64"
method = "search"
repeats = 20
workload = { namespace = "0.0.0.0/2" }
search = { rule = "rfc8219", goal = "zero-loss", start = "1k", max = "1k", resolution = 0.02, duration = "60s" }
TOML
# They fail where a busy machine makes searches void.
set +e
"$0" search [fd00:77::2]:53 $plan --json there.json >/dev/null
"$0" search [fd00:77::2]:53 $plan --json - --repeats 1 >/dev/null 2>&1 && exit 79
"$0" search [::1]:53 $here --json here.json >/dev/null
"$0" report there.json -o there.html >/dev/null
"$0" run far.toml --remote far=[fd00:77::2]:53 --certificate tester.json --plain --no-store --json far.json >/dev/null
kill $peer $(jobs -p) 2>/dev/null
true
"#;

#[test]
fn a_server_in_another_namespace_conforms_and_one_here_is_named() {
    let bench = Bench::new();
    let selftest = "selftest --rate 5k --duration 60s --write-certificate tester.json";
    let mut command = dnsdyno(selftest);
    command.env("DNSDYNO_TEST_TRIAL", SHORT).current_dir(bench.dir.path());
    command.output().expect("starts");
    shared::certify(&bench.file("tester.json"), 2_000.0);
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child"])
        .args(["--mount-proc", "sh", "-c", &format!("{NAMESPACES}{TWO_NAMESPACES}")])
        .arg(cargo_bin("dnsdyno"))
        .env("DNSDYNO_TEST_TRIAL", SHORT)
        .current_dir(bench.dir.path())
        .output()
        .expect("unshare (package util-linux)");
    let told = String::from_utf8_lossy(&output.stderr);
    if !bench.file("there.txt").exists() && told.contains("unshare") {
        return skip::because(format_args!("no network namespaces: {told}"));
    }
    assert!(output.status.success(), "{told}");
    let [there, here, far] = ["there", "here", "far"]
        .map(|name| read(&bench.file(&format!("{name}.json")))["results"][0].clone());
    for cell in [&there, &far] {
        assert_conforms(cell, 20);
        assert_eq!(cell["shortened_s"], 0.3);
        assert_eq!(cell["certificate"]["shortened_s"], 0.3);
    }
    assert!(told.contains("SHORTENED by a test: each trial sends for 300ms"), "{told}");
    let page = std::fs::read_to_string(bench.file("there.html")).expect("a page");
    let label = if there["conforming"] == true { "conforming, SHORTENED" } else { "SHORTENED" };
    assert!(page.contains(label), "the page has the label");
    let differs = here["differs"].to_string();
    for part in ["on one host, joined by the loopback", "no checksums", "joined replies (UDP_GRO)"]
    {
        assert!(differs.contains(part), "{part}: {differs}");
    }
    assert_eq!(here["conforming"], false);
}

/// Checks that a cell differs from RFC 8219 by nothing but searches that a busy machine made void, if there are any.
fn assert_conforms(cell: &Value, planned: u64) {
    let void = cell["void_repeats"].as_array().map_or(&[][..], Vec::as_slice);
    let excused = |void: &Value| shared::is_disturbance(void["why"].as_str().unwrap_or_default());
    assert!(void.iter().all(excused), "{void:?}");
    assert_eq!(cell["repeats"].as_u64(), Some(planned - void.len() as u64), "{cell}");
    let differs = cell["differs"].as_array().expect("a list");
    let of_number = |how: &Value| how.as_str().is_some_and(|how| how.contains(" searches"));
    assert!(differs.iter().all(of_number), "{differs:?}");
    assert_eq!(differs.is_empty(), void.is_empty(), "{differs:?}");
    assert_eq!(cell["conforming"].as_bool(), Some(void.is_empty()), "{cell}");
}

#[test]
fn the_hook_of_tests_names_a_wrong_time() {
    let mut command = dnsdyno("search [::1]:9");
    let (code, _, told) = told(command.env("DNSDYNO_TEST_TRIAL", "soon").output().expect("starts"));
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("DNSDYNO_TEST_TRIAL=soon: write a time above zero"), "{told}");
}
