//! Dates and durations as text.

use std::time::{Duration, UNIX_EPOCH};

/// First second of the year 10,000, since 1970: RFC 3339 has no dates from then on.
const END_OF_DATES_S: u64 = 253_402_300_800;

/// Formats seconds since 1970 as a date in UTC, RFC 3339 to the second; "-" if there is no such date.
pub(crate) fn date(unix_s: f64) -> String {
    let date = Duration::try_from_secs_f64(unix_s).ok().filter(|d| d.as_secs() < END_OF_DATES_S);
    date.map_or("-".to_owned(), |d| humantime::format_rfc3339_seconds(UNIX_EPOCH + d).to_string())
}

/// Formats a duration in seconds with the precision of a plan: "45 s", "12 min", "3 h 05 min".
pub fn span(seconds: f64) -> String {
    let s = seconds.max(0.0).round() as u64;
    let minutes = (s + 30) / 60;
    match s {
        0..120 => format!("{s} s"),
        120..7_200 => format!("{minutes} min"),
        _ => format!("{} h {:02} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_spans() {
        assert_eq!(date(0.0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_400.9), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_795_248_314.0), "2026-11-21T08:05:14Z");
        assert_eq!([date(-1.0), date(f64::NAN), date(1e300)], ["-", "-", "-"]);
        let spans = [45.2, 119.0, 292.0, 725.0, 10_790.0, -1.0, f64::NAN].map(span);
        assert_eq!(spans, ["45 s", "119 s", "5 min", "12 min", "3 h 00 min", "0 s", "0 s"]);
    }
}
