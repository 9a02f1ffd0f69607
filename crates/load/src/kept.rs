//! The outstanding queries of a client, if they may be sent again.

use std::collections::HashMap;

use measure::Nanos;

use crate::flight::{OutstandingTable, State};
use crate::pipeline::Pipeline;

/// The outstanding queries of a client by id, each with how often it was sent again; at most one for each id.
#[derive(Debug, Default)]
pub(crate) struct Kept(HashMap<u16, (Box<[u8]>, u32)>);

impl Kept {
    /// Keeps a query that leaves for the first time.
    pub(crate) fn keep(&mut self, message: &[u8]) {
        if let Some(id) = wire::reply::id(message) {
            self.0.insert(id, (message.into(), 0));
        }
    }

    /// Takes the query with an id.
    pub(crate) fn take(&mut self, id: u16) -> Option<Box<[u8]>> {
        self.0.remove(&id).map(|(message, _)| message)
    }

    /// Forgets the query of a reply.
    pub(crate) fn forget(&mut self, reply: &[u8]) {
        if let (false, Some(id)) = (self.0.is_empty(), wire::reply::id(reply)) {
            self.0.remove(&id);
        }
    }

    /// Forgets the queries that have ended.
    pub(crate) fn forget_ended(&mut self, pipeline: &Pipeline) {
        self.0.retain(|id, _| pipeline.is_outstanding(*id));
    }

    /// Returns whether the query with an id was sent again.
    pub(crate) fn was_resent(&self, id: u16) -> bool {
        self.0.get(&id).is_some_and(|(_, resends)| *resends > 0)
    }

    /// Returns the queries without a reply for this time, since they left or were sent again; they count as sent again now.
    pub(crate) fn unanswered(
        &mut self,
        pipeline: &Pipeline,
        now: Nanos,
        time: Nanos,
    ) -> Vec<Box<[u8]>> {
        let mut again = Vec::new();
        for (id, (message, resends)) in &mut self.0 {
            let found = pipeline.find(*id);
            let waited = now.since(found.sent).0 / time.0.max(1);
            if found.state == State::Outstanding && waited > u64::from(*resends) {
                *resends = u32::try_from(waited).unwrap_or(u32::MAX);
                again.push(message.clone());
            }
        }
        again
    }

    /// Removes the queries of the present connection, or only the one with `id`, unless they were sent again `most` times or were due
    /// at `overdue` or before; returns each, and whether it had left.
    pub(crate) fn take_for_resend(
        &mut self,
        pipeline: &mut Pipeline,
        id: Option<u16>,
        most: u32,
        overdue: Option<Nanos>,
    ) -> Vec<(Box<[u8]>, bool)> {
        let mut again = Vec::new();
        for (of, (message, resends)) in &mut self.0 {
            let ends = id.map_or_else(|| pipeline.is_on_connection(*of), |id| id == *of);
            // One that never left has no time of sending but that at which it was due.
            let found = pipeline.find(*of);
            let waits = *resends < most && overdue.is_none_or(|overdue| found.sent > overdue);
            if ends && waits && pipeline.turn_away(*of) {
                *resends += 1;
                again.push((message.clone(), found.state == State::Outstanding));
            }
        }
        again
    }
}
