//! Hosts that are network namespaces, joined by a link, with a real sshd in one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::command::Held;
use super::host::{find, soon, ssh_key};

impl Held {
    pub(crate) fn start(command: &mut Command) -> Self {
        Held(command.stdout(Stdio::null()).spawn().expect("starts"))
    }

    /// The network namespace of the process.
    pub(crate) fn network(&self) -> u64 {
        network(self.0.id()).expect("it runs")
    }
}

/// The network namespace of a process.
pub(crate) fn network(pid: u32) -> Option<u64> {
    fs::metadata(format!("/proc/{pid}/ns/net")).ok().map(|ns| ns.ino())
}

/// Joins two namespaces by a link.
pub(crate) fn join(here: u32, there: u32) {
    let run = |pid: u32, words: &str| {
        let pid = pid.to_string();
        let mut command = Command::new("nsenter");
        command.args(["-t", &pid, "-n", "ip"]).args(words.split(' '));
        assert!(command.status().expect("starts").success(), "{words}");
    };
    run(here, &format!("link add v0 type veth peer name v1 netns {there}"));
    for (pid, device, addresses) in [(here, "v0", &["1"][..]), (there, "v1", &["2", "3", "4"])] {
        run(pid, "link set lo up");
        for last in addresses {
            run(pid, &format!("addr add fd00:77::{last}/64 dev {device} nodad"));
            run(pid, &format!("addr add 10.77.0.{last}/24 dev {device}"));
        }
        run(pid, &format!("link set {device} up"));
    }
}

/// Starts an sshd on a host; returns it with the remote shell that reaches it.
pub(crate) fn start_sshd(dir: &Path, host: u32) -> (Held, String) {
    for key in ["host", "user"] {
        assert!(ssh_key(&dir.join(key)), "ssh-keygen makes keys");
    }
    for folder in ["brought", "tmp"] {
        fs::create_dir(dir.join(folder)).expect("a folder");
    }
    let _ = fs::create_dir("/run/sshd");
    let shown = dir.display();
    let config = format!(
        "Port 22\nListenAddress fd00:77::2\nListenAddress fd00:77::3\nHostKey {shown}/host\nAuthorizedKeysFile {shown}/user.pub\nPidFile none\n\
         StrictModes no\nUsePAM no\nPermitRootLogin yes\nSetEnv TMPDIR={shown}/brought\nClientAliveInterval 2\n"
    );
    fs::write(dir.join("config"), config).expect("writes");
    let log = fs::File::create(dir.join("sshd.log")).expect("a file");
    // It starts itself anew for each connection, so that it wants its whole path.
    let sshd = find("sshd").expect("sshd");
    let sshd = Held::start(
        Command::new("nsenter")
            .args(["-t", &host.to_string(), "-n"])
            .arg(sshd)
            .args(["-D", "-e", "-f"])
            .arg(dir.join("config"))
            .stderr(log),
    );
    soon("sshd listens", || {
        let log = fs::read_to_string(dir.join("sshd.log")).unwrap_or_default();
        log.contains("listening").then_some(())
    });
    let ssh = format!(
        "ssh -F none -i {shown}/user -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
         -o LogLevel=ERROR -o ServerAliveInterval=2 -o ServerAliveCountMax=3"
    );
    (sshd, ssh)
}
