//! The agent on the server's host, by a real sshd: here the host is this one, behind a login.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use record::Trial;
use tempfile::TempDir;

use crate::kit::cases::{at_a_time, cases};
use crate::kit::command::{Held, said};
use crate::kit::host::{find, free_port, signal, soon, ssh_key};

/// An sshd for this user, a server, and a folder for what is brought.
struct Elsewhere {
    // Ended in this order.
    _sshd: Held,
    _server: Held,
    dir: TempDir,
    ssh: String,
    target: String,
    /// Name of the server's process, this one's alone: the agent watches all processes of the name it is given.
    name: String,
}

impl Elsewhere {
    /// Starts sshd and server; `None` if this host has no sshd.
    fn start() -> Option<Self> {
        Self::with_server(&[])
    }

    /// The same with further arguments of the server.
    fn with_server(more: &[&str]) -> Option<Self> {
        let Some(sshd) = find("sshd") else {
            return skip::none("there is no sshd (package openssh-server)");
        };
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| dir.path().join(name);
        assert!(ssh_key(&path("host")) && ssh_key(&path("user")), "ssh-keygen makes keys");
        fs::create_dir(path("brought")).expect("a folder");
        // As root it wants this folder, which its service makes.
        let _ = fs::create_dir("/run/sshd");
        let port = free_port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {0}/host\nAuthorizedKeysFile {0}/user.pub\nPidFile none\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nSetEnv TMPDIR={0}/brought\n",
            dir.path().display()
        );
        fs::write(path("config"), config).expect("writes");
        let log = fs::File::create(path("sshd.log")).expect("a file");
        let sshd = Command::new(sshd)
            .args(["-D", "-e", "-f"])
            .arg(path("config"))
            .stderr(log)
            .spawn()
            .expect("starts");
        let at = free_port();
        let name = format!("dut-{at}");
        let program = path(&name);
        std::os::unix::fs::symlink(cargo_bin("dnsdyno"), &program).expect("a link");
        let target = format!("127.0.0.1:{at}");
        let server = Command::new(&program)
            .args(["auth", "--listen", &target, "--aaaa", "always"])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let ssh = format!(
            "ssh -F none -i {}/user -p {port} -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
            dir.path().display()
        );
        soon("sshd and the server listen", || {
            let listens = |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
            (listens(port) && listens(at)).then_some(())
        });
        Some(Elsewhere { _sshd: Held(sshd), _server: Held(server), dir, ssh, target, name })
    }

    /// dnsdyno with the words of `first`, and an agent that watches `process`.
    fn dnsdyno(&self, first: &[&str], process: &str) -> Command {
        let user = Command::new("id").arg("-un").output().expect("starts").stdout;
        let user = String::from_utf8(user).expect("UTF-8");
        let mut command = Command::new(cargo_bin("dnsdyno"));
        command
            .env("DNSDYNO_STORE", self.dir.path().join("runs.db"))
            .args(first)
            .args(["--dut", &format!("{}@127.0.0.1", user.trim()), "--dut-process", process])
            .args(["--ssh", &self.ssh, "--json"])
            .arg(self.json());
        command
    }

    /// A load of `seconds` with an agent that watches `process`.
    fn load(&self, process: &str, seconds: u32) -> Command {
        let mut command = self.dnsdyno(&["load", &self.target], process);
        command
            .args(["--namespace", "10.0.0.0/16", "--type", "A", "--rate", "2k"])
            .args(["--duration", &format!("{seconds}s")]);
        command
    }

    fn json(&self) -> PathBuf {
        self.dir.path().join("out.json")
    }

    fn trial(&self) -> Trial {
        record::read(&self.json()).expect("a trial")
    }

    /// The folders that were brought and are still there.
    fn brought(&self) -> usize {
        fs::read_dir(self.dir.path().join("brought")).expect("readable").count()
    }

    /// Waits until no agent is left, nor what was brought.
    fn nothing_is_left(&self) {
        let folder = self.dir.path().join("brought");
        let runs_there =
            |pid: &Path| fs::read_link(pid.join("exe")).is_ok_and(|exe| exe.starts_with(&folder));
        soon("the agent ends and its folder is removed", || {
            let processes = fs::read_dir("/proc").expect("readable").flatten();
            let agents = processes.filter(|entry| runs_there(&entry.path())).count();
            (agents == 0 && self.brought() == 0).then_some(())
        });
    }
}

/// Each with an sshd and a server of its own, the longest first.
#[test]
fn an_agent_is_on_the_host_of_the_server() {
    at_a_time(
        4,
        &cases![
            the_wait_for_an_agreed_start_is_not_counted,
            a_broken_link_ends_the_agent_and_not_the_trial,
            the_agent_sees_the_server_and_leaves_nothing,
            a_run_probes_the_host_of_a_server_at_an_address,
        ],
    );
}

fn the_agent_sees_the_server_and_leaves_nothing() {
    let Some(elsewhere) = Elsewhere::start() else { return };
    let output = elsewhere.load(&elsewhere.name, 2).output().expect("starts");
    let trial = elsewhere.trial();
    assert_eq!(output.status.success(), !trial.void.is_void(), "{}", said(&output));
    let dut = trial.cpu.get("dut").unwrap_or_else(|| panic!("{}", said(&output)));
    assert!(dut.user_s + dut.system_s > 0.0 && dut.busy > 0.0 && !dut.cpus.is_empty(), "{dut:?}");
    let sides: Vec<_> = trial.disturbances.watched.iter().map(|core| core.side).collect();
    assert!(sides.contains(&measure::stall::Side::Dut), "{sides:?}");
    // The clocks of the two processes are the same here: stalls lie within the trial, or a little beside it.
    let started = trial.disturbances.started;
    let near = |at: measure::Nanos| at.0.abs_diff(started.0) < 60_000_000_000;
    assert!(
        trial.disturbances.stalls.iter().all(|stall| near(stall.at)),
        "{:?}",
        trial.disturbances
    );
    elsewhere.nothing_is_left();
    let output = elsewhere.load("no-such-server", 1).output().expect("starts");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("no process is named `no-such-server`"), "{}", said(&output));
    elsewhere.nothing_is_left();
}

fn the_wait_for_an_agreed_start_is_not_counted() {
    // It uses its core all the time, so that its CPU time tells how long was counted.
    let Some(elsewhere) = Elsewhere::with_server(&["--wait-mode", "spin"]) else { return };
    const AHEAD_S: u64 = 14;
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let at = format!("@{}", now.as_secs() + AHEAD_S);
    let mut command = elsewhere.load(&elsewhere.name, 1);
    command.args(["--start-at", &at, "--clock-bound", "unchecked"]);
    let output = command.output().expect("starts");
    let trial = elsewhere.trial();
    let dut = trial.cpu.get("dut").unwrap_or_else(|| panic!("{}", said(&output)));
    // It is that of the time of sending alone, which no thread can use twice.
    let (used_s, threads) = (dut.user_s + dut.system_s, f64::from(dut.threads.expect("threads")));
    assert!(used_s > 0.1 && used_s <= 1.01 * trial.duration_s * threads, "{dut:?}");
    elsewhere.nothing_is_left();
}

/// A load at one rate.
const EXPERIMENT: &str = r#"
name = "remote"
title = "a remote server"
role = "dns64"
servers = []
method = "load"
repeats = 2

[workload]
namespace = "10.0.0.0/16"

[load]
rates = ["500"]
duration = "600ms"
timeout = "200ms"
"#;

fn a_run_probes_the_host_of_a_server_at_an_address() {
    let Some(mut elsewhere) = Elsewhere::start() else { return };
    let file = elsewhere.dir.path().join("x.toml");
    fs::write(&file, EXPERIMENT).expect("writes");
    let file = file.to_str().expect("UTF-8");
    let server = format!("mine={}", elsewhere.target);
    let words = ["run", "--wait", "--trust", file, "--remote", &server];
    // ssh runs where the user is: in no namespace of the lab, also if that needs one for its rights.
    let (told_by, shell) =
        (elsewhere.dir.path().join("namespaces"), elsewhere.dir.path().join("ssh-told"));
    let says = format!(
        "#!/bin/sh\nreadlink /proc/self/ns/user /proc/self/ns/pid >{}\nexec \"$@\"\n",
        told_by.display()
    );
    fs::write(&shell, says).expect("writes");
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).expect("sets");
    elsewhere.ssh = format!("{} {}", shell.display(), elsewhere.ssh);
    let mut command = elsewhere.dnsdyno(&words, &elsewhere.name);
    let output = command.env("DNSDYNO_TEST_TRIAL", "600ms").output().expect("starts");
    if said(&output).contains("cannot get its namespaces") {
        return skip::because(said(&output));
    }
    let run: record::Run = record::read(&elsewhere.json()).expect("a run");
    let cell = &run.results[0];
    // On a busy machine the Tester starves: void trials are kept too, and were probed.
    assert!(!cell.trials.is_empty(), "{}", said(&output));
    for trial in cell.trials.iter().map(|one| &one.trial) {
        let dut = trial.cpu.get("dut").unwrap_or_else(|| panic!("{:?}", trial.cpu));
        assert!(dut.busy > 0.0 && !dut.cpus.is_empty(), "{dut:?}");
    }
    let notes = cell.notes.join(" ");
    assert!(notes.contains("an agent observed its processor"), "{notes}");
    let own =
        ["user", "pid"].map(|ns| fs::read_link(format!("/proc/self/ns/{ns}")).expect("a link"));
    let own: String = own.iter().map(|ns| format!("{}\n", ns.display())).collect();
    assert_eq!(fs::read_to_string(&told_by).expect("it ran"), own);
    elsewhere.nothing_is_left();
    // Nothing says whose host it is.
    let others =
        ["run", "--wait", "--trust", file, "--remote", &server, "--remote", "b=127.0.0.1:9"];
    let output = elsewhere.dnsdyno(&others, &elsewhere.name).output().expect("starts");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("2 of the servers have an address"), "{}", said(&output));
}

fn a_broken_link_ends_the_agent_and_not_the_trial() {
    let Some(elsewhere) = Elsewhere::start() else { return };
    let mut command = elsewhere.load(&elsewhere.name, 8);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    soon("the agent is there", || (elsewhere.brought() > 0).then_some(()));
    let parent = child.id().to_string();
    let shell = soon("the remote shell runs", || {
        let found = Command::new("pgrep").args(["-P", &parent, "ssh"]).output().expect("starts");
        String::from_utf8_lossy(&found.stdout).lines().next().map(str::to_owned)
    });
    // The trial begins when the agent watches.
    std::thread::sleep(Duration::from_secs(4));
    signal(shell, "KILL");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("the agent is gone"), "{}", said(&output));
    elsewhere.nothing_is_left();
    if let Ok(trial) = record::read::<Trial>(&elsewhere.json()) {
        assert!(trial.sent > 0 && !trial.cpu.contains_key("dut"), "{:?}", trial.cpu);
    }
}
