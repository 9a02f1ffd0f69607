//! The AuthDNS in the kernel: in two namespaces that a veth pair joins, as root.

use crate::kit::command::run;
use crate::kit::two_namespaces::Ran;

/// The AuthDNS in the other namespace, with the program on its end of the link. It is killed the hard way at the end.
const AUTH_DNS_IN_THE_KERNEL: &str = r#"
gone() { # gone FILE: waits until the program is detached, ten seconds at most
    for round in $(seq 100); do
        $there ip -d link show v1 >"$1"
        grep -q xdp "$1" || return 0
        sleep 0.1
    done
}
$there "$0" auth --listen [fd00:77::2]:53 --listen 10.77.0.2:53 --aaaa-share 0.5 --engine kernel --device v1 >auth.txt 2>bpf.txt &
auth=$!
# The other end of a veth pair takes replies only if there is a program, too.
"$0" auth --listen [::1]:5353 --engine kernel --device v0 >other.txt 2>&1 &
ready auth.txt "$auth"
ready other.txt $!
# A trial is void on a busy machine, with exit code 1; the counts are compared all the same.
for address in 10.77.0.2:53 [fd00:77::2]:53; do
    "$0" load --no-check $address --type A --rate 2k --duration 1s --timeout 4s --namespace 10.0.0.0/16 --json A-${address%%[.:]*}.json >/dev/null || true
done
"$0" load --no-check [fd00:77::2]:53 --transport tcp --type A --rate 200 --duration 1s --timeout 4s --namespace 10.0.0.0/16 --json tcp.json >/dev/null || true
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
"$0" load --no-check 10.77.0.2:53 --type A --rate 2k --duration 1s --timeout 4s --namespace 10.0.0.0/16 --json generic.json >/dev/null || true
kill "$auth"
wait "$auth"
gone generic-ended.txt
"#;

#[test]
fn the_kernel_answers_and_leaves_nothing_behind() {
    let Some(ran) = Ran::script(AUTH_DNS_IN_THE_KERNEL) else { return };
    let text = |name: &str| ran.text(name);
    let all = ran.all();
    assert!(ran.output.status.success(), "{all}");
    for (name, sent) in [("A-10", 2_000), ("A-[fd00", 2_000), ("tcp", 200), ("generic", 2_000)] {
        let trial = ran.trial(name);
        assert_eq!((&trial["sent"], &trial["valid"]), (&sent.into(), &sent.into()), "{name}");
    }
    let auth = text("auth.txt");
    assert!(auth.contains("4000 of them in the kernel, which left 0 to the sockets"), "{auth}");
    assert!(auth.contains("4200 queries: 4200 answers"), "{auth}");
    assert!(text("attached.txt").contains("xdp"), "{}", text("attached.txt"));
    // The same program behind the driver, which the device itself tells.
    let generic = text("generic.txt");
    assert!(generic.contains("2000 of them in the kernel, which left 0"), "{generic}");
    assert!(text("generic-attached.txt").contains("xdpgeneric"), "{all}");
    assert!(text("generic.err").contains("warning: generic XDP on v1"), "{all}");
    for after in ["ended.txt", "killed.txt", "generic-ended.txt"] {
        assert!(!text(after).contains("xdp") && !text(after).is_empty(), "{}", text(after));
    }
    let second = text("second.txt");
    assert!(second.contains("cannot attach to v1") && second.contains("code 2"), "{second}");
}

#[test]
fn a_driver_without_native_xdp_is_named() {
    // The loopback's driver has no native XDP; the other mode is taken only if it is asked for.
    let (code, _, told) = run("auth --listen [::1]:0 --engine kernel --device lo");
    if told.contains("may not load BPF programs") {
        return skip::because(told);
    }
    let refused = told.contains("cannot attach to lo") && told.contains("--xdp generic");
    assert!(code == 2 && refused, "{told}");
}
