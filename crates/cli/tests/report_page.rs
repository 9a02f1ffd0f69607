//! The pages of `dnsdyno report`, as a browser shows them: runs of every kind, on a desk, in a hand, on paper.
//!
//! The runs (`tests/runs/*.json`) are real ones, short, less the histograms' buckets; `DNSDYNO_RUNS=FOLDER` takes
//! others. With `DNSDYNO_PAGES=FOLDER` the pages and their pictures are left there to be looked at.

use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::browser::{Browser, CHECKS, PAPER, Page};

/// The stored runs by name.
fn runs() -> Vec<(String, PathBuf)> {
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs");
    let folder = std::env::var_os("DNSDYNO_RUNS").map_or_else(ours, PathBuf::from);
    let mut runs: Vec<(String, PathBuf)> = std::fs::read_dir(folder)
        .expect("the stored runs")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), path))
        .collect();
    runs.sort();
    runs
}

/// The page of `runs`, made as a user makes it.
fn report(runs: &[&Path], page: &Path) {
    let output = Command::new(cargo_bin("dnsdyno"))
        .arg("report")
        .args(runs)
        .arg("--output")
        .arg(page)
        .output()
        .expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Looks at a page in every form, and gives what is wrong with it.
fn look(page: &mut Page<'_>, name: &str, pictures: Option<&Path>) -> Vec<String> {
    page.evaluate(CHECKS);
    let mut faults = Vec::new();
    let mut ask = |page: &mut Page<'_>, form: &str, checks: &[&str]| {
        faults.extend(page.faults(&format!("{name}, {form}"), checks));
    };
    let mut backgrounds = Vec::new();
    for (form, width, colours) in
        [("desk", 1280, "light"), ("phone", 375, "light"), ("dark", 1280, "dark")]
    {
        page.width(width);
        page.media("screen", colours);
        ask(page, form, &["overflow", "pictures", "contrast", "structure"]);
        page.keep_picture(pictures, &format!("{name}-{form}"));
        backgrounds.push(page.evaluate("checks.background()").as_f64().expect("a number"));
    }
    // The reader's choice goes before the system's.
    page.evaluate("document.getElementById('theme').click()");
    backgrounds.push(page.evaluate("checks.background()").as_f64().expect("a number"));
    page.media("screen", "light");
    page.evaluate("delete document.documentElement.dataset.theme");
    ask(page, "desk", &["sorting"]);
    // Paper unfolds what it shows by itself.
    page.media("print", "light");
    ask(page, "paper", &["folded"]);
    page.media("screen", "light");
    ask(page, "desk", &["unfold"]);
    for (form, width) in [("desk, unfolded", 1280), ("phone, unfolded", 375)] {
        page.width(width);
        ask(page, form, &["overflow"]);
    }
    page.width(PAPER);
    page.media("print", "dark");
    ask(page, "paper", &["cut", "pictures", "contrast", "whole", "folded"]);
    if let Some(folder) = pictures {
        let bytes = BASE64_STANDARD.decode(page.printed()).expect("base64");
        std::fs::write(folder.join(format!("{name}.pdf")), bytes).expect("written");
    }
    let [desk, phone, dark, chosen] = backgrounds[..] else { panic!("four backgrounds") };
    if desk < 200.0 || phone < 200.0 || dark > 60.0 || chosen < 200.0 {
        faults.push(format!("{name}: backgrounds {backgrounds:?}, not light, light, dark, light"));
    }
    faults.append(&mut page.complaints);
    faults
}

#[test]
fn pages_of_every_kind_of_run_in_a_browser() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = std::env::var_os("DNSDYNO_PAGES").map(PathBuf::from);
    let mut faults = Vec::new();
    let runs = runs();
    assert!(!runs.is_empty(), "there are stored runs");
    for (name, run) in &runs {
        // A new one for each: what one page takes of its patience is not missing for the next.
        let Some(mut browser) = Browser::start() else { return };
        let file = kept.as_deref().unwrap_or(folder.path()).join(format!("{name}.html"));
        report(&[run], &file);
        faults.extend(look(&mut browser.open(&file), name, kept.as_deref()));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn several_runs_are_one_comparison_with_thresholds() {
    let folder = tempfile::tempdir().expect("a folder");
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/search.json");
    let mut run = record::read_run(&stored).expect("a stored run");
    for cell in &mut run.results {
        let one = cell.capacities[0].clone();
        let repeat = |n: u32| {
            let times = 1.0 + f64::from(n % 3) / 200.0;
            let scaled = |qps: Option<f64>| qps.map(|qps| qps * times);
            let (qps, failed_qps) = (scaled(one.qps), scaled(one.qps).map(|qps| qps * 1.02));
            record::Capacity { qps, failed_qps, at_least: false, ..one.clone() }
        };
        cell.capacities = (0..6).map(repeat).collect();
        cell.repeats = 6;
    }
    let first = folder.path().join("first.json");
    record::write(&first, &run).expect("writes");
    let mut paths = vec![first];
    for (day, change) in [(1.0, 1.01), (2.0, 0.6)] {
        run.plan.started_unix_s += day * 86_400.0;
        for cell in &mut run.results {
            let bounds = cell.capacities.iter_mut().flat_map(|c| [&mut c.qps, &mut c.failed_qps]);
            let all = bounds.chain([&mut cell.median_qps]);
            all.flatten().for_each(|qps| *qps *= change);
        }
        let path = folder.path().join(format!("{day}.json"));
        record::write(&path, &run).expect("writes");
        paths.push(path);
    }
    let file = folder.path().join("page.html");
    report(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>(), &file);
    let text = std::fs::read_to_string(&file).expect("the page");
    for part in [
        "3 runs of dns64d, unbound",
        "Capacity, against the first run",
        "± 5 %",
        "×0.606",
        "slower against 1. 2026",
        "no difference shown",
        "small class=\"verdict worse\"",
        "against 1. 2026",
    ] {
        assert!(text.contains(part), "{part} is not in the page");
    }
    let Some(mut browser) = Browser::start() else { return };
    let kept = std::env::var_os("DNSDYNO_PAGES").map(PathBuf::from);
    let faults = look(&mut browser.open(&file), "comparison", kept.as_deref());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(!text.contains("all searches"));
}

#[test]
fn the_checks_find_what_is_wrong() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bad.html");
    let bad = "<!DOCTYPE html><html lang=en><title>t</title><body style='background:#fff'><h1>a</h1><h3>b</h3><h3>b</h3>\
        <button id=theme></button><p style='color:#ccc;width:2000px'>c</p><img src='other.png'><pre \
        style='overflow:auto;width:9px'>a long line</pre><figure><svg width=99 height=9 viewBox='0 0 99 9'>\
        <text x=90 y=8>long</text><text x=90 y=8>over</text></svg></figure><table class=sortable><caption>x\
        </caption><thead><tr><th><button>n</button></thead><tbody><tr><td>2<tr><td>1</table>\
        <script>undefined_name()</script>";
    std::fs::write(&file, bad).expect("written");
    let faults = look(&mut browser.open(&file), "bad", None).join("\n");
    for part in [
        "the page is 20", // as wide as its paragraph and the margin
        "role or words",
        "without title",
        "sticks out",
        "overlap",
        "after a heading of level 1",
        "two parts are named , b",
        "sorting",
        "p: c: 1.6",
        "pre: a long line holds",
        "not light, light, dark, light",
        "undefined_name is not defined",
        "other.png",
    ] {
        assert!(faults.contains(part), "{part} is not in\n{faults}");
    }
    assert_ne!(json!(faults), json!(""));
}
