//! What shows that a limiter limited a trial: a counter or a core's use. A limiter without it is unknown.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::stall::Side;

/// What was seen of the part that limited a trial. The name of the variant in kebab case stands in the JSON: it
/// is never renamed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum LimiterProof {
    /// Its receive queues dropped datagrams.
    ReceiveDrops {
        /// Whose queues.
        side: Side,
        /// Number of datagrams.
        datagrams: u64,
    },
    /// Links dropped packets.
    LinkDrops {
        /// Number of packets.
        packets: u64,
    },
    /// Its cores, or its busiest thread, had no time left.
    Busy {
        /// Whose.
        side: Side,
        /// Busy share (0 to 1) of the time of sending.
        share: f64,
        /// Busy share of its counterpart, which had time left: the AuthDNS for the server, the server for the
        /// others. Absent where that is not known.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        counterpart: Option<f64>,
    },
    /// The Tester was ready to run and did not, or others used its cores.
    Waited {
        /// Share (0 to 1) of the trial that it waited.
        run_delay: f64,
        /// Share (0 to 1) of its cores that others used.
        foreign: f64,
    },
}

impl fmt::Display for LimiterProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimiterProof::ReceiveDrops { side, datagrams } => {
                write!(f, "{datagrams} datagrams dropped in the {side}'s receive queues")
            }
            LimiterProof::LinkDrops { packets } => write!(f, "{packets} packets dropped on links"),
            LimiterProof::Busy { side, share, counterpart } => {
                write!(f, "the {side} busy {:.0} % of the time", share * 100.0)?;
                let Some(other) = counterpart else { return Ok(()) };
                let other_side = if *side == Side::Dut { Side::AuthDns } else { Side::Dut };
                write!(f, ", the {other_side} {:.0} %", other * 100.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_have_stable_names_and_a_sentence() {
        let table = [
            (
                LimiterProof::ReceiveDrops { side: Side::Dut, datagrams: 7 },
                r#"{"by":"receive-drops","side":"dut","datagrams":7}"#,
                "7 datagrams dropped in the server's receive queues",
            ),
            (
                LimiterProof::LinkDrops { packets: 3 },
                r#"{"by":"link-drops","packets":3}"#,
                "3 packets dropped on links",
            ),
            (
                LimiterProof::Busy { side: Side::Dut, share: 0.991, counterpart: Some(0.4) },
                r#"{"by":"busy","side":"dut","share":0.991,"counterpart":0.4}"#,
                "the server busy 99 % of the time, the AuthDNS 40 %",
            ),
            (
                LimiterProof::Busy { side: Side::Tester, share: 0.95, counterpart: None },
                r#"{"by":"busy","side":"tester","share":0.95}"#,
                "the Tester busy 95 % of the time",
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
