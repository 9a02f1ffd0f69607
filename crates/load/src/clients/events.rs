//! What happens on the connections of the clients: they open, bring replies and close.

use engine::Next;
use engine::stream::{ConnId, End, Failure, Opened, Orders, StreamRole};
use measure::Nanos;

use super::{Clients, ConnectionState, Phase, RECONNECT_DELAY};

impl StreamRole for Clients {
    fn opened(&mut self, now: Nanos, conn: ConnId, how: Opened) {
        let last_activity = self.clock(now);
        let client = &mut self.clients[conn as usize];
        (client.state, client.last_activity) = (ConnectionState::Open, last_activity);
        self.opening -= 1;
        self.open += 1;
        let tally = &mut self.connections[self.plan.mix.kind(conn)];
        tally.established += 1;
        tally.resumed += u64::from(how.resumed);
        tally.early_data += u64::from(how.early_data);
        tally.open_at_end += 1;
        tally.peak = tally.peak.max(tally.open_at_end);
        if how.connect > Nanos::ZERO {
            tally.connect.record(how.connect);
        }
        // Datagrams have no handshake.
        if how.handshake > Nanos::ZERO {
            tally.handshake.record(how.handshake);
        }
        // Replies to early data may be here already.
        self.after_query_ended(conn);
    }

    fn message(&mut self, now: Nanos, conn: ConnId, message: &[u8]) {
        let at = self.clock(now);
        let client = &mut self.clients[conn as usize];
        client.last_activity = at;
        if let Some(found) = self.outcomes.record_reply(Some(&mut client.pipeline), at, message) {
            self.in_flight -= 1;
            let tally = &mut self.connections[self.plan.mix.kind(conn)];
            let first = !std::mem::replace(&mut client.answered, true);
            let latencies = if first { &mut tally.first_query } else { &mut tally.steady };
            latencies.record(at.since(found.sent));
            self.after_query_ended(conn);
        }
    }

    fn closed(&mut self, now: Nanos, conn: ConnId, end: End) {
        let now = self.clock(now);
        let client = &mut self.clients[conn as usize];
        let tally = &mut self.connections[self.plan.mix.kind(conn)];
        match client.state {
            ConnectionState::Opening => self.opening -= 1,
            _ => {
                self.open -= 1;
                tally.open_at_end -= 1;
            }
        }
        let early = client.pipeline.outstanding() > 0;
        let failure = match (client.state, end) {
            (ConnectionState::Ending(failure), _) => failure,
            (_, End::Failed(failure)) => Some(failure),
            (_, End::ByPeer) if early => Some(Failure::ClosedEarly),
            (_, End::ByPeer) => {
                tally.closed_by_peer += 1;
                None
            }
            (_, End::Ordered) => None,
        };
        if client.state == ConnectionState::Ending(None) {
            tally.completed += 1;
        }
        client.state = ConnectionState::Closed;
        let lost = client.pipeline.reset();
        self.in_flight -= lost;
        self.outcomes.record_lost(lost);
        tally.lost_with_connection += lost;
        failure.into_iter().for_each(|why| tally.failed[why.index()] += 1);
        match failure {
            _ if self.plan.population.random_order => {}
            None => self.closed.push_back(conn),
            Some(_) => self.waiting.push_back((now + RECONNECT_DELAY, conn)),
        }
    }

    fn orders(&mut self, now: Nanos, orders: &mut Orders) -> Next {
        if let Phase::Opening(left) = self.phase {
            return self.open_all(now, left, orders);
        }
        let start = self.start.unwrap_or(now);
        if now < start {
            return Next::At(start);
        }
        let now = now.since(start);
        while self.waiting.front().is_some_and(|(until, _)| *until <= now) {
            self.closed.extend(self.waiting.pop_front().map(|(_, conn)| conn));
        }
        self.sweep(now, orders);
        for conn in self.ending.drain(..) {
            orders.close(conn);
        }
        let next = match self.phase {
            Phase::Draining => self.drain(),
            _ => self.send_due(now, orders),
        };
        match next {
            Next::At(at) => Next::At(start + at),
            other => other,
        }
    }

    fn sent(&mut self, at: Nanos, conn: ConnId) {
        self.outcomes.tally.last_sent = at;
        let at = self.clock(at);
        let (errors, room_since) = (&mut self.outcomes.tally.schedule_error, self.room_since);
        let client = &mut self.clients[conn as usize];
        // Queries that waited for the connection were recorded when they were handed over.
        let sending = std::mem::replace(&mut client.sending, true);
        client.pipeline.mark_sent(at, |due| {
            if sending {
                errors.record(at.since(due.max(room_since)));
            }
        });
    }
}
