//! The start that several Testers agree on: an instant of the clock that their hosts share.
//!
//! ```text
//! 2026-11-23T04:30:00Z         UTC, with a fraction of the second or without
//! 2026-11-23T04:30:37TAI       TAI: UTC without its leap seconds
//! @1795408200.25               seconds since 1970, as `date +%s` counts them
//! ```

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

use crate::units::Nanos;

/// Last second that a start may have: in the year 2500.
const LAST_SECOND: u64 = 16_725_225_600;

/// An instant at which a load starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartAt {
    /// Time since the beginning of 1970 on its scale, without leap seconds.
    since_1970: Nanos,
    scale: Scale,
}

/// Time scale of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scale {
    Utc,
    Tai,
}

impl StartAt {
    /// Makes the instant of a time since 1970 of UTC.
    pub fn of_unix(since_1970: Nanos) -> Self {
        StartAt { since_1970, scale: Scale::Utc }
    }

    /// Returns the instant as nanoseconds since 1970 of the host's clock, which is `tai_offset`
    /// seconds behind TAI; `None` if the offset is needed but unknown.
    pub fn unix(self, tai_offset: Option<u32>) -> Option<Nanos> {
        match self.scale {
            Scale::Utc => Some(self.since_1970),
            Scale::Tai => {
                let offset = Nanos::from_secs(u64::from(tai_offset?));
                self.since_1970.0.checked_sub(offset.0).map(Nanos)
            }
        }
    }
}

impl fmt::Display for StartAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = humantime::format_rfc3339(UNIX_EPOCH + Duration::from(self.since_1970));
        match self.scale {
            Scale::Utc => write!(f, "{text}"),
            Scale::Tai => write!(f, "{}TAI", text.to_string().trim_end_matches('Z')),
        }
    }
}

/// Error for a text that is not an instant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an instant: write 2026-11-23T04:30:00Z (UTC), 2026-11-23T04:30:37TAI, or @1795408200 (seconds since 1970)"
)]
pub struct NotAnInstant(String);

impl FromStr for StartAt {
    type Err = NotAnInstant;

    /// Reads an instant: `2026-11-23T04:30:00.5Z`, `2026-11-23T04:30:37TAI` or `@1795408200.25`
    /// (seconds since 1970).
    fn from_str(text: &str) -> Result<Self, NotAnInstant> {
        let date = |text: &str| {
            let time = humantime::parse_rfc3339(text).ok()?;
            time.duration_since(UNIX_EPOCH).ok()
        };
        let (time, scale) = match (text.strip_prefix('@'), text.strip_suffix("TAI")) {
            (Some(seconds), _) => (seconds_since_1970(seconds), Scale::Utc),
            (None, Some(tai)) => (date(&format!("{tai}Z")), Scale::Tai),
            (None, None) => (date(text), Scale::Utc),
        };
        let time = time.filter(|time| time.as_secs() <= LAST_SECOND);
        let time = time.ok_or_else(|| NotAnInstant(text.to_owned()))?;
        Ok(StartAt { since_1970: time.into(), scale })
    }
}

/// Reads digits with at most nine decimals.
fn seconds_since_1970(text: &str) -> Option<Duration> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    if !digits(whole) || !digits(decimals) || decimals.len() > 9 {
        return None;
    }
    Some(Duration::new(whole.parse().ok()?, format!("{decimals:0<9}").parse().ok()?))
}

/// The error that the clock of a host may have for an agreed start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockBound {
    /// The error is at most this, by the kernel's estimate.
    Within(Nanos),
    /// Not looked at: the hosts share a clock, or are synchronised by something of which the kernel does not know.
    Unchecked,
}

impl Default for ClockBound {
    /// Returns the bound of 10 ms that a start without one has.
    fn default() -> Self {
        ClockBound::Within(Nanos::from_millis(10))
    }
}

impl fmt::Display for ClockBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClockBound::Within(bound) => write!(f, "{bound}"),
            ClockBound::Unchecked => f.write_str("unchecked"),
        }
    }
}

impl FromStr for ClockBound {
    type Err = crate::units::UnitError;

    /// Reads a time such as `10ms`, or `unchecked`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "unchecked" => Ok(ClockBound::Unchecked),
            bound => bound.parse().map(ClockBound::Within),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> StartAt {
        text.parse().expect(text)
    }

    #[test]
    fn instants_are_read() {
        let unix = Nanos(1_795_408_200_250_000_000);
        for text in ["2026-11-23T04:30:00.25Z", "@1795408200.25"] {
            assert_eq!(at(text).unix(None), Some(unix), "{text}");
        }
        let tai = at("2026-11-23T04:30:37.25TAI");
        assert_eq!((tai.unix(Some(37)), tai.unix(None)), (Some(unix), None));
        assert_eq!(StartAt::of_unix(unix), at("@1795408200.25"));
        assert_eq!(at("1970-01-01T00:00:36TAI").unix(Some(37)), None);
        assert_eq!(at("@1795408200").to_string(), "2026-11-23T04:30:00Z");
        for text in [
            "",
            "now",
            "+5s",
            "@",
            "@-1",
            "@1.",
            "@1.1234567890",
            "@99999999999",
            "2026-11-23",
            "2026-11-23T04:30:00",
            "2026-13-23T04:30:00Z",
            "2026-11-23T04:30:00+01:00",
            "TAI",
            "2600-01-01T00:00:00Z",
        ] {
            let error = text.parse::<StartAt>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("`{text}` is not an instant: ")), "{error}");
        }
    }

    #[test]
    fn bounds_are_read_as_they_are_printed() {
        for (text, bound) in [("10ms", ClockBound::default()), ("unchecked", ClockBound::Unchecked)]
        {
            assert_eq!((text.parse(), bound.to_string()), (Ok(bound), text.to_owned()));
        }
        assert!("none".parse::<ClockBound>().is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(ns in 0..=LAST_SECOND * 1_000_000_000, tai: bool) {
            let scale = if tai { Scale::Tai } else { Scale::Utc };
            let start = StartAt { since_1970: Nanos(ns), scale };
            prop_assert_eq!(start.to_string().parse(), Ok(start));
        }

        #[test]
        fn any_text_is_accepted_or_refused(text in ".{0,30}|@[0-9.]{0,20}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,12}(Z|TAI)") {
            if let Ok(start) = text.parse::<StartAt>() {
                prop_assert_eq!(start.to_string().parse(), Ok(start), "{}", text);
            }
        }
    }
}
