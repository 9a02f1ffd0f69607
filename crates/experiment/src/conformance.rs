//! Differences from RFC 8219 section 9: a shorter or more tolerant run is useful, and its report lists them.

use measure::{Goal, Nanos, Qps};
use record::Certificate;

use crate::search::Search;

/// RFC 8219 section 9.2: a trial lasts at least 60 s.
pub const DURATION: Nanos = Nanos::from_secs(60);
/// RFC 8219 section 9.2: a reply counts within 1 s.
pub const TIMEOUT: Nanos = Nanos::from_secs(1);
/// RFC 8219 section 9.2: the search is repeated at least 20 times.
pub const REPEATS: u32 = 20;

/// Lists the differences of a measurement from RFC 8219; empty if it conforms.
///
/// `highest` is the highest capacity found; `reused` says whether names were used twice; `over_ipv6` says whether the
/// clients used IPv6 (unknown counts as no).
pub fn differs(
    search: &Search,
    repeats: u32,
    certificate: Option<&Certificate>,
    highest: Option<f64>,
    reused: bool,
    over_ipv6: bool,
) -> Vec<String> {
    let mut out = Vec::new();
    let mut say = |wrong: bool, what: String| {
        if wrong {
            out.push(what);
        }
    };
    say(
        search.duration < DURATION,
        format!("trials of {} instead of {} s", search.duration, DURATION.as_secs_f64()),
    );
    say(
        search.timeout != TIMEOUT,
        format!("a timeout of {} instead of {} s", search.timeout, TIMEOUT.as_secs_f64()),
    );
    say(
        search.goal != Goal::zero_loss(),
        format!("the goal `{}` instead of zero loss", search.goal),
    );
    say(repeats < REPEATS, format!("{repeats} searches instead of {REPEATS}"));
    say(reused, "names were used more than once".into());
    say(!over_ipv6, "the clients did not speak IPv6".into());
    match certificate {
        None => say(true, "no self-test of the Tester".into()),
        Some(c) if !c.passed => say(true, "the Tester failed its self-test".into()),
        Some(c) => {
            let short = highest.is_some_and(|rate| rate > c.certified_qps);
            say(
                short,
                format!(
                    "the Tester is certified for {} only",
                    Qps::new(c.certified_qps).unwrap_or_default()
                ),
            );
            say(
                c.duration_s < DURATION.as_secs_f64(),
                format!(
                    "a self-test of {} s instead of {} s",
                    c.duration_s,
                    DURATION.as_secs_f64()
                ),
            );
        }
    }
    out
}
