//! The Internet in a box: real resolvers that know nothing but its root. All of it is in a network namespace of its own, since
//! resolvers ask port 53 only.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use crate::kit::command::{Held, Ran, dnsdyno, run_in};
use crate::kit::host::{self, installed};

/// Number of names that a resolver finds cold: `DNSDYNO_NAMES` sets another one.
fn names() -> u64 {
    std::env::var("DNSDYNO_NAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000)
}

/// Returns the number of domains of each of ten top-level domains, and of names in each of them: a quarter more than are asked for.
fn per_tld() -> (u64, u64) {
    let domains = (names() / 1_000).max(30);
    (domains, names() * 5 / 4 / (10 * domains) + 1)
}

/// Starts the box and then the resolver, which knows the hints, asks it all queries, and ends the box, whose log is complete then.
const SCRIPT: &str = r#"
set -e
export PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
ip route add local 10.53.0.0/16 dev lo
"$0" auth --internet box --listen 0.0.0.0:53 --server-delays 0s,1ms,3ms $FAULTS --log log >auth.txt 2>auth.err &
auth=$!
until grep -q ready auth.txt; do kill -0 $auth; sleep 0.05; done
"$@" >resolver.txt 2>&1 &
resolver=$!
for round in $(seq 100); do
    kill -0 $resolver
    "$0" load 127.0.0.1:5300 --name . --type SOA --rate 10 --duration 200ms --timeout 3s --json ready.json >ready.txt 2>&1 || true
    grep -q '"valid": *[1-9]' ready.json && break
    sleep 0.1
done
# A trial is void on a busy machine, with exit code 1; the answers are checked all the same. A resolver drops what is too much
# for it: no more than the window is outstanding.
"$0" load 127.0.0.1:5300 --queries queries -n 1 --pacing window --window 32 --keep-places --timeout 20s --json load.json >load.txt 2>&1 || true
if [ -S control ]; then unbound-control -c unbound.conf stats_noreset >stats.txt; fi
kill $resolver
wait $resolver || true
kill $auth
wait $auth
"#;

/// Waits until no other test has a resolver: together they are too much for a small machine.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A box in a folder: what its query file has.
struct Internet {
    dir: tempfile::TempDir,
    /// Number of queries, and the different ones of them.
    queries: u64,
    asked: BTreeSet<String>,
}

impl Internet {
    /// Makes one with this share of signed domains; half of the queries repeat others.
    fn new(signed: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let (domains, hosts) = per_tld();
        let count = names() * 2;
        let (code, _, told) = run_in(
            dir.path(),
            &format!(
                "zone internet --tlds 10 --domains {domains} --hosts {hosts} --signed {signed} --servers 100 --output box \
                 --queries queries --count {count} --hit-rate 0.5"
            ),
        );
        assert!(code == 0 && told.contains("50.0 % were asked before"), "{told}");
        let text = std::fs::read_to_string(dir.path().join("queries")).expect("queries");
        let asked: BTreeSet<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(asked.len() as u64, names());
        Internet { dir, queries: names() * 2, asked }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// Runs the script with the command of a resolver, and with further arguments of the AuthDNS.
    ///
    /// # Errors
    /// If this host has no namespaces.
    fn run(&self, resolver: &[&str], faults: &str) -> Result<(), String> {
        let _alone = alone();
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child"])
            .args(["--mount-proc", "bash", "-c", SCRIPT])
            .arg(cargo_bin("dnsdyno"))
            .args(resolver)
            .env("FAULTS", faults)
            .current_dir(self.path())
            .output()
            .expect("unshare (package util-linux)");
        let told = String::from_utf8_lossy(&output.stderr);
        if self.text("auth.txt").is_empty() && told.contains("unshare") {
            return Err(format!("no network namespaces: {told}"));
        }
        let files =
            ["auth.err", "resolver.txt", "ready.txt", "load.txt"].map(|name| self.text(name));
        assert!(output.status.success(), "{told}{}", files.join("\n"));
        Ok(())
    }

    /// Checks that every query has a right answer, but for those that the resolver dropped.
    fn check_answers(&self, dropped: u64) {
        let load: Value = serde_json::from_str(&self.text("load.json")).expect("JSON");
        let right = (&self.queries.into(), &(self.queries - dropped).into());
        assert_eq!((&load["sent"], &load["valid"]), right, "{}", self.text("load.txt"));
    }

    /// Checks what the resolver answered and what it asked: every query has a right answer, delegations are followed from the
    /// root as RFC 1034 section 5.3.3 says, and a repeated question is answered from the cache.
    fn check(&self) {
        self.check_answers(0);
        let log = self.text("log");
        let (mut referred, mut last) = (BTreeSet::from(["."]), BTreeMap::<&str, u64>::new());
        let (mut found, mut missing) = (BTreeSet::new(), BTreeSet::new());
        let (mut final_ones, mut at_root) = (0, 0);
        for line in log.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let (zone, question) = (words[1], format!("{} {}", words[2], words[3]));
            // No server is asked for what it has no zone for, and none before its parent named it.
            assert_ne!(words[4], "refused", "{line}");
            assert!(referred.contains(zone), "nobody has delegated {zone} before: {line}");
            at_root += u64::from(zone == ".");
            if words[4] == "referral" {
                referred.insert(words[5]);
                *last.entry(words[5]).or_default() += 1;
                continue;
            }
            if words[4] == "nxdomain" {
                missing.insert(words[2]);
            }
            if self.asked.contains(&question) {
                found.insert(question);
                final_ones += 1;
            }
        }
        for question in &self.asked {
            let (name, _) = question.split_once(' ').expect("name and type");
            // With a smaller query (RFC 9156) a resolver may find out that there is no such name, of whatever type.
            let is_known = found.contains(question) || missing.contains(name);
            assert!(is_known, "{question} did not reach the servers of its zone");
            let labels: Vec<&str> = name.split('.').collect();
            for count in 1..=2 {
                let zone = labels[labels.len() - count..].join(".");
                assert!(referred.contains(zone.as_str()), "{zone} was not asked for");
            }
        }
        // A delegation that is known is not asked for again: some queries at once may ask for the first time.
        assert!(at_root < names() / 10, "{at_root} queries to the root");
        let most = last.iter().max_by_key(|(_, count)| **count);
        assert!(most.is_some_and(|(_, count)| *count < names() / 10), "{most:?}");
        let hit_rate = 1.0 - final_ones as f64 / self.queries as f64;
        // How often a resolver asks again what it is still being told, or what came while it had no key yet, is its own matter:
        // PowerDNS does so for none or for 2 % of the names.
        assert!((0.4..0.51).contains(&hit_rate), "{hit_rate}");
        println!(
            "{} queries for {} names: hit rate {hit_rate:.4}, {} queries to servers, {at_root} of them to the root's",
            self.queries,
            self.asked.len(),
            log.lines().count()
        );
    }
}

/// Lets a resolver find all names of a box with this share of signed domains, and checks what it asked; `files` makes its files.
/// Returns the box; `None` if the resolver, the signer or namespaces are missing.
fn resolve(
    signed: &str,
    program: &str,
    arguments: &[&str],
    files: impl FnOnce(&Internet) -> Vec<(&'static str, String)>,
) -> Option<Internet> {
    let program = installed(program)?;
    if signed != "0" {
        installed("dnssec-signzone")?;
    }
    let internet = Internet::new(signed);
    for (name, text) in files(&internet) {
        std::fs::write(internet.path().join(name), text).expect("writes");
    }
    if let Err(why) = internet.run(&[&[program.as_str()][..], arguments].concat(), "") {
        return skip::none(why);
    }
    internet.check();
    Some(internet)
}

/// Unbound's configuration in a folder, for a port, with more lines for the server.
fn unbound(dir: &Path, port: u16, more: &str) -> String {
    let dir = dir.display();
    format!(
        "server:\n directory: \"{dir}\"\n username: \"\"\n chroot: \"\"\n pidfile: \"\"\n use-syslog: no\n logfile: \"\"\n\
         \x20interface: 127.0.0.1\n port: {port}\n do-ip6: no\n root-hints: \"{dir}/box/hints\"\n msg-cache-size: 128m\n\
         \x20rrset-cache-size: 256m\n prefetch: no\n aggressive-nsec: no\n extended-statistics: yes\n num-queries-per-thread: 1024\n{more}\
         remote-control:\n control-enable: yes\n control-interface: \"{dir}/control\"\n control-use-cert: no\n"
    )
}

#[test]
fn unbound_validates_from_the_root_and_hits_as_often_as_is_set() {
    let files = |internet: &Internet| {
        let anchor = internet.path().join("box/anchor");
        let more = format!(
            " module-config: \"validator iterator\"\n trust-anchor-file: \"{}\"\n val-log-level: 2\n",
            anchor.display()
        );
        vec![("unbound.conf", unbound(internet.path(), 5300, &more))]
    };
    let Some(internet) = resolve("0.1", "unbound", &["-d", "-p", "-c", "unbound.conf"], files)
    else {
        return;
    };
    let stats = internet.text("stats.txt");
    let value = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.and_then(|value| value.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("{name}: {stats}"))
    };
    let hit_rate = value("total.num.cachehits") / value("total.num.queries");
    assert!((hit_rate - 0.5).abs() < 0.01, "{hit_rate}: {stats}");
    // The proofs that most domains are not signed are signed.
    assert_eq!(value("num.answer.bogus"), 0.0, "{stats}");
    assert!(value("num.answer.secure") > 0.0, "{stats}");
}

#[test]
fn lost_replies_are_asked_for_again_and_truncated_ones_over_tcp() {
    let Some(program) = installed("unbound") else { return };
    let internet = Internet::new("0");
    let text = unbound(internet.path(), 5300, " module-config: \"iterator\"\n");
    std::fs::write(internet.path().join("unbound.conf"), text).expect("writes");
    let command = [&program, "-d", "-p", "-c", "unbound.conf"];
    if let Err(why) = internet.run(&command, "--loss 0.01 --fault truncate:0.2") {
        return skip::because(why);
    }
    let (stats, told) = (internet.text("stats.txt"), internet.text("auth.txt"));
    let counter = |name: &str| -> u64 {
        let value = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{name}: {stats}"))
    };
    // Unbound 1.17 drops one to three of 6,000 queries in one run of ten, "since the request list was full", where 32 are
    // outstanding and it has room for 1,024.
    let dropped = counter("total.requestlist.exceeded");
    assert!(dropped <= names() / 300, "{stats}");
    internet.check_answers(dropped);
    let over_tcp = counter("num.query.tcpout");
    assert!(over_tcp > names() / 10, "{stats}");
    // The log has the queries of both transports, but for those that cannot be read.
    let counted = |what: &str| -> u64 {
        let count = told.split(what).next().and_then(|text| text.rsplit([' ', '\n']).next());
        count.and_then(|count| count.parse().ok()).expect("a count")
    };
    let count = counted(" queries:") - counted(" errors,");
    let logged = internet.text("log").lines().count() as u64;
    assert!(logged >= count && count > over_tcp, "{logged} of {count} and {over_tcp}");
}

/// Returns the data of the DS record of the root of a box.
fn anchor(internet: &Internet) -> String {
    let text = internet.text("box/anchor");
    text.split_once(" DS ").expect("a DS record").1.trim().to_owned()
}

#[test]
fn bind_resolves_and_validates_from_the_root() {
    let files = |internet: &Internet| {
        let anchor = anchor(internet);
        let (numbers, digest) = anchor.rsplit_once(' ').expect("a digest");
        let configuration = format!(
            "options {{\n directory \"{dir}\"; pid-file none; session-keyfile \"{dir}/key\"; lock-file none;\n \
             managed-keys-directory \"{dir}\"; listen-on port 5300 {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n \
             allow-recursion {{ any; }}; allow-query-cache {{ any; }}; max-cache-size 400M; recursive-clients 10000;\n \
             dnssec-validation yes; empty-zones-enable no; synth-from-dnssec no;\n}};\ncontrols {{ }};\n\
             trust-anchors {{ \".\" static-ds {numbers} \"{digest}\"; }};\n\
             zone \".\" {{ type hint; file \"{dir}/box/hints\"; }};\n",
            dir = internet.path().display(),
        );
        vec![("named.conf", configuration)]
    };
    resolve("0.1", "named", &["-4", "-g", "-n", "1", "-c", "named.conf"], files);
}

#[test]
fn powerdns_recursor_resolves_and_validates_from_the_root() {
    let files = |internet: &Internet| {
        let dir = internet.path().display().to_string();
        let configuration = format!(
            "socket-dir={dir}\nwrite-pid=no\ndisable-syslog=yes\nloglevel=3\nquiet=yes\nsecurity-poll-suffix=\n\
             local-address=127.0.0.1\nlocal-port=5300\nthreads=1\ndont-query=\nserve-rfc1918=no\nexport-etc-hosts=no\n\
             hint-file={dir}/box/hints\ndnssec=validate\nlua-config-file={dir}/anchor.lua\naggressive-nsec-cache-size=0\n"
        );
        let trust = format!("clearTA(\".\")\naddTA(\".\", \"{}\")\n", anchor(internet));
        vec![("recursor.conf", configuration), ("anchor.lua", trust)]
    };
    resolve("0.1", "pdns_recursor", &["--config-dir=.", "--daemon=no"], files);
}

#[test]
fn knot_resolver_resolves_from_the_root() {
    // It always synthesises answers from proofs that it has (RFC 8198): no domain is signed.
    let files = |_: &Internet| {
        let configuration = "net.ipv6 = false\nnet.listen('127.0.0.1', 5300, { kind = 'dns' })\nmodules.unload('priming')\n\
             modules.unload('ta_update')\nmodules.unload('ta_signal_query')\nmodules.unload('detect_time_skew')\n\
             modules.unload('detect_time_jump')\ntrust_anchors.remove('.')\nmodules.load('hints')\n\
             hints.root_file('box/hints')\ncache.size = 200 * MB\nlog_level('err')\n";
        vec![("kresd.conf", configuration.to_owned())]
    };
    resolve("0", "kresd", &["-n", "-c", "kresd.conf", "."], files);
}

#[test]
fn dns64d_before_unbound_asks_for_each_question_once() {
    let Some(unbound_path) = installed("unbound") else { return };
    if !cargo_bin("dns64d").exists() {
        return skip::because("dns64d is not built: cargo build");
    }
    let files = |internet: &Internet| {
        let more = " module-config: \"iterator\"\n";
        let configuration = "[server]\nlisten = [\"127.0.0.1:5300\"]\nuser = \"root\"\nlog = \"warn\"\n[[dns64]]\nprefix = \"2001:db8:64::/96\"\n\
                             [upstream]\nservers = [\"127.0.0.1:5301\"]\n[cache]\nsize = \"128MiB\"\n[limits]\nclient-share = 1.0\n\
                             client-memory-share = 1.0\n[metrics]\nlisten = \"\"\n";
        let unbound = unbound(internet.path(), 5301, more);
        vec![("unbound.conf", unbound), ("dns64d.toml", configuration.to_owned())]
    };
    let both = format!(
        "{unbound_path} -d -p -c unbound.conf & exec {} --config dns64d.toml",
        cargo_bin("dns64d").display()
    );
    resolve("0", "bash", &["-c", &both], files);
}

/// Resolvers of the lab, one after the other; `DOMAINS`, `HOSTS` and `QUERIES` are numbers.
const EXPERIMENT: &str = r#"
name = "cold"
title = "resolvers cold from the root"
role = "resolver"
servers = ["unbound", "bind9", "knot-resolver", "pdns-recursor", "dns64d-forward+unbound"]
method = "closed"
repeats = 1

[closed]
window = 64
duration = "600s"
timeout = "20s"

[workload.internet]
tlds = 10
domains = DOMAINS
hosts = HOSTS
queries = QUERIES
hit-rate = 0.5
signed = 0.02
servers = 100
delays = ["0s", "1ms", "3ms"]
"#;

/// The items of a list; none if it is absent.
fn all(list: &Value) -> Vec<Value> {
    list.as_array().cloned().unwrap_or_default()
}

/// Runs an experiment in a folder, and returns its record; `None` if there can be no namespaces.
fn record_of(dir: &tempfile::TempDir, experiment: &str) -> Option<Value> {
    let Ran { told, run: record, .. } =
        Ran::experiment(dir.path(), "600s", experiment, "--no-store")?;
    println!("{told}");
    assert!(record.is_object(), "{told}");
    for skipped in all(&record["skipped"]) {
        assert!(skipped["why"].to_string().contains("not installed"), "{skipped}");
        skip::because(&skipped["why"]);
    }
    Some(record)
}

#[test]
fn resolvers_of_the_lab_find_every_name_from_the_root() {
    if installed("dnssec-signzone").is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (domains, hosts) = per_tld();
    let text = EXPERIMENT.replace("DOMAINS", &domains.to_string());
    let text = text.replace("HOSTS", &hosts.to_string());
    let text = text.replace("QUERIES", &(names() * 2).to_string());
    let _alone = alone();
    let Some(record) = record_of(&dir, &text) else { return };
    for cell in all(&record["results"]) {
        let (server, notes) = (&cell["server"], cell["notes"].to_string());
        // On a busy machine a void trial is repeated, with another cold server.
        let trials = all(&cell["trials"]);
        for trial in trials.iter().filter(|trial| trial["void"] == false) {
            let queries = &Value::from(names() * 2);
            assert_eq!((&trial["sent"], &trial["valid"]), (queries, queries), "{server}: {trial}");
        }
        let is_whole = all(&cell["void_repeats"]).is_empty();
        assert_eq!(notes.contains("50.0 % of its"), is_whole, "{server}: {notes}");
        assert!(!notes.contains("no referral had named"), "{server}: {notes}");
        let figure = |name: &str| cell["figures"][name]["values"][0].as_f64();
        let (hit_rate, to_servers) = (figure("hit_rate"), figure("queries_to_servers"));
        assert_eq!((hit_rate.is_some(), to_servers.is_some()), (is_whole, is_whole), "{notes}");
        assert!(hit_rate.is_none_or(|rate| (rate - 50.0).abs() < 1.0), "{server}: {hit_rate:?} %");
        // Half of them are answered by a server, and few ask for what is known of the way there.
        let usual = to_servers.is_none_or(|count| (0.5..2.0).contains(&count));
        assert!(usual, "{server}: {to_servers:?}");
    }
}

#[test]
fn a_resolver_whose_servers_are_far_is_not_accused_of_holding_replies() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = r#"
        name = "far"
        title = "a resolver with name servers 40 ms away"
        role = "resolver"
        servers = ["unbound"]
        method = "closed"
        repeats = 1
        closed = { window = 8, duration = "2s" }
        tester = { transport = "tcp", clients = 4 }
        workload.internet = { tlds = 1, domains = 10, hosts = 100, queries = 400, hit-rate = 0.0, delays = ["40ms"] }
    "#;
    let _alone = alone();
    let Some(record) = record_of(&dir, text) else { return };
    for cell in all(&record["results"]) {
        let trials = all(&cell["trials"]);
        let text = cell.to_string();
        assert!(!trials.is_empty() && !text.contains("delayed-replies"), "{text}");
    }
}

/// Makes a box of two domains with three names each.
const SMALL_BOX: &str = "zone internet --tlds 1 --domains 2 --hosts 3 --output box";

#[test]
fn a_far_server_is_far_over_tcp_too() {
    let dir = tempfile::tempdir().expect("a folder");
    assert_eq!(run_in(dir.path(), SMALL_BOX).0, 0);
    let port = host::free_port();
    let line =
        format!("auth --internet box --listen 0.0.0.0:{port} --server-delays 150ms --duration 60s");
    let mut auth = dnsdyno(&line);
    let auth = auth.current_dir(dir.path()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut auth = Held(auth);
    let mut line = String::new();
    let mut output = BufReader::new(auth.0.stdout.take().expect("piped"));
    output.read_line(&mut line).expect("a line");
    // 127.0.0.1 has no zone and refuses, but it is as far as the others.
    let query = *b"\0\x11\x12\x34\0\0\0\x01\0\0\0\0\0\0\0\0\x06\0\x01";
    let mut reply = [0; 19];
    let refused = |reply: &[u8], id: u8| assert_eq!((reply[3], reply[5] & 15), (id, 5));
    let delay = Duration::from_millis(150);

    let (socket, asked) = (UdpSocket::bind("127.0.0.1:0").expect("a port"), Instant::now());
    socket.send_to(&query[2..], ("127.0.0.1", port)).expect("sent");
    socket.recv(&mut reply[2..]).expect("a reply");
    refused(&reply, 0x34);
    assert!(asked.elapsed() >= delay, "over UDP: {:?}", asked.elapsed());

    let asked = Instant::now();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
    stream.write_all(&query).expect("sent");
    stream.read_exact(&mut reply).expect("a reply");
    refused(&reply, 0x34);
    assert!(asked.elapsed() >= delay * 2, "a handshake and a query: {:?}", asked.elapsed());

    // Two on the way at once, and the end of what is sent with them: both are answered.
    let (asked, mut second) = (Instant::now(), query);
    second[3] = 0x35;
    stream.write_all(&[query, second].concat()).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("open");
    for id in [0x34, 0x35] {
        stream.read_exact(&mut reply).expect("a reply");
        refused(&reply, id);
        assert!(asked.elapsed() >= delay, "{id}: {:?}", asked.elapsed());
    }
    assert_eq!(stream.read(&mut reply).expect("the end"), 0);
}

#[test]
fn what_cannot_be_served_is_said() {
    let dir = tempfile::tempdir().expect("a folder");
    assert_eq!(run_in(dir.path(), SMALL_BOX).0, 0);
    let other = SMALL_BOX.replace("box", "new");
    let table: [(&str, &str); 7] = [
        (SMALL_BOX, "exists already: choose another folder"),
        (&format!("{other} --queries q"), "there are 6: ask for fewer"),
        (&format!("{other} --servers 1"), "1 servers of domains"),
        ("auth --internet box --listen 127.0.0.1:0", "each server has its own address"),
        ("auth --internet box --listen 0.0.0.0:0 --delay 1ms", "cannot be used with"),
        ("auth --internet nowhere --listen 0.0.0.0:0", "cannot read the folder"),
        ("auth --log -", "--internet"),
    ];
    for (line, why) in table {
        let (code, _, told) = run_in(dir.path(), line);
        assert!(code == 2 && told.contains(why), "{line}: {told}");
    }
    let zone = dir.path().join("box/zones/t0.zone");
    std::fs::write(zone, "t0. 60 IN A 10.53.1.0\n").expect("the zone of t0");
    let (code, _, told) = run_in(dir.path(), "auth --internet box --listen 0.0.0.0:0");
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("t0.zone: the first record is not a SOA record"), "{told}");
}
