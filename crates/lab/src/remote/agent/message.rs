//! What Tester and agent say to each other: a line of JSON each.
//!
//! ```text
//!  every agent            Clock, Begin, End, RunTime; Alive keeps it from ending and has no reply
//!  one that starts parts  Find, Start, Collect, Stop
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;

use measure::{Disturbances, Nanos};
use serde::{Deserialize, Serialize};

pub use super::parts::{Asked, AuthDnsPart, Certified, Cores, Part, Place, ServerPart, Source};
use crate::probe::HostUse;

/// Order of the Tester.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub enum Order {
    /// The Tester is still there; without a reply.
    Alive,
    /// Tell the time.
    Clock,
    /// A trial begins.
    Begin {
        /// Time until then, in seconds.
        in_s: f64,
    },
    /// The trial has ended.
    End {
        /// Duration of sending, in seconds.
        sending_s: f64,
    },
    /// Tell how long the server's own process ran until now.
    RunTime,
    /// Look for the program of an adapter.
    Find {
        /// Adapter.
        source: Source,
    },
    /// Start a part from scratch, in place of the one that runs.
    Start(Part),
    /// Tell how the part is.
    Collect,
    /// Stop the part.
    Stop,
}

/// Reply of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// The agent has started; its first message, which answers no order.
    Ready(Box<Greeting>),
    /// The order failed; the agent goes on.
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
    /// How long the server's own process ran.
    RunTime {
        /// That time.
        ran_ns: u64,
    },
    /// The program is there.
    Found {
        /// Version of the server, if it prints one.
        version: Option<String>,
    },
    /// The host cannot run this part, however often it is tried: the program is not installed, or it has too few cores.
    Cannot {
        /// What is missing, and what helps.
        why: String,
    },
    /// The part runs and answers on its host.
    Started(Box<Launched>),
    /// How the part is.
    Collected(Box<Collected>),
    /// No part runs any more.
    Stopped,
}

/// What an agent says of itself. Other versions say less or more; the version is what counts then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Greeting {
    /// Version of its program.
    pub version: String,
    /// Number of processes of the server that it watches, without their children.
    pub processes: usize,
    /// Addresses of its host, that by which it was reached first; empty if it does not know.
    pub addresses: Vec<IpAddr>,
    /// Number that its kernel drew when it started; absent if it cannot be read.
    pub boot_id: Option<String>,
    /// Cores that it may use.
    pub cpus: Vec<usize>,
    /// Whether it is the root of its machine.
    pub root: bool,
    /// Number of its process group.
    pub group: i32,
}

/// A part that was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Launched {
    /// Configuration files of the server as it read them, by name.
    pub files: BTreeMap<String, String>,
    /// Seconds from the server's start to its first correct answer.
    pub loaded_s: f64,
    /// Cores that the server may use.
    pub cpus: Vec<usize>,
    /// Means of its CPU limit, in words; absent without a limit.
    pub limited: Option<String>,
}

/// How a part is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Collected {
    /// Whether its processes still run.
    pub alive: bool,
    /// The end of its log.
    pub log: Vec<String>,
    /// Resident memory of its processes, in bytes.
    pub memory: u64,
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
    /// Number of connections that listening sockets of the host did not take.
    pub not_taken: u64,
    /// Number of messages that an AuthDNS got; absent of other servers, and where it did not tell.
    pub queries: Option<u64>,
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
    use std::net::{Ipv4Addr, Ipv6Addr};

    use experiment::file::Role;
    use measure::stall::Side;
    use measure::{Stall, Transport};
    use proptest::prelude::*;

    use super::*;
    use crate::server::authdns::Serves;

    fn parts(text: &str, number: u16, share: f64) -> [Part; 2] {
        let asked = Asked {
            prefix: text.to_owned(),
            zone: text.to_owned(),
            unpadded: number == 0,
            qtype: "A".to_owned(),
            pref64: text.to_owned(),
        };
        let place = Place { v4: Ipv4Addr::LOCALHOST, v6: Ipv6Addr::LOCALHOST, port: number };
        let cpus = Cores { list: Some(vec![usize::from(number)]), count: None };
        let server = ServerPart {
            source: Source::File(text.to_owned()),
            role: Role::Dns64,
            asked: asked.clone(),
            threads: Some(usize::from(number)),
            cpus: cpus.clone(),
            transport: Transport::Tls,
            clients: u32::from(number),
            variables: [(text.to_owned(), text.to_owned())].into(),
            certificate: Some(Certified { certificate: text.to_owned(), key: text.to_owned() }),
            listen: place,
            upstreams: vec![place],
            cpu_limit: Some(share),
        };
        let serves = Serves::Dut { aaaa_share: share, drilled: number == 0 };
        [
            Part::Server(Box::new(server)),
            Part::AuthDns(AuthDnsPart { serves, asked, listen: place, cpus }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_said_is_understood(
            now_ns: u64, number: u16, seconds in 0.0..1e9, busy in 0.0..1.0, alive: bool, text: String
        ) {
            let usage = HostUse { busy, waited: Some(busy), ..HostUse::default() };
            let queries = Some(now_ns);
            let seen = Seen { usage, cpus: vec![0, 3], alive, queries, ..Seen::default() };
            let greeting = Greeting { version: text.clone(), root: alive, ..Greeting::default() };
            let files = [(text.clone(), text.clone())].into();
            let launched = Launched { files, loaded_s: seconds, cpus: vec![1], limited: None };
            let collected = Collected { alive, log: vec![text.clone()], memory: now_ns };
            let all = [
                Reply::Ready(Box::new(greeting)),
                Reply::Refused { why: text.clone() },
                Reply::Cannot { why: text.clone() },
                Reply::Found { version: Some(text.clone()) },
                Reply::Clock { now_ns },
                Reply::RunTime { ran_ns: now_ns },
                Reply::Begun,
                Reply::Stopped,
                Reply::Seen(Box::new(seen)),
                Reply::Started(Box::new(launched)),
                Reply::Collected(Box::new(collected)),
            ];
            for reply in all {
                let line = serde_json::to_string(&reply).expect("JSON");
                prop_assert!(!line.contains('\n'));
                prop_assert_eq!(serde_json::from_str::<Reply>(&line).expect("a reply"), reply);
            }
            let simple = [
                Order::Alive, Order::Clock, Order::Begin { in_s: seconds }, Order::End { sending_s: seconds },
                Order::RunTime, Order::Find { source: Source::File(text.clone()) }, Order::Collect, Order::Stop,
            ];
            let starts = parts(&text, number, busy).map(Order::Start);
            for order in simple.into_iter().chain(starts) {
                let line = serde_json::to_string(&order).expect("JSON");
                prop_assert!(!line.contains('\n'));
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
