//! Mixes of names as clients query them: popular names again and again, new names, missing names.

use measure::{Rng, Zipf};

/// Shares of repeated, new and missing names in a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Number of popular names, at least 1.
    pub popular: u64,
    /// Zipf's exponent: the k-th popular name is queried in proportion to 1 / k^exponent. 1 is usual for DNS,
    /// 0 gives equal shares.
    pub exponent: f64,
    /// Share (0 to 1) of popular names among the queries for existing names.
    pub repeats: f64,
    /// Share (0 to 1) of queries for missing names.
    pub missing: f64,
}

/// Reason why a mix is not valid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum MixError {
    /// A share is not between 0 and 1.
    #[error(
        "the shares of repeats ({repeats}) and of missing names ({missing}) must both be between 0 and 1"
    )]
    Shares {
        /// Share (0 to 1) of popular names.
        repeats: f64,
        /// Share (0 to 1) of missing names.
        missing: f64,
    },
    /// The exponent is not within [`Zipf::EXPONENTS`].
    #[error("the exponent {0} of the popularities must be between {least} and {most}",
        least = Zipf::EXPONENTS.start(), most = Zipf::EXPONENTS.end())]
    Exponent(f64),
    /// There are no popular names, or more popular names than names.
    #[error("{popular} popular names are not possible: take 1 to {names}")]
    Popular {
        /// Requested number of popular names.
        popular: u64,
        /// Number of names that there are.
        names: u64,
    },
    /// Every IPv4 address has a name in the namespace, so that no name is missing.
    #[error(
        "every IPv4 address has a name in this namespace, so that no name is missing; take a longer prefix than /0"
    )]
    NoneMissing,
}

/// Kind of the next name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    /// The popular name of this rank, counted from 0.
    Popular(u64),
    /// A name that was not queried before.
    Fresh,
    /// A name that does not exist.
    Missing,
}

/// A seeded stream of picks.
#[derive(Clone, Debug)]
pub(crate) struct Picker {
    mix: Mix,
    zipf: Zipf,
    rng: Rng,
}

impl Picker {
    /// Makes the stream of `worker` for `seed`; `names` is the number of names that may be popular.
    pub(crate) fn new(mix: Mix, names: u64, seed: u64, worker: u32) -> Result<Self, MixError> {
        let Mix { popular, exponent, repeats, missing } = mix;
        let share = |x: f64| (0.0..=1.0).contains(&x);
        if !share(repeats) || !share(missing) {
            return Err(MixError::Shares { repeats, missing });
        }
        if !Zipf::EXPONENTS.contains(&exponent) {
            return Err(MixError::Exponent(exponent));
        }
        if !(1..=names).contains(&popular) {
            return Err(MixError::Popular { popular, names });
        }
        let rng = Rng::part(seed ^ 0x6d69_7865, u64::from(worker));
        Ok(Picker { mix, zipf: Zipf::new(popular, exponent), rng })
    }

    /// Returns the name of the next query.
    #[inline]
    pub(crate) fn next(&mut self) -> NameKind {
        if self.rng.unit() < self.mix.missing {
            NameKind::Missing
        } else if self.rng.unit() < self.mix.repeats {
            NameKind::Popular(self.zipf.draw(&mut self.rng))
        } else {
            NameKind::Fresh
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_mix_is_refused() {
        let good = Mix { popular: 10, exponent: 1.0, repeats: 0.8, missing: 0.2 };
        assert!(Picker::new(good, 10, 1, 0).is_ok());
        for bad in [
            Mix { popular: 0, ..good },
            Mix { popular: 11, ..good },
            Mix { exponent: f64::NAN, ..good },
            Mix { exponent: -1.0, ..good },
            Mix { repeats: 1.1, ..good },
            Mix { missing: -0.1, ..good },
        ] {
            assert!(Picker::new(bad, 10, 1, 0).is_err(), "{bad:?}");
        }
    }
}
