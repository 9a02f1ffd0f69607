//! Trials of several Testers on other hosts: the agents count while they send, and the watcher gets
//! the sums of their counters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use experiment::BenchError;
use measure::{Disturbances, Nanos};
use nix::time::{ClockId, clock_gettime};
use record::{SCHEMA, Snapshot, TesterCount, Trial, TrialRequest, TrialResult};

use super::LabBench;
use crate::probe::watch::{LiveUpdate, Watcher};
use crate::remote::job::Progress;
use crate::remote::lines::SharedJob;

/// Time before the start of several Testers at which the agents begin to count.
const LEAD_TIME: Duration = Duration::from_millis(100);

impl LabBench<'_> {
    /// Returns the result of a request that one Measurer sends, or several Testers; it ends after
    /// `limit`, and is sampled as a load of the time `sampled`.
    pub(super) fn sent(
        &mut self,
        request: &TrialRequest,
        sampled: Nanos,
        limit: Duration,
    ) -> Result<TrialResult, BenchError> {
        let mut result = match self.remote.testers.clone() {
            Some(testers) => self.trial_of_testers(&testers, request)?,
            None => {
                self.begin_remote(Duration::ZERO)?;
                let (result, spent) = self.measure(request, sampled, limit)?;
                self.conclude(result, spent)
            }
        };
        self.end_remote(&mut result)?;
        Ok(result)
    }

    /// Runs a trial on the Testers of other hosts, together.
    fn trial_of_testers(
        &self,
        testers: &SharedJob,
        request: &TrialRequest,
    ) -> Result<TrialResult, BenchError> {
        let stop = AtomicBool::new(false);
        let mut feed =
            CounterFeed { watcher: self.watcher.as_ref(), began: Instant::now(), has_query: false };
        let (mut begun, mut failed_with) = (false, None);
        // The conductor sends a message twice a second.
        let mut notify = |progress: Progress| {
            let done = match progress {
                Progress::Starts(time) => {
                    begun = true;
                    self.begin_remote(time.saturating_sub(LEAD_TIME))
                }
                Progress::Counters(counters, testers) => {
                    feed.show(counters, testers);
                    self.check_remote()
                }
            };
            failed_with = failed_with.take().or(done.err());
            let over = failed_with.is_some() || self.is_interrupted();
            stop.store(over, Ordering::Relaxed);
        };
        let result = testers.lock().trial(request, &mut notify, &stop);
        drop(feed);
        if self.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
        if let Some(error) = failed_with {
            return Err(error);
        }
        let mut result = result.map_err(BenchError::failed)?;
        if !begun {
            // The trial ended before its start was reported.
            self.begin_remote(Duration::ZERO)?;
        }
        move_to_this_clock(&mut result.trial);
        result.trial.conditions.path.get_or_insert(self.testbed.path());
        Ok(result)
    }
}

/// Passes the Testers' counters to a watcher; dropping it ends the watcher's trial.
struct CounterFeed<'a> {
    watcher: Option<&'a Watcher>,
    /// Time of the first query, or of the order for the trial.
    began: Instant,
    /// Whether the counters showed a query.
    has_query: bool,
}

impl CounterFeed<'_> {
    fn show(&mut self, [sent, answered, valid, lost, bad]: [u64; 5], testers: Vec<TesterCount>) {
        let Some(watcher) = self.watcher.filter(|_| sent > 0) else { return };
        if !self.has_query {
            (self.began, self.has_query) = (Instant::now(), true);
        }
        let at_s = self.began.elapsed().as_secs_f64();
        let latency_us = Vec::new();
        let schema = SCHEMA;
        let now = Snapshot {
            schema,
            at_s,
            sent,
            answered,
            valid,
            bad,
            lost,
            latency_us,
            testers,
            ..Snapshot::default()
        };
        watcher.notify(LiveUpdate::Load(now));
    }
}

impl Drop for CounterFeed<'_> {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher {
            watcher.notify(LiveUpdate::Ends);
        }
    }
}

/// Moves the stalls of a merged trial, which are on the clock of its first Tester, to
/// `CLOCK_MONOTONIC` of this host. The start was agreed by the clock of the conductor, which is
/// this host unless the file of hosts names another one.
fn move_to_this_clock(trial: &mut Trial) {
    let start = trial.conditions.agreed_start.and_then(|start| start.at.unix(None));
    let now = |clock| clock_gettime(clock).map(Duration::from).map(Nanos::from);
    let clocks = (now(ClockId::CLOCK_MONOTONIC), now(ClockId::CLOCK_REALTIME));
    let (Some(start), (Ok(monotonic), Ok(realtime))) = (start, clocks) else { return };
    let mut here =
        Disturbances { started: monotonic.since(realtime.since(start)), ..Disturbances::default() };
    here.merge_of_host(&trial.disturbances);
    trial.disturbances = here;
}
