//! The waits of the queries of a closed loop.
//!
//! Each place of the loop has one query outstanding: places in use = replies a second x latency (Little's law). Where neither
//! the server nor the Tester had a full core, the latency says what the loop waited for.

use serde::{Deserialize, Serialize};

use super::Limiter;
use crate::proof::LimiterProof;

/// Time by which Linux delays an acknowledgement, in microseconds.
const DELAYED_ACK_US: f64 = 40_000.0;
/// Share of the time of a loop from which on what it waited for is its limit.
const LIMITING_SHARE: f64 = 0.5;
/// Share of the time of its places that a loop which is its own limit uses.
const FULL_SHARE: f64 = 0.8;
/// Factor by which replies take longer than the fastest one at most if none waits for another.
const NO_QUEUE: f64 = 1.8;

/// Facts about the queries of a closed loop; the default is for an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Largest number of queries outstanding.
    pub places: u32,
    /// Duration, in seconds.
    pub duration_s: f64,
    /// Number of replies.
    pub replies: u64,
    /// Mean time from sent to reply, in microseconds.
    pub mean_us: f64,
    /// Shortest such time; `None` over connections, where queries wait for others.
    pub least_us: Option<f64>,
    /// Share (0 to 1) of the replies that arrived when a delayed acknowledgement was due.
    pub delayed: f64,
    /// Number of queries of a lock-step load without a reply, and the share (0 to 1) of its time that it waited for them.
    pub lost: (u64, f64),
}

impl Waits {
    /// Returns the limiter that the waits show, and its proof: the server held replies until an
    /// acknowledgement, or sent none; or it answered each query at once, and the loop had no more
    /// queries outstanding. `dropped` is whether a queue dropped queries.
    pub(super) fn limiter(&self, dropped: bool) -> Option<(Limiter, LimiterProof)> {
        let Waits { places, mean_us, .. } = *self;
        let delayed = self.delayed * DELAYED_ACK_US / mean_us.max(1.0);
        if delayed >= LIMITING_SHARE {
            let (replies, share) = (self.delayed, delayed.min(1.0));
            return Some((Limiter::Dut, LimiterProof::DelayedReplies { replies, share }));
        }
        let (queries, share) = self.lost;
        if queries > 0 && share >= LIMITING_SHARE && !dropped {
            return Some((Limiter::Dut, LimiterProof::NoReply { queries, share }));
        }
        let share = self.share_used();
        let is_at_once = |least_us: f64| places == 1 || mean_us <= NO_QUEUE * least_us;
        (share >= FULL_SHARE && self.least_us.is_some_and(is_at_once)).then_some((
            Limiter::TesterClients,
            LimiterProof::PlacesFull { places, share, mean_us },
        ))
    }

    /// Returns the limiter of a load on a resolver that had `queries` at name servers at a time, and
    /// its proof: the resolver where it held most of what was outstanding, else the load, of which
    /// half or more was at name servers. `None` if not all places were in use.
    pub fn at_name_servers(&self, queries: f64) -> Option<(Limiter, LimiterProof)> {
        let places = self.places;
        let most = queries >= LIMITING_SHARE * f64::from(places);
        let limiter = if most { Limiter::TesterClients } else { Limiter::Dut };
        let is_full = self.share_used() >= FULL_SHARE;
        is_full.then_some((limiter, LimiterProof::AtNameServers { queries, places }))
    }

    /// Returns the share (0 to 1) of the time of its places that the loop used.
    fn share_used(&self) -> f64 {
        let places_us = f64::from(self.places) * self.duration_s * 1e6;
        (self.replies as f64 * self.mean_us / places_us.max(1.0)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_closed_loop_waited_for_is_its_limiter() {
        // Records of runs: places, replies a second, mean and shortest latency, share of delayed replies, lost queries.
        let loop_of = |places, replies, mean_us, least_us, delayed, lost| {
            let duration_s = 1.0;
            Waits { places, duration_s, replies, mean_us, least_us, delayed, lost }.limiter(false)
        };
        let none = (0, 0.0);
        let over_tls = loop_of(64, 368, 42_540.0, None, 0.99, none);
        let of_tcp = loop_of(500, 4_200, 14_300.0, None, 0.28, none);
        let few = loop_of(500, 18_400, 4_800.0, None, 0.05, none);
        let one_lane = loop_of(1, 10_454, 88.6, Some(32.4), 0.0, none);
        let two_lanes = loop_of(2, 29_197, 58.8, Some(36.5), 0.0, none);
        let queued = loop_of(16, 61_548, 220.9, Some(79.0), 0.0, none);
        let lost = loop_of(8, 4_006, 854.3, Some(56.1), 0.0, (2, 0.65));
        let found = [over_tls, of_tcp, few, one_lane, two_lanes, queued, lost];
        let found = found.map(|found| found.map(|(limiter, proof)| (limiter, proof.to_string())));
        let said = |limiter, text: &str| Some((limiter, text.to_owned()));
        let wanted = [
            said(
                Limiter::Dut,
                "99 % of the replies waited 40 ms for a delayed acknowledgement, 93 % of the time of all replies",
            ),
            said(
                Limiter::Dut,
                "28 % of the replies waited 40 ms for a delayed acknowledgement, 78 % of the time of all replies",
            ),
            None,
            said(
                Limiter::TesterClients,
                "the load has 1 query outstanding at most, and had it 93 % of the time: replies took 89 us",
            ),
            said(
                Limiter::TesterClients,
                "the load has 2 queries outstanding at most, and had them 86 % of the time: replies took 59 us",
            ),
            None,
            said(
                Limiter::Dut,
                "queries without a reply and without a known drop: 2; the load waited for them 65 % of the time",
            ),
        ];
        assert_eq!(found, wanted);
        // One connection of 100 queries to a resolver whose name servers are 20 ms away.
        let of_names = |replies, mean_us, queries| {
            let waits =
                Waits { places: 100, duration_s: 1.0, replies, mean_us, ..Waits::default() };
            waits.at_name_servers(queries).map(|(limiter, proof)| (limiter, proof.to_string()))
        };
        let text = "10 queries wait at name servers on average, at most 100";
        assert_eq!(of_names(482, 211_800.0, 10.2), said(Limiter::Dut, text));
        let all = of_names(3_911, 25_700.0, 99.9).map(|(limiter, _)| limiter);
        assert_eq!((all, of_names(482, 21_000.0, 10.2)), (Some(Limiter::TesterClients), None));
        // What a queue dropped is no proof against a server that had time left.
        let dropped = Waits { places: 8, lost: (2, 0.9), ..Waits::default() };
        assert_eq!((dropped.limiter(true), Waits::default().limiter(false)), (None, None));
    }
}
