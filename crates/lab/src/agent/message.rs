//! What Tester and agent say to each other: a line of JSON each.

use measure::{Disturbances, Nanos};
use serde::{Deserialize, Serialize};

use crate::probe::HostUse;

/// Order of the Tester.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub enum Order {
    /// Tell the time.
    Clock,
    /// A trial begins.
    Begin {
        /// Longest time until the next order, in seconds; after it the agent ends.
        at_most_s: f64,
    },
    /// The trial has ended.
    End {
        /// Duration of sending, in seconds.
        sending_s: f64,
    },
}

/// Reply of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// It has found the server; the first reply, without an order.
    Ready {
        /// Its version.
        version: String,
        /// Number of processes of the server, without their children.
        processes: usize,
    },
    /// There is nothing to watch.
    Refused {
        /// Why.
        why: String,
    },
    /// The time of `CLOCK_MONOTONIC`.
    Clock {
        /// The time.
        now_ns: u64,
    },
    /// It watches.
    Begun,
    /// What it saw during the trial.
    Seen(Box<Seen>),
}

/// What an agent saw on the server's host during a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Use of the server's cores.
    pub usage: HostUse,
    /// The server's cores.
    pub cpus: Vec<usize>,
    /// Number of datagrams and packets that the host received and dropped.
    pub receive_drops: u64,
    /// Stalls of those cores, on the host's clock; then on that of the Tester.
    pub disturbances: Disturbances,
    /// Whether the server's processes still ran at the end.
    pub alive: bool,
}

impl Seen {
    /// Moves the stalls to a clock that is `ahead` of the host's (behind if negative).
    pub(super) fn move_clock(&mut self, ahead_ns: i64) {
        for stall in &mut self.disturbances.stalls {
            stall.at = Nanos(stall.at.0.saturating_add_signed(ahead_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use measure::Stall;
    use measure::stall::Side;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_said_is_understood(now_ns: u64, seconds in 0.0..1e9, busy in 0.0..1.0, alive: bool, text: String) {
            let usage = HostUse { busy, waited: Some(busy), ..HostUse::default() };
            let seen = Seen { usage, cpus: vec![0, 3], alive, ..Seen::default() };
            let ready = Reply::Ready { version: text.clone(), processes: 1 };
            let all = [ready, Reply::Refused { why: text }, Reply::Clock { now_ns }, Reply::Begun, Reply::Seen(Box::new(seen))];
            for reply in all {
                let line = serde_json::to_string(&reply).expect("JSON");
                prop_assert!(!line.contains('\n'));
                prop_assert_eq!(serde_json::from_str::<Reply>(&line).expect("a reply"), reply);
            }
            for order in [Order::Clock, Order::Begin { at_most_s: seconds }, Order::End { sending_s: seconds }] {
                let line = serde_json::to_string(&order).expect("JSON");
                prop_assert_eq!(serde_json::from_str::<Order>(&line).expect("an order"), order);
            }
        }

        #[test]
        fn any_text_is_understood_or_refused(text in ".{0,60}|[{}a-z\":,0-9]{0,60}", ahead in any::<i64>()) {
            let _ = serde_json::from_str::<Order>(&text);
            if let Ok(Reply::Seen(mut seen)) = serde_json::from_str::<Reply>(&text) {
                seen.move_clock(ahead);
            }
        }
    }

    #[test]
    fn stalls_are_moved_to_the_testers_clock() {
        let at = Nanos::from_secs(5);
        let mut seen = Seen::default();
        seen.disturbances.add_stall(Stall { side: Side::Dut, at, length: Nanos::from_millis(9) });
        seen.move_clock(-2_000_000_000);
        assert_eq!(seen.disturbances.stalls[0].at, Nanos::from_secs(3));
        seen.move_clock(i64::MIN);
        assert_eq!(seen.disturbances.stalls[0].at, Nanos::ZERO);
    }
}
