//! The methods: their updates, queries and counters.

use measure::{Nanos, Pacing, UpdateRate};
use record::{TransferCounts, Trial, UpdateRun};

use super::{Replication, Syncs, UpdateSpec};
use crate::bench::{BenchError, TrialSpec};
use crate::settings::Settings;
use crate::visit::{Figures, RunningVisit, VisitResult};

impl RunningVisit<'_> {
    fn group(&mut self) -> Result<&mut dyn Replication, BenchError> {
        self.bench.replication()
    }

    /// Measures the update rate of the primary, and whether the updates survive SIGKILL.
    pub(crate) fn update_rate(&mut self) -> Result<VisitResult, BenchError> {
        let s = &self.settings.replication;
        let sent = self.group()?.send(&UpdateSpec { count: s.updates, kill_after: None })?;
        all_sent(&sent.run)?;
        let not_done = self.group()?.look_up()?.gone;
        let traced = self.group()?.trace(s.killed_after)?;
        let disk = self.group()?.disk_syncs()?;
        // Twice as many as the primary acknowledges before it is killed, so that some are under way at that moment.
        let last = UpdateSpec { count: 2 * s.killed_after, kill_after: Some(s.killed_after) };
        let last = self.group()?.send(&last)?;
        if !last.run.killed {
            let why = last.run.ended_by.unwrap_or_else(|| "the updates were too few".to_owned());
            return Err(BenchError::Failed(format!("the primary was not killed: {why}")));
        }
        self.group()?.restart()?;
        let found = self.group()?.look_up()?;
        let run = &sent.run;
        let seconds = |us: f64| us / 1e6;
        let figures = [
            ("updates", "1/s", run.acknowledged as f64 / run.seconds.max(1e-9)),
            ("latency_p50", "s", seconds(run.latency_us.p50)),
            ("latency_p99", "s", seconds(run.latency_us.p99)),
            ("primary_busy", "%", sent.busy * 100.0),
            ("not_acknowledged", "", (run.sent - run.acknowledged) as f64),
            ("acknowledged_but_not_done", "", not_done as f64),
            ("looked_up_after_SIGKILL", "", found.acknowledged as f64),
            ("gone_after_SIGKILL", "", found.gone as f64),
        ];
        let (syncs, mut notes) = sync_figures(&traced, disk);
        notes.extend(sent.warnings.iter().map(ToString::to_string));
        Ok(VisitResult::Replicated {
            figures: owned(figures).into_iter().chain(syncs).collect(),
            secondaries: Vec::new(),
            limiter: Some(sent.limiter),
            notes,
        })
    }

    /// Measures queries to a secondary while its primary is updated, and the lag of each secondary.
    pub(crate) fn under_update(&mut self) -> Result<VisitResult, BenchError> {
        let s = &self.settings.replication;
        let updated =
            (s.update_rate != UpdateRate::None).then(|| s.update_rate.per_second(s.delegations));
        let (mut sent, spec) = (None, closed(self.settings));
        let trial = self.settled(0.0, |visiting| {
            let Some(per_second) = updated else { return visiting.bench.trial(&spec) };
            let (trial, run) = visiting.group()?.trial_with_updates(per_second, &spec)?;
            if run.ran_out().is_some_and(|why| trial.void.0 == Some(why)) {
                all_sent(&run)?;
            }
            sent = Some(run);
            Ok(trial)
        })?;
        let bits = 8.0 * trial.octets.replies as f64 / trial.answering_s().max(1e-9);
        let mut figures =
            owned([("qps", "qps", trial.valid_qps()), ("bits_of_replies", "bit/s", bits)]);
        let mut secondaries = figures_by_server(&trial);
        if let Some(run) = &sent {
            figures.extend(owned([
                ("updates_done", "1/s", run.acknowledged as f64 / run.seconds.max(1e-9)),
                ("not_acknowledged", "", (run.sent - run.acknowledged) as f64),
            ]));
            // The first secondary is the server under test; the cell has its lag.
            figures.extend(run.lags.first().into_iter().flat_map(lag_figures));
            let count = secondaries.len().max(run.lags.len());
            secondaries.resize_with(count, Vec::new);
            for (figures, lag) in secondaries.iter_mut().zip(&run.lags) {
                figures.extend(lag_figures(lag));
            }
        }
        self.followed(figures, secondaries)
    }

    /// Measures queries for the zone without updates, and the sizes of queries and replies.
    pub(crate) fn signed_unsigned(&mut self) -> Result<VisitResult, BenchError> {
        let spec = closed(self.settings);
        let trial = self.settled(0.0, |visiting| visiting.bench.trial(&spec))?;
        let sizes = self.group()?.sizes()?;
        let figures = owned([
            ("qps", "qps", trial.valid_qps()),
            ("query_octets", "octets", sizes.query),
            ("reply_octets", "octets", sizes.reply),
            ("octets_of_all_queries", "B", sizes.query * trial.sent as f64),
            ("octets_of_all_replies", "B", sizes.reply * trial.answered as f64),
        ]);
        self.followed(figures, Vec::new())
    }

    /// Adds the figures of the transfers.
    fn followed(
        &mut self,
        mut figures: Figures,
        mut secondaries: Vec<Figures>,
    ) -> Result<VisitResult, BenchError> {
        if let Some(transfers) = self.group()?.transfers()? {
            figures.extend(transfer_figures(transfers.all()));
            if transfers.packets_lost > 0 {
                // With lost packets the counts of transfers are too small.
                figures.extend(owned([(
                    "packets_of_transfers_lost",
                    "",
                    transfers.packets_lost as f64,
                )]));
            }
            let count = secondaries.len().max(transfers.secondaries.len());
            secondaries.resize_with(count, Vec::new);
            for (figures, counts) in secondaries.iter_mut().zip(&transfers.secondaries) {
                figures.extend(transfer_figures(counts.clone()));
            }
        }
        Ok(VisitResult::Replicated { figures, secondaries, limiter: None, notes: Vec::new() })
    }
}

/// Makes the specification of a closed loop of queries, with a window at each instance of the server. Names come from
/// the query file, so that none are taken from the budget.
fn closed(settings: &Settings) -> TrialSpec {
    let closed = &settings.closed;
    let instances = settings.replication.instances as u32;
    TrialSpec::new(
        Pacing::Window { outstanding: closed.window.saturating_mul(instances) },
        closed.duration,
        closed.timeout,
    )
}

/// Checks that no answer of the primary ended the sending of updates.
fn all_sent(run: &UpdateRun) -> Result<(), BenchError> {
    match run.ended_by.as_ref().or(run.left_out.as_ref()) {
        Some(why) => Err(BenchError::Failed(format!("updates were not sent: {why}"))),
        None => Ok(()),
    }
}

/// Makes figures with owned names.
fn owned<const N: usize>(figures: [(&str, &'static str, f64); N]) -> Figures {
    figures.map(|(name, unit, value)| (name.to_owned(), unit, value)).into()
}

/// Makes the figures of each server of a trial; empty for a single one.
fn figures_by_server(trial: &Trial) -> Vec<Figures> {
    let rate = |count: u64| count as f64 / trial.answering_s().max(1e-9);
    let each = trial.targets.iter().map(|target| {
        let share = 100.0 * target.bad as f64 / target.sent.max(1) as f64;
        owned([("qps", "qps", rate(target.valid)), ("not_valid", "%", share)])
    });
    each.collect()
}

/// Makes the figures about how a primary put updates on stable storage, compared with the speed of
/// the disk, and the notes about them.
fn sync_figures(traced: &Syncs, disk: f64) -> (Figures, Vec<String>) {
    let mut figures = owned([("disk_syncs", "1/s", disk)]);
    let (acknowledged, seconds, writes, syncs) = match traced {
        Syncs::No(why) => return (figures, vec![format!("syncs were not counted: {why}")]),
        Syncs::Counted { acknowledged, seconds, writes, syncs } => {
            (*acknowledged, *seconds, *writes, *syncs)
        }
    };
    let each = |count: u64| count as f64 / acknowledged.max(1) as f64;
    figures.extend(owned([
        ("writes_per_update", "", each(writes)),
        ("syncs_per_update", "", each(syncs)),
        ("updates_while_traced", "1/s", acknowledged as f64 / seconds.max(1e-9)),
    ]));
    // The sender waits for each acknowledgement, so that no sync can serve two updates.
    let notes = if syncs < acknowledged { vec![NOT_SYNCED.to_owned()] } else { Vec::new() };
    (figures, notes)
}

/// Note on a primary with fewer syncs than acknowledged updates.
const NOT_SYNCED: &str = "NOT ON STABLE STORAGE: it acknowledges updates without a sync for each of them (RFC 2136 section 3.5); a power failure loses them";

/// Makes the figures of a secondary's lag.
fn lag_figures(lag: &record::Lag) -> Figures {
    let count = lag.lag_us.count;
    let mut figures = owned([
        ("lag_watched", "", (count + lag.unseen) as f64),
        ("lag_unseen", "", lag.unseen as f64),
    ]);
    if count > 0 {
        let seconds = |us: f64| Nanos((us * 1e3) as u64).as_secs_f64();
        figures.extend(owned([
            ("lag_p50", "s", seconds(lag.lag_us.p50)),
            ("lag_p99", "s", seconds(lag.lag_us.p99)),
        ]));
    }
    figures
}

/// Makes the figures of the transfers of each kind that occurred, and always of AXFR and IXFR.
fn transfer_figures(counts: TransferCounts) -> Figures {
    let mut figures = Vec::new();
    for (kind, count) in counts {
        if count.transfers > 0 || matches!(kind.as_str(), "axfr" | "ixfr") {
            figures.push((format!("{kind}_octets"), "octets", count.octets as f64));
            figures.push((kind, "", count.transfers as f64));
        }
    }
    figures
}
