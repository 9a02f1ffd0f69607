//! The `dnsdyno` binary.
fn main() {}
