//! Jobs of Open MPI, by a real mpirun: on this host, and on network namespaces as hosts.

mod kit;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard};

use assert_cmd::cargo::cargo_bin;
use kit::{
    AuthDns, Hosts, address, find, has_mpi, load, mpirun, rank, ranks, signal, soon, start, told,
    trial,
};
use lab::CpuList;
use measure::Nanos;
use record::{Run, Trial};

/// One job at a time: each wants the cores.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

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

/// Starts a load of a minute on three ranks of this host, and waits until it is sent.
fn long_load(dir: &Path, auth: &AuthDns) -> Child {
    let child = start(load(mpirun(3), dir, auth.address, 60));
    auth.wait_for(1_000);
    child
}

#[test]
fn two_testers_are_one() {
    if !has_mpi() {
        return;
    }
    let (_turn, dir) = (turn(), tempfile::tempdir().expect("a folder"));
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

#[test]
fn a_search_runs_on_all_testers() {
    if !has_mpi() {
        return;
    }
    let (_turn, dir) = (turn(), tempfile::tempdir().expect("a folder"));
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

#[test]
fn what_is_wrong_is_told_and_ends_all_ranks() {
    if !has_mpi() {
        return;
    }
    let (_turn, dir) = (turn(), tempfile::tempdir().expect("a folder"));
    let target = "127.0.0.1:9".parse().expect("an address");
    let rows: [(usize, &[&str], i32, &str); 4] = [
        (1, &[], 1, "the job has no Tester"),
        (3, &["--slice", "1/2"], 2, "the conductor chooses them"),
        (3, &["--rates", "5"], 2, "--rates"),
        (3, &["--cpus", "4000"], 2, "4000"),
    ];
    for (number, arguments, code, why) in rows {
        let mut command = load(mpirun(number), dir.path(), target, 1);
        let output = command.args(arguments).output().expect("starts");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", told(&output));
        assert!(told(&output).contains(why), "{arguments:?}: {}", told(&output));
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

#[test]
fn ranks_that_are_killed_or_stopped_are_named_and_nothing_is_left() {
    if !has_mpi() {
        return;
    }
    let (_turn, auth) = (turn(), auth());
    for (name, wanted) in [("KILL", "the Tester was lost"), ("STOP", "silent for 10s")] {
        let dir = tempfile::tempdir().expect("a folder");
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
}

#[test]
fn an_interrupt_ends_all_ranks_and_keeps_what_there_is() {
    if !has_mpi() {
        return;
    }
    let (_turn, dir) = (turn(), tempfile::tempdir().expect("a folder"));
    let auth = auth();
    let child = long_load(dir.path(), &auth);
    signal(child.id(), "INT");
    let output = child.wait_with_output().expect("ends");
    assert!(!output.status.success());
    let trial = trial(dir.path(), &output);
    assert!(trial.void.is_void() && trial.sent > 0 && trial.sent < 180_000, "{:?}", trial.void);
    nothing_is_left(dir.path());
}

#[test]
fn a_killed_mpirun_leaves_no_rank() {
    if !has_mpi() {
        return;
    }
    let (_turn, dir) = (turn(), tempfile::tempdir().expect("a folder"));
    let auth = auth();
    let mut child = long_load(dir.path(), &auth);
    signal(child.id(), "KILL");
    child.wait().expect("ends");
    nothing_is_left(dir.path());
}

#[test]
fn hosts_are_named_by_their_names() {
    let (true, _turn) = (has_mpi(), turn()) else { return };
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

#[test]
fn a_host_whose_daemon_is_killed_is_named_and_nothing_is_left() {
    let (true, _turn) = (has_mpi(), turn()) else { return };
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

#[test]
fn a_clock_that_is_a_second_ahead_is_named() {
    let (true, _turn) = (has_mpi(), turn()) else { return };
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
    with_two(hosts, command, "")
}

/// dnsdyno on the first host.
fn dnsdyno(hosts: &Hosts) -> Command {
    let program = cargo_bin("dnsdyno");
    assert!(program.exists(), "build it first: cargo build -p cli");
    hosts.on(1, program.to_str().expect("UTF-8"))
}

/// Lets a command of dnsdyno run on the hosts 2 and 3, and with `more` lines in their file.
fn with_two(hosts: &Hosts, mut command: Command, more: &str) -> Command {
    let file = hosts.dir.path().join("hosts");
    let text = format!("# two Testers\ntester {}\ntester {}\n{more}", address(2), address(3));
    std::fs::write(&file, text).expect("writes");
    let mpirun = format!("mpirun {}", hosts.options().join(" "));
    command.arg("--hosts").arg(&file).args(["--mpirun", &mpirun]);
    command.arg("--cluster").arg(cargo_bin("dnsdyno-cluster"));
    command.env("DNSDYNO_STORE", hosts.dir.path().join("runs.db"));
    command
}

#[test]
fn a_search_goes_on_without_a_rank_that_was_killed() {
    let (true, _turn) = (has_mpi(), turn()) else { return };
    let Some(hosts) = Hosts::make(4) else { return };
    let (dir, auth) = (hosts.dir.path(), auth_on(&hosts, 4));
    let mut command = dnsdyno(&hosts);
    command.args(["search", &auth.address.to_string(), "--namespace", "10.0.0.0/8", "--type", "A"]);
    command.args(["--rule", "rfc8219", "--goal", "loss < 50%", "--min", "1k", "--start", "1k"]);
    command.args(["--max", "1k", "--duration", "2s", "--timeout", "500ms", "--repeats", "4"]);
    command.arg("--json").arg(kit::json(dir));
    let mut command = with_two(&hosts, command, "");
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
    assert!(after.clone().count() >= 3, "{}", told(&output));
    assert!(after.clone().all(|trial| trial.sent == 2_000), "one Tester sends the whole");
    assert_eq!(run.results[0].repeats, 4, "{}", told(&output));
    hosts.nothing_is_left();
}

#[test]
fn a_starter_that_is_killed_is_named_and_nothing_is_left() {
    let (true, _turn) = (has_mpi(), turn()) else { return };
    let Some(hosts) = Hosts::make(4) else { return };
    let auth = auth_on(&hosts, 4);
    let child = start(by_dnsdyno(&hosts, &auth, 60));
    auth.wait_for(1_000);
    signal(hosts.starter(1).expect("mpirun runs on host 1"), "KILL");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("the job of the Testers has ended"), "{}", told(&output));
    hosts.nothing_is_left();
}

#[test]
fn a_tester_of_another_version_is_named() {
    let (true, _turn) = (has_mpi(), turn()) else { return };
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
    let wanted = ["rank 2 (host host3, ", "it has version 9", "the conductor "];
    assert!(wanted.iter().all(|part| told(&output).contains(part)), "{}", told(&output));
    hosts.nothing_is_left();
}

#[test]
fn dnsdyno_starts_the_job_itself() {
    let (true, _turn) = (has_mpi(), turn()) else { return };
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
    let output = with_two(&hosts, command, &conductor).output().expect("starts");
    let found = trial(dir, &output);
    assert_eq!(found.sent, 3_000, "{}", told(&output));
    // Nothing of the job outlives the program that started it.
    let mut child = start(by_dnsdyno(&hosts, &auth, 60));
    auth.wait_for(1_000);
    signal(child.id(), "KILL");
    child.wait().expect("ends");
    hosts.nothing_is_left();
}

#[test]
fn a_host_that_is_cut_off_is_named_and_nothing_is_left() {
    let (true, _turn) = (has_mpi(), turn()) else { return };
    let Some(hosts) = Hosts::make(4) else { return };
    let (dir, auth) = (hosts.dir.path(), auth_on(&hosts, 4));
    let child = start(by_dnsdyno(&hosts, &auth, 60));
    auth.wait_for(1_000);
    hosts.cut_off(3);
    let output = child.wait_with_output().expect("ends");
    assert!(!output.status.success());
    let trial = trial(dir, &output);
    let void = trial.void.0.expect("void").to_string();
    assert!(void.contains("part 2/2 (rank 2 (host host3, "), "{void}: {}", told(&output));
    assert!(void.contains("the link to its host is down"), "{void}");
    assert!(trial.sent > 0, "the other one's part is kept");
    hosts.nothing_is_left();
}

/// Times between arrivals, in microseconds, in rising order.
fn gaps(arrivals: &[Nanos]) -> Vec<f64> {
    let mut gaps: Vec<f64> =
        arrivals.windows(2).map(|pair| pair[1].since(pair[0]).as_micros_f64()).collect();
    gaps.sort_by(f64::total_cmp);
    gaps
}

/// Largest difference between the distribution functions of two sorted samples (Kolmogorov and Smirnov).
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let share = |of: &[f64], at: f64| of.partition_point(|gap| *gap <= at) as f64 / of.len() as f64;
    let at = a.iter().chain(b);
    at.map(|at| (share(a, *at) - share(b, *at)).abs()).fold(0.0, f64::max)
}

/// Shows how alike the arrivals from one Tester and from two are. That is for people to read: a busy machine delays packets.
fn show_gaps(one: &[f64], two: &[f64]) {
    let at = |gaps: &[f64], share: f64| gaps[(gaps.len() as f64 * share) as usize];
    for share in [0.1, 0.25, 0.5, 0.75, 0.9, 0.99] {
        let (one, two) = (at(one, share), at(two, share));
        println!("gap p{:<4} one Tester {one:8.1} us, two {two:8.1} us", share * 100.0);
    }
    println!("largest difference of the distributions: {:.2} %", distance(one, two) * 100.0);
}

#[test]
fn two_testers_arrive_as_one() {
    let (true, _turn) = (has_mpi(), turn()) else { return };
    let cores = CpuList::allowed();
    let [first, second, ..] = *cores.cpus() else {
        skip::because("one Tester with two workers needs two cores");
        return;
    };
    let Some(hosts) = Hosts::make(4) else { return };
    let (dir, auth) = (hosts.dir.path(), auth_on(&hosts, 4));
    let measure = |name: &str, of: &[usize], more: &[&str]| {
        let capture = hosts.capture(4, name);
        // So many that chance makes less than a hundredth of a difference.
        let mut command = load(hosts.mpirun(of), dir, auth.address, 20);
        command.args(["--pacing", "poisson", "--gso", "off"]).args(more);
        let output = command.output().expect("starts");
        let trial = trial(dir, &output);
        let arrivals = capture.end(auth.address, trial.sent);
        // Each query left, and each one arrived once.
        assert_eq!(arrivals.len() as u64, trial.sent, "{}", told(&output));
        (trial.sent, gaps(&arrivals), trial.merged.expect("its parts"))
    };
    // Each Tester of two has one of the two streams of a Tester with two workers.
    let cpus = format!("{first},{second}");
    let (one_sent, one, _) = measure("one.pcap", &[1, 2], &["--cpus", &cpus]);
    let (two_sent, two, merged) = measure("two.pcap", &[1, 2, 3], &[]);
    assert_eq!((merged.parts.len(), two_sent), (2, one_sent), "{merged:?}");
    println!(
        "starts up to {:.1} us apart, {:.1} allowed",
        merged.start_spread_us, merged.start_bound_us
    );
    show_gaps(&one, &two);
    hosts.nothing_is_left();
}

/// The short form of RFC 8219's experiment by dnsdyno on the first host; the next ones are two Testers, an AuthDNS, the server and
/// another AuthDNS.
fn short_form(hosts: &Hosts) -> Command {
    let dir = hosts.dir.path();
    // At rates that all hosts together can do on a small machine.
    let experiment = dir.join("dns64-rfc8219.toml");
    let text = lab::built_in::experiment("dns64-rfc8219").expect("an experiment");
    let text = text.replace("\"8k\"", "\"1k\"").replace("\"10k\"", "\"1k\"");
    std::fs::write(&experiment, text.replace("\"500k\"", "\"2k\"")).expect("writes");
    let mut command = dnsdyno(hosts);
    command.arg("run").arg(&experiment);
    command.args(["--quick", "--servers", "unbound", "--wait", "--plain"]);
    command.arg("--ssh").arg(hosts.agent()).arg("--json").arg(kit::json(dir));
    with_two(hosts, command, &roles())
}

/// The other hosts of the short form in the file of hosts.
fn roles() -> String {
    let [auth, dut, other] = [4, 5, 6].map(address);
    format!("auth root@{auth} {auth}\nauth root@{other} {other}\ndut root@{dut} {dut}\n")
}

#[test]
fn a_run_that_is_killed_or_interrupted_leaves_nothing_on_any_host() {
    let (true, _turn) = (has_mpi(), turn()) else { return };
    if find("unbound").is_none() {
        return skip::because("there is no unbound");
    }
    for name in ["KILL", "INT"] {
        let Some(hosts) = Hosts::make(6) else { return };
        let mut child = start(short_form(&hosts));
        let sent = || [4, 6].iter().all(|host| hosts.datagrams(*host) > 1_000).then_some(());
        soon("the Testers send to both AuthDNS", sent);
        signal(child.id(), name);
        assert!(!child.wait().expect("ends").success(), "{name}");
        hosts.nothing_is_left();
        if name == "INT" {
            goes_on(&hosts);
        }
    }
}

/// Lets the interrupted short form go on, which ends with both its cells.
fn goes_on(hosts: &Hosts) {
    let mut command = dnsdyno(hosts);
    command.args(["run", "--resume", "last", "--wait", "--plain"]);
    command.arg("--ssh").arg(hosts.agent()).arg("--json").arg(kit::json(hosts.dir.path()));
    let mut command = with_two(hosts, command, &roles());
    let output = command.env("DNSDYNO_TEST_TRIAL", "500ms").output().expect("starts");
    let run: Run = record::read(&kit::json(hosts.dir.path()))
        .unwrap_or_else(|e| panic!("{e}: {}", told(&output)));
    assert_eq!(run.results.len(), 2, "{}", told(&output));
    for cell in &run.results {
        assert!(!cell.trials.is_empty(), "{}", told(&output));
        cell.trials.iter().for_each(|one| check_parts(&one.trial, &["authdns", "dut"]));
    }
    hosts.nothing_is_left();
}

/// Checks a trial of the short form: it is that of both Testers, and the agents saw the hosts of `roles`.
fn check_parts(trial: &Trial, roles: &[&str]) {
    let merged = trial.merged.as_ref().unwrap_or_else(|| panic!("{trial:?}"));
    let names: Vec<&str> = merged.parts.iter().map(|part| part.name.as_str()).collect();
    assert!(names.len() == 2 && names[0].starts_with("rank 1 (host host2, "), "{names:?}");
    assert!(names[1].starts_with("rank 2 (host host3, "), "{names:?}");
    for role in roles {
        let cpu = trial.cpu.get(*role).unwrap_or_else(|| panic!("{role}: {:?}", trial.cpu));
        assert!(!cpu.cpus.is_empty(), "{role}: {cpu:?}");
    }
}

/// The numbers of queries that the two AuthDNS had, which are at least the valid answers.
fn shares(trial: &Trial) -> [u64; 2] {
    let names: Vec<&str> = trial.authdns.iter().map(|one| one.host.as_str()).collect();
    assert_eq!(names, [4, 6].map(|host| format!("root@{}", address(host))), "{trial:?}");
    let shares = [0, 1].map(|number| trial.authdns[number].queries.expect("it told"));
    assert!(shares[0] + shares[1] >= trial.valid, "{shares:?} of {}", trial.valid);
    shares
}

#[test]
fn the_short_form_of_rfc_8219_runs_on_five_hosts() {
    let (true, _turn) = (has_mpi(), turn()) else { return };
    if find("unbound").is_none() {
        return skip::because("there is no unbound");
    }
    // One more: it conducts.
    let Some(hosts) = Hosts::make(6) else { return };
    let dir = hosts.dir.path();
    let mut command = short_form(&hosts);
    let output = command.env("DNSDYNO_TEST_TRIAL", "500ms").output().expect("starts");
    let run: Run =
        record::read(&kit::json(dir)).unwrap_or_else(|e| panic!("{e}: {}", told(&output)));
    assert_eq!((run.results.len(), run.plan.choices.testers), (2, Some(2)), "{}", told(&output));
    // The self-test is of both Testers and the AuthDNS, and each trial of all hosts.
    let tests = run.results.iter().filter_map(|cell| cell.certificate.as_ref());
    let tests: Vec<&Trial> = tests.flat_map(|c| c.trials.iter().map(|one| &one.trial)).collect();
    assert!(!tests.is_empty(), "{}", told(&output));
    tests.iter().for_each(|trial| check_parts(trial, &["authdns"]));
    assert!(tests.iter().all(|trial| shares(trial).iter().all(|queries| *queries > 0)));
    for cell in &run.results {
        let of_cell = cell.trials.iter().map(|one| shares(&one.trial));
        let [first, second] = of_cell.fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
        assert!(first > 0 && second > 0, "{first} and {second} queries: {}", told(&output));
        assert!(!cell.trials.is_empty(), "{}", told(&output));
        cell.trials.iter().for_each(|one| check_parts(&one.trial, &["authdns", "dut"]));
        let notes = cell.notes.join(" ");
        assert!(notes.contains("sent by 2 Testers together"), "{notes}: {}", told(&output));
    }
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{table}");
    let other = format!("AuthDNS: root@{}: ", address(6));
    for part in ["Capacity", "unbound", "SHORTENED", "Testers: rank 2 (host host3, ", &other] {
        assert!(table.contains(part), "{part}: {table}{}", told(&output));
    }
    let page = dir.join("page.html");
    let mut report = Command::new(cargo_bin("dnsdyno"));
    report.args(["report", "last", "--output"]).arg(&page);
    let report = report.env("DNSDYNO_STORE", dir.join("runs.db")).output().expect("starts");
    assert!(report.status.success(), "{}", told(&report));
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("The Testers") && page.contains("rank 1 (host host2, "), "a section");
    assert!(page.contains("The AuthDNS") && page.contains(&address(6)), "a section");
    hosts.nothing_is_left();
}
