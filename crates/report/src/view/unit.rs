//! Quantities: numbers with their unit, short on axes, complete in tables and sentences.

use super::number::{significant, thousands, trimmed};

/// Formats a value completely with its unit, given the word of the unit in a record.
pub fn quantity(value: f64, unit: &str) -> String {
    Unit::of(unit).full(value)
}

/// Formats a value with its unit, where a rate of queries needs its unit: "12,345 qps".
pub fn with_unit(value: f64, unit: &str) -> String {
    match Unit::of(unit) {
        Unit::Qps => format!("{} qps", thousands(value)),
        unit => unit.full(value),
    }
}

/// Formats microseconds in a readable unit.
pub fn time_us(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        us => format!("{us:.1} us"),
    }
}

/// Largest number of decimals on an axis.
const AXIS_DECIMALS: usize = 3;

/// Unit of a number, which determines its rounding and form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Queries, answers or updates a second.
    Qps,
    /// A time in microseconds (`us` in records).
    Micros,
    /// A time in milliseconds (`ms` in records).
    Millis,
    /// A time in seconds (`s` in records).
    Seconds,
    /// A size in bytes (`B` or `octets` in records).
    Bytes,
    /// A share in percent (`%` in records).
    Percent,
    /// Any other unit, by its name; empty for a plain number.
    Other(String),
}

/// Word for a rate per second.
const PER_SECOND: &str = "1/s";

impl Unit {
    /// Returns the unit for the word in a record.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "qps" | "q/s" => Unit::Qps,
            "us" => Unit::Micros,
            "ms" => Unit::Millis,
            "s" => Unit::Seconds,
            "B" | "octets" => Unit::Bytes,
            "%" => Unit::Percent,
            other => Unit::Other(other.to_owned()),
        }
    }

    /// Returns the name for the title of an axis.
    pub(crate) fn name(&self) -> &str {
        match self {
            Unit::Qps => "queries/s",
            Unit::Micros | Unit::Millis | Unit::Seconds => "time",
            Unit::Bytes => "bytes",
            Unit::Percent => "%",
            Unit::Other(name) if name == PER_SECOND => "a second",
            Unit::Other(name) => name,
        }
    }

    /// Formats a number briefly, for an axis.
    pub(crate) fn short(&self, x: f64) -> String {
        match self {
            Unit::Micros => short_time_us(x),
            Unit::Millis => short_time_us(x * 1e3),
            Unit::Seconds => short_time_us(x * 1e6),
            Unit::Percent => format!("{} %", tick(x)),
            Unit::Bytes => short_bytes(x),
            Unit::Qps | Unit::Other(_) => prefixed(x),
        }
    }

    /// Formats a number completely, with its unit unless the column has it.
    pub(crate) fn full(&self, x: f64) -> String {
        match self {
            Unit::Qps => thousands(x),
            Unit::Micros => time_us(x),
            Unit::Millis => format!("{} ms", significant(x)),
            Unit::Seconds if x.abs() >= 1.0 || x == 0.0 => format!("{} s", significant(x)),
            Unit::Seconds if x.abs() >= 1e-3 => format!("{} ms", significant(x * 1e3)),
            Unit::Seconds => time_us(x * 1e6),
            Unit::Percent => format!("{} %", significant(x)),
            Unit::Bytes => bytes(x),
            Unit::Other(name) if name.is_empty() => significant(x),
            Unit::Other(name) if name == PER_SECOND => format!("{}/s", significant(x)),
            Unit::Other(name) => format!("{} {name}", significant(x)),
        }
    }
}

/// Formats bytes with a decimal prefix and three digits.
fn bytes(x: f64) -> String {
    match x.abs() {
        a if a >= 1e9 => format!("{:.2} GB", x / 1e9),
        a if a >= 1e6 => format!("{:.1} MB", x / 1e6),
        a if a >= 1e3 => format!("{:.1} kB", x / 1e3),
        _ => format!("{} B", significant(x)),
    }
}

/// Formats bytes for an axis.
fn short_bytes(x: f64) -> String {
    match x.abs() {
        a if a >= 1e9 => format!("{} GB", tick(x / 1e9)),
        a if a >= 1e6 => format!("{} MB", tick(x / 1e6)),
        a if a >= 1e3 => format!("{} kB", tick(x / 1e3)),
        _ => format!("{} B", tick(x)),
    }
}

/// Formats a number with as many digits as a tick needs.
fn tick(x: f64) -> String {
    trimmed(x, AXIS_DECIMALS)
}

/// Formats a number with k, M or G.
fn prefixed(x: f64) -> String {
    match x.abs() {
        a if a >= 1e9 => format!("{}G", tick(x / 1e9)),
        a if a >= 1e6 => format!("{}M", tick(x / 1e6)),
        a if a >= 1e3 => format!("{}k", tick(x / 1e3)),
        _ => tick(x),
    }
}

/// Formats a time in microseconds for an axis: "50 us", "10 ms".
pub fn short_time_us(us: f64) -> String {
    match us.abs() {
        0.0 => "0".to_owned(),
        a if a >= 1e6 => format!("{} s", tick(us / 1e6)),
        a if a >= 1e3 => format!("{} ms", tick(us / 1e3)),
        a if a >= 1.0 => format!("{} us", tick(us)),
        _ => format!("{} ns", tick(us * 1e3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_full() {
        let table = [
            ("qps", 1_500.0, "1.5k", "1,500"),
            ("qps", 2_000_000.0, "2M", "2,000,000"),
            ("us", 0.0, "0", "0.0 us"),
            ("us", 250.0, "250 us", "250.0 us"),
            ("ms", 2.5, "2.5 ms", "2.5 ms"),
            ("s", 61.34, "61.34 s", "61.34 s"),
            ("B", 64e6, "64 MB", "64.0 MB"),
            ("B", 2.5e9, "2.5 GB", "2.50 GB"),
            ("%", 12.5, "12.5 %", "12.5 %"),
            ("", 0.125, "0.125", "0.125"),
            ("1/s", 12_000.0, "12k", "12,000/s"),
            ("s", 0.0125, "12.5 ms", "12.5 ms"),
            ("s", 0.000_25, "250 us", "250.0 us"),
            ("octets", 38.92, "38.92 B", "38.92 B"),
        ];
        for (unit, x, short, full) in table {
            let unit = Unit::of(unit);
            assert_eq!((unit.short(x).as_str(), unit.full(x).as_str()), (short, full));
        }
    }

    #[test]
    fn times() {
        assert_eq!(
            [0.5, 999.9, 1_500.0, 2_500_000.0].map(time_us),
            ["0.5 us", "999.9 us", "1.50 ms", "2.50 s"]
        );
    }
}
