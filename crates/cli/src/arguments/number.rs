//! Parsers of arguments that are counts, shares or times.

use measure::{Nanos, Qps};

/// Reads a count such as `500`, `10k` or `50M`.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'm') => {
            let digits = &text[..text.len() - 1];
            return Err(format!("`{text}` is not a count: did you mean {digits}M?"));
        }
        _ => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
    number.ok_or_else(|| format!("`{text}` is not a count such as 500, 10k or 50M"))
}

/// Reads a share from 0 to 1.
pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is not a share from 0 to 1"))
}

/// Reads the queries a second of one client, such as `2` or `1/60`.
pub(crate) fn parse_rate_each(text: &str) -> Result<Qps, String> {
    let (queries, seconds) = text.split_once('/').unwrap_or((text, "1"));
    let rate = queries.parse::<f64>().ok().zip(seconds.parse::<f64>().ok());
    let rate = rate.and_then(|(queries, seconds)| Qps::new(queries / seconds));
    let rate = rate.filter(|rate| rate.get() > 0.0);
    rate.ok_or_else(|| format!("`{text}` is not a rate such as 2, or 1/60 for one query a minute"))
}

/// Reads a time in seconds, such as `5` or `0.5`.
pub(crate) fn seconds(text: &str) -> Result<Nanos, String> {
    let number = text.parse::<f64>().ok().filter(|s| (0.0..=1e9).contains(s));
    number
        .map(Nanos::from_secs_f64)
        .ok_or_else(|| format!("`{text}` is not a time in seconds such as 5 or 0.5"))
}

/// Reads a duration such as `5s` or `250ms`; a number alone has seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Nanos, String> {
    seconds(text).or_else(|_| text.parse::<Nanos>().map_err(|e| e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let ms = Nanos::from_millis;
        for (text, time) in
            [("5", ms(5_000)), ("0.5", ms(500)), ("250ms", ms(250)), ("1m", ms(60_000))]
        {
            assert_eq!(parse_duration(text), Ok(time), "{text}");
        }
        assert!(seconds("5s").is_err());
        for text in ["", "-1", "inf", "nan", "5 x"] {
            let why = parse_duration(text).unwrap_err();
            assert!(why.contains("is not a duration such as"), "{text}: {why}");
        }
    }

    #[test]
    fn rates_of_clients() {
        for (text, rate) in [("2", 2.0), ("0.5", 0.5), ("1/60", 1.0 / 60.0), ("3/1.5", 2.0)] {
            assert_eq!(parse_rate_each(text).map(Qps::get), Ok(rate), "{text}");
        }
        for text in ["", "0", "1/0", "-1", "1/", "a/2", "1/2/3", "nan", "inf"] {
            assert!(parse_rate_each(text).unwrap_err().contains("1/60"), "{text}");
        }
    }

    #[test]
    fn counts() {
        for (text, count) in [("0", 0), ("500", 500), ("10k", 10_000), ("50M", 50_000_000)] {
            assert_eq!(parse_count(text), Ok(count));
        }
        assert!(parse_count("5m").unwrap_err().contains("did you mean 5M?"));
        for text in ["", "k", "-1", "1.5k", "20000000000000000000", "99999999999999999M"] {
            assert!(parse_count(text).unwrap_err().contains("is not a count"), "{text}");
        }
    }
}
