//! Spoiled replies: what a Tester has to notice, and a DUT to survive.

use std::fmt;
use std::str::FromStr;

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
}

/// A fault and the share of replies that suffer it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultSpec {
    /// What is done.
    pub fault: Fault,
    /// To which share (0 to 1) of replies, evenly spread.
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

/// Says yes to a share of calls, evenly spread: for 0.001 to every thousandth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Every {
    share: f64,
    sum: f64,
}

impl Every {
    pub(crate) fn new(share: f64) -> Self {
        // Half a step ahead, so that rounding of the sums does not shift a yes.
        Every { share, sum: share / 2.0 }
    }

    #[inline]
    pub(crate) fn hit(&mut self) -> bool {
        self.sum += self.share;
        let hit = self.sum >= 1.0;
        if hit {
            self.sum -= 1.0;
        }
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
        for bad in ["", "slow", "cut:", "cut:2", "cut:-1", "cut:x"] {
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
        for (share, calls, hits) in [
            (0.001, 1_000_000u32, 1_000u32),
            (0.25, 1_000, 250),
            (1.0, 100, 100),
            (0.0, 100, 0),
            (0.3, 10_000, 3_000),
        ] {
            let mut every = Every::new(share);
            let got = (0..calls).filter(|_| every.hit()).count() as u32;
            assert!(got.abs_diff(hits) <= 1, "{share}: {got}");
        }
    }
}
