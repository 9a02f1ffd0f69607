//! The promises of the store: no stored result is lost, no foreign file is changed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use measure::{Histogram, Nanos, Void};
use record::host::{CpuFacts, HOST_SCHEMA};
use record::{
    CellRecord, CellState, Certificate, Figure, HostFacts, Plan, RunState, Series, Skipped, Store,
    StoreError, Times, Trial, TrialRecord, Voidness, WindowStep,
};

/// Environment variable with the path of the store for the child of the kill test.
const CHILD_STORE: &str = "DNSDYNO_TEST_CHILD_STORE";

/// Returns a trial at `rate_qps` of search `repeat`, with histograms and a probe.
fn trial(repeat: u32, rate_qps: f64) -> TrialRecord {
    let mut latency = Histogram::new();
    (1..500).for_each(|i| latency.record(Nanos::from_micros(i * i)));
    let mut trial: Trial =
        serde_json::from_str(include_str!("fixtures/trial.json")).expect("a trial");
    trial.latency_us = Times::from(&latency);
    trial.schedule_error_us = Times::from(&latency);
    trial.latency_from_send_us = Times::from(&Histogram::new());
    trial.probes = vec![Series {
        name: "dut.user".into(),
        unit: "%".into(),
        samples: vec![(0.5, 12.25), (1.0, f64::MAX), (1.5, -0.0)],
    }];
    TrialRecord { repeat, rate_qps, trial }
}

fn plan() -> Plan {
    let cpu = CpuFacts { model: Some("a CPU".into()), online: 2, ..CpuFacts::default() };
    Plan {
        experiment: "dns64-rfc8219".into(),
        title: "a title".into(),
        text: "name = \"x\"".into(),
        version: "0.1.0".into(),
        command: "dnsdyno run".into(),
        started_unix_s: 1_795_233_060.5,
        host: Some(HostFacts { schema: HOST_SCHEMA, cpu, ..HostFacts::default() }),
        files: [("auth.toml".to_owned(), "listen".to_owned())].into(),
        ..Plan::default()
    }
}

fn settings(cores: u32) -> BTreeMap<String, String> {
    [("cores".to_owned(), cores.to_string()), ("role".to_owned(), "dns64".to_owned())].into()
}

fn cell(server: &str, cores: u32) -> CellRecord {
    CellRecord {
        server_version: Some("1.17.1".into()),
        median_qps: Some(11_000.0),
        repeats: 2,
        goal: "zero-loss".into(),
        certificate: Some(Certificate {
            engine: Some(record::EngineKind::Sockets),
            certified_qps: 100_000.0,
            self_test_qps: 220_000.0,
            timeout_s: 0.25,
            duration_s: 2.0,
            passed: true,
            trials: vec![trial(0, 220_000.0)],
            ..Certificate::default()
        }),
        figures: [("zone_load".to_owned(), Figure::new("s", vec![1.5, 1.25]))].into(),
        series: vec![Series {
            name: "dut.resident".into(),
            unit: "B".into(),
            samples: vec![(0.0, 1e9)],
        }],
        files: [("unbound.conf".to_owned(), "server:\n".to_owned())].into(),
        ..CellRecord::new(server, settings(cores), "search")
    }
}

/// A new store in a folder of its own.
fn new_store() -> (tempfile::TempDir, std::path::PathBuf, Store) {
    let dir = folder();
    let path = dir.path().join("runs.db");
    let store = Store::open(&path).expect("a new store");
    (dir, path, store)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn what_is_stored_is_what_comes_back() {
    let dir = folder();
    let path = dir.path().join("a/folder/that/is/not/there/runs.db");
    let store = Store::open(&path).expect("a new store");
    assert_eq!((store.runs().expect("a list"), store.last().expect("none")), (vec![], None));
    let mut recording = store.begin(&plan()).expect("begins");
    let id = recording.id();
    let mut wanted = cell("unbound", 1);
    wanted.trials = vec![trial(0, 8_000.0), trial(0, 16_000.0), trial(1, 9_000.5)];
    recording.planned(&[wanted.clone(), cell("bind9", 1)]).expect("plans");
    for t in &wanted.trials {
        recording.trial(&wanted, t).expect("stores");
    }
    assert_eq!(store.runs().expect("a list")[0].state, RunState::Running);
    assert!(matches!(store.delete(id), Err(StoreError::Busy(..))), "it is going on");
    assert!(matches!(store.resume(id, "0.1.0"), Err(StoreError::Busy(..))));
    recording.cell(&wanted, false).expect("stores");
    recording.cell(&wanted, true).expect("stores it once, not twice");
    let skipped =
        Skipped { server: "bind9".into(), why: "not installed".into(), ..Skipped::default() };
    recording.skip(&skipped).expect("stores");
    recording.finish(true).expect("ends");

    let run = store.load(id).expect("loads");
    assert_eq!((run.id, run.complete, &run.skipped), (Some(id), true, &vec![skipped]));
    assert_eq!(run.plan, plan());
    assert_eq!(run.results, vec![wanted], "what was only planned is left out");
    let line = &store.runs().expect("a list")[0];
    assert_eq!((line.cells_done, line.cells, line.trials), (1, 2, 3));
    assert_eq!((line.state, line.servers.len()), (RunState::Complete, 2));
    store.delete(id).expect("deletes");
    let message = store.load(id).expect_err("gone").to_string();
    assert!(message.ends_with(&format!("there is no run {id}; the store is empty")), "{message}");
    assert_ne!(store.begin(&plan()).expect("begins").id(), id, "numbers are not used again");
}

#[test]
fn a_resumed_run_keeps_its_trials_and_has_a_seam() {
    let (_dir, _, store) = new_store();
    let mut recording = store.begin(&plan()).expect("begins");
    let id = recording.id();
    recording.cell(&cell("unbound", 1), true).expect("stores");
    recording.trial(&cell("unbound", 1), &trial(0, 1.0)).expect("stores");
    recording.trial(&cell("unbound", 2), &trial(0, 2.0)).expect("stores");
    recording.trial(&cell("unbound", 2), &trial(1, 3.0)).expect("stores");
    drop(recording);
    assert_eq!(store.runs().expect("a list")[0].state, RunState::Interrupted);

    let states = |id| {
        let cells = store.cells(id).expect("a list").into_iter();
        cells.map(|c| (c.settings, c.state, c.trials)).collect::<Vec<_>>()
    };
    let wanted = [(settings(1), CellState::Done, 1), (settings(2), CellState::Begun, 2)];
    assert_eq!(states(id), wanted);
    let mut recording = store.resume(id, "0.2.0").expect("resumes");
    recording.planned(&[cell("unbound", 1), cell("unbound", 4)]).expect("plans");
    assert_eq!(states(id)[..2], wanted, "what is there stays as it is");
    assert_eq!(states(id)[2..], [(settings(4), CellState::Planned, 0)]);
    assert_eq!(store.runs().expect("a list")[0].state, RunState::Running);
    recording.forget(&cell("unbound", 2), 1).expect("forgets");
    recording.trial(&cell("unbound", 2), &trial(1, 4.0)).expect("stores");
    // What was found before the first trial is stored with it.
    let windows = vec![WindowStep::default()];
    let begun = CellRecord { windows: windows.clone(), ..cell("unbound", 4) };
    recording.trial(&begun, &trial(0, 5.0)).expect("stores");
    recording.finish(true).expect("ends");
    let run = store.load(id).expect("loads");
    assert_eq!((run.seams.len(), run.seams[0].trials_before), (1, 3));
    assert_eq!(run.seams[0].version, "0.2.0");
    assert!(run.seams[0].resumed_unix_s >= run.seams[0].stopped_unix_s);
    let rates: Vec<f64> = run.results.iter().flat_map(|c| &c.trials).map(|t| t.rate_qps).collect();
    assert_eq!(rates, [1.0, 2.0, 4.0, 5.0]);
    assert_eq!(run.results[2].windows, windows);
}

/// Adds a run with so many cells of one trial.
fn fill(store: &Store, cells: u32) {
    let mut recording = store.begin(&plan()).expect("begins");
    for i in 0..cells {
        recording.trial(&cell("unbound", i), &trial(0, f64::from(i))).expect("stores");
        recording.cell(&cell("unbound", i), true).expect("stores");
    }
    recording.finish(true).expect("ends");
}

#[test]
fn two_processes_write_at_once() {
    let dir = folder();
    let path = dir.path().join("runs.db");
    let writers: Vec<_> = (0..4)
        .map(|n| {
            let path = path.clone();
            // Each thread has a connection of its own, as a process has; none of them finds a store at first.
            std::thread::spawn(move || {
                let store = Store::open(&path).expect("opens");
                let mut recording = store.begin(&plan()).expect("begins");
                for i in 0..10 {
                    recording.trial(&cell("unbound", n), &trial(0, f64::from(i))).expect("stores");
                }
                recording.finish(true).expect("ends")
            })
        })
        .collect();
    let ids: Vec<i64> = writers.into_iter().map(|w| w.join().expect("no panic")).collect();
    let store = Store::open(&path).expect("opens");
    for id in ids {
        assert_eq!(store.load(id).expect("loads").results[0].trials.len(), 10);
    }
    assert_eq!(store.runs().expect("a list").len(), 4);
}

/// The child of the next test: writes trials until it is killed, and prints which ones are stored.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD_STORE) else { return };
    let store = Store::open(Path::new(&path)).expect("opens");
    let mut recording = store.begin(&plan()).expect("begins");
    for i in 0..10_000 {
        recording.trial(&cell("unbound", 1), &trial(0, f64::from(i))).expect("stores");
        println!("stored {i}");
    }
}

#[test]
fn a_kill_loses_nothing_that_was_stored() {
    let dir = folder();
    let path = dir.path().join("runs.db");
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["store::child", "--exact", "--nocapture"])
        .env(CHILD_STORE, &path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut stored = lines.map(|l| l.expect("text")).filter(|l| l.starts_with("stored"));
    let seen = stored.by_ref().take(20).count();
    child.kill().expect("SIGKILL");
    let seen = seen + stored.count();
    child.wait().expect("ends");

    let store = Store::open(&path).expect("opens");
    let line = store.runs().expect("a list").remove(0);
    assert_eq!(line.state, RunState::Interrupted);
    let trials = &store.load(line.id).expect("loads").results[0].trials;
    assert!(trials.len() == seen || trials.len() == seen + 1, "{} of {seen}", trials.len());
    assert!(trials.iter().enumerate().all(|(i, t)| *t == trial(0, i as f64)));
    store.resume(line.id, "0.1.0").expect("can be taken up again");
}

#[test]
fn foreign_and_damaged_files_are_refused_and_not_changed() {
    let dir = folder();
    let good = dir.path().join("good.db");
    fill(&Store::open(&good).expect("a new store"), 20);
    let bytes = std::fs::read(&good).expect("readable");
    let spoiled = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        bytes
    };
    let table: [(&str, Vec<u8>, &str); 7] = [
        ("empty", vec![], "not a store of dnsdyno"),
        ("text", b"{\"schema\": 1}".to_vec(), "not a store of dnsdyno (it is no SQLite file)"),
        ("foreign", spoiled(&|b| b[68..72].fill(0)), "another program's SQLite file"),
        ("short", bytes[..bytes.len() / 2].to_vec(), "damaged"),
        ("header", bytes[..100].to_vec(), "damaged"),
        ("middle", spoiled(&|b| b[4096..16_384].fill(0xa5)), "damaged"),
        ("newer", spoiled(&|b| b[60..64].copy_from_slice(&99i32.to_be_bytes())), "version 99"),
    ];
    for (name, content, part) in table {
        let path = dir.path().join(name);
        std::fs::write(&path, &content).expect("writes");
        let error = Store::open(&path).expect_err(name);
        let message = error.to_string();
        assert!(message.contains(part) && message.contains(name), "{name}: {message}");
        assert!(message.contains("left untouched") && error.is_bad_input(), "{name}: {message}");
        assert_eq!(std::fs::read(&path).expect("readable"), content, "{name}");
    }
    assert_eq!(std::fs::read(&good).expect("readable"), bytes);
}

/// Each flipped bit is found, or changes nothing of what is read.
#[test]
fn no_flipped_bit_changes_what_is_read() {
    let dir = folder();
    let good = dir.path().join("good.db");
    fill(&Store::open(&good).expect("a new store"), 3);
    let read = |path: &Path| {
        let run = Store::open(path).and_then(|store| store.load(1));
        run.map(|run| serde_json::to_string(&run).expect("JSON"))
    };
    let (bytes, wanted) = (std::fs::read(&good).expect("readable"), read(&good).expect("a run"));
    let mut rng = measure::Rng::new(7);
    let mut refused = 0;
    for n in 0..300 {
        let mut content = bytes.clone();
        let at = rng.below(8 * content.len() as u64) as usize;
        content[at / 8] ^= 1 << (at % 8);
        let path = dir.path().join("flipped.db");
        std::fs::write(&path, &content).expect("writes");
        match read(&path) {
            Ok(run) => assert!(run == wanted, "flip {n}, bit {at}: another run is read"),
            Err(e) => {
                refused += 1;
                assert!(e.to_string().contains("flipped.db"), "{e}");
            }
        }
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(dir.path().join(format!("flipped.db{suffix}")));
        }
    }
    // Most octets of this small store are room that is not in use.
    assert!(refused > 30, "{refused} are refused");
}

#[test]
fn a_changed_run_is_named_and_can_be_deleted() {
    let (_dir, path, store) = new_store();
    (0..2).for_each(|_| fill(&store, 1));
    let connection = rusqlite::Connection::open(&path).expect("opens");
    let of_run = "rate_qps = 0 AND cell = (SELECT id FROM cell WHERE run = 2)";
    let changed = connection.execute(&format!("UPDATE trial SET rate_qps = 8 WHERE {of_run}"), []);
    assert_eq!(changed, Ok(1));
    let error = store.load(2).expect_err("it cannot be trusted");
    let told = error.to_string();
    assert!(told.contains("run 2 has changed") && told.contains("`dnsdyno delete 2`"), "{told}");
    assert!(error.is_bad_input());
    store.load(1).expect("the other run is as it was");
    store.delete(2).expect("deletes");
    store.load(1).expect("the other run");
}

/// A row that says that it belongs to another run, to none, or to a cell of another run, is missed by its own.
#[test]
fn a_row_that_moved_to_another_run_is_missed() {
    for change in [
        "UPDATE cell SET run = 2 WHERE id = 1",
        "UPDATE trial SET cell = 2 WHERE id = 1",
        "UPDATE trial SET cell = 99 WHERE id = 1",
        "UPDATE histogram SET trial = 9 WHERE trial = 1 AND name = 'latency_us'",
        "UPDATE series SET cell = 2 WHERE trial = 1",
        "UPDATE file SET run = 2 WHERE run = 1",
    ] {
        let (_dir, path, store) = new_store();
        for server in ["unbound", "nsd"] {
            let mut recording = store.begin(&plan()).expect("begins");
            recording.trial(&cell(server, 1), &trial(0, 7.0)).expect("stores");
            recording.finish(true).expect("ends");
        }
        let connection = rusqlite::Connection::open(&path).expect("opens");
        connection.pragma_update(None, "foreign_keys", false).expect("no checks");
        // Only what says to what the row belongs has changed, as by a flipped bit.
        assert_eq!(connection.execute(change, []), Ok(1), "{change}");
        let error = store.load(1).expect_err(change).to_string();
        assert!(error.contains("has changed on the disk"), "{error}");
    }
}

#[test]
fn what_is_deleted_gives_its_space_back() {
    let (_dir, path, store) = new_store();
    (0..2).for_each(|_| fill(&store, 40));
    store.compact().expect("compacts");
    let size = || std::fs::metadata(&path).expect("it is there").len();
    let before = size();
    store.delete(1).expect("deletes");
    store.compact().expect("compacts");
    assert!(size() < before * 2 / 3, "{} of {before}", size());
    store.load(2).expect("the other run");
}

#[test]
fn only_ordinary_files_are_opened() {
    let dir = folder();
    let fifo = dir.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().expect("coreutils");
    assert!(made.success());
    for path in [fifo.as_path(), dir.path(), Path::new("/dev/null")] {
        let error = Store::open(path).expect_err("it is no store").to_string();
        assert!(error.contains("no ordinary file"), "{error}");
    }
}

#[test]
fn the_view_names_the_reason_of_a_void_trial() {
    let (_dir, path, store) = new_store();
    let mut recording = store.begin(&plan()).expect("begins");
    let mut void = trial(0, 1.0);
    void.trial.void = Voidness(Some(Void::Starved { run_delay: 0.5, foreign: 0.0 }));
    recording.trial(&cell("unbound", 1), &void).expect("stores");
    recording.finish(true).expect("ends");
    assert_eq!(store.load(1).expect("loads").results[0].trials, [void]);
    let connection = rusqlite::Connection::open(&path).expect("opens");
    let reason: String =
        connection.query_row("SELECT void FROM measured", [], |r| r.get(0)).expect("a reason");
    assert_eq!(reason, "starved");
}

#[test]
fn the_place_of_the_store() {
    use record::store::default_path;
    type Row<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>);
    let table: [Row<'_>; 6] = [
        (&[("DNSDYNO_STORE", "x.db"), ("HOME", "/h")], Some("x.db")),
        (&[("XDG_DATA_HOME", "/d"), ("HOME", "/h")], Some("/d/dnsdyno/runs.db")),
        (&[("XDG_DATA_HOME", "d"), ("HOME", "/h")], Some("/h/.local/share/dnsdyno/runs.db")),
        (&[("DNSDYNO_STORE", ""), ("HOME", "/h")], Some("/h/.local/share/dnsdyno/runs.db")),
        (&[("HOME", "")], None),
        (&[], None),
    ];
    for (set, wanted) in table {
        let found = default_path(|name| {
            set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).into())
        });
        assert_eq!(found.as_deref(), wanted.map(Path::new), "{set:?}");
    }
}
