//! Two network namespaces that a veth pair joins, as root: a script runs in one, usually with an AuthDNS in the other.

use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

/// Makes the namespaces. `$there COMMAND` runs something in the other one; `auth_dns` starts an AuthDNS there, and ends the script
/// where the kernel takes no programs.
pub(crate) const NAMESPACES: &str = r#"
ready() { # ready FILE PROCESS: waits until the process says so; fails if it ends
    until grep -q ready "$1"; do kill -0 "$2"; sleep 0.05; done
}
usable() { # usable HOST DEVICE ADDRESS: waits until the device sends, and takes what comes to the address; for 30 s at most
    for _ in $(seq 600); do
        if $1 ip -o link show "$2" | grep -qv "qdisc noop " && $1 ip route get "$3" | grep -q ^local; then return; fi
        sleep 0.05
    done
    echo "$2 does not send, or does not take what comes to $3" >&2
    exit 1
}
set -e
export PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
unshare --net sleep infinity &
peer=$!
while [ "$(readlink /proc/$peer/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.05; done
there="nsenter -t $peer -n"
ip link add v0 type veth peer name v1 netns $peer
ip addr add fd00:77::1/64 dev v0 nodad
for host in 8 9 10 11; do ip addr add 10.77.0.$host/24 dev v0; done
ip link set v0 up
$there ip addr add fd00:77::2/64 dev v1 nodad
$there ip addr add 10.77.0.2/24 dev v1
$there ip link set v1 up
usable "" v0 fd00:77::1
usable "$there" v1 fd00:77::2
auth_dns() {
    # Frames of programs reach a host behind a veth device only through NAPI, which GRO turns on.
    $there ethtool -K v1 gro on
    $there "$0" auth --listen [fd00:77::2]:53 --listen 10.77.0.2:53 --aaaa always >auth.txt 2>auth.err &
    ready auth.txt $!
    "$0" load [fd00:77::2]:53 --type A --namespace 10.0.0.0/24 --rate 100 --duration 100ms --engine kernel >/dev/null 2>bpf.txt || true
    if grep -q "may not load BPF programs" bpf.txt; then exit; fi
}
"#;

/// A script that ran in namespaces of its own, and its folder.
pub(crate) struct Ran {
    dir: tempfile::TempDir,
    pub(crate) output: Output,
}

impl Ran {
    /// Runs a script as root of new namespaces; `None` if this machine does not let it, which the file `bpf.txt` says where
    /// it is the kernel that takes no programs.
    pub(crate) fn script(script: &str) -> Option<Self> {
        let script = format!("{NAMESPACES}{script}kill $peer\n");
        let dir = tempfile::tempdir().expect("a folder");
        let output = Command::new("unshare")
            .args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", &script])
            .arg(cargo_bin("dnsdyno"))
            .current_dir(dir.path())
            .output()
            .expect("unshare (package util-linux)");
        let ran = Ran { dir, output };
        let told = String::from_utf8_lossy(&ran.output.stderr).into_owned();
        if ran.text("auth.txt").is_empty() && told.contains("unshare") {
            return skip::none(format_args!("no network namespaces: {told}"));
        }
        let said = ran.text("bpf.txt");
        if said.contains("may not load BPF programs") {
            return skip::none(said);
        }
        Some(ran)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    /// Everything that was said, for messages.
    pub(crate) fn all(&self) -> String {
        let mut all = String::from_utf8_lossy(&self.output.stderr).into_owned();
        let files = std::fs::read_dir(self.dir.path()).expect("a folder");
        for file in files.map(|file| file.expect("a file").path()) {
            if file.extension().is_some_and(|kind| kind == "err" || kind == "txt") {
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                all += &format!("\n{}: {text}", file.display());
            }
        }
        all
    }

    pub(crate) fn trial(&self, name: &str) -> Value {
        let text = self.text(&format!("{name}.json"));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}; {}", self.all()))
    }
}
