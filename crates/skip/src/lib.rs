//! Tests that cannot run on this machine say so here, in one way.
//!
//! A test that needs a server, a right or a kernel feature that is missing calls [`because`] and returns. Where
//! everything is meant to be there, as in `.ci/run`, `DNSDYNO_REQUIRE=1` makes it fail instead.

use std::fmt::Display;

/// The environment variable that makes a skipped test fail when it is `1`.
const REQUIRE: &str = "DNSDYNO_REQUIRE";

/// Prints why the test is skipped. The caller returns after it.
///
/// # Panics
///
/// When `DNSDYNO_REQUIRE=1`.
pub fn because(why: impl Display) {
    let required = std::env::var_os(REQUIRE).is_some_and(|value| value == "1");
    assert!(!required, "{REQUIRE}=1, but this test cannot run here: {why}");
    println!("skipped: {why}");
}

/// The same, for a caller that returns what it found, or nothing.
///
/// # Panics
///
/// When `DNSDYNO_REQUIRE=1`.
pub fn none<T>(why: impl Display) -> Option<T> {
    because(why);
    None
}

/// Returns what was made; otherwise says why the test is skipped: `what`, and the error.
///
/// # Panics
///
/// When `DNSDYNO_REQUIRE=1`.
pub fn unless_ok<T>(made: Result<T, impl Display>, what: impl Display) -> Option<T> {
    made.map_err(|error| because(format_args!("{what}: {error}"))).ok()
}
