//! What a user sees: good input, bad input, and the JSON that scripts rely on. Loopback only.

use std::path::Path;

use serde_json::Value;

use crate::guide::has_the_table;
use crate::kit::AuthDns;
use crate::kit::command::{Ran, json, load, refused, run, run_in};

#[test]
fn bad_input_gets_one_message_with_its_place() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("writes");
        path.to_str().expect("UTF-8").to_owned()
    };
    let queries =
        file("q.txt", "a.example A\nb.example A\n\n; c\ne.example A\nf.example A\ng.example AX\n");
    let toml =
        file("bad.toml", "name = \"x\"\ntitle = \"x\"\nrole = \"dns64\"\nservers = [\"unbound\"\n");
    let good = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/dns64-rfc8219.toml"),
    )
    .expect("reads");
    let unknown = file("unknown.toml", &good.replace("\"unbound\"", "\"unbund\""));
    let key = file("key.toml", &good.replace("repeats = 20", "repeats = 20\nrepeat = 3"));
    for (line, part) in [
        (format!("load 127.0.0.1:1 --queries {queries}"), "q.txt:7:11: "),
        (
            "load 127.0.0.1:1 --namespace 10.0.0.0/24 --rate 1k --duration 1s".to_owned(),
            "1000 queries are planned, but there are 256 names",
        ),
        ("load 127.0.0.1:1 --namespace 10.0.0.1/24".to_owned(), "10.0.0.0/24"),
        ("load 127.0.0.1:1 --pacing lockstep --threads 257".to_owned(), "take 1 to 256"),
        ("load 127.0.0.1:1 --times -".to_owned(), "--times requires --pacing lockstep"),
        ("load 127.0.0.1:1 --name a.test --unpadded".to_owned(), "use it with --namespace"),
        (format!("run {toml}"), "bad.toml:4:"),
        (format!("run {key}"), "unknown field `repeat`"),
        (
            "run no-such-experiment".to_owned(),
            "built in: auth-memory, auth-scaling, client-maximum, ",
        ),
    ] {
        let err = refused(&line);
        assert!(err.contains(part), "{line}: {err}");
    }
    // The lab reads servers inside of its namespaces; where the kernel gives none it says so.
    let (code, _, err) = run(&format!("run {unknown}"));
    if code == 1 && err.contains("namespaces") {
        skip::because(format_args!("the name of a server is not checked: {err}"));
    } else {
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("unbund") && err.contains("unbound"), "{err}");
    }
}

#[test]
fn the_doctor_says_what_this_host_is_good_for() {
    let (code, out, err) = run("doctor --no-verify --rate 2k --duration 300ms");
    assert_eq!(code, 0, "{out}{err}");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for row in ["processor ", "kernel ", "root ", "open files ", "servers "] {
        assert!(out.lines().any(|line| line.starts_with(row)), "{row}: {out}");
    }
    // Whether it is sure depends on what else the machine does.
    assert!(out.contains("\nIts Tester is "), "{out}");
    assert!(out.contains(&format!("\nWith {cores} core")), "{out}");
}

#[test]
fn the_doctor_writes_what_it_finds() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("doctor.json");
    let line = "doctor --quiet --rate 2k --duration 300ms --json doctor.json";
    let (_, out, err) = run_in(dir.path(), line);
    let text = std::fs::read(&file).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    let found: Value = serde_json::from_slice(&text).expect("JSON");
    let sentences: Vec<&str> =
        found["sentences"].as_array().expect("a list").iter().filter_map(|s| s.as_str()).collect();
    let last: Vec<&str> = out.trim_end().lines().rev().take(3).collect();
    assert_eq!(last.into_iter().rev().collect::<Vec<_>>(), sentences, "{out}");
    assert!(sentences[1].contains("known values it found"), "{sentences:?}");
    for row in ["link modes ", "kernel engine "] {
        assert!(out.lines().any(|line| line.starts_with(row)), "{row}: {out}");
    }
    assert!(found["found"]["checks"].as_array().is_some_and(|checks| checks.len() > 10), "{found}");
    assert!(found["host"]["cpu"]["online"].as_u64().is_some() && found["self_test"].is_object());
    // No progress and no notes.
    assert!(!err.contains("half a minute"), "{err}");
}

#[test]
fn names_that_were_not_given_are_said() {
    let auth = AuthDns::start(&["--zone", "other.test"]);
    for command in ["load", "search"] {
        let line = format!("{command} {}", auth.plain());
        let (code, _, err) = run(&line);
        assert!(code == 1 && err.contains("REFUSED"), "{err}");
        assert!(
            err.contains("no names were given") && err.contains("--queries FILE or --name NAME"),
            "{err}"
        );
        let (_, _, err) = run(&format!("{line} --name x.test"));
        assert!(err.contains("REFUSED") && !err.contains("no names were given"), "{err}");
    }
}

#[test]
fn an_occupied_port_is_named() {
    let auth = AuthDns::start(&[]);
    let (code, _, err) = run(&format!("auth --listen {}", auth.plain()));
    assert_eq!(code, 1);
    assert!(err.contains(auth.plain()), "{err}");
}

/// The last query has its time too: four at 20 a second took 0.2 s, not 0.15 s.
#[test]
fn a_file_that_ends_is_not_sent_faster_than_its_rate() {
    let auth = AuthDns::start(&[]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    for (lines, pacing) in [(1, "constant"), (4, "constant"), (1, "poisson")] {
        std::fs::write(file.path(), "dns64perf.test SOA\n".repeat(lines)).expect("writes");
        let path = file.path().display();
        let args = format!("--queries {path} --runs 1 --rate 20 --pacing {pacing}");
        let trial = load(auth.plain(), &args);
        assert_eq!(trial["sent"], lines);
        let offered = trial["offered_qps"].as_f64().expect("a number");
        assert!(offered <= 20.001, "{offered} queries a second of {lines}, {pacing}");
    }
}

#[test]
fn the_json_of_a_trial_is_a_contract() {
    let auth = AuthDns::start(&[]);
    let trial = load(
        auth.plain(),
        "--namespace 10.0.0.0/12 --type A --rate 2k --duration 500ms --goal 'loss < 50%'",
    );
    let number = |name: &str| trial[name].as_f64().unwrap_or_else(|| panic!("{name} is a number"));
    assert_eq!(number("sent"), 1_000.0);
    assert_eq!(number("valid"), number("answered"));
    assert_eq!(number("answered") + number("lost"), 1_000.0);
    assert!((number("offered_qps") - 2_000.0).abs() < 1e-6);
    assert_eq!(number("duration_s"), 0.5);
    assert!(number("answered_qps") > 0.0 && number("late") >= 0.0);
    for distribution in ["latency_us", "schedule_error_us"] {
        for percentile in ["p50", "p90", "p99", "p999", "max"] {
            assert!(trial[distribution][percentile].is_number(), "{distribution}.{percentile}");
        }
    }
    assert!(trial["invalid"].as_object().expect("by reason").is_empty());
    assert!(trial["limiter"].is_string());
    assert!(trial["void"] == Value::Bool(false) || trial["void"]["reason"].is_string());
}

#[test]
fn faults_are_named() {
    for (fault, reason) in [
        ("wrong-address", "wrong-address"),
        ("wrong-question", "wrong-question"),
        ("truncate", "truncated"),
        ("cut", "malformed"),
    ] {
        let auth = AuthDns::start(&["--fault", fault]);
        let args = "--namespace 10.0.0.0/12 --type A --rate 500 --duration 200ms";
        let trial = load(auth.plain(), args);
        let (sent, lost) =
            (trial["sent"].as_u64().expect("a number"), trial["lost"].as_u64().expect("a number"));
        assert_eq!(
            trial["invalid"][reason].as_u64(),
            Some(sent - lost),
            "{fault}: {}",
            trial["invalid"]
        );
        assert_eq!(trial["valid"], 0);
    }
}

#[test]
fn the_address_in_each_answer_is_checked_unless_asked_otherwise() {
    let checked = "addresses checked under any prefix";
    let (with, without) = (AuthDns::start(&["--aaaa", "always"]), AuthDns::start(&[]));
    let table = [
        (&with, "", true, true),
        // Empty answers.
        (&without, "", false, true),
        (&without, "--expect noerror", true, false),
    ];
    for (auth, expect, valid, is_checked) in table {
        let args = format!("--namespace 10.0.0.0/12 --rate 500 --duration 200ms {expect}");
        let trial = load(auth.plain(), &args);
        assert_eq!(trial["valid"] == trial["answered"], valid, "{expect:?}: {}", trial["invalid"]);
        let workload = trial["conditions"]["workload"].as_str().expect("words");
        assert_eq!(workload.contains(checked), is_checked, "{workload}");
        let warnings = trial["warnings"].as_array().expect("a list");
        let says = warnings.iter().any(|warning| warning["kind"] == "address-not-checked");
        assert_eq!(says, !is_checked, "{warnings:?}");
    }
    let (_, out, err) = run(&format!(
        "search {} --expect noerror --duration 200ms --repeats 1 --max 2k --start 1k \
         --goal 'p99 < 5ms, loss < 0.1%'",
        without.plain()
    ));
    assert!(out.contains("warning: the answers' addresses were not checked"), "{out}");
    has_the_table("dnsdyno search 127.0.0.1:5300", &out);
    let mut trials = err.lines().filter(|line| line.contains(" qps  p99 "));
    assert!(trials.clone().count() > 0, "{err}");
    assert!(trials.all(|line| line.contains("; about ") && line.ends_with(" left")), "{err}");
}

#[test]
fn a_goal_that_is_missed_by_latency_has_a_limiter() {
    let auth = AuthDns::start(&["--delay", "20ms"]);
    let args = "--namespace 10.0.0.0/12 --type A --rate 200 --duration 300ms --goal 'p99 < 5ms' --timeout 5s";
    let trial = load(auth.plain(), args);
    assert_eq!((&trial["passed"], &trial["lost"]), (&false.into(), &0.into()), "{trial}");
    // A busy machine may void it.
    assert!(trial["limiter"] == "target" || trial["void"] != false, "{}", trial["limiter"]);
    // The quantity that missed it is said, and what the goal demands beside it.
    let (code, out, err) = run(&format!("load {} {args}", auth.plain()));
    assert_eq!(code, 1, "{out}{err}");
    assert!(
        err.contains("goal p99 < 5ms, loss = 0: every query also needs a valid reply"),
        "{err}"
    );
    let missed = out.lines().find(|line| line.starts_with("goal ")).expect("a line");
    assert!(missed.contains("missed: p99 ") && missed.contains("not < 5ms"), "{missed}");
}

#[test]
fn a_search_that_cannot_pass_says_so() {
    let auth = AuthDns::start(&["--loss", "0.01"]);
    let (code, out, err) = run(&format!(
        "search {} --type A --start 2k --duration 300ms --timeout 200ms --repeats 1 --json -",
        auth.plain()
    ));
    let found: Value = serde_json::from_str(&out).expect("JSON");
    let result = &found["results"][0];
    assert_eq!(code, 1, "{err}");
    assert!(
        result["median_qps"].is_null() && result["trials"].as_array().is_some_and(|t| t.len() >= 2)
    );
    for name in ["server", "p01_qps", "p99_qps", "repeats", "conforming", "limiter"] {
        assert!(result.get(name).is_some(), "{name}");
    }
    assert_eq!(result["conforming"], Value::Bool(false));
    // Where something else uses the cores the search is void, and says so.
    let void = result["void_repeats"].as_array().map_or(0, Vec::len) as u64;
    assert_eq!(result["repeats"].as_u64().map(|searches| searches + void), Some(1), "{result}");
}

#[test]
fn a_search_uses_names_again_only_where_it_may() {
    let auth = AuthDns::start(&[]);
    let line = format!(
        "search {} --namespace 10.0.0.0/24 --type A --json - --start 2k --max 2k --duration 300ms --repeats 1",
        auth.plain()
    );
    let err = refused(&line);
    assert!(err.contains("600 queries are planned"), "{err}");
    let run = json(&format!("{line} --reuse-names"));
    assert_eq!(run["results"][0]["trials"][0]["sent"], 600, "{run}");
    let differs = run["results"][0]["differs"].to_string();
    assert!(differs.contains("more than once also within one trial"), "{differs}");
}

#[test]
fn lock_step_keeps_the_time_of_each_experiment() {
    // The AuthDNS answers both forms of the names: those of dns64perf++, and those of dns64perf.
    let auth = AuthDns::start(&[]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(2);
    let cpus = if cores > 1 { "0,1" } else { "0" };
    let dir = tempfile::tempdir().expect("a folder");
    let (times, json) = (dir.path().join("times.csv"), dir.path().join("table.json"));
    for form in ["", "--unpadded"] {
        let (_, out, err) = run_in(
            dir.path(),
            &format!(
                "load {} --pacing lockstep --threads 3,4 --experiments 5 --cpus {cpus} --type A --timeout 5s \
                 --times times.csv --json table.json {form}",
                auth.plain()
            ),
        );
        for part in [
            "Number of threads",
            "Exec. time of 256 queries (ms)",
            "std. dev.",
            "Number of queries per second",
            "CPU utilization (%)",
        ] {
            assert!(out.contains(part), "{part}: {out}{err}");
        }
        let rows: Vec<Vec<String>> = std::fs::read_to_string(&times)
            .unwrap_or_else(|e| panic!("{e}: {out}{err}"))
            .lines()
            .map(|line| line.split(',').map(str::to_owned).collect())
            .collect();
        assert_eq!(rows[0], ["threads", "experiment", "time_ms"]);
        assert_eq!(rows.len(), 11, "{rows:?}");
        let table: Value = record::read(&json).expect("JSON");
        for (number, row) in rows[1..].iter().enumerate() {
            let (threads, experiment) = (["3", "4"][number / 5], number % 5);
            assert_eq!(
                (row[0].as_str(), row[1].as_str()),
                (threads, experiment.to_string().as_str())
            );
            let kept = &table["rows"][number / 5]["trial"]["experiment_times_ms"][experiment];
            assert_eq!(kept.as_f64(), row[2].parse().ok());
        }
        for row in table["rows"].as_array().expect("rows") {
            assert_eq!(row["trial"]["valid"], 5 * 256, "{form:?}: {row}");
        }
    }
}

#[test]
fn the_help_of_every_command_shows_two_examples() {
    for command in ["load", "search", "selftest", "auth", "run", "verify"] {
        let (code, out, _) = run(&format!("{command} --help"));
        assert_eq!(code, 0);
        let examples = &out[out.find("Examples:").expect("examples")..];
        assert!(examples.matches(&format!("dnsdyno {command}")).count() >= 2, "{command}");
    }
    let dir = tempfile::tempdir().expect("a folder");
    assert_eq!(run(&format!("man {}", dir.path().display())).0, 0);
    assert!(dir.path().join("dnsdyno-load.1").exists());
}

#[test]
fn a_server_that_does_not_start_is_named_with_its_last_words() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let adapter = std::fs::read_to_string(root.join("servers/unbound.toml")).expect("reads");
    // The same adapter under another name, with a program that ends at once.
    let broken = adapter
        .replace("name = \"unbound\"", "name = \"broken\"")
        .replace("binaries = [\"unbound\"]", "binaries = [\"false\"]");
    assert!(broken.contains("\"false\"") && broken.contains("\"broken\""));
    let servers = dir.path().join("servers");
    std::fs::create_dir(&servers).expect("makes");
    std::fs::write(servers.join("broken.toml"), broken).expect("writes");
    let text = "name = \"x\"\ntitle = \"x\"\nrole = \"dns64\"\nservers = [\"broken\"]\nmethod = \"closed\"\nrepeats = 1\n\
                [workload]\nnamespace = \"0.0.0.0/2\"\n[closed]\nduration = \"200ms\"\nwindow = 8\n";
    let line = format!("--servers-dir {}", servers.display());
    let Some(ran) = Ran::experiment(dir.path(), "200ms", text, &line) else { return };
    assert!(ran.code == 1 && ran.told.contains("broken"), "{}", ran.told);
}

#[test]
fn a_load_is_kept_where_that_is_wanted() {
    let (auth, dir) = (AuthDns::start(&[]), tempfile::tempdir().expect("a temporary folder"));
    let load = format!("load {} --rate 200 --duration 200ms", auth.plain());
    let load = format!("{load} --namespace 10.0.0.0/16 --type A --store runs.db");
    let (_, _, err) = run_in(dir.path(), &load);
    assert!(err.contains("kept as run 1 in "), "{err}");
    let (_, out, err) = run_in(dir.path(), "export 1 --format json --store runs.db");
    let run: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    assert_eq!(run["experiment"], "load");
    let cell = &run["results"][0];
    assert_eq!(cell["server"], auth.plain());
    let trial = &cell["trials"][0];
    assert!(trial["sent"].as_u64() > Some(0), "{run}");
    // A void trial says nothing, and so it has no figures.
    assert_eq!(cell["figures"].get("valid_answers").is_some(), trial["void"] == false, "{run}");
    let (_, page, err) = run_in(dir.path(), "report 1 --output - --store runs.db");
    assert_eq!(page.contains("Histogram of latencies"), trial["void"] == false, "{err}");
    let err = refused(&format!("load {} --pacing lockstep --store runs.db", auth.plain()));
    assert!(err.contains("is not kept: `dnsdyno run dns64-lockstep`"), "{err}");
}
