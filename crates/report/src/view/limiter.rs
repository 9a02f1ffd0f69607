//! Limiters in words, and the proofs of searches' limiters.

use measure::Limiter;
use record::{Capacity, CellRecord, Seen, TrialRecord};

use super::table::by_key;

/// Largest number of different proofs that are listed; the record has all.
const MAX_PROOFS: usize = 3;

/// Returns a limiter in words.
pub(crate) fn limiter_name(limiter: Limiter) -> &'static str {
    match limiter {
        Limiter::Dut => "the server",
        Limiter::Target => "the server or the way to it",
        Limiter::TesterCpu => "the Tester’s CPU",
        Limiter::TesterSchedule => "the Tester’s schedule",
        Limiter::TesterDrops => "the Tester’s receive queue",
        Limiter::TesterClients => "the load’s own number of clients",
        Limiter::TesterInput => "the pipe of the queries",
        Limiter::AuthDns => "the AuthDNS",
        Limiter::Link => "a link",
        Limiter::Offered => "nothing: all was answered",
        Limiter::SearchBound => "the search’s upper bound",
        Limiter::Unknown => "not known",
    }
}

/// Returns the limiter of every repeat of a cell, or the number of repeats of each limiter, in
/// words: "the server", "1 of 2 searches: the server, 1 of 2: a link".
pub(crate) fn limiter_names(cell: &CellRecord) -> String {
    if lacks_cpu(cell) {
        return "other processes".to_owned();
    }
    let limiters = cell.limiters();
    match limiters.common() {
        Some(limiter) => limiter_name(limiter).to_owned(),
        None => limiters.words(|limiter| limiter_name(limiter).to_owned()),
    }
}

/// Returns whether a capacity is a lower bound because other processes used the server's cores.
pub(crate) fn lacks_cpu(cell: &CellRecord) -> bool {
    let others = |seen: &Seen| matches!(seen, Seen::Others(_));
    cell.capacity.as_ref().is_some_and(|found| found.exceeded && found.seen.iter().any(others))
}

/// Returns the proofs of the limiters of a cell's searches, each sentence once; for an unknown
/// limiter, the missing evidence.
pub(crate) fn proofs(cell: &CellRecord) -> Vec<String> {
    let proof = |(repeat, capacity): (u32, &Capacity)| {
        Some((proof_of(cell, repeat, capacity)?, (repeat + 1).to_string()))
    };
    let said = by_key(cell.searches().filter_map(proof));
    let left = said.len().saturating_sub(MAX_PROOFS);
    let one = |(proof, searches): &(String, Vec<String>)| match searches[..] {
        [_] if cell.repeats == 1 => proof.clone(),
        [_] => format!("{proof} (search {})", searches[0]),
        _ => format!("{proof} (searches {})", searches.join(", ")),
    };
    let mut out: Vec<String> = said.iter().take(MAX_PROOFS).map(one).collect();
    if left > 0 {
        out.push(format!("{left} more in the table of trials"));
    }
    out
}

/// Returns the proof of the limiter of a cell without searches, by the last trial that had it, as words.
pub(crate) fn last_proof(cell: &CellRecord) -> Option<String> {
    let limiter = cell.limiters().common().unwrap_or(cell.limiter);
    let has_it = |t: &&TrialRecord| !t.trial.void.is_void() && t.trial.limiter == limiter;
    let last = cell.trials.iter().rfind(has_it)?;
    let proof = last.trial.limiter_proof.as_ref()?;
    Some(format!("limiter in repeat {}: {proof}", last.repeat + 1))
}

/// Returns the differences of a cell from RFC 8219 in one line, if it has any.
pub(crate) fn differences(cell: &CellRecord) -> Option<String> {
    let whats = &cell.differs;
    (!whats.is_empty()).then(|| format!("differs from RFC 8219: {}", whats.join("; ")))
}

/// Returns the proof of a search's limiter in `capacity`.
fn proof_of(cell: &CellRecord, repeat: u32, capacity: &Capacity) -> Option<String> {
    let here = |t: &&TrialRecord| t.repeat == repeat && t.trial.limiter == capacity.limiter;
    let trials = || cell.trials.iter().filter(here);
    let failed =
        |t: &&TrialRecord| !t.trial.void.is_void() && capacity.failed_qps == Some(t.rate_qps);
    let proof = trials().filter(failed).find_map(|t| t.trial.limiter_proof.as_ref());
    let last = cell.trials.iter().rfind(|t| t.repeat == repeat);
    let below = |t: &&TrialRecord| capacity.failed_qps.is_none_or(|failed| t.rate_qps < failed);
    let ended_by = last.filter(below).and_then(|t| t.trial.void.0.as_ref());
    match (capacity.limiter, proof, ended_by) {
        (_, Some(proof), _) => Some(proof.to_string()),
        (Limiter::Offered | Limiter::SearchBound, None, _) => None,
        // A disturbance of the server or its core is no limiter, but ended the search.
        (Limiter::Unknown, None, Some(void)) => Some(void.to_string()),
        (Limiter::Unknown, None, None) => {
            capacity.failed_qps.map(|_| "no single limiter was proven".to_owned())
        }
        // A void trial shows that the Tester was at its limit.
        (_, None, _) => Some(trials().find_map(|t| t.trial.void.0.as_ref())?.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use measure::Void;
    use record::{Trial, Voidness};

    use super::*;

    fn cell(limiters: &[Limiter]) -> CellRecord {
        let mut cell = CellRecord::new("nsd", BTreeMap::new(), "search");
        for limiter in limiters {
            cell.repeats += 1;
            let (qps, failed_qps) = (Some(1e4), Some(2e4));
            let limiter = *limiter;
            cell.capacities.push(Capacity { qps, failed_qps, limiter, ..Capacity::default() });
        }
        cell
    }

    #[test]
    fn a_search_that_a_disturbance_ended_says_so() {
        let mut cell = cell(&[Limiter::Unknown, Limiter::Unknown]);
        let trial = crate::tests::trial();
        // The second search ended at 20,000, which had failed before.
        for (repeat, rate_qps) in [(0, 1.5e4), (1, 2e4)] {
            let void = Voidness(Some(Void::SlowCore { share: 0.19 }));
            let trial = Trial { void, limiter: Limiter::Unknown, ..trial.clone() };
            cell.trials.push(TrialRecord { repeat, rate_qps, trial });
        }
        let said = proofs(&cell);
        let slow = "the server's core was 19 % slower than at its best (search 1)";
        assert_eq!(said, [slow, "no single limiter was proven (search 2)"]);
    }

    #[test]
    fn an_unknown_limiter_says_what_is_missing() {
        let said = proofs(&cell(&[Limiter::Unknown, Limiter::Unknown]));
        assert_eq!(said, ["no single limiter was proven (searches 1, 2)"]);
        assert!(proofs(&cell(&[Limiter::SearchBound])).is_empty());
    }
}
