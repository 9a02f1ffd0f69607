//! Edges of a command: outputs that cannot be written, readers and terminals that are gone, signals, stores of others. What was
//! measured is kept and told whatever fails after it.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::Value;

use crate::kit::AuthDns;
use crate::kit::command::{Ran, refused, run_in, runs, said, small_load, trials};
use crate::kit::host::signal;
use crate::kit::words::words;

/// Number of the user nobody, who may write nothing of root.
const NOBODY: u32 = 65_534;

/// Returns a command in a folder with a store of its own.
fn dnsdyno(dir: &Path, line: &str) -> Command {
    // Who starts the tests may ignore signals, as nohup does.
    started_by(dir, line, &["--default-signal=HUP,INT,QUIT"])
}

/// Returns such a command with options of `env` about its signals.
fn started_by(dir: &Path, line: &str, signals: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(signals).arg(cargo_bin("dnsdyno")).args(words(line));
    command.current_dir(dir).env("DNSDYNO_STORE", dir.join("runs.db")).stdin(Stdio::null());
    command
}

/// Returns the line of a load of some time.
fn load(auth: &AuthDns, time: &str) -> String {
    let target = auth.plain();
    format!("load {target} --rate 200 --duration {time} --type A --namespace 10.0.0.0/8")
}

/// Puts a small run into the store of a folder.
fn keep_a_run(dir: &Path, auth: &AuthDns) {
    let (_, _, err) = run_in(dir, &format!("{} --keep", load(auth, "200ms")));
    assert!(err.contains("kept as run"), "{err}");
}

/// Longest wait for an event that must happen: a run waits up to five minutes for its cores, and one more is for the event.
const MAX_WAIT: Duration = Duration::from_secs(6 * 60);

/// Waits until a condition is true.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < MAX_WAIT, "not within {MAX_WAIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn outputs_are_tried_before_anything_is_measured() {
    let (auth, dir) = (AuthDns::start(&[]), tempfile::tempdir().expect("a folder"));
    let folder = dir.path().display().to_string();
    let missing = format!("{folder}/missing/x");
    let foreign = format!("{folder}/foreign");
    std::fs::write(&foreign, "no store").expect("writes");
    let search = format!("search {} --duration 10m --namespace 10.0.0.0/8", auth.plain());
    let long = load(&auth, "1h");
    for line in [
        &*long,
        &*search,
        "selftest --rate 1k --duration 1h",
        "verify --quick --loopback --wait",
        "run auth-scaling --wait --no-store",
    ] {
        for (option, path, why) in [
            ("--json", &missing, "the folder does not exist"),
            ("--json", &folder, "is a directory"),
            ("--write-certificate", &missing, "the folder does not exist"),
            ("--store", &foreign, "not a store"),
        ] {
            let is = |commands: &[&str]| commands.iter().any(|command| line.starts_with(command));
            let reads_it = option == "--write-certificate" && !is(&["selftest", "verify"]);
            let has_no_store = option == "--store" && is(&["selftest", "verify", "run"]);
            if reads_it || has_no_store {
                continue;
            }
            let (code, _, told) = run_in(dir.path(), &format!("{line} {option} {path}"));
            assert_eq!(code, 2, "{line} {option}: {told}");
            assert!(told.contains(why) && told.contains(path.as_str()), "{line}: {told}");
        }
    }
}

#[test]
fn a_device_stays_a_device() {
    let (auth, dir) = (AuthDns::start(&[]), tempfile::tempdir().expect("a folder"));
    keep_a_run(dir.path(), &auth);
    let null = dir.path().join("null");
    let made = Command::new("mknod").arg(&null).args(["c", "1", "3"]).output().expect("coreutils");
    if !made.status.success() {
        return skip::because(String::from_utf8_lossy(&made.stderr));
    }
    for line in [
        &*format!("{} --json null", load(&auth, "200ms")),
        "export 1 --format json --output null",
        "report 1 --output null",
    ] {
        let (code, _, told) = run_in(dir.path(), line);
        // A file system without devices refuses all of them; the trial is void where the machine is busy.
        let void = code == 1 && line.starts_with("load");
        assert!(told.contains("Permission denied") || code == 0 || void, "{line}: {told}");
        let kind = std::fs::symlink_metadata(&null).expect("it is there").file_type();
        assert!(kind.is_char_device(), "{line} replaced it");
    }
    // A link to a file stays a link.
    let (link, file) = (dir.path().join("link"), dir.path().join("file"));
    std::fs::write(&file, "old").expect("writes");
    std::os::unix::fs::symlink(&file, &link).expect("links");
    run_in(dir.path(), "export 1 --format json --output link");
    assert!(std::fs::symlink_metadata(&link).expect("it is there").is_symlink());
    assert!(std::fs::read_to_string(&file).expect("the file").starts_with('{'));
}

#[test]
fn streams_that_take_nothing_lose_no_result() {
    let (auth, dir) = (AuthDns::start(&[]), tempfile::tempdir().expect("a folder"));
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let json = dir.path().join("x.json");
    let line = format!("{} --keep --json x.json", load(&auth, "200ms"));
    let mut kept = 0;
    let mut check = |output: Output, part: &str| {
        kept += 1;
        let told = said(&output);
        // The trial is void where the machine is busy.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{told}");
        assert!(told.contains(part) && !told.contains("panicked"), "{told}");
        std::fs::remove_file(&json).expect("it was written");
        assert_eq!(runs(dir.path()).as_array().map(Vec::len), Some(kept));
    };
    let run = |change: &dyn Fn(&mut Command)| {
        let mut command = dnsdyno(dir.path(), &line);
        change(&mut command);
        command.output().expect("starts")
    };
    let into_full = |command: &mut Command| {
        command.stdout(full());
    };
    check(run(&into_full), "cannot write the standard output: No space left");
    let into_full = |command: &mut Command| {
        command.stderr(full());
    };
    check(run(&into_full), "");
    // Nobody reads any more.
    for closes_stdout in [true, false] {
        let mut command = dnsdyno(dir.path(), &line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut told = String::new();
        if closes_stdout {
            drop(stdout);
            stderr.expect("piped").read_to_string(&mut told).expect("text");
        } else {
            drop(stderr);
            stdout.expect("piped").read_to_string(&mut String::new()).expect("text");
        }
        let status = child.wait().expect("ends");
        check(Output { status, stdout: Vec::new(), stderr: told.into_bytes() }, "");
    }
    // They are closed from the beginning.
    let closed = |how: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$@\" {how}"), "sh"]).arg(cargo_bin("dnsdyno"));
        command.args(words(&line)).current_dir(dir.path());
        command.env("DNSDYNO_STORE", dir.path().join("runs.db")).output().expect("starts")
    };
    check(closed(">&-"), "");
    check(closed("2>&-"), "");
    check(closed("<&- >&- 2>&-"), "");
}

#[test]
fn a_signal_ends_a_load_or_a_search_and_keeps_what_was_measured() {
    let auth = AuthDns::start(&[]);
    let load = format!("{} --interval 50ms", load(&auth, "1h"));
    let search = format!(
        "search {} --start 200 --min 100 --max 1k --type A --duration 300ms --namespace 10.0.0.0/8 --repeats 10000",
        auth.plain()
    );
    for (line, name) in [
        (&load, "HUP"),
        (&load, "INT"),
        (&load, "TERM"),
        (&search, "HUP"),
        (&search, "TERM"),
        (&search, "KILL"),
    ] {
        let dir = tempfile::tempdir().expect("a folder");
        let is_search = line.starts_with("search");
        // A script starts background processes that ignore SIGINT.
        let signals = ["--default-signal=HUP", "--ignore-signal=INT"];
        let mut command = started_by(dir.path(), &format!("{line} --keep --json x.json"), &signals);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        // A search tells each trial, a load each interval. On a busy machine the first trials may be void.
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut has_passed = !is_search;
        for number in 1.. {
            let line = lines.next().expect("another line").expect("text");
            has_passed |= line.contains("passed");
            if has_passed && number >= 2 {
                break;
            }
        }
        std::thread::spawn(move || lines.for_each(drop));
        signal(child.id(), name);
        let mut told = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut told).expect("text");
        let status = child.wait().expect("ends");
        let run = &runs(dir.path())[0];
        assert!(run["trials"].as_u64() >= Some(1), "{line} {name}: {run}");
        if name == "KILL" {
            assert_eq!(run["state"], "interrupted");
            continue;
        }
        assert_eq!(status.code(), Some(1), "{line} {name}: {told}");
        assert!(told.contains("qps"), "{line} {name}: {told}");
        let had_passed = told.contains("was interrupted: ") && told.contains(" qps passed");
        assert!(!is_search || had_passed, "{name}: {told}");
        assert_eq!(run["state"], "incomplete", "{line} {name}");
        let record = std::fs::read(dir.path().join("x.json")).expect("it was written");
        let record: Value = serde_json::from_slice(&record).expect("JSON");
        let void = ["/void/reason", "/complete"].map(|at| record.pointer(at).cloned());
        assert!(
            void == [Some("interrupted".into()), None] || void == [None, Some(false.into())],
            "{line} {name}: {void:?}"
        );
    }
}

#[test]
fn a_lost_terminal_ends_the_view_and_not_the_run() {
    for (repeats, name) in [(4, None), (10_000, Some("TERM")), (10_000, Some("INT"))] {
        let dir = tempfile::tempdir().expect("a folder");
        small_load(dir.path(), "x", repeats, "500ms");
        let pair = native_pty_system().openpty(PtySize::default()).expect("a terminal");
        let mut command = CommandBuilder::new("env");
        command.args(["--default-signal=INT,QUIT", "sh"]);
        // Whoever goes away from a run uses nohup, or a shell that does the same.
        command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
        command.arg(cargo_bin("dnsdyno"));
        command.args(["run", "--wait=5m", "x.toml"]);
        command.cwd(dir.path());
        command.env("DNSDYNO_STORE", dir.path().join("runs.db"));
        command.env("TERM", "xterm-256color");
        command.env("DNSDYNO_TEST_TRIAL", "500ms");
        let mut child = pair.slave.spawn_command(command).expect("starts");
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().expect("reads");
        let (mut seen, mut bytes) = (String::new(), [0; 4_096]);
        while !seen.contains("authdns") {
            match reader.read(&mut bytes) {
                Ok(n @ 1..) => seen += &String::from_utf8_lossy(&bytes[..n]),
                _ => break,
            }
        }
        if seen.contains("cannot get its namespaces") {
            return skip::because(seen);
        }
        drop((reader, pair.master));
        if let Some(name) = name {
            wait_for("a trial", || trials(dir.path()) >= 1);
            signal(child.process_id().expect("a number"), name);
        }
        wait_for("the run ends", || child.try_wait().expect("our own child").is_some());
        let run = &runs(dir.path())[0];
        // Where the machine is busy, trials are void, and the run is not complete; but it went on to its end.
        match name {
            Some(_) => assert_eq!(run["state"], "incomplete", "{run}"),
            None => assert!(run["trials"].as_u64() >= Some(repeats.into()), "{run}"),
        }
    }
}

#[test]
fn a_killed_process_of_the_lab_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    small_load(dir.path(), "x", 10_000, "500ms");
    let mut command = dnsdyno(dir.path(), "run --wait=5m x.toml");
    command.env("DNSDYNO_TEST_TRIAL", "500ms");
    let mut child = command.stderr(Stdio::piped()).spawn().expect("starts");
    let outer = child.id();
    wait_for("a trial, or no lab", || {
        trials(dir.path()) >= 1 || child.try_wait().expect("our own child").is_some()
    });
    let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"));
    for inner in children.unwrap_or_default().split_whitespace() {
        signal(inner, "KILL");
    }
    let output = child.wait_with_output().expect("ends");
    let told = said(&output);
    if told.contains("cannot get its namespaces") {
        return skip::because(told);
    }
    assert_eq!(output.status.code(), Some(137), "{told}");
    assert!(told.contains("was killed by signal 9") && told.contains("is in the store"), "{told}");
}

#[test]
fn a_server_that_dies_once_costs_one_repeat() {
    let dir = tempfile::tempdir().expect("a folder");
    let (count, program) = (dir.path().join("count"), cargo_bin("dnsdyno"));
    let (count, program) = (count.display(), program.display());
    // The second of its starts ends in the middle of the trial: after 100 of its 400 queries.
    let text = format!(
        "name = \"x\"\ntitle = \"x\"\nrole = \"authoritative\"\nservers = [\"own\"]\nmethod = \"load\"\nrepeats = 3\n\
         [workload]\nnamespace = \"10.0.0.0/24\"\n[load]\nrates = [\"400\"]\nduration = \"1s\"\ntimeout = \"200ms\"\n\
         [custom.own]\nipv6 = false\ncommand = \'\'\'n=$(cat {count} || echo 0); echo $((n + 1)) >{count}; \
         set -- {program} auth --listen {{{{ listen.v4 }}}}:{{{{ listen.port }}}} --namespace {{{{ namespace }}}} \
         --zone {{{{ zone }}}} --pref64 {{{{ pref64 }}}} --aaaa always --cpus {{{{ cpus }}}}; [ $n = 1 ] || exec \"$@\"; \
         received() {{ sed -n 's/^Udp: \\([0-9]*\\) .*/\\1/p' /proc/net/snmp; }}; last=$(($(received) + 100)); \
         \"$@\" & while [ $(received) -lt $last ]; do sleep 0.02; done; kill $!\'\'\'\n"
    );
    let Some(Ran { told, run, .. }) = Ran::experiment(dir.path(), "1s", &text, "--trust") else {
        return;
    };
    let cell = &run["results"][0];
    let void = cell["void_repeats"].as_array().cloned().unwrap_or_default();
    let died = void.iter().find(|void| void["repeat"] == 1).map(|void| void["why"].to_string());
    assert!(died.is_some_and(|why| why.contains("ended before it was stopped")), "{told}");
    let repeats = cell["trials"].as_array().expect("trials").iter().map(|trial| &trial["repeat"]);
    assert!(repeats.clone().any(|repeat| *repeat == 2), "{told}");
    assert_eq!(run["complete"], false);
}

#[test]
fn a_resumed_run_refuses_options_that_it_would_ignore() {
    for option in ["--seed 3", "--link plain", "--path wire"] {
        let told = refused(&format!("run --resume last {option}"));
        let name = option.split(' ').next().expect("a name");
        assert!(told.contains("cannot be used with") && told.contains(name), "{told}");
    }
}

/// Runs dnsdyno as the user nobody; `None` if this user may not.
fn as_nobody(dir: &Path, line: &str) -> Option<Output> {
    let output = dnsdyno(dir, line).uid(NOBODY).gid(NOBODY).output();
    skip::unless_ok(output, "no right to change the user")
}

#[test]
fn stores_that_may_not_be_written_are_read() {
    let (auth, dir) = (AuthDns::start(&[]), tempfile::tempdir().expect("a folder"));
    keep_a_run(dir.path(), &auth);
    let set = |mode| std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode));
    set(0o755).expect("our own folder");
    // The program must be in a place where everybody may read it.
    let own = tempfile::tempdir_in("/tmp").expect("a folder");
    std::fs::set_permissions(own.path(), PermissionsExt::from_mode(0o755)).expect("our own");
    for line in ["runs", "show 1", "export 1 --format json"] {
        let Some(output) = as_nobody(dir.path(), line) else { return };
        let told = said(&output);
        assert_eq!(output.status.code(), Some(0), "{line}: {told}");
        assert!(!output.stdout.is_empty(), "{line}: {told}");
    }
    let store = dir.path().join("runs.db").display().to_string();
    for line in ["delete 1", &*format!("{} --keep", load(&auth, "200ms"))] {
        let Some(output) = as_nobody(dir.path(), line) else { return };
        let told = said(&output);
        assert!(!output.status.success() && told.contains(&store), "{line}: {told}");
    }
    assert_eq!(runs(dir.path()).as_array().map(Vec::len), Some(1));
}

#[test]
fn a_store_needs_no_other_program() {
    let (auth, dir) = (AuthDns::start(&[]), tempfile::tempdir().expect("a folder"));
    for line in [&*format!("{} --keep", load(&auth, "200ms")), "show 1", "delete 1"] {
        let mut command = Command::new(cargo_bin("dnsdyno"));
        // A machine without flock, and without anything else.
        command
            .env_clear()
            .env("PATH", dir.path())
            .env("DNSDYNO_STORE", dir.path().join("runs.db"));
        let output = command.args(words(line)).stdin(Stdio::null()).output().expect("starts");
        // A load of a busy machine may be void.
        let void = output.status.code() == Some(1) && line.starts_with("load");
        assert!(output.status.success() || void, "{line}: {}", said(&output));
    }
    assert_eq!(runs(dir.path()).as_array().map(Vec::len), Some(0));
}

#[test]
fn a_full_disk_is_told() {
    let (auth, dir) = (AuthDns::start(&[]), tempfile::tempdir().expect("a folder"));
    // A file system of its own that has room for the store, and for no run.
    let script = "mount -t tmpfs -o size=200k tmpfs \"$0\" && export DNSDYNO_STORE=\"$0/runs.db\" && \
                  code=0; for n in 1 2 3 4 5 6 7 8 9; do \"$@\" || code=$?; done; exit $code";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(dir.path());
    command.arg(cargo_bin("dnsdyno")).args(words(&load(&auth, "200ms"))).arg("--keep");
    let output = command.stdin(Stdio::null()).output().expect("util-linux");
    let told = said(&output);
    if told.contains("unshare") || told.contains("mount:") {
        return skip::because(told);
    }
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("the disk is full: free some space"), "{told}");
    // It was measured, and so it is printed.
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.matches("sent").count() >= told.matches("kept as run").count(), "{out}{told}");
}

#[test]
fn a_server_that_cannot_start_is_told_before_the_self_test() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = "name = \"x\"\ntitle = \"x\"\nrole = \"authoritative\"\nservers = [\"own\"]\nmethod = \"search\"\n\
                [workload]\nnamespace = \"10.0.0.0/24\"\n[search]\ngoal = \"zero-loss\"\nstart = \"20k\"\nmax = \"40k\"\nresolution = 0.1\nduration = \"10m\"\ntimeout = \"1s\"\n\
                [custom.own]\nready = \"1s\"\ncommand = \"echo it has no licence; exit 3\"\n";
    let Some(Ran { code, told, .. }) =
        Ran::experiment(dir.path(), "1s", text, "--trust --no-store")
    else {
        return;
    };
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("it has no licence") && !told.contains("self-test of the"), "{told}");
}

#[test]
fn a_pipe_that_nobody_reads_does_not_stop_a_run() {
    let (auth, dir) = (AuthDns::start(&[]), tempfile::tempdir().expect("a folder"));
    // A line of some 60 octets each millisecond: more than a pipe holds.
    let line = format!("{} --interval 1ms --json x.json", load(&auth, "4s"));
    let mut command = dnsdyno(dir.path(), &line);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let unread = child.stderr.take();
    wait_for("the load ends", || child.try_wait().expect("our own child").is_some());
    assert!(dir.path().join("x.json").exists());
    drop(unread);
}

#[test]
fn a_server_that_writes_without_end_does_not_fill_the_disk() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = cargo_bin("dnsdyno");
    let text = format!(
        "name = \"x\"\ntitle = \"x\"\nrole = \"authoritative\"\nservers = [\"own\"]\nmethod = \"load\"\n\
         [workload]\nnamespace = \"10.0.0.0/24\"\n[load]\nrates = [\"200\"]\nduration = \"3s\"\ntimeout = \"200ms\"\n\
         [custom.own]\nipv6 = false\ncommand = \'\'\'while :; do head -c 12000000 /dev/zero; sleep 0.1; done & \
         exec {} auth --listen {{{{ listen.v4 }}}}:{{{{ listen.port }}}} --namespace {{{{ namespace }}}} \
         --zone {{{{ zone }}}} --pref64 {{{{ pref64 }}}} --aaaa always --cpus {{{{ cpus }}}}\'\'\'\n",
        program.display()
    );
    let line = "--trust --no-store --keep-files";
    let Some(Ran { told, .. }) = Ran::experiment(dir.path(), "3s", &text, line) else { return };
    let kept = told.lines().find_map(|line| line.split_once(" are kept in "));
    let folder = PathBuf::from(kept.unwrap_or_else(|| panic!("no folder: {told}")).1.trim());
    let mut folders = vec![folder.clone()];
    let mut size = 0;
    while let Some(next) = folders.pop() {
        let entries =
            std::fs::read_dir(&next).unwrap_or_else(|e| panic!("{}: {e}: {told}", next.display()));
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => size += entry.metadata().map_or(0, |m| m.len()),
            }
        }
    }
    std::fs::remove_dir_all(&folder).expect("our own folder");
    // Some 100 MB a second were written, for at least three seconds.
    assert!(size > 1 << 20 && size < 150 << 20, "{size} octets: {told}");
}

/// Returns the largest memory of their own, in kB, that a process and its descendants had together until it ended.
fn largest_memory(child: &mut Child) -> u64 {
    let (mut largest, mut before) = (0, 0);
    while child.try_wait().expect("our own child").is_none() {
        let (mut open, mut sum) = (vec![child.id()], 0);
        while let Some(pid) = open.pop() {
            let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
            let status = read("status").unwrap_or_default();
            let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
            let kb = anonymous.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            sum += kb.unwrap_or(0);
            let children = read(&format!("task/{pid}/children")).unwrap_or_default();
            open.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        // Between fork and exec a child shows its parent's memory again: what counts is there twice in a row.
        largest = largest.max(sum.min(std::mem::replace(&mut before, sum)));
        std::thread::sleep(Duration::from_millis(5));
    }
    largest
}

#[test]
fn a_small_run_takes_little_memory() {
    let dir = tempfile::tempdir().expect("a folder");
    small_load(dir.path(), "x", 1, "500ms");
    let mut command = dnsdyno(dir.path(), "run --wait=5m x.toml");
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
    let largest = largest_memory(&mut child);
    let told = said(&child.wait_with_output().expect("ends"));
    if told.contains("cannot get its namespaces") {
        return skip::because(told);
    }
    assert!(largest > 1_000 && largest < 64_000, "{largest} kB: {told}");
}
