//! The Tester's self-test (RFC 8219 section 9.2).
//!
//! The Measurer asks the AuthDNS directly. A Tester that passes at 2.2 r with a quarter of the timeout is
//! certified to judge servers up to r: the AuthDNS answers two queries for each of the server's clients,
//! and 10 % are in reserve.

use measure::{Goal, Nanos, Pacing, Qps};
use record::{Certificate, TrialRecord};

use crate::bench::{Bench, BenchError, TrialSpec};
use crate::names::NameBudget;

/// The self-test's rate over the rate it certifies.
pub const RATE_FACTOR: f64 = 2.2;
/// The self-test's timeout over the servers'.
pub const TIMEOUT_FACTOR: f64 = 0.25;
/// The rate is lowered by this factor when the self-test fails.
const STEP: f64 = 0.8;
/// So often at most.
const MAX_TRIES: usize = 8;

/// Self-tests for `wished`, then for lower rates until one passes. `bench` is the Measurer against the
/// AuthDNS; `timeout` is the servers'.
///
/// # Errors
/// The bench's.
pub fn certify(
    bench: &mut dyn Bench,
    wished: Qps,
    duration: Nanos,
    timeout: Nanos,
    names_size: u64,
    seen: &mut dyn FnMut(&TrialRecord),
) -> Result<Certificate, BenchError> {
    let timeout = Nanos((timeout.0 as f64 * TIMEOUT_FACTOR) as u64);
    let mut certificate = Certificate {
        certified_qps: 0.0,
        self_test_qps: 0.0,
        timeout_s: timeout.as_secs_f64(),
        duration_s: duration.as_secs_f64(),
        passed: false,
        trials: Vec::new(),
    };
    let mut rate = wished.get() * RATE_FACTOR;
    for _ in 0..MAX_TRIES {
        // An authority does not mind being asked the same again: the names may be used by each self-test.
        let mut names = NameBudget::new(names_size, true);
        let rate_qps = Qps::new(rate).expect("a share of a rate");
        let count = rate_qps.queries_in(duration);
        let first_name = names.take(count)?;
        let spec = TrialSpec {
            pacing: Pacing::Constant { rate: rate_qps },
            duration,
            timeout,
            goal: Some(Goal::zero_loss()),
            first_name,
            names: count,
        };
        let record = TrialRecord { repeat: 0, rate_qps: rate, trial: bench.trial(&spec)? };
        seen(&record);
        let passed = record.trial.passed == Some(true) && !record.trial.void.is_void();
        certificate.trials.push(record);
        if passed {
            certificate.passed = true;
            certificate.self_test_qps = rate;
            certificate.certified_qps = rate / RATE_FACTOR;
            break;
        }
        rate *= STEP;
    }
    Ok(certificate)
}
