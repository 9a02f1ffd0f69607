//! Numbers: thousands separators, significant digits, shares.

/// Largest number of decimals, so that a rounding error does not fill a column.
const MAX_DECIMALS: usize = 6;

/// Formats a whole number with thousands separators: "12,345".
pub fn thousands(x: f64) -> String {
    let digits = format!("{x:.0}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0
            && (digits.len() - i).is_multiple_of(3)
            && digits.as_bytes()[i - 1].is_ascii_digit()
        {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Formats a rate as a whole number, or with four significant digits below ten.
pub(crate) fn rate(qps: f64) -> String {
    if qps < 10.0 { significant(qps) } else { thousands(qps) }
}

/// Formats four significant digits without trailing zeros, or the whole integer part; at most six decimals.
pub(crate) fn significant(x: f64) -> String {
    if x.abs() >= 1e3 {
        return thousands(x);
    }
    let integer_digits = x.abs().max(1e-9).log10().floor() as i32 + 1;
    trimmed(x, usize::try_from(4 - integer_digits).unwrap_or(0).min(MAX_DECIMALS))
}

/// Formats with `decimals` decimals, without trailing zeros.
pub(crate) fn trimmed(x: f64, decimals: usize) -> String {
    let text = format!("{x:.decimals$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Returns `part` as percent of `whole`; `None` if `whole` is zero.
pub(crate) fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// Returns the smallest and the largest value; `None` without values.
pub(crate) fn range(values: &[f64]) -> Option<(f64, f64)> {
    let bounds = (f64::MAX, f64::MIN);
    let range = values.iter().fold(bounds, |(low, high), v| (low.min(*v), high.max(*v)));
    (!values.is_empty()).then_some(range)
}

/// Formats a count and its noun in the matching form: "1 trial", "2 trials".
pub(crate) fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{} {}", thousands(n as f64), if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits() {
        assert_eq!(
            [0.0, 999.0, 1_000.0, 1_234_567.8].map(thousands),
            ["0", "999", "1,000", "1,234,568"]
        );
        let table = [
            (0.0, "0"),
            (0.25, "0.25"),
            (0.012_346, "0.01235"),
            (1.234_567e-7, "0"),
            (-0.000_000_1, "0"),
            (2.0, "2"),
            (38.918, "38.92"),
            (123.456, "123.5"),
            (999.96, "1000"),
            (12_345.6, "12,346"),
        ];
        for (x, text) in table {
            assert_eq!(significant(x), text, "{x}");
        }
        assert_eq!([percent(1, 8), percent(1, 0)], [Some(12.5), None]);
        assert_eq!([range(&[2.0, 1.0]), range(&[])], [Some((1.0, 2.0)), None]);
    }
}
