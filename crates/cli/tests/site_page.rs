//! The site of `dnsdyno site`, as a browser shows it: its index with its filter, a run, a history, and the versions of a server; on a desk and
//! on a phone, light and dark, on paper, and by keyboard.
//!
//! With `DNSDYNO_PAGES=FOLDER` the pictures are left there to be looked at.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;
use record::{BuildOutcome, BuiltServer, CapacityRatio, CellRecord, Run};
use serde_json::json;

use crate::browser::{Browser, CHECKS, PAPER, Page};

fn site(words: &[&Path]) -> Output {
    Command::new(cargo_bin("dnsdyno")).arg("site").args(words).output().expect("starts")
}

/// Twelve runs of a stored one, one a day, the last five of a slower server.
fn history(folder: &Path) -> Vec<PathBuf> {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/search.json");
    let run = record::read_run(&stored).expect("a stored run");
    let day = |day: u32| {
        let mut run = Run { id: None, ..run.clone() };
        run.plan.experiment = "nightly".into();
        run.plan.started_unix_s += f64::from(day) * 86_400.0;
        let slower = if day < 7 { 1.0 } else { 0.7 } * (1.0 + f64::from(day % 3) / 500.0);
        for cell in &mut run.results {
            // Found, and not lower bounds, of which a change is not known.
            cell.at_least = false;
            let rates = cell.capacities.iter_mut().filter_map(|c| c.qps.as_mut());
            rates.chain(cell.median_qps.as_mut()).for_each(|qps| *qps *= slower);
        }
        let path = folder.join(format!("day-{day}.json"));
        record::write(&path, &run).expect("writes");
        path
    };
    (0..12).map(day).collect()
}

/// A run of twelve versions over two transports, the last five faster, and of one that was not built.
fn versions(folder: &Path) -> PathBuf {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/search.json");
    let mut run = record::read_run(&stored).expect("a stored run");
    let cell = run.results.remove(0);
    run.results.clear();
    for version in 1..=13 {
        let name = format!("nsd@NSD_4_{version}_0_REL");
        let outcome = match version {
            13 => BuildOutcome::NotBuilt("the build took longer than 20m".into()),
            _ => BuildOutcome::Program("/cache/nsd/sbin/nsd".into()),
        };
        run.plan.choices.built.push(BuiltServer {
            name: name.clone(),
            build: "nsd".into(),
            revision: format!("NSD_4_{version}_0_REL"),
            commit: format!("{version:040x}"),
            subject: "Merge a branch that makes each answer with one copy less".into(),
            committed_unix_s: None,
            outcome,
        });
        for transport in ["udp", "tls"].into_iter().filter(|_| version < 13) {
            let value = if version > 7 { 0.8 } else { 0.6 } + f64::from(version % 3) / 500.0;
            let (low, high) = (value * 0.99, value * 1.01);
            let mut cell = CellRecord { server: name.clone(), ..cell.clone() };
            cell.settings.insert("transport".into(), transport.into());
            cell.ratio = Some(CapacityRatio { baseline: "authdns".into(), value, low, high });
            run.results.push(cell);
        }
    }
    let path = folder.join("versions.json");
    record::write(&path, &run).expect("writes");
    path
}

/// Looks at a page in every form, and gives what is wrong with it.
fn look(page: &mut Page<'_>, name: &str) -> Vec<String> {
    page.evaluate(CHECKS);
    let pictures = std::env::var_os("DNSDYNO_PAGES").map(PathBuf::from);
    let mut faults = Vec::new();
    for (form, width, colours) in [
        ("desk", 1280, "light"),
        ("phone", 400, "light"),
        ("desk-dark", 1280, "dark"),
        ("phone-dark", 400, "dark"),
    ] {
        page.width(width);
        page.media("screen", colours);
        let checks = ["overflow", "pictures", "contrast", "structure"];
        faults.extend(page.faults(&format!("{name}, {form}"), &checks));
        let background = page.evaluate("checks.background()").as_f64().expect("a number");
        if (background > 128.0) != (colours == "light") {
            faults.push(format!("{name}, {form}: background {background}"));
        }
        page.keep_picture(pictures.as_deref(), &format!("site-{name}-{form}"));
    }
    page.width(PAPER);
    page.media("print", "light");
    faults.extend(page.faults(&format!("{name}, paper"), &["cut", "pictures", "contrast"]));
    page.width(1280);
    page.media("screen", "light");
    faults.extend(page.faults(&format!("{name}, desk"), &["sorting"]));
    faults.append(&mut page.complaints);
    faults
}

#[test]
fn the_index_is_filtered_by_keyboard_and_leads_to_every_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("site");
    let mut words = vec![out.clone()];
    words.extend(history(folder.path()));
    words.push(versions(folder.path()));
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs");
    let samples = std::fs::read_dir(runs).expect("the sample runs").flatten();
    words.extend(
        samples.map(|entry| entry.path().join("record.json.gz")).filter(|path| path.is_file()),
    );
    let count = words.len() - 1;
    let words: Vec<&Path> = words.iter().map(PathBuf::as_path).collect();
    let made = site(&words);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let Some(mut browser) = Browser::start() else { return };
    let mut page = browser.open(&out.join("index.html"));
    let mut faults = look(&mut page, "index");
    let shown =
        "[...document.querySelectorAll('#runs tbody tr')].filter((row) => !row.hidden).length";
    // The page does what a key asks for when it comes to it.
    let shows = |page: &mut Page<'_>, rows: usize| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while page.evaluate(shown) != json!(rows) {
            assert!(Instant::now() < deadline, "not {rows} rows but {}", page.evaluate(shown));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    shows(&mut page, count);
    // The first key reaches the theme, the next ones the choices; a letter chooses.
    page.evaluate("document.activeElement.blur()");
    let mut focus = String::new();
    for _ in 0..6 {
        page.press("Tab");
        focus = page.evaluate("document.activeElement.name ?? ''").as_str().expect("a name").into();
        if focus == "experiment" {
            break;
        }
    }
    assert_eq!(focus, "experiment", "the choices are reached by Tab");
    for _ in 0..20 {
        if page.evaluate("document.activeElement.value") == json!("nightly") {
            break;
        }
        page.press("ArrowDown");
    }
    shows(&mut page, 12);
    assert!(
        page.evaluate("location.hash").as_str().expect("a hash").contains("experiment=nightly")
    );
    page.press("Tab");
    page.insert("day that is in no run");
    shows(&mut page, 0);
    page.press("Tab");
    page.press("Enter");
    shows(&mut page, count);
    // Every link within the site leads to a file.
    let links =
        page.evaluate("[...document.querySelectorAll('a')].map((a) => a.getAttribute('href'))");
    for link in links.as_array().expect("a list") {
        assert!(out.join(link.as_str().expect("a text")).is_file(), "{link}");
    }
    let first = page
        .evaluate("document.querySelector('#runs a[href^=\"runs/nightly\"]').getAttribute('href')");
    let first = first.as_str().expect("a link").to_owned();
    let server = page.evaluate("document.querySelector('#runs a[href^=\"runs/nightly\"]').closest('tr').querySelector('a[href^=servers]').getAttribute('href')");
    let server = server.as_str().expect("a link").to_owned();
    faults.extend(look(&mut browser.open(&out.join(first)), "run"));
    let mut history = browser.open(&out.join(server));
    faults.extend(look(&mut history, "history"));
    let changed = history.evaluate("[...document.querySelectorAll('caption')].filter((c) => c.textContent.includes('Change points')).length");
    assert_eq!(changed, json!(1), "the slower days are found");
    let mut builds = browser.open(&out.join("builds/nsd.html"));
    faults.extend(look(&mut builds, "versions"));
    let steps = builds.evaluate("[...document.querySelectorAll('caption')].filter((c) => c.textContent === 'Steps')[0].closest('table').rows.length");
    assert_eq!(steps, json!(3), "a step of each transport");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_folder_of_others_is_refused_and_a_site_is_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/load.json");
    std::fs::write(folder.path().join("notes.txt"), "mine").expect("writes");
    let refused = site(&[folder.path(), &run]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("neither empty nor a site"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("reads").count(), 1, "nothing was written");
    let out = folder.path().join("new/site");
    for _ in 0..2 {
        let made = site(&[&out, &run, &run]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let list = std::fs::read_to_string(out.join("site.json")).expect("the list");
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        for entry in list["runs"].as_array().expect("a list") {
            let kept = out.join(entry["record"].as_str().expect("a path"));
            assert_eq!(
                record::read_run(&kept).expect("a record"),
                record::read_run(&run).expect("a run")
            );
        }
        assert_eq!(list["runs"].as_array().map(Vec::len), Some(2));
    }
    // A run that is no longer named is withdrawn, with the history of its server; files of others stay.
    let paths = |folder: &str| -> BTreeSet<String> {
        let files = std::fs::read_dir(out.join(folder)).expect("reads");
        files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned()).collect()
    };
    let before = (paths("runs"), paths("servers"));
    std::fs::write(out.join("runs/notes.txt"), "mine").expect("writes");
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/search.json");
    let made = site(&[&out, &other]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let after = (paths("runs"), paths("servers"));
    assert_eq!((before.0.len(), after.0.len()), (4, 3), "{before:?} {after:?}");
    assert!(after.0.contains("notes.txt") && after.0.is_disjoint(&before.0), "{after:?}");
    let list = std::fs::read_to_string(out.join("site.json")).expect("the list");
    assert_eq!(after.1.len(), report::site::listed(&list).len() - 2, "{after:?}");
}
