//! The method `answers`: real servers of the lab, asked the same queries at the same time.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use measure::Nanos;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use trace::Writer;
use wire::Qtype;

use crate::kit::capture::write_udp;
use crate::kit::command::{Ran, check_schema, dnsdyno, run_in};
use crate::kit::host::find;
use crate::kit::serve::query;

const EXPERIMENT: &str = r#"
name = "tiny-answers"
title = "answers of two servers"
role = "dns64"
servers = ["unbound", "bind9"]
method = "answers"
repeats = 1

[workload]
mixed = 300

[answers]
rate = "1k"
"#;

/// Returns whether the programs that the experiment starts are here; says so if not.
fn are_here() -> bool {
    let missing: Vec<&str> =
        ["unbound", "named", "nsd"].into_iter().filter(|name| find(name).is_none()).collect();
    if !missing.is_empty() {
        skip::because(format!("not installed: {}", missing.join(", ")));
    }
    missing.is_empty()
}

/// Runs an experiment in a folder.
fn run(dir: &Path, experiment: &str, line: &str) -> Option<Ran> {
    Ran::experiment(dir, "1s", experiment, &format!("--plain {line}"))
}

/// Checks the comparison of 300 names by Unbound and BIND, and returns it.
fn compared<'a>(run: &'a Value, said: &str) -> &'a Value {
    let cells = run["results"].as_array().unwrap_or_else(|| panic!("{said}"));
    let named: Vec<_> = cells.iter().map(|cell| cell["server"].as_str()).collect();
    assert_eq!(named, [Some("unbound"), Some("bind9")], "{said}");
    assert_eq!(run["complete"], true, "{said}");
    let figure = |cell: &Value, name: &str| cell["figures"][name]["values"][0].as_f64();
    for cell in cells {
        assert_eq!(figure(cell, "replies"), Some(300.0), "{said}");
        assert_eq!(cell["figures"]["replies"]["values"].as_array().map(Vec::len), Some(1));
        assert_eq!(figure(cell, "timeouts"), Some(0.0), "{said}");
        assert!(cell["files"].as_object().is_some_and(|files| !files.is_empty()), "{said}");
    }
    let unlike = figure(&cells[0], "differs_from_bind9");
    assert_eq!(unlike, figure(&cells[1], "differs_from_unbound"), "{said}");
    assert!(cells[1].get("answers").is_none(), "one of the cells has it");
    let diff = &cells[0]["answers"];
    assert_eq!(
        (&diff["servers"][0]["name"], &diff["servers"][1]["name"]),
        (&"unbound".into(), &"bind9".into())
    );
    let count = |key: &str| diff[key].as_u64().expect("a count");
    assert_eq!(count("asked"), 300);
    let all = ["equal", "differ", "known", "unstable", "unchecked"].map(count);
    assert_eq!(all.iter().sum::<u64>(), 300, "{diff}");
    diff
}

#[test]
fn differences_that_are_known_or_ignored_are_none() {
    if !are_here() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("known.txt"), "* *.example.test *\n").expect("writes");
    let known = EXPERIMENT.replace("mixed = 300", "mixed = 40");
    let known = format!("{known}known = \"known.txt\"\nignore = [\"ttl\"]\n");
    let Some(Ran { told: said, run: record, .. }) = run(dir.path(), &known, "") else { return };
    let diff = &record["results"][0]["answers"];
    assert_eq!((&diff["differ"], &diff["asked"]), (&0.into(), &40.into()), "{said}");
    assert_eq!(diff["ignored"], serde_json::json!(["ttl"]), "{said}");
}

#[test]
fn the_queries_of_a_capture_are_asked() {
    if !are_here() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let mut out = Writer::new(Vec::new()).expect("writes");
    for number in 0..20u16 {
        let bytes = query(&format!("n{:08}.example.test", number / 2), Qtype::AAAA, number);
        let at = Nanos::from_millis(u64::from(number));
        write_udp(&mut out, at, ([10, 0, 0, 1], 1_000 + number), ([192, 0, 2, 53], 53), &bytes);
    }
    let capture = out.finish().expect("in memory");
    std::fs::write(dir.path().join("day.pcap"), capture).expect("written");
    let captured = EXPERIMENT.replace("mixed = 300", "mixed = 40\nreplay = \"day.pcap\"");
    let Some(Ran { told: said, run: record, .. }) = run(dir.path(), &captured, "") else { return };
    let diff = &record["results"][0]["answers"];
    // As they were sent: the second for a name too, and none has EDNS.
    assert_eq!(
        (&diff["asked"], &diff["queries_from"][0]),
        (&20.into(), &"day.pcap".into()),
        "{said}"
    );
    let kinds = diff["kinds"].as_array().expect("kinds");
    assert!(kinds.iter().all(|kind| kind["kind"] != "edns"), "{diff}");
    assert!(
        record["inputs"].as_array().is_some_and(|inputs| inputs[0]["key"] == "replay"),
        "{record}"
    );
}

#[test]
fn servers_of_the_lab_are_compared_also_after_an_interrupt() {
    if !are_here() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    // Slow enough that it does not end before it is interrupted.
    let slow = EXPERIMENT.replace("\"1k\"", "\"80\"");
    std::fs::write(dir.path().join("x.toml"), &slow).expect("writes");
    let mut child = dnsdyno("run --wait --plain x.toml")
        .env("DNSDYNO_STORE", dir.path().join("runs.db"))
        .env("DNSDYNO_TEST_TRIAL", "1s")
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut said = String::new();
    for line in lines.map_while(Result::ok) {
        said += &(line + "\n");
        if said.contains("\n  BIND 9 ") && !said.contains("interrupted") {
            kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("signals");
        }
    }
    let code = child.wait().expect("ends").code();
    if said.contains("cannot get its namespaces") {
        return skip::because(said);
    }
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("not measured: interrupted"), "{said}");
    let Some(done) = run(dir.path(), &slow, "--resume last") else { return };
    assert_eq!(done.code, 0, "{}", done.told);
    assert_eq!(done.run["seams"].as_array().map(Vec::len), Some(1));
    let Some(again) = run(dir.path(), &slow, "--resume last") else { return };
    assert_eq!(again.code, 2, "{}", again.told);
    let Ran { told: said, run: record, .. } = done;
    check_schema("run", &record);
    let diff = compared(&record, &said);
    // Of the names with an excluded AAAA record, the 18th of each twenty, and of no others the answers themselves may differ.
    for kind in diff["kinds"].as_array().expect("kinds").iter().filter(|k| k["kind"] == "answer") {
        for sample in kind["samples"].as_array().expect("samples") {
            assert_eq!(sample["number"].as_u64().map(|number| number % 20), Some(17), "{sample}");
        }
    }
    let pair = &diff["pairs"][0];
    let kinds = pair["kinds"].as_object().expect("kinds").values();
    assert_eq!(kinds.filter_map(Value::as_u64).sum::<u64>(), pair["differ"].as_u64().unwrap_or(0));
    for part in ["differs from bind9", "answers of unbound, bind9", "300 names of many kinds"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let page = dir.path().join("page.html");
    let (code, out, err) = run_in(dir.path(), "report last --output page.html");
    assert_eq!(code, 0, "{out}{err}");
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("Answers compared") && page.contains("300 names of many kinds"));
}

#[test]
fn what_cannot_be_compared_is_refused_with_its_place() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("known.txt"), "nothing *\n").expect("writes");
    let with = |text: &str| format!("{EXPERIMENT}{text}\n");
    let table = [
        (with("ttl = \"soon\""), "", "x.toml:14:7: "),
        (with("ignore = [\"ttl\", \"color\"]"), "", "x.toml:14:10: `color` is none of timeout"),
        (with("known = \"no.txt\""), "", "x.toml:14:9: cannot read "),
        (with("known = \"known.txt\""), "", "x.toml:14:9: known.txt:1"),
        (with(""), "--servers bind9", "one server has nothing to be compared with"),
        (
            with(""),
            "--remote far=192.0.2.1:53",
            "x.toml:6:10: far is not in the lab, where the method `answers` starts all servers",
        ),
        (with(""), "--dut far.example", "x.toml:6:10: a server on another host is not in the lab"),
    ];
    for (text, args, wanted) in table {
        let Some(ran) = run(dir.path(), &text, &format!("--dry-run {args}")) else { return };
        assert_eq!(ran.code, 2, "{wanted}: {}", ran.told);
        assert!(ran.told.contains(wanted), "{wanted}: {}", ran.told);
    }
}
