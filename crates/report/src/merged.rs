//! Parts of the report for trials of several Testers: the slice of one of them, all parts of a
//! merged one, and each Tester's share of a run.

use record::{Merged, PartOutcome, Run, Trial};

use crate::view::number::counted;
use crate::view::table::by_key;
use crate::view::{thousands, time_us};

/// Work of one of several Testers in a run.
#[derive(Clone, Debug, Default)]
struct Share {
    trials: usize,
    void: usize,
    sent: u64,
    bad: u64,
    /// Largest values of all trials: 99th percentile of the schedule errors, busy share of its cores, offset of its clock.
    schedule_error_us: f64,
    busy: f64,
    clock_us: Option<f64>,
}

impl Share {
    /// Adds a part of a trial, void or not: a rate that was met counts, even if its parts left
    /// unevenly.
    fn add(&mut self, part: &PartOutcome, is_void: bool) {
        self.trials += 1;
        self.void += usize::from(is_void && part.void.is_void());
        self.sent += part.sent;
        self.bad += part.bad;
        self.schedule_error_us = self.schedule_error_us.max(part.schedule_error_p99_us);
        self.busy = self.busy.max(part.busy);
        let clock = part.clock.map(|clock| clock.offset_us.abs());
        self.clock_us = self.clock_us.into_iter().chain(clock).reduce(f64::max);
    }

    fn line(&self, name: &str) -> String {
        let clock = self.clock_us.map_or(String::new(), |us| {
            format!(", its clock up to {} from the conductor's", time_us(us))
        });
        let void = match self.void {
            0 => String::new(),
            some => format!("; {} void by its part", counted(some, "trial is", "trials are")),
        };
        format!(
            "{name}: {}, {} queries sent, {} without a valid reply, schedule error p99 up to {}, cores up to {:.0} % busy{clock}{void}",
            counted(self.trials, "trial", "trials"),
            thousands(self.sent as f64),
            thousands(self.bad as f64),
            time_us(self.schedule_error_us),
            self.busy * 100.0
        )
    }
}

/// Returns a line about each of the Testers that shared the trials of a run and its self-test, and
/// a line about their starts; empty for one Tester.
pub(crate) fn testers(run: &Run) -> Vec<String> {
    let tests = run.results.iter().filter_map(|cell| cell.certificate.as_ref());
    let tests = tests.flat_map(|certificate| &certificate.trials);
    let trials = tests.chain(run.results.iter().flat_map(|cell| &cell.trials));
    let all = trials.filter_map(|one| Some((one.trial.merged.as_ref()?, one.trial.void.is_void())));
    let all: Vec<(&Merged, bool)> = all.collect();
    let parts = all.iter().flat_map(|(merged, void)| {
        merged.parts.iter().map(|part| (part.name.as_str(), (part, *void)))
    });
    let line = |(name, parts): (&str, Vec<(&PartOutcome, bool)>)| {
        let mut share = Share::default();
        parts.into_iter().for_each(|(part, is_void)| share.add(part, is_void));
        share.line(name)
    };
    let mut lines: Vec<String> = by_key(parts).into_iter().map(line).collect();
    let spread = all.iter().map(|(merged, _)| merged.start_spread_us).reduce(f64::max);
    lines.extend(spread.map(|us| {
        format!("Testers started up to {} apart, errors of their clocks included", time_us(us))
    }));
    lines
}

/// Lines on the slice, the agreed start and the parts of a trial, if the trial has them.
pub(crate) fn lines(t: &Trial, line: &mut impl FnMut(&str, String)) {
    if !t.conditions.slice.is_whole() {
        line("slice", format!("{} of the load", t.conditions.slice));
    }
    if let Some(start) = &t.conditions.agreed_start {
        let side = if start.error_us < 0.0 { "before" } else { "after" };
        let clock = match start.clock_error_us {
            Some(error) => format!("its clock is right within {}", time_us(error)),
            None => "its clock was not checked".to_owned(),
        };
        line(
            "agreed start",
            format!("{} {side} {}, {clock}", time_us(start.error_us.abs()), start.at),
        );
    }
    let Some(merged) = &t.merged else { return };
    line(
        "starts",
        format!(
            "up to {} apart, {} allowed",
            time_us(merged.start_spread_us),
            time_us(merged.start_bound_us)
        ),
    );
    for one in &merged.parts {
        line(&format!("part {}", one.slice), part(one));
    }
}

/// Returns the offset of the clock of a part's host, if it was compared.
fn clock(part: &PartOutcome) -> String {
    part.clock.map_or(String::new(), |clock| {
        let side = if clock.offset_us < 0.0 { "behind" } else { "ahead" };
        format!(
            ", its clock {} {side} (within {}), drift {:+.1} ppm",
            time_us(clock.offset_us.abs()),
            time_us(clock.offset_error_us),
            clock.drift_ppm
        )
    })
}

fn part(part: &PartOutcome) -> String {
    if part.command.is_empty() {
        let why = part.void.0.as_ref().map_or(String::new(), ToString::to_string);
        return format!("{}: no trial: {why}", part.name);
    }
    let void = part.void.0.as_ref().map_or(String::new(), |why| format!(", VOID: {why}"));
    format!(
        "{}: {} sent, {} valid, started at +{}, schedule error p99 {}, cores {:.0} % busy{}{void}",
        part.name,
        thousands(part.sent as f64),
        thousands(part.valid as f64),
        time_us(part.start_us),
        time_us(part.schedule_error_p99_us),
        part.busy * 100.0,
        clock(part)
    )
}

#[cfg(test)]
mod tests {
    use measure::Void;
    use record::{CellRecord, PartClock, TrialRecord, Voidness};

    use super::*;

    fn part(name: &str, sent: u64, offset_us: f64, void: Option<Void>) -> PartOutcome {
        let clock = PartClock { offset_us, drift_ppm: 0.0, offset_error_us: 1.0 };
        PartOutcome {
            name: name.to_owned(),
            sent,
            valid: sent - 1,
            bad: 1,
            schedule_error_p99_us: sent as f64,
            busy: 0.25,
            clock: Some(clock),
            void: Voidness(void),
            ..PartOutcome::default()
        }
    }

    #[test]
    fn each_tester_has_a_line() {
        let trial = crate::tests::trial();
        let merged = |start_spread_us, parts: [PartOutcome; 2]| {
            let merged = Merged { start_spread_us, start_bound_us: 100.0, parts: parts.into() };
            let void = Voidness((start_spread_us > 8.0).then_some(Void::Interrupted));
            let trial = Trial { merged: Some(merged), void, ..trial.clone() };
            TrialRecord { repeat: 0, rate_qps: 1.0, trial }
        };
        let mut cell = CellRecord::new("unbound", Default::default(), "search");
        let alone = Run { results: vec![cell.clone()], ..Run::default() };
        assert!(testers(&alone).is_empty());
        cell.trials = vec![
            merged(
                7.0,
                [
                    part("rank 1", 1_000, -3.0, None),
                    part("rank 2", 999, 2.0, Some(Void::Interrupted)),
                ],
            ),
            merged(
                9.0,
                [
                    part("rank 1", 500, 2.0, None),
                    part("rank 2", 499, -5.0, Some(Void::Interrupted)),
                ],
            ),
        ];
        let lines = testers(&Run { results: vec![cell], ..Run::default() });
        assert!(
            lines[0].starts_with("rank 1: 2 trials, 1,500 queries sent, 2 without"),
            "{lines:?}"
        );
        assert!(
            lines[1].contains("up to 5") && lines[1].ends_with("; 1 trial is void by its part"),
            "{lines:?}"
        );
        assert!(lines[2].contains("up to 9") && lines.len() == 3, "{lines:?}");
    }
}
