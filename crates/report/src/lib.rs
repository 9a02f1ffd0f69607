//! Records to words for a terminal, and to one HTML page. Pure: no role, no engine, no clock, so that every report can be
//! made again from what was kept.

mod cells;
mod comparison;
mod html;
mod lockstep;
mod run;
mod spread;
mod stored;
mod trace;
mod trial;
mod updates;

pub use cells::{quantity, skipped_name};
pub use comparison::comparison;
pub use html::html;
pub use lockstep::lockstep;
pub use run::run;
pub use stored::{cell_name, figures, heading, runs};
pub use trace::trace;
pub use trial::{trial, trial_line};
pub use updates::updates;

/// A whole number with its thousands apart.
fn thousands(x: f64) -> String {
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

/// Microseconds in a unit people read.
fn time_us(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        us => format!("{us:.1} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(
            [0.0, 999.0, 1_000.0, 1_234_567.8].map(thousands),
            ["0", "999", "1,000", "1,234,568"]
        );
        assert_eq!(
            [0.5, 999.9, 1_500.0, 2_500_000.0].map(time_us),
            ["0.5 us", "999.9 us", "1.50 ms", "2.50 s"]
        );
    }
}
