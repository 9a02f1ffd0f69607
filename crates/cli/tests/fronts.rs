//! TLS proxies before a resolver, in an experiment: real servers, over each transport that they forward.

use serde_json::Value;

use crate::kit::command::Ran;

/// Three transports over two proxies, a few queries each.
const EXPERIMENT: &str = "name = \"x\"\ntitle = \"x\"\nrole = \"resolver\"\nmethod = \"closed\"\nrepeats = 1\n\
                          servers = [\"nginx+unbound\", \"haproxy+unbound\"]\n\
                          [workload]\nnamespace = \"10.0.0.0/12\"\n\
                          [closed]\nduration = \"300ms\"\nwindow = 8\n\
                          [tester]\nclients = 2\n\
                          [matrix]\ntester.transport = [\"udp\", \"tcp\", \"tls\", \"https\"]\n";

#[test]
fn proxies_end_tls_and_forward_what_they_can() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some(ran) = Ran::experiment(dir.path(), "300ms", EXPERIMENT, "--no-store") else { return };
    let record = ran.run;
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let skipped = record["skipped"].as_array().map_or(&[][..], |all| all);
    if let Some(missing) = skipped.iter().find(|one| text(one, "why").contains("not installed")) {
        return skip::because(text(missing, "why"));
    }
    let cell = |one: &Value| (text(one, "server"), text(&one["settings"], "transport"));
    let mut refused: Vec<_> = skipped.iter().map(cell).collect();
    refused.sort();
    let expected = [("haproxy", "https"), ("haproxy", "udp"), ("nginx", "https")];
    let expected = expected.map(|(front, over)| (format!("{front}+unbound"), over.to_owned()));
    assert_eq!(refused, expected, "{}", record["skipped"]);
    assert!(skipped.iter().all(|one| text(one, "why").contains(" does not speak ")), "{skipped:?}");
    let results = record["results"].as_array().expect("cells");
    assert_eq!(results.len(), 5, "{:?}", results.iter().map(cell).collect::<Vec<_>>());
    // On a busy machine a void trial is repeated.
    let trials = results.iter().map(|one| one["trials"].as_array().expect("trials"));
    assert!(trials.clone().all(|trials| !trials.is_empty()));
    for trial in trials.flatten() {
        assert_eq!(trial["invalid"], serde_json::json!({}), "{}", trial["conditions"]);
        assert!(trial["valid"].as_u64() > Some(0), "{}", trial["conditions"]);
    }
}
