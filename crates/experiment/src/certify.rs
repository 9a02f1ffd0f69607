//! The Tester's self-test (RFC 8219 section 9.2).
//!
//! The Measurer sends its queries directly to the AuthDNS. A Tester that passes at 2.2 r with a quarter of the
//! timeout is certified to measure servers up to the rate r: the AuthDNS receives two queries for each client query,
//! and 10 % are reserve.

use measure::{Goal, Nanos, Pacing, Qps};
use record::{Certificate, TrialRecord};

use crate::bench::{Bench, BenchError, TrialSpec};
use crate::names::NameBudget;

/// Factor from the certified rate to the rate of the self-test.
pub const RATE_FACTOR: f64 = 2.2;
/// Factor from the servers' timeout to the timeout of the self-test.
pub const TIMEOUT_FACTOR: f64 = 0.25;
/// Factor by which the rate is lowered at least after a failed self-test.
const RATE_STEP: f64 = 0.8;
/// Largest number of self-tests until one passes.
const MAX_TRIES: usize = 8;
/// Largest number of further self-tests between the rate that passed and the lowest that did not.
const MAX_NEARER: usize = 3;
/// Factor between the two rates at which the search ends.
const NEAR_ENOUGH: f64 = 1.05;

/// Runs self-tests for the rate `wished`, then for lower rates until one passes, then for rates between that and the
/// lowest that did not pass. `bench` is the Measurer against the AuthDNS; `timeout` is the timeout for servers.
///
/// # Errors
/// The errors of the bench.
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
        timeout_s: timeout.as_secs_f64(),
        duration_s: duration.as_secs_f64(),
        ..Certificate::default()
    };
    let mut rate = wished.get() * RATE_FACTOR;
    let (mut failed, mut nearer) = (f64::INFINITY, 0);
    while certificate.trials.len() - nearer < MAX_TRIES {
        // The AuthDNS has no cache, so that every self-test may use the same names.
        let mut names = NameBudget::new(names_size, true);
        let rate_qps = Qps::new(rate).expect("a share of a rate");
        let count = rate_qps.queries_in(duration);
        let first_name = names.take(count)?;
        let spec = TrialSpec {
            goal: Some(Goal::zero_loss()),
            early_stop: true,
            first_name,
            names: count,
            ..TrialSpec::new(Pacing::Constant { rate: rate_qps }, duration, timeout)
        };
        let record = TrialRecord { repeat: 0, rate_qps: rate, trial: bench.trial(&spec)? };
        seen(&record);
        certificate.engine = record.trial.conditions.engine;
        // The rate that a late Tester achieved is the most that it can send.
        let achieved = record.trial.achieved_qps();
        if passes(&record) {
            certificate.passed = true;
            certificate.self_test_qps = rate;
            certificate.certified_qps = rate / RATE_FACTOR;
        } else {
            failed = failed.min(rate).min(achieved);
        }
        certificate.trials.push(record);
        if !certificate.passed {
            rate = (rate * RATE_STEP).min(achieved).max(1.0);
        } else if nearer < MAX_NEARER
            && failed / certificate.self_test_qps > NEAR_ENOUGH
            && failed.is_finite()
        {
            nearer += 1;
            rate = (certificate.self_test_qps * failed).sqrt();
        } else {
            break;
        }
    }
    Ok(certificate)
}

/// Returns whether the Tester passed; late queries fail the test even if all were answered.
fn passes(record: &TrialRecord) -> bool {
    record.trial.passed == Some(true) && record.trial.kept_its_schedule()
}
