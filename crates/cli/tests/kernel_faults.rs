//! What goes wrong around programs in the kernel is named, and leaves nothing behind: processes that are killed, devices that go,
//! a second Tester, users without the right.

use crate::kit::host::installed;
use crate::kit::two_namespaces::Ran;

/// The device goes last, as everything needs it. Only the AuthDNS has its own end: it keeps answering over sockets.
const FAULTS: &str = r#"
auth_dns
names="--type A --namespace 10.0.0.0/16"
within() { # within WHAT COMMAND...: waits until the command succeeds, 20 seconds at most
    what=$1
    shift
    for round in $(seq 200); do
        if "$@"; then return 0; fi
        sleep 0.1
    done
    echo "not within 20 s: $what" >>late.txt
}
attached() { ip -d link show v0 | grep -q xdp; }
detached() { ! attached; }
own() { # The processes of the program in this PID namespace.
    for process in /proc/[0-9]*; do
        case $(readlink $process/exe) in "$0"*) basename $process ;; esac
    done 2>/dev/null | sort
}
as_before() { [ "$(own)" = "$before" ]; }
as_user() { # as_user NAME ARGUMENT...
    name=$1
    shift
    TMPDIR=/tmp setpriv --reuid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$0" "$@" >/dev/null 2>$name.txt ||
        echo "code $?" >>$name.txt
}
before=$(own)
# A load that is killed, and a second Tester beside one that runs.
"$0" load 10.77.0.2:53 $names --rate 2k --duration 30s --engine kernel >/dev/null 2>&1 &
killed=$!
within "the first load is attached" attached
kill -KILL $killed
wait $killed || true
within "nothing of a killed load stays" detached
"$0" load 10.77.0.2:53 $names --rate 2k --duration 6s --timeout 4s --engine kernel --json first.json >first.txt 2>first.err &
first=$!
within "the next load is attached" attached
"$0" load 10.77.0.2:53 $names --rate 2k --duration 1s --engine kernel >/dev/null 2>second.txt || echo "code $?" >>second.txt
wait $first || true
# A self-test and a run that are killed: their namespaces and processes go, too.
for what in "selftest --rate 2k" "run dns64-rfc8219 --servers dns64d"; do
    "$0" $what --engine kernel >>killed.txt 2>&1 &
    killed=$!
    sleep 3
    own >>killed.txt
    kill -KILL $killed 2>>killed.txt
    wait $killed || true
    within "nothing of a killed $what stays" as_before
done
as_user user-auth auth --listen [::1]:5399 --engine kernel --device v0 --duration 100ms
as_user user-selftest selftest --rate 1k --duration 1s --engine kernel
as_user user-verify verify --quick --engine kernel
# The devices go: the AuthDNS in the kernel ends as ever, and the load is void.
$there "$0" auth --listen 10.77.0.2:54 --engine kernel --device v1 >xdp.txt 2>xdp.err &
auth=$!
ready xdp.txt $auth
"$0" load 10.77.0.2:54 $names --rate 2k --duration 20s --engine kernel --json cut.json >cut.txt 2>cut.err &
load=$!
within "the load is attached" attached
sleep 1
ip link set v0 down
ip link set v0 up
wait $load || echo "code $?" >>cut.err
"$0" load 10.77.0.2:54 $names --rate 2k --duration 20s --engine kernel --json gone.json >gone.txt 2>gone.err &
load=$!
within "the last load is attached" attached
sleep 1
ip link del v0
wait $load || echo "code $?" >>gone.err
kill $auth
wait $auth || echo "code $?" >>xdp.err
"#;

#[test]
fn what_goes_wrong_is_named_and_leaves_nothing_behind() {
    let Some(ran) = installed("ethtool").and_then(|_| Ran::script(FAULTS)) else { return };
    assert!(ran.output.status.success() && ran.text("late.txt").is_empty(), "{}", ran.all());
    let first = ran.trial("first");
    let all = 12_000.into();
    assert_eq!((&first["sent"], &first["valid"]), (&all, &all), "{}", ran.all());
    let second = ran.text("second.txt");
    assert!(second.contains("cannot attach to v0") && second.contains("code 2"), "{second}");
    for command in ["auth", "selftest", "verify"] {
        let said = ran.text(&format!("user-{command}.txt"));
        assert!(said.contains("run as root"), "{command}: {said}");
        // The AuthDNS answers over sockets instead.
        assert_eq!(said.contains("code 2"), command != "auth", "{command}: {said}");
    }
    for name in ["cut", "gone"] {
        let trial = ran.trial(name);
        assert_eq!(trial["void"]["reason"], "link-lost", "{name}: {}", ran.all());
        assert!(trial["sent"].as_u64() < Some(30_000), "it ends soon: {trial}");
        let said = ran.text(&format!("{name}.err"));
        assert!(said.contains("code 1"), "{}", ran.all());
    }
    let auth = [ran.text("xdp.txt"), ran.text("xdp.err")].concat();
    assert!(auth.contains("of them in the kernel") && !auth.contains("code"), "{auth}");
}
