//! Small records: the reduced form of an experiment's hundreds of trials.
//!
//! A trial that passed, or that had no goal, may represent its cell: what the page draws of one
//! trial is kept of it. A failed trial keeps its counts, percentiles and a rough course; a void
//! one, which says nothing about the server, no course.

use std::collections::BTreeSet;

use measure::histogram::NotAHistogram;

use crate::series::Series;
use crate::trial::Trial;

/// Most samples kept of a series, of all series together, and of a series of a trial that failed.
const MAX_SAMPLES: usize = 12;
const ALL_SAMPLES: usize = 120;
const FAILED_SAMPLES: usize = 2;
/// Most series kept of the parts of roles, such as `dut/nsd: server 1.user`; parts of the server
/// under test are removed first.
const MAX_PARTS: usize = 16;
/// Most spans and stalls kept of each kind, the first ones, of stalls the longest; in a trial that did not pass, which has many, and of
/// lost queries.
const MAX_DISTURBANCES: usize = 2;
const MAX_OF_FAILED: usize = 1;
/// Series of the server's resident memory, in bytes.
pub const RESIDENT: &str = "dut.resident";
/// Significant digits of a sample's value, and of shares and times of processors.
const SAMPLE_DIGITS: i32 = 3;
const CPU_DIGITS: i32 = 4;
/// Significant digits of the times in the histogram of latencies of a trial that may represent its cell, which are merged over
/// trials: right to 0.4 %; and of all others: right to 3 %.
const LATENCY_DIGITS: u8 = 2;
const OTHER_DIGITS: u8 = 1;

impl Trial {
    /// Reduces the record of the trial to 10 kB at most, usually to 4 kB: histograms in their
    /// coarse form (none of the times from sending to reply), evenly chosen samples of each series,
    /// a few disturbances of each kind. All counts of queries and all percentiles stay.
    ///
    /// # Errors
    /// If a histogram cannot be read.
    pub fn compact(&mut self) -> Result<(), NotAHistogram> {
        let (void, failed) = (self.void.is_void(), self.passed == Some(false));
        self.latency_from_send_us.hdr.clear();
        if void || failed {
            self.schedule_error_us.hdr.clear();
        }
        for (name, times) in self.distributions_mut() {
            let fine = name == "latency_us" && !(void || failed);
            times.coarsen(if fine { LATENCY_DIGITS } else { OTHER_DIGITS })?;
            for value in [&mut times.mean, &mut times.stdev] {
                *value = (*value * 1e3).round() / 1e3;
            }
        }
        self.compact_probes(void, failed);
        for cpu in self.cpu.values_mut() {
            for value in cpu.measured_mut() {
                *value = significant(*value, CPU_DIGITS);
            }
        }
        for auth in &mut self.authdns {
            for value in [&mut auth.busy, &mut auth.longest_stall_ms] {
                *value = significant(*value, CPU_DIGITS);
            }
        }
        let kept = &mut self.disturbances;
        let most = if void || failed { MAX_OF_FAILED } else { MAX_DISTURBANCES };
        kept.lost.truncate(MAX_OF_FAILED);
        kept.losses.truncate(most);
        kept.late.truncate(most);
        // The longest stalls are kept: they explain most losses.
        kept.stalls.sort_by_key(|stall| std::cmp::Reverse(stall.length));
        kept.stalls.truncate(most);
        // The list of watched cores describes the testbed, not the trial.
        kept.watched.clear();
        Ok(())
    }

    fn compact_probes(&mut self, void: bool, failed: bool) {
        if void {
            // Other processes that disturb a trial do not change the server's memory.
            self.probes.retain(|series| series.name == RESIDENT);
        }
        leave_out_parts(&mut self.probes);
        let each = (ALL_SAMPLES / self.probes.len().max(1)).clamp(2, MAX_SAMPLES);
        thin(&mut self.probes, if failed { FAILED_SAMPLES } else { each });
        self.probes.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

/// Leaves out the series of idle processes and threads of a role, and series beyond [`MAX_PARTS`].
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

/// Keeps the samples of all series at the same times, at most `most`, in hundredths of a second;
/// the last one is among them. A sample between two of these times belongs to the later one; if
/// there are several, the last stays. A value that never changes keeps its first and last sample.
fn thin(all: &mut [Series], most: usize) {
    let hundredths = |at: f64| (at * 100.0).round() as i64;
    let times: BTreeSet<i64> =
        all.iter().flat_map(|series| &series.samples).map(|sample| hundredths(sample.0)).collect();
    let times: Vec<i64> = times.into_iter().collect();
    let step = times.len().div_ceil(most).max(1);
    let mut rows: Vec<i64> = times.rchunks(step).filter_map(<[_]>::last).copied().collect();
    rows.reverse();
    for series in all {
        let mut kept: Vec<(i64, f64)> = Vec::new();
        for (at, value) in &series.samples {
            let at = hundredths(*at);
            let row = rows[rows.partition_point(|row| *row < at)];
            let value = significant(*value, SAMPLE_DIGITS);
            match kept.last_mut() {
                Some(last) if last.0 == row => last.1 = value,
                _ => kept.push((row, value)),
            }
        }
        if kept.len() > 2 && kept.iter().all(|sample| sample.1 == kept[0].1) {
            kept.drain(1..kept.len() - 1);
        }
        series.samples = kept.into_iter().map(|(row, value)| (row as f64 / 100.0, value)).collect();
    }
}

/// Returns the value with `digits` significant digits.
pub(crate) fn significant(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let power = digits - 1 - value.abs().log10().floor() as i32;
    let scale = 10f64.powi(power.abs());
    if power >= 0 { (value * scale).round() / scale } else { (value / scale).round() * scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_chosen_evenly_and_rounded() {
        let samples = |n: usize| (1..=n).map(|i| (i as f64 * 0.2501, i as f64 * 1.23456)).collect();
        let thinned = |samples: Vec<Vec<(f64, f64)>>, most| {
            let mut all: Vec<Series> = samples
                .into_iter()
                .map(|samples| Series { samples, ..Series::default() })
                .collect();
            thin(&mut all, most);
            all.into_iter().map(|series| series.samples).collect::<Vec<_>>()
        };
        let short = thinned(vec![samples(3)], MAX_SAMPLES);
        assert_eq!(short, [[(0.25, 1.23), (0.5, 2.47), (0.75, 3.7)]]);
        let long = &thinned(vec![samples(240)], MAX_SAMPLES)[0];
        let gaps: Vec<_> = long.windows(2).map(|two| (two[1].0 - two[0].0).round()).collect();
        assert_eq!((long.len(), gaps), (MAX_SAMPLES, vec![5.0; MAX_SAMPLES - 1]));
        assert_eq!(long.last(), Some(&(60.02, 296.0)));
        let still = (1..=9).map(|i| (f64::from(i), 7.0)).collect();
        assert_eq!(thinned(vec![still], MAX_SAMPLES), [[(1.0, 7.0), (9.0, 7.0)]]);
        assert!(thinned(vec![vec![]], MAX_SAMPLES)[0].is_empty());
        // Series that were sampled at other times share the rows.
        let both = thinned(vec![samples(8), vec![(0.5, 1.0), (1.3, 2.0)], vec![(2.0, 3.0)]], 2);
        assert_eq!(both[0].iter().map(|sample| sample.0).collect::<Vec<_>>(), [1.0, 2.0]);
        assert_eq!(both[1..], [vec![(1.0, 1.0), (2.0, 2.0)], vec![(2.0, 3.0)]]);
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
            assert!(
                (significant(value, SAMPLE_DIGITS) - wanted).abs() <= wanted.abs() * 1e-9,
                "{value}"
            );
        }
    }

    #[test]
    fn a_void_trial_keeps_the_memory_of_its_server() {
        let series = |name: &str| Series {
            name: name.into(),
            samples: vec![(0.1, 1e6), (0.2, 2e6)],
            ..Series::default()
        };
        let mut trial =
            Trial { probes: vec![series(RESIDENT), series("dut.user")], ..Trial::default() };
        trial.void = crate::trial::Voidness(Some(measure::Void::Interrupted));
        trial.compact().expect("histograms");
        assert_eq!(trial.probes.len(), 1, "{:?}", trial.probes);
        assert_eq!(trial.probes[0].name, RESIDENT);
    }
}
