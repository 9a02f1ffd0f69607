//! Proof of a limiter: a counter, or the use of a core. Without a proof the limiter is unknown.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::stall::Side;
use crate::warning::{cores, places};

/// Evidence about the part that limited a trial. The JSON has the name of the variant in kebab
/// case: it is never renamed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum LimiterProof {
    /// Receive queues of a side dropped datagrams.
    ReceiveDrops {
        /// Side whose sockets have these queues.
        side: Side,
        /// Number of datagrams dropped during the trial.
        datagrams: u64,
        /// Busy share (0 to 1) of the side's cores, or of its busiest thread, in the time of sending; absent where that is
        /// not known.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        busy: Option<f64>,
        /// Cores of the side; empty where they are not known.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        cpus: Vec<usize>,
        /// Host of the side; absent where there is only one.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        host: Option<String>,
    },
    /// The server's listening sockets did not take connections: as many as their queue has room for waited to be accepted.
    NotTaken {
        /// Number of times that a connection was not taken.
        connections: u64,
        /// Busy share (0 to 1) of the server's cores, or of its busiest thread, in the time of sending; absent where that is
        /// not known.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        busy: Option<f64>,
    },
    /// Due queries had not arrived from their pipe yet.
    InputWaited {
        /// Share (0 to 1) of the trial.
        share: f64,
    },
    /// Queries found no room on the clients' connections, of which none failed.
    Unserved {
        /// Number of queries that never left.
        queries: u64,
        /// Number of clients, each with one connection at a time.
        clients: u32,
    },
    /// Connections had no reply at all, while the server answered on others.
    Places {
        /// Number of connections that were refused, reset, closed or silent until the timeout.
        unanswered: u64,
        /// Number of connections that were tried.
        connections: u64,
        /// Highest number of connections with a reply at the same time.
        at_once: u64,
    },
    /// Links of the testbed dropped packets.
    LinkDrops {
        /// Number of packets dropped during the trial.
        packets: u64,
    },
    /// The cores of a side, or its busiest thread, had no time left.
    Busy {
        /// Side whose cores were busy.
        side: Side,
        /// Busy share (0 to 1) of the time of sending.
        share: f64,
        /// Share (0 to 1) in which it was ready to run and did not, on a core that it shares.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        waited: Option<f64>,
        /// Busy share of its counterpart, which had time left: the AuthDNS for the server, the
        /// server for the others. Absent if unknown.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        counterpart: Option<f64>,
        /// Cores of the side; empty where they are not known.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        cpus: Vec<usize>,
        /// Host of the side; absent where there is only one.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        host: Option<String>,
    },
    /// Replies of a closed loop waited for a delayed acknowledgement: the server does not set TCP_NODELAY.
    DelayedReplies {
        /// Share (0 to 1) of the replies.
        replies: f64,
        /// Share (0 to 1) of the time of all replies.
        share: f64,
    },
    /// Queries of a closed loop had no reply, and nothing had dropped them.
    NoReply {
        /// Number of queries.
        queries: u64,
        /// Share (0 to 1) of the time in which the loop waited for the name servers.
        share: f64,
    },
    /// The places of a closed loop were in use while the server answered each query at once.
    PlacesFull {
        /// Largest number of queries outstanding.
        places: u32,
        /// Share (0 to 1) of the time of the places that was used.
        share: f64,
        /// Mean time from sent to reply, in microseconds.
        mean_us: f64,
    },
    /// Queries of a closed loop on a resolver were at name servers.
    AtNameServers {
        /// Mean number of queries that the resolver had at name servers at a time.
        queries: f64,
        /// Largest number of the load's queries outstanding.
        places: u32,
    },
    /// The Tester was ready to run and did not, or others used its cores.
    Waited {
        /// Share (0 to 1) of the trial for which the Tester waited for a core.
        run_delay: f64,
        /// Share (0 to 1) of the Tester's cores that others used.
        foreign: f64,
    },
}

impl fmt::Display for LimiterProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimiterProof::ReceiveDrops { side, datagrams, busy, cpus, host } => {
                let on = on(host);
                write!(f, "{datagrams} datagrams dropped in the {side}'s receive queues{on}")?;
                let Some(busy) = busy else { return Ok(()) };
                write!(f, ", {} busy {:.0} % of the time", cores("its", cpus), busy * 100.0)
            }
            LimiterProof::NotTaken { connections, busy } => {
                let times = if *connections == 1 { "time" } else { "times" };
                let full = "its accept queue was full";
                write!(f, "the server did not take a connection {connections} {times}: {full}")?;
                let Some(busy) = busy else { return Ok(()) };
                write!(f, ", its cores busy {:.0} % of the time", busy * 100.0)
            }
            LimiterProof::InputWaited { share } => {
                write!(f, "the pipe had no query for {:.1} % of the time", share * 100.0)
            }
            LimiterProof::Unserved { queries, clients } => {
                let s = if *clients == 1 { "" } else { "s" };
                write!(
                    f,
                    "{queries} queries never left: the connections of {clients} client{s} had no room for them; give more --clients, \
                     or more queries for each connection"
                )
            }
            LimiterProof::Places { unanswered, connections, at_once } => {
                f.write_str(&places(&unanswered.to_string(), *connections, *at_once))
            }
            LimiterProof::LinkDrops { packets } => write!(f, "{packets} packets dropped on links"),
            LimiterProof::Busy { side, share, waited, counterpart, cpus, host } => {
                let (whose, on) = (cores(&format!("the {side}'s"), cpus), on(host));
                write!(f, "{whose}{on} busy {:.0} % of the time", share * 100.0)?;
                if let Some(waited) = waited {
                    write!(f, " and waited for {:.0} %", waited * 100.0)?;
                }
                let Some(other) = counterpart else { return Ok(()) };
                write!(f, ", the {} {:.0} %", counterpart_of(*side), other * 100.0)
            }
            LimiterProof::DelayedReplies { replies, share } => write!(
                f,
                "{:.0} % of the replies waited 40 ms for a delayed acknowledgement, {:.0} % of the time of all replies",
                replies * 100.0,
                share * 100.0
            ),
            LimiterProof::NoReply { queries, share } => write!(
                f,
                "queries without a reply and without a known drop: {queries}; the load waited for them {:.0} % of the time",
                share * 100.0
            ),
            LimiterProof::PlacesFull { places, share, mean_us } => {
                let (queries, them) =
                    if *places == 1 { ("query", "it") } else { ("queries", "them") };
                write!(
                    f,
                    "the load has {places} {queries} outstanding at most, and had {them} {:.0} % of the time: replies took {mean_us:.0} us",
                    share * 100.0
                )
            }
            LimiterProof::AtNameServers { queries, places } => {
                write!(f, "{queries:.0} queries wait at name servers on average, at most {places}")
            }
            LimiterProof::Waited { run_delay, foreign } => write!(
                f,
                "the Tester waited for its CPU {:.0} % of the time, others used {:.0} % of its cores",
                run_delay * 100.0,
                foreign * 100.0
            ),
        }
    }
}

/// Returns the side that had time left while this one was busy.
fn counterpart_of(side: Side) -> Side {
    if side == Side::Dut { Side::AuthDns } else { Side::Dut }
}

/// Names the host, if there are several.
fn on(host: &Option<String>) -> String {
    host.as_ref().map_or(String::new(), |host| format!(" on {host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_have_stable_names_and_a_sentence() {
        let drops = |side, busy, cpus| LimiterProof::ReceiveDrops {
            side,
            datagrams: 7,
            busy,
            cpus,
            host: None,
        };
        let busy = |side, share, waited, counterpart, cpus| LimiterProof::Busy {
            side,
            share,
            waited,
            counterpart,
            cpus,
            host: None,
        };
        let of_several = LimiterProof::Busy {
            side: Side::AuthDns,
            share: 0.97,
            waited: None,
            counterpart: Some(0.5),
            cpus: vec![0],
            host: Some("b.test".to_owned()),
        };
        let table = [
            (
                of_several,
                r#"{"by":"busy","side":"authdns","share":0.97,"counterpart":0.5,"cpus":[0],"host":"b.test"}"#,
                "the AuthDNS's core 0 on b.test busy 97 % of the time, the server 50 %",
            ),
            (
                drops(Side::Dut, Some(0.97), vec![1]),
                r#"{"by":"receive-drops","side":"dut","datagrams":7,"busy":0.97,"cpus":[1]}"#,
                "7 datagrams dropped in the server's receive queues, its core 1 busy 97 % of the time",
            ),
            (
                drops(Side::Tester, None, Vec::new()),
                r#"{"by":"receive-drops","side":"tester","datagrams":7}"#,
                "7 datagrams dropped in the Tester's receive queues",
            ),
            (
                LimiterProof::NotTaken { connections: 717, busy: Some(0.46) },
                r#"{"by":"not-taken","connections":717,"busy":0.46}"#,
                "the server did not take a connection 717 times: its accept queue was full, its cores busy 46 % of the time",
            ),
            (
                LimiterProof::Places { unanswered: 115, connections: 130, at_once: 10 },
                r#"{"by":"places","unanswered":115,"connections":130,"at_once":10}"#,
                "115 of 130 connections got no reply at all; at most 10 were answered at the same time",
            ),
            (
                LimiterProof::LinkDrops { packets: 3 },
                r#"{"by":"link-drops","packets":3}"#,
                "3 packets dropped on links",
            ),
            (
                busy(Side::Dut, 0.991, None, Some(0.4), vec![1, 2]),
                r#"{"by":"busy","side":"dut","share":0.991,"counterpart":0.4,"cpus":[1,2]}"#,
                "the server's cores 1, 2 busy 99 % of the time, the AuthDNS 40 %",
            ),
            (
                busy(Side::AuthDns, 0.6, Some(0.35), Some(0.5), vec![0]),
                r#"{"by":"busy","side":"authdns","share":0.6,"waited":0.35,"counterpart":0.5,"cpus":[0]}"#,
                "the AuthDNS's core 0 busy 60 % of the time and waited for 35 %, the server 50 %",
            ),
            (
                busy(Side::Tester, 0.95, None, None, Vec::new()),
                r#"{"by":"busy","side":"tester","share":0.95}"#,
                "the Tester's cores busy 95 % of the time",
            ),
            (
                LimiterProof::DelayedReplies { replies: 0.67, share: 0.93 },
                r#"{"by":"delayed-replies","replies":0.67,"share":0.93}"#,
                "67 % of the replies waited 40 ms for a delayed acknowledgement, 93 % of the time of all replies",
            ),
            (
                LimiterProof::NoReply { queries: 3, share: 0.77 },
                r#"{"by":"no-reply","queries":3,"share":0.77}"#,
                "queries without a reply and without a known drop: 3; the load waited for them 77 % of the time",
            ),
            (
                LimiterProof::PlacesFull { places: 2, share: 0.86, mean_us: 58.8 },
                r#"{"by":"places-full","places":2,"share":0.86,"mean_us":58.8}"#,
                "the load has 2 queries outstanding at most, and had them 86 % of the time: replies took 59 us",
            ),
            (
                LimiterProof::AtNameServers { queries: 10.25, places: 100 },
                r#"{"by":"at-name-servers","queries":10.25,"places":100}"#,
                "10 queries wait at name servers on average, at most 100",
            ),
            (
                LimiterProof::Waited { run_delay: 0.5, foreign: 0.25 },
                r#"{"by":"waited","run_delay":0.5,"foreign":0.25}"#,
                "the Tester waited for its CPU 50 % of the time, others used 25 % of its cores",
            ),
        ];
        for (proof, json, sentence) in table {
            assert_eq!(serde_json::to_string(&proof).expect("serialises"), json);
            assert_eq!(serde_json::from_str::<LimiterProof>(json).expect("reads"), proof);
            assert_eq!(proof.to_string(), sentence);
        }
    }
}
