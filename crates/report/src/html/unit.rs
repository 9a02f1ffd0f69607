//! Numbers as people read them: short on axes, in full in tables.

use crate::{thousands, time_us};

/// What a number counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Queries per second.
    Qps,
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Hundredths.
    Percent,
    /// Anything else, by its name; empty for a plain number.
    Other(String),
}

/// The word for what is counted by the second.
const PER_SECOND: &str = "1/s";

impl Unit {
    /// Of the word that a record uses.
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

    /// For the title of an axis.
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

    /// Short, for an axis.
    pub(crate) fn short(&self, x: f64) -> String {
        match self {
            Unit::Micros => short_time(x),
            Unit::Millis => short_time(x * 1e3),
            Unit::Seconds => short_time(x * 1e6),
            Unit::Percent => format!("{} %", trimmed(x)),
            Unit::Bytes => short_bytes(x),
            Unit::Qps | Unit::Other(_) => prefixed(x),
        }
    }

    /// In full, with its unit where that is not the column's.
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

/// Bytes with a decimal prefix and three digits.
fn bytes(x: f64) -> String {
    match x.abs() {
        a if a >= 1e9 => format!("{:.2} GB", x / 1e9),
        a if a >= 1e6 => format!("{:.1} MB", x / 1e6),
        a if a >= 1e3 => format!("{:.1} kB", x / 1e3),
        _ => format!("{} B", significant(x)),
    }
}

/// Bytes on an axis.
fn short_bytes(x: f64) -> String {
    match x.abs() {
        a if a >= 1e9 => format!("{} GB", trimmed(x / 1e9)),
        a if a >= 1e6 => format!("{} MB", trimmed(x / 1e6)),
        a if a >= 1e3 => format!("{} kB", trimmed(x / 1e3)),
        _ => format!("{} B", trimmed(x)),
    }
}

/// Four significant digits, or all of the integer part.
pub(crate) fn significant(x: f64) -> String {
    match x.abs() {
        a if a >= 1e3 => thousands(x),
        a if a >= 100.0 => trimmed_to(x, 1),
        a if a >= 10.0 => trimmed_to(x, 2),
        _ => trimmed_to(x, 3),
    }
}

/// With `digits` decimals, less the zeros at their end.
fn trimmed_to(x: f64, digits: usize) -> String {
    let text = format!("{x:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// As many digits as a tick needs.
fn trimmed(x: f64) -> String {
    let text = trimmed_to(x, 3);
    if text == "-0" { "0".to_owned() } else { text }
}

/// With k, M or G.
fn prefixed(x: f64) -> String {
    match x.abs() {
        a if a >= 1e9 => format!("{}G", trimmed(x / 1e9)),
        a if a >= 1e6 => format!("{}M", trimmed(x / 1e6)),
        a if a >= 1e3 => format!("{}k", trimmed(x / 1e3)),
        _ => trimmed(x),
    }
}

/// A time on an axis.
fn short_time(us: f64) -> String {
    match us.abs() {
        0.0 => "0".to_owned(),
        a if a >= 1e6 => format!("{} s", trimmed(us / 1e6)),
        a if a >= 1e3 => format!("{} ms", trimmed(us / 1e3)),
        a if a >= 1.0 => format!("{} µs", trimmed(us)),
        _ => format!("{} ns", trimmed(us * 1e3)),
    }
}

/// Seconds as a span of time: `45 s`, `12 min`, `3 h 05 min`.
pub(crate) fn span(seconds: f64) -> String {
    let s = seconds.max(0.0).round() as u64;
    match s {
        0..120 => format!("{s} s"),
        120..7_200 => format!("{} min", s / 60),
        _ => format!("{} h {:02} min", s / 3_600, s / 60 % 60),
    }
}

/// Seconds since 1970 as a date in UTC, by the civil calendar (Howard Hinnant's `civil_from_days`).
pub(crate) fn date(unix_s: f64) -> String {
    let s = unix_s.max(0.0) as i64;
    let (days, second) = (s / 86_400, s % 86_400);
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let m = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * m + 2) / 5 + 1;
    let month = if m < 10 { m + 3 } else { m - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3_600, second / 60 % 60)
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
            ("us", 250.0, "250 µs", "250.0 us"),
            ("ms", 2.5, "2.5 ms", "2.5 ms"),
            ("s", 61.34, "61.34 s", "61.34 s"),
            ("B", 64e6, "64 MB", "64.0 MB"),
            ("B", 2.5e9, "2.5 GB", "2.50 GB"),
            ("%", 12.5, "12.5 %", "12.5 %"),
            ("", 0.125, "0.125", "0.125"),
            ("1/s", 12_000.0, "12k", "12,000/s"),
            ("s", 0.0125, "12.5 ms", "12.5 ms"),
            ("s", 0.000_25, "250 µs", "250.0 us"),
            ("octets", 38.92, "38.92 B", "38.92 B"),
        ];
        for (unit, x, short, full) in table {
            let unit = Unit::of(unit);
            assert_eq!((unit.short(x).as_str(), unit.full(x).as_str()), (short, full));
        }
    }

    #[test]
    fn dates_and_spans() {
        assert_eq!(date(0.0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400.0), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_795_248_314.0), "2026-11-21 08:05 UTC");
        assert_eq!([45.2, 725.0, 11_100.0].map(span), ["45 s", "12 min", "3 h 05 min"]);
    }
}
