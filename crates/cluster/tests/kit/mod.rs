//! Hosts for the ranks of a job: network namespaces on a switch, or this host alone.

// Each test uses a part of the kit.
#![allow(dead_code)]

#[path = "../../../cli/tests/kit/held.rs"]
mod held;
#[path = "../../../cli/tests/kit/host.rs"]
pub(crate) mod host;

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use assert_cmd::cargo::cargo_bin;
use measure::Nanos;
use record::Trial;
use tempfile::TempDir;

pub(crate) use held::Held;
pub(crate) use host::{signal, soon};

/// Network of the hosts; their number is the last octet of their address.
const NETWORK: &str = "10.77.0";

/// Whether Open MPI is here; a test that needs it is skipped without it.
pub(crate) fn has_mpi() -> bool {
    let found = Command::new("mpirun").arg("--version").output().is_ok();
    if !found {
        skip::because("there is no mpirun (package openmpi-bin)");
    }
    found
}

/// Held by each job, and by one alone that must not be disturbed.
static TURN: RwLock<()> = RwLock::new(());

/// Waits until no other test of this program runs a job: what this one finds depends on who has the cores.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    TURN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until no test runs a job that must not be disturbed: what this one finds is the same on a busy machine.
pub(crate) fn turn() -> RwLockReadGuard<'static, ()> {
    TURN.read().unwrap_or_else(PoisonError::into_inner)
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
            return skip::none("network namespaces with names need root");
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

    /// Writes the remote shell; `before` is done for a host, whose number is `$n`, before the command.
    pub(crate) fn write_agent(&self, before: &str) {
        self.write_agents(before, ":");
    }

    /// Writes the remote shell; `there` is done on a host, whose name is `$0`, before the command; what it mounts is for that only.
    pub(crate) fn write_agent_there(&self, there: &str) {
        self.write_agents("", there);
    }

    fn write_agents(&self, before: &str, there: &str) {
        let agent = format!(
            "#!/bin/sh\n# A remote shell: HOST COMMAND...\nn=${{1##*.}}; shift\n{before}\n\
             exec ip netns exec {}-$n unshare --uts sh -c 'hostname \"$0\"; {there}; exec sh -c \"$1\"' host$n \"$*\"\n",
            self.prefix
        );
        fs::write(self.agent(), agent).expect("writes");
        fs::set_permissions(self.agent(), fs::Permissions::from_mode(0o755)).expect("sets");
    }

    pub(crate) fn namespace(&self, host: usize) -> String {
        format!("{}-{host}", self.prefix)
    }

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

    /// The processes on a host.
    fn processes(&self, host: usize) -> Vec<u32> {
        let found = Command::new("ip").args(["netns", "pids", &self.namespace(host)]).output();
        let pids = String::from_utf8_lossy(&found.expect("starts").stdout).into_owned();
        pids.lines().filter_map(|pid| pid.trim().parse().ok()).collect()
    }

    /// The number of datagrams over UDP that a host has received; 0 while nothing runs there.
    pub(crate) fn datagrams(&self, host: usize) -> u64 {
        let pid = self.processes(host).first().copied().unwrap_or_default();
        let text = fs::read_to_string(format!("/proc/{pid}/net/snmp")).unwrap_or_default();
        // A line of names, then one of values.
        let values = text.lines().filter_map(|line| line.strip_prefix("Udp: ")).nth(1);
        values.and_then(|values| values.split(' ').next()?.parse().ok()).unwrap_or_default()
    }

    /// Open MPI's daemon on a host.
    pub(crate) fn daemon(&self, host: usize) -> Option<u32> {
        self.process(host, |program| program.ends_with("orted"))
    }

    /// The rank of a job on a host.
    pub(crate) fn rank(&self, host: usize) -> Option<u32> {
        self.process(host, |program| program == cargo_bin("dnsdyno-cluster"))
    }

    /// The run on a host, outside of its lab.
    pub(crate) fn run(&self, host: usize) -> Option<u32> {
        self.process(host, |program| program == cargo_bin("dnsdyno"))
    }

    /// The starter of a job on a host.
    pub(crate) fn starter(&self, host: usize) -> Option<u32> {
        self.process(host, |program| program.ends_with("orterun"))
    }

    /// The first process on a host whose program `is` the wanted one.
    fn process(&self, host: usize, is: impl Fn(&Path) -> bool) -> Option<u32> {
        let wanted = |pid: &u32| program(*pid).is_some_and(|path| is(&path));
        self.processes(host).into_iter().find(wanted)
    }

    /// Takes the link of a host down, at the switch.
    pub(crate) fn cut_off(&self, host: usize) {
        let (switch, port) = (self.namespace(0), format!("p{host}"));
        run(&["ip", "-n", &switch, "link", "set", "dev", &port, "down"]);
    }

    /// Waits until no process is left on any host.
    pub(crate) fn nothing_is_left(&self) {
        soon("all processes on the hosts have ended", || {
            (1..=self.count).all(|host| self.processes(host).is_empty()).then_some(())
        });
    }

    /// Starts a capture of what reaches a host, into a file of this name.
    pub(crate) fn capture(&self, host: usize, name: &str) -> Capture {
        let file = self.dir.path().join(name);
        let mut command = self.on(host, "tcpdump");
        command.args("-Z root -i eth0 -Q in -B 65536 -s 200 --immediate-mode".split(' '));
        // Each packet is in the file as soon as tcpdump has read it.
        command
            .args(["--time-stamp-precision", "nano", "-U", "-w"])
            .arg(&file)
            .args(["udp", "port", "53"]);
        let capture = Capture { process: Held(start(command)), file };
        soon("the capture has begun", || capture.file.exists().then_some(()));
        capture
    }
}

/// A query in a capture.
pub(crate) struct Arrival {
    pub(crate) at: Nanos,
    pub(crate) source: IpAddr,
    /// The name that the query asks for, in wire format.
    pub(crate) name: Vec<u8>,
}

/// A capture that tcpdump writes; it ends when dropped.
pub(crate) struct Capture {
    process: Held,
    file: PathBuf,
}

impl Capture {
    /// Waits until `enough` queries to `server` are in the capture, and ends it; returns them.
    pub(crate) fn end(
        mut self,
        server: SocketAddr,
        enough: impl Fn(&[Arrival]) -> bool,
    ) -> Vec<Arrival> {
        let read = || {
            let mut arrivals = Vec::new();
            let mut capture = trace::Capture::open(&self.file)?;
            trace::Messages::new(vec![server.port()]).read(&mut capture, |message| {
                let question = trace::Dns::read(message.bytes).and_then(|dns| dns.question);
                if let (true, Some(question)) = (message.destination == server, question) {
                    let name = question.name.as_wire().to_vec();
                    arrivals.push(Arrival { at: message.at, source: message.source.ip(), name });
                }
            })?;
            Ok::<_, trace::CaptureError>(arrivals)
        };
        // At a signal tcpdump ends without the packets that it has not read yet. The last one in the file may be half there.
        soon("all queries are in the capture", || {
            read().ok().filter(|arrivals| enough(arrivals)).map(drop)
        });
        signal(self.process.0.id(), "INT");
        self.process.0.wait().expect("ends");
        read().expect("a whole capture")
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in 0..=self.count {
            let _ = Command::new("ip").args(["netns", "delete", &self.namespace(host)]).output();
        }
    }
}

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
    command.args("--namespace 10.0.0.0/8 --type A --rate 3k --timeout 500ms".split(' '));
    command.args(["--duration", &format!("{seconds}s"), "--json"]).arg(json(dir));
    command.env("DNSDYNO_STORE", dir.join("runs.db"));
    command
}

/// dnsdyno on the first host.
pub(crate) fn dnsdyno(hosts: &Hosts) -> Command {
    let program = cargo_bin("dnsdyno");
    assert!(program.exists(), "build it first: cargo build -p cli");
    hosts.on(1, program.to_str().expect("UTF-8"))
}

/// Lets a command of dnsdyno run on hosts as Testers, with `more` lines in their file.
pub(crate) fn with_testers(
    hosts: &Hosts,
    mut command: Command,
    testers: RangeInclusive<usize>,
    more: &str,
) -> Command {
    let file = hosts.dir.path().join("hosts");
    let testers: String = testers.map(|host| format!("tester {}\n", address(host))).collect();
    fs::write(&file, format!("# the Testers\n{testers}{more}")).expect("writes");
    let mpirun = format!("mpirun {}", hosts.options().join(" "));
    command.arg("--hosts").arg(&file).args(["--mpirun", &mpirun]);
    command.arg("--cluster").arg(cargo_bin("dnsdyno-cluster"));
    command.env("DNSDYNO_STORE", hosts.dir.path().join("runs.db"));
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
    let rank = Some(cargo_bin("dnsdyno-cluster"));
    let of_job = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        program(*pid) == rank && line.contains(&json(dir).display().to_string())
    };
    let entries = fs::read_dir("/proc").expect("readable").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(of_job).collect()
}

/// The program that a process runs.
fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The library that gives a program another clock; `None` without it.
pub(crate) fn libfaketime() -> Option<PathBuf> {
    // Debian has a folder for each architecture.
    let folders =
        fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = folders.chain(["/usr/lib", "/usr/lib64"].map(PathBuf::from));
    let found =
        folders.map(|folder| folder.join("faketime/libfaketime.so.1")).find(|path| path.exists());
    found.or_else(|| skip::none("there is no libfaketime (package faketime)"))
}
