//! What makes a measurement doubtful: of a trial, or of the host it ran on.
//!
//! ```text
//! Warning ──> Display    the sentence, with its numbers
//!        ├──> advice     what to do about it
//!        └──> summarise  those of many trials that differ in their number only, as one with its range
//! ```
//!
//! To add one: a variant, its sentence, and where it has them its number and its advice. The name of the
//! variant in kebab case stands in the JSON: it is never renamed.

mod failed;

use std::fmt;

use serde::{Deserialize, Serialize};

/// A doubt about a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// ICMP said that nobody listens at the target.
    NobodyListens {
        /// How often.
        times: u64,
        /// Address and port.
        target: String,
    },
    /// Queries were due while every id was in use.
    NoFreeId {
        /// How often.
        times: u64,
    },
    /// The kernel did not take datagrams for sending.
    NotSent {
        /// How many.
        datagrams: u64,
    },
    /// Replies came that belong to no query.
    UnexpectedReplies {
        /// How many.
        replies: u64,
    },
    /// The kernel gave smaller receive buffers than the Measurer asked for.
    SmallReceiveBuffers {
        /// Those it has, bytes.
        bytes: u64,
        /// Those it asked for, bytes.
        wanted: u64,
    },
    /// Connections were refused: nobody listens.
    ConnectionsRefused {
        /// How many.
        connections: u64,
    },
    /// Connections found no port of this host.
    NoPorts {
        /// How many.
        connections: u64,
    },
    /// Connections found no file descriptor.
    NoFiles {
        /// How many.
        connections: u64,
    },
    /// The server's certificate was not trusted.
    BadCertificate {
        /// How many connections failed for it.
        connections: u64,
    },
    /// Queries over connections failed, each for itself or with its connection.
    QueriesFailed {
        /// How many.
        queries: u64,
        /// Why, as in the record.
        reason: String,
    },
    /// The server refused streams, which were opened again after a pause.
    StreamsRefused {
        /// How often.
        times: u64,
    },
    /// The median latency equals the time between the queries of a connection.
    MedianIsGap {
        /// Both, microseconds.
        gap_us: f64,
    },
    /// Processes that are not of the testbed used the server's cores.
    ForeignOnServer {
        /// Share (0 to 1) of those cores.
        share: f64,
    },
    /// The server was still busy when the trial began.
    ServerStillBusy {
        /// Seconds after the trial before.
        after_s: f64,
    },
    /// A capture that is replayed ends before its time.
    CaptureCut {
        /// Where, and what is wrong there.
        why: String,
    },
    /// Queries of a capture cannot be replayed: cut, or without a whole header.
    QueriesLeftOut {
        /// How many.
        queries: u64,
    },
    /// The clock rate of the host's cores follows the load.
    ClockRateVaries {
        /// The frequency governors that let it.
        governors: Vec<String>,
    },
    /// A virtual machine does not show its clock rate.
    ClockRateHidden,
    /// The clock rate may go above its rating.
    Boost,
    /// Cores are threads of shared ones.
    SharedCores {
        /// The lists of those that share one.
        siblings: Vec<String>,
    },
    /// Other processes used the cores before the measurement.
    OthersBusy {
        /// Share (0 to 1) of the cores.
        share: f64,
    },
    /// The hypervisor gave time of the cores to others.
    Steal {
        /// Share (0 to 1) of the cores' time.
        share: f64,
    },
    /// There are too few cores for the Measurer, the AuthDNS and the server.
    FewCores {
        /// How many there are.
        cores: u64,
    },
    /// The clock is slow to read.
    SlowClock {
        /// Nanoseconds of a read.
        read_ns: f64,
        /// The clock source.
        source: String,
        /// Those that there are.
        sources: Vec<String>,
    },
    /// A core left a busy program.
    CoreAway {
        /// The core.
        cpu: usize,
        /// The longest time, microseconds.
        max_us: f64,
    },
    /// The host allows ordinary users small receive buffers only.
    BufferLimit {
        /// The limit, bytes.
        bytes: u64,
        /// What the Tester asks for, bytes.
        wanted: u64,
    },
    /// A sentence of a record that had no types for warnings (schema 1); nothing new is one.
    Other {
        /// The sentence.
        text: String,
    },
}

/// The number of a warning as its sentence shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Amount {
    value: f64,
    /// Digits after the point.
    decimals: usize,
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.*}", self.decimals, self.value)
    }
}

impl Warning {
    /// What to do about it.
    pub fn advice(&self) -> Option<String> {
        let advice = match self {
            Warning::NobodyListens { .. } => "is the server up?",
            Warning::NoFreeId { .. } => "give more --sockets",
            Warning::SmallReceiveBuffers { .. } => "raise net.core.rmem_max, or run as root",
            Warning::ConnectionsRefused { .. } => {
                "is the server up, and does it listen on this port for this transport?"
            }
            Warning::NoPorts { .. } => {
                "this host's ports are used up: use more --source addresses, --close reset, or set \
                 net.ipv4.tcp_tw_reuse=1 and widen net.ipv4.ip_local_port_range"
            }
            Warning::NoFiles { .. } => {
                "raise the limit of open files (`ulimit -n`), or run as root"
            }
            Warning::BadCertificate { .. } => {
                "is --tls-name a name of the certificate, and --ca its authority?"
            }
            Warning::QueriesFailed { reason, .. } => {
                return failed::advice(reason).map(str::to_owned);
            }
            Warning::StreamsRefused { .. } => {
                "lower --outstanding, or raise the number of streams that the server takes"
            }
            Warning::MedianIsGap { .. } => {
                "a server that writes a reply in pieces without TCP_NODELAY sends its end only when the next query \
                 comes"
            }
            Warning::ClockRateVaries { .. } => "as root, cpupower frequency-set -g performance",
            Warning::ClockRateHidden => "what its host does to it shows in repeats only",
            Warning::Boost => "let it warm up, or switch boost off",
            Warning::SharedCores { .. } => {
                "give Tester and server no two of one, or switch SMT off"
            }
            Warning::OthersBusy { .. } => "stop them",
            Warning::Steal { .. } => "take a machine of your own",
            Warning::FewCores { .. } => {
                "Measurer and AuthDNS share one, and the server is not tried on several"
            }
            Warning::SlowClock { sources, .. } => {
                return Some(format!("of {} take tsc if it is there", sources.join(", ")));
            }
            Warning::CoreAway { .. } => "something else runs there",
            Warning::BufferLimit { wanted, .. } => {
                return Some(format!("as root, sysctl net.core.rmem_max={wanted}"));
            }
            Warning::NotSent { .. }
            | Warning::UnexpectedReplies { .. }
            | Warning::ForeignOnServer { .. }
            | Warning::ServerStillBusy { .. }
            | Warning::CaptureCut { .. }
            | Warning::QueriesLeftOut { .. }
            | Warning::Other { .. } => return None,
        };
        Some(advice.to_owned())
    }

    /// The sentence and, after a colon, the advice.
    pub fn with_advice(&self) -> String {
        advised(self.to_string(), self.advice())
    }

    /// The number of the sentence; `None` without one.
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
            Warning::QueriesLeftOut { queries } | Warning::QueriesFailed { queries, .. } => {
                whole(*queries)
            }
            Warning::StreamsRefused { times } => whole(*times),
            Warning::MedianIsGap { gap_us } => number(gap_us / 1e3, 2),
            Warning::FewCores { cores } => whole(*cores),
            Warning::ForeignOnServer { share } | Warning::OthersBusy { share } => {
                number(share * 100.0, 0)
            }
            Warning::Steal { share } => number(share * 100.0, 1),
            Warning::ServerStillBusy { after_s } => number(*after_s, 0),
            Warning::SlowClock { read_ns, .. } => number(*read_ns, 0),
            Warning::CoreAway { max_us, .. } => number(max_us / 1e3, 1),
            Warning::CaptureCut { .. }
            | Warning::ClockRateVaries { .. }
            | Warning::ClockRateHidden
            | Warning::Boost
            | Warning::SharedCores { .. }
            | Warning::Other { .. } => None,
        }
    }

    /// The sentence with `n` for its number: one, or a range.
    fn sentence(&self, n: &str) -> String {
        let failed = |why: &str| format!("{n} connections failed: {why}");
        match self {
            Warning::NobodyListens { target, .. } => {
                format!("{n} times nobody listened at {target} (ICMP)")
            }
            Warning::NoFreeId { .. } => format!("queries waited {n} times for a free id"),
            Warning::NotSent { .. } => format!("the kernel did not take {n} datagrams for sending"),
            Warning::UnexpectedReplies { .. } => format!("{n} replies belong to no query"),
            Warning::SmallReceiveBuffers { wanted, .. } => {
                format!("receive buffers of {n} instead of {wanted} bytes")
            }
            Warning::ConnectionsRefused { .. } => failed("refused"),
            Warning::NoPorts { .. } => failed("no-port"),
            Warning::NoFiles { .. } => failed("no-file"),
            Warning::BadCertificate { .. } => failed("bad-certificate"),
            Warning::QueriesFailed { reason, .. } => {
                format!("{n} queries failed: {}", failed::words(reason))
            }
            Warning::StreamsRefused { .. } => {
                format!("the server refused {n} streams, which were opened again")
            }
            Warning::MedianIsGap { .. } => {
                format!("the median latency equals the {n} ms between the queries of a connection")
            }
            Warning::ForeignOnServer { .. } => foreign_on_server(n),
            Warning::ServerStillBusy { .. } => {
                format!("the server was still busy {n} s after the trial before")
            }
            Warning::CaptureCut { why } => {
                format!("{why}; what stands before that was replayed")
            }
            Warning::QueriesLeftOut { .. } => {
                format!("{n} queries of the capture were left out: cut, or without a whole header")
            }
            Warning::ClockRateVaries { governors } => {
                format!("the clock rate follows the load (governor {})", governors.join(", "))
            }
            Warning::ClockRateHidden => {
                "a virtual machine without a view of the clock rate".to_owned()
            }
            Warning::Boost => {
                "the clock rate goes above its rating while the machine is cool".to_owned()
            }
            Warning::SharedCores { siblings } => {
                format!("cores are threads of shared ones ({})", siblings.join("; "))
            }
            Warning::OthersBusy { .. } => format!("other processes used {n} % of the cores"),
            Warning::Steal { .. } => {
                format!("the hypervisor took {n} % of the cores' time for others")
            }
            Warning::FewCores { .. } => format!("{n} cores"),
            Warning::SlowClock { source, .. } => {
                format!("a look at the clock takes {n} ns (clock source {source})")
            }
            Warning::CoreAway { cpu, .. } => {
                format!("core {cpu} went away from a busy program for up to {n} ms")
            }
            Warning::BufferLimit { .. } => format!("receive buffers end at {n} bytes"),
            Warning::Other { text } => text.clone(),
        }
    }
}

/// What others did on the server's cores, in percent of them.
pub(crate) fn foreign_on_server(percent: &str) -> String {
    format!("processes that are not of the testbed used {percent} % of the server's cores")
}

fn advised(sentence: String, advice: Option<String>) -> String {
    match advice {
        Some(advice) => format!("{sentence}: {advice}"),
        None => sentence,
    }
}

impl fmt::Display for Warning {
    /// The sentence, without the advice.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = self.amount().map_or(String::new(), |amount| amount.to_string());
        f.write_str(&self.sentence(&amount))
    }
}

/// Warnings that say the same of several trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The sentence, with the range of its number, and the advice.
    pub text: String,
    /// How many warnings there are.
    pub count: usize,
}

/// The warnings, those that differ in their number only as one, in the order in which they first come.
pub fn summarise<'a>(warnings: impl IntoIterator<Item = &'a Warning>) -> Vec<Summary> {
    struct Group<'a> {
        // The sentence without its number.
        key: String,
        first: &'a Warning,
        range: Option<(Amount, Amount)>,
        count: usize,
    }
    let mut groups: Vec<Group<'a>> = Vec::new();
    for warning in warnings {
        let (key, amount) = (warning.sentence(""), warning.amount());
        let same = |group: &&mut Group<'_>| {
            let kind = std::mem::discriminant(group.first) == std::mem::discriminant(warning);
            kind && group.key == key
        };
        let Some(group) = groups.iter_mut().find(same) else {
            let range = amount.map(|amount| (amount, amount));
            groups.push(Group { key, first: warning, range, count: 1 });
            continue;
        };
        group.count += 1;
        if let (Some((low, high)), Some(amount)) = (&mut group.range, amount) {
            low.value = low.value.min(amount.value);
            high.value = high.value.max(amount.value);
        }
    }
    let summary = |group: &Group<'_>| {
        let range = group.range.map_or(String::new(), |(low, high)| {
            let (low, high) = (low.to_string(), high.to_string());
            if low == high { low } else { format!("{low} to {high}") }
        });
        let text = advised(group.first.sentence(&range), group.first.advice());
        Summary { text, count: group.count }
    };
    groups.iter().map(summary).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_that_differ_in_their_number_are_one() {
        let share = |share: f64| Warning::ForeignOnServer { share };
        let listens = |times: u64, port: u16| Warning::NobodyListens {
            times,
            target: format!("192.0.2.1:{port}"),
        };
        let other = |text: &str| Warning::Other { text: text.to_owned() };
        let said = [
            share(0.11),
            listens(3, 53),
            share(0.062),
            other("the clock went back 1 s"),
            listens(3, 54),
            other("the clock went back 2 s"),
            share(0.70),
        ];
        let wanted = [
            ("processes that are not of the testbed used 6 to 70 % of the server's cores", 3),
            ("3 times nobody listened at 192.0.2.1:53 (ICMP): is the server up?", 1),
            ("the clock went back 1 s", 1),
            ("3 times nobody listened at 192.0.2.1:54 (ICMP): is the server up?", 1),
            ("the clock went back 2 s", 1),
        ];
        let found = summarise(&said);
        let found: Vec<(&str, usize)> = found.iter().map(|s| (s.text.as_str(), s.count)).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn sentences_have_their_numbers_and_advice() {
        let slow = Warning::SlowClock {
            read_ns: 900.4,
            source: "hpet".to_owned(),
            sources: vec!["hpet".to_owned(), "tsc".to_owned()],
        };
        let table = [
            (
                Warning::SmallReceiveBuffers { bytes: 212_992, wanted: 33_554_432 },
                "receive buffers of 212992 instead of 33554432 bytes: raise net.core.rmem_max, or run as root",
            ),
            (
                slow,
                "a look at the clock takes 900 ns (clock source hpet): of hpet, tsc take tsc if it is there",
            ),
            (
                Warning::CoreAway { cpu: 1, max_us: 2_500.0 },
                "core 1 went away from a busy program for up to 2.5 ms: something else runs there",
            ),
            (Warning::NotSent { datagrams: 2 }, "the kernel did not take 2 datagrams for sending"),
        ];
        for (warning, text) in table {
            assert_eq!(warning.with_advice(), text);
            assert!(text.starts_with(&warning.to_string()), "{warning}");
        }
    }

    #[test]
    fn names_in_the_json_are_stable() {
        let table = [
            (
                Warning::ForeignOnServer { share: 0.5 },
                r#"{"kind":"foreign-on-server","share":0.5}"#,
            ),
            (Warning::ClockRateHidden, r#"{"kind":"clock-rate-hidden"}"#),
            (Warning::Other { text: "x".to_owned() }, r#"{"kind":"other","text":"x"}"#),
        ];
        for (warning, json) in table {
            assert_eq!(serde_json::to_string(&warning).expect("serialises"), json);
            assert_eq!(serde_json::from_str::<Warning>(json).expect("reads"), warning);
        }
    }
}
