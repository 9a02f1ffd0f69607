//! Messages to processes on other hosts, and from them: an order or a reply, a line of JSON each,
//! on pipes (ssh, the starter of a job) or between the ranks of Open MPI.
//!
//! ```text
//!  all of them            Clock; Alive keeps them from ending and has no reply
//!  every agent            Begin, End, RunTime
//!  one that starts parts  Find, Start, Collect, Stop
//!  the conductor of a job Trial, EndTrial
//!  the Testers of a job   Prepare, StartTrial, EndTrial, Leave
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;

use measure::{Disturbances, Reading};
use record::{Cpu, TesterCount, TrialRequest, TrialResult};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::probe::Sending;
use crate::remote::error::Refusal;
use crate::remote::parts::{Part, Source};
use crate::testbed::process::harmless;

/// Longest message, in octets: a record of many Testers with many stalls.
pub const MAX_MESSAGE: usize = 256 << 20;
/// Number of characters of an unexpected message, in errors.
pub(super) const SHOWN: usize = 200;

/// Order to a process on another host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The sender is still there; without a reply.
    Alive,
    /// Report the time, to compare the clocks.
    Clock {
        /// Number that the reply repeats.
        number: u64,
    },
    /// A trial begins soon: read the counters then.
    Begin {
        /// Time until then, in seconds.
        in_s: f64,
        /// Whether the server's programs in the kernel are counted, which slows them down.
        count_programs: bool,
    },
    /// The trial has ended; with the times of its queries, on the agent's clock.
    End(Sending),
    /// Report the run time of the server's own process.
    RunTime,
    /// Look for the program of an adapter.
    Find {
        /// The adapter of the server whose program is looked for.
        source: Source,
    },
    /// Start a part from scratch, in place of the one that runs.
    Start(Part),
    /// Report the state of the part.
    Collect,
    /// Stop the part that runs, if one does.
    Stop,
    /// Run a trial on all Testers of the job.
    Trial {
        /// Number of the trial, which messages about it repeat.
        trial: u64,
        /// Request of the whole load, of which each Tester sends a slice.
        request: Box<TrialRequest>,
    },
    /// Check this request, and read the files that it names.
    Prepare {
        /// Number of the trial, which the reply repeats.
        trial: u64,
        /// Request with the Tester's slice.
        request: Box<TrialRequest>,
        /// Equivalent command line, for the record.
        command: String,
    },
    /// Start the trial that was prepared, at an instant.
    StartTrial {
        /// Number of the prepared trial.
        trial: u64,
        /// Instant on the Tester's clock, in nanoseconds since 1970.
        at_ns: u64,
    },
    /// End the trial early, and report the results so far.
    EndTrial {
        /// Number of the trial that runs.
        trial: u64,
    },
    /// Leave the job: no more orders follow.
    Leave,
}

/// Reply of a process on another host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The process is ready; this is its first message, not a reply to an order.
    Ready(Box<Greeting>),
    /// The order was not carried out; the process continues.
    Refused(Refusal),
    /// The time: an agent sends `CLOCK_MONOTONIC`, a Tester the time since 1970.
    Clock {
        /// Number of the answered order.
        number: u64,
        /// Time at which the order arrived, in nanoseconds.
        now_ns: u64,
    },
    /// The counters were read: the agent watches the trial.
    Begun,
    /// Observations of the agent during the trial.
    Seen(Box<Seen>),
    /// Run time of the server's own process.
    RunTime {
        /// Run time since its start, in nanoseconds.
        ran_ns: u64,
    },
    /// The program of the adapter is installed there.
    Found {
        /// Version of the server, if it prints one.
        version: Option<String>,
    },
    /// The part runs and answers on its host.
    Started(Box<LaunchedPart>),
    /// Whether the part runs, with the end of its log.
    Collected(Box<PartState>),
    /// No part runs any more.
    Stopped,
    /// The Testers have agreed on the start of the trial.
    Starts {
        /// Time until then, in nanoseconds.
        in_ns: u64,
    },
    /// The Tester or the conductor is alive; the counters of the running trial.
    Counters {
        /// Number of queries sent, replies in time, valid ones among them, queries without a reply in time, and queries
        /// without a valid one.
        counters: [u64; 5],
        /// Counters of each Tester; empty in messages of a Tester.
        testers: Vec<TesterCount>,
    },
    /// The trial was checked and can start.
    Prepared {
        /// Number of the trial that was to be prepared.
        trial: u64,
    },
    /// The Tester cannot run the trial, or could not.
    Failed {
        /// Number of the trial that cannot run.
        trial: u64,
        /// Why the trial cannot run, and whether a retry may help.
        why: Refusal,
    },
    /// The trial has ended by itself or early.
    Done {
        /// Number of the trial that ended.
        trial: u64,
        /// Result of the whole, or of the Tester's part.
        result: Box<TrialResult>,
    },
    /// A signal ends the Tester.
    Leaving,
}

/// First message of a process, with facts about it. Other versions may have other fields; only the
/// version counts then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Greeting {
    /// Version of the process's program, which must be that of the other side.
    pub version: String,
    /// Number of processes of the server that it watches, without their children.
    pub processes: usize,
    /// Addresses of the process's host, first the one by which it was reached; empty if unknown.
    pub addresses: Vec<IpAddr>,
    /// Boot id of the kernel; absent if it cannot be read.
    pub boot_id: Option<String>,
    /// Cores that the process may use.
    pub cpus: Vec<usize>,
    /// Whether the process is root on its machine.
    pub root: bool,
    /// Number of the process group.
    pub group: i32,
    /// Name of the host; empty for an agent.
    pub host: String,
    /// Number of the process; 0 for an agent.
    pub pid: u32,
}

/// A part that was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchedPart {
    /// Configuration files of the server as it read them, by name.
    pub files: BTreeMap<String, String>,
    /// Seconds from the server's start to its first correct answer.
    pub loaded_s: f64,
    /// Cores that the server may use.
    pub cpus: Vec<usize>,
    /// Means of its CPU limit, in words; absent without a limit.
    pub limited: Option<String>,
}

/// Current state of a started part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartState {
    /// Whether the part's processes still run.
    pub alive: bool,
    /// The end of the part's log.
    pub log: Vec<String>,
    /// Resident memory of the part's processes, in bytes.
    pub memory: u64,
}

/// Observations of an agent on the server's host during a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Use of the server's cores.
    pub usage: Cpu,
    /// Number of datagrams and packets that the host received and dropped.
    pub receive_drops: u64,
    /// Number of connections that the host did not accept in time: an accept queue was full.
    pub not_taken: u64,
    /// Number of messages that an AuthDNS got; absent for other servers, and if it is not known.
    pub queries: Option<u64>,
    /// Stalls of the cores, with times first on the host's clock, later converted to the Tester's.
    pub disturbances: Disturbances,
    /// Whether the server's processes still ran at the end.
    pub alive: bool,
}

impl Seen {
    /// Moves the stalls to the clock of the Tester, with which `clock` compares the host's.
    pub(super) fn move_clock(&mut self, clock: &Reading) {
        for stall in &mut self.disturbances.stalls {
            stall.at = clock.here(stall.at);
        }
    }
}

/// Writes a message as a line.
///
/// # Panics
/// If a value has no JSON form: a request must be [`sendable`].
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("plain data");
    line.push(b'\n');
    line
}

/// Reads a message.
///
/// # Errors
/// The beginning of the line, and why it is no message.
pub fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    if line.len() > MAX_MESSAGE {
        return Err(format!(
            "a message of {} octets; at most {MAX_MESSAGE} are accepted",
            line.len()
        ));
    }
    let text = std::str::from_utf8(line).map_err(|why| why.to_string());
    let read = text.and_then(|text| serde_json::from_str(text).map_err(|why| why.to_string()));
    read.map_err(|why| {
        let shown = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN)]);
        let shown: String = harmless(shown.trim_end()).chars().take(SHOWN).collect();
        format!("{shown} ({why})")
    })
}

/// Reads messages, a line each, until the input ends or `take` returns false.
pub fn each<T: DeserializeOwned>(
    input: impl Read,
    mut take: impl FnMut(Result<T, String>) -> bool,
) {
    let (mut input, mut line) = (BufReader::new(input), Vec::new());
    loop {
        line.clear();
        match input.by_ref().take(MAX_MESSAGE as u64).read_until(b'\n', &mut line) {
            Ok(1..) if take(decode(&line)) => {}
            _ => return,
        }
    }
}

/// Checks that a request can be sent.
///
/// # Errors
/// [`Refusal::Cannot`] if it cannot.
pub fn sendable(request: &TrialRequest) -> Result<(), Refusal> {
    serde_json::to_vec(request).map(drop).map_err(|why| {
        Refusal::Cannot(format!(
            "the load cannot be sent to other hosts: {why}; give its files names in UTF-8"
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use experiment::file::Role;
    use measure::stall::Side;
    use measure::{Nanos, Pacing, Stall, Transport};
    use proptest::prelude::*;

    use record::request::{Expect, Query, Workload};

    use super::*;
    use crate::remote::parts::{AuthDnsPart, Certified, Cores, Place, QueriedNames, ServerPart};
    use crate::server::authdns::Serves;

    /// A request for a trial.
    fn request() -> Box<TrialRequest> {
        let (name, qtype) = ("x.test".to_owned(), "A".to_owned());
        let workload =
            Workload::Name { name, qtype, expect: Expect::Answered, query: Query::plain(true) };
        let pacing = Pacing::Window { outstanding: 3 };
        Box::new(TrialRequest::new(([127, 0, 0, 1], 53).into(), workload, pacing))
    }

    /// Checks that a message is one line, which is read as the same.
    fn both_ways<T: Serialize + DeserializeOwned + PartialEq + Debug>(message: T) {
        let line = encode(&message);
        assert_eq!(line.iter().position(|octet| *octet == b'\n'), Some(line.len() - 1));
        assert_eq!(decode(&line), Ok(message));
    }

    fn parts(text: &str, number: u16, share: f64) -> [Part; 2] {
        let names = QueriedNames {
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
            names: names.clone(),
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
            Part::AuthDns(AuthDnsPart { serves, names, listen: place, cpus }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_said_is_understood(
            number: u16, counters: [u64; 5], seconds in 0.0..1e9, busy in 0.0..1.0, alive: bool, text: String
        ) {
            let [now_ns, trial, ..] = counters;
            let why = text.clone();
            let usage = Cpu { busy, waited: Some(busy), cpus: vec![0, 3], ..Cpu::default() };
            let queries = Some(now_ns);
            let seen = Seen { usage, alive, queries, ..Seen::default() };
            let greeting = Greeting { version: text.clone(), root: alive, ..Greeting::default() };
            let files = [(text.clone(), text.clone())].into();
            let launched = LaunchedPart { files, loaded_s: seconds, cpus: vec![1], limited: None };
            let collected = PartState { alive, log: vec![text.clone()], memory: now_ns };
            let testers = vec![TesterCount { name: text.clone(), sent: now_ns, bad: trial }];
            [
                Reply::Ready(Box::new(greeting)),
                Reply::Refused(Refusal::Failed(text.clone())),
                Reply::Found { version: Some(text.clone()) },
                Reply::Clock { number: trial, now_ns },
                Reply::RunTime { ran_ns: now_ns },
                Reply::Begun,
                Reply::Stopped,
                Reply::Seen(Box::new(seen)),
                Reply::Started(Box::new(launched)),
                Reply::Collected(Box::new(collected)),
                Reply::Starts { in_ns: now_ns },
                Reply::Counters { counters, testers },
                Reply::Prepared { trial },
                Reply::Failed { trial, why: Refusal::Cannot(why) },
                Reply::Leaving,
            ].into_iter().for_each(both_ways);
            [
                Order::Alive,
                Order::Clock { number: trial },
                Order::Begin { in_s: seconds, count_programs: alive },
                Order::End(Sending { from: Nanos(now_ns), seconds, stopped_early: alive }),
                Order::RunTime,
                Order::Find { source: Source::File(text.clone()) },
                Order::Collect,
                Order::Stop,
                Order::Trial { trial, request: request() },
                Order::Prepare { trial, request: request(), command: text.clone() },
                Order::StartTrial { trial, at_ns: now_ns },
                Order::EndTrial { trial },
                Order::Leave,
            ].into_iter().for_each(both_ways);
            parts(&text, number, busy).map(Order::Start).into_iter().for_each(both_ways);
        }

        #[test]
        fn any_text_is_understood_or_refused(text in ".{0,60}|[{}a-z\":,0-9]{0,60}", ahead in any::<i64>()) {
            let _ = decode::<Order>(text.as_bytes());
            if let Ok(Reply::Seen(mut seen)) = decode(text.as_bytes()) {
                seen.move_clock(&Reading { at: Nanos::ZERO, offset_ns: ahead, error: Nanos::ZERO });
            }
        }
    }

    #[test]
    fn messages_that_are_none_are_refused() {
        let table = [
            (&b""[..], " (EOF"),
            (b"hello\x1b\n", "hello\\u{1b} (expected"),
            (b"\xff", "\u{fffd} (invalid utf-8"),
            (b"\"dance\"", "\"dance\" (unknown variant"),
            (b"null", "null (expected value"),
        ];
        for (line, why) in table {
            let found = decode::<Order>(line).expect_err(why);
            assert!(found.starts_with(why), "{found}");
            assert!(decode::<Reply>(line).is_err(), "{found}");
        }
        let mut found = Vec::new();
        let lines = &b"\"stop\"\nx\n\"leave\"\n"[..];
        each(lines, |order| {
            found.push(order.unwrap_or(Order::Alive));
            found.len() < 2
        });
        assert_eq!(found, [Order::Stop, Order::Alive]);
    }

    #[test]
    fn stalls_are_moved_to_the_testers_clock() {
        let at = Nanos::from_secs(5);
        let mut seen = Seen::default();
        seen.disturbances.add_stall(Stall { side: Side::Dut, at, length: Nanos::from_millis(9) });
        let ahead = |offset_ns| Reading { at, offset_ns, error: Nanos::ZERO };
        seen.move_clock(&ahead(2_000_000_000));
        assert_eq!(seen.disturbances.stalls[0].at, Nanos::from_secs(3));
        seen.move_clock(&ahead(i64::MAX));
        assert_eq!(seen.disturbances.stalls[0].at, Nanos::ZERO);
    }
}
