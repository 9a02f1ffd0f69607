//! What belongs to a trial of several Testers: the slice of one of them, or all parts of a merged one.

use record::{PartOutcome, Trial};

use crate::view::{thousands, time_us};

/// Lines on the slice, the agreed start and the parts of a trial, as far as it has them.
pub(crate) fn lines(t: &Trial, line: &mut impl FnMut(&str, String)) {
    if !t.conditions.slice.is_whole() {
        line("slice", format!("{} of the load", t.conditions.slice));
    }
    if let Some(start) = &t.conditions.agreed_start {
        let side = if start.error_us < 0.0 { "before" } else { "after" };
        let clock = match start.clock_error_us {
            Some(error) => format!("the clock is right within {}", time_us(error)),
            None => "the clock was not checked".to_owned(),
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

/// Returns how the clock of a part's host went, if somebody compared it.
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
