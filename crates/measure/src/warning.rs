//! Warnings about a measurement: about a trial, or about the host it ran on.
//!
//! ```text
//! Warning ──> Display    the sentence, with its numbers
//!        ├──> advice     what to do about it
//!        └──> summarise  warnings of several trials that differ only in their number, as one with a range
//! ```
//!
//! A new warning needs a variant, its sentence, and its number and advice if it has them. The name of the variant in
//! kebab case is part of the JSON and never renamed.

mod failed;
mod words;

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use self::words::{
    FREE_PORTS, connections_failed, core_avoided, core_for_server, core_taken, core_user, counted,
    more_places, nobody_listened, not_offered, not_sent, not_sustained, other_core, queries_failed,
    some_names, streams_refused, unexpected,
};
pub(crate) use self::words::{cores, foreign_on_server, places, server_waited, slow_core};
use crate::units::Nanos;

/// Times of replies over TCP that waited for an acknowledgement, which Linux delays by 40 ms and a tick of its clock, of 10 ms at
/// most.
pub const DELAYED_REPLY: RangeInclusive<Nanos> = Nanos::from_millis(38)..=Nanos::from_millis(50);

/// A process, for a warning about its CPU time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CoreUser {
    /// Name of the process's program.
    pub command: String,
    /// Number of the process on the host (PID).
    pub pid: u32,
}

impl fmt::Display for CoreUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.command, self.pid)
    }
}

/// A warning about a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// ICMP reported that no process listens at the target.
    NobodyListens {
        /// Number of times that ICMP reported it.
        times: u64,
        /// Address and port of the target.
        target: String,
    },
    /// Queries were due while every id was in use.
    NoFreeId {
        /// Number of queries that were due then.
        times: u64,
    },
    /// A load far behind its schedule ended with queries that were never sent.
    NotOffered {
        /// Number of planned queries that were not sent; they are not lost.
        queries: u64,
    },
    /// The kernel did not accept datagrams for sending.
    NotSent {
        /// Number of datagrams that never left.
        datagrams: u64,
    },
    /// Replies arrived that belong to no query.
    UnexpectedReplies {
        /// Number of replies without a query.
        replies: u64,
    },
    /// The kernel gave smaller receive buffers than the Measurer asked for.
    SmallReceiveBuffers {
        /// Size that the kernel gave, in bytes.
        bytes: u64,
        /// Size that the Measurer requested, in bytes.
        wanted: u64,
    },
    /// Connections were refused: no process listens.
    ConnectionsRefused {
        /// Number of connections that were refused.
        connections: u64,
    },
    /// Connections failed because this host had no free port.
    NoPorts {
        /// Number of connections that failed for this reason.
        connections: u64,
    },
    /// Connections failed because no file descriptor was free.
    NoFiles {
        /// Number of connections that failed for this reason.
        connections: u64,
    },
    /// The server's certificate was not trusted.
    BadCertificate {
        /// Number of connections that failed for this reason.
        connections: u64,
    },
    /// The server answered on some connections, and not at all on many others.
    FewPlaces {
        /// Number of connections that were refused, reset, closed or left without a reply until the timeout.
        unanswered: u64,
        /// Number of connections that were tried.
        connections: u64,
        /// Highest number of connections with a reply at the same time.
        at_once: u64,
    },
    /// Queries over connections failed, alone or with their connection.
    QueriesFailed {
        /// Number of queries that failed for this reason.
        queries: u64,
        /// Reason, as in the record.
        reason: String,
    },
    /// The server refused streams, which were opened again after a pause.
    StreamsRefused {
        /// Number of streams that were refused.
        times: u64,
    },
    /// Replies over TCP came as late as an acknowledgement that the kernel delays.
    DelayedReplies {
        /// Share (0 to 1) of the replies that arrived 38 to 50 ms after their query.
        share: f64,
    },
    /// The median latency equals the time between the queries of a connection.
    MedianIsGap {
        /// The median latency and the time between queries, in microseconds.
        gap_us: f64,
    },
    /// Processes that are not of the testbed used the server's cores.
    ForeignOnServer {
        /// Share (0 to 1) of the server's cores.
        share: f64,
    },
    /// Another process used the Tester's cores.
    CoreTaken {
        /// The process that used most of them.
        by: CoreUser,
        /// Share (0 to 1) of the cores' time that the process used.
        share: f64,
        /// Cores of the Tester, or the cores on which it may run.
        cpus: Vec<usize>,
        /// Core that others used least; absent without another core.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        free: Option<usize>,
        /// Whether the process is the measured server, on the Tester's host.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        is_server: bool,
    },
    /// A Tester without a core of its own did not use a core to which a busy process or the server
    /// is bound.
    CoreAvoided {
        /// The process on the avoided core.
        by: CoreUser,
        /// Core to which the process is bound.
        cpu: usize,
        /// Core on which the Tester ran.
        instead: usize,
    },
    /// More queries left late than a schedule allows, but the trial met its goal anyway.
    LateQueries {
        /// Share (0 to 1) of the queries.
        share: f64,
    },
    /// The server was ready to run and others ran on its cores.
    ServerWaited {
        /// Share (0 to 1) of the time of sending.
        share: f64,
    },
    /// The server's cores were slower than at their best.
    SlowCore {
        /// Share (0 to 1) of that speed that they lacked.
        share: f64,
    },
    /// The server was still busy when the trial began.
    ServerStillBusy {
        /// Time after the previous trial, in seconds.
        after_s: f64,
    },
    /// A replayed capture ends early.
    CaptureCut {
        /// Place in the capture, and the error there.
        why: String,
    },
    /// Queries of a capture cannot be replayed: they are cut, have no complete header, or a time far from the others.
    QueriesLeftOut {
        /// Number of queries that were left out.
        queries: u64,
    },
    /// Lines of a query file were skipped: they are no queries.
    LinesSkipped {
        /// Number of lines that were skipped.
        lines: u64,
        /// The first skipped line with the reason, and the numbers of the next ones.
        first: String,
    },
    /// The clock rate of the host's cores follows the load.
    ClockRateVaries {
        /// Frequency governors in use, by their names in sysfs.
        governors: Vec<String>,
    },
    /// A virtual machine does not show its clock rate.
    ClockRateHidden,
    /// The clock rate may exceed its rating.
    Boost,
    /// Logical cores share physical cores.
    SharedCores {
        /// Lists of logical cores that share a physical core.
        siblings: Vec<String>,
    },
    /// Other processes used the cores before the measurement.
    OthersBusy {
        /// Share (0 to 1) of the cores.
        share: f64,
    },
    /// The hypervisor gave CPU time of the cores to others.
    Steal {
        /// Share (0 to 1) of the cores' time.
        share: f64,
    },
    /// There are too few cores for the Measurer, the AuthDNS and the server.
    FewCores {
        /// Number of cores that the host has.
        cores: u64,
    },
    /// A read of the clock is slow.
    SlowClock {
        /// Time of one read, in nanoseconds.
        read_ns: f64,
        /// Clock source in use, such as `hpet`.
        source: String,
        /// Clock sources that the kernel offers, among which a faster one may be.
        sources: Vec<String>,
    },
    /// A core interrupted a busy program.
    CoreAway {
        /// Number of the core, as the kernel counts.
        cpu: usize,
        /// Longest interruption that was seen, in microseconds.
        max_us: f64,
    },
    /// The host gives ordinary users small receive buffers only.
    BufferLimit {
        /// Largest receive buffer of an ordinary user's socket, in bytes.
        bytes: u64,
        /// Size that the Tester requests, in bytes.
        wanted: u64,
    },
    /// A window lost queries in each timeout, and was reduced.
    WindowHeld {
        /// Smallest number of queries outstanding.
        held: u64,
        /// Number of queries outstanding that was requested.
        wanted: u64,
    },
    /// The server got more queries than it answered until the end of the trial.
    NotSustained {
        /// Queries outstanding in the middle of the trial.
        middle: f64,
        /// Queries outstanding at the trial's end.
        end: f64,
    },
    /// Several queries at a time crossed to a server on this host as one message.
    Segmented,
    /// Names of a namespace were queried, and any address was a valid answer.
    AddressNotChecked,
    /// Several Testers started together by clocks whose errors are not known.
    ClocksNotChecked,
}

const LEFT_OUT: &str = "cut short, without a whole header, or a year or more from the others";
const HIDDEN_RATE: &str = "a virtual machine that does not show the clock rate";
const BOOST: &str = "the clock rate exceeds its nominal value while the machine is cool";
const UNKNOWN_CLOCKS: &str = "the errors of the Testers' clocks are unknown: the Testers may have started at different times";

const HELD_REPLIES: &str = "the server holds a reply until an earlier one is acknowledged, which takes 40 ms: set TCP_NODELAY there";

/// Number in the sentence of a warning.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Amount {
    value: f64,
    /// Number of decimals with which the value is printed.
    decimals: usize,
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.*}", self.decimals, self.value)
    }
}

impl Warning {
    /// Returns advice for the user; `None` without one.
    pub fn advice(&self) -> Option<String> {
        let advice = match self {
            Warning::NobodyListens { .. } => "is the server up?",
            Warning::NoFreeId { .. } => "give more --ports",
            Warning::NotOffered { .. } => "lower the rate, or give the Tester more cores",
            Warning::SmallReceiveBuffers { .. } => "raise net.core.rmem_max, or run as root",
            Warning::ConnectionsRefused { .. } => {
                "is the server up, and does it listen on this port for this transport?"
            }
            Warning::NoPorts { .. } => FREE_PORTS,
            Warning::NoFiles { .. } => {
                "raise the limit of open files (`ulimit -n`), or run as root"
            }
            Warning::BadCertificate { .. } => {
                "is --tls-name a name of the certificate, and --ca its authority?"
            }
            Warning::FewPlaces { at_once, .. } => return Some(more_places(*at_once)),
            Warning::QueriesFailed { reason, .. } => {
                return failed::advice(reason).map(str::to_owned);
            }
            Warning::StreamsRefused { .. } => {
                "lower --outstanding, or raise the number of streams that the server takes"
            }
            Warning::DelayedReplies { .. } => HELD_REPLIES,
            Warning::MedianIsGap { .. } => {
                "a server that writes a reply in pieces without TCP_NODELAY sends the last piece \
                only when the next query comes"
            }
            Warning::ClockRateVaries { .. } => "as root, cpupower frequency-set -g performance",
            Warning::ClockRateHidden => "disturbances by its host show only in repeats",
            Warning::Boost => "let the machine warm up, or switch boost off",
            Warning::SharedCores { .. } => {
                "give Tester and server different physical cores, or switch SMT off"
            }
            Warning::OthersBusy { .. } => "stop them",
            Warning::Steal { .. } => "use a machine that is not shared",
            Warning::FewCores { .. } => {
                "Measurer and AuthDNS share a core, and the server is measured on one core only"
            }
            Warning::SlowClock { sources, .. } => {
                return Some(format!("choose tsc, if it is one of {}", sources.join(", ")));
            }
            Warning::CoreAway { .. } => "look for another program that runs on this core",
            Warning::BufferLimit { wanted, .. } => {
                return Some(format!("as root, sysctl net.core.rmem_max={wanted}"));
            }
            Warning::WindowHeld { .. } => {
                "a larger window overflows the server's receive queue: enlarge it, or use a smaller window"
            }
            Warning::NotSustained { .. } => "the server cannot sustain this rate",
            Warning::Segmented => {
                "these cost the server less than packets of real clients: use --gso off"
            }
            Warning::AddressNotChecked => "leave --expect out, or give --expect-pref64",
            Warning::CoreTaken { by, cpus, free, is_server: true, .. } => {
                return Some(core_for_server(by.pid, cpus, *free));
            }
            Warning::CoreTaken { free, .. } => return Some(other_core(*free, "it")),
            Warning::LateQueries { .. } => {
                "the server got the late queries in bursts, which are harder to answer than even traffic"
            }
            Warning::ClocksNotChecked => {
                "synchronise the clocks and give --start-at with a --clock-bound"
            }
            _ => return None,
        };
        Some(advice.to_owned())
    }

    /// Returns the sentence, followed by a colon and the advice.
    pub fn with_advice(&self) -> String {
        advised(self.to_string(), self.advice())
    }

    /// Returns the number of the sentence; `None` without one.
    fn amount(&self) -> Option<Amount> {
        let whole = |n: u64| Some(Amount { value: n as f64, decimals: 0 });
        let number = |value: f64, decimals| Some(Amount { value, decimals });
        match self {
            Warning::NobodyListens { times, .. } | Warning::NoFreeId { times } => whole(*times),
            Warning::NotSent { datagrams } => whole(*datagrams),
            Warning::UnexpectedReplies { replies } => whole(*replies),
            Warning::SmallReceiveBuffers { bytes, .. } | Warning::BufferLimit { bytes, .. } => {
                whole(*bytes)
            }
            Warning::ConnectionsRefused { connections }
            | Warning::NoPorts { connections }
            | Warning::NoFiles { connections }
            | Warning::BadCertificate { connections } => whole(*connections),
            Warning::NotOffered { queries }
            | Warning::QueriesLeftOut { queries }
            | Warning::QueriesFailed { queries, .. } => whole(*queries),
            Warning::LinesSkipped { lines, .. } => whole(*lines),
            Warning::FewPlaces { unanswered, .. } => whole(*unanswered),
            Warning::StreamsRefused { times } => whole(*times),
            Warning::MedianIsGap { gap_us } => number(gap_us / 1e3, 2),
            Warning::FewCores { cores } => whole(*cores),
            Warning::OthersBusy { share } => number(share * 100.0, 0),
            Warning::CoreTaken { share, .. } => number(share * 100.0, 0),
            Warning::ForeignOnServer { share }
            | Warning::ServerWaited { share }
            | Warning::SlowCore { share }
            | Warning::LateQueries { share }
            | Warning::DelayedReplies { share }
            | Warning::Steal { share } => number(share * 100.0, 1),
            Warning::ServerStillBusy { after_s } => number(*after_s, 0),
            Warning::SlowClock { read_ns, .. } => number(*read_ns, 0),
            Warning::CoreAway { max_us, .. } => number(max_us / 1e3, 1),
            Warning::WindowHeld { held, .. } => whole(*held),
            Warning::NotSustained { middle, end } => number(end - middle, 0),
            _ => None,
        }
    }

    /// Returns the common part of warnings that are summarised as one: the sentence without its
    /// number, and without the process on the Tester's cores.
    pub fn key(&self) -> String {
        match self {
            Warning::CoreTaken { cpus, is_server: false, .. } => core_taken("", cpus, ""),
            _ => self.sentence(""),
        }
    }

    /// Returns the sentence with `n` as its number: one number, or a range.
    fn sentence(&self, n: &str) -> String {
        let failed = |why: &str| connections_failed(n, why);
        match self {
            Warning::NobodyListens { target, .. } => nobody_listened(n, target),
            Warning::NoFreeId { .. } => format!("queries waited {n} times for a free id"),
            Warning::NotOffered { .. } => not_offered(n),
            Warning::NotSent { .. } => not_sent(n),
            Warning::UnexpectedReplies { .. } => unexpected(n),
            Warning::WindowHeld { wanted: w, .. } => format!("a window of {w} was reduced to {n}"),
            Warning::NotSustained { .. } => not_sustained(n),
            Warning::LateQueries { .. } => format!("{n} % of the queries left over 1 ms late"),
            Warning::Segmented => "queries crossed this host as segmented messages".to_owned(),
            Warning::AddressNotChecked => "the answers' addresses were not checked".to_owned(),
            Warning::ClocksNotChecked => UNKNOWN_CLOCKS.to_owned(),
            Warning::SmallReceiveBuffers { wanted, .. } => {
                format!("receive buffers of {n} instead of {wanted} bytes")
            }
            Warning::ConnectionsRefused { .. } => failed("refused"),
            Warning::NoPorts { .. } => failed("no-port"),
            Warning::NoFiles { .. } => failed("no-file"),
            Warning::BadCertificate { .. } => failed("bad-certificate"),
            Warning::FewPlaces { connections, at_once, .. } => places(n, *connections, *at_once),
            Warning::QueriesFailed { reason, .. } => queries_failed(n, &failed::words(reason)),
            Warning::StreamsRefused { .. } => streams_refused(n),
            Warning::DelayedReplies { .. } => delayed_replies(n),
            Warning::MedianIsGap { .. } => {
                format!("the median latency equals the {n} ms between the queries of a connection")
            }
            Warning::CoreTaken { by, cpus, is_server, .. } => core_user(by, *is_server, cpus, n),
            Warning::CoreAvoided { by, cpu, instead } => core_avoided(by, *cpu, *instead),
            Warning::ForeignOnServer { .. } => foreign_on_server(n),
            Warning::ServerWaited { .. } => server_waited(n),
            Warning::SlowCore { .. } => slow_core(n),
            Warning::ServerStillBusy { .. } => {
                format!("the server was still busy {n} s after the previous trial")
            }
            Warning::CaptureCut { why } => {
                format!("{why}; the queries before it were replayed")
            }
            Warning::QueriesLeftOut { .. } => {
                let queries =
                    counted(n, ["query of the capture was", "queries of the capture were"]);
                format!("{queries} left out: {LEFT_OUT}")
            }
            Warning::LinesSkipped { first, .. } => format!("lines skipped, {n} in all: {first}"),
            Warning::ClockRateVaries { governors } => {
                format!("the clock rate follows the load (governor {})", governors.join(", "))
            }
            Warning::ClockRateHidden => HIDDEN_RATE.to_owned(),
            Warning::Boost => BOOST.to_owned(),
            Warning::SharedCores { siblings } => {
                format!("logical cores share physical cores ({})", siblings.join("; "))
            }
            Warning::OthersBusy { .. } => format!("other processes used {n} % of the cores"),
            Warning::Steal { .. } => {
                format!("the hypervisor took {n} % of the cores' time for others")
            }
            Warning::FewCores { .. } => format!("{n} cores"),
            Warning::SlowClock { source, .. } => {
                format!("a read of the clock takes {n} ns (clock source {source})")
            }
            Warning::CoreAway { cpu, .. } => {
                format!("core {cpu} interrupted a busy program for up to {n} ms")
            }
            Warning::BufferLimit { .. } => format!("receive buffers have at most {n} bytes"),
        }
    }
}

/// Returns the sentence about replies that waited for an acknowledgement, in percent of all.
fn delayed_replies(percent: &str) -> String {
    format!("{percent} % of the replies came 38 to 50 ms after their query")
}

fn advised(sentence: String, advice: Option<String>) -> String {
    match advice {
        Some(advice) => format!("{sentence}: {advice}"),
        None => sentence,
    }
}

impl fmt::Display for Warning {
    /// Writes the sentence without the advice.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = self.amount().map_or(String::new(), |amount| amount.to_string());
        f.write_str(&self.sentence(&amount))
    }
}

/// Equal warnings of several trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Common part of the warnings ([`Warning::key`]).
    pub key: String,
    /// Sentence with the range of its number, and the advice.
    pub text: String,
    /// Number of trials with this warning.
    pub count: usize,
}

/// Warnings that are summarised as one.
struct Group<'a> {
    key: String,
    first: &'a Warning,
    range: Option<(Amount, Amount)>,
    count: usize,
    /// Different processes on the Tester's cores.
    users: Vec<&'a CoreUser>,
}

impl Group<'_> {
    /// Returns the sentence with the range of its number, and the advice.
    fn text(&self) -> String {
        let range = self.range.map_or(String::new(), |(low, high)| {
            let (low, high) = (low.to_string(), high.to_string());
            if low == high { low } else { format!("{low} to {high}") }
        });
        match (self.first, &self.users[..]) {
            (Warning::CoreTaken { cpus, free, is_server: false, .. }, [_, _, ..]) => {
                let names = self.users.iter().map(|user| user.command.as_str());
                let who = format!("other processes ({})", some_names(names));
                advised(core_taken(&who, cpus, &range), Some(other_core(*free, "them")))
            }
            (first, _) => advised(first.sentence(&range), first.advice()),
        }
    }
}

/// Summarises warnings: those that differ only in their number become one, in the order of their
/// first occurrence. Warnings about processes on the Tester's cores.
pub fn summarise<'a>(warnings: impl IntoIterator<Item = &'a Warning>) -> Vec<Summary> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for warning in warnings {
        let user = match warning {
            Warning::CoreTaken { by, is_server: false, .. } => Some(by),
            _ => None,
        };
        let (key, amount) = (warning.key(), warning.amount());
        let same = |group: &&mut Group<'_>| {
            let kind = std::mem::discriminant(group.first) == std::mem::discriminant(warning);
            kind && group.key == key
        };
        let Some(group) = groups.iter_mut().find(same) else {
            let range = amount.map(|amount| (amount, amount));
            let users = user.into_iter().collect();
            groups.push(Group { key, first: warning, range, count: 1, users });
            continue;
        };
        group.count += 1;
        if let Some(user) = user.filter(|user| !group.users.contains(user)) {
            group.users.push(user);
        }
        if let (Some((low, high)), Some(amount)) = (&mut group.range, amount) {
            low.value = low.value.min(amount.value);
            high.value = high.value.max(amount.value);
        }
    }
    let summary =
        |group: Group<'_>| Summary { text: group.text(), count: group.count, key: group.key };
    groups.into_iter().map(summary).collect()
}

#[cfg(test)]
mod tests;
