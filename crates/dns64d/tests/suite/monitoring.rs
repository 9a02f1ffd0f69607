//! The dashboard and the alert rules: what they query is what the server has, in a form that Prometheus accepts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::faults::{dns64d, ipv4_only};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("monitoring")
}

/// Returns the queries of all panels.
fn queries() -> Vec<String> {
    let text = fs::read_to_string(folder().join("dashboard.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    targets.map(|target| target["expr"].as_str().expect("a query").to_owned()).collect()
}

/// Returns the metrics of dns64d that a text names.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("dns64d_")).map(str::to_owned).collect()
}

#[test]
fn every_metric_of_the_dashboard_and_of_the_alerts_exists() {
    let upstream = ipv4_only();
    // A server of two zones, and a prefix of two blocks.
    let block = "[[dns64]]\nprefix = \"64:ff9b::/96\"\n";
    let zone =
        format!("[[forward]]\nzones = [\"a.test\"]\nservers = [\"{}\"]\n", upstream.address());
    let server = dns64d(&[&upstream], &[block, block, &zone].concat());
    server.ask("www.example AAAA");
    let page = server.http("/metrics");
    let mut samples = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with("dns64d_")) {
        let (sample, _) = line.rsplit_once(' ').expect("a sample and its value");
        assert!(samples.insert(sample), "{sample} is there twice");
    }
    let list = include_str!("../../../cli/tests/tables/stable.txt");
    let stored = list.lines().find_map(|line| line.strip_prefix("metric dns64d: "));
    let stored = stored.expect("a list");
    let gone = |page: &str| -> Vec<&str> {
        let is_gone = |name: &&str| !page.contains(&format!("# TYPE {name} "));
        stored.split(' ').filter(is_gone).collect()
    };
    assert_eq!(gone(&page), [""; 0], "breaks docs/stability.md");
    let renamed = page.replace("dns64d_queries_udp_total", "dns64d_questions_udp_total");
    assert_eq!(gone(&renamed), ["dns64d_queries_udp_total"]);
    let alerts = fs::read_to_string(folder().join("alerts.yml")).expect("the rules");
    let (shown, alarming) = (metrics(&queries().join(" ")), metrics(&alerts));
    assert!(shown.len() > 20 && alarming.len() > 10, "{shown:?} {alarming:?}");
    for name in shown.union(&alarming) {
        let family = name.strip_suffix("_bucket").unwrap_or(name);
        assert!(page.contains(&format!("# TYPE {family} ")), "no {name} in\n{page}");
    }
}

/// Runs promtool in the folder of the rules; `false` if it is not installed.
fn promtool(arguments: &[&str]) -> bool {
    let output = Command::new("promtool").args(arguments).current_dir(folder()).output();
    let output = skip::unless_ok(output, "no promtool (package prometheus)");
    let Some(output) = output else { return false };
    let said = String::from_utf8_lossy(&output.stderr);
    let result = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{arguments:?}: {said}{result}");
    true
}

#[test]
fn prometheus_accepts_all_queries_and_the_alerts_fire() {
    if !promtool(&["check", "rules", "alerts.yml"]) {
        return;
    }
    promtool(&["test", "rules", "alerts-test.yml"]);
    // Each query of the dashboard as a rule, with values in place of Grafana's variables.
    let query = |text: String| text.replace("$__rate_interval", "5m").replace("$instance", ".*");
    let rule = |text| json!({"record": "panel", "expr": query(text)});
    let rules: Vec<Value> = queries().into_iter().map(rule).collect();
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("rules.yml");
    // JSON is YAML too.
    let text = json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string();
    fs::write(&file, text).expect("writes");
    promtool(&["check", "rules", "--lint=none", file.to_str().expect("a path")]);
}
