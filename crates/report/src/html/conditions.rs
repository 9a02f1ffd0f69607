//! Conditions of a run: the testbed, the host, the certificate, the files as used, and the raw data.

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use maud::{Markup, html};
use record::testbed::cpu_list;
use record::{Attack, CertificateFile, Check, Run};

use super::Links;
use super::cells::Cells;
use super::parts::fold;
use crate::auth_hosts;
use crate::checks::{certified, table};
use crate::merged;
use crate::view::name::server_name;
use crate::view::table::each_once;
use crate::view::{setting_words, thousands};

/// Renders the folded sections; a page of a site links its record, others contain it.
pub(crate) fn section(
    run: &Run,
    cells: &Cells<'_>,
    number: usize,
    links: Option<&Links>,
) -> Markup {
    html! {
        h3 { "Conditions" }
        div.conditions { (folded_parts(run, cells)) }
        @if let Some(links) = links {
            p.raw { a download href=(links.record) { "The record (JSON, gzip)" } " as " code { "dnsdyno" } " reads it, every trial with its histograms." }
        } @else {
            (raw(run, number))
        }
    }
}

fn folded_parts(run: &Run, cells: &Cells<'_>) -> Markup {
    let (words, testers) = (run.plan.words(), merged::testers(run));
    let authdns = auth_hosts::lines(run);
    html! {
        (fold("Conditions of the run", how(run)))
        @if !testers.is_empty() { (fold("The Testers", html! { ul { @for line in &testers { li { (line) } } } })) }
        @if !authdns.is_empty() { (fold("The AuthDNS", html! { ul { @for line in &authdns { li { (line) } } } })) }
        @if !words.is_empty() { (fold("Testbed", pairs(words.into_iter()))) }
        @if let Some(host) = &run.plan.host { (fold("Host", pairs(crate::host::lines(host).into_iter()))) }
        @if cells.cells.iter().any(|c| c.record.certificate.is_some()) { (fold("The Tester’s self-test", certificates(cells))) }
        @if let Some(file) = &run.plan.certificate { (fold("The Tester’s certificate", certificate(file))) }
        (fold("Settings of the cells", settings(cells)))
        @if !run.plan.text.is_empty() { (fold("The experiment’s file", html! { pre { (run.plan.text) } })) }
        (files(run))
    }
}

fn how(run: &Run) -> Markup {
    let first = run.results.iter().flat_map(|c| &c.trials).next();
    let mut out = vec![("Command".to_owned(), run.plan.command.clone())];
    out.push(("dnsdyno".into(), run.plan.version.clone()));
    if let Some(t) = first {
        let c = &t.trial.conditions;
        let on = |b: bool| if b { "on" } else { "off" };
        out.extend([
            ("Target".to_owned(), c.target.clone()),
            ("Workload".into(), c.workload.clone()),
            ("Pacing".into(), c.pacing.to_string()),
            ("Timeout".into(), timeouts(run)),
            ("Workers".into(), format!("{}, {} sockets", c.workers, c.sockets)),
            (
                "Offloads".into(),
                format!(
                    "GSO {}, GRO {}, kernel timestamps {}",
                    on(c.gso),
                    on(c.gro),
                    on(c.timestamps)
                ),
            ),
            ("Longest delay of a packet".into(), format!("{} us", c.max_burst_us)),
            ("Seed".into(), c.seed.to_string()),
        ]);
        if !c.names.is_empty() {
            out.push(("Names".into(), c.names.clone()));
        }
        out.extend(c.attack.as_ref().map(|attack| ("Attack".into(), attack_in_words(attack))));
        out.extend(c.link.map(|link| ("Links".into(), link.to_string())));
        out.extend(c.path.map(|path| ("Path".into(), path.to_string())));
    }
    html! { @if first.is_some() { p.note { "Conditions of the first trial; the raw data has the conditions of each trial." } } (pairs(out.into_iter())) }
}

/// Returns the timeouts of all trials: of closed loops, and of loads of a given rate where these differ.
fn timeouts(run: &Run) -> String {
    let of = |open: bool| {
        let trials = run.results.iter().flat_map(|c| &c.trials).map(|t| &t.trial.conditions);
        let of_kind = trials.filter(|c| c.pacing.is_open_loop() == open);
        each_once(of_kind.map(|c| format!("{} s", c.timeout_s))).join(", ")
    };
    match [of(false), of(true)] {
        [closed, open] if closed.is_empty() || open.is_empty() || closed == open => {
            if closed.is_empty() { open } else { closed }
        }
        [closed, open] => format!("{closed} in closed loops, {open} at given rates"),
    }
}

/// Returns the description of an attack, with its bounds and the attacker's cores.
fn attack_in_words(attack: &Attack) -> String {
    let Attack { kind, rate, connections, begins_s, lasts_s, from, cpus, yields } = attack;
    let number = match connections {
        0 => String::new(),
        connections => format!(" and {connections} at a time"),
    };
    let idle = if *yields { " while the Tester and the AuthDNS leave them idle" } else { "" };
    format!(
        "{kind}: at most {rate} a second{number}, {begins_s} s after the start for {lasts_s} s, from {from} on, on cores {}{idle}",
        cpu_list(cpus)
    )
}

fn pairs(pairs: impl Iterator<Item = (String, String)>) -> Markup {
    html! { dl { @for (what, how) in pairs { dt { (what) } dd { (how) } } } }
}

fn certificates(cells: &Cells<'_>) -> Markup {
    let certificates = cells.cells.iter().filter_map(|c| c.record.certificate.as_ref());
    let said = each_once(certificates.map(|c| {
        format!(
            "{}: certified up to {} queries/s by a self-test at {} queries/s, timeout {} s, {} s long, {} trials",
            if c.passed { "Passed" } else { "Failed" },
            thousands(c.certified_qps),
            thousands(c.self_test_qps),
            c.timeout_s,
            c.duration_s,
            c.trials.len()
        )
    }));
    html! { ul { @for text in said { li { (text) } } } }
}

/// Renders a certificate file: the certified rates, and the checks.
fn certificate(file: &CertificateFile) -> Markup {
    html! { p { (certified(file)) } (checks(&file.checks)) }
}

/// Renders checks, and why values did not pass.
fn checks(checks: &[Check]) -> Markup {
    html! {
        @if !checks.is_empty() { (table(checks).html("Known values, and what the Tester found", "")) }
        ul { @for check in checks { @if let Some(why) = &check.why { li { (check.name) " (" (check.truth) "): " (why) } } } }
    }
}

fn settings(cells: &Cells<'_>) -> Markup {
    pairs(cells.cells.iter().map(|c| {
        (
            server_name(c.record),
            format!("{}: {}", c.record.method, setting_words(&c.record.settings)),
        )
    }))
}

/// Renders the configuration files; a file that several cells share is shown once.
fn files(run: &Run) -> Markup {
    let mut by_text: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for (name, text) in &run.plan.files {
        by_text.entry((name, text)).or_default().push("Tester".into());
    }
    for cell in &run.results {
        for (name, text) in &cell.files {
            let of = by_text.entry((name, text)).or_default();
            if !of.contains(&cell.server) {
                of.push(cell.server.clone());
            }
        }
    }
    html! {
        @for ((name, text), of) in by_text { (fold(&format!("{name} ({})", of.join(", ")), html! { pre { (text) } })) }
    }
}

/// Renders the raw data: compressed, in a link that needs no network; the script also offers it uncompressed.
fn raw(run: &Run, number: usize) -> Markup {
    let name = format!("dnsdyno-{}-{number}.json", run.plan.experiment);
    html! {
        p.raw {
            a download=(format!("{name}.gz")) href=(format!("data:application/gzip;base64,{}", BASE64_STANDARD.encode(packed(run)))) data-json=(name) { "Raw data (JSON, gzip)" }
            " Every trial with its histograms, as " code { "dnsdyno" } " reads them; the field " code { "buckets" }
            " is left out, since " code { "hdr" } " says the same."
        }
    }
}

/// Returns the record as JSON without the histograms' buckets, gzip.
pub(crate) fn packed(run: &Run) -> Vec<u8> {
    let mut value = serde_json::to_value(run).unwrap_or_default();
    strip(&mut value);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    // A write to a vector never fails.
    let done = gzip.write_all(value.to_string().as_bytes()).and_then(|()| gzip.finish());
    done.unwrap_or_default()
}

/// Empties every list of buckets: they double the size and repeat the content of `hdr`.
fn strip(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            if fields.contains_key("hdr") {
                fields.remove("buckets");
            }
            fields.values_mut().for_each(strip);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use record::AttackKind;

    use super::*;

    #[test]
    fn an_attack_is_told_with_its_bounds_and_cores() {
        let attack = |connections, yields| Attack {
            kind: AttackKind::Idle,
            rate: 500.0,
            connections,
            begins_s: 10.0,
            lasts_s: 20.0,
            from: "10.9.192.1".to_owned(),
            cpus: vec![0, 1],
            yields,
        };
        let times = "10 s after the start for 20 s, from 10.9.192.1 on, on cores 0-1";
        let told = format!(
            "idle: at most 500 a second and 2000 at a time, {times} while the Tester and the AuthDNS leave them idle"
        );
        assert_eq!(attack_in_words(&attack(2_000, true)), told);
        let told = format!("idle: at most 500 a second, {times}");
        assert_eq!(attack_in_words(&attack(0, false)), told);
    }
}
