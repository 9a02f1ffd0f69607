//! `dnsdyno trace` as a user sees it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use measure::Nanos;
use serde_json::Value;
use trace::{Message, Transport, Writer};
use wire::{Edns, Name, Qtype, QueryTemplate};

/// Runs `dnsdyno` and returns exit code, standard output, standard error.
fn dnsdyno(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(cargo_bin("dnsdyno")).args(args).output().expect("starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

/// A query.
fn query(name: &str, qtype: Qtype) -> Vec<u8> {
    let name: Name = name.parse().expect("a name");
    QueryTemplate::new(&name, qtype, true, false, Some(&Edns::default())).bytes().to_vec()
}

/// A capture of 100 queries a millisecond apart, of ten clients, every fifth over TCP; each is answered NXDOMAIN.
fn capture(dir: &Path) -> PathBuf {
    let mut out = Writer::new(Vec::new()).expect("in memory");
    let server: SocketAddr = "192.0.2.53:53".parse().expect("an address");
    for number in 0..100u16 {
        let client = SocketAddr::from(([10, 0, 0, (number % 10) as u8], 1_000 + number));
        let qtype = if number % 4 == 0 { Qtype::AAAA } else { Qtype::A };
        let mut bytes = query(&format!("www.n{number}.example"), qtype);
        let tcp = number % 5 == 0;
        let transport = if tcp { Transport::Tcp { sequence: 1 } } else { Transport::Udp };
        let at = Nanos(1_700_000_000_000_000_000 + u64::from(number) * 1_000_000);
        for (source, destination) in [(client, server), (server, client)] {
            let (len, frame, fragmented, cut) = (bytes.len(), 1, false, false);
            let bytes_now = &bytes[..];
            out.write(&Message {
                frame,
                at,
                source,
                destination,
                transport,
                fragmented,
                cut,
                len,
                bytes: bytes_now,
            })
            .expect("in memory");
            bytes[2] |= 0x80;
            bytes[3] |= 3;
        }
    }
    let path = dir.join("capture.pcap");
    std::fs::write(&path, out.finish().expect("in memory")).expect("written");
    path
}

#[test]
fn a_capture_is_characterised() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = capture(dir.path());
    let file = path.to_str().expect("UTF-8");
    let (code, out, err) = dnsdyno(&["trace", "stats", file]);
    assert_eq!((code, &*err), (0, ""), "{out}");
    for line in [
        "Start: 2023-11-14T22:13:20.000000000Z, duration: 0.10 seconds.",
        "100 requests (100.0% failed)",
        "            75  75.0%  A                          75 failed (100.0%)",
        "Clients: 10 in all; 5 make half of the requests, 9 make nine in ten",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    let (code, out, _) = dnsdyno(&["trace", "stats", file, file, "--json", "-"]);
    let stats: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(code, 0);
    assert_eq!(stats["queries"]["messages"], 200);
    assert_eq!(stats["return_codes"][0]["name"], "NXDOMAIN");
    assert_eq!(stats["series"]["queries"].as_array().expect("bins").len(), 1);
}

#[test]
fn what_is_cut_or_foreign_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = capture(dir.path());
    let file = path.to_str().expect("UTF-8");
    let whole = std::fs::read(&path).expect("there");
    std::fs::write(&path, &whole[..whole.len() - 5]).expect("written");
    let (code, out, err) = dnsdyno(&["trace", "stats", file]);
    assert_eq!(code, 1);
    assert!(out.starts_with("INCOMPLETE: ") && out.contains("100 requests"), "{out}");
    assert!(err.contains("the capture is cut: it ends in the middle of a packet at byte"), "{err}");
    std::fs::write(&path, "a text").expect("written");
    let (code, _, err) = dnsdyno(&["trace", "stats", file]);
    assert!(code == 2 && err.contains("not a capture: it begins with the bytes"), "{err}");
    let (code, _, err) = dnsdyno(&["trace", "stats", "/nonexistent.pcap"]);
    assert!(code == 2 && err.contains("cannot read the capture /nonexistent.pcap"), "{err}");
}
