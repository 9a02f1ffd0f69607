//! Check that the parts are all the slices of one load.

use measure::{Pacing, Slice};

use super::part::{LostPart, MergeError, Part};
use crate::trial::{Conditions, Trial};

/// Largest share by which the durations of two parts may differ.
const DURATION_ERROR: f64 = 0.01;
/// Standard deviations by which two numbers that were drawn may differ; once in 10^9 pairs it is more.
const DEVIATIONS: f64 = 6.0;

/// Checks that `parts`, sorted by slice, are with the `lost` ones all slices of one load, each once.
pub(super) fn check(parts: &[Part], lost: &[LostPart]) -> Result<(), MergeError> {
    let Some(first) = parts.first() else { return Err(MergeError::NoParts) };
    for part in parts {
        if part.trial.merged.is_some() {
            return Err(MergeError::MergedAlready(part.name.clone()));
        }
        if part.slice().is_whole() && parts.len() > 1 {
            return Err(MergeError::Whole(part.name.clone()));
        }
        if let Some((what, a, b)) = difference(&first.trial, &part.trial) {
            let (first, second) = (first.name.clone(), part.name.clone());
            return Err(MergeError::Unlike { first, second, what, a, b });
        }
    }
    if let Some([a, b]) = parts.windows(2).find_map(|pair| match pair {
        [a, b] if a.slice() == b.slice() => Some([a, b]),
        _ => None,
    }) {
        let (first, second) = (a.name.clone(), b.name.clone());
        return Err(MergeError::Twice { slice: a.slice(), first, second });
    }
    let of = first.slice().of();
    let given = |slice: &Slice| {
        parts.iter().any(|part| part.slice() == *slice) || lost.iter().any(|l| l.slice == *slice)
    };
    let all = (1..=of).filter_map(|number| Slice::new(number, of));
    let missing: Vec<String> =
        all.filter(|slice| !given(slice)).map(|slice| slice.to_string()).collect();
    if missing.is_empty() { Ok(()) } else { Err(MergeError::Missing { of, missing }) }
}

/// Returns a condition in which two parts of one load cannot differ, with its values.
fn difference(a: &Trial, b: &Trial) -> Option<(&'static str, String, String)> {
    let (x, y) = (&a.conditions, &b.conditions);
    let start = |c: &Conditions| {
        c.agreed_start.map_or("without --start-at".to_owned(), |start| start.at.to_string())
    };
    let engine = |c: &Conditions| c.engine.map_or(String::new(), |engine| engine.to_string());
    let link = |c: &Conditions| c.link.map_or(String::new(), |link| link.to_string());
    let path = |c: &Conditions| c.path.map_or(String::new(), |path| path.to_string());
    let texts = [
        ("number of slices", x.slice.of().to_string(), y.slice.of().to_string()),
        ("version", x.version.clone(), y.version.clone()),
        ("target", x.target.clone(), y.target.clone()),
        ("transport", x.transport.clone(), y.transport.clone()),
        ("engine", engine(x), engine(y)),
        ("workload", x.workload.clone(), y.workload.clone()),
        ("names", x.names.clone(), y.names.clone()),
        ("pacing", x.pacing.to_string(), y.pacing.to_string()),
        ("timeout in seconds", x.timeout_s.to_string(), y.timeout_s.to_string()),
        ("burst in microseconds", x.max_burst_us.to_string(), y.max_burst_us.to_string()),
        ("segmentation offload", x.gso.to_string(), y.gso.to_string()),
        ("seed", x.seed.to_string(), y.seed.to_string()),
        ("start", start(x), start(y)),
        ("link", link(x), link(y)),
        ("path", path(x), path(y)),
        ("length of steps in seconds", step_length(a), step_length(b)),
    ];
    let found = texts.into_iter().find(|(_, a, b)| a != b);
    found.or_else(|| unlike_duration(a, b)).or_else(|| unlike_number(a, b))
}

fn step_length(trial: &Trial) -> String {
    trial.steps.as_ref().map_or("none".to_owned(), |steps| steps.length_s.to_string())
}

/// Durations that differ though both parts were sent to their end.
fn unlike_duration(a: &Trial, b: &Trial) -> Option<(&'static str, String, String)> {
    // The duration of a lock-step load depends on the server.
    let timed = |trial: &Trial| trial.conditions.pacing.get().is_none_or(Pacing::is_timed);
    let whole = |trial: &Trial| timed(trial) && !trial.stopped_early && !trial.void.is_void();
    let differ = (a.duration_s - b.duration_s).abs() > DURATION_ERROR * a.duration_s;
    let seconds = |trial: &Trial| trial.duration_s.to_string();
    (whole(a) && whole(b) && differ).then(|| ("duration in seconds", seconds(a), seconds(b)))
}

/// Numbers that differ by more than the rounding of each worker, and by more than chance if they
/// were drawn: of planned queries, or numbers of clients that replay their own queries, since one
/// client may have many more queries than another.
fn unlike_number(a: &Trial, b: &Trial) -> Option<(&'static str, String, String)> {
    let drawn = matches!(a.conditions.pacing.get(), Some(Pacing::Poisson { .. }));
    let chance = if drawn { DEVIATIONS * ((a.planned + b.planned) as f64).sqrt() } else { 0.0 };
    let rounded = (a.conditions.workers + b.conditions.workers) as u64 + chance as u64;
    let (what, a, b) = match (replayed_clients(a), replayed_clients(b)) {
        (Some(a), Some(b)) => ("clients", a, b),
        _ => ("planned queries", a.planned, b.planned),
    };
    (a.abs_diff(b) > rounded).then(|| (what, a.to_string(), b.to_string()))
}

/// Returns the number of clients that replay the queries of a recording, each its own; `None` for other loads.
fn replayed_clients(trial: &Trial) -> Option<u64> {
    // Only a replay has no pacing.
    let is_replay = trial.conditions.pacing.get().is_none();
    trial.connections.as_ref().filter(|_| is_replay).map(|connections| connections.clients.into())
}
