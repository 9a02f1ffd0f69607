//! A slice of a load: the part of one of several Testers, which together are one Tester.
//!
//! ```text
//! the whole   q0  q1  q2  q3  q4  q5  q6  q7  ...
//! slice 1/3   q0          q3          q6
//! slice 2/3       q1          q4          q7
//! slice 3/3           q2          q5
//! ```
//!
//! Worker w of slice i is worker w n + i of the whole: schedules, names and source ports are shared among more workers
//! than one host has, by the arithmetic by which the workers of one host share them.

use std::fmt;
use std::str::FromStr;

/// Largest number of slices of a load.
pub const MAX_SLICES: u32 = 1_024;

/// One of several equal slices of a load; written `1/3`, the first one with 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice {
    /// Number of slices, at least 1.
    of: u32,
    /// Index of this slice, from 0.
    index: u32,
}

impl Default for Slice {
    /// Returns the whole load, `1/1`.
    fn default() -> Self {
        Slice { of: 1, index: 0 }
    }
}

impl Slice {
    /// Makes slice `number` (from 1) of `of`; `None` unless `number` is at most `of`, and `of` at most [`MAX_SLICES`].
    pub fn new(number: u32, of: u32) -> Option<Self> {
        let index = number.checked_sub(1)?;
        (index < of && of <= MAX_SLICES).then_some(Slice { of, index })
    }

    /// Returns the slice's number, from 1.
    pub fn number(self) -> u32 {
        self.index + 1
    }

    /// Returns the number of slices.
    pub fn of(self) -> u32 {
        self.of
    }

    /// Returns whether the slice is the whole load.
    pub fn is_whole(&self) -> bool {
        self.of == 1
    }

    /// Returns which worker of the whole load `worker` of this slice is.
    pub fn worker(self, worker: u32) -> u32 {
        worker * self.of + self.index
    }

    /// Returns the number of workers of the whole load if each slice has `workers`.
    pub fn workers(self, workers: u32) -> u32 {
        workers * self.of
    }

    /// Returns whether a thing, counted from 0, is of this slice if they are dealt out in turn.
    pub fn has(self, thing: u64) -> bool {
        thing % u64::from(self.of) == u64::from(self.index)
    }

    /// Returns the number of this slice's items if `whole` items are distributed to the slices in
    /// turn.
    pub fn share(self, whole: u64) -> u64 {
        whole.saturating_sub(u64::from(self.index)).div_ceil(u64::from(self.of))
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number(), self.of)
    }
}

/// Error for a text that is not a slice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a slice: write 1/3 for the first of three, up to 3/3 for the last ({MAX_SLICES} at most)"
)]
pub struct NotASlice(String);

impl FromStr for Slice {
    type Err = NotASlice;

    /// Reads the form `1/3`: number of the slice, and of all slices.
    fn from_str(text: &str) -> Result<Self, NotASlice> {
        let number = |digits: &str| {
            let plain = digits.bytes().all(|c| c.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten()
        };
        let slice =
            text.split_once('/').and_then(|(part, of)| Slice::new(number(part)?, number(of)?));
        slice.ok_or_else(|| NotASlice(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Nanos, Pacing};
    use proptest::prelude::*;

    #[test]
    fn slices_are_read() {
        assert_eq!("2/3".parse(), Ok(Slice { of: 3, index: 1 }));
        assert!("1/1".parse::<Slice>().is_ok_and(|slice| slice.is_whole()));
        for text in ["", "1", "0/3", "4/3", "1/0", "/", "1/", "+1/3", "-1/3", "1/3/5", "1/1025"] {
            let error = text.parse::<Slice>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("`{text}` is not a slice: ")), "{error}");
        }
    }

    /// Due times of the workers of a load, in order.
    fn due_times(pacing: Pacing, slices: &[Slice], workers: &[u32]) -> Vec<Nanos> {
        let mut all = Vec::new();
        for (slice, &workers) in slices.iter().zip(workers) {
            for worker in 0..workers {
                let schedule = pacing.schedule(Nanos::from_millis(300), 7).expect("an open loop");
                let mut schedule = schedule.shard(slice.worker(worker), slice.workers(workers));
                while let Some(due) = schedule.peek() {
                    all.push(due);
                    schedule.advance();
                }
            }
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn the_schedules_of_the_slices_are_the_whole_schedule() {
        for text in [
            "constant 10k",
            "constant 9999.7",
            "poisson 10k",
            "ramp 1k..20k",
            "ramp 0..9k then 100ms",
        ] {
            let pacing: Pacing = text.parse().expect(text);
            for of in 1..=7 {
                let slices: Vec<Slice> = (1..=of).filter_map(|i| Slice::new(i, of)).collect();
                let whole = due_times(pacing, &[Slice::default()], &[2 * of]);
                assert!(whole.len() > 1_000, "{text}");
                assert_eq!(due_times(pacing, &slices, &vec![2; of as usize]), whole, "{text} {of}");
            }
            if !text.starts_with("poisson") {
                // Hosts with different numbers of workers share the same schedule.
                let slices = [Slice { of: 2, index: 0 }, Slice { of: 2, index: 1 }];
                let whole = due_times(pacing, &[Slice::default()], &[1]);
                assert_eq!(due_times(pacing, &slices, &[3, 1]), whole, "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(of in 1..=MAX_SLICES, part in 0u32..1_024) {
            let slice = Slice { of, index: part % of };
            prop_assert_eq!(slice.to_string().parse(), Ok(slice));
        }

        #[test]
        fn any_text_is_accepted_or_refused(text in ".{0,12}|[0-9/]{0,9}") {
            if let Ok(slice) = text.parse::<Slice>() {
                prop_assert!(slice.number() >= 1 && slice.number() <= slice.of() && slice.of() <= MAX_SLICES);
            }
        }

        #[test]
        fn shares_add_up(of in 1..=MAX_SLICES, whole in 0u64..1_000_000) {
            let shares = (0..of).map(|index| Slice { of, index }.share(whole));
            prop_assert_eq!(shares.sum::<u64>(), whole);
        }
    }
}
