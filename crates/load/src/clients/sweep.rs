//! Sweeps: what is overdue or idle is found at intervals. Of many clients each sweep looks at a part, so that none is long.

use engine::stream::{ConnId, Failure, Orders};
use measure::Nanos;

use super::events::place;
use super::{Clients, ConnectionState, Phase};

/// Highest number of clients that one sweep looks at: about 0.1 ms of work.
const SWEPT: usize = 2_048;
/// Number of sweeps of all clients within one timeout.
const SWEEPS: u64 = 32;
/// Shortest and longest interval between them, in nanoseconds.
const BOUNDS: (u64, u64) = (100_000, 20_000_000);
/// Shortest interval between sweeps of parts of the clients.
const PART_INTERVAL: Nanos = Nanos::from_millis(1);

/// Returns the interval between sweeps with this timeout of so many clients.
pub(super) fn interval(timeout: Nanos, clients: usize) -> Nanos {
    let every = (timeout.0 / SWEEPS).clamp(BOUNDS.0, BOUNDS.1);
    match clients.div_ceil(SWEPT) {
        0 | 1 => Nanos(every),
        parts => Nanos(every / parts as u64).max(PART_INTERVAL),
    }
}

impl Clients {
    /// At intervals, expires overdue queries, aborts stalled connections, closes idle ones, publishes the
    /// counters and checks the goal.
    pub(super) fn sweep(&mut self, now: Nanos, orders: &mut Orders) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + self.sweep_every;
        let timeout = self.plan.plan.timeout;
        let from = std::mem::take(&mut self.sweep_at);
        let to = (from + SWEPT).min(self.clients.len());
        self.sweep_at = if to == self.clients.len() { 0 } else { to };
        for conn in from as ConnId..to as ConnId {
            let client = &mut self.clients[conn as usize];
            let lost = self.outcomes.expire(&mut client.pipeline, place(conn), now);
            if lost == 0 {
                let idle = self.plan.population.close_idle;
                if idle.is_some_and(|idle| client.last_activity + idle <= now)
                    && client.state == ConnectionState::Open
                    && client.pipeline.outstanding() == 0
                {
                    client.state = ConnectionState::Ending(None);
                    self.connections[self.plan.mix.kind(conn)].closed_idle += 1;
                    self.ending.push(conn);
                }
                continue;
            }
            self.in_flight -= lost;
            if client.last_activity + timeout <= now && client.state == ConnectionState::Open {
                client.state = ConnectionState::Ending(Some(Failure::Stalled));
                orders.abort(conn);
                continue;
            }
            let first = u64::from(!std::mem::replace(&mut client.lost_query, true));
            self.connections[self.plan.mix.kind(conn)].slow += first;
            self.after_query_ended(conn);
        }
        if self.watch.goal_missed(now, &self.outcomes.tally) && self.phase == Phase::Sending {
            self.outcomes.tally.stopped_early = true;
            self.phase = Phase::Draining;
        }
    }
}
