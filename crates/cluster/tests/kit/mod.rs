//! Hosts for the ranks of a job: network namespaces on a switch, or this host alone.

// Each test uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;
use record::Trial;
use tempfile::TempDir;

/// Time within which something must have happened that happens soon.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// Network of the hosts; their number is the last octet of their address.
const NETWORK: &str = "10.77.0";

/// Waits until `found` returns something.
pub(crate) fn soon<T>(what: &str, found: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether Open MPI is here; a test that needs it is skipped without it.
pub(crate) fn has_mpi() -> bool {
    let found = Command::new("mpirun").arg("--version").output().is_ok();
    if !found {
        skip::because("there is no mpirun (package openmpi-bin)");
    }
    found
}

/// Runs a program; it must succeed.
fn run(words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).output().expect("starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {told}");
}

/// Hosts on a switch, each a network namespace with a name of its own.
pub(crate) struct Hosts {
    prefix: String,
    count: usize,
    pub(crate) dir: TempDir,
}

impl Hosts {
    /// Makes `count` hosts; `None` without root.
    pub(crate) fn make(count: usize) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        if !nix::unistd::geteuid().is_root() {
            skip::because("network namespaces with names need root");
            return None;
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("dyno{}-{number}", std::process::id());
        let hosts = Hosts { prefix, count, dir: tempfile::tempdir().expect("a folder") };
        let switch = hosts.namespace(0);
        run(&["ip", "netns", "add", &switch]);
        run(&["ip", "-n", &switch, "link", "add", "name", "switch", "type", "bridge"]);
        run(&["ip", "-n", &switch, "link", "set", "dev", "switch", "up"]);
        for host in 1..=count {
            let (name, port) = (hosts.namespace(host), format!("p{host}"));
            run(&["ip", "netns", "add", &name]);
            run(&["ip", "-n", &name, "link", "set", "lo", "up"]);
            run(&[
                "ip", "-n", &switch, "link", "add", &port, "type", "veth", "peer", "eth0", "netns",
                &name,
            ]);
            run(&["ip", "-n", &switch, "link", "set", &port, "master", "switch", "up"]);
            let address = format!("{}/24", address(host));
            run(&["ip", "-n", &name, "address", "add", &address, "dev", "eth0"]);
            run(&["ip", "-n", &name, "link", "set", "eth0", "up"]);
        }
        hosts.write_agent("");
        Some(hosts)
    }

    /// Writes the remote shell; `before` is done on a host, whose number is `$n`, before the command.
    pub(crate) fn write_agent(&self, before: &str) {
        let agent = format!(
            "#!/bin/sh\n# A remote shell: HOST COMMAND...\nn=${{1##*.}}; shift\n{before}\n\
             exec ip netns exec {}-$n unshare --uts sh -c 'hostname \"$0\"; exec sh -c \"$1\"' host$n \"$*\"\n",
            self.prefix
        );
        fs::write(self.agent(), agent).expect("writes");
        fs::set_permissions(self.agent(), fs::Permissions::from_mode(0o755)).expect("sets");
    }

    pub(crate) fn namespace(&self, host: usize) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// The remote shell.
    pub(crate) fn agent(&self) -> PathBuf {
        self.dir.path().join("agent")
    }

    /// A command on a host, under its name.
    pub(crate) fn on(&self, host: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        let shell = "hostname \"$0\"; exec \"$@\"";
        command.args([
            "netns",
            "exec",
            &self.namespace(host),
            "unshare",
            "--uts",
            "sh",
            "-c",
            shell,
        ]);
        command.args([&format!("host{host}"), program]);
        command
    }

    /// The options with which mpirun reaches the hosts.
    pub(crate) fn options(&self) -> Vec<String> {
        let (agent, network) = (self.agent().display().to_string(), format!("{NETWORK}.0/24"));
        let all = [
            "--oversubscribe",
            "--mca",
            "plm_rsh_agent",
            &agent,
            "--mca",
            "btl",
            "tcp,self",
            "--mca",
            "btl_tcp_if_include",
            &network,
            "--mca",
            "oob_tcp_if_include",
            &network,
        ];
        all.map(str::to_owned).to_vec()
    }

    /// mpirun on the first of `hosts`, with a rank on each of them.
    pub(crate) fn mpirun(&self, hosts: &[usize]) -> Command {
        let mut command = self.on(hosts[0], "mpirun");
        let list: Vec<String> = hosts.iter().map(|host| address(*host)).collect();
        command.args(self.options()).args(["--allow-run-as-root", "--bind-to", "none"]);
        command.args(["-np", &hosts.len().to_string(), "--host", &list.join(",")]);
        command.args(["--map-by", "node"]);
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in 0..=self.count {
            let _ = Command::new("ip").args(["netns", "delete", &self.namespace(host)]).output();
        }
    }
}

/// Address of a host.
pub(crate) fn address(host: usize) -> String {
    format!("{NETWORK}.{host}")
}

/// mpirun on this host, with more ranks than cores, and none bound to one.
pub(crate) fn mpirun(ranks: usize) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
    command.args(["-np", &ranks.to_string()]);
    command
}

/// Adds a load of `seconds` to a command of mpirun; its result goes to [`json`].
pub(crate) fn load(mut command: Command, dir: &Path, target: SocketAddr, seconds: u32) -> Command {
    command.arg(cargo_bin("dnsdyno-cluster"));
    arguments(command, dir, target, seconds)
}

/// Adds the arguments of a load of `seconds` to a program.
pub(crate) fn arguments(
    mut command: Command,
    dir: &Path,
    target: SocketAddr,
    seconds: u32,
) -> Command {
    command.args(["load", &target.to_string()]);
    command.args([
        "--namespace",
        "10.0.0.0/16",
        "--type",
        "A",
        "--rate",
        "3k",
        "--timeout",
        "500ms",
    ]);
    command.args(["--duration", &format!("{seconds}s"), "--json"]).arg(json(dir));
    command.env("DNSDYNO_STORE", dir.join("runs.db"));
    command
}

/// The file with the result of a load.
pub(crate) fn json(dir: &Path) -> PathBuf {
    dir.join("trial.json")
}

/// The result of a load.
pub(crate) fn trial(dir: &Path, output: &Output) -> Trial {
    record::read(&json(dir)).unwrap_or_else(|e| panic!("{e}: {}", told(output)))
}

pub(crate) fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Starts a command with its output piped.
pub(crate) fn start(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("starts")
}

/// The process of a rank of the job that writes into `dir`.
pub(crate) fn rank(dir: &Path, rank: usize) -> Option<u32> {
    let wanted = format!("OMPI_COMM_WORLD_RANK={rank}");
    ranks(dir).into_iter().find(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|octet| *octet == 0).any(|variable| variable == wanted.as_bytes())
    })
}

/// The processes of all ranks of the job that writes into `dir`.
pub(crate) fn ranks(dir: &Path) -> Vec<u32> {
    let program = cargo_bin("dnsdyno-cluster");
    let of_job = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let runs = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
        runs && line.contains(&json(dir).display().to_string())
    };
    let entries = fs::read_dir("/proc").expect("readable").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(of_job).collect()
}

/// Sends a signal, by its name without SIG.
pub(crate) fn signal(pid: u32, name: &str) {
    run(&["kill", &format!("-{name}"), &pid.to_string()]);
}

/// Waits until a trial runs: its queries reach the AuthDNS some seconds after the ranks have started.
pub(crate) fn running(dir: &Path) {
    soon("the ranks are there", || (ranks(dir).len() > 1).then_some(()));
    std::thread::sleep(Duration::from_secs(6));
}

/// Number of ranks on the hosts that serve a dnsdyno.
pub(crate) fn serving(hosts: &Hosts) -> usize {
    let program = cargo_bin("dnsdyno-cluster");
    let of = |host: usize| {
        let found = Command::new("ip").args(["netns", "pids", &hosts.namespace(host)]).output();
        let found = found.expect("starts").stdout;
        let pids = String::from_utf8_lossy(&found).into_owned();
        let runs =
            |pid: &&str| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
        pids.lines().filter(runs).count()
    };
    (1..=hosts.count).map(of).sum()
}
