//! Trials of a server in a group that replicates a zone: updates are sent to the primary, which may be the server
//! itself.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use experiment::{BenchError, Replication, Sizes, Syncs, TrialSpec, UpdateResult, UpdateSpec};
use measure::limiter::Waits;
use measure::strace::SyncCounts;
use measure::{Evidence, Facts, Nanos};
use record::{Durability, Transfers, Trial, UpdateRun};
use update::check::check;
use update::outcome::acknowledged;
use update::{Kill, UpdateReader, Zones};

use super::{LabBench, ServerUnderTest, StartKind};
use crate::probe::{Accounts, Observed, Span};
use crate::server::LabEnv;
use crate::server::replication::Group;
use crate::server::replication::syncs::{SyncTrace, syncs_per_second};
use crate::testbed::enter::Lab;
use crate::testbed::{Host, Testbed};

/// Longest time of a look-up of updates, and of sending updates: this and a time for each update,
/// since a primary may wait for a slow disk.
const MAX_TIME: Duration = Duration::from_secs(120);
const MAX_TIME_PER_UPDATE: Duration = Duration::from_secs(1);
/// Duration from which the interval of the samples is computed: about that of a usual trial.
const SAMPLED_DURATION: Nanos = Nanos::from_secs(10);

impl<'a> LabBench<'a> {
    pub(super) fn env(&self) -> LabEnv<'a> {
        let (testbed, lab, dir): (&'a Testbed, &'a Lab, _) = (self.testbed, self.lab, self.dir);
        LabEnv { testbed, lab, dir }
    }

    fn group(&mut self) -> Result<&mut Group, BenchError> {
        self.group
            .as_mut()
            .ok_or_else(|| BenchError::failed("this server is in no group that replicates a zone"))
    }

    /// Evaluates the probes of updates that were sent for `seconds`.
    fn judge_updates(&self, run: UpdateRun, observed: &Observed) -> UpdateResult {
        let (tester, dut) = (observed.usage(Host::Tester), observed.usage(Host::Dut));
        let busy = dut.busy.max(dut.busiest_thread.unwrap_or(0.0));
        let evidence = Evidence {
            // The sender's own time excludes its start, which takes longer than a few updates.
            tester_run_delay: run.run_delay.or(tester.run_delay),
            foreign_busy: tester.foreign,
            dut_busy: Some(busy),
            dut_foreign: dut.foreign,
            // The sender keeps one update outstanding.
            waits: Waits {
                places: 1,
                duration_s: run.seconds,
                replies: run.latency_us.count,
                mean_us: run.latency_us.mean,
                least_us: Some(run.latency_us.min),
                ..Waits::default()
            },
            ..Evidence::default()
        };
        let warnings = evidence.server_warnings();
        let limiter = Facts { evidence, ..Facts::default() }.verdict().limiter;
        UpdateResult { run, busy, limiter, warnings }
    }
}

impl Replication for LabBench<'_> {
    fn send(&mut self, spec: &UpdateSpec) -> Result<UpdateResult, BenchError> {
        let number = self.group()?.outcomes.len();
        let outcomes = self.dir.join(format!("update-outcomes-{number}"));
        let mut sender = self.group()?.sender()?;
        sender.count = Some(spec.count);
        // The bench must not report the end of a server that the sender kills.
        let killed = spec.kill_after.and_then(|after| {
            let server = self.server.as_mut()?.server.take()?;
            sender.kill = Some(Kill { pid: server.pid() as i32, after });
            Some(server)
        });
        let limit = MAX_TIME + MAX_TIME_PER_UPDATE * u32::try_from(spec.count).unwrap_or(u32::MAX);
        let task = self.group()?.task(sender, outcomes.clone());
        let result = self.result::<UpdateRun>(&task, SAMPLED_DURATION, limit);
        if let Some(server) = killed {
            server.kill();
        }
        let (run, spent) = result?;
        let group = self.group()?;
        group.sent += run.sent;
        group.outcomes.push(outcomes);
        let span = Span { sending_s: run.seconds, ..Span::default() };
        let observed = Observed::between(&spent.before, &spent.after, self.testbed, &span);
        Ok(self.judge_updates(run, &observed))
    }

    fn trace(&mut self, count: u64) -> Result<Syncs, BenchError> {
        let pids = self.server().map(crate::server::Server::pids).unwrap_or_default();
        let trace = match SyncTrace::start(&pids, self.env()).map_err(BenchError::failed)? {
            Ok(trace) => trace,
            Err(why) => return Ok(Syncs::No(why)),
        };
        let sent = self.send(&UpdateSpec { count, kill_after: None });
        let counts = trace.stop().map_err(BenchError::failed)?;
        let run = sent?.run;
        let SyncCounts { writes, syncs } = counts;
        Ok(Syncs::Counted { acknowledged: run.acknowledged, seconds: run.seconds, writes, syncs })
    }

    fn disk_syncs(&mut self) -> Result<f64, BenchError> {
        syncs_per_second(self.dir).map_err(BenchError::failed)
    }

    fn look_up(&mut self) -> Result<Durability, BenchError> {
        let (tester, until) = (self.testbed.namespace(Host::Tester), Instant::now() + MAX_TIME);
        let interrupted = self.lab.interrupted();
        let is_over = || interrupted.load(Ordering::Relaxed) || Instant::now() > until;
        let group = self.group()?;
        let (server, updates) = (group.updated_address(), group.updates());
        let zones = Zones::of(server);
        let open = || UpdateReader::open(updates).map(|updates| updates.asking(&zones));
        let mut all = Durability::default();
        for outcomes in &group.outcomes {
            let wanted = acknowledged(outcomes).map_err(BenchError::failed)?;
            let look = || check(server, open, |number| !is_over() && wanted.contains(&number));
            let found = tester.run(look).map_err(BenchError::failed)?;
            if interrupted.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
            let found = found.map_err(BenchError::failed)?;
            if is_over() {
                let why = format!("the updates could not be looked up within {MAX_TIME:?}");
                return Err(BenchError::failed(why));
            }
            all.acknowledged += found.acknowledged;
            all.gone += found.gone;
            all.examples.extend(found.examples);
        }
        Ok(all)
    }

    fn restart(&mut self) -> Result<(), BenchError> {
        let env = self.env();
        let Some(ServerUnderTest { starts: StartKind::Member(member), .. }) = &self.server else {
            return Err(BenchError::failed("this server is in no group that replicates a zone"));
        };
        let mut server = member.start_again(env).map_err(BenchError::failed)?;
        self.group()?.wait(&mut server, env).map_err(BenchError::failed)?;
        self.accounts = Accounts::default();
        if let Some(running) = &mut self.server {
            running.server = Some(server);
        }
        self.limit_server().map_err(BenchError::failed)
    }

    fn trial_with_updates(
        &mut self,
        per_second: Option<f64>,
        spec: &TrialSpec,
    ) -> Result<(Trial, UpdateRun), BenchError> {
        let env = self.env();
        self.group()?.begin(per_second, env)?;
        let result = self.trial_result(spec);
        // The sender is stopped also after a failed trial.
        let run = self.group()?.end();
        let (mut result, run) = (result?, run?);
        result.facts.doubts.extend(run.ran_out());
        Ok((self.finish(result)?, run))
    }

    fn sizes(&mut self) -> Result<Sizes, BenchError> {
        let (env, address) = (self.env(), self.base.target);
        self.group()?.sizes(address, env)
    }

    fn transfers(&mut self) -> Result<Option<Transfers>, BenchError> {
        self.group()?.transfers()
    }
}
