//! The AuthDNS in the kernel: in two namespaces that a veth pair joins, as root.

use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

/// A namespace of its own, and the AuthDNS in another one with the program on its end of the link. It is killed the hard
/// way at the end.
const TWO_NAMESPACES: &str = r#"
set -e
export PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
ready() { # ready FILE PROCESS: waits until the process says so; fails if it ends
    until grep -q ready "$1"; do kill -0 "$2"; sleep 0.05; done
}
gone() { # gone FILE: waits until the program is detached, ten seconds at most
    for round in $(seq 100); do
        $there ip -d link show v1 >"$1"
        grep -q xdp "$1" || return 0
        sleep 0.1
    done
}
unshare --net sleep infinity &
peer=$!
while [ "$(readlink /proc/$peer/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.05; done
there="nsenter -t $peer -n"
ip link add v0 type veth peer name v1 netns $peer
ip addr add fd00:77::1/64 dev v0 nodad
ip addr add 10.77.0.1/24 dev v0
ip link set v0 up
$there ip addr add fd00:77::2/64 dev v1 nodad
$there ip addr add 10.77.0.2/24 dev v1
$there ip link set v1 up
$there "$0" auth --listen [fd00:77::2]:53 --listen 10.77.0.2:53 --aaaa-share 0.5 --engine kernel --device v1 >auth.txt 2>auth.err &
auth=$!
# The other end of a veth pair takes replies only if there is a program, too.
"$0" auth --listen [::1]:5353 --engine kernel --device v0 >other.txt 2>&1 &
ready auth.txt "$auth"
ready other.txt $!
# A trial is void on a busy machine, with exit code 1; the counts are compared all the same.
for address in 10.77.0.2:53 [fd00:77::2]:53; do
    "$0" load $address --type A --rate 2k --duration 1s --namespace 10.0.0.0/16 --json A-${address%%[.:]*}.json >/dev/null || true
done
"$0" load [fd00:77::2]:53 --transport tcp --type A --rate 200 --duration 1s --namespace 10.0.0.0/16 --json tcp.json >/dev/null || true
$there ip -d link show v1 >attached.txt
kill "$auth"
wait "$auth"
gone ended.txt
$there "$0" auth --listen [fd00:77::2]:53 --engine kernel --device v1 >auth2.txt 2>&1 &
auth=$!
ready auth2.txt "$auth"
$there "$0" auth --listen [fd00:77::2]:5353 --engine kernel --device v1 --duration 1s >second.txt 2>&1 || echo "code $?" >>second.txt
kill -KILL "$auth"
wait "$auth" 2>/dev/null || true
gone killed.txt
$there "$0" auth --listen 10.77.0.2:53 --engine kernel --device v1 --xdp generic >generic.txt 2>generic.err &
auth=$!
ready generic.txt "$auth"
$there ip -d link show v1 >generic-attached.txt
"$0" load 10.77.0.2:53 --type A --rate 2k --duration 1s --namespace 10.0.0.0/16 --json generic.json >/dev/null || true
kill "$auth"
wait "$auth"
gone generic-ended.txt
kill $peer
"#;

#[test]
fn the_kernel_answers_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = Command::new("unshare")
        .args([
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            TWO_NAMESPACES,
        ])
        .arg(cargo_bin("dnsdyno"))
        .current_dir(dir.path())
        .output()
        .expect("unshare (package util-linux)");
    let told = String::from_utf8_lossy(&output.stderr);
    let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap_or_default();
    if text("auth.txt").is_empty() && told.contains("unshare") {
        return skip::because(format_args!("no network namespaces: {told}"));
    }
    let said = text("auth.err");
    if said.contains("may not load BPF programs") {
        return skip::because(said);
    }
    let all =
        format!("{told} {said} {} {} {}", text("auth.txt"), text("auth2.txt"), text("other.txt"));
    assert!(output.status.success(), "{all}");
    for (name, sent) in
        [("A-10.json", 2_000), ("A-[fd00.json", 2_000), ("tcp.json", 200), ("generic.json", 2_000)]
    {
        let trial: Value =
            serde_json::from_str(&text(name)).unwrap_or_else(|e| panic!("{name}: {e}; {all}"));
        assert_eq!((&trial["sent"], &trial["valid"]), (&sent.into(), &sent.into()), "{name}");
    }
    let auth = text("auth.txt");
    assert!(
        auth.contains("4000 of them in the kernel, 0 of which were left to the sockets"),
        "{auth}"
    );
    assert!(auth.contains("4000 queries: 4000 answers"), "{auth}");
    assert!(text("attached.txt").contains("xdp"), "{}", text("attached.txt"));
    // The same program behind the driver, which the device itself tells.
    let generic = text("generic.txt");
    assert!(generic.contains("2000 of them in the kernel, 0 of which"), "{generic}");
    assert!(text("generic-attached.txt").contains("xdpgeneric"), "{all}");
    assert!(text("generic.err").contains("warning: generic XDP on v1"), "{all}");
    for after in ["ended.txt", "killed.txt", "generic-ended.txt"] {
        assert!(!text(after).contains("xdp") && !text(after).is_empty(), "{}", text(after));
    }
    let second = text("second.txt");
    assert!(second.contains("cannot attach to v1") && second.contains("code 2"), "{second}");
}

#[test]
fn what_the_kernel_cannot_do_is_refused() {
    let run = |arguments: &[&str]| {
        let output = Command::new(cargo_bin("dnsdyno")).arg("auth").args(arguments).output();
        let output = output.expect("starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let kernel = ["--listen", "[::1]:0", "--engine", "kernel"];
    for (more, message) in [
        (&["--device", "lo", "--loss", "0.5"][..], "losses"),
        (&["--device", "lo", "--delay", "1ms"], "delays"),
        (&[], "--device"),
    ] {
        let (code, told) = run(&[&kernel[..], more].concat());
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains(message), "{told}");
    }
    let (code, told) = run(&["--listen", "[::1]:0", "--device", "lo"]);
    assert_eq!(code, Some(2));
    assert!(told.contains("--device is for --engine kernel"), "{told}");
    // The loopback's driver has no native XDP; the other mode is taken only if it is asked for.
    let (code, told) = run(&[&kernel[..], &["--device", "lo"]].concat());
    let refused = told.contains("cannot attach to lo") && told.contains("--xdp generic");
    if told.contains("may not load BPF programs") {
        return skip::because(told);
    }
    assert!(code == Some(2) && refused, "{told}");
}
