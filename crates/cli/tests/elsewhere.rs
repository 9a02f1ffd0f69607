//! Servers that a run starts on another host: here the hosts are network namespaces, joined by a link, with a real sshd in one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;
use measure::Path;
use record::{CellRecord, Run};
use tempfile::TempDir;

use crate::kit::command::{Held, said};
use crate::kit::host::{SOON, installed, soon};
use crate::kit::sshd::{join, network, start_sshd};
use crate::kit::{shared, short_form};

/// Addresses of the server's host, and further ones of it, each for an AuthDNS.
const DUT: &str = "fd00:77::2,10.77.0.2";
const AUTH: &str = "fd00:77::3,10.77.0.3";
const SECOND: &str = "fd00:77::4,10.77.0.4";

/// Two hosts: the Tester's, and that of the server with an sshd.
struct Hosts {
    dir: TempDir,
    ssh: String,
    // Ended in this order.
    sshd: Held,
    here: Held,
    there: Held,
}

impl Hosts {
    /// Makes the hosts; `None` if this machine does not let us.
    fn new() -> Option<Self> {
        let able = |words: &[&str]| {
            Command::new("unshare")
                .args(words)
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|s| s.success())
        };
        if !nix::unistd::geteuid().is_root() || !able(&["--net", "true"]) {
            return skip::none("namespaces with an sshd need root");
        }
        installed("sshd").and(installed("unbound"))?;
        let dir = tempfile::tempdir().expect("a temporary folder");
        let own = network(std::process::id());
        let host = || {
            let held = Held::start(Command::new("unshare").args(["--net", "sleep", "1000"]));
            soon("a network namespace", || (network(held.0.id()) != own).then_some(()));
            held
        };
        let (here, there) = (host(), host());
        join(here.0.id(), there.0.id());
        let (sshd, ssh) = start_sshd(dir.path(), there.0.id());
        Some(Hosts { dir, ssh, sshd, here, there })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// dnsdyno on the Tester's host.
    fn dnsdyno(&self) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &self.here.0.id().to_string(), "-n"])
            .arg(cargo_bin("dnsdyno"))
            .env("DNSDYNO_STORE", self.path("runs.db"))
            .current_dir(self.dir.path());
        command
    }

    /// A run of an experiment with a server on the other host, which has our program.
    fn run(&self, experiment: &str) -> Command {
        let mut command = self.run_that_brings(experiment);
        command.arg("--dut-program").arg(cargo_bin("dnsdyno"));
        command
    }

    /// The same with a copy of our program, which takes a second or two to get there.
    fn run_that_brings(&self, experiment: &str) -> Command {
        let mut command = self.dnsdyno();
        command
            .args(["run", experiment, "--wait", "--plain", "--no-store", "--json", "out.json"])
            .args(self.place())
            .env("DNSDYNO_TEST_TRIAL", "500ms");
        command
    }

    /// The arguments that say where the server is.
    fn place(&self) -> [&str; 6] {
        ["--dut", "root@fd00:77::2", "--dut-address", DUT, "--ssh", &self.ssh]
    }

    /// A run that lasts for as long as a test needs, after its server has come up.
    fn long(&self) -> (Child, u32) {
        fs::write(self.path("long.toml"), experiment("load", 2, LOAD)).expect("writes");
        let mut command = self.run_that_brings("long.toml");
        command.env("DNSDYNO_TEST_TRIAL", "90s");
        self.start(command)
    }

    /// Starts a run; returns it and its server when queries are sent.
    fn start(&self, mut command: Command) -> (Child, u32) {
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
        let server = soon("the server runs there", || self.there("unbound").first().copied());
        soon("the Measurer runs", || self.here("__task measure").first().copied());
        (child, server)
    }

    fn result(&self) -> Run {
        record::read(&self.path("out.json")).expect("a run")
    }

    /// The processes on a host whose command line contains `word`, without those that make the host.
    fn processes(&self, host: &Held, word: &str) -> Vec<u32> {
        let own = [self.sshd.0.id(), self.here.0.id(), self.there.0.id()];
        let network_of = host.network();
        let entries = fs::read_dir("/proc").expect("readable").flatten();
        let numbers = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        let there = numbers.filter(|pid| !own.contains(pid) && network(*pid) == Some(network_of));
        let mut found: Vec<u32> = there
            .filter(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                // Sessions of sshd are the system's.
                !line.is_empty() && !line.starts_with("sshd") && line.contains(word)
            })
            .collect();
        found.sort_unstable();
        found
    }

    fn here(&self, word: &str) -> Vec<u32> {
        self.processes(&self.here, word)
    }

    fn there(&self, word: &str) -> Vec<u32> {
        self.processes(&self.there, word)
    }

    /// Waits until nothing is left on either host.
    fn nothing_is_left(&self) {
        let brought = || fs::read_dir(self.path("brought")).expect("readable").count();
        let all = || [self.here(""), self.there("")].concat();
        let deadline = Instant::now() + SOON;
        while !all().is_empty() || brought() > 0 {
            let left: Vec<String> = all().into_iter().map(command_line).collect();
            assert!(Instant::now() < deadline, "{} folders are left, and {left:?}", brought());
            std::thread::sleep(Duration::from_millis(50));
        }
        let temporary = self.path("tmp");
        let own = fs::read_dir(temporary).map_or(0, Iterator::count);
        assert_eq!(own, 0, "the Tester's temporary folder");
    }

    /// Waits until a run that has lost the other host has failed and said `why`; it leaves nothing.
    fn is_lost(&self, run: Child, why: &str) {
        let output = run.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(why), "{}", said(&output));
        self.nothing_is_left();
    }
}

/// The command line of a process, with its state.
fn command_line(pid: u32) -> String {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let status = String::from_utf8_lossy(&read("status")).into_owned();
    let state =
        status.lines().find(|line| line.starts_with("State")).unwrap_or_default().to_owned();
    format!("{pid} {} {state}", String::from_utf8_lossy(&read("cmdline")).replace('\0', " "))
}

/// An experiment with one server.
fn experiment(method: &str, repeats: u32, more: &str) -> String {
    format!(
        "name = \"far\"\ntitle = \"A server on another host\"\nrole = \"dns64\"\nservers = [\"unbound\"]\n\
         method = \"{method}\"\nrepeats = {repeats}\nworkload = {{ namespace = \"0.0.0.0/2\" }}\n{more}\n"
    )
}

/// A load, of half a second unless a test says something else.
const LOAD: &str = r#"load = { rates = ["300"], duration = "90s", timeout = "300ms" }"#;
const RFC8219: &str = r#"search = { rule = "rfc8219", goal = "zero-loss", start = "1k", max = "1k", resolution = 0.02, duration = "60s" }"#;

/// The trials of a run that starts its server there, each with what the agent saw.
fn check_trials(run: &Run, told: &str) {
    let cell = run.results.first().unwrap_or_else(|| panic!("{told}"));
    assert!(!cell.trials.is_empty(), "{told}");
    for trial in cell.trials.iter().map(|one| &one.trial) {
        let dut = trial.cpu.get("dut").unwrap_or_else(|| panic!("{:?}", trial.cpu));
        // Time in user mode and in the kernel is counted in ticks, of which a short trial may have none.
        assert!(dut.busy > 0.0 && !dut.cpus.is_empty(), "{dut:?}");
        assert!(trial.cpu.contains_key("authdns"), "{:?}", trial.cpu);
    }
    assert!(cell.server_version.as_deref().is_some_and(|v| v.starts_with(char::is_numeric)));
    assert!(cell.files.values().any(|text| text.contains("10.77.0.")), "{:?}", cell.files);
    let notes = cell.notes.join(" ");
    assert!(notes.contains("where an agent started and probed it"), "{notes}");
    assert!(notes.contains("MB of memory"), "{notes}");
}

#[test]
fn servers_are_started_there_and_nothing_is_left() {
    let Some(hosts) = Hosts::new() else { return };
    fs::write(hosts.path("short.toml"), experiment("load", 2, LOAD)).expect("writes");
    let mut command = hosts.run_that_brings("short.toml");
    let output = command.env("TMPDIR", hosts.path("tmp")).output().expect("starts");
    let (run, told) = (hosts.result(), said(&output));
    check_trials(&run, &told);
    assert!(told.contains("Unbound on root@fd00:77::2 at [fd00:77::2]:53"), "{told}");
    assert_eq!(run.results[0].repeats_made(), 2, "{told}");
    hosts.nothing_is_left();

    // The AuthDNS on a third host: here it is the same one by other addresses.
    let mut command = hosts.run("short.toml");
    command.args(["--auth", "root@fd00:77::2", "--auth-address", AUTH]);
    let output = command.output().expect("starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    check_trials(&hosts.result(), &told);
    hosts.nothing_is_left();

    // What is not there is not measured, and what the host lacks is said.
    let output = hosts.run("short.toml").args(["--dut-cpus", "0,1000"]).output().expect("starts");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("root@fd00:77::2: cores 0,1000: this process may use"), "{told}");
    hosts.nothing_is_left();
}

#[test]
fn several_authdns_share_the_queries() {
    let Some(hosts) = Hosts::new() else { return };
    fs::write(hosts.path("short.toml"), experiment("load", 1, LOAD)).expect("writes");
    // One host by two of its addresses: each AuthDNS has an agent of its own.
    let mut command = hosts.run("short.toml");
    command.args(["--auth", "root@fd00:77::2", "--auth-address", AUTH]);
    command.args(["--auth", "root@fd00:77::3", "--auth-address", SECOND]);
    let output = command.output().expect("starts");
    let (run, told) = (hosts.result(), said(&output));
    check_trials(&run, &told);
    let cell = &run.results[0];
    for address in ["10.77.0.3@53", "10.77.0.4@53"] {
        assert!(cell.files.values().any(|text| text.contains(address)), "{:?}", cell.files);
    }
    for trial in cell.trials.iter().map(|one| &one.trial) {
        let hosts: Vec<&str> = trial.authdns.iter().map(|one| one.host.as_str()).collect();
        assert_eq!(hosts, ["root@fd00:77::2", "root@fd00:77::3"], "{told}");
        let queries: Vec<u64> = trial.authdns.iter().filter_map(|one| one.queries).collect();
        // An AAAA and an A record for each name, but for those that the server was asked for when it started. Which of the two
        // it asks is its own choice: Unbound keeps away from one whose first reply took over 376 ms, as on a busy machine.
        assert_eq!(queries.len(), 2, "{queries:?}");
        assert!(queries.iter().sum::<u64>() + 10 > 2 * trial.valid, "{queries:?}: {}", trial.valid);
    }
    let shown = report::details(&run);
    assert!(shown.contains("AuthDNS: root@fd00:77::3: "), "{shown}");
    hosts.nothing_is_left();

    // A server whose adapter knows one of them is left out.
    let mut command = hosts.run("short.toml");
    let own = format!("own={} {{{{ upstream.v4 }}}}", cargo_bin("dnsdyno").display());
    command.args(["--servers", "own", "--custom", &own]);
    command.args(["--auth", "root@fd00:77::2", "--auth-address", AUTH]);
    command.args(["--auth", "root@fd00:77::3", "--auth-address", SECOND]);
    let output = command.output().expect("starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("the adapter of own supports only one"), "{said}");
    hosts.nothing_is_left();
}

#[test]
fn cores_that_the_host_does_not_have_are_skipped() {
    let Some(hosts) = Hosts::new() else { return };
    let cores = format!("{LOAD}\nmatrix = {{ dut.cores = [1, 4000] }}");
    fs::write(hosts.path("cores.toml"), experiment("load", 1, &cores)).expect("writes");
    let output = hosts.run("cores.toml").output().expect("starts");
    let (run, told) = (hosts.result(), said(&output));
    check_trials(&run, &told);
    let [skipped] = &run.skipped[..] else { panic!("{told}") };
    assert!(skipped.why.contains("root@fd00:77::2: 4000 cores: there are"), "{}", skipped.why);
    // It is complete without them, unless the machine was busy.
    assert_eq!(run.complete, run.results[0].void_repeats.is_empty(), "{told}");
    hosts.nothing_is_left();
}

#[test]
fn zones_and_certificates_are_made_for_the_host() {
    let Some(hosts) = Hosts::new() else { return };
    if installed("nsd").is_none() {
        return;
    }
    let zone = experiment("load", 1, LOAD)
        .replace("dns64", "authoritative")
        .replace("unbound", "nsd")
        .replace("0.0.0.0/2", "10.0.0.0/20");
    let tls = experiment("load", 1, &format!("{LOAD}\ntester = {{ transport = \"tls\" }}"));
    for (name, text) in [("zone.toml", zone), ("tls.toml", tls)] {
        fs::write(hosts.path(name), text).expect("writes");
        let output = hosts.run(name).output().expect("starts");
        let run = hosts.result();
        let cell = run.results.first().unwrap_or_else(|| panic!("{}", said(&output)));
        for trial in cell.trials.iter().map(|one| &one.trial) {
            assert!(trial.valid > 0 && trial.cpu.contains_key("dut"), "{trial:?}");
        }
        assert!(!cell.trials.is_empty(), "{}", said(&output));
        hosts.nothing_is_left();
    }
}

/// The differences from RFC 8219 that are not of two hosts with one kernel.
fn of_the_plan(cell: &CellRecord) -> Vec<&str> {
    let all = cell.differs.iter().map(String::as_str);
    let one_host = ["the Tester and the server are on one host", "offload: "];
    all.filter(|how| !one_host.iter().any(|start| how.starts_with(start))).collect()
}

#[test]
fn a_run_over_ssh_differs_only_in_that_both_hosts_have_one_kernel() {
    let Some(hosts) = Hosts::new() else { return };
    let shortened = |command: &mut Command| {
        command.env("DNSDYNO_TEST_TRIAL", "300ms").output().expect("starts")
    };
    let mut selftest = hosts.dnsdyno();
    selftest.args(["selftest", "--rate", "3k", "--duration", "60s"]);
    shortened(selftest.args(["--write-certificate", "tester.json"]));
    shared::certify(&hosts.path("tester.json"), 2_000.0);
    fs::write(hosts.path("rfc.toml"), experiment("search", 20, RFC8219)).expect("writes");
    let mut command = hosts.run("rfc.toml");
    let output = shortened(command.args(["--certificate", "tester.json"]));
    let (run, told) = (hosts.result(), said(&output));
    hosts.nothing_is_left();
    let cell = run.results.first().unwrap_or_else(|| panic!("{told}"));
    // A busy machine makes searches void, which leaves fewer than twenty.
    let void = &cell.void_repeats;
    assert!(void.iter().all(|void| shared::is_disturbance(&void.why)), "{void:?}");
    assert_eq!(cell.repeats_made(), 20, "{told}");
    let differs = of_the_plan(cell);
    assert!(differs.iter().all(|how| how.contains(" searches")), "{differs:?}: {told}");
    assert_eq!(differs.is_empty(), void.is_empty(), "{differs:?}");
    let joined = "the Tester and the server are on one host, joined by links between network namespaces of one kernel";
    assert!(cell.differs.iter().any(|how| how == joined), "{:?}", cell.differs);
    assert!(cell.trials.iter().all(|one| one.trial.conditions.path != Some(Path::Wire)));
    assert_eq!(cell.shortened_s, Some(0.3));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("SHORTENED"), "{table}");
}

#[test]
fn the_short_form_of_rfc_8219_runs_over_ssh() {
    let Some(hosts) = Hosts::new() else { return };
    let file = short_form::write(hosts.dir.path());
    let mut command = hosts.run(file.to_str().expect("UTF-8"));
    command.args(["--quick", "--servers", "unbound"]).env("DNSDYNO_TEST_TRIAL", "200ms");
    let output = command.output().expect("starts");
    let (run, told) = (hosts.result(), said(&output));
    check_trials(&run, &told);
    assert_eq!(run.results.len(), 2, "the cache on and off: {told}");
    for cell in &run.results {
        assert_eq!(cell.shortened_s, Some(0.2));
        // What differs is the plan, and the host is not among it.
        let differs = of_the_plan(cell).join("; ");
        assert!(!differs.is_empty() && !differs.contains("host"), "{differs}");
    }
    hosts.nothing_is_left();
}

#[test]
fn a_run_goes_on_on_the_host_of_its_beginning() {
    let Some(hosts) = Hosts::new() else { return };
    fs::write(hosts.path("long.toml"), experiment("load", 1, LOAD)).expect("writes");
    let mut command = hosts.dnsdyno();
    command.args(["run", "long.toml", "--wait", "--plain"]).args(hosts.place());
    command.env("DNSDYNO_TEST_TRIAL", "90s");
    let (child, _) = hosts.start(command);
    kill("INT", &[child.id()]);
    let output = child.wait_with_output().expect("ends");
    assert!(said(&output).contains("kept as run 1"), "{}", said(&output));
    hosts.nothing_is_left();
    let mut command = hosts.dnsdyno();
    command.args(["run", "--resume", "last", "--wait", "--plain", "--json", "out.json"]);
    let output = command.env("DNSDYNO_TEST_TRIAL", "500ms").output().expect("starts");
    check_trials(&hosts.result(), &said(&output));
    hosts.nothing_is_left();
}

#[test]
fn a_killed_ssh_leaves_nothing_on_either_side() {
    let Some(hosts) = Hosts::new() else { return };
    let (child, _) = hosts.long();
    let mut ssh = hosts.here("ssh -F none");
    // The command line of the Tester has these words too.
    ssh.retain(|pid| !is_program(*pid));
    kill("KILL", &ssh);
    hosts.is_lost(child, "root@fd00:77::2: the agent is gone");
}

#[test]
fn a_killed_agent_or_tester_leaves_nothing() {
    let Some(hosts) = Hosts::new() else { return };
    for inner in [false, true] {
        let (child, server) = hosts.long();
        let agents = hosts.there("dnsdyno agent --start-servers");
        assert!(agents.len() >= 2 && !agents.contains(&server), "{agents:?}");
        // The first one waits outside of the pid namespace.
        kill("KILL", &[if inner { agents[1] } else { agents[0] }]);
        hosts.is_lost(child, "the agent is gone");
    }
    let (mut child, _) = hosts.long();
    child.kill().expect("it runs");
    child.wait().expect("ends");
    hosts.nothing_is_left();
    let (child, _) = hosts.long();
    kill("INT", &[child.id()]);
    let output = child.wait_with_output().expect("ends");
    assert_ne!(output.status.code(), Some(0), "{}", said(&output));
    hosts.nothing_is_left();
}

/// Whether a process runs a program of ours, and is no shell with its name among its words.
fn is_program(pid: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe"))
        .is_ok_and(|exe| exe.to_string_lossy().contains("dnsdyno"))
}

fn kill(signal: &str, pids: &[u32]) {
    assert!(!pids.is_empty(), "somebody to signal");
    // All at once: one may end with another.
    let pids = pids.iter().map(u32::to_string);
    let status = Command::new("kill").arg(format!("-{signal}")).args(pids).status();
    assert!(status.expect("starts").success());
}

#[test]
fn a_stopped_agent_is_named_and_ends() {
    let Some(hosts) = Hosts::new() else { return };
    fs::write(hosts.path("x.toml"), experiment("load", 2, LOAD)).expect("writes");
    let mut command = hosts.run("x.toml");
    command.env("DNSDYNO_TEST_TRIAL", "5s");
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    soon("the Measurer runs", || hosts.here("__task measure").first().copied());
    kill("STOP", &hosts.there("agent --start"));
    hosts.is_lost(child, "root@fd00:77::2: the agent did not reply within 20s");
}

#[test]
fn a_link_that_is_down_ends_both_sides() {
    let Some(hosts) = Hosts::new() else { return };
    let (child, _) = hosts.long();
    let pid = hosts.there.0.id().to_string();
    let down = ["-t", &pid, "-n", "ip", "link", "set", "v1", "down"];
    assert!(Command::new("nsenter").args(down).status().expect("starts").success());
    hosts.is_lost(child, "the agent is gone");
}

#[test]
fn the_hosts_of_several_testers_are_checked_first() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("hosts");
    let said = |text: &str, words: &[&str]| {
        fs::write(&file, text).expect("writes");
        let mut command = Command::new(cargo_bin("dnsdyno"));
        let output = command.args(words).arg("--hosts").arg(&file).output().expect("starts");
        (output.status.code(), said(&output))
    };
    let run = ["run", "dns64-rfc8219", "--dry-run", "--servers", "unbound"];
    let with = |more: &[&'static str]| [&run[..], more].concat();
    let all = "tester a\ntester b\ndut root@c 192.0.2.1\nauth d\n";
    assert_eq!(said(all, &run).0, Some(0));
    assert_eq!(said(&format!("{all}auth e 192.0.2.3\n"), &run).0, Some(0));
    for (text, words, why) in [
        ("tester a\n", with(&[]), "--hosts: Unbound would run on this host"),
        ("tester a\ndut b\n", with(&[]), "need an AuthDNS that all of them reach"),
        (all, with(&["--dut", "e"]), "--dut: the file of --hosts names this host too"),
        (all, with(&["--engine", "kernel"]), "several Testers send with sockets"),
        ("tester a\n", with(&["--dut-cpus", "0"]), "--dut-cpus needs the host of a server"),
        ("tester a\n", with(&["--ssh", "ssh -4"]), "--ssh needs the host of a server"),
        (all, vec!["load", "::1", "--name", "x.test"], "the roles `dut` and `auth` are for `run`"),
        ("dut b\n", with(&[]), "hosts: it names no Tester"),
        (
            "tester a\ndut b\nauth c\nauth c\n",
            with(&[]),
            "line 4: `auth c`: this host already has an AuthDNS",
        ),
        (
            "tester a\n",
            with(&["--dut", "b", "--auth", "c", "--auth", "c"]),
            "--auth c: this host already has an",
        ),
        (
            "tester a\n",
            with(&["--dut", "b", "--auth", "c", "--auth", "d", "--auth-address", "::1"]),
            "--auth-address: give it once for each --auth",
        ),
        (
            "tester a\n",
            with(&["--dut", "b", "--auth", "c", "--auth-address", "::1,x"]),
            "invalid IP address syntax",
        ),
    ] {
        let (code, told) = said(text, &words);
        assert!(code == Some(2) && told.contains(why), "{words:?}: {told}");
    }
}

#[test]
fn another_version_is_refused_before_anything_starts() {
    let Some(hosts) = Hosts::new() else { return };
    fs::write(hosts.path("x.toml"), experiment("load", 1, LOAD)).expect("writes");
    let program = hosts.path("other");
    let says = r#"echo '{"ready":{"version":"0.0.1"}}'; cat >/dev/null"#;
    fs::write(&program, format!("#!/bin/sh\n{says}\n")).expect("writes");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("sets");
    let output = hosts
        .run_that_brings("x.toml")
        .args(["--dut-program", program.to_str().expect("UTF-8")])
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        said(&output).contains("the agent has version 0.0.1, this program"),
        "{}",
        said(&output)
    );
    assert!(
        !hosts.path("out.json").exists()
            || fs::metadata(hosts.path("out.json")).is_ok_and(|m| m.len() == 0)
    );
    hosts.nothing_is_left();
}
