//! Trials of a server in a group that replicates a zone: updates are sent to the primary, which may be the server
//! itself.

use std::ffi::OsString;
use std::time::Duration;

use experiment::{BenchError, Replication, Sizes, Traced, UpdateSpec, Updated};
use measure::strace::SyncCounts;
use measure::{Evidence, Nanos};
use record::{Durability, Transfers, UpdateCheck, UpdateRun};

use super::{LabBench, Running, Starts};
use crate::probe::{Accounts, Observed, Span};
use crate::server::replication::syncs::{SyncTrace, syncs_per_second};
use crate::server::replication::{Ground, Group};
use crate::testbed::enter::Lab;
use crate::testbed::{Host, Testbed};

/// Time allowed for each update, beside the time for all of them; a primary may wait for a slow disk.
const EACH: Duration = Duration::from_secs(1);
const ALL: Duration = Duration::from_secs(120);
/// Duration that the interval of the samples is computed from, close to that of most updates.
const SAMPLED: Nanos = Nanos::from_secs(10);

impl<'a> LabBench<'a> {
    pub(super) fn ground(&self) -> Ground<'a> {
        let (testbed, lab, dir): (&'a Testbed, &'a Lab, _) = (self.testbed, self.lab, self.dir);
        Ground { testbed, lab, dir }
    }

    fn group(&mut self) -> Result<&mut Group, BenchError> {
        self.group
            .as_mut()
            .ok_or_else(|| BenchError::failed("this server is in no group that replicates a zone"))
    }

    /// Evaluates the probes of updates that were sent for `seconds`.
    fn judge_updates(&self, run: UpdateRun, observed: &Observed) -> Updated {
        let (tester, dut) = (observed.usage(Host::Tester), observed.usage(Host::Dut));
        let busy = dut.busy.max(dut.busiest_thread);
        let evidence = Evidence {
            // The sender's own count leaves out its start, which takes longer than a few updates.
            tester_run_delay: run.run_delay.or(Some(tester.run_delay)),
            foreign_busy: Some(tester.foreign),
            dut_busy: Some(busy),
            dut_foreign: Some(dut.foreign),
            ..Evidence::default()
        };
        let void = evidence.doubts().next();
        Updated { run, void, busy, limiter: evidence.limiter() }
    }
}

impl Replication for LabBench<'_> {
    fn send(&mut self, spec: &UpdateSpec) -> Result<Updated, BenchError> {
        let json = self.dir.join("updates.json");
        let number = self.group()?.outcomes.len();
        let outcomes = self.dir.join(format!("update-outcomes-{number}"));
        let mut command = self.group()?.send_command(&json, &outcomes);
        let mut option = |flag: &str, value: u64| {
            command.extend([OsString::from(flag), value.to_string().into()]);
        };
        option("--count", spec.count);
        // The bench must not report the end of a server that the sender kills.
        let killed = spec.kill_after.and_then(|after| {
            let server = self.server.as_mut()?.server.take()?;
            option("--kill-after", after);
            option("--kill", server.pid().into());
            Some(server)
        });
        let limit = ALL + EACH * u32::try_from(spec.count).unwrap_or(u32::MAX);
        let result = self.result::<UpdateRun>(command, &[], &json, SAMPLED, limit);
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

    fn trace(&mut self, count: u64) -> Result<Traced, BenchError> {
        let pids = self.server().map(crate::server::Server::pids).unwrap_or_default();
        let trace = match SyncTrace::start(&pids, self.ground()).map_err(BenchError::failed)? {
            Ok(trace) => trace,
            Err(why) => return Ok(Traced::No(why)),
        };
        let sent = self.send(&UpdateSpec { count, kill_after: None });
        let counts = trace.stop().map_err(BenchError::failed)?;
        let run = sent?.run;
        let SyncCounts { writes, syncs } = counts;
        Ok(Traced::Counted { acknowledged: run.acknowledged, seconds: run.seconds, writes, syncs })
    }

    fn disk_syncs(&mut self) -> Result<f64, BenchError> {
        syncs_per_second(self.dir).map_err(BenchError::failed)
    }

    fn look_up(&mut self) -> Result<Durability, BenchError> {
        let json = self.dir.join("durability.json");
        let mut all = Durability { acknowledged: 0, gone: 0, examples: Vec::new() };
        for outcomes in self.group()?.outcomes.clone() {
            let command = self.group()?.check_command(&outcomes, &json);
            let (check, _): (UpdateCheck, _) = self.result(command, &[], &json, SAMPLED, ALL)?;
            let found = check.found;
            all.acknowledged += found.acknowledged;
            all.gone += found.gone;
            all.examples.extend(found.examples);
        }
        Ok(all)
    }

    fn restart(&mut self) -> Result<(), BenchError> {
        let ground = self.ground();
        let Some(Running { starts: Starts::Member(member), .. }) = &self.server else {
            return Err(BenchError::failed("this server is in no group that replicates a zone"));
        };
        let mut server = member
            .start_again(ground.testbed, ground.lab, ground.dir)
            .map_err(BenchError::failed)?;
        self.group()?.wait(&mut server, ground).map_err(BenchError::failed)?;
        self.accounts = Accounts::default();
        if let Some(running) = &mut self.server {
            running.server = Some(server);
        }
        self.limit_server().map_err(BenchError::failed)
    }

    fn begin(&mut self, per_second: Option<f64>) -> Result<(), BenchError> {
        let ground = self.ground();
        self.group()?.begin(per_second, ground)
    }

    fn end(&mut self) -> Result<UpdateRun, BenchError> {
        let ground = self.ground();
        self.group()?.end(ground)
    }

    fn sizes(&mut self) -> Result<Sizes, BenchError> {
        let (ground, address) = (self.ground(), self.base.target);
        self.group()?.sizes(address, ground)
    }

    fn transfers(&mut self) -> Result<Option<Transfers>, BenchError> {
        let ground = self.ground();
        self.group()?.transfers(ground)
    }
}
