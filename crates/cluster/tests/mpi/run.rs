//! Experiments by a real mpirun, on network namespaces as hosts: two Testers, or sixteen; AuthDNS, the server, and a host that
//! conducts.

use std::collections::HashSet;
use std::net::IpAddr;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use record::{Run, Trial};

use crate::cases::{Case, cases};
use crate::kit::host::installed;
use crate::kit::{Arrival, Hosts, address, dnsdyno, json, signal, soon, start, told, with_testers};
use crate::short_form;

/// Who starts the job of the Testers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Starter {
    /// `dnsdyno run --hosts`, which starts `mpirun` itself.
    Dnsdyno,
    /// The user, whose `mpirun` starts `dnsdyno-cluster run`.
    User,
}

impl Starter {
    /// A command on the first host, whose Testers are the next two, with the other hosts in the file of hosts.
    fn command(self, hosts: &Hosts, words: &[&str]) -> Command {
        let roles = roles();
        if self == Starter::Dnsdyno {
            let mut command = dnsdyno(hosts);
            command.args(words);
            return with_testers(hosts, command, 2..=3, &roles);
        }
        let file = hosts.dir.path().join("roles");
        std::fs::write(&file, roles).expect("writes");
        let mut command = hosts.mpirun(&[1, 2, 3]);
        command.arg(cargo_bin("dnsdyno-cluster")).args(words).arg("--hosts").arg(file);
        command.env("DNSDYNO_STORE", hosts.dir.path().join("runs.db"));
        command
    }

    /// The short form of RFC 8219's experiment with a server, at a rate that all hosts together can do on a small machine.
    fn short_form(self, hosts: &Hosts, server: &str) -> Command {
        let experiment = short_form::write(hosts.dir.path());
        let words = ["run", experiment.to_str().expect("UTF-8"), "--quick", "--servers", server];
        with_usual(hosts, self.command(hosts, &words))
    }
}

/// Adds what all runs have, also those that go on.
fn with_usual(hosts: &Hosts, mut command: Command) -> Command {
    command.args(["--wait", "--plain"]);
    command.arg("--ssh").arg(hosts.agent()).arg("--json").arg(json(hosts.dir.path()));
    // The hosts have its file, whose copy would take a second for each.
    command.arg("--dut-program").arg(cargo_bin("dnsdyno"));
    command
}

/// The other hosts of the short form in the file of hosts.
fn roles() -> String {
    let [auth, dut, other] = [4, 5, 6].map(address);
    format!("auth root@{auth} {auth}\nauth root@{other} {other}\ndut root@{dut} {dut}\n")
}

/// The hosts of an experiment with Unbound; `None` where it cannot run.
fn hosts() -> Option<Hosts> {
    // One more than the roles: it conducts.
    with_unbound(6)
}

/// As many hosts, where there is Unbound.
fn with_unbound(count: usize) -> Option<Hosts> {
    installed("unbound")?;
    Hosts::make(count)
}

/// All that finds the same on a busy machine, the longest first.
pub(crate) const CASES: [Case; 11] = cases![
    sixteen_hosts_ask_in_lock_step_for_names_of_their_own,
    the_short_form_of_rfc_8219_goes_on_in_the_users_job_after_an_interrupt,
    the_short_form_of_rfc_8219_goes_on_on_five_hosts_after_an_interrupt,
    a_run_goes_on_without_a_tester_that_was_killed,
    a_users_job_whose_tester_is_stopped_leaves_nothing =
        || drop(end_users_job("STOP", "a Tester", "(rank 2 (host host3, process ")),
    dns64d_asks_several_authdns_evenly,
    a_run_that_is_killed_leaves_nothing_on_any_host = || drop(end_run("KILL")),
    a_users_job_whose_mpirun_is_killed_leaves_nothing =
        || drop(end_users_job("KILL", "mpirun", "")),
    a_users_job_whose_first_rank_is_killed_leaves_nothing =
        || drop(end_users_job("KILL", "rank 0", "")),
    a_users_job_whose_run_is_killed_leaves_nothing =
        || drop(end_users_job("KILL", "the run", "the run was killed by signal 9")),
    a_users_job_whose_tester_is_killed_leaves_nothing =
        || drop(end_users_job("KILL", "a Tester", "mpirun noticed that process rank 2 ")),
];

/// Waits until the Testers send to both AuthDNS, as they do in the self-test.
fn self_test(hosts: &Hosts) {
    let sent = || [4, 6].iter().all(|host| hosts.datagrams(*host) > 1_000).then_some(());
    soon("the Testers send to both AuthDNS", sent);
}

/// Signals a run that has started its job itself, which must fail and leave nothing; returns its hosts.
fn end_run(name: &str) -> Option<Hosts> {
    let hosts = hosts()?;
    let mut child = start(Starter::Dnsdyno.short_form(&hosts, "unbound"));
    self_test(&hosts);
    signal(child.id(), name);
    assert!(!child.wait().expect("ends").success(), "{name}");
    hosts.nothing_is_left();
    Some(hosts)
}

/// Signals a process of a run in the user's job, which must fail with the words `wanted` and leave nothing; returns its hosts.
fn end_users_job(name: &str, of: &str, wanted: &str) -> Option<Hosts> {
    let hosts = hosts()?;
    let child = start(Starter::User.short_form(&hosts, "unbound"));
    self_test(&hosts);
    let pid = match of {
        "mpirun" => child.id(),
        "rank 0" => hosts.rank(1).expect("rank 0 runs"),
        "a Tester" => hosts.rank(3).expect("rank 2 runs"),
        _ => hosts.run(1).expect("it runs"),
    };
    signal(pid, name);
    let output = child.wait_with_output().expect("ends");
    assert!(!output.status.success(), "{name} of {of}");
    assert!(told(&output).contains(wanted), "{name} of {of}: {}", told(&output));
    hosts.nothing_is_left();
    Some(hosts)
}

fn a_run_goes_on_without_a_tester_that_was_killed() {
    let Some(hosts) = hosts() else { return };
    let mut command = Starter::Dnsdyno.short_form(&hosts, "unbound");
    command.args(["--least", "1"]).env("DNSDYNO_TEST_TRIAL", "1s");
    let child = start(command);
    self_test(&hosts);
    signal(hosts.rank(3).expect("rank 2 runs"), "KILL");
    let output = child.wait_with_output().expect("ends");
    let run = result(&hosts, &output);
    assert_eq!(run.results.len(), 2, "{}", told(&output));
    for cell in &run.results {
        assert!(!cell.trials.is_empty(), "{}", told(&output));
        for one in &cell.trials {
            let parts = &one.trial.merged.as_ref().expect("its parts").parts;
            let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
            assert!(
                matches!(names[..], [name] if name.starts_with("rank 1 (host host2, ")),
                "{names:?}"
            );
        }
    }
    // The self-test's trial in which it was lost is void.
    let wanted = "part 2/2 (rank 2 (host host3, process ";
    assert!(told(&output).contains(wanted), "{}", told(&output));
    hosts.nothing_is_left();
}

/// Lets the interrupted short form go on, which ends with both its cells, and checks it; returns the run and what it told. It
/// needs as many Testers as it began with.
fn goes_on(hosts: &Hosts, starter: Starter) -> (Run, String) {
    let file = hosts.dir.path().join("one");
    std::fs::write(&file, format!("tester {}\n{}", address(2), roles())).expect("writes");
    let mut command = dnsdyno(hosts);
    command.args(["run", "--resume", "last", "--hosts"]).arg(file);
    let mut command = with_usual(hosts, command);
    command.env("DNSDYNO_STORE", hosts.dir.path().join("runs.db"));
    let output = command.output().expect("starts");
    let wanted = "the run began with 2 Testers: give a file with 2";
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains(wanted), "{}", told(&output));
    let mut command = with_usual(hosts, starter.command(hosts, &["run", "--resume", "last"]));
    let output = command.env("DNSDYNO_TEST_TRIAL", "500ms").output().expect("starts");
    let (run, told) = (result(hosts, &output), told(&output));
    let shares = check_run(&run, &told);
    assert!(shares.iter().all(|queries| *queries > 0), "{shares:?}: {told}");
    hosts.nothing_is_left();
    (run, told)
}

/// The run that a command has written.
fn result(hosts: &Hosts, output: &Output) -> Run {
    record::read(&json(hosts.dir.path())).unwrap_or_else(|e| panic!("{e}: {}", told(output)))
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

/// Checks the short form: the self-test is of both Testers and both AuthDNS, and each trial of all hosts. Returns the numbers of queries
/// that each AuthDNS had in the trials of the server.
fn check_run(run: &Run, told: &str) -> [u64; 2] {
    assert_eq!((run.results.len(), run.plan.choices.testers), (2, Some(2)), "{told}");
    let tests = run.results.iter().filter_map(|cell| cell.certificate.as_ref());
    let tests: Vec<&Trial> = tests.flat_map(|c| c.trials.iter().map(|one| &one.trial)).collect();
    assert!(!tests.is_empty(), "{told}");
    tests.iter().for_each(|trial| check_parts(trial, &["authdns"]));
    assert!(tests.iter().all(|trial| shares(trial).iter().all(|queries| *queries > 0)));
    for cell in &run.results {
        assert!(!cell.trials.is_empty(), "{told}");
        cell.trials.iter().for_each(|one| check_parts(&one.trial, &["authdns", "dut"]));
        let notes = cell.notes.join(" ");
        assert!(notes.contains("sent by 2 Testers together"), "{notes}: {told}");
    }
    let trials = run.results.iter().flat_map(|cell| &cell.trials);
    trials.map(|one| shares(&one.trial)).fold([0, 0], |[a, b], [c, d]| [a + c, b + d])
}

fn the_short_form_of_rfc_8219_goes_on_on_five_hosts_after_an_interrupt() {
    let Some(hosts) = end_run("INT") else { return };
    let (run, said) = goes_on(&hosts, Starter::Dnsdyno);
    let table = report::run(&run) + &report::details(&run);
    let other = format!("AuthDNS: root@{}: ", address(6));
    for part in ["Capacity", "unbound", "SHORTENED", "Testers: rank 2 (host host3, ", &other] {
        assert!(table.contains(part), "{part}: {table}{said}");
    }
    let dir = hosts.dir.path();
    let page = dir.join("page.html");
    let mut report = Command::new(cargo_bin("dnsdyno"));
    report.args(["report", "last", "--output"]).arg(&page);
    let report = report.env("DNSDYNO_STORE", dir.join("runs.db")).output().expect("starts");
    assert!(report.status.success(), "{}", told(&report));
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("The Testers") && page.contains("rank 1 (host host2, "), "a section");
    assert!(page.contains("The AuthDNS") && page.contains(&address(6)), "a section");
}

fn the_short_form_of_rfc_8219_goes_on_in_the_users_job_after_an_interrupt() {
    let Some(hosts) = end_users_job("INT", "mpirun", "") else { return };
    let (run, _) = goes_on(&hosts, Starter::User);
    assert!(run.plan.command.contains("dnsdyno-cluster run "), "{}", run.plan.command);
    let table = report::details(&run);
    assert!(table.contains("Testers: rank 2 (host host3, "), "{table}");
    // What is wrong is told by the run, whose code is that of the job.
    let file = hosts.dir.path().join("roles");
    let with = |more: &str, words: &[&str]| {
        let words = [&["run", "dns64-rfc8219", "--servers", "unbound"], words].concat();
        let mut command = Starter::User.command(&hosts, &words);
        std::fs::write(&file, format!("{}{more}", roles())).expect("writes");
        let output = command.output().expect("starts");
        let all = [&output.stdout[..], &output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&all).into_owned())
    };
    for (more, words, code, said) in [
        ("", &["--dry-run"][..], 0, "unbound"),
        ("tester a\ntester b\n", &["--dry-run"], 0, "unbound"),
        ("tester a\n", &["--dry-run"], 2, "it names 1 as Testers, but the job has 2 beside"),
        ("", &["--least", "1"], 2, "`dnsdyno-cluster --least N run ...`"),
        ("", &["--engine", "kernel"], 2, "several Testers send with sockets"),
        ("", &["--rates", "1"], 2, "--rates"),
    ] {
        let (found, told) = with(more, words);
        assert!(found == Some(code) && told.contains(said), "{words:?}: {found:?}: {told}");
        hosts.nothing_is_left();
    }
}

fn dns64d_asks_several_authdns_evenly() {
    let Some(hosts) = hosts() else { return };
    let program = cargo_bin("dns64d");
    if !program.exists() {
        return skip::because("dns64d is not built: cargo build");
    }
    let mut command = Starter::Dnsdyno.short_form(&hosts, "dns64d");
    // dns64d is to be installed on the server's host.
    let own = program.parent().expect("a folder").to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = [own].into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(all).expect("folders"));
    let output = command.env("DNSDYNO_TEST_TRIAL", "500ms").output().expect("starts");
    let [first, second] = check_run(&result(&hosts, &output), &told(&output));
    println!("{first} and {second} queries");
    // All but queries that are repeated, and those between two trials, are shared evenly.
    let larger = first.max(second) as f64 / (first + second) as f64;
    assert!(larger < 0.6, "{first} and {second} queries: {}", told(&output));
    hosts.nothing_is_left();
}

/// Experiments of dns64perf2, two from each host.
const LOCKSTEP: &str = "name = \"sixteen\"
title = \"Sixteen hosts in lock-step\"
role = \"dns64\"
servers = [\"unbound\"]
method = \"lockstep\"
repeats = 1

[workload]
unpadded = true

[lockstep]
lanes = 2
experiments = 2
new-threads = true
timeout = \"5s\"
";

/// Sixteen small computers are the future work of seed 002 (section VI-A).
fn sixteen_hosts_ask_in_lock_step_for_names_of_their_own() {
    // The first one conducts, then come the Testers, the AuthDNS and the server.
    let Some(hosts) = with_unbound(19) else { return };
    let capture = hosts.capture(19, "asked.pcap");
    let (dir, server) = (hosts.dir.path(), address(19));
    let experiment = dir.join("sixteen.toml");
    std::fs::write(&experiment, LOCKSTEP).expect("writes");
    let mut command = dnsdyno(&hosts);
    command.arg("run").arg(experiment);
    let roles =
        format!("auth root@{auth} {auth}\ndut root@{server} {server}\n", auth = address(18));
    let mut command = with_usual(&hosts, with_testers(&hosts, command, 2..=17, &roles));
    let output = command.output().expect("starts");
    let run = result(&hosts, &output);
    let trials = &run.results[0].trials;
    assert!(!trials.is_empty(), "{}", told(&output));
    for Trial { merged, void, .. } in trials.iter().map(|one| &one.trial) {
        let merged = merged.as_ref().expect("its parts");
        let (spread, bound) = (merged.start_spread_us, merged.start_bound_us);
        println!("starts {spread:.0} us apart, {bound:.0} are allowed; void: {:?}", void.0);
        assert_eq!(merged.parts.len(), 16, "{}", told(&output));
        for (number, part) in merged.parts.iter().enumerate() {
            let rank = format!("rank {} (host host{}, ", number + 1, number + 2);
            assert!(part.name.starts_with(&rank) && part.clock.is_some(), "{part:?}");
            assert_eq!(part.sent, 512, "{part:?}: {void:?}");
        }
        assert!(spread <= bound || void.is_void(), "{merged:?}");
    }
    // What was answered has arrived, each name once, and from a host of its own.
    let testers: Vec<String> = (2..=17).map(address).collect();
    let is_testers = |query: &&Arrival| testers.contains(&query.source.to_string());
    let valid: u64 = trials.iter().map(|one| one.trial.valid).sum();
    let server = format!("{server}:53").parse().expect("an address");
    let enough = |all: &[Arrival]| all.iter().filter(is_testers).count() as u64 >= valid;
    let arrivals = capture.end(server, enough);
    let arrivals: Vec<&Arrival> = arrivals.iter().filter(is_testers).collect();
    let names: HashSet<&[u8]> = arrivals.iter().map(|query| &*query.name).collect();
    let sources: HashSet<IpAddr> = arrivals.iter().map(|query| query.source).collect();
    assert_eq!((names.len(), sources.len()), (arrivals.len(), 16), "{valid} valid");
    hosts.nothing_is_left();
}
