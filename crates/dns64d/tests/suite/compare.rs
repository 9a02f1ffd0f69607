//! The same rows against Unbound and BIND, and `docs/dns64-rfc-cases.md`, which says where they do otherwise, and why.
//!
//! A row says itself what the others are expected to do. The page is written from the rows, and tests hold both to it:
//! the page must be that of the rows, and the servers must do what the rows say.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::kit::server::Kind;
use crate::row::Row;
use crate::table::{THEMES, all};

/// Set to write the page anew.
const WRITE: &str = "DNS64_CASES_WRITE";
/// Servers that run at once; they wait, most of the time.
const AT_ONCE: usize = 8;
/// How often a row is tried before its result counts: other servers have timeouts of their own, and the host is busy.
const TRIES: usize = 3;

/// What a row is expected to come to.
fn expected(row: &Row, kind: Kind) -> (&'static str, Option<&'static str>) {
    let why = row.differs.iter().find(|(k, _)| *k == kind).map(|(_, why)| *why);
    match (row.cannot(kind), why) {
        (Some(why), _) => ("–", Some(why)),
        (None, Some(why)) => ("differs", Some(why)),
        (None, None) => ("passes", None),
    }
}

/// How a result is not what the row expects; `None` where it is.
fn surprise(row: &Row, kind: Kind, result: &Result<(), String>) -> Option<String> {
    match (result, expected(row, kind).0) {
        (Ok(()), "differs") => Some("it passes, and is said to differ".into()),
        (Err(what), "passes") => Some(format!("it differs, and nobody says why: {what}")),
        _ => None,
    }
}

/// Holds another server to what the rows say of it.
fn hold_to_rows(kind: Kind) {
    let Some(version) = kind.version() else {
        return skip::because(format_args!("{} is not installed", kind.title()));
    };
    if !version.starts_with(kind.tried()) {
        let (title, tried) = (kind.title(), kind.tried());
        return skip::because(format_args!("{title} is {version}, the rows speak of {tried}"));
    }
    let rows: Vec<Row> =
        all().filter(|row| row.cannot(kind).is_none() && crate::runs_here(row)).copied().collect();
    assert!(!rows.is_empty(), "no row runs here");
    let mut surprises = Vec::new();
    for (row, result) in rows.iter().zip(crate::run(&rows, kind, AT_ONCE)) {
        let mut surprised = surprise(row, kind, &result);
        for _ in 1..TRIES {
            if surprised.is_some() {
                surprised = surprise(row, kind, &crate::guarded(row, kind));
            }
        }
        surprises.extend(surprised.map(|what| format!("{}: {what}", row.name)));
    }
    let (count, title) = (surprises.len(), kind.title());
    assert!(surprises.is_empty(), "{count} rows of {title}\n\n{}", surprises.join("\n\n"));
}

#[test]
fn unbound_does_what_the_rows_say() {
    hold_to_rows(Kind::Unbound);
}

#[test]
fn bind_does_what_the_rows_say() {
    hold_to_rows(Kind::Bind);
}

/// The page.
fn page() -> String {
    let kinds = [Kind::Unbound, Kind::Bind];
    let count = |kind, what| all().filter(|row| expected(row, kind).0 == what).count();
    let counts = kinds.map(|kind| {
        format!(
            "| {} {} | {} | {} | {} |\n",
            kind.title(),
            kind.tried(),
            count(kind, "passes"),
            count(kind, "differs"),
            count(kind, "–")
        )
    });
    let rows = all().count();
    let mut text = format!(
        "# RFC cases of dns64d, beside Unbound and BIND\n\n\
        Each row is a rule with questions, a scripted upstream on real sockets, and the answers expected: \
        [`crates/dns64d/tests/suite/table/`](../crates/dns64d/tests/suite/table). This page is written from those rows \
        (`{WRITE}=1 cargo test -p dns64d --test suite compare`). `cargo test -p dns64d` holds dns64d to \
        every row, and, where they are installed, Unbound and BIND to what is said of them here.\n\n\
        | server | passes | differs | cannot be told |\n|---|---|---|---|\n| dns64d | {rows} | 0 | 0 |\n{}\n\
        A row differs where a server that was told the same, as far as it can be, does otherwise; – stands where it \
        has no such setting or the rule is not meant for it. Unbound and BIND are recursive resolvers that are used \
        as forwarders here: some differences are theirs by design.\n",
        counts.concat()
    );
    for (theme, rows) in THEMES {
        let _ = write!(
            text,
            "\n## {theme}\n\n| rule | source | Unbound | BIND | why |\n|---|---|---|---|---|\n"
        );
        for row in rows {
            let cells = kinds.map(|kind| expected(row, kind));
            let why = kinds
                .iter()
                .zip(cells)
                .filter_map(|(kind, (_, why))| Some(format!("{}: {}", kind.title(), why?)));
            let why = why.collect::<Vec<_>>().join("; ");
            let [unbound, bind] = cells.map(|(cell, _)| cell);
            let _ = writeln!(text, "| {} | {} | {unbound} | {bind} | {why} |", row.name, row.rfc);
        }
    }
    text
}

#[test]
fn the_page_is_that_of_the_rows() {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dns64-rfc-cases.md");
    let page = page();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &page).expect("docs");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "docs/dns64-rfc-cases.md is not that of the rows: run with {WRITE}=1");
}
