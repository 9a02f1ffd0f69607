//! One trial: slices, clocks, start, parts, merge.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::clock;
use lab::Refusal;
use lab::message::{Order, Reply, sendable};
use load::Live;
use measure::{ClockBound, Nanos, Reading, Slice};
use record::{LostPart, MergeTerms, Part, TrialRequest, TrialResult};

use super::Conductor;
use crate::clock::TesterClock;
use crate::link::Link;

/// Time allowed for each connection that is opened before a trial, as in the lab.
const TIME_PER_CONNECTION: Duration = Duration::from_millis(5);

/// A Tester's part of a trial.
#[derive(Debug)]
struct Share {
    tester: usize,
    slice: Slice,
    /// Reading of its clock before the trial.
    before: Reading,
    /// Start by the Tester's clock.
    told: Nanos,
    /// Result of the Tester, or why there is none; absent until it comes.
    part: Option<Result<Box<TrialResult>, String>>,
}

impl<L: Link> Conductor<L> {
    /// Runs a trial of the request, which has no slice. `live` gets the sums of the Testers' counters, `stop` ends it early.
    ///
    /// # Errors
    /// If no part was sent. A trial with a missing part is void.
    pub fn trial(
        &mut self,
        request: &TrialRequest,
        live: &Live,
        stop: &AtomicBool,
    ) -> Result<TrialResult, Refusal> {
        sendable(request)?;
        let mut shares = loop {
            self.enough()?;
            if let Some(shares) = self.ready(request, stop)? {
                break shares;
            }
        };
        let connecting = TIME_PER_CONNECTION * (request.clients() / shares.len() as u32);
        let lead = self.limits.lead + connecting;
        let agreed = clock::realtime() + Nanos::from(lead);
        live.agreed_ns.store(agreed.0, Ordering::Relaxed);
        for share in &mut shares {
            share.told = share.before.there(agreed);
            let (trial, at_ns) = (self.trial, share.told.0);
            self.order(share.tester, &Order::StartTrial { trial, at_ns });
        }
        let times = Duration::from(request.duration) + Duration::from(request.timeout);
        self.collect(&mut shares, lead + times + self.limits.reserve, live, stop);
        self.merge(shares, agreed, request, stop)
    }

    /// Returns an error if too few Testers are left, with the reasons of the losses.
    fn enough(&self) -> Result<(), Refusal> {
        let (all, left) = (self.testers.len(), self.living().len());
        let least = self.limits.least.unwrap_or(all).clamp(1, all.max(1));
        if left >= least {
            return Ok(());
        }
        let lost: Vec<String> = self.lost().map(|(name, why)| format!("{name}: {why}")).collect();
        let why = if all == 0 { "the job has no Tester".to_owned() } else { lost.join("; ") };
        Err(Refusal::Failed(format!("{left} of {least} required Testers are left: {why}")))
    }

    /// Assigns the slices, lets the Testers prepare them, and compares the clocks. `None` if a
    /// Tester was lost meanwhile.
    fn ready(
        &mut self,
        request: &TrialRequest,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<Share>>, Refusal> {
        let living = self.living();
        self.trial += 1;
        let of = living.len() as u32;
        let slices: Vec<Slice> = (1..=of).filter_map(|number| Slice::new(number, of)).collect();
        if slices.len() < living.len() {
            let most = measure::MAX_SLICES;
            return Err(Refusal::Failed(format!("{of} Testers; at most {most} are possible")));
        }
        for (index, slice) in living.iter().zip(&slices) {
            let request = TrialRequest {
                slice: *slice,
                // A goal is for all slices together.
                goal: None,
                early_stop: false,
                live: None,
                start_at: None,
                ..request.clone()
            };
            let (trial, command) = (self.trial, report::load_line(&request).to_string());
            let request = Box::new(request);
            self.order(*index, &Order::Prepare { trial, request, command });
            self.testers[*index].counters = [0; 5];
        }
        self.wait_prepared(&living, stop)?;
        let mut shares = Vec::new();
        for (tester, slice) in living.into_iter().zip(slices) {
            let reading =
                if self.testers[tester].lost.is_none() { self.compare_clock(tester) } else { None };
            let Some(before) = reading else { continue };
            self.check_clock(tester, before, request.clock_bound);
            shares.push(Share { tester, slice, before, told: Nanos::ZERO, part: None });
        }
        let lost = shares.len() < of as usize
            || shares.iter().any(|share| self.testers[share.tester].lost.is_some());
        Ok((!lost).then_some(shares))
    }

    /// Waits until all of `testers` have prepared the trial, or are lost. If some cannot, and
    /// trials go on without them, they are lost.
    fn wait_prepared(&mut self, testers: &[usize], stop: &AtomicBool) -> Result<(), Refusal> {
        let limit = self.limits.prepare;
        let deadline = Instant::now() + limit;
        let mut waiting = testers.to_vec();
        let (mut failed, may_lose) = (Vec::new(), self.limits.least.is_some());
        while !waiting.is_empty() {
            match self.receive() {
                Some((index, Reply::Prepared { trial })) if trial == self.trial => {
                    waiting.retain(|other| *other != index);
                }
                Some((index, Reply::Failed { trial, why })) if trial == self.trial => {
                    if !may_lose {
                        return Err(why.by(&self.testers[index].name));
                    }
                    waiting.retain(|other| *other != index);
                    failed.push((index, why));
                }
                Some((index, other)) => self.handle_unsolicited(index, &other),
                None => self.nap(),
            }
            if Instant::now() > deadline {
                for index in &waiting {
                    self.lose(*index, format!("it did not prepare the trial within {limit:?}"));
                }
            }
            waiting.retain(|index| self.testers[*index].lost.is_none());
            if stop.load(Ordering::Relaxed) {
                return Err(Refusal::Failed("interrupted before the start".to_owned()));
            }
        }
        if failed.len() == testers.len() {
            // If no Tester can prepare the trial, the request is at fault, not a host.
            let first = failed.into_iter().next();
            return first.map_or(Ok(()), |(index, why)| Err(why.by(&self.testers[index].name)));
        }
        for (index, why) in failed {
            self.lose(index, format!("it cannot prepare the trial: {why}"));
        }
        Ok(())
    }

    /// Loses a Tester whose clock is further from this host's than the bound.
    fn check_clock(&mut self, index: usize, reading: Reading, bound: ClockBound) {
        let ClockBound::Within(bound) = bound else { return };
        let away = Nanos(reading.offset_ns.unsigned_abs());
        if away > bound {
            let side = if reading.offset_ns < 0 { "behind" } else { "ahead of" };
            // Three digits are enough.
            let unit = if away >= Nanos::from_millis(1) { 1_000_000 } else { 1_000 };
            let away = Nanos((away.0 + unit / 2) / unit * unit);
            self.lose(
                index,
                format!("its clock is {away} {side} the conductor's, the bound is {bound}"),
            );
        }
    }

    /// Waits for the parts of a trial; ends it early if one of them is lost, or by `stop`.
    fn collect(&mut self, shares: &mut [Share], limit: Duration, live: &Live, stop: &AtomicBool) {
        let mut deadline = Instant::now() + limit;
        let mut stopped = false;
        while shares.iter().any(|share| share.part.is_none()) {
            match self.receive() {
                Some((index, report)) => self.note(shares, index, report),
                None => self.nap(),
            }
            self.add_counters(shares, live);
            let interrupted = stop.load(Ordering::Relaxed);
            if !stopped && (interrupted || shares.iter().any(|s| matches!(s.part, Some(Err(_))))) {
                stopped = true;
                let grace = if interrupted { self.limits.stopping } else { self.limits.silence };
                deadline = deadline.min(Instant::now() + grace);
                for share in shares.iter().filter(|share| share.part.is_none()) {
                    self.order(share.tester, &Order::EndTrial { trial: self.trial });
                }
            }
            if Instant::now() > deadline {
                let why = match stopped {
                    true => "it did not report its trial after the order to end it".to_owned(),
                    false => format!("it did not end its trial within {limit:?}"),
                };
                for share in shares.iter().filter(|share| share.part.is_none()) {
                    self.lose(share.tester, why.clone());
                }
            }
            for share in shares.iter_mut().filter(|share| share.part.is_none()) {
                share.part = self.testers[share.tester].lost.clone().map(Err);
            }
        }
    }

    /// Stores the report of a part.
    fn note(&mut self, shares: &mut [Share], index: usize, report: Reply) {
        let part = match report {
            Reply::Done { trial, result } if trial == self.trial => Ok(result),
            Reply::Failed { trial, why } if trial == self.trial => Err(why.to_string()),
            other => return self.handle_unsolicited(index, &other),
        };
        if let Some(share) = shares.iter_mut().find(|share| share.tester == index) {
            share.part.get_or_insert(part);
        }
    }

    /// Shows the counters, and their sums.
    fn add_counters(&self, shares: &[Share], live: &Live) {
        let shown = [&live.sent, &live.answered, &live.valid, &live.lost, &live.bad];
        for (place, counter) in shown.into_iter().enumerate() {
            let sum = shares.iter().map(|share| self.testers[share.tester].counters[place]).sum();
            counter.store(sum, Ordering::Relaxed);
        }
        let mut named = live.testers.lock().unwrap_or_else(PoisonError::into_inner);
        named.resize_with(shares.len(), Default::default);
        for ((name, sent, bad), share) in named.iter_mut().zip(shares) {
            let tester = &self.testers[share.tester];
            name.clone_from(&tester.name);
            [*sent, .., *bad] = tester.counters;
        }
    }

    /// Compares the clocks again, and merges the parts.
    fn merge(
        &mut self,
        shares: Vec<Share>,
        agreed: Nanos,
        request: &TrialRequest,
        stop: &AtomicBool,
    ) -> Result<TrialResult, Refusal> {
        let mut terms = MergeTerms { goal: request.goal.clone(), ..MergeTerms::default() };
        let mut parts = Vec::new();
        for Share { tester, slice, before, told, part } in shares {
            let name = self.testers[tester].name.clone();
            match part {
                Some(Ok(part)) => {
                    // An interrupted conductor has no time for it.
                    let hurry = stop.load(Ordering::Relaxed);
                    let after = if hurry { None } else { self.compare_clock(tester) };
                    if after.is_none() && !hurry {
                        let why = self.testers[tester].lost.clone();
                        let why = why.unwrap_or_else(|| "it did not report its clock".to_owned());
                        let why = format!("after the trial: {why}");
                        terms.lost.push(LostPart { name, slice, why });
                        continue;
                    }
                    let mut trial = part.with_verdict();
                    let clock = TesterClock { before, after };
                    let conditions = &mut trial.conditions;
                    conditions.agreed_start = conditions
                        .agreed_start
                        .map(|start| clock.start(agreed, told, start.error_us));
                    parts.push(Part { name, trial, clock: Some(clock.record()) });
                }
                other => {
                    let why = other.and_then(Result::err).unwrap_or_default();
                    terms.lost.push(LostPart { name, slice, why });
                }
            }
        }
        if parts.is_empty() {
            let lost = terms.lost.iter().map(|lost| format!("{}: {}", lost.name, lost.why));
            return Err(Refusal::Failed(lost.collect::<Vec<_>>().join("; ")));
        }
        record::merge(parts, &terms, &self.version, &self.command)
            .map_err(|e| Refusal::Failed(e.to_string()))
    }
}
