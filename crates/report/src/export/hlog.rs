//! The latencies of each trial as an interval log of HdrHistogram.

use std::io::{self, Write};
use std::time::Duration;

use measure::histogram::{LoggedInterval, write_interval_log};
use record::Run;

use crate::view::cell_name;

/// Writes the latencies of each valid trial that has its histogram: its tag is the cell and the offered rate.
///
/// # Errors
/// The errors of `out`.
pub fn hlog(run: &Run, out: impl Write) -> io::Result<()> {
    let began = run.plan.started_unix_s.max(0.0);
    let mut intervals = Vec::new();
    for cell in &run.results {
        for trial in cell.trials.iter().filter(|trial| !trial.trial.void.is_void()) {
            let times = &trial.trial.latency_us;
            let Ok(histogram) = times.histogram() else { continue };
            let since =
                trial.trial.conditions.started_unix_s.map_or(0.0, |at| (at - began).max(0.0));
            intervals.push(LoggedInterval {
                tag: format!("{} {:.0} {}", cell_name(cell), trial.rate_qps, cell.capacity_unit()),
                start: Duration::from_secs_f64(since),
                length: Duration::from_secs_f64(trial.trial.duration_s.max(0.0)),
                histogram,
            });
        }
    }
    let comment = format!("latency from due to reply, nanoseconds: {}", run.plan.command);
    write_interval_log(out, &comment, Duration::from_secs_f64(began), &intervals)
}
