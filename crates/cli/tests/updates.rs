//! Updates into real primaries: BIND and Knot DNS, where they are installed.
//!
//! `DNSDYNO_UPDATES=10000 cargo test -p cli --test suite updates::` sends as many as ISC-TN-2008-1 did.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wire::Qtype;

use crate::kit::command::run_in;
use crate::kit::host::{find, free_port, installed};
use crate::kit::serve::{Server, serve};

/// Secret of the key of the lab, which the adapters configure.
const SECRET: &str = "ZG5zZHluby1kbnNkeW5vLWRuc2R5bm8tZG5zZHlubw==";

/// How many updates are sent to each primary.
fn count() -> u64 {
    std::env::var("DNSDYNO_UPDATES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

/// A primary of the zone `test`, ended when dropped.
struct Primary {
    server: Server,
    command: Vec<String>,
}

/// Primaries: names of their adapters, and their programs.
const KINDS: [Kind; 2] = [("bind9", "named"), ("knot", "knotd")];
type Kind = (&'static str, &'static str);

fn run(dir: &Path, line: &str) -> String {
    let (code, out, err) = run_in(dir, line);
    assert_eq!(code, 0, "{line}: {out}{err}");
    out
}

/// Makes the zone and starts a primary of it; `None` where the program is not installed.
fn start(kind: Kind) -> Option<Primary> {
    let (adapter, program) = kind;
    installed(program)?;
    let (folder, delegations) = (tempfile::tempdir().expect("a folder"), 4 * count());
    let dir = folder.path();
    run(dir, &format!("zone generate tld --delegations {delegations} --output before.zone"));
    std::fs::copy(dir.join("before.zone"), dir.join("zone")).expect("copies");
    let port = free_port();
    let configured = run(
        dir,
        &format!(
            "servers configure {adapter} --dir . --set zone=test --set listen.port={port} \
             --set replication.primary=true"
        ),
    );
    let command: Vec<String> = configured.split_whitespace().map(str::to_owned).collect();
    let server = serve(folder, &command, port, "test", Qtype::SOA);
    Some(Primary { server, command })
}

/// The zone as it is transferred.
fn transfer(primary: &Primary) -> bool {
    let Some(dig) = find("dig") else {
        skip::because("dig is not installed (bind9-dnsutils)");
        return false;
    };
    let port = primary.server.address.rsplit(':').next().expect("a port");
    let out = Command::new(dig)
        .args(["@127.0.0.1", "-p", port, "test", "AXFR", "+nocomments", "+nocmd", "+nostats"])
        .args(["-y", &format!("hmac-sha256:lab:{SECRET}")])
        .output()
        .expect("starts");
    let printed = String::from_utf8(out.stdout).expect("UTF-8");
    // The signature of the transfer is no record of the zone.
    let zone = printed.lines().filter(|line| !line.contains("\tTSIG\t"));
    let zone: Vec<&str> = zone.collect();
    std::fs::write(primary.server.dir.path().join("transferred.zone"), zone.join("\n") + "\n")
        .expect("writes");
    true
}

#[test]
fn every_update_is_done_and_the_zone_is_the_one_computed() {
    for kind in KINDS {
        let Some(primary) = start(kind) else { continue };
        let dir = primary.server.dir.path();
        let count = count();
        run(dir, &format!("update generate before.zone --count {count} --output binary"));
        let key = format!("hmac-sha256:lab:{SECRET}");
        // A machine that is busy elsewhere makes a primary slow, not wrong.
        let send = format!(
            "update send {} binary --key {key} --timeout 5m --json result.json",
            primary.server.address
        );
        print!("{}", run(dir, &send));
        let json = std::fs::read_to_string(dir.join("result.json")).expect("reads");
        let json: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(json["rcodes"], serde_json::json!({ "NOERROR": count }), "{}", kind.0);
        assert_eq!((json["sent"].as_u64(), json["lost"].as_u64()), (Some(count), Some(0)));
        let waited = json["run_delay"].as_f64();
        assert!(waited.is_none_or(|share| (0.0..1.0).contains(&share)), "{json}");
        let counted = Path::new("/proc/thread-self/schedstat").exists();
        assert_eq!(waited.is_some(), counted, "{json}");
        assert_eq!(json["latency_us"]["count"].as_u64(), Some(count));
        let checked = run(dir, &format!("update check {} binary", primary.server.address));
        assert_eq!(checked, format!("{count} updates were looked up, 0 are missing\n"));
        run(dir, "update apply before.zone binary --output computed.zone");
        if transfer(&primary) {
            run(dir, "zone compare computed.zone transferred.zone");
            let (code, out, _) = run_in(dir, "zone compare before.zone computed.zone");
            assert!(code == 1 && out.contains("only in this file"), "{out}");
        }
        // Once more: nothing of it can be done twice, and nothing breaks.
        let (code, out, err) = run_in(dir, &send);
        assert!(code == 1 && err.contains("updates were not done (--allow-failed"), "{err}");
        assert!(out.contains("YXDOMAIN") && out.contains("NXDOMAIN"), "{out}");
        run(dir, &format!("{send} --allow-failed"));
    }
}

#[test]
fn scripts_windows_and_tcp_do_the_same() {
    for kind in KINDS {
        let Some(primary) = start(kind) else { continue };
        let dir = primary.server.dir.path();
        run(dir, "update generate before.zone --count 90 --format nsupdate --output script");
        let key = format!("hmac-sha256:lab:{SECRET}");
        let address = &primary.server.address;
        // The primary knows which zone the names are in.
        let script = std::fs::read_to_string(dir.join("script")).expect("reads");
        let lines = script.lines().filter(|line| !line.starts_with("zone "));
        std::fs::write(dir.join("no-zone"), lines.collect::<Vec<_>>().join("\n") + "\n")
            .expect("writes");
        let more = format!("no-zone --key {key} --tcp --window 4 --rate 500");
        run(dir, &format!("update send {address} {more}"));
        run(dir, &format!("update check {address} no-zone"));
        run(dir, "update apply before.zone script --output computed.zone");
        if transfer(&primary) {
            run(dir, "zone compare computed.zone transferred.zone");
        }
    }
}

/// What a server must ignore, or does not show, was not lost by it.
#[test]
fn what_a_server_ignores_or_hides_is_not_missed() {
    let mut script = "zone test.\nadd alias.test. 300 CNAME other.test.\nsend\nadd alias.test. 300 A 192.0.2.1\nsend\n\
        add both.test. 300 A 192.0.2.1\nsend\nadd both.test. 300 CNAME other.test.\nsend\n\
        add below.test. 300 NS ns.below.test.\nadd ns.below.test. 300 A 192.0.2.53\nadd x.below.test. 300 TXT x\nsend\n\
        add test. 300 SOA ns. h. 1 2 3 4 5\nsend\n"
        .to_owned();
    // More than fits into a datagram without EDNS.
    let many = (1..=60).map(|i| format!("add many.test. 300 A 192.0.2.{i}\n"));
    script.extend(many);
    script += "send\n";
    for kind in KINDS {
        let Some(primary) = start(kind) else { continue };
        let (dir, address) = (primary.server.dir.path(), &primary.server.address);
        let named = format!("server {}\n{script}", address.replace(':', " "));
        std::fs::write(dir.join("script"), named).expect("writes");
        let key = format!("--key hmac-sha256:lab:{SECRET}");
        run(dir, &format!("update send 127.0.0.1:9 script --follow-server {key}"));
        run(dir, &format!("update check {address} script"));
        run(dir, "update apply before.zone script --output computed.zone");
        if transfer(&primary) {
            run(dir, "zone compare computed.zone transferred.zone");
        }
    }
}

#[test]
fn a_primary_that_refuses_is_understood() {
    for kind in KINDS {
        let Some(primary) = start(kind) else { continue };
        let dir = primary.server.dir.path();
        run(dir, "update generate before.zone --count 20 --output updates");
        std::fs::write(
            dir.join("foreign"),
            "zone foreign.example\nupdate add x.foreign.example 60 A 192.0.2.1\nsend\n",
        )
        .expect("writes");
        let wrong = "hmac-sha256:lab:b3RoZXItb3RoZXItb3RoZXItb3RoZXI=";
        let unknown = format!("hmac-sha256:other:{SECRET}");
        let right = format!("hmac-sha256:lab:{SECRET}");
        let table = [
            (format!("updates --key {wrong}"), "BADSIG", "ended early: the server"),
            (format!("updates --key {unknown}"), "BADKEY", "ended early: the server"),
            ("updates".to_owned(), "update", "a zone could not be updated: "),
            (format!("foreign --key {right}"), "NOTAUTH", "a zone could not be updated: NOTAUTH"),
        ];
        for (more, part, reported) in table {
            let args = format!("update send {} {more}", primary.server.address);
            let (code, out, err) = run_in(dir, &args);
            assert_eq!(code, 1, "{}: {args:?}: {out}{err}", kind.0);
            assert!(err.contains(part), "{}: {args:?}: {err}", kind.0);
            assert!(err.contains("0 updates were done before and stay done"), "{err}");
            assert!(out.contains(reported), "{out}");
            assert_eq!(out.contains("ended early"), reported.starts_with("ended"), "{out}");
        }
    }
}

#[test]
fn bad_files_are_refused_with_their_place() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let soa = "$ORIGIN test.\n@ 60 IN SOA ns1 h 1 2 3 4 5\n";
    std::fs::write(dir.join("bad.zone"), format!("{soa}a NS ns1\nb A 192.0.2.256\n"))
        .expect("writes");
    std::fs::write(dir.join("bad.script"), "zone test\nupdate add x.test A\nsend\n")
        .expect("writes");
    std::fs::write(dir.join("good.zone"), format!("{soa}a NS ns1\n")).expect("writes");
    std::fs::write(dir.join("good.script"), "zone test\nupdate add x.test 60 A 192.0.2.1\nsend\n")
        .expect("writes");
    std::fs::write(dir.join("other"), "nothing of the kind").expect("writes");
    for (line, part) in [
        ("generate bad.zone --count 1 --output x", "bad.zone:4:5: "),
        ("apply bad.zone good.script --output x", "bad.zone:4:5: "),
        ("apply good.zone bad.script --output x", "bad.script:2:"),
        ("apply good.zone good.script --output good.zone", "the command reads this file"),
        ("generate good.zone --count 1 --output good.zone", "the command reads this file"),
        ("send 127.0.0.1:9 bad.script", "bad.script:2:"),
        ("send 127.0.0.1:9 good.script --outcomes good.script", "the command reads this file"),
        ("send 127.0.0.1:9 nowhere", "nowhere"),
        ("send 127.0.0.1:9 bad.script --key hmac-sha256:lab:%", "key"),
        ("send 127.0.0.1:9 bad.script --key-file other", "the key file other"),
        ("check 127.0.0.1:9 bad.script", "bad.script:2:"),
    ] {
        let (code, _, err) = run_in(dir, &format!("update {line}"));
        assert!(code == 2 && err.contains(part), "{line}: {code}: {err}");
    }
}

#[test]
fn a_stream_that_is_broken_is_sent_up_to_there() {
    for kind in KINDS {
        let Some(primary) = start(kind) else { continue };
        let dir = primary.server.dir.path();
        run(dir, "update generate before.zone --count 20 --output updates");
        let whole = std::fs::read(dir.join("updates")).expect("reads");
        std::fs::write(dir.join("updates"), &whole[..whole.len() - 3]).expect("writes");
        let key = format!("hmac-sha256:lab:{SECRET}");
        let outputs = "--outcomes outcomes --json result.json";
        let (code, out, err) = run_in(
            dir,
            &format!("update send {} updates --key {key} {outputs}", primary.server.address),
        );
        assert_eq!(code, 2, "{out}{err}");
        assert!(err.contains("updates") && err.contains("19 updates were done before"), "{err}");
        let kept = std::fs::read_to_string(dir.join("outcomes")).expect("kept");
        assert_eq!(kept.lines().filter(|line| line.contains(" NOERROR ")).count(), 19, "{kept}");
        assert!(dir.join("result.json").exists(), "{out}");
    }
}

#[test]
fn what_was_acknowledged_is_looked_up_after_a_kill() {
    for kind in KINDS {
        let Some(mut primary) = start(kind) else { continue };
        let dir = primary.server.dir.path();
        run(dir, "update generate before.zone --count 200 --format nsupdate --output made");
        // The primary is asked for the zone before the kill.
        let made = std::fs::read_to_string(dir.join("made")).expect("reads");
        let lines = made.lines().filter(|line| !line.starts_with("zone "));
        let script: String = lines.map(|line| format!("{line}\n")).collect();
        std::fs::write(dir.join("updates"), script).expect("writes");
        let key = format!("hmac-sha256:lab:{SECRET}");
        let pid = primary.server.child.0.id().to_string();
        // The shell says which process is to be ended at last.
        // Knot finds its process number still taken until the killed process is waited for, by us.
        let restart =
            format!("rm -f knot.pid; echo $$ > pid; exec {} 2>> log", primary.command.join(" "));
        let (code, out, err) = run_in(
            dir,
            &format!(
                "update send {} updates --key {key} --kill {pid} --kill-after 100 --restart '{restart}' \
                 --json result.json --timeout 2s",
                primary.server.address
            ),
        );
        let pid = std::fs::read_to_string(dir.join("pid")).unwrap_or_default();
        let ended = Command::new("kill").args(["-9", pid.trim()]).status();
        let _ = primary.server.child.0.wait();
        assert_eq!(code, 0, "{}: {out}{err}", kind.0);
        assert!(ended.is_ok_and(|status| status.success()), "the second primary ran");
        let json = std::fs::read_to_string(dir.join("result.json")).expect("reads");
        let json: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(json["durability"]["acknowledged"], 100, "{json}");
        println!("{}: {} gone", kind.0, json["durability"]["gone"]);
    }
}
