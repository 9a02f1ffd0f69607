//! A slice of a zone, in a file: `"1/2"` is the first of two halves, by ranges of labels with about as many records each.

use std::fmt;
use std::str::FromStr;

/// Largest number of slices of a zone.
const MAX_SLICES: usize = 256;

/// A slice of a zone: its number, from 1, and the number of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneSlice {
    number: usize,
    of: usize,
}

impl ZoneSlice {
    /// Returns the number of the slice, from 1.
    pub fn number(self) -> usize {
        self.number
    }

    /// Returns the number of slices of the zone.
    pub fn of(self) -> usize {
        self.of
    }
}

impl FromStr for ZoneSlice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(number, of)| {
            Some(ZoneSlice { number: number.parse().ok()?, of: of.parse().ok()? })
        });
        let fits =
            |s: &ZoneSlice| (1..=MAX_SLICES).contains(&s.of) && (1..=s.of).contains(&s.number);
        parts.filter(fits).ok_or_else(|| {
            format!("`{text}` is not a slice of a zone such as 1/2, of {MAX_SLICES} slices at most")
        })
    }
}

impl fmt::Display for ZoneSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slices_are_read_and_written() {
        for text in ["1/1", "1/2", "2/2", "256/256"] {
            let slice: ZoneSlice = text.parse().expect(text);
            assert_eq!(slice.to_string(), text);
        }
        for text in ["", "1", "0/2", "3/2", "4/3", "1/0", "1/257", "a/2", "a/b", "1/2/3", "-1/2"] {
            let error = text.parse::<ZoneSlice>().expect_err(text);
            assert!(error.starts_with(&format!("`{text}` is not a slice")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_slice_or_an_error(text in "[0-9/ -]{0,9}") {
            if let Ok(slice) = text.parse::<ZoneSlice>() {
                prop_assert!(slice.number() >= 1 && slice.number() <= slice.of());
                prop_assert_eq!(slice.to_string().parse::<ZoneSlice>(), Ok(slice));
            }
        }
    }
}
