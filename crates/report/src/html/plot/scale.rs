//! Axes: positions of values in the plot, and ticks.

/// Ratio of the largest to the smallest value from which an axis is logarithmic.
const DECADE: f64 = 10.0;

/// Scale of an axis: maps values to positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// A linear scale from the first to the second value.
    Linear(f64, f64),
    /// A logarithmic scale from the first value (above zero) to the second.
    Log(f64, f64),
}

impl Scale {
    /// Makes a linear scale that contains `values` and zero, with some room above.
    pub(crate) fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let top = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
        Scale::Linear(0.0, if top > 0.0 { top * 1.06 } else { 1.0 })
    }

    /// Makes a linear scale that contains `values`, with some room on both sides.
    pub(crate) fn around(values: impl Iterator<Item = f64>) -> Self {
        match extent(values) {
            Some((low, high)) if high > low => {
                let room = (high - low) * 0.05;
                Scale::Linear(low - room, high + room)
            }
            Some((low, _)) => Scale::Linear(low - 1.0, low + 1.0),
            None => Scale::Linear(0.0, 1.0),
        }
    }

    /// Makes a logarithmic scale that contains the positive ones of `values`, with some room on both sides.
    pub(crate) fn log(values: impl Iterator<Item = f64>) -> Self {
        match extent(values.filter(|v| *v > 0.0)) {
            Some((low, high)) => Scale::Log(low / 1.25, high * 1.25),
            None => Scale::Log(1.0, 10.0),
        }
    }

    /// Makes a logarithmic scale if `values` span a decade or more, else a linear one from zero.
    pub(crate) fn fitting(values: impl Iterator<Item = f64> + Clone) -> Self {
        match extent(values.clone()) {
            Some((low, high)) if low > 0.0 && high >= DECADE * low => Scale::log(values),
            _ => Scale::from_zero(values),
        }
    }

    /// Makes a logarithmic scale if `values` span a decade or more, else a linear one around them.
    pub(crate) fn of_ratios(values: impl Iterator<Item = f64> + Clone) -> Self {
        match Scale::fitting(values.clone()) {
            log @ Scale::Log(..) => log,
            Scale::Linear(..) => Scale::around(values),
        }
    }

    /// Returns whether `x` lies between the ends of the axis.
    pub(crate) fn contains(&self, x: f64) -> bool {
        let (low, high) = self.ends();
        (low..=high).contains(&x)
    }

    /// Returns whether the scale is logarithmic.
    pub(crate) fn is_log(&self) -> bool {
        matches!(self, Scale::Log(..))
    }

    /// Returns the first and the last value of the axis.
    pub(crate) fn ends(&self) -> (f64, f64) {
        match *self {
            Scale::Linear(low, high) | Scale::Log(low, high) => (low, high),
        }
    }

    /// Returns the position of `x`: 0 at the start of the axis, 1 at its end; values outside are on the edge.
    pub(crate) fn place(&self, x: f64) -> f64 {
        let share = match *self {
            Scale::Linear(low, high) => (x - low) / (high - low),
            Scale::Log(low, high) => {
                (x.max(f64::MIN_POSITIVE).ln() - low.ln()) / (high.ln() - low.ln())
            }
        };
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }

    /// Returns about `wanted` round values within the scale.
    pub(crate) fn ticks(&self, wanted: usize) -> Vec<f64> {
        match *self {
            Scale::Linear(low, high) => linear_ticks(low, high, wanted),
            Scale::Log(low, high) => log_ticks(low, high, wanted),
        }
    }
}

/// Returns the smallest and the largest of the finite values.
fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| v.is_finite()).fold(None, |seen, v| match seen {
        None => Some((v, v)),
        Some((low, high)) => Some((f64::min(low, v), f64::max(high, v))),
    })
}

/// Returns multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let rough = (high - low) / wanted.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    (0..64).map(|i| (first + i) as f64 * step).take_while(|t| *t <= high * (1.0 + 1e-12)).collect()
}

/// Returns powers of ten, with 2 and 5 between them on a short scale, and fewer on a long scale.
fn log_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let within = |t: &f64| *t >= low * 0.999 && *t <= high * 1.001;
    let of = |steps: &[f64]| -> Vec<f64> {
        decades
            .clone()
            .flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)))
            .filter(within)
            .collect()
    };
    let (tens, many) = (of(&[1.0]), of(&[1.0, 2.0, 5.0]));
    if many.len() <= wanted + 1 {
        if many.len() < 3 { linear_ticks(low, high, wanted) } else { many }
    } else {
        let every = tens.len().div_ceil(wanted.max(1)).max(1);
        if tens.len() < 2 { many } else { tens.into_iter().step_by(every).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let s = Scale::Linear(0.0, 10.0);
        assert_eq!([0.0, 5.0, 10.0, 11.0, f64::NAN].map(|x| s.place(x)), [0.0, 0.5, 1.0, 1.0, 0.0]);
        let s = Scale::Log(1.0, 100.0);
        assert_eq!([1.0, 10.0, 100.0, 0.0].map(|x| s.place(x)), [0.0, 0.5, 1.0, 0.0]);
        assert_eq!(Scale::from_zero([f64::NAN].into_iter()), Scale::Linear(0.0, 1.0));
        assert_eq!(Scale::around([3.0].into_iter()), Scale::Linear(2.0, 4.0));
        assert!(Scale::fitting([1.0, 10.0].into_iter()).is_log());
        assert!(!Scale::fitting([1.1, 10.0].into_iter()).is_log());
        assert!(!Scale::fitting([0.0, 1.0, 1e3].into_iter()).is_log(), "zero has no place on it");
        assert_eq!(Scale::log([0.0, -1.0].into_iter()), Scale::Log(1.0, 10.0));
    }

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(Scale::Linear(0.0, 100.0).ticks(5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(Scale::Linear(-1.0, 1.0).ticks(4), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        assert_eq!(Scale::Log(1.0, 1_000.0).ticks(5), [1.0, 10.0, 100.0, 1_000.0]);
        assert_eq!(Scale::Log(9.0, 55.0).ticks(5), [10.0, 20.0, 50.0]);
        for (low, high) in [(3.0, 4.0), (0.1, 1e9), (11.0, 12.0), (1e-9, 1e9)] {
            for scale in [Scale::Linear(low, high), Scale::Log(low, high)] {
                let ticks = scale.ticks(5);
                assert!((2..=12).contains(&ticks.len()), "{scale:?}: {ticks:?}");
                assert!(ticks.iter().all(|t| *t >= low * 0.99 && *t <= high * 1.01), "{scale:?}");
            }
        }
    }
}
