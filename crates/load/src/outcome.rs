//! Outcomes: the result of each query, by its reply or the lack of one.
//!
//! ```text
//! the slot of the reply's id     outcome of the reply
//! free                           unexpected
//! answered                       duplicate
//! forgotten                      late: its query was counted already
//! expired                        late: its query was counted as lost; in a closed loop it is answered after all if it
//!                                is within the timeout, since it only lost its place
//! outstanding, overdue           late, and its query is lost
//! outstanding, in time           answered: valid or invalid as the workload says, but late if it answers
//!                                the lost previous query with this id
//! ```

use std::sync::Arc;

use engine::Next;
use measure::Nanos;
use measure::stall::LostQuery;

use crate::flight::{FoundQuery, OutstandingTable, State};
use crate::live::{Live, QueryOutcome};
use crate::patience::Patience;
use crate::tally::Tally;
use crate::workload::Workload;

/// Interval between checks whether a pipe has a query.
pub(crate) const PIPE_CHECK_INTERVAL: Nanos = Nanos::from_millis(1);
/// Return codes of an answer: NOERROR and NXDOMAIN.
const ANSWER_RCODES: [usize; 2] = [0, 3];
/// Octets of a message with the number of its answers (RFC 1035 section 4.1.1).
const ANCOUNT: std::ops::Range<usize> = 6..8;

/// Validates replies and counts the outcomes.
pub(crate) struct Outcomes {
    pub(crate) workload: Box<dyn Workload>,
    pub(crate) tally: Tally,
    timeout: Nanos,
    /// Time for which a query of a closed loop keeps its place.
    patience: Option<Patience>,
    /// Where each outcome is written, if the command prints them.
    live: Option<Arc<Live>>,
    /// Since when the workload has no query yet, although one is due.
    starved_since: Option<Nanos>,
    /// Time at which the workload had a query again after a lack: it replaces earlier due times.
    fed_at: Nanos,
}

impl Outcomes {
    pub(crate) fn new(workload: Box<dyn Workload>, tally: Tally, timeout: Nanos) -> Self {
        let (starved_since, fed_at) = (None, Nanos::ZERO);
        Outcomes { workload, tally, timeout, patience: None, live: None, starved_since, fed_at }
    }

    /// Lets a query of a closed loop lose its place before its timeout.
    pub(crate) fn freeing_places(self, patience: Option<Patience>) -> Self {
        Outcomes { patience, ..self }
    }

    /// Returns `next`, but not the end while a query that lost its place may still be answered.
    /// A load with a highest rate does not wait for such replies: its server is known to drop
    /// queries.
    pub(crate) fn outlast(&mut self, next: Next, now: Nanos) -> Next {
        // The input may have stayed empty until the end of the sending.
        let since = self.starved_since.take();
        self.tally.starved += since.map_or(Nanos::ZERO, |since| now.since(since));
        let awaits = self.patience.as_ref().is_some_and(|patience| !patience.is_capped());
        let end = self.tally.last_sent.since(self.tally.started) + self.timeout;
        match next {
            Next::Done if awaits && self.tally.lost > 0 && now < end => Next::At(end),
            next => next,
        }
    }

    /// Returns whether queries lose their places before their timeout.
    pub(crate) fn frees_places(&self) -> bool {
        self.patience.is_some()
    }

    /// Returns the tally of a load that has ended.
    pub(crate) fn into_tally(mut self) -> Tally {
        if self.patience.is_some() {
            // Before that, each of these queries could still be answered.
            self.tally.latency.record_many(self.timeout, self.tally.lost);
        }
        self.tally
    }

    /// Writes each outcome into the journal, if there is one.
    pub(crate) fn with_journal(self, live: &Arc<Live>) -> Self {
        Outcomes { live: live.journal.is_some().then(|| live.clone()), ..self }
    }

    /// Writes the outcome of a query into the journal.
    #[inline]
    fn note(&self, key: u32, rcode: Option<u8>, latency: Nanos) {
        if let Some(journal) = self.live.as_ref().and_then(|live| live.journal.as_ref()) {
            journal.add(QueryOutcome { key, rcode, latency });
        }
    }

    /// Returns from when on the next query, which was due at `due`, could leave; `None` if it has to be waited for until
    /// [`PIPE_CHECK_INTERVAL`] later. After the end of the sending no query is waited for: the workload is exhausted without one.
    #[inline]
    pub(crate) fn there_since(&mut self, due: Nanos, now: Nanos) -> Option<Nanos> {
        if self.workload.is_ready() || now >= self.tally.until {
            if let Some(since) = self.starved_since.take() {
                self.tally.starved += now.since(since);
                self.fed_at = now;
            }
            return Some(due.max(self.fed_at));
        }
        self.starved_since.get_or_insert(now);
        None
    }

    /// Returns the number of bytes that every query fits in.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.workload.room()
    }

    /// Writes the workload's next query, due at `due` and with its id of `table`, into `out`; returns its length.
    /// Without a next query it returns 0, and the names are exhausted.
    #[inline]
    pub(crate) fn compose(
        &mut self,
        table: &mut impl OutstandingTable,
        due: Nanos,
        out: &mut [u8],
    ) -> usize {
        let Some(composed) = self.workload.next(out) else {
            self.tally.exhausted = true;
            return 0;
        };
        let id = table.launch(due, composed.key);
        out[..2].copy_from_slice(&id.to_be_bytes());
        self.tally.query_bytes += composed.len as u64;
        composed.len
    }

    /// Passes over `queries` queries of the workload; without enough of them the names are exhausted.
    pub(crate) fn skip(&mut self, queries: u32) {
        let mut unsent = vec![0; self.room()];
        let short = (0..queries).any(|_| self.workload.next(&mut unsent).is_none());
        self.tally.exhausted |= short;
    }

    /// Counts a query that left `at` this time.
    #[inline]
    pub(crate) fn record_sent(&mut self, at: Nanos) {
        let tally = &mut self.tally;
        tally.sent += 1;
        tally.second(at).sent += 1;
        if let Some(step) = tally.steps.as_mut().and_then(|steps| steps.at(at)) {
            step.sent += 1;
        }
    }

    /// Counts a query that left at `at`, `late` after it was due.
    #[inline]
    pub(crate) fn record_departure(&mut self, at: Nanos, late: Nanos) {
        self.record_sent(at);
        self.tally.schedule_error.record(late);
        self.tally.disturbances.add_departure(at.since(late), late);
    }

    /// Counts queries that found no connection and never left, given up at `at`; they enter the
    /// latencies with the timeout.
    pub(crate) fn record_unserved(&mut self, at: Nanos, count: u64) {
        self.tally.unserved += count;
        self.tally.second(at).unserved += count;
        self.tally.latency.record_many(self.timeout, count);
    }

    /// Counts a query again, which was counted as sent, as one that found no connection.
    pub(crate) fn record_never_left(&mut self, query: &FoundQuery, at: Nanos) {
        let tally = &mut self.tally;
        tally.sent -= 1;
        tally.second(query.sent).sent -= 1;
        if let Some(step) = tally.steps.as_mut().and_then(|steps| steps.at(query.sent)) {
            step.sent -= 1;
        }
        let lost = query.state == State::Expired;
        tally.lost -= u64::from(lost);
        tally.unserved += 1;
        tally.second(at).unserved += 1;
        // A query that lost its place may be counted in the latencies already.
        if !lost || self.patience.is_some() {
            tally.latency.record_many(self.timeout, 1);
        }
    }

    /// Handles a message that arrived `at` on `socket` (or connection), which has `table` (`None` for an
    /// unknown one); returns the outstanding query that it ended.
    #[inline]
    pub(crate) fn record_reply<T: OutstandingTable>(
        &mut self,
        socket: u16,
        table: Option<&mut T>,
        at: Nanos,
        message: &[u8],
    ) -> Option<FoundQuery> {
        let (Some(table), Some(id)) = (table, wire::reply::id(message)) else {
            self.tally.unexpected += 1;
            return None;
        };
        let found = table.find(id);
        match found.state {
            State::Free => self.tally.unexpected += 1,
            State::Answered => self.tally.duplicates += 1,
            State::Forgotten => self.tally.late += 1,
            State::Expired => {
                let gave_up = self.patience.is_some() && at.since(found.sent) <= self.timeout;
                if gave_up {
                    let outcome = self.workload.check(found.key, message);
                    self.record_answer(&found, at, message, outcome);
                    self.tally.lost -= 1;
                } else {
                    self.tally.late += 1;
                }
                table.mark_answered(id);
            }
            State::Outstanding if at.since(found.sent) > self.timeout => {
                // The timeout has passed, but the query has not been expired yet.
                self.tally.late += 1;
                table.mark_answered(id);
                self.record_lost(1);
                let lost = lost_query(&found, socket, id, &*self.workload);
                self.tally.disturbances.add_lost(lost);
                self.note(found.key, None, self.timeout);
                return Some(found);
            }
            State::Outstanding => {
                let outcome = self.workload.check(found.key, message);
                if found.after_lost && outcome == Err(wire::Invalid::WrongQuestion) {
                    self.tally.late += 1;
                    table.mark_predecessor_answered(id);
                    return None;
                }
                table.mark_answered(id);
                self.record_answer(&found, at, message, outcome);
                return Some(found);
            }
        }
        None
    }

    /// Counts a reply in time to the query `found`, which is valid or not by `outcome`.
    #[inline]
    fn record_answer(
        &mut self,
        found: &FoundQuery,
        at: Nanos,
        message: &[u8],
        outcome: Result<u8, wire::Invalid>,
    ) {
        if let Some(patience) = &mut self.patience {
            patience.answer(at.since(found.sent));
        }
        let tally = &mut self.tally;
        tally.answered += 1;
        tally.last_reply = tally.last_reply.max(at);
        tally.latency.record(at.since(found.due));
        tally.latency_from_send.record(at.since(found.sent));
        // From the due time: a query that waits for its connection is in the queue, too.
        tally.outstanding.add(found.due, at);
        tally.reply_bytes += message.len() as u64;
        let rcode = match outcome {
            Ok(code) | Err(wire::Invalid::Rcode(code)) => usize::from(code),
            Err(_) => usize::from(message.get(3).map_or(0, |flags| flags & 15)),
        };
        tally.rcodes[rcode] += 1;
        if let Some(steps) = &mut tally.steps {
            steps.add_reply(found.sent, at, !ANSWER_RCODES.contains(&rcode));
        }
        match outcome {
            Ok(_) => {
                tally.valid += 1;
                let is_empty = message.get(ANCOUNT).is_some_and(|count| count == [0, 0]);
                tally.empty += u64::from(rcode == 0 && is_empty);
                tally.valid_while_sending += u64::from(at <= tally.until);
            }
            Err(reason) => tally.invalid[reason.index()] += 1,
        }
        tally.second(found.sent).add_reply(rcode, outcome.err());
        self.note(found.key, Some(rcode as u8), at.since(found.sent));
    }

    /// Counts queries without a reply in time; they enter the latencies with the timeout.
    pub(crate) fn record_lost(&mut self, count: u64) {
        self.tally.lost += count;
        if self.patience.is_none() {
            self.tally.latency.record_many(self.timeout, count);
        }
    }

    /// Expires the overdue queries of `table`, the table of `socket` (or connection); returns their
    /// number.
    pub(crate) fn expire(
        &mut self,
        table: &mut impl OutstandingTable,
        socket: u16,
        now: Nanos,
    ) -> u64 {
        let mut lost = 0;
        let keeps = match &mut self.patience {
            Some(patience) => patience.keeps(&self.tally.latency_from_send, self.timeout),
            None => self.timeout,
        };
        table.expire_each(now, keeps, |id, found| {
            lost += 1;
            if self.patience.is_none() {
                let lost = lost_query(&found, socket, id, &*self.workload);
                self.tally.disturbances.add_lost(lost);
            }
            if let Some(journal) = self.live.as_ref().and_then(|live| live.journal.as_ref()) {
                journal.add(QueryOutcome { key: found.key, rcode: None, latency: self.timeout });
            }
        });
        self.record_lost(lost);
        lost
    }
}

/// Returns the stored form of a lost query.
fn lost_query(found: &FoundQuery, socket: u16, id: u16, workload: &dyn Workload) -> LostQuery {
    let address = workload.address(found.key);
    let (due, sent) = (found.due, found.sent);
    LostQuery { due, sent, socket, port: None, id, address, seen_by_authdns: None }
}
