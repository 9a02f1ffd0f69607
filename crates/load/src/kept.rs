//! The outstanding queries of a client, if they may be sent again.
//!
//! ```text
//!             taken off a connection                      its connection sends
//! left ────────────────────────────────> waits (again) ─────────────────────────> left (again)
//! not left, not processed ─────────────> waits         ─────────────────────────> left
//! ```
//!
//! `again` says that a server may have the query already, so that its departure counts as sent again.

use std::collections::HashMap;

use measure::Nanos;

use crate::flight::{OutstandingTable, State};
use crate::pipeline::Pipeline;

/// An outstanding query.
#[derive(Debug)]
struct Query {
    message: Box<[u8]>,
    /// Number of times that the query was scheduled to be sent again.
    resends: u32,
    /// Whether the query was taken off its connection and waits for the next.
    waits: bool,
    /// Whether the query counts as sent again: its next departure (its last, unless it waits) is
    /// not the first.
    again: bool,
}

/// The outstanding queries of a client by id; at most one for each id.
#[derive(Debug, Default)]
pub(crate) struct KeptQueries {
    queries: HashMap<u16, Query>,
    /// Waiting queries that were ordered on the present connection.
    ordered: Vec<u16>,
}

impl KeptQueries {
    /// Keeps a query that leaves for the first time.
    pub(crate) fn keep(&mut self, message: &[u8]) {
        if let Some(id) = wire::reply::id(message) {
            let query = Query { message: message.into(), resends: 0, waits: false, again: false };
            self.queries.insert(id, query);
        }
    }

    /// Takes the query with an id.
    pub(crate) fn take(&mut self, id: u16) -> Option<Box<[u8]>> {
        self.queries.remove(&id).map(|query| query.message)
    }

    /// Forgets the query of a reply.
    pub(crate) fn forget(&mut self, reply: &[u8]) {
        if let (false, Some(id)) = (self.queries.is_empty(), wire::reply::id(reply)) {
            self.queries.remove(&id);
        }
    }

    /// Forgets the queries that have ended.
    pub(crate) fn forget_ended(&mut self, pipeline: &Pipeline) {
        self.queries.retain(|id, _| pipeline.is_outstanding(*id));
    }

    /// Returns whether the query with an id was sent again, or was to be.
    pub(crate) fn was_resent(&self, id: u16) -> bool {
        self.queries.get(&id).is_some_and(|query| query.resends > 0)
    }

    /// Notes that queries that have not left yet will not leave on the present connection.
    pub(crate) fn connection_ended(&mut self) {
        self.ordered.clear();
    }

    /// Notes that a waiting query was ordered on the current connection.
    pub(crate) fn order(&mut self, id: u16) {
        if self.queries.contains_key(&id) {
            self.ordered.push(id);
        }
    }

    /// Notes that all ordered queries leave; returns how many of them a server may have already.
    pub(crate) fn leave(&mut self) -> u64 {
        let mut again = 0;
        for id in self.ordered.drain(..) {
            if let Some(query) = self.queries.get_mut(&id) {
                again += u64::from(std::mem::take(&mut query.waits) && query.again);
            }
        }
        again
    }

    /// Notes that a query waits for its next connection, since it has not left or was not
    /// processed; returns whether its departure was counted by [`leave`](Self::leave).
    pub(crate) fn come_back(&mut self, id: u16) -> bool {
        let Some(query) = self.queries.get_mut(&id) else { return false };
        !std::mem::replace(&mut query.waits, true) && query.again
    }

    /// Returns the queries without a reply for this time, since they left or were sent again; they count as sent again now.
    pub(crate) fn unanswered(
        &mut self,
        pipeline: &Pipeline,
        now: Nanos,
        time: Nanos,
    ) -> Vec<Box<[u8]>> {
        let mut again = Vec::new();
        for (id, query) in &mut self.queries {
            let found = pipeline.find(*id);
            let waited = now.since(found.sent).0 / time.0.max(1);
            if found.state == State::Outstanding && waited > u64::from(query.resends) {
                query.resends = u32::try_from(waited).unwrap_or(u32::MAX);
                again.push(query.message.clone());
            }
        }
        again
    }

    /// Takes the queries off the present connection, or only the one with `id`, unless they were to be sent again `most` times or
    /// were due at `overdue` or before.
    pub(crate) fn take_for_resend(
        &mut self,
        pipeline: &mut Pipeline,
        id: Option<u16>,
        most: u32,
        overdue: Option<Nanos>,
    ) -> Vec<Box<[u8]>> {
        let mut taken = Vec::new();
        for (of, query) in &mut self.queries {
            let ends = id.map_or_else(|| pipeline.is_on_connection(*of), |id| id == *of);
            // A query that never left has a due time only.
            let found = pipeline.find(*of);
            let in_time = overdue.is_none_or(|overdue| found.sent > overdue);
            if ends && query.resends < most && in_time && pipeline.turn_away(*of) {
                query.resends += 1;
                let left = !std::mem::replace(&mut query.waits, true);
                query.again |= left && found.state == State::Outstanding;
                taken.push(query.message.clone());
            }
        }
        taken
    }
}
