//! The Internet in a box: real resolvers that know nothing but its root. All of it is in a network namespace of its own, since
//! resolvers ask port 53 only.

#[path = "kit/host.rs"]
mod host;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

/// Number of names that a resolver finds cold: `DNSDYNO_NAMES` sets another one.
fn names() -> u64 {
    std::env::var("DNSDYNO_NAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000)
}

/// Starts the box and then the resolver, which knows the hints, asks it all queries, and ends the box, whose log is complete then.
const SCRIPT: &str = r#"
set -e
export PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
ip route add local 10.53.0.0/16 dev lo
"$0" auth --internet box --listen 0.0.0.0:53 --server-delays 0s,1ms,3ms --log log >auth.txt 2>auth.err &
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
# A trial is void on a busy machine, with exit code 1; the answers are checked all the same.
"$0" load 127.0.0.1:5300 --queries queries -n 1 --pacing window --window 32 --timeout 20s --json load.json >load.txt 2>&1 || true
if [ -S control ]; then unbound-control -c unbound.conf stats_noreset >stats.txt; fi
kill $resolver
wait $resolver || true
kill $auth
wait $auth
"#;

/// A box in a folder: what its query file has.
struct Internet {
    dir: tempfile::TempDir,
    /// Number of queries, and the different ones of them.
    queries: u64,
    asked: BTreeSet<String>,
}

impl Internet {
    /// Makes one; half of the queries repeat others.
    fn new(signed: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let domains = (names() / 1_000).max(30);
        let hosts = names() * 5 / 4 / (10 * domains) + 1;
        let numbers = [domains, hosts, names() * 2].map(|number| number.to_string());
        let [domains, hosts, count] = numbers.each_ref();
        let output = Command::new(cargo_bin("dnsdyno"))
            .args(["zone", "internet", "--tlds", "10", "--domains", domains, "--hosts", hosts])
            .args(["--signed", signed, "--servers", "100", "--output", "box"])
            .args(["--queries", "queries", "--count", count, "--hit-rate", "0.5"])
            .current_dir(dir.path())
            .output()
            .expect("starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        assert!(told.contains("50.0 % were asked before"), "{told}");
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

    /// Writes a file of the resolver.
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("writes");
    }

    /// Runs the script with the command of a resolver.
    ///
    /// # Errors
    /// If this host has no namespaces.
    fn run(&self, resolver: &[&str]) -> Result<(), String> {
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child"])
            .args(["--mount-proc", "bash", "-c", SCRIPT])
            .arg(cargo_bin("dnsdyno"))
            .args(resolver)
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

    /// Checks what the resolver answered and what it asked: every query has a right answer, delegations are followed from the
    /// root as RFC 1034 section 5.3.3 says, and a repeated question is answered from the cache.
    fn check(&self) {
        let load: Value = serde_json::from_str(&self.text("load.json")).expect("JSON");
        let all = &self.queries.into();
        assert_eq!((&load["sent"], &load["valid"]), (all, all), "{}", self.text("load.txt"));
        let log = self.text("log");
        let (mut referred, mut last) = (BTreeSet::from(["."]), BTreeMap::<&str, u64>::new());
        let (mut found, mut final_ones, mut at_root) = (BTreeSet::new(), 0, 0);
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
            } else if self.asked.contains(&question) {
                found.insert(question);
                final_ones += 1;
            }
        }
        assert_eq!(found, self.asked, "each question reaches the servers of its zone");
        for question in &self.asked {
            let (name, _) = question.split_once(' ').expect("name and type");
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
        assert!((hit_rate - 0.5).abs() < 0.01, "{hit_rate}");
    }
}

/// Returns the path of a program; `None`, said as a skip, if it is not installed.
fn installed(program: &str) -> Option<String> {
    let path = host::find(program).map(|path| path.display().to_string());
    if path.is_none() {
        skip::because(format_args!("{program} is not installed"));
    }
    path
}

/// Unbound's configuration in a folder, with more lines for the server.
fn unbound(dir: &Path, more: &str) -> String {
    let dir = dir.display();
    format!(
        "server:\n directory: \"{dir}\"\n username: \"\"\n chroot: \"\"\n pidfile: \"\"\n use-syslog: no\n logfile: \"\"\n\
         \x20interface: 127.0.0.1\n port: 5300\n do-ip6: no\n root-hints: \"{dir}/box/hints\"\n msg-cache-size: 128m\n\
         \x20rrset-cache-size: 256m\n prefetch: no\n aggressive-nsec: no\n extended-statistics: yes\n num-queries-per-thread: 1024\n{more}\
         remote-control:\n control-enable: yes\n control-interface: \"{dir}/control\"\n control-use-cert: no\n"
    )
}

#[test]
fn unbound_resolves_from_the_root_and_hits_as_often_as_is_set() {
    let Some(program) = installed("unbound") else { return };
    let internet = Internet::new("0");
    let more = " module-config: \"iterator\"\n";
    internet.write("unbound.conf", &unbound(internet.path(), more));
    if let Err(why) = internet.run(&[&program, "-d", "-p", "-c", "unbound.conf"]) {
        return skip::because(why);
    }
    internet.check();
    let stats = internet.text("stats.txt");
    let value = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.and_then(|value| value.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("{name}: {stats}"))
    };
    let hit_rate = value("total.num.cachehits") / value("total.num.queries");
    assert!((hit_rate - 0.5).abs() < 0.01, "{hit_rate}: {stats}");
}

#[test]
fn unbound_validates_from_the_root() {
    let Some(program) = installed("unbound") else { return };
    if installed("dnssec-signzone").is_none() {
        return;
    }
    let internet = Internet::new("0.1");
    let anchor = internet.path().join("box/anchor");
    let more = format!(
        " module-config: \"validator iterator\"\n trust-anchor-file: \"{}\"\n val-log-level: 2\n",
        anchor.display()
    );
    internet.write("unbound.conf", &unbound(internet.path(), &more));
    if let Err(why) = internet.run(&[&program, "-d", "-p", "-c", "unbound.conf"]) {
        return skip::because(why);
    }
    internet.check();
    let stats = internet.text("stats.txt");
    let counts: BTreeMap<&str, &str> =
        stats.lines().filter_map(|line| line.split_once('=')).collect();
    // The proofs that most domains are not signed are signed.
    assert_eq!(counts.get("num.answer.bogus"), Some(&"0"), "{stats}");
    let secure = counts.get("num.answer.secure").and_then(|count| count.parse::<u64>().ok());
    assert!(secure.is_some_and(|count| count > 0), "{stats}");
}

#[test]
fn bind_resolves_and_validates_from_the_root() {
    let Some(program) = installed("named") else { return };
    if installed("dnssec-signzone").is_none() {
        return;
    }
    let internet = Internet::new("0.1");
    let anchor = internet.text("box/anchor");
    let words: Vec<&str> = anchor.split_whitespace().collect();
    let [".", _, "IN", "DS", tag, algorithm, kind, digest] = words[..] else {
        panic!("no DS record: {anchor}");
    };
    let configuration = format!(
        "options {{\n directory \"{dir}\"; pid-file none; session-keyfile \"{dir}/key\"; lock-file none;\n \
         managed-keys-directory \"{dir}\"; listen-on port 5300 {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n \
         allow-recursion {{ any; }}; allow-query-cache {{ any; }}; max-cache-size 400M; recursive-clients 10000;\n \
         dnssec-validation yes; empty-zones-enable no; synth-from-dnssec no;\n}};\ncontrols {{ }};\n\
         trust-anchors {{ \".\" static-ds {tag} {algorithm} {kind} \"{digest}\"; }};\n\
         zone \".\" {{ type hint; file \"{dir}/box/hints\"; }};\n",
        dir = internet.path().display(),
    );
    internet.write("named.conf", &configuration);
    if let Err(why) = internet.run(&[&program, "-4", "-g", "-n", "1", "-c", "named.conf"]) {
        return skip::because(why);
    }
    internet.check();
}

#[test]
fn what_cannot_be_served_is_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let output = Command::new(cargo_bin("dnsdyno")).args(args).current_dir(dir.path()).output();
        let output = output.expect("starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let make =
        ["zone", "internet", "--tlds", "1", "--domains", "2", "--hosts", "3", "--output", "box"];
    assert_eq!(run(&make).0, Some(0));
    let made = |more: &[&'static str]| [&make[..8], more].concat();
    let served =
        |more: &[&'static str]| [&["auth", "--internet", "box", "--listen"][..], more].concat();
    let table: [(Vec<&str>, &str); 7] = [
        (make.to_vec(), "exists already: choose another folder"),
        (made(&["--output", "new", "--queries", "q"]), "there are 6: ask for fewer"),
        (made(&["--output", "new", "--servers", "1"]), "1 servers of domains"),
        (served(&["127.0.0.1:0"]), "each server has its own address"),
        (served(&["0.0.0.0:0", "--delay", "1ms"]), "cannot be used with"),
        (vec!["auth", "--internet", "nowhere", "--listen", "0.0.0.0:0"], "cannot read the folder"),
        (vec!["auth", "--log", "-"], "--internet"),
    ];
    for (args, why) in table {
        let (code, told) = run(&args);
        assert_eq!(code, Some(2), "{args:?}: {told}");
        assert!(told.contains(why), "{args:?}: {told}");
    }
    let zone = dir.path().join("box/zones/t0.zone");
    std::fs::write(zone, "t0. 60 IN A 10.53.1.0\n").expect("the zone of t0");
    let (code, told) = run(&served(&["0.0.0.0:0"]));
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("t0.zone: the first record is not a SOA record"), "{told}");
}
