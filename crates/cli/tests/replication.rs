//! Primaries under update and the secondaries that follow them: all the real servers that are installed, at small size.

use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

/// Runs an experiment; its record, or `None` where there is no lab.
fn run(dir: &Path, text: &str) -> Option<Value> {
    std::fs::write(dir.join("x.toml"), text).expect("writes");
    let output = Command::new(cargo_bin("dnsdyno"))
        .args(["run", "x.toml", "--no-store", "--json", "x.json"])
        .current_dir(dir)
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let Ok(json) = std::fs::read_to_string(dir.join("x.json")) else {
        assert!(said.contains("namespace"), "{said}");
        skip::because(format_args!("no lab here: {said}"));
        return None;
    };
    let record: Value = serde_json::from_str(&json).expect("JSON");
    for skipped in record["skipped"].as_array().expect("a list") {
        let why = skipped["why"].as_str().expect("a reason");
        assert!(why.contains("is not installed"), "{skipped}: {said}");
        skip::because(why);
    }
    Some(record)
}

/// A figure of a result.
fn figure(result: &Value, name: &str) -> f64 {
    result["figures"][name]["values"][0]
        .as_f64()
        .unwrap_or_else(|| panic!("no figure {name}: {result}"))
}

#[test]
fn every_primary_is_updated_killed_and_looked_at() {
    let dir = tempfile::tempdir().expect("a folder");
    let record = run(
        dir.path(),
        "name = \"x\"\ntitle = \"x\"\nrole = \"replication\"\nmethod = \"update-rate\"\n\
         primaries = [\"bind9\", \"knot\", \"yadifa\", \"pdns\"]\ndelegations = 400\nupdates = 40\nkilled_after = 10\n",
    );
    let Some(record) = record else { return };
    for result in record["results"].as_array().expect("a list") {
        assert_eq!(figure(result, "not_acknowledged"), 0.0, "{result}");
        assert_eq!(figure(result, "acknowledged_but_not_done"), 0.0, "{result}");
        assert_eq!(figure(result, "looked_up_after_SIGKILL"), 50.0, "{result}");
        // Whether a server keeps its word is its own affair, and told.
        println!("{}: {} gone", result["server"], figure(result, "gone_after_SIGKILL"));
    }
}

#[test]
fn secondaries_of_all_kinds_follow_one_primary() {
    let dir = tempfile::tempdir().expect("a folder");
    let record = run(
        dir.path(),
        "name = \"x\"\ntitle = \"x\"\nrole = \"replication\"\nmethod = \"query-under-update\"\n\
         primaries = [\"bind9\"]\nsecondaries = [\"nsd+bind9+knot+yadifa+pdns\"]\ndelegations = 400\n\
         rates = [\"20\"]\nduration = \"2s\"\n",
    );
    let Some(result) = record.map(|record| record["results"][0].clone()).filter(Value::is_object)
    else {
        return;
    };
    assert!(figure(&result, "qps") > 0.0);
    assert_eq!(figure(&result, "not_acknowledged"), 0.0);
    assert!(figure(&result, "lag_watched") > 0.0, "{result}");
    let secondaries = result["secondaries"].as_array().expect("a list");
    let names: Vec<_> = secondaries.iter().filter_map(|one| one["server"].as_str()).collect();
    assert_eq!(names, ["nsd", "bind9", "knot", "yadifa", "pdns"]);
    let kinds = ["axfr", "ixfr_in_full", "ixfr", "ixfr_octets", "axfr_octets"];
    let got = |one: &Value, kind: &str| one["figures"].get(kind).map_or(0.0, |_| figure(one, kind));
    for one in secondaries {
        assert!(got(one, "axfr") + got(one, "ixfr_in_full") >= 1.0, "{one}");
        assert!(got(one, "ixfr") >= 1.0 && got(one, "lag_watched") > 0.0, "{one}");
    }
    for kind in kinds {
        let sum: f64 = secondaries.iter().map(|one| got(one, kind)).sum();
        assert_eq!(sum, got(&result, kind), "{kind}: {result}");
    }
    let in_full =
        result["figures"].get("ixfr_in_full").map_or(0.0, |_| figure(&result, "ixfr_in_full"));
    assert!(figure(&result, "axfr") + in_full >= 5.0, "each got the zone once: {result}");
    assert!(figure(&result, "ixfr") > 0.0 && figure(&result, "ixfr_octets") > 100.0, "{result}");
}

#[test]
fn every_server_has_the_signed_zone() {
    let dir = tempfile::tempdir().expect("a folder");
    let record = run(
        dir.path(),
        "name = \"x\"\ntitle = \"x\"\nrole = \"replication\"\nmethod = \"signed-unsigned\"\n\
         primaries = [\"bind9\", \"knot\", \"yadifa\"]\nsecondaries = [\"nsd\"]\ndelegations = 400\n\
         signed = [false, true]\nduration = \"500ms\"\n",
    );
    let Some(record) = record else { return };
    let results = record["results"].as_array().expect("a list");
    for result in results {
        assert!(figure(result, "qps") > 0.0, "{result}");
        let signed = result["settings"]["signed"] == "yes";
        // Referrals with NSEC3 records and signatures, and without.
        assert_eq!(figure(result, "reply_octets") > 300.0, signed, "{result}");
    }
    assert_eq!(results.len() + record["skipped"].as_array().expect("a list").len(), 8);
}
