# Two hosts on this machine for the side-by-side scripts: network namespaces for Tester and DUT with
# a veth pair, 10.9.0.1 <-> 10.9.0.2. Sourced; needs root (ip netns).

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dnsdyno=${DNSDYNO:-$root/target/release/dnsdyno}
ns=dnsdyno-$$
work=$(mktemp -d)
pids=()

fail() { echo "${0##*/}: $*" >&2; exit 1; }

need() { # need COMMAND PACKAGE
    PATH=$PATH:/usr/sbin command -v "$1" >/dev/null || fail "$1 is missing: apt-get install $2"
}

cleanup() {
    for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
    for host in t d; do
        ip netns pids "$ns-$host" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
        ip netns del "$ns-$host" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$work"
}

hosts() { # hosts RPS(on|off)
    [ "$(id -u)" -eq 0 ] || fail "needs root for network namespaces (dnsdyno run does not)"
    [ -x "$dnsdyno" ] || fail "$dnsdyno is missing: run make first"
    need ip iproute2
    trap cleanup EXIT
    trap 'exit 130' INT TERM
    ip netns add "$ns-t"; ip netns add "$ns-d"
    ip -n "$ns-t" link add veth0 type veth peer name veth0 netns "$ns-d"
    ip -n "$ns-t" addr add 10.9.0.1/24 dev veth0; ip -n "$ns-d" addr add 10.9.0.2/24 dev veth0
    for host in t d; do ip -n "$ns-$host" link set lo up; ip -n "$ns-$host" link set veth0 txqueuelen 10000 up; done
    if [ "$1" = on ]; then
        # Each host pays for its own receive path, as two real machines would.
        ip netns exec "$ns-t" sh -c 'echo 1 > /sys/class/net/veth0/queues/rx-0/rps_cpus'
        ip netns exec "$ns-d" sh -c 'echo 2 > /sys/class/net/veth0/queues/rx-0/rps_cpus'
    fi
}

tester() { ip netns exec "$ns-t" taskset -c 0 "$@"; }
dut() { ip netns exec "$ns-d" taskset -c 1 "$@"; }

zone() { # zone NAMES: the names of 10.0.0.0 and on, with A records, and a query file of them
    awk -v n="$1" 'BEGIN {
        print "$ORIGIN dns64perf.test.\n$TTL 3600\n@ SOA ns1 hostmaster 1 3600 900 604800 300\n@ NS ns1\nns1 A 192.0.2.53"
        for (i = 0; i < n; i++) printf "010-%03d-%03d-%03d A 10.%d.%d.%d\n", i/65536, i/256%256, i%256, i/65536, i/256%256, i%256
    }' >"$work/zone"
    awk -v n="$1" 'BEGIN { srand(1); for (i = 0; i < n; i++) { k = int(rand()*n); printf "010-%03d-%03d-%03d.dns64perf.test A\n", k/65536, k/256%256, k%256 } }' >"$work/queries"
}

start_nsd() { # in the DUT's namespace, on port 5300, one process
    need nsd nsd
    cat >"$work/nsd.conf" <<CONF
server:
    ip-address: 10.9.0.2@5300
    server-count: 1
    username: ""
    chroot: ""
    database: ""
    zonesdir: "$work"
    zonelistfile: "$work/zone.list"
    xfrdfile: "$work/xfrd.state"
    pidfile: "$work/nsd.pid"
    logfile: "$work/nsd.log"
    hide-version: yes
remote-control:
    control-enable: no
zone:
    name: dns64perf.test
    zonefile: zone
CONF
    dut /usr/sbin/nsd -d -c "$work/nsd.conf" >/dev/null 2>&1 &
    pids+=($!)
    await 10.9.0.2:5300
}

start_auth() { # start_auth ARGS: our AuthDNS in the DUT's namespace, on port 5353
    ip netns exec "$ns-d" "$dnsdyno" auth --listen 10.9.0.2:5353 --cpus 1 "$@" >/dev/null &
    pids+=($!)
    await 10.9.0.2:5353
}

await() { # await ADDRESS: until it answers
    for _ in $(seq 300); do
        if tester "$dnsdyno" load "$1" --name 010-000-000-001.dns64perf.test --type A --rate 100 --duration 50ms --timeout 200ms --goal zero-loss >/dev/null 2>&1; then
            return
        fi
    done
    cat "$work"/*.log >&2 2>/dev/null || true
    fail "$1 does not answer"
}

json() { # json FILE KEY...: a value of a result
    python3 -c 'import json,sys
x = json.load(open(sys.argv[1]))
for key in sys.argv[2:]: x = x[int(key)] if isinstance(x, list) else x[key]
print(x)' "$@"
}

median() { sort -n | awk '{ v[NR] = $1 } END { print (NR % 2) ? v[(NR+1)/2] : (v[NR/2] + v[NR/2+1]) / 2 }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f\n", a / b }'; }
