//! A distribution of times in JSON: percentiles for people, the histogram for programs.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use measure::histogram::NotAHistogram;
use measure::{Histogram, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A distribution of times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// Median of the times, in microseconds.
    pub p50: f64,
    /// 90th percentile of the times, in microseconds.
    pub p90: f64,
    /// 99th percentile of the times, in microseconds.
    pub p99: f64,
    /// 99.9th percentile of the times, in microseconds.
    pub p999: f64,
    /// Largest of the times, in microseconds.
    pub max: f64,
    /// Smallest of the times, in microseconds.
    pub min: f64,
    /// Mean of the times, in microseconds.
    pub mean: f64,
    /// Standard deviation of the times, in microseconds.
    pub stdev: f64,
    /// Number of times in the distribution.
    pub count: u64,
    /// Non-empty buckets: largest time in microseconds, and count. `hdr` has the same content; they are written on request.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub buckets: Vec<(f64, u64)>,
    /// Histogram in nanoseconds: HDR V2, compressed, base64; empty if it was not kept.
    pub hdr: String,
}

impl Times {
    /// Decodes the histogram.
    ///
    /// # Errors
    /// If `hdr` is not a histogram.
    pub fn histogram(&self) -> Result<Histogram, NotAHistogram> {
        Histogram::decode(&self.bytes()?)
    }

    /// Returns a percentile that is stored in addition to the histogram, by its quantile (0 to 1),
    /// in microseconds; `None` for any other, and without times.
    pub fn kept(&self, quantile: f64) -> Option<f64> {
        let all = [(0.5, self.p50), (0.9, self.p90), (0.99, self.p99), (0.999, self.p999)];
        let found = all.into_iter().find(|(kept, _)| *kept == quantile && self.count > 0);
        found.map(|(_, time)| time)
    }

    /// Returns the bytes of `hdr`.
    fn bytes(&self) -> Result<Vec<u8>, NotAHistogram> {
        BASE64_STANDARD.decode(&self.hdr).map_err(|e| NotAHistogram::new(e.to_string()))
    }
}

/// Returns a histogram in base64.
fn encoded(h: &Histogram) -> String {
    BASE64_STANDARD.encode(h.encode_compressed())
}

/// Returns the non-empty buckets of `h`: largest time in microseconds, and count.
fn buckets(h: &Histogram) -> Vec<(f64, u64)> {
    h.buckets().map(|(t, n)| (t.as_micros_f64(), n)).collect()
}

impl Times {
    /// Removes the histogram and returns its bytes; the percentiles stay. Returns `None` without a histogram.
    ///
    /// # Errors
    /// If `hdr` is not a histogram.
    pub(crate) fn take_histogram(&mut self) -> Result<Option<Vec<u8>>, NotAHistogram> {
        if self.hdr.is_empty() {
            return Ok(None);
        }
        let bytes = self.bytes()?;
        Histogram::decode(&bytes)?;
        self.hdr.clear();
        self.buckets.clear();
        Ok(Some(bytes))
    }

    /// Restores a histogram that [`take_histogram`](Self::take_histogram) removed.
    ///
    /// # Errors
    /// If `bytes` are not a histogram.
    pub(crate) fn put_histogram(&mut self, bytes: &[u8]) -> Result<(), NotAHistogram> {
        Histogram::decode(bytes)?;
        self.hdr = BASE64_STANDARD.encode(bytes);
        Ok(())
    }

    /// Replaces the histogram by its coarse form with `digits` significant digits; the percentiles
    /// stay.
    ///
    /// # Errors
    /// If `hdr` is not a histogram.
    pub(crate) fn coarsen(&mut self, digits: u8) -> Result<(), NotAHistogram> {
        if !self.hdr.is_empty() {
            self.hdr = BASE64_STANDARD.encode(self.histogram()?.encode_coarse(digits));
        }
        Ok(())
    }

    /// Writes the buckets of the histogram out.
    ///
    /// # Errors
    /// If `hdr` is not a histogram.
    pub(crate) fn fill_buckets(&mut self) -> Result<(), NotAHistogram> {
        if !self.hdr.is_empty() {
            self.buckets = buckets(&self.histogram()?);
        }
        Ok(())
    }
}

impl From<&Histogram> for Times {
    fn from(h: &Histogram) -> Self {
        let us = |t: Nanos| t.as_micros_f64();
        Times {
            p50: us(h.quantile(0.5)),
            p90: us(h.quantile(0.9)),
            p99: us(h.quantile(0.99)),
            p999: us(h.quantile(0.999)),
            max: us(h.max()),
            min: us(h.min()),
            mean: h.mean_ns() / 1e3,
            stdev: h.stdev_ns() / 1e3,
            count: h.count(),
            buckets: Vec::new(),
            hdr: encoded(h),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_there_without_the_histogram() {
        let times =
            Times { p50: 2.0, p90: 3.0, p99: 9.0, p999: 10.0, count: 5, ..Times::default() };
        assert_eq!([0.5, 0.9, 0.99, 0.999].map(|q| times.kept(q)), [2.0, 3.0, 9.0, 10.0].map(Some));
        assert_eq!((times.kept(0.95), Times::default().kept(0.99)), (None, None));
    }
}
