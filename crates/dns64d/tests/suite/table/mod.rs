pub(crate) mod chains;
pub(crate) mod dnssec;
pub(crate) mod errors;
pub(crate) mod local;
pub(crate) mod others;
pub(crate) mod prefixes;
pub(crate) mod reverse;
pub(crate) mod synthesis;
pub(crate) mod transport;

use crate::row::Row;

/// The themes, in the order of the comparison.
pub(crate) const THEMES: [(&str, &[Row]); 9] = [
    ("When to synthesise", synthesis::ROWS),
    ("Errors and timeouts", errors::ROWS),
    ("Chains of aliases, negative answers", chains::ROWS),
    ("Prefixes", prefixes::ROWS),
    ("Reverse names, `ipv4only.arpa`", reverse::ROWS),
    ("Local names, addresses without a way", local::ROWS),
    ("DNSSEC", dnssec::ROWS),
    ("EDNS, TCP, truncation, forged replies", transport::ROWS),
    ("Other types, access, cache", others::ROWS),
];

pub(crate) fn all() -> impl Iterator<Item = &'static Row> {
    THEMES.iter().flat_map(|(_, rows)| rows.iter())
}
