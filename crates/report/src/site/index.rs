//! The index: all runs in a table, filtered by server, host and experiment.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use serde_json::json;

use super::entry::SiteRun;
use super::versions;
use crate::html::{Frame, frame};

const SCRIPT: &str = include_str!("index.js");
/// Heads of the table of runs.
const HEADS: [&str; 6] = ["run", "began", "servers", "result", "host", "record"];

/// Files of the other pages, by their subjects.
pub(super) struct Pages<'a> {
    /// The history of each server.
    pub(super) servers: &'a BTreeMap<String, String>,
    /// The versions of each server that was built.
    pub(super) builds: &'a BTreeMap<String, String>,
}

/// Renders the index: all runs, and links to the servers' histories.
pub(super) fn page(title: &str, entries: &[SiteRun], pages: &Pages<'_>) -> String {
    let Pages { servers, builds } = *pages;
    let experiments: BTreeSet<&str> = entries.iter().map(|e| e.experiment.as_str()).collect();
    let hosts: BTreeSet<&str> = entries.iter().map(|e| e.host.as_str()).collect();
    let body = html! {
        p { (entries.len()) " runs, the newest first. Figures of different hosts, links or goals are never compared; the history of a server shows them separately." }
        form.filter hidden {
            (choice("server", servers.keys().map(String::as_str)))
            (choice("host", hosts.iter().copied()))
            (choice("experiment", experiments.iter().copied()))
            label { "text" input type="search" name="text" autocomplete="off"; }
            button type="reset" { "Show all" }
            span #shown role="status" {}
        }
        section aria-label="Runs" {
            h2 { "Runs" }
            (runs(entries, servers))
        }
        @if !builds.is_empty() {
            section aria-label="Versions" {
                h2 { "Versions" }
                (versions::fastest_table(entries, builds))
                p.note { "Feeds of the steps: " a href="changes.json" { "JSON" } ", " a href="changes.atom" { "Atom" } "." }
            }
        }
        section aria-label="Servers" {
            h2 { "Histories" }
            ul { @for (server, name) in servers { li { a href=(format!("servers/{name}.html")) { (server) } } } }
            p.note { "Programs read " a href="site.json" { "site.json" } ", the list of runs, and the records." }
        }
    };
    let foot = html! {};
    frame(&Frame { title, navigation: &[], body: &body, foot: &foot, script: SCRIPT })
}

/// Renders a choice of one of several values, or of all.
fn choice<'a>(name: &str, values: impl Iterator<Item = &'a str>) -> Markup {
    html! {
        label {
            (name)
            select name=(name) {
                option value="" { "all" }
                @for value in values { option value=(value) { (value) } }
            }
        }
    }
}

fn runs(entries: &[SiteRun], servers: &BTreeMap<String, String>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Runs" {
            table.sortable #runs {
                caption { "All runs" }
                thead { tr { @for head in HEADS { th scope="col" { (head) } } } }
                tbody { @for entry in entries { (row(entry, servers)) } }
            }
        }
    }
}

fn row(entry: &SiteRun, servers: &BTreeMap<String, String>) -> Markup {
    let form = entry.form.suffix();
    html! {
        tr data-server=(json!(entry.servers)) data-host=(json!([entry.host])) data-experiment=(json!([entry.experiment])) {
            th scope="row" data-h="run" data-v=(entry.experiment) {
                a href=(format!("runs/{}.html", entry.name)) { (entry.experiment) }
                small { (entry.title) (form) @if !entry.complete { " incomplete" } }
            }
            td data-h="began" data-v=(entry.began_unix_s) { (entry.began()) }
            td data-h="servers" data-v=(entry.servers.join(", ")) {
                span {
                    @for (i, server) in entry.servers.iter().enumerate() {
                        @if i > 0 { ", " }
                        @if let Some(name) = servers.get(server) { a href=(format!("servers/{name}.html")) { (server) } } @else { (server) }
                    }
                }
            }
            td data-h="result" data-v=(entry.heading) { span { @if let Some(finding) = &entry.finding { (finding) } @else { "–" } } }
            td data-h="host" data-v=(entry.host) { (entry.host) }
            td data-h="record" data-v=(entry.name) {
                a download href=(format!("runs/{}.json.gz", entry.name)) { "JSON" }
                small { "dnsdyno " (entry.version) }
            }
        }
    }
}
