//! Times in zone files.

/// Reads a time, a TTL for example, in seconds or with the units of BIND: weeks, days, hours,
/// minutes, seconds. Returns it in seconds; `None` for other text.
pub fn period(text: &[u8]) -> Option<u32> {
    let (mut total, mut number, mut units) = (0u64, None, 0);
    for &octet in text {
        let seconds = match octet.to_ascii_lowercase() {
            digit @ b'0'..=b'9' => {
                let value = number.unwrap_or(0u64) * 10 + u64::from(digit - b'0');
                number = Some(value).filter(|&value| value <= u64::from(u32::MAX));
                number?;
                continue;
            }
            b'w' => 604_800,
            b'd' => 86_400,
            b'h' => 3_600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        total += number.take()? * seconds;
        units += 1;
    }
    match number {
        // A number without a unit must be the only one.
        Some(number) if units == 0 => total = number,
        Some(_) => return None,
        None if units == 0 => return None,
        None => {}
    }
    u32::try_from(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_have_units() {
        for (text, seconds) in [
            ("0", Some(0)),
            ("3600", Some(3_600)),
            ("1h", Some(3_600)),
            ("1W2D", Some(777_600)),
            ("1h30m5s", Some(5_405)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("9999999w", None),
            ("1h30", None),
            ("h", None),
            ("1x", None),
            ("", None),
        ] {
            assert_eq!(period(text.as_bytes()), seconds, "{text}");
        }
    }
}
