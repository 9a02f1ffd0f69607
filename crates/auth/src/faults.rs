//! Faults in replies, which a Tester must detect and a DUT must survive.
//!
//! The correct reply is written first and changed afterwards, so each fault can be applied to any reply that it fits:
//!
//! ```text
//! [header | question | records | OPT]
//!   wrong-id  ^          wrong-question  ^ first octet of the name
//!   servfail, truncate   the records are removed, the OPT stays
//!   wrong-address        the last bit of the address is flipped
//!   cut                  the end is missing
//! ```
//!
//! Shares are exact and evenly spread: with a loss of 0.001 every thousandth reply is missing. The share of a fault is
//! of the replies that it fits, so wrong-address counts only replies with an address: a DNS64 server queries AAAA and A
//! in schedule, and a share of all replies could affect only the empty ones.

use std::fmt;
use std::str::FromStr;

use wire::Rcode;
use wire::message::{HEADER, OPT_FIXED, flag};

use crate::internet::Carrier;
use crate::reply::Reply;

/// A fault in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The reply has another address than the name.
    WrongAddress,
    /// The reply has another question than the query.
    WrongQuestion,
    /// The reply has another id than the query.
    WrongId,
    /// TC is set, and there are no records.
    Truncate,
    /// The message ends in the middle.
    Cut,
    /// The return code is SERVFAIL.
    Servfail,
    /// The reply is sent twice.
    Duplicate,
    /// The query gets no reply.
    Silent,
}

measure::words! {
    Fault {
        WrongAddress = "wrong-address",
        WrongQuestion = "wrong-question",
        WrongId = "wrong-id",
        Truncate = "truncate",
        Cut = "cut",
        Servfail = "servfail",
        Duplicate = "duplicate",
        Silent = "silent",
    }
}

impl Fault {
    /// Returns whether the fault can be applied to a reply. Over a stream nothing is truncated (RFC 7766 section 5).
    fn fits(self, reply: &Reply, carrier: Carrier) -> bool {
        match self {
            Fault::Truncate => carrier == Carrier::Datagram,
            Fault::WrongAddress => reply.address_octet.is_some(),
            Fault::WrongQuestion => has_label(reply),
            _ => true,
        }
    }

    /// Applies the fault to a reply in `out`; returns the new length, 0 for no reply.
    pub(crate) fn apply(self, reply: &Reply, out: &mut [u8]) -> usize {
        match (self, reply.address_octet) {
            (Fault::WrongId, _) => out[0] ^= 0x55,
            (Fault::WrongAddress, Some(octet)) => out[octet] ^= 1,
            (Fault::WrongQuestion, _) if has_label(reply) => {
                let octet = &mut out[HEADER + 1];
                *octet = if *octet == b'9' { b'8' } else { b'9' };
            }
            (Fault::Cut, _) => return reply.len - (reply.len / 4).min(9),
            (Fault::Servfail, _) => {
                out[2] &= !((flag::AA >> 8) as u8);
                return without_records(reply, out, Rcode::SERVFAIL);
            }
            (Fault::Truncate, _) => {
                out[2] |= (flag::TC >> 8) as u8;
                return without_records(reply, out, Rcode::NOERROR);
            }
            (Fault::Silent, _) => return 0,
            (Fault::WrongAddress | Fault::WrongQuestion | Fault::Duplicate, _) => {}
        }
        reply.len
    }
}

/// Returns whether the name in the question has a label.
fn has_label(reply: &Reply) -> bool {
    // The root name, type and class have five octets.
    reply.question_end > HEADER + 5
}

/// Removes the records of a reply except its OPT record, and sets the return code; returns the new length.
fn without_records(reply: &Reply, out: &mut [u8], rcode: Rcode) -> usize {
    out[3] = out[3] & 0xf0 | (rcode.0 & 0xf) as u8;
    out[6..HEADER].fill(0);
    if !reply.has_opt {
        return reply.question_end;
    }
    out[HEADER - 1] = 1;
    out.copy_within(reply.len - OPT_FIXED..reply.len, reply.question_end);
    // Clear the upper bits of the return code, which a BADVERS reply has.
    out[reply.question_end + 5] = 0;
    reply.question_end + OPT_FIXED
}

/// A fault and its share of the replies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultSpec {
    /// What is wrong with the reply.
    pub fault: Fault,
    /// Share (0 to 1) of the replies that the fault fits, evenly spread.
    pub share: f64,
}

/// The error for a text that is not a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a fault: write KIND or KIND:SHARE, with KIND one of {kinds}, and SHARE from 0 to 1", kinds = Fault::ALL.map(Fault::word).join(", "))]
pub struct FaultError(String);

impl FromStr for FaultSpec {
    type Err = FaultError;

    /// Reads a fault such as `wrong-address` or `servfail:0.01`.
    fn from_str(s: &str) -> Result<Self, FaultError> {
        let (word, share) =
            s.split_once(':').map_or((s, Some(1.0)), |(word, share)| (word, share.parse().ok()));
        match (word.parse().ok(), share.filter(|share| (0.0..=1.0).contains(share))) {
            (Some(fault), Some(share)) => Ok(FaultSpec { fault, share }),
            _ => Err(FaultError(s.to_owned())),
        }
    }
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.fault, self.share)
    }
}

/// The schedule of faults over replies.
#[derive(Debug)]
pub(crate) struct Faults(Vec<FaultSchedule>);

/// The schedule of one fault.
#[derive(Debug)]
struct FaultSchedule {
    fault: Fault,
    share: EvenShare,
    /// Number of faults that are postponed because another fault was applied to the reply.
    postponed: u32,
}

impl Faults {
    /// Returns a schedule in which earlier faults have precedence; the shares sum to at most 1, so no fault is lost.
    pub(crate) fn new(specs: impl IntoIterator<Item = FaultSpec>) -> Self {
        let schedule = |spec: FaultSpec| FaultSchedule {
            fault: spec.fault,
            share: EvenShare::new(spec.share),
            postponed: 0,
        };
        Faults(specs.into_iter().filter(|spec| spec.share > 0.0).map(schedule).collect())
    }

    /// Returns the fault for this reply; `None` for a correct reply.
    #[inline]
    pub(crate) fn next(&mut self, reply: &Reply, carrier: Carrier) -> Option<Fault> {
        let mut chosen = None;
        for schedule in &mut self.0 {
            if reply.len == 0 || !schedule.fault.fits(reply, carrier) {
                continue;
            }
            schedule.postponed =
                schedule.postponed.saturating_add(u32::from(schedule.share.select()));
            if chosen.is_none() && schedule.postponed > 0 {
                schedule.postponed -= 1;
                chosen = Some(schedule.fault);
            }
        }
        chosen
    }
}

/// A counter that selects a share of its calls, evenly spread: for 0.001 every thousandth call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvenShare {
    /// The share in units of 2^-64.
    step: u64,
    /// The sum of all steps, modulo 1, in the same units.
    sum: u64,
}

impl EvenShare {
    /// Returns a counter for a share from 0 to 1.
    pub(crate) fn new(share: f64) -> Self {
        // `as` saturates, so a share of 1 becomes 1 - 2^-64. Start half a step ahead, so that rounding does not move a
        // selected call.
        let step = (share * 2f64.powi(64)) as u64;
        EvenShare { step, sum: step / 2 }
    }

    /// Returns whether this call is selected.
    #[inline]
    pub(crate) fn select(&mut self) -> bool {
        let (sum, selected) = self.sum.overflowing_add(self.step);
        self.sum = sum;
        selected
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_a_fault_or_refused(text in "(cut|silent|\\PC{0,9})(:[0-9.e-]{0,6})?") {
            match text.parse::<FaultSpec>() {
                Ok(spec) => prop_assert_eq!(spec.to_string().parse(), Ok(spec)),
                Err(error) => prop_assert!(error.to_string().contains(&text), "{}", error),
            }
        }
    }

    #[test]
    fn faults_are_read_and_printed() {
        assert_eq!("cut".parse(), Ok(FaultSpec { fault: Fault::Cut, share: 1.0 }));
        assert_eq!("servfail:0.25".parse(), Ok(FaultSpec { fault: Fault::Servfail, share: 0.25 }));
        for bad in ["", "slow", "cut:", "cut:2", "cut:-1", "cut:x", "cut:NaN"] {
            let error = bad.parse::<FaultSpec>().expect_err(bad).to_string();
            assert!(error.contains("wrong-address"), "{error}");
        }
        for fault in Fault::ALL {
            assert_eq!(fault.word().parse(), Ok(FaultSpec { fault, share: 1.0 }));
            assert_eq!(FaultSpec { fault, share: 1.0 }.to_string(), format!("{fault}:1"));
        }
    }

    #[test]
    fn shares_are_exact_and_even() {
        for (share, period) in [(0.001, 1_000), (0.25, 4), (0.01, 100), (1.0, 1), (1e-6, 1_000_000)]
        {
            let mut selector = EvenShare::new(share);
            let selected: Vec<u64> = (1..=3_000_000).filter(|_| selector.select()).collect();
            assert_eq!(selected.len() as u64, 3_000_000 / period, "{share}");
            assert!(selected.iter().zip(1..).all(|(at, k)| *at == k * period), "{share}");
        }
        let mut selector = EvenShare::new(0.3);
        let selected: Vec<u32> = (1..=10_000).filter(|_| selector.select()).collect();
        assert!(selected.len().abs_diff(3_000) <= 1);
        assert!(selected.windows(2).all(|pair| (3..=4).contains(&(pair[1] - pair[0]))));
        let mut never = EvenShare::new(0.0);
        assert!((0..1_000).all(|_| !never.select()));
    }

    #[test]
    fn faults_of_the_same_reply_are_postponed() {
        let reply = Reply { len: 60, question_end: 48, ..Reply::NONE };
        let specs = ["silent:0.25", "cut:0.25", "servfail:0.5", "wrong-address:1"];
        let mut faults = Faults::new(specs.map(|spec| spec.parse().expect(spec)));
        let mut counts = [0u32; 3];
        for _ in 0..1_000 {
            match faults.next(&reply, Carrier::Datagram) {
                Some(Fault::Silent) => counts[0] += 1,
                Some(Fault::Cut) => counts[1] += 1,
                Some(Fault::Servfail) => counts[2] += 1,
                Some(other) => panic!("{other:?} does not fit a reply without an address"),
                None => {}
            }
        }
        assert!(
            counts.iter().zip([250u32, 250, 500]).all(|(n, share)| n.abs_diff(share) <= 2),
            "{counts:?}"
        );
        assert_eq!(faults.next(&Reply::NONE, Carrier::Datagram), None, "no reply, no fault");
    }
}
