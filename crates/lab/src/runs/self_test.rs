//! The self-test of a run: the Measurer against the AuthDNS over their own link, at the rate of RFC 8219 section 9.2, then
//! three short times against a server of known behaviour. Of several AuthDNS each is asked the same part of the queries.

use experiment::verify::{behaviour_checks, median_checks};
use experiment::{Bench, BenchError, Method, VerifyPlan, certify};
use measure::{Nanos, Qps, Transport};
use record::request::Workload;
use record::{Certificate, Check, EngineKind, Tested, TrialRecord, TrialRequest};
use wire::{Namespace as Names, Qtype};

use crate::remote::hosts::RemoteDut;
use crate::runs::bench::measurer::{base_request, carried_by};
use crate::runs::bench::{LabBench, RemoteParts, Upstream};
use crate::runs::run::{Event, RunError};
use crate::runs::session::Session;
use crate::server::LabEnv;
use crate::server::authdns::{self, Serves};
use crate::server::question_plan::QuestionPlan;
use crate::testbed::netns::Namespace;

/// The names of a self-test: enough for every rate and duration, and the AuthDNS computes them.
const NAMES: &str = "0.0.0.0/2";
/// Rate of the trials against a known behaviour, in queries a second; never above the certified one.
const TRUTH_QPS: f64 = 5_000.0;
/// Number and duration of these trials.
const TRUTHS: u32 = 3;
const TRUTH_TIME: Nanos = Nanos::from_millis(400);
/// Duration of the load that shows whether the kernel carries any.
const TRIED: Nanos = Nanos::from_millis(200);

impl Session<'_> {
    /// Returns the Tester's certificate with an engine: from the run before its interruption, from
    /// the user, or a new one.
    pub(crate) fn certificate(
        &mut self,
        engine: EngineKind,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<Certificate, RunError> {
        let mut certificate = match self.known_certificate(Some(engine)) {
            Some(certificate) => certificate.clone(),
            None => self.certify(engine, notify)?,
        };
        if let Some(file) = &self.options.certificate {
            let points = self.checked.experiment.points.iter();
            let certified = points.map(|point| {
                let transport = point.settings.tester.transport.to_string();
                file.certified(&Tested { engine, transport, ..file.tested.clone() }).get()
            });
            certificate.certified_qps = certified.fold(certificate.certified_qps, f64::min);
        }
        notify(Event::Certified(engine, &certificate));
        Ok(certificate)
    }

    /// Checks that the kernel can send and answer here, by a short load.
    pub(crate) fn try_kernel(&mut self) -> Result<(), RunError> {
        let rate = Qps::new(TRUTH_QPS).unwrap_or_default();
        self.receive_frames(EngineKind::Kernel)?;
        let mut bench = self.against(Serves::SelfTest, EngineKind::Kernel)?;
        let trial = bench.trial(&VerifyPlan::trial(rate, TRIED));
        bench.stop();
        let trial = trial.map_err(RunError::SelfTest)?;
        if trial.valid * 2 > trial.sent {
            return Ok(());
        }
        let why = format!("{} of {} queries were answered", trial.valid, trial.sent);
        Err(RunError::SelfTest(BenchError::Failed(why)))
    }

    /// Makes the links receive what an engine sends.
    fn receive_frames(&mut self, engine: EngineKind) -> Result<(), RunError> {
        let set = self.testbed.receive_frames(engine == EngineKind::Kernel);
        set.map_err(|why| RunError::SelfTest(BenchError::Failed(why)))
    }

    /// Returns whether the method wants a certificate.
    pub(crate) fn wants_certificate(&self) -> bool {
        let common = self.checked.experiment.common();
        common.method == Method::Search
            && common.search.as_ref().is_some_and(|search| search.self_test)
    }

    /// Returns the certificate of the run before its interruption, or the user's; with an engine if one is given.
    fn known_certificate(&self, engine: Option<EngineKind>) -> Option<&Certificate> {
        let resumed = self.options.resumed.iter().flat_map(|run| &run.results);
        let given = || self.options.certificate.as_ref()?.self_test.as_ref();
        // Those that name no engine are of sockets.
        let of = |c: &Certificate| c.engine.unwrap_or(EngineKind::Sockets);
        let is_of = |c: &&Certificate| engine.is_none_or(|engine| of(c) == engine);
        let known = resumed.filter_map(|cell| cell.certificate.as_ref());
        known.chain(given()).find(is_of)
    }

    /// Returns whether the run makes a self-test.
    pub(crate) fn needs_self_test(&self) -> bool {
        self.wants_certificate() && self.known_certificate(None).is_none()
    }

    /// Searches the highest rate at which an AuthDNS in place of the server answers all queries of
    /// an engine.
    fn certify(
        &mut self,
        engine: EngineKind,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<Certificate, RunError> {
        notify(Event::SelfTest(engine));
        self.receive_frames(engine)?;
        let search = self.checked.experiment.points[0].settings.search.as_ref();
        let search = search.expect("a search has its table");
        let mut bench = self.against(Serves::SelfTest, engine)?;
        let size = namespace().size();
        let certificate =
            certify(&mut bench, search.max, search.duration, search.timeout, size, &mut |trial| {
                notify(Event::SelfTestTrial(trial));
            });
        bench.stop();
        let mut certificate = certificate.map_err(RunError::SelfTest)?;
        if certificate.passed {
            certificate.checks = self.truths(engine, certificate.certified_qps, notify)?;
        }
        Ok(certificate)
    }

    /// Compares the median of short trials with the known behaviour of a server, at no more than
    /// `certified_qps`.
    fn truths(
        &self,
        engine: EngineKind,
        certified_qps: f64,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Result<Vec<Check>, RunError> {
        let rate = Qps::new(TRUTH_QPS.min(certified_qps)).unwrap_or_default();
        let mut bench = self.against(Serves::Truth, engine)?;
        let trials: Result<Vec<_>, _> =
            (0..TRUTHS).map(|_| bench.trial(&VerifyPlan::trial(rate, TRUTH_TIME))).collect();
        bench.stop();
        let checks = |trial| {
            let checks = behaviour_checks(&VerifyPlan::behaviour(), &trial, None, 0.0);
            notify(Event::SelfTestTrial(&TrialRecord { repeat: 0, rate_qps: rate.get(), trial }));
            checks
        };
        let trials = trials.map_err(RunError::SelfTest)?.into_iter();
        Ok(median_checks(&trials.map(checks).collect::<Vec<_>>()))
    }

    /// Starts an AuthDNS for the Measurer, and makes the bench of both.
    fn against(&self, serves: Serves, engine: EngineKind) -> Result<LabBench<'_>, RunError> {
        let (point, question_plan) =
            (&self.checked.experiment.points[0], &self.checked.questions[0]);
        let (namespace, pref64) = (namespace(), question_plan.pref64);
        let mut tester = point.settings.tester.clone();
        // Servers query the AuthDNS over UDP, whatever transport their clients use.
        tester.transport = Transport::Udp;
        let question_plan =
            QuestionPlan { namespace, qtype: Qtype::AAAA, pref64, any_address: false };
        let base = |target| {
            let workload = Workload::Namespace(question_plan.names(false, false));
            carried_by(engine, base_request(target, workload, &tester, self.options.seed, None))
        };
        let mut bench = match self.remote_authdns(serves, &question_plan)? {
            Some((remote_dut, remote)) => {
                let mut addresses =
                    remote_dut.authdns_addresses().into_iter().take(remote.auth.len());
                let first = addresses.next().expect("an AuthDNS was started");
                let base = TrialRequest { also: addresses.collect(), ..base(first) };
                let env = LabEnv { testbed: &remote_dut.testbed, ..self.env() };
                LabBench::new(env, base, None).with_remote(remote)
            }
            None => {
                let authdns = authdns::start(serves, &namespace, pref64, self.env())?;
                let base = base(serves.addresses(&self.testbed)[0]);
                LabBench::new(self.env(), base, Some(Upstream::AuthDns(authdns)))
            }
        };
        bench.watcher = self.options.watcher.clone();
        Ok(bench)
    }

    /// Starts the AuthDNS on hosts of their own for the Measurer, if the servers ask them there.
    fn remote_authdns(
        &self,
        serves: Serves,
        question_plan: &QuestionPlan,
    ) -> Result<Option<(&RemoteDut, RemoteParts)>, RunError> {
        let Some(remote_dut) = &self.remote_dut else { return Ok(None) };
        let failed = |why: String| RunError::SelfTest(BenchError::Failed(why));
        let auth =
            remote_dut.start_authdns(serves, question_plan).map_err(|e| failed(e.to_string()))?;
        if auth.is_empty() {
            return Ok(None);
        }
        let outside = Some(Namespace::own().map_err(|e| failed(e.to_string()))?);
        let testers = self.options.remote_hosts.job();
        Ok(Some((remote_dut, RemoteParts { outside, auth, testers, ..RemoteParts::default() })))
    }
}

/// Returns the names of a self-test.
fn namespace() -> Names {
    Names::with_default_zone(NAMES.parse().expect("a prefix of IPv4"))
}
