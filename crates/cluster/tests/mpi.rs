//! Jobs of Open MPI, by a real mpirun: on this host, and on network namespaces as hosts.

#[path = "kit/authdns.rs"]
mod authdns;
#[path = "../../cli/tests/kit/cases.rs"]
mod cases;
mod kit;
#[path = "mpi/run.rs"]
mod run;
#[path = "../../cli/tests/kit/short_form.rs"]
mod short_form;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command};

use assert_cmd::cargo::cargo_bin;
use authdns::AuthDns;
use cases::{Case, at_a_time, cases};
use kit::{
    Arrival, Held, Hosts, address, alone, dnsdyno, has_mpi, load, mpirun, rank, ranks, signal,
    soon, start, told, trial, turn, with_testers,
};
use lab::CpuList;
use measure::limiter::Void;
use measure::{Nanos, Pacing};
use record::{PartOutcome, Run, Trial};
use wire::Namespace;

/// Starts an AuthDNS on this host.
fn auth() -> AuthDns {
    AuthDns::start(None, "127.0.0.1:0")
}

/// Starts an AuthDNS on a host.
fn auth_on(hosts: &Hosts, host: usize) -> AuthDns {
    AuthDns::start(Some(&hosts.namespace(host)), &format!("{}:53", address(host)))
}

/// Waits until no rank of a job is left.
fn nothing_is_left(dir: &Path) {
    soon("all ranks have ended", || ranks(dir).is_empty().then_some(()));
}

/// All that finds the same on a busy machine, the longest first; the other tests must not be disturbed, or have their own turns.
const CASES: [Case; 15] = cases![
    a_rank_that_is_stopped_is_named_and_nothing_is_left =
        || rank_that_gets("STOP", "no message within 10s"),
    dnsdyno_starts_the_job_itself,
    what_is_wrong_is_told_and_ends_all_ranks,
    a_search_runs_on_all_testers,
    a_rank_that_is_killed_is_named_and_nothing_is_left =
        || rank_that_gets("KILL", "the Tester was lost"),
    two_testers_are_one,
    an_interrupt_ends_all_ranks_and_keeps_what_there_is,
    a_killed_mpirun_leaves_no_rank,
    hosts_are_named_by_their_names,
    a_host_whose_daemon_is_killed_is_named_and_nothing_is_left,
    a_host_with_other_limits_is_named,
    a_clock_that_is_a_second_ahead_is_named,
    a_starter_that_is_killed_is_named_and_nothing_is_left,
    a_tester_of_another_version_is_named,
    a_job_does_not_outlive_the_program_that_started_it,
];

#[test]
fn jobs_and_runs_end_as_they_should() {
    let (true, _turn) = (has_mpi(), turn()) else { return };
    // Most of each is a wait for processes that start and end.
    at_a_time(4, &[&run::CASES[..], &CASES].concat());
}

/// Starts a load of a minute on three ranks of this host, and waits until it is sent.
fn long_load(dir: &Path, auth: &AuthDns) -> Child {
    let child = start(load(mpirun(3), dir, auth.address, 60));
    auth.wait_for(1_000);
    child
}

fn two_testers_are_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let auth = auth();
    let mut command = load(mpirun(3), dir.path(), auth.address, 2);
    command.args(["--goal", "loss < 50%"]);
    let output = command.output().expect("starts");
    let trial = trial(dir.path(), &output);
    assert_eq!(output.status.success(), !trial.void.is_void(), "{}", told(&output));
    assert_eq!((trial.planned, trial.sent), (6_000, 6_000), "{}", told(&output));
    let merged = trial.merged.expect("its parts");
    assert!(merged.parts.iter().all(|part| part.sent == 3_000), "{merged:?}");
    assert!(merged.parts.iter().all(|part| part.clock.is_some()), "{merged:?}");
    assert!(merged.parts[1].name.starts_with("rank 2 (host "), "{merged:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("part 2/2") && text.contains("its clock "), "{text}");
    nothing_is_left(dir.path());
}

fn a_search_runs_on_all_testers() {
    let dir = tempfile::tempdir().expect("a folder");
    let auth = auth();
    let mut command = mpirun(3);
    let file = kit::json(dir.path());
    command.arg(cargo_bin("dnsdyno-cluster")).args(["search", &auth.address.to_string()]);
    command.args([
        "--namespace",
        "10.0.0.0/12",
        "--type",
        "A",
        "--rule",
        "rfc8219",
        "--goal",
        "loss < 50%",
    ]);
    command.args(["--min", "500", "--start", "500", "--max", "2k", "--resolution", "0.5"]);
    command
        .args(["--duration", "500ms", "--timeout", "200ms", "--repeats", "1", "--json"])
        .arg(&file);
    let output = command.output().expect("starts");
    let run: Run = record::read(&file).unwrap_or_else(|e| panic!("{e}: {}", told(&output)));
    let trials = &run.results[0].trials;
    assert!(trials.len() >= 2, "{}", told(&output));
    for one in trials {
        let parts = &one.trial.merged.as_ref().expect("merged").parts;
        assert_eq!(parts.len(), 2, "{parts:?}");
        assert_eq!(one.trial.sent, one.trial.planned, "{}", told(&output));
    }
    nothing_is_left(dir.path());
}

fn what_is_wrong_is_told_and_ends_all_ranks() {
    let dir = tempfile::tempdir().expect("a folder");
    let target = "127.0.0.1:9".parse().expect("an address");
    let nobody = "nothing listens at 127.0.0.1:9";
    let rows: [(usize, &[&str], i32, &str); 6] = [
        (1, &[], 1, "the job has no Tester"),
        (3, &[], 1, nobody),
        (3, &["--transport", "tcp", "--clients", "2"], 1, nobody),
        (3, &["--slice", "1/2"], 2, "the conductor chooses them"),
        (3, &["--rates", "5"], 2, "--rates"),
        (3, &["--cpus", "4000"], 2, "4000"),
    ];
    for (number, arguments, code, why) in rows {
        let mut command = load(mpirun(number), dir.path(), target, 1);
        let output = command.args(arguments).output().expect("starts");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", told(&output));
        assert!(told(&output).contains(why), "{arguments:?}: {}", told(&output));
        let asked = why != nobody || told(&output).contains("--no-check loads the server");
        assert!(asked && !kit::json(dir.path()).exists(), "{arguments:?}: {}", told(&output));
        nothing_is_left(dir.path());
    }
    let mut command = load(mpirun(2), dir.path(), target, 1);
    let output = command.arg("--queries").arg(OsStr::from_bytes(b"\xff")).output().expect("starts");
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(!told(&output).contains("panicked"), "{}", told(&output));
    nothing_is_left(dir.path());
    let alone = Command::new(cargo_bin("dnsdyno-cluster")).output().expect("starts");
    assert_eq!(alone.status.code(), Some(2));
    assert!(told(&alone).contains("mpirun --hostfile"), "{}", told(&alone));
}

/// Signals a rank during a load, which must name it with the words `wanted`, keep the other one's part, and leave nothing.
fn rank_that_gets(name: &str, wanted: &str) {
    let (auth, dir) = (auth(), tempfile::tempdir().expect("a folder"));
    let child = long_load(dir.path(), &auth);
    let pid = rank(dir.path(), 2).expect("rank 2 runs");
    signal(pid, name);
    let output = child.wait_with_output().expect("ends");
    assert!(!output.status.success(), "{name}");
    let trial = trial(dir.path(), &output);
    let void = trial.void.0.expect("void").to_string();
    assert!(void.contains("part 2/2 (rank 2 (host "), "{name}: {void}");
    assert!(void.contains(wanted) && void.contains(&pid.to_string()), "{name}: {void}");
    assert!(trial.sent > 0, "{name}: the other one's part is kept");
    nothing_is_left(dir.path());
}

fn an_interrupt_ends_all_ranks_and_keeps_what_there_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let auth = auth();
    let child = long_load(dir.path(), &auth);
    signal(child.id(), "INT");
    let output = child.wait_with_output().expect("ends");
    assert!(!output.status.success());
    let trial = trial(dir.path(), &output);
    assert!(trial.void.is_void() && trial.sent > 0 && trial.sent < 180_000, "{:?}", trial.void);
    nothing_is_left(dir.path());
}

fn a_killed_mpirun_leaves_no_rank() {
    let dir = tempfile::tempdir().expect("a folder");
    let auth = auth();
    let mut child = long_load(dir.path(), &auth);
    signal(child.id(), "KILL");
    child.wait().expect("ends");
    nothing_is_left(dir.path());
}

fn hosts_are_named_by_their_names() {
    let Some(hosts) = Hosts::make(4) else { return };
    let dir = hosts.dir.path();
    let auth = auth_on(&hosts, 4);
    let output = load(hosts.mpirun(&[1, 2, 3]), dir, auth.address, 2).output().expect("starts");
    let found = trial(dir, &output);
    assert_eq!(found.sent, 6_000, "{}", told(&output));
    let names: Vec<String> =
        found.merged.expect("parts").parts.into_iter().map(|part| part.name).collect();
    assert!(names[0].starts_with("rank 1 (host host2, "), "{names:?}");
    assert!(names[1].starts_with("rank 2 (host host3, "), "{names:?}");
    hosts.nothing_is_left();
}

fn a_host_whose_daemon_is_killed_is_named_and_nothing_is_left() {
    let Some(hosts) = Hosts::make(4) else { return };
    let (dir, auth) = (hosts.dir.path(), auth_on(&hosts, 4));
    let child = start(load(hosts.mpirun(&[1, 2, 3]), dir, auth.address, 60));
    auth.wait_for(1_000);
    signal(hosts.daemon(3).expect("the daemon of host 3 runs"), "KILL");
    let output = child.wait_with_output().expect("ends");
    assert!(!output.status.success());
    let trial = trial(dir, &output);
    // Open MPI ends all ranks, and says why.
    let lost = format!("on node {}\n", address(3));
    assert!(told(&output).contains(&lost), "{}", told(&output));
    assert!(trial.void.is_void() && trial.sent > 0, "what was counted is kept: {:?}", trial.void);
    hosts.nothing_is_left();
}

fn a_host_with_other_limits_is_named() {
    let Some(hosts) = Hosts::make(4) else { return };
    let (dir, auth) = (hosts.dir.path(), auth_on(&hosts, 4));
    // Open MPI itself has some fifty files open.
    hosts.write_agent("[ $n != 3 ] || ulimit -n 128");
    let mut command = load(hosts.mpirun(&[1, 2, 3]), dir, auth.address, 1);
    let output = command.args(["--ports", "400"]).output().expect("starts");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let void = trial(dir, &output).void.0.expect("void").to_string();
    let wanted = ["part 2/2 (rank 2 (host host3, ", "Too many open files"];
    assert!(wanted.iter().all(|part| void.contains(part)), "{void}: {}", told(&output));
    hosts.nothing_is_left();
}

#[test]
fn a_tester_that_pauses_is_named() {
    let (true, _turn) = (has_mpi(), alone()) else { return };
    let Some(hosts) = Hosts::make(4) else { return };
    let (dir, auth) = (hosts.dir.path(), auth_on(&hosts, 4));
    let child = start(load(hosts.mpirun(&[1, 2, 3]), dir, auth.address, 6));
    auth.wait_for(1_000);
    // A third of its queries leave late, as on a host whose cores do something else.
    let pid = hosts.rank(3).expect("rank 2 runs");
    signal(pid, "STOP");
    std::thread::sleep(std::time::Duration::from_secs(2));
    signal(pid, "CONT");
    let output = child.wait_with_output().expect("ends");
    let found = trial(dir, &output);
    let void = found.void.0.expect("void").to_string();
    let parts = found.merged.expect("its parts").parts;
    // Both may be starved on a busy machine, which comes before what is late.
    let starved = parts.iter().any(|part| matches!(part.void.0, Some(Void::Starved { .. })));
    let named = void.starts_with("part 2/2 (rank 2 (host host3, ");
    assert!(named || starved && void.starts_with("part "), "{void}: {}", told(&output));
    assert_eq!(parts.len(), 2, "both have reported: {parts:?}");
    let late = |part: &PartOutcome| match part.void.0 {
        Some(Void::ScheduleNotKept { late, .. }) => late > 0.2,
        Some(Void::Starved { .. }) => part.schedule_error_p99_us > 5e5,
        _ => false,
    };
    assert!(parts[1].name.starts_with("rank 2 (host host3, ") && late(&parts[1]), "{parts:?}");
    hosts.nothing_is_left();
}

/// Starts four programs that do nothing but use a core of a host.
fn busy(hosts: &Hosts, host: usize, core: usize) -> Vec<Held> {
    let one = || {
        let mut command = hosts.on(host, "taskset");
        command.args(["-c", &core.to_string(), "sh", "-c", "while :; do :; done"]);
        Held(start(command))
    };
    (0..4).map(|_| one()).collect()
}

#[test]
fn a_busy_core_of_a_host_is_named() {
    let (true, _turn) = (has_mpi(), alone()) else { return };
    let Some(hosts) = Hosts::make(4) else { return };
    let (dir, auth) = (hosts.dir.path(), auth_on(&hosts, 4));
    let core = *CpuList::allowed().cpus().last().expect("a core");
    hosts.write_agent(&format!("[ $n != 3 ] || taskset -pc {core} $$ > /dev/null"));
    let busy = busy(&hosts, 3, core);
    let mut command = load(hosts.mpirun(&[1, 2, 3]), dir, auth.address, 3);
    let output = command.args(["--wait-mode", "spin"]).output().expect("starts");
    drop(busy);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let found = trial(dir, &output);
    let void = found.void.0.expect("void").to_string();
    let parts = found.merged.expect("its parts").parts;
    let why = parts[1].void.0.as_ref().expect("void").to_string();
    assert!(why.starts_with("the Tester was starved: it waited for its CPU "), "{why}");
    // The other one may be starved too, where there are few cores: the first one is named, and
    // before one that was only late.
    let is_starved = |part: &&PartOutcome| matches!(part.void.0, Some(Void::Starved { .. }));
    let named = parts.iter().find(is_starved).expect("one is starved");
    let wanted = [named.name.as_str(), "the Tester was starved"];
    assert!(wanted.iter().all(|part| void.contains(part)), "{void}: {}", told(&output));
    hosts.nothing_is_left();
}

fn a_clock_that_is_a_second_ahead_is_named() {
    let Some(library) = kit::libfaketime() else { return };
    let Some(hosts) = Hosts::make(3) else { return };
    let dir = hosts.dir.path();
    hosts.write_agent(&format!(
        "[ $n != 3 ] || export LD_PRELOAD={} FAKETIME=+1s FAKETIME_DONT_FAKE_MONOTONIC=1",
        library.display()
    ));
    let target = format!("{}:53", address(1)).parse().expect("an address");
    let output = load(hosts.mpirun(&[1, 2, 3]), dir, target, 1).output().expect("starts");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let wanted = ["rank 2 (host host3, ", "its clock is ", " ahead of the conductor's"];
    assert!(wanted.iter().all(|part| told(&output).contains(part)), "{}", told(&output));
    assert!(!kit::json(dir).exists(), "there was no trial");
    hosts.nothing_is_left();
}

/// A load by dnsdyno on the first host, whose two Testers are the next ones.
fn by_dnsdyno(hosts: &Hosts, auth: &AuthDns, seconds: u32) -> Command {
    let command = kit::arguments(dnsdyno(hosts), hosts.dir.path(), auth.address, seconds);
    with_testers(hosts, command, 2..=3, "")
}

#[test]
fn a_search_goes_on_without_a_rank_that_was_killed() {
    let (true, _turn) = (has_mpi(), alone()) else { return };
    let Some(hosts) = Hosts::make(4) else { return };
    let (dir, auth) = (hosts.dir.path(), auth_on(&hosts, 4));
    let mut command = dnsdyno(&hosts);
    command.args(["search", &auth.address.to_string(), "--namespace", "10.0.0.0/8", "--type", "A"]);
    command.args(["--rule", "rfc8219", "--goal", "loss < 50%", "--min", "1k", "--start", "1k"]);
    command.args(["--max", "1k", "--duration", "2s", "--timeout", "500ms", "--repeats", "2"]);
    command.arg("--json").arg(kit::json(dir));
    let mut command = with_testers(&hosts, command, 2..=3, "");
    command.args(["--least", "1"]);
    let child = start(command);
    auth.wait_for(1_000);
    signal(hosts.rank(3).expect("rank 2 runs"), "KILL");
    let output = child.wait_with_output().expect("ends");
    let run: Run =
        record::read(&kit::json(dir)).unwrap_or_else(|e| panic!("{e}: {}", told(&output)));
    let trials: Vec<&Trial> = run.results[0].trials.iter().map(|one| &one.trial).collect();
    let void: Vec<&&Trial> = trials.iter().filter(|trial| trial.void.is_void()).collect();
    let why: Vec<String> =
        void.iter().filter_map(|t| Some(t.void.0.as_ref()?.to_string())).collect();
    let named = |why: &String| why.contains("rank 2 (host host3, ") && why.contains("lost");
    assert!(why.iter().any(named), "{why:?}: {}", told(&output));
    let parts = |trial: &Trial| trial.merged.as_ref().map(|merged| merged.parts.len());
    let after = trials.iter().filter(|trial| parts(trial) == Some(1) && !trial.void.is_void());
    assert!(after.clone().count() >= 1, "{}", told(&output));
    assert!(after.clone().all(|trial| trial.sent == 2_000), "one Tester sends the whole");
    assert_eq!(run.results[0].repeats, 2, "{}", told(&output));
    hosts.nothing_is_left();
}

fn a_starter_that_is_killed_is_named_and_nothing_is_left() {
    let Some(hosts) = Hosts::make(4) else { return };
    let auth = auth_on(&hosts, 4);
    let child = start(by_dnsdyno(&hosts, &auth, 60));
    auth.wait_for(1_000);
    signal(hosts.starter(1).expect("mpirun runs on host 1"), "KILL");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("the job of the Testers is gone"), "{}", told(&output));
    hosts.nothing_is_left();
}

fn a_tester_of_another_version_is_named() {
    let Some(hosts) = Hosts::make(4) else { return };
    let (dir, auth) = (hosts.dir.path(), auth_on(&hosts, 4));
    // The same program with another number in place of its version; only host 3 has it.
    let (program, version) = (cargo_bin("dnsdyno-cluster"), env!("CARGO_PKG_VERSION").as_bytes());
    let mut octets = std::fs::read(&program).expect("a program");
    let places: Vec<usize> =
        (0..octets.len() - version.len()).filter(|at| octets[*at..].starts_with(version)).collect();
    places.iter().for_each(|at| octets[*at] = b'9');
    let other = dir.join("other");
    std::fs::write(&other, octets).expect("writes");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&other, mode).expect("sets");
    hosts.write_agent_there(&format!(
        "[ $0 != host3 ] || mount --bind {} {}",
        other.display(),
        program.display()
    ));
    let output = by_dnsdyno(&hosts, &auth, 1).output().expect("starts");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let wanted = ["rank 2 (host host3, ", "the Tester has version 9", "the conductor "];
    assert!(wanted.iter().all(|part| told(&output).contains(part)), "{}", told(&output));
    hosts.nothing_is_left();
}

fn dnsdyno_starts_the_job_itself() {
    let Some(hosts) = Hosts::make(4) else { return };
    let (dir, auth) = (hosts.dir.path(), auth_on(&hosts, 4));
    let output = by_dnsdyno(&hosts, &auth, 2).output().expect("starts");
    let found = trial(dir, &output);
    assert_eq!(found.sent, 6_000, "{}", told(&output));
    let parts = found.merged.expect("parts").parts;
    assert!(parts[1].name.starts_with("rank 2 (host host3, "), "{parts:?}");
    // The conductor may be anywhere.
    let command = kit::arguments(dnsdyno(&hosts), dir, auth.address, 1);
    let conductor = format!("conductor {}\n", address(4));
    let output = with_testers(&hosts, command, 2..=3, &conductor).output().expect("starts");
    let found = trial(dir, &output);
    assert_eq!(found.sent, 3_000, "{}", told(&output));
    hosts.nothing_is_left();
}

fn a_job_does_not_outlive_the_program_that_started_it() {
    let Some(hosts) = Hosts::make(4) else { return };
    let auth = auth_on(&hosts, 4);
    let mut child = start(by_dnsdyno(&hosts, &auth, 60));
    auth.wait_for(1_000);
    signal(child.id(), "KILL");
    child.wait().expect("ends");
    hosts.nothing_is_left();
}

#[test]
fn a_host_that_is_cut_off_is_named_and_nothing_is_left() {
    let (true, turn) = (has_mpi(), turn()) else { return };
    let Some(hosts) = Hosts::make(4) else { return };
    let (dir, auth) = (hosts.dir.path(), auth_on(&hosts, 4));
    let child = start(by_dnsdyno(&hosts, &auth, 60));
    auth.wait_for(1_000);
    hosts.cut_off(3);
    // What follows is mostly a wait until Open MPI notices, which disturbs no other test.
    soon("the other Tester has ended", || hosts.rank(2).is_none().then_some(()));
    drop(turn);
    let output = child.wait_with_output().expect("ends");
    assert!(!output.status.success());
    let trial = trial(dir, &output);
    let void = trial.void.0.expect("void").to_string();
    assert!(void.contains("part 2/2 (rank 2 (host host3, "), "{void}: {}", told(&output));
    assert!(void.contains("the link to its host is down"), "{void}");
    assert!(trial.sent > 0, "the other one's part is kept");
    hosts.nothing_is_left();
}

/// When a load of three seconds has its queries, in a Poisson schedule of one Tester with two workers: those of each worker.
fn due_times() -> [Vec<Nanos>; 2] {
    [0, 1].map(|worker| {
        let pacing: Pacing = "poisson 3k".parse().expect("a pacing");
        let whole = pacing.schedule(Nanos::from_secs(3), 1).expect("an open loop");
        let mut schedule = whole.shard(worker, 2);
        let mut due = Vec::new();
        while let Some(at) = schedule.peek() {
            due.push(at);
            schedule.advance();
        }
        due
    })
}

#[test]
fn two_testers_keep_the_schedule_of_one() {
    let (true, _turn) = (has_mpi(), alone()) else { return };
    let Some(hosts) = Hosts::make(4) else { return };
    let (dir, auth) = (hosts.dir.path(), auth_on(&hosts, 4));
    let capture = hosts.capture(4, "arrived.pcap");
    // Names in their order: each Tester has every other one.
    let names = Namespace::with_default_zone("10.0.0.0/8".parse().expect("a prefix"));
    let lines = (0..12_000).map(|number| format!("{} A\n", names.name(names.nth(number))));
    let file = dir.join("queries");
    std::fs::write(&file, lines.collect::<String>()).expect("writes");
    let mut command = hosts.mpirun(&[1, 2, 3]);
    command.arg(cargo_bin("dnsdyno-cluster")).args(["load", &auth.address.to_string()]);
    command.args("--pacing poisson --rate 3k --duration 3s --gso off --no-check".split(' '));
    command.args(["--timeout", "500ms", "--queries"]).arg(file).arg("--json").arg(kit::json(dir));
    let output = command.env("DNSDYNO_STORE", dir.join("runs.db")).output().expect("starts");
    let found = trial(dir, &output);
    let merged = found.merged.expect("its parts");
    println!("starts {:.1} us apart at most", merged.start_spread_us);
    let arrivals = capture.end(auth.address, |all| all.len() as u64 >= found.sent);
    let start = found.conditions.agreed_start.expect("agreed").at.unix(None).expect("UTC");
    for (tester, due) in due_times().into_iter().enumerate() {
        assert_eq!(merged.parts[tester].sent, due.len() as u64, "{}", told(&output));
        let own = arrivals.iter().filter(|query| query.source.to_string() == address(tester + 2));
        let number = |query: &Arrival| {
            let name = names.address(&query.name).expect("a name of the file");
            (u32::from(name) - (10 << 24)) as usize
        };
        let mut came: Vec<(usize, Nanos)> = own.map(|query| (number(query), query.at)).collect();
        came.sort_unstable();
        // Each query arrived once, and is its own.
        let numbers: Vec<usize> = came.iter().map(|query| query.0).collect();
        let own: Vec<usize> = (0..due.len()).map(|turn| 2 * turn + tester).collect();
        let differs = numbers.iter().zip(&own).find(|(number, own)| number != own);
        let (drops, came_all) = (&found.drops, (numbers.len(), own.len()));
        assert!(numbers == own, "Tester {tester}: {came_all:?} {differs:?} {drops:?}");
        // None was early; a busy host may be late with all of them, but by no share of a trial.
        let late = |(due, (_, at)): (&Nanos, &(usize, Nanos))| {
            (at.0 as i64 - (start + *due).0 as i64) as f64 / 1e3
        };
        let late: Vec<f64> = due.iter().zip(&came).map(late).collect();
        let least = late.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(-merged.start_spread_us <= least && least < 50e3, "Tester {tester}: {least} us");
    }
    hosts.nothing_is_left();
}
