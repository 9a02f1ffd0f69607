# What the side-by-side scripts share; sourced by them. Two hosts on this machine: network namespaces
# for the Tester (core 0) and the DUT (core 1), joined by a veth pair, 10.9.0.1 <-> 10.9.0.2.
#
# A script runs itself again in namespaces of its own (as root, or in a user namespace), with a tmpfs for
# its files. When it ends, however it ends, its processes, links and files end with it.

set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dnsdyno=${DNSDYNO:-$root/target/release/dnsdyno}

fail() { echo "${0##*/}: $*" >&2; exit 1; }

need() { # need COMMAND PACKAGE
    command -v "$1" >/dev/null || fail "$1 is missing: apt-get install $2"
}

if [ -z "${DNSDYNO_BENCH_INSIDE:-}" ]; then
    need unshare util-linux
    need setpriv util-linux
    [ -x "$dnsdyno" ] || fail "$dnsdyno is missing: run make build, or name another in DNSDYNO"
    [ "$(nproc)" -ge 2 ] || fail "needs two cores, one for the Tester and one for the DUT"
    mapped=()
    [ "$(id -u)" -eq 0 ] || mapped=(--user --map-root-user)
    DNSDYNO_BENCH_INSIDE=1 setpriv --pdeathsig KILL \
        unshare "${mapped[@]}" --mount --net --pid --fork --kill-child --mount-proc "$0" "$@" &
    child=$!
    trap 'kill -9 "$child" 2>/dev/null; exit 130' INT TERM HUP
    wait "$child" && exit 0 || exit $?
fi

mount -t tmpfs -o mode=755 tmpfs /run
work=/run/work
mkdir -p "$work" /run/netns
# A script that fails prints the end of its servers' logs.
trap 'status=$?; [ $status -eq 0 ] || tail -n 5 "$work"/*.log >&2 2>/dev/null || true' EXIT

options() { # options "NAME..." ARGUMENT...: reads --NAME VALUE into the variable of that name
    local known=" $1 " name
    shift
    while [ $# -gt 0 ]; do
        name=${1#--}
        if [ "$1" = --help ] || [ "$1" = -h ]; then
            sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
            exit 0
        elif [[ $1 != --* || $known != *" $name "* || $# -lt 2 ]]; then
            echo "${0##*/}: what is \`$1\`? The options, each with a value:${known// / --}" | sed 's/ --$//' >&2
            exit 2
        fi
        printf -v "$name" %s "$2"
        shift 2
    done
}

hosts() { # hosts on|off: with packet steering or without (steered and plain links, docs/testbed.md); says which in $steering
    need ip iproute2
    need ethtool ethtool
    need taskset util-linux
    local host
    for host in t d; do ip netns add "$host"; done
    ip -n t link add veth0 type veth peer name veth0 netns d
    ip -n t addr add 10.9.0.1/24 dev veth0
    ip -n d addr add 10.9.0.2/24 dev veth0
    for host in t d; do
        ip -n "$host" link set lo up
        ip -n "$host" link set veth0 txqueuelen 10000 up
        # As on a wire: each datagram is a packet when it arrives.
        ip netns exec "$host" ethtool -K veth0 tx-udp-segmentation off
    done
    steering=off
    [ "$1" != off ] || return 0
    # Each host does its own receive work, announced by interrupts between cores, which a virtual machine pays dearly for.
    if steer t 1 && steer d 2; then
        steering=on
    else
        fail "packet steering is not allowed here: run as root, or with --rps off"
    fi
}

steer() { # steer HOST MASK: packets that arrive at a host are handled on these cores
    ip netns exec "$1" sh -c "echo $2 >/sys/class/net/veth0/queues/rx-0/rps_cpus" 2>/dev/null
}

tester() { ip netns exec t taskset -c 0 "$@"; }
dut() { ip netns exec d taskset -c 1 "$@"; }

conditions() { # one line about what a result depends on
    echo "$*; each datagram a packet, packet steering $steering; $(nproc) cores, load average before the start $(cut -d' ' -f1 /proc/loadavg)"
}

zone() { # zone NAMES: the names of 10.0.0.0 and on with their A records, and a query file of them, shuffled
    awk -v n="$1" -v zone="$work/zone" -v queries="$work/queries" 'BEGIN {
        print "$ORIGIN dns64perf.test.\n$TTL 3600\n@ SOA ns1 hostmaster 1 3600 900 604800 300\n@ NS ns1\nns1 A 192.0.2.53" >zone
        for (i = 0; i < n; i++)
            printf "010-%03d-%03d-%03d A 10.%d.%d.%d\n", i/65536, i/256%256, i%256, i/65536, i/256%256, i%256 >zone
        # Every name once: a step that shares no factor with their number walks through all of them.
        step = int(n * 0.618) + 1
        while (gcd(step, n) != 1) step++
        for (i = k = 0; i < n; i++) {
            printf "010-%03d-%03d-%03d.dns64perf.test A\n", k/65536, k/256%256, k%256 >queries
            k = (k + step) % n
        }
    }
    function gcd(a, b,  c) { while (b) { c = a % b; a = b; b = c } return a }'
}

certificate() { # certificate NAME: of a server, in $work/server.pem and $work/server.key
    need openssl openssl
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" \
        -keyout "$work/server.key" -out "$work/server.pem" 2>"$work/openssl.log"
    chmod a+r "$work"/server.*
}

serve() { # serve unbound|bind|nsd PORT TLS HTTPS [LINE...]: with the zone in the DUT's namespace, on ports for plain DNS, TLS and
    # HTTPS (not NSD), with $work/server.pem and more lines of its configuration; its process in $server_process
    local more
    more=$(printf '    %s\n' "${@:5}")
    case $1 in
        unbound)
            cat >"$work/unbound.conf" <<CONF
server:
    directory: "$work"
    username: ""
    chroot: ""
    pidfile: ""
    use-syslog: no
    do-daemonize: no
    interface: 10.9.0.2@$2
    interface: 10.9.0.2@$3
    interface: 10.9.0.2@$4
    tls-port: $3
    https-port: $4
    tls-service-key: "$work/server.key"
    tls-service-pem: "$work/server.pem"
    incoming-num-tcp: 1000
    access-control: 0.0.0.0/0 allow
    num-threads: 1
    local-zone: "test." nodefault
$more
auth-zone:
    name: "dns64perf.test"
    zonefile: "$work/zone"
    for-downstream: yes
    for-upstream: no
remote-control:
    control-enable: yes
    control-interface: $work/unbound.sock
    control-use-cert: no
CONF
            ip netns exec d taskset -c 1 unbound -d -c "$work/unbound.conf" >"$work/unbound.log" 2>&1 &
            ;;
        bind)
            cat >"$work/named.conf" <<CONF
tls own { cert-file "$work/server.pem"; key-file "$work/server.key"; };
options {
    directory "$work"; pid-file none; session-keyfile "$work/session.key"; lock-file none;
    listen-on port $2 { 10.9.0.2; };
    listen-on port $3 tls own { 10.9.0.2; };
    listen-on port $4 tls own http default { 10.9.0.2; };
    listen-on-v6 { none; };
    tcp-clients 1000; tcp-listen-queue 4096; http-listener-clients 0;
    recursion no; allow-query { any; }; minimal-responses yes; answer-cookie no;
};
controls { };
$more
zone "dns64perf.test" { type primary; file "$work/zone"; };
CONF
            ip netns exec d taskset -c 1 named -g -n 1 -c "$work/named.conf" >"$work/named.log" 2>&1 &
            ;;
        nsd)
            cat >"$work/nsd.conf" <<CONF
server:
    ip-address: 10.9.0.2@$2
    ip-address: 10.9.0.2@$3
    tls-port: $3
    tls-service-key: "$work/server.key"
    tls-service-pem: "$work/server.pem"
    server-count: 1
    tcp-count: 1000
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
    zonesdir: "$work"
    database: ""
    pidfile: "$work/nsd.pid"
    xfrdfile: "$work/xfrd"
    xfrdir: "$work"
    zonelistfile: "$work/zone.list"
    username: ""
$more
remote-control:
    control-enable: yes
    control-interface: $work/nsd.sock
zone:
    name: dns64perf.test
    zonefile: "$work/zone"
CONF
            ip netns exec d taskset -c 1 nsd -d -c "$work/nsd.conf" >"$work/nsd.log" 2>&1 &
            ;;
        *) fail "the servers are unbound, bind and nsd, not $1" ;;
    esac
    server_process=$!
    await "10.9.0.2:$2" "$1"
}

lab_key=hmac-sha256:lab:ZG5zZHluby1kbnNkeW5vLWRuc2R5bm8tZG5zZHlubw== # of updates and transfers in the adapters

configured() { # configured SERVER FOLDER VARIABLE=VALUE...: writes its adapter's configuration; its start in $command
    local server=$1 folder=$2 variable set=()
    shift 2
    for variable; do set+=(--set "$variable"); done
    read -ra command < <("$dnsdyno" servers configure "$server" --dir "$folder" "${set[@]}") ||
        fail "$server cannot be configured"
}

start_auth() { # start_auth ARGUMENT...: our AuthDNS in the DUT's namespace, port 5353, one worker
    ip netns exec d "$dnsdyno" auth --listen 10.9.0.2:5353 --cpus 1 "$@" >"$work/auth.log" 2>&1 &
    await 10.9.0.2:5353 "the AuthDNS"
}

start_upstream() { # start_upstream ARGUMENT...: our AuthDNS in the Tester's namespace, port 5353, on the Tester's core
    ip netns exec t "$dnsdyno" auth --namespace 0.0.0.0/0 --listen 10.9.0.1:5353 --cpus 0 "$@" >"$work/auth.log" 2>&1 &
    upstream=$!
}

pref64=2001:db8:64::/96
upstream_at=10.9.0.1 # of the AuthDNS behind dns64d and Unbound

start_dns64d() { # start_dns64d CACHE [SETTING...]: in the DUT's namespace, port 5364, one worker, below $manager if set; its process in $dns64d
    local cache=$1 program=${DNS64D:-$(dirname "$dnsdyno")/dns64d}
    [ -x "$program" ] || fail "$program is missing: run make build, or name another in DNS64D"
    shift
    cat >"$work/dns64d.toml" <<CONF
server.listen = ["10.9.0.2:5364"]
server.workers = 1
server.allow = [${allow:-"\"any\""}]
server.user = "root"
server.log = "warn"
upstream.servers = ["$upstream_at:5353"]
cache.size = "$cache"
limits.client-share = 1.0
metrics.listen = "10.9.0.2:9964"
$(printf '%s\n' "$@")
[[dns64]]
prefix = "$pref64"
CONF
    ip netns exec d taskset -c 1 ${manager:-} "$program" --config "$work/dns64d.toml" 2>"$work/dns64d.log" &
    dns64d=$!
    await 10.9.0.2:5364 dns64d AAAA
}

start_unbound() { # start_unbound MEGABYTES [SETTING...]: as a DNS64 server in the DUT's namespace, port 5365, one thread; its process in $unbound
    need unbound unbound
    configured unbound "$work/unbound" role=dns64 zone=dns64perf.test "pref64=$pref64" listen.v4=10.9.0.2 listen.v6=::1 \
        listen.port=5365 "upstream.v4=$upstream_at" upstream.port=5353 threads=1 "cache_mb=$1"
    # The buffers of dns64d.
    { printf 'server:\n    so-rcvbuf: 4m\n    so-sndbuf: 4m\n'; printf '    %s\n' "${@:2}"; } >>"$work/unbound/unbound.conf"
    # Without the function, whose shell would have the number of the process.
    ip netns exec d taskset -c 1 "${command[@]}" >"$work/unbound.log" 2>&1 &
    unbound=$!
    await 10.9.0.2:5365 Unbound AAAA
}

ask_dns64() { # ask_dns64 PORT ARGUMENT...: a load of AAAA queries; the result in out.json
    local port=$1
    shift
    rm -f "$work/out.json"
    tester "$dnsdyno" load "10.9.0.2:$port" --type AAAA --expect-pref64 "$pref64" --cpus 0 --wait-mode yield --shared-core \
        --json "$work/out.json" "$@" >"$work/load.log" 2>&1 || true
}

await() { # await ADDRESS SERVER [TYPE]: until it answers, half a minute at most
    local until=$((SECONDS + 30))
    while [ $SECONDS -lt $until ]; do
        if tester "$dnsdyno" load "$1" --name 010-000-000-001.dns64perf.test --type "${3:-A}" --rate 100 \
            --duration 50ms --timeout 200ms --goal zero-loss >/dev/null 2>&1; then
            return
        fi
    done
    fail "$2 does not answer at $1"
}

json() { # json FILE KEY...: a value of a result
    python3 -c 'import json, sys
x = json.load(open(sys.argv[1]))
for key in sys.argv[2:]: x = x[key]
print(x)' "$@"
}
