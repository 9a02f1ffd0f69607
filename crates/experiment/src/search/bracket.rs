//! The rates that a search has found so far, and their verdict on the capacity.

use measure::Limiter;
use record::Capacity;

/// Bracket of rates that a search has found so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Bracket {
    /// Highest rate that has passed so far.
    pub(super) passed: Option<f64>,
    /// Failing rates above it with their limiters, highest first: if the lowest one passes in a
    /// retry, the others still bound the search.
    pub(super) failures: Vec<(f64, Limiter)>,
    /// Rates above it whose trials stayed void with their limiters, highest first.
    pub(super) voids: Vec<(f64, Limiter)>,
}

impl Bracket {
    /// Adds a rate that passed. Removes failed and void rates up to it, which were disturbed;
    /// returns whether there were any.
    pub(super) fn pass(&mut self, rate: f64) -> bool {
        let missed = self.failures.len() + self.voids.len();
        self.passed = Some(rate);
        self.failures.retain(|(failed, _)| *failed > rate);
        self.voids.retain(|(void, _)| *void > rate);
        self.failures.len() + self.voids.len() != missed
    }

    /// Adds a rate that failed; it must be the lowest so far.
    pub(super) fn fail(&mut self, rate: f64, limiter: Limiter) {
        self.failures.retain(|(failed, _)| *failed > rate);
        self.failures.push((rate, limiter));
    }

    /// Returns the lowest failing rate, and its limiter.
    pub(super) fn failed(&self) -> Option<(f64, Limiter)> {
        self.failures.last().copied()
    }

    /// Adds a rate whose trials stayed void by the Tester; it must be the lowest so far.
    pub(super) fn add_void(&mut self, rate: f64, limiter: Limiter) {
        self.voids.retain(|(void, _)| *void > rate);
        self.voids.push((rate, limiter));
    }

    /// Returns the lowest rate whose trials stayed void by the Tester, and its limiter.
    pub(super) fn void(&self) -> Option<(f64, Limiter)> {
        self.voids.last().copied()
    }

    /// Returns the upper end: the lowest rate that failed, or whose trials stayed void.
    pub(super) fn end(&self) -> Option<f64> {
        let ends = self.failed().into_iter().chain(self.void());
        ends.map(|(rate, _)| rate).reduce(f64::min)
    }

    /// Converts the bracket to a capacity for the record; `min` is the lowest rate of the search.
    pub(super) fn verdict(&self, min: f64) -> Capacity {
        let failed_qps = self.failed().map(|(rate, _)| rate);
        let capacity = |at_least, limiter, verdict| Capacity {
            qps: self.passed,
            failed_qps,
            at_least,
            limiter,
            verdict,
            also: Vec::new(),
        };
        match (self.passed, self.failed(), self.void()) {
            (Some(passed), failed, Some((void, limiter)))
                if failed.is_none_or(|(rate, _)| rate > void) =>
            {
                let why = match limiter {
                    Limiter::Unknown => format!("every trial at {void:.0} qps was void"),
                    known => format!("Tester-limited at {void:.0} qps ({known})"),
                };
                let verdict = format!("at least {passed:.0} qps; {why}");
                capacity(true, limiter, verdict)
            }
            (Some(passed), Some((failed, limiter)), _) => {
                let at_least = limiter.makes_lower_bound();
                let word = if at_least { "at least " } else { "" };
                let by = limited_by(limiter);
                let verdict = format!("{word}{passed:.0} qps, {by}; {failed:.0} qps failed");
                capacity(at_least, limiter, verdict)
            }
            (Some(passed), None, _) => {
                let verdict =
                    format!("at least {passed:.0} qps: the search's own upper bound passed");
                capacity(true, Limiter::SearchBound, verdict)
            }
            (None, Some((failed, _)), Some((void, limiter))) if void < failed => {
                let verdict = format!(
                    "void at {void:.0} qps ({limiter}), failed at {failed:.0} qps; no rate passed"
                );
                capacity(false, limiter, verdict)
            }
            (None, Some((failed, limiter)), _) => {
                let by = limited_by(limiter);
                let verdict = format!("failed at every rate down to {failed:.0} qps, {by}");
                capacity(false, limiter, verdict)
            }
            (None, None, void) => {
                let (rate, limiter) = void.unwrap_or((min, Limiter::Unknown));
                let verdict = format!("void at every rate down to {rate:.0} qps ({limiter})");
                capacity(false, limiter, verdict)
            }
        }
    }
}

/// Returns the limiter in words, also if it is not known.
pub(super) fn limited_by(limiter: Limiter) -> String {
    match limiter {
        Limiter::Unknown => "limiter not known".to_owned(),
        known => format!("limited by {known}"),
    }
}
