//! Counts and shares.

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

#[cfg(test)]
mod tests {
    use super::*;

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
