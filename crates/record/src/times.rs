//! A distribution of times as it stands in the JSON: percentiles for people, the histogram for machines.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use measure::histogram::NotAHistogram;
use measure::{Histogram, Nanos};
use serde::{Deserialize, Serialize};

/// A distribution of times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
    /// Smallest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stdev: f64,
    /// How many times there are.
    pub count: u64,
    /// The non-empty buckets: largest time and count; `hdr` says the same.
    #[serde(default)]
    pub buckets: Vec<(f64, u64)>,
    /// The histogram in nanoseconds: HDR V2, base64.
    pub hdr: String,
}

impl Times {
    /// The histogram back.
    ///
    /// # Errors
    /// When `hdr` is no histogram.
    pub fn histogram(&self) -> Result<Histogram, NotAHistogram> {
        let bytes =
            BASE64_STANDARD.decode(&self.hdr).map_err(|e| NotAHistogram::new(e.to_string()))?;
        Histogram::decode(&bytes)
    }
}

/// The non-empty buckets of `h`: largest time in microseconds and count.
fn buckets(h: &Histogram) -> Vec<(f64, u64)> {
    h.buckets().map(|(t, n)| (t.as_micros_f64(), n)).collect()
}

impl Times {
    /// Takes the histogram out, compressed, and leaves the percentiles; `None` when there is none.
    ///
    /// # Errors
    /// When `hdr` is no histogram.
    pub(crate) fn take_histogram(&mut self) -> Result<Option<Vec<u8>>, NotAHistogram> {
        if self.hdr.is_empty() {
            return Ok(None);
        }
        let compressed = self.histogram()?.encode_compressed();
        self.hdr.clear();
        self.buckets.clear();
        Ok(Some(compressed))
    }

    /// Puts back what [`take_histogram`](Self::take_histogram) took out.
    ///
    /// # Errors
    /// When `compressed` is no histogram.
    pub(crate) fn put_histogram(&mut self, compressed: &[u8]) -> Result<(), NotAHistogram> {
        let histogram = Histogram::decode(compressed)?;
        self.buckets = buckets(&histogram);
        self.hdr = BASE64_STANDARD.encode(histogram.encode());
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
            buckets: buckets(h),
            hdr: BASE64_STANDARD.encode(h.encode()),
        }
    }
}
