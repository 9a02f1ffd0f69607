//! Small records: what the trials of an experiment keep, of which it has hundreds.

use measure::histogram::NotAHistogram;

use crate::series::Series;
use crate::trial::Trial;

/// Most samples kept of a series, and of all series together.
const MAX_SAMPLES: usize = 12;
const ALL_SAMPLES: usize = 160;
/// Most series kept of the parts of roles, such as `dut/nsd: server 1.user`; those of the server under test go first.
const MAX_PARTS: usize = 16;
/// Most lost queries, spans and stalls kept of each kind: the first ones, of stalls the longest.
const MAX_DISTURBANCES: usize = 4;
/// Significant digits of a sample's value.
const DIGITS: i32 = 3;
/// Significant bits of the times in the histogram of latencies, which are merged over trials: right to 0.4 %.
const LATENCY_BITS: u32 = 8;
/// Significant bits of all other times: right to 3 %.
const OTHER_BITS: u32 = 5;

impl Trial {
    /// Reduces what is kept of the trial to 10 kB at most: histograms to their coarse form, without that of the times from sent to
    /// reply, of each series evenly chosen samples, a few disturbances of each kind. All counts of queries and all percentiles stay.
    ///
    /// # Errors
    /// If a histogram cannot be read.
    pub fn compact(&mut self) -> Result<(), NotAHistogram> {
        self.latency_from_send_us.hdr.clear();
        for (name, times) in self.distributions_mut() {
            if !times.hdr.is_empty() {
                times.coarsen(if name == "latency_us" { LATENCY_BITS } else { OTHER_BITS })?;
            }
        }
        leave_out_parts(&mut self.probes);
        let most = (ALL_SAMPLES / self.probes.len().max(1)).clamp(2, MAX_SAMPLES);
        self.probes.iter_mut().for_each(|series| thin(series, most));
        self.probes.sort_by(|a, b| a.name.cmp(&b.name));
        let kept = &mut self.disturbances;
        kept.lost.truncate(MAX_DISTURBANCES);
        kept.losses.truncate(MAX_DISTURBANCES);
        kept.late.truncate(MAX_DISTURBANCES);
        // The longest ones say most.
        kept.stalls.sort_by_key(|stall| std::cmp::Reverse(stall.length));
        kept.stalls.truncate(MAX_DISTURBANCES);
        Ok(())
    }
}

/// Leaves out the series of processes and threads of a role that did nothing, and those beyond [`MAX_PARTS`].
fn leave_out_parts(probes: &mut Vec<Series>) {
    let is_part = |series: &Series| series.name.contains('/');
    let moves = |series: &Series| series.samples.iter().any(|sample| sample.1 != 0.0);
    probes.retain(|series| !is_part(series) || moves(series));
    let (mut parts, mut kept): (Vec<_>, Vec<_>) = probes.drain(..).partition(is_part);
    parts.sort_by_key(|series| !series.name.starts_with("dut/"));
    parts.truncate(MAX_PARTS);
    kept.append(&mut parts);
    *probes = kept;
}

/// Keeps at most `most` samples, the last one among them, with times in hundredths of a second; of a value that never
/// changes the first and the last one.
fn thin(series: &mut Series, most: usize) {
    let step = series.samples.len().div_ceil(most).max(1);
    let kept = series.samples.rchunks(step).filter_map(<[_]>::last);
    let mut kept: Vec<_> =
        kept.map(|&(at, value)| (round_to(at, 0.01), significant(value))).collect();
    kept.reverse();
    if kept.len() > 2 && kept.iter().all(|sample| sample.1 == kept[0].1) {
        kept.drain(1..kept.len() - 1);
    }
    series.samples = kept;
}

fn round_to(value: f64, unit: f64) -> f64 {
    (value / unit).round() / (1.0 / unit)
}

/// Returns the value with [`DIGITS`] significant digits.
fn significant(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let power = DIGITS - 1 - value.abs().log10().floor() as i32;
    let scale = 10f64.powi(power.abs());
    if power >= 0 { (value * scale).round() / scale } else { (value / scale).round() * scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_chosen_evenly_and_rounded() {
        let samples = |n: usize| (1..=n).map(|i| (i as f64 * 0.2501, i as f64 * 1.23456)).collect();
        let mut short = Series { samples: samples(3), ..Series::default() };
        thin(&mut short, MAX_SAMPLES);
        assert_eq!(short.samples, [(0.25, 1.23), (0.5, 2.47), (0.75, 3.7)]);
        let mut long = Series { samples: samples(240), ..Series::default() };
        thin(&mut long, MAX_SAMPLES);
        let gaps: Vec<_> =
            long.samples.windows(2).map(|two| (two[1].0 - two[0].0).round()).collect();
        assert_eq!((long.samples.len(), gaps), (MAX_SAMPLES, vec![5.0; MAX_SAMPLES - 1]));
        assert_eq!(long.samples.last(), Some(&(60.02, 296.0)));
        let still = (1..=9).map(|i| (f64::from(i), 7.0)).collect();
        let mut still = Series { samples: still, ..Series::default() };
        thin(&mut still, MAX_SAMPLES);
        assert_eq!(still.samples, [(1.0, 7.0), (9.0, 7.0)]);
        let mut empty = Series::default();
        thin(&mut empty, MAX_SAMPLES);
        assert_eq!(empty.samples, []);
    }

    #[test]
    fn parts_that_do_nothing_are_left_out() {
        let series = |name: String, value: f64| Series {
            name,
            samples: vec![(1.0, 0.0), (2.0, value)],
            ..Series::default()
        };
        let mut probes =
            vec![series("dut.drops".into(), 0.0), series("dut/nsd: xfrd.user".into(), 0.0)];
        probes.extend((0..MAX_PARTS).map(|i| series(format!("authdns/nsd: {i}.user"), 1.0)));
        probes.push(series("dut/nsd: server 1.user".into(), 1.0));
        leave_out_parts(&mut probes);
        let names: Vec<&str> = probes.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names[..2], ["dut.drops", "dut/nsd: server 1.user"]);
        assert_eq!(names.len(), 1 + MAX_PARTS);
    }

    #[test]
    fn values_keep_three_digits() {
        for (value, wanted) in [
            (0.0, 0.0),
            (13_168_640.0, 13_200_000.0),
            (-0.000_123_456, -0.000_123),
            (999.9, 1_000.0),
        ] {
            assert!((significant(value) - wanted).abs() <= wanted.abs() * 1e-9, "{value}");
        }
    }
}
