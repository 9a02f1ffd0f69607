//! Mixes of names as clients ask for them: popular ones again and again, new ones, missing ones.

use measure::{Rng, Zipf};

/// In which shares a workload repeats names, asks for new ones, and for such as do not exist.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// How many names are popular to some degree, at least 1.
    pub popular: u64,
    /// Zipf's exponent: the k-th popular name is asked for in proportion to 1 / k^exponent. 1 is usual for DNS, 0 is even.
    pub exponent: f64,
    /// Share (0 to 1) of queries for popular names among those for names that exist.
    pub repeats: f64,
    /// Share (0 to 1) of queries for names that do not exist.
    pub missing: f64,
}

/// A mix that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum MixError {
    /// The shares are none.
    #[error(
        "the shares of repeats ({repeats}) and of missing names ({missing}) do not both lie between 0 and 1"
    )]
    Shares {
        /// Of popular names.
        repeats: f64,
        /// Of missing names.
        missing: f64,
    },
    /// The exponent is none.
    #[error("the exponent {0} of the popularities does not lie between 0 and 10")]
    Exponent(f64),
    /// There are no popular names, or more than there are names.
    #[error("{popular} popular names are asked for: take 1 to {names}")]
    Popular {
        /// So many are asked for.
        popular: u64,
        /// So many there are.
        names: u64,
    },
    /// Every name of the namespace exists.
    #[error(
        "all IPv4 addresses have a name in this namespace, none is missing; take a longer prefix than /0"
    )]
    NoneMissing,
}

/// Which kind of name comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// The popular name of this rank, from 0.
    Popular(u64),
    /// A name that was never asked for.
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
    /// The stream of `worker` for `seed`, where there are `names` names that may be popular.
    pub(crate) fn new(mix: Mix, names: u64, seed: u64, worker: u32) -> Result<Self, MixError> {
        let Mix { popular, exponent, repeats, missing } = mix;
        let share = |x: f64| (0.0..=1.0).contains(&x);
        if !share(repeats) || !share(missing) {
            return Err(MixError::Shares { repeats, missing });
        }
        if !(0.0..=10.0).contains(&exponent) {
            return Err(MixError::Exponent(exponent));
        }
        if !(1..=names).contains(&popular) {
            return Err(MixError::Popular { popular, names });
        }
        let rng = Rng::part(seed ^ 0x6d69_7865, u64::from(worker));
        Ok(Picker { mix, zipf: Zipf::new(popular, exponent), rng })
    }

    /// The next pick.
    #[inline]
    pub(crate) fn next(&mut self) -> Pick {
        if self.rng.unit() < self.mix.missing {
            Pick::Missing
        } else if self.rng.unit() < self.mix.repeats {
            Pick::Popular(self.zipf.draw(&mut self.rng))
        } else {
            Pick::Fresh
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_of_nothing_is_refused() {
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
