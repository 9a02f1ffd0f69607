//! Spoiled replies: what a Tester has to notice, and a DUT to survive.
//!
//! An honest reply is written first and spoiled afterwards, so that a fault can be put on any reply it fits:
//!
//! ```text
//! [header | question | records | OPT]
//!   wrong-id  ^          wrong-question  ^ first octet of the name
//!   servfail, truncate   the records are taken out, the OPT stays
//!   wrong-address        the last bit of the address is turned round
//!   cut                  the end is missing
//! ```
//!
//! Shares are kept exactly and evenly: with a loss of 0.001 it is every thousandth reply that is missing. A fault's
//! share is of the replies that it fits, so a lie about addresses counts only replies that hold one: a DNS64 server asks
//! for AAAA and A in turn, and a share of all replies could hit nothing but the empty ones.

use std::fmt;
use std::str::FromStr;

use wire::Rcode;
use wire::message::{HEADER, OPT_FIXED, flag};

use crate::responder::Reply;

/// What is done to a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Another address than the name says.
    WrongAddress,
    /// Another question than was asked.
    WrongQuestion,
    /// Another id than was asked.
    WrongId,
    /// TC set and no records.
    Truncate,
    /// The message ends in the middle.
    Cut,
    /// SERVFAIL.
    Servfail,
    /// The reply is sent twice.
    Duplicate,
    /// No reply.
    Silent,
}

impl Fault {
    /// Every fault with its word on the command line.
    pub const ALL: [(&'static str, Fault); 8] = [
        ("wrong-address", Fault::WrongAddress),
        ("wrong-question", Fault::WrongQuestion),
        ("wrong-id", Fault::WrongId),
        ("truncate", Fault::Truncate),
        ("cut", Fault::Cut),
        ("servfail", Fault::Servfail),
        ("duplicate", Fault::Duplicate),
        ("silent", Fault::Silent),
    ];

    /// Whether a reply can suffer it.
    fn fits(self, reply: &Reply) -> bool {
        match self {
            Fault::WrongAddress => reply.address_octet.is_some(),
            Fault::WrongQuestion => has_label(reply),
            _ => true,
        }
    }

    /// Does it to a reply in `out`; the new length, zero for none.
    pub(crate) fn spoil(self, reply: &Reply, out: &mut [u8]) -> usize {
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

/// Whether the question's name has a label.
fn has_label(reply: &Reply) -> bool {
    // The root, type and class.
    reply.question_end > HEADER + 5
}

/// Takes the records out of a reply but for its OPT, and sets the return code; the new length.
fn without_records(reply: &Reply, out: &mut [u8], rcode: Rcode) -> usize {
    out[3] = out[3] & 0xf0 | (rcode.0 & 0xf) as u8;
    out[6..HEADER].fill(0);
    if !reply.has_opt {
        return reply.question_end;
    }
    out[HEADER - 1] = 1;
    out.copy_within(reply.len - OPT_FIXED..reply.len, reply.question_end);
    // BADVERS is the one return code with bits in the OPT.
    out[reply.question_end + 5] = 0;
    reply.question_end + OPT_FIXED
}

/// A fault and the share of replies that suffer it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultSpec {
    /// What is done.
    pub fault: Fault,
    /// To which share (0 to 1) of the replies that it fits, evenly spread.
    pub share: f64,
}

/// A fault that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a fault; write KIND or KIND:SHARE, KIND one of {kinds}, SHARE from 0 to 1", kinds = kinds())]
pub struct FaultError(String);

fn kinds() -> String {
    Fault::ALL.map(|(word, _)| word).join(", ")
}

impl FromStr for FaultSpec {
    type Err = FaultError;

    /// Reads `wrong-address`, `servfail:0.01`.
    fn from_str(s: &str) -> Result<Self, FaultError> {
        let (word, share) =
            s.split_once(':').map_or((s, Some(1.0)), |(word, share)| (word, share.parse().ok()));
        let fault = Fault::ALL.into_iter().find(|(name, _)| *name == word).map(|(_, fault)| fault);
        match (fault, share.filter(|share| (0.0..=1.0).contains(share))) {
            (Some(fault), Some(share)) => Ok(FaultSpec { fault, share }),
            _ => Err(FaultError(s.to_owned())),
        }
    }
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Fault::ALL
            .into_iter()
            .find(|(_, fault)| *fault == self.fault)
            .map_or("", |(word, _)| word);
        write!(f, "{word}:{}", self.share)
    }
}

/// Which reply suffers which fault.
#[derive(Debug)]
pub(crate) struct Faults(Vec<Turn>);

/// One fault's turns.
#[derive(Debug)]
struct Turn {
    fault: Fault,
    every: Every,
    /// Turns that another fault took: they come with the next replies.
    due: u32,
}

impl Faults {
    /// Faults of which the first has precedence; the shares sum to 1 at most, so that no turn is lost.
    pub(crate) fn new(specs: impl IntoIterator<Item = FaultSpec>) -> Self {
        let turn =
            |spec: FaultSpec| Turn { fault: spec.fault, every: Every::new(spec.share), due: 0 };
        Faults(specs.into_iter().filter(|spec| spec.share > 0.0).map(turn).collect())
    }

    /// The fault that this reply suffers; `None` for an honest one.
    #[inline]
    pub(crate) fn next(&mut self, reply: &Reply) -> Option<Fault> {
        let mut chosen = None;
        for turn in &mut self.0 {
            if reply.len == 0 || !turn.fault.fits(reply) {
                continue;
            }
            turn.due = turn.due.saturating_add(u32::from(turn.every.hit()));
            if chosen.is_none() && turn.due > 0 {
                turn.due -= 1;
                chosen = Some(turn.fault);
            }
        }
        chosen
    }
}

/// Says yes to a share of calls, evenly spread: for 0.001 to every thousandth, for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Every {
    /// The share in units of 2^-64, and its multiples modulo 1.
    step: u64,
    sum: u64,
}

impl Every {
    /// A share from 0 to 1.
    pub(crate) fn new(share: f64) -> Self {
        // `as` saturates: 1 is 2^-64 less. Half a step ahead, so that rounding shifts no yes.
        let step = (share * 2f64.powi(64)) as u64;
        Every { step, sum: step / 2 }
    }

    #[inline]
    pub(crate) fn hit(&mut self) -> bool {
        let (sum, hit) = self.sum.overflowing_add(self.step);
        self.sum = sum;
        hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!("cut".parse(), Ok(FaultSpec { fault: Fault::Cut, share: 1.0 }));
        assert_eq!("servfail:0.25".parse(), Ok(FaultSpec { fault: Fault::Servfail, share: 0.25 }));
        for bad in ["", "slow", "cut:", "cut:2", "cut:-1", "cut:x", "cut:NaN"] {
            let error = bad.parse::<FaultSpec>().expect_err(bad).to_string();
            assert!(error.contains("wrong-address"), "{error}");
        }
        for (word, fault) in Fault::ALL {
            assert_eq!(word.parse(), Ok(FaultSpec { fault, share: 1.0 }));
            assert_eq!(FaultSpec { fault, share: 1.0 }.to_string(), format!("{word}:1"));
        }
    }

    #[test]
    fn shares_are_exact_and_even() {
        for (share, period) in [(0.001, 1_000), (0.25, 4), (0.01, 100), (1.0, 1), (1e-6, 1_000_000)]
        {
            let mut every = Every::new(share);
            let hits: Vec<u64> = (1..=3_000_000).filter(|_| every.hit()).collect();
            assert_eq!(hits.len() as u64, 3_000_000 / period, "{share}");
            assert!(hits.iter().zip(1..).all(|(at, k)| *at == k * period), "{share}");
        }
        let mut every = Every::new(0.3);
        let hits: Vec<u32> = (1..=10_000).filter(|_| every.hit()).collect();
        assert!(hits.len().abs_diff(3_000) <= 1);
        assert!(hits.windows(2).all(|pair| (3..=4).contains(&(pair[1] - pair[0]))));
        let mut never = Every::new(0.0);
        assert!((0..1_000).all(|_| !never.hit()));
    }

    #[test]
    fn faults_that_meet_wait_for_each_other() {
        let reply = Reply { len: 60, question_end: 48, ..Reply::NONE };
        let specs = ["silent:0.25", "cut:0.25", "servfail:0.5", "wrong-address:1"];
        let mut faults = Faults::new(specs.map(|spec| spec.parse().expect(spec)));
        let mut counts = [0u32; 3];
        for _ in 0..1_000 {
            match faults.next(&reply) {
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
        assert_eq!(faults.next(&Reply::NONE), None, "nothing to spoil");
    }
}
