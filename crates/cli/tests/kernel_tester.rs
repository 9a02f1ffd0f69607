//! The Tester in the kernel: in two namespaces that a veth pair joins, as root, beside the Tester of sockets.

use serde_json::Value;

use crate::kit::command::run_in;
use crate::kit::host;
use crate::kit::shared;
use crate::kit::two_namespaces::Ran;

/// What the scripts begin with: an AuthDNS behind sockets, and loads.
const LOADS: &str = r#"
auth_dns
spoil() { # spoil OPTION...: starts a server that spoils replies, each of them at the same queries
    $there "$0" auth --listen [fd00:77::2]:5353 --loss 0.1 "$@" >faults.txt 2>faults.err &
    faults=$!
    ready faults.txt $faults
}
run() { # run NAME ARGUMENT...: one load, its record in NAME.json
    name=$1
    shift
    "$0" load --no-check "$@" --type A --namespace 10.0.0.0/16 --duration 1s --json $name.json >$name.txt 2>$name.err ||
        echo "code $?" >>$name.err
}
"#;

/// Loads with both engines, of listed queries and of an AuthDNS that spoils replies.
const BOTH_ENGINES: &str = r#"
awk 'BEGIN { for (i = 0; i < 700; i++) printf "010-000-%03d-%03d.dns64perf.test %s\n", i / 256, i % 256, i % 2 ? "A" : "aaaa"
    print "none.dns64perf.test A\nwww.example.org A\ndns64perf.test SOA\ndns64perf.test NS" }' >queries.txt
listed() { # listed NAME ARGUMENT...: one load of listed queries, its record in NAME.json
    name=$1
    shift
    "$0" load --no-check [fd00:77::2]:53 --queries queries.txt --rate 2k --duration 1s --timeout 4s --json $name.json "$@" >$name.txt 2>$name.err ||
        echo "code $?" >>$name.err
}
for engine in sockets kernel; do
    listed list-$engine --engine $engine --edns 1232
    listed twice-$engine --engine $engine --runs 2 --expect noerror
done
for name in 010-000-000-%03d.dns64perf.test www%d.example.org none%d.dns64perf.test; do
    awk -v name=$name 'BEGIN { for (i = 0; i < 1000; i++) printf name " A\n", i % 256 }'
done >turns.txt
for engine in sockets kernel; do
    "$0" load --no-check [fd00:77::2]:53 --queries turns.txt --runs 1 --rate 1k --duration 4s --timeout 4s --engine $engine \
        --json turns-$engine.json >turns-$engine.txt 2>turns-$engine.err || echo "code $?" >>turns-$engine.err
done
for engine in sockets kernel; do
    spoil --fault wrong-address:0.05 --fault servfail:0.05 --fault truncate:0.05 --fault duplicate:0.1
    run faults-$engine [fd00:77::2]:5353 --rate 2k --timeout 1500ms --ports 64 --engine $engine
    kill $faults
    wait $faults
    # Which late replies come before the end of the trial is a matter of milliseconds: no other fault meets them.
    spoil --late 0.05:1900ms
    run late-$engine [fd00:77::2]:5353 --rate 2k --timeout 1500ms --ports 64 --engine $engine
    kill $faults
    wait $faults
done
spoil --fault servfail:0.05
run stop [fd00:77::2]:5353 --rate 2k --engine kernel --goal zero-loss
"#;

/// Loads with the engine in the kernel, also of an AuthDNS in XDP.
const IN_KERNEL: &str = r#"
run v6 [fd00:77::2]:53 --rate 2k --timeout 4s --engine kernel
run v4 10.77.0.2:53 --rate 2k --timeout 4s --engine kernel --source 10.77.0.8/30
run poisson 10.77.0.2:53 --rate 2k --timeout 4s --engine kernel --pacing poisson
run edns [fd00:77::2]:53 --rate 2k --timeout 4s --engine kernel --edns 1232
run nodata [fd00:77::2]:53 --rate 2k --timeout 4s --engine kernel --expect nxdomain
run auto [fd00:77::2]:53 --rate 2k --engine auto
"$0" search 10.77.0.2:53 --type A --namespace 10.0.0.0/16 --engine kernel --rule rfc8219 --goal "loss < 50%" --repeats 1 \
    --start 4k --max 4k --duration 300ms --timeout 4s --json search.json >search.txt 2>search.err || echo "code $?" >>search.err
run window [fd00:77::2]:53 --window 4 --timeout 4s --engine auto
run capped [fd00:77::2]:53 --window 4 --rate 1k --step 50ms --timeout 4s --engine auto
ip -d link show v0 >after.txt
$there "$0" auth --listen [fd00:77::2]:54 --engine kernel --device v1 >xdp.txt 2>xdp.err &
xdp=$!
ready xdp.txt $xdp
run xdp [fd00:77::2]:54 --rate 20k --engine kernel
kill "$xdp"
wait "$xdp"
setpriv --reuid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$0" load [fd00:77::2]:53 --type A \
    --namespace 10.0.0.0/16 --rate 1k --duration 1s --engine kernel >/dev/null 2>user.txt || echo "code $?" >>user.txt
setpriv --reuid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$0" load [fd00:77::2]:53 --type A \
    --namespace 10.0.0.0/16 --rate 1k --duration 1s --engine auto >/dev/null 2>user-auto.txt || echo "code $?" >>user-auto.txt
"#;

/// Runs a script of loads; `None` if this machine does not let it.
fn loads(script: &str) -> Option<Ran> {
    host::installed("ethtool")?;
    let ran = Ran::script(&format!("{LOADS}{script}"))?;
    assert!(ran.output.status.success(), "{}", ran.all());
    Some(ran)
}

#[test]
fn the_kernel_sends_and_judges() {
    let Some(ran) = loads(IN_KERNEL) else { return };
    for name in ["v6", "v4", "edns", "xdp"] {
        let trial = ran.trial(name);
        let sent = if name == "xdp" { 20_000 } else { 2_000 };
        assert_eq!(
            (&trial["sent"], &trial["valid"]),
            (&sent.into(), &sent.into()),
            "{name}: {}",
            ran.all()
        );
        assert_eq!(trial["conditions"]["engine"], "kernel", "{name}");
        seconds_add_up(&trial);
        assert_eq!(trial["rcodes"]["NOERROR"], sent, "{name}");
        let tester = &trial["cpu"]["tester"];
        let shares = ["busy", "foreign"].map(|share| tester[share].as_f64().expect("a share"));
        assert!(shares[0] + shares[1] < 1.15, "what loads the programs is no stranger: {tester}");
    }
    assert!(
        ran.text("xdp.txt").contains("20000 of them in the kernel, which left 0"),
        "{}",
        ran.all()
    );
    let poisson = ran.trial("poisson");
    let sent = poisson["sent"].as_u64().expect("a number");
    assert!((1_750..2_250).contains(&sent), "five standard deviations: {sent}");
    assert_eq!(poisson["valid"], sent);
    // A reply that says something else is judged, too.
    let nodata = ran.trial("nodata");
    assert_eq!((&nodata["valid"], &nodata["invalid"]["noerror"]), (&0.into(), &2_000.into()));
    let search = shared::whole(ran.trial("search"));
    let trial = &search["results"][0]["trials"][0];
    assert_eq!(trial["conditions"]["engine"], "kernel", "{search}");
    assert_eq!((&trial["sent"], &trial["valid"]), (&1_200.into(), &1_200.into()), "{search}");
    // On a busy machine its trials may be void.
    let said = ran.text("search.err");
    assert!(
        !said.contains("code") || (said.contains("code 1") && said.contains("void: the Tester")),
        "{}",
        ran.all()
    );
    assert_eq!(ran.trial("auto")["conditions"]["engine"], "kernel", "{}", ran.all());
    let window = ran.trial("window");
    let counts = ["planned", "lost"].map(|what| window[what].as_u64());
    assert_eq!(counts, [Some(0); 2], "{}", ran.all());
    assert!(window["sent"].as_u64() > Some(100) && window["sent"] == window["valid"], "{window}");
    assert_eq!(window["conditions"]["engine"], "kernel", "{}", ran.all());
    let capped = ran.trial("capped");
    assert_eq!(capped["conditions"]["engine"], "kernel", "{}", ran.all());
    // A query for each millisecond at most.
    let sent = capped["sent"].as_u64().expect("a count");
    assert!((10..=1_000).contains(&sent) && capped["sent"] == capped["valid"], "{capped}");
    let of_steps = |trial: &Value, what: &str| {
        let steps = trial["steps"]["steps"].as_array().expect("steps");
        steps.iter().map(|step| step[what].as_u64().unwrap_or(0)).sum::<u64>()
    };
    assert_eq!((of_steps(&capped, "sent"), of_steps(&capped, "lost")), (sent, 0));
    assert!(!ran.text("after.txt").contains("xdp"), "{}", ran.text("after.txt"));
    let user = ran.text("user.txt");
    assert!(user.contains("may not load BPF programs") && user.contains("code 2"), "{user}");
    let user = ran.text("user-auto.txt");
    assert!(
        user.contains("engine sockets: this user may not") && !user.contains("code 2"),
        "{user}"
    );
}

#[test]
fn the_kernel_judges_as_sockets_do() {
    let Some(ran) = loads(BOTH_ENGINES) else { return };
    listed_queries_have_the_same_outcomes(&ran);
    for name in ["faults", "late"] {
        let [kernel, sockets] =
            ["kernel", "sockets"].map(|engine| ran.trial(&format!("{name}-{engine}")));
        for what in [
            "planned",
            "sent",
            "answered",
            "valid",
            "invalid",
            "lost",
            "duplicates",
            "unexpected",
            "rcodes",
            "goal",
        ] {
            assert_eq!(kernel[what], sockets[what], "{name}, {what}: {}", ran.all());
        }
        [&kernel, &sockets].into_iter().for_each(seconds_add_up);
        assert!(kernel["lost"].as_u64() >= Some(200), "{kernel}");
        assert_eq!(kernel["late"].as_u64() > Some(0), name == "late", "{kernel}");
        assert_eq!(kernel["latency_us"]["count"], sockets["latency_us"]["count"]);
    }
    seconds_tell_when_a_server_turns(&ran);
    let stop = ran.trial("stop");
    assert_eq!((&stop["stopped_early"], &stop["passed"]), (&true.into(), &false.into()));
    assert!(stop["sent"].as_u64() < Some(2_000), "{stop}");
}

/// Compares the sums over the seconds of a trial with its counts.
fn seconds_add_up(trial: &Value) {
    let series = trial["series"].as_array().expect("seconds");
    for what in ["sent", "valid", "lost"] {
        let sum: u64 = series.iter().filter_map(|second| second[what].as_u64()).sum();
        assert_eq!(trial[what], sum, "{what}: {trial}");
    }
    for what in ["invalid", "rcodes"] {
        for (code, count) in trial[what].as_object().expect("counts") {
            // A second of nothing but valid answers and NOERROR has no codes.
            let plain = |second: &Value| second[what].is_null() && code == "NOERROR";
            let of = |second: &Value| {
                if plain(second) { second["valid"].as_u64() } else { second[what][code].as_u64() }
            };
            let sum: u64 = series.iter().filter_map(of).sum();
            assert_eq!(*count, sum, "{what} {code}: {trial}");
        }
    }
}

/// Compares the seconds of a load whose first thousand queries have answers, the second is refused, and the third has names that do
/// not exist.
fn seconds_tell_when_a_server_turns(ran: &Ran) {
    for engine in ["sockets", "kernel"] {
        let trial = ran.trial(&format!("turns-{engine}"));
        assert_eq!(trial["sent"], 3_000, "{}", ran.all());
        seconds_add_up(&trial);
        // So many queries may be of a later second than that in which they were due.
        let late_us = trial["schedule_error_us"]["max"].as_f64().expect("a time");
        let late = (late_us * 1_000.0 / 1e6) as u64 + 1;
        let near = |second: &Value, due: u64| second.as_u64().unwrap_or(0).abs_diff(due) <= late;
        let series = &trial["series"];
        for (second, noerror, refused, nxdomain) in [(1, 0, 1_000, 0), (2, 0, 0, 1_000)] {
            let (rcodes, invalid) = (&series[second]["rcodes"], &series[second]["invalid"]);
            let right = near(&rcodes["NOERROR"], noerror)
                && near(&rcodes["REFUSED"], refused)
                && near(&rcodes["NXDOMAIN"], nxdomain)
                && near(&invalid["refused"], refused)
                && near(&series[second]["connections"], 0);
            assert!(right, "{engine}, second {second}, {late} late: {trial}");
        }
        assert!(near(&series[0]["valid"], 1_000), "{engine}: {trial}");
        let text = ran.text(&format!("turns-{engine}.txt"));
        assert!(text.contains("refused from "), "{engine}: {text}");
    }
}

/// Compares the loads of a query file with both engines.
fn listed_queries_have_the_same_outcomes(ran: &Ran) {
    for name in ["list", "twice"] {
        let [sockets, kernel] =
            ["sockets", "kernel"].map(|engine| ran.trial(&format!("{name}-{engine}")));
        for what in [
            "planned", "sent", "answered", "valid", "invalid", "lost", "rcodes", "octets", "passed",
        ] {
            assert_eq!(kernel[what], sockets[what], "{name}, {what}: {}", ran.all());
        }
        assert_eq!(kernel["conditions"]["engine"], "kernel");
        assert_eq!(kernel["latency_us"]["count"], sockets["latency_us"]["count"]);
    }
    let list = ran.trial("list-kernel");
    assert_eq!((&list["sent"], &list["lost"]), (&2_000.into(), &0.into()), "{}", ran.all());
    // Of 704 queries one name does not exist and one is of a zone that the server does not have.
    assert_eq!(list["rcodes"]["NXDOMAIN"], 2, "{list}");
    assert!(list["valid"].as_u64() >= Some(1_990) && list["invalid"]["refused"] == 2, "{list}");
    assert_eq!(ran.trial("twice-kernel")["sent"], 2 * 704);
}

#[test]
fn what_the_kernel_cannot_send_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("q.txt"), "a.example A\n").expect("writes");
    let message = b"\0\x1b\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";
    std::fs::write(dir.path().join("m.bin"), message).expect("writes");
    let names = "--namespace 10.0.0.0/16 --type A --engine kernel";
    for (args, why) in [
        ("--engine kernel --queries q.txt --probability 0.5", "cannot skip queries"),
        ("--engine kernel --messages m.bin", "all with the same header"),
        ("--engine kernel --queries q.txt --edns 4096", "does not read fragments"),
        ("--engine kernel --name a.example", "or the queries of a text file"),
        ("NAMES --transport tcp", "--engine kernel sends over UDP"),
        ("NAMES --clients 4", "--engine kernel sends over UDP"),
        ("NAMES --pacing 'ramp 1k..2k'", "constant, poisson and window"),
        ("NAMES --source-port 4000", "chooses the source ports"),
        ("NAMES --stop-outstanding 9", "cannot stop after a number of queries"),
        ("NAMES --unpadded", "names with leading zeros"),
        ("NAMES --edns 4096", "does not read fragments"),
        ("NAMES --gso on", "sends each query as a packet"),
        ("NAMES --repeat-share 0.5", "names of a namespace, each once"),
        ("NAMES --neighbour 1:2", "no hardware address"),
        (
            "--namespace 10.0.0.0/16 --type A --device lo",
            "--device and --neighbour are for --engine kernel",
        ),
    ] {
        let line = format!("load 127.0.0.1:53 --duration 1s {}", args.replace("NAMES", names));
        let (code, _, told) = run_in(dir.path(), &line);
        assert_eq!(code, 2, "{args}: {told}");
        assert!(told.contains(why), "{args}: {told}");
    }
}

#[test]
fn a_chain_on_each_core_certifies_the_tester() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_, _, told) = run_in(
        dir.path(),
        "selftest --rate 20k --duration 1s --engine kernel --write-certificate certificate.json",
    );
    if told.contains("may not load BPF") || told.contains("cannot make a network namespace") {
        return skip::because(told);
    }
    let certificate = std::fs::read_to_string(dir.path().join("certificate.json"));
    let certificate: Value = serde_json::from_str(&certificate.unwrap_or_default())
        .unwrap_or_else(|e| panic!("{e}; {told}"));
    assert_eq!(certificate["tested"]["engine"], "kernel");
    assert_eq!(certificate["tested"]["network"], "namespaces");
    let trial = &certificate["self_test"]["trials"][0];
    assert_eq!((&trial["sent"], &trial["valid"]), (&20_000.into(), &20_000.into()), "{trial}");
    assert_eq!(trial["duplicates"], 0);
}
