//! Runs the same rows against Unbound and BIND, and checks `crates/dns64d/rfc-cases.md`, which lists where they
//! differ and why.
//!
//! A row states the expected result of the others. The page is generated from the rows. Tests check that the
//! page agrees with the rows, and that the servers behave as the rows state.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::kit::server::Kind;
use crate::row::Row;
use crate::table::{THEMES, all};

/// Environment variable that makes the test write the page.
const WRITE: &str = "DNS64_CASES_WRITE";
/// Number of servers that run at the same time; they mostly wait.
const AT_ONCE: usize = 8;
/// Number of attempts of a row before its result counts: other servers have timeouts of their own, and the
/// host is busy.
const TRIES: usize = 3;

/// Returns the expected result of a row.
fn expected(row: &Row, kind: Kind) -> (&'static str, Option<&'static str>) {
    let why = row.differs.iter().find(|(k, _)| *k == kind).map(|(_, why)| *why);
    match (row.cannot(kind), why) {
        (Some(why), _) => ("–", Some(why)),
        (None, Some(why)) => ("differs", Some(why)),
        (None, None) => ("passes", None),
    }
}

/// Returns how a result differs from what the row expects; `None` if it agrees.
fn unexpected(row: &Row, kind: Kind, result: &Result<(), String>) -> Option<String> {
    match (result, expected(row, kind).0) {
        (Ok(()), "differs") => Some("it passes, but the row says that it differs".into()),
        (Err(what), "passes") => Some(format!("it differs, but the row gives no reason: {what}")),
        _ => None,
    }
}

/// Checks that another server behaves as the rows state.
fn check_rows(kind: Kind) {
    let Some(version) = kind.version() else {
        return skip::because(format_args!("{} is not installed", kind.title()));
    };
    if !version.starts_with(kind.tried()) {
        let (title, tried) = (kind.title(), kind.tried());
        return skip::because(format_args!("{title} is {version}, the rows are for {tried}"));
    }
    let rows: Vec<Row> =
        all().filter(|row| row.cannot(kind).is_none() && crate::runs_here(row)).copied().collect();
    assert!(!rows.is_empty(), "no row runs here");
    let mut unexpected_results = Vec::new();
    for (row, result) in rows.iter().zip(crate::run(&rows, kind, AT_ONCE)) {
        let mut difference = unexpected(row, kind, &result);
        for _ in 1..TRIES {
            if difference.is_some() {
                difference = unexpected(row, kind, &crate::guarded(row, kind));
            }
        }
        unexpected_results.extend(difference.map(|what| format!("{}: {what}", row.name)));
    }
    let (count, title) = (unexpected_results.len(), kind.title());
    assert!(
        unexpected_results.is_empty(),
        "{count} rows of {title}\n\n{}",
        unexpected_results.join("\n\n")
    );
}

#[test]
fn unbound_behaves_as_the_rows_state() {
    check_rows(Kind::Unbound);
}

#[test]
fn bind_behaves_as_the_rows_state() {
    check_rows(Kind::Bind);
}

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
        "# RFC cases of dns64d, compared with Unbound and BIND\n\n\
        Each row is a rule with questions, a scripted upstream on real sockets, and the expected answers: \
        [`crates/dns64d/tests/suite/table/`](tests/suite/table). This page is generated from those rows \
        (`{WRITE}=1 cargo test -p dns64d --test suite compare`). `cargo test -p dns64d` checks dns64d against \
        every row and, if they are installed, Unbound and BIND against what this page states.\n\n\
        | server | passes | differs | not applicable |\n|---|---|---|---|\n| dns64d | {rows} | 0 | 0 |\n{}\n\
        A row differs if a server with the same settings, as far as it has them, behaves otherwise; – means that it \
        has no such setting or the rule does not apply to it. Unbound and BIND are recursive resolvers, used \
        as forwarders here: some differences are due to their design.\n",
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
fn the_page_agrees_with_the_rows() {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("rfc-cases.md");
    let page = page();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &page).expect("docs");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "crates/dns64d/rfc-cases.md does not agree with the rows: run with {WRITE}=1"
    );
}
