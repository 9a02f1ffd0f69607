//! The self-test of a run: the Measurer against the AuthDNS over their own link, at the rate of RFC 8219 section 9.2, then
//! for a second against a server of known behaviour.

use experiment::verify::behaviour_checks;
use experiment::{Bench, Method, VerifyPlan, certify};
use measure::{Nanos, Qps, Transport};
use record::request::Workload;
use record::{Certificate, Check, TrialRecord};
use wire::{Namespace, Qtype};

use crate::authdns::{self, Serves};
use crate::bench::LabBench;
use crate::bench::measurer::base_request;
use crate::question_plan::QuestionPlan;
use crate::run::{Event, RunError};
use crate::session::Session;

/// The names of a self-test: enough for every rate and duration, and the AuthDNS computes them.
const NAMES: &str = "0.0.0.0/2";
/// Rate of the trial against a known behaviour, in queries a second; never above the certified one.
const TRUTH_QPS: f64 = 5_000.0;
/// Duration of that trial.
const TRUTH_TIME: Nanos = Nanos::from_secs(1);

impl Session<'_> {
    /// Returns the Tester's certificate, where the method wants one: that of the run before its interruption, the
    /// user's, or a new one.
    pub(crate) fn certificate(
        &self,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<Certificate>, RunError> {
        if !self.wants_certificate() {
            return Ok(None);
        }
        let mut certificate = match self.known_certificate() {
            Some(certificate) => certificate.clone(),
            None => self.certify(notify)?,
        };
        if let Some(file) = &self.options.certificate {
            certificate.certified_qps = certificate.certified_qps.min(file.certified_qps);
        }
        notify(Event::Certified(&certificate));
        Ok(Some(certificate))
    }

    /// Returns whether the method wants a certificate.
    fn wants_certificate(&self) -> bool {
        let common = self.checked.experiment.common();
        common.method == Method::Search
            && common.search.as_ref().is_some_and(|search| search.self_test)
    }

    /// Returns the certificate of the run before its interruption, or the user's.
    fn known_certificate(&self) -> Option<&Certificate> {
        let resumed = self.options.resumed.iter().flat_map(|run| &run.results);
        let given = || self.options.certificate.as_ref()?.self_test.as_ref();
        resumed.into_iter().find_map(|cell| cell.certificate.as_ref()).or_else(given)
    }

    /// Returns whether the run makes a self-test.
    pub(crate) fn needs_self_test(&self) -> bool {
        self.wants_certificate() && self.known_certificate().is_none()
    }

    /// Makes the self-test.
    fn certify(&self, notify: &mut dyn FnMut(Event<'_>)) -> Result<Certificate, RunError> {
        notify(Event::SelfTest);
        let search = self.checked.experiment.points[0].settings.search.as_ref();
        let search = search.expect("a search has its table");
        let mut bench = self.against(Serves::SelfTest)?;
        let size = namespace().size();
        let certificate =
            certify(&mut bench, search.max, search.duration, search.timeout, size, &mut |trial| {
                notify(Event::SelfTestTrial(trial));
            });
        bench.stop();
        let mut certificate = certificate.map_err(RunError::SelfTest)?;
        if certificate.passed {
            certificate.checks = self.truths(certificate.certified_qps, notify)?;
        }
        Ok(certificate)
    }

    /// Holds what the Measurer finds against a server of known behaviour, at no more than `certified_qps`.
    fn truths(
        &self,
        certified_qps: f64,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<Vec<Check>, RunError> {
        let rate = Qps::new(TRUTH_QPS.min(certified_qps)).unwrap_or_default();
        let mut bench = self.against(Serves::Truth)?;
        let trial = bench.trial(&VerifyPlan::trial(rate, TRUTH_TIME));
        bench.stop();
        let trial = trial.map_err(RunError::SelfTest)?;
        let checks = behaviour_checks(&VerifyPlan::behaviour(), &trial, None, 0.0);
        notify(Event::SelfTestTrial(&TrialRecord { repeat: 0, rate_qps: rate.get(), trial }));
        Ok(checks)
    }

    /// Starts an AuthDNS for the Measurer, and makes the bench of both.
    fn against(&self, serves: Serves) -> Result<LabBench<'_>, RunError> {
        let (point, asked) = (&self.checked.experiment.points[0], &self.checked.questions[0]);
        let (namespace, pref64) = (namespace(), asked.pref64);
        let (testbed, dir) = (&self.testbed, self.dir);
        let authdns = authdns::start(serves, &namespace, pref64, testbed, self.lab, dir)?;
        let mut tester = point.settings.tester.clone();
        // The AuthDNS is asked as a server asks it, however its clients do.
        tester.transport = Transport::Udp;
        let asked = QuestionPlan { namespace, qtype: Qtype::AAAA, pref64 };
        let (target, workload) =
            (serves.addresses()[0], Workload::Namespace(asked.names(false, false)));
        let base = base_request(target, workload, &tester, self.options.seed, None);
        let bench = LabBench::self_test(self.lab, testbed, dir, base, authdns);
        Ok(bench.watched_by(self.options.watcher.clone()))
    }
}

/// Returns the names of a self-test.
fn namespace() -> Namespace {
    Namespace::with_default_zone(NAMES.parse().expect("a prefix of IPv4"))
}
