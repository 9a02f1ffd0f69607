//! The rules of DNS64, one row each, against a scripted upstream; and dns64d with faults.
//!
//! ```text
//!   row (text)  ──> script (upstream)  ⟵ queries ⟵  server  ⟵ queries ⟵  client
//!        └────────────────────────── checks ──────────────────────────────┘
//! ```
//!
//! The same rows run against Unbound and BIND; `crates/dns64d/rfc-cases.md` lists where they differ and why.

mod checks;
mod compare;
mod control;
mod cookies;
mod early;
mod encrypted;
mod faults;
mod forward;
mod hosts;
mod http;
mod in_kernel;
mod kit;
mod landlock;
mod memory;
mod monitoring;
mod nat64;
mod observed;
mod private;
mod proxy;
mod quic;
mod quic_memory;
mod records;
mod resolved;
mod restart;
mod route;
mod row;
mod rules;
mod strangers;
mod table;
mod validators;
mod views;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kit::server::{Kind, has_ipv6};
use row::Row;

/// Number of dns64d processes that run at the same time; they mostly wait.
const AT_ONCE: usize = 8;

/// Runs rows, a few at a time; returns their results in the order of the rows.
fn run(rows: &[Row], kind: Kind, at_once: usize) -> Vec<Result<(), String>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Result<(), String>>> =
        rows.iter().map(|_| Mutex::new(Err("it did not run".into()))).collect();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(row) = rows.get(number) else { break };
                    *results[number].lock().expect("no panic") = guarded(row, kind);
                }
            });
        }
    });
    results.into_iter().map(|result| result.into_inner().expect("no panic")).collect()
}

/// Returns a row's result; a panic counts as a failure.
fn guarded(row: &Row, kind: Kind) -> Result<(), String> {
    std::panic::catch_unwind(|| row.run(kind)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.unwrap_or_else(|| "it panicked".into()))
    })
}

fn check(rows: &[Row]) {
    let rows: Vec<Row> = rows.iter().filter(|row| runs_here(row)).copied().collect();
    let failed: Vec<String> = rows
        .iter()
        .zip(run(&rows, Kind::Dns64d, AT_ONCE))
        .filter_map(|(row, result)| {
            result.err().map(|why| format!("{} ({}): {why}", row.name, row.rfc))
        })
        .collect();
    let (count, of) = (failed.len(), rows.len());
    assert!(of > 0, "no row runs here");
    assert!(failed.is_empty(), "{count} of {of} rows fail\n\n{}", failed.join("\n\n"));
}

/// Returns whether this host has what the row needs.
fn runs_here(row: &Row) -> bool {
    let needs_ipv6 = row.upstream6 || row.queries.iter().any(|(query, _)| query.contains("+v6"));
    let runs = !needs_ipv6 || has_ipv6();
    if !runs {
        skip::because(format_args!("no IPv6 on loopback: {}", row.name));
    }
    runs
}

/// A test of each theme of the table.
macro_rules! themes {
    ($($theme:ident)+) => {
        $(#[test]
        fn $theme() {
            check(table::$theme::ROWS);
        })+
    };
}

themes! { synthesis errors chains prefixes reverse local dnssec transport others }

#[test]
fn every_row_has_a_configuration_for_the_other_servers() {
    let mut names = std::collections::HashSet::new();
    for row in table::all() {
        assert!(names.insert(row.name), "{}: twice", row.name);
        assert!(!row.queries.is_empty() || row.check.is_some(), "{}: has no query", row.name);
        for (kind, why) in row.differs {
            assert!(
                row.cannot(*kind).is_none(),
                "{}: {kind:?} cannot run it, but differs?",
                row.name
            );
            assert!(!why.is_empty() && !why.ends_with('.'), "{}: {why}", row.name);
        }
        let silent = |peer| matches!(peer, row::Peer::With(""));
        let configured = row.config.is_empty() || (!silent(row.unbound) && !silent(row.bind));
        assert!(configured, "{}: the other servers have no configuration for it", row.name);
    }
}
