//! A trial by steps: the answers against the offered rate, and the maximum, as resperf reports a ramp.

use std::fmt::Write;

use record::{Step, Steps, Trial};

use crate::view::{Align, align, thousands, time_us};

/// The step of a trial with the most answers a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Maximum {
    /// Valid answers a second in the step, at most the queries sent in it: after a stall late answers are added.
    pub answered_qps: f64,
    /// Queries sent a second in the step.
    pub sent_qps: f64,
    /// Queries of the step without a reply in time, in percent.
    pub lost_percent: f64,
}

/// Returns the queries of a step without a reply in time, in percent.
fn lost_percent(step: &Step) -> f64 {
    let lost = step.lost.unwrap_or(step.sent.saturating_sub(step.answered));
    100.0 * lost as f64 / step.sent.max(1) as f64
}

/// Returns the step with the most answers before the first one that lost more than `most_lost`
/// percent of its queries; `None` if no query was answered in it.
pub fn maximum(steps: &Steps, most_lost: f64) -> Option<Maximum> {
    let before = steps.steps.iter().take_while(|step| lost_percent(step) <= most_lost);
    let kept_up = |step: &Step| step.answered.min(step.sent);
    // The first of several.
    let best = before.fold(None, |best: Option<&Step>, step| match best {
        Some(best) if kept_up(best) >= kept_up(step) => Some(best),
        _ => Some(step),
    });
    best.filter(|step| kept_up(step) > 0).map(|step| Maximum {
        answered_qps: kept_up(step) as f64 / steps.length_s,
        sent_qps: step.sent as f64 / steps.length_s,
        lost_percent: lost_percent(step),
    })
}

/// Formats the steps of a trial as a table, with the maximum below it unless the trial is void; empty without steps.
pub fn steps(trial: &Trial) -> String {
    let Some(steps) = &trial.steps else { return String::new() };
    let head = ["from", "planned", "sent", "answered", "failed", "lost", "mean latency"];
    let rate = |count: u64| thousands(count as f64 / steps.length_s);
    let rows = steps.steps.iter().enumerate().map(|(number, step)| {
        [
            format!("{:.3} s", number as f64 * steps.length_s),
            step.target_qps.map_or_else(|| "-".to_owned(), |qps| format!("{}/s", thousands(qps))),
            format!("{}/s", rate(step.sent)),
            format!("{}/s", rate(step.answered)),
            format!("{}/s", rate(step.failed)),
            format!("{:.2} %", lost_percent(step)),
            if step.answered > 0 { time_us(step.latency_us) } else { "-".to_owned() },
        ]
    });
    let rows: Vec<[String; 7]> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let mut out = align(&rows, &[Align::Right]);
    if let Some(max) = maximum(steps, 100.0).filter(|_| !trial.void.is_void()) {
        let _ = writeln!(
            out,
            "maximum         {} answered/s of {} sent/s ({:.2} % lost there)",
            thousands(max.answered_qps),
            thousands(max.sent_qps),
            max.lost_percent
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_is_before_the_loss() {
        let step = |sent, answered| Step {
            sent,
            answered,
            lost: Some(sent - answered),
            ..Step::default()
        };
        let steps = Steps {
            length_s: 0.5,
            steps: vec![step(0, 0), step(100, 100), step(200, 190), step(300, 150), step(400, 390)],
        };
        let of = |most| maximum(&steps, most).map(|max| (max.answered_qps, max.lost_percent));
        assert_eq!(of(100.0), Some((780.0, 2.5)));
        assert_eq!(of(10.0), Some((380.0, 5.0)));
        assert_eq!(of(0.0), Some((200.0, 0.0)));
        assert_eq!(maximum(&Steps { length_s: 1.0, steps: vec![step(9, 0)] }, 100.0), None);
        // Answers of the step before, after a stall.
        let late = Step { sent: 90, answered: 130, lost: Some(0), ..Step::default() };
        let stalled = Steps { length_s: 1.0, steps: vec![step(100, 100), late] };
        assert_eq!(maximum(&stalled, 100.0).map(|max| max.answered_qps), Some(100.0));
        let mut trial = Trial { steps: Some(stalled), ..Trial::default() };
        assert!(super::steps(&trial).contains("\nmaximum  "));
        trial.void.0 = Some(measure::Void::Interrupted);
        assert!(!super::steps(&trial).contains("maximum"));
    }
}
