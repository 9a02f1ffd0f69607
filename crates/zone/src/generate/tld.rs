//! A zone like that of a top-level domain: delegations, and hardly anything else.
//!
//! Delegations point to the two to four name servers of an operator; a few operators have most of the delegations
//! (Zipf's law). Half of the operators (by default) are named in the zone itself, `hoster0000007`, and have glue;
//! the others live below `invalid.`. Some delegations bring name servers of their own, with glue, and some are signed.

use std::io::{self, Write};

use measure::{Rng, Zipf};
use wire::Name;

use super::{NameServer, Written};
use crate::labels::{Labels, LabelsAhead};
use crate::text::{Text, begin};

/// The label of an operator begins with this; seven digits follow.
const OPERATOR: &[u8] = b"hoster";
/// The most operators: as many as seven digits name.
const MAX_OPERATORS: u64 = 10_000_000;

/// A zone like that of a top-level domain.
#[derive(Clone, Debug)]
pub struct TldZone {
    /// The zone.
    pub zone: Name,
    /// How many names are delegated.
    pub delegations: u64,
    /// How many operators serve them; `None` for one in two hundred delegations.
    pub operators: Option<u64>,
    /// Zipf's exponent of the operators' sizes.
    pub exponent: f64,
    /// Share (0 to 1) of operators that are named in the zone.
    pub in_zone: f64,
    /// Share (0 to 1) of delegations that have name servers of their own name, with glue.
    pub vanity: f64,
    /// Share (0 to 1) of delegations with a DS record.
    pub ds: f64,
    /// TTL, seconds.
    pub ttl: u32,
    /// `a.nic` of the zone.
    pub server: NameServer,
    /// Seed of everything that looks random.
    pub seed: u64,
}

/// A zone that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TldError {
    /// A share is none.
    #[error("the share of {what}, {found}, does not lie between 0 and 1")]
    Share {
        /// Of what.
        what: &'static str,
        /// What was given.
        found: f64,
    },
    /// The exponent is none.
    #[error("the exponent {0} of the operators' sizes does not lie between 0 and 10")]
    Exponent(f64),
    /// More operators than delegations, or than can be named.
    #[error("{found} operators for {delegations} delegations: take 1 to {most}")]
    Operators {
        /// What was given.
        found: u64,
        /// How many names are delegated.
        delegations: u64,
        /// How many there may be.
        most: u64,
    },
    /// The zone's name is too long for labels in front.
    #[error("the zone's name leaves no room for labels in front of it: {0}")]
    Zone(#[from] wire::NameError),
}

impl TldZone {
    /// A zone with the shares of a large top-level domain.
    pub fn new(zone: Name, delegations: u64, seed: u64) -> Self {
        TldZone {
            zone,
            delegations,
            operators: None,
            exponent: 1.0,
            in_zone: 0.5,
            vanity: 0.03,
            ds: 0.05,
            ttl: 172_800,
            server: NameServer::default(),
            seed,
        }
    }

    /// Checks what was asked for.
    ///
    /// # Errors
    /// The first thing that cannot be.
    pub fn validate(&self) -> Result<(), TldError> {
        for (what, found) in [
            ("operators in the zone", self.in_zone),
            ("own name servers", self.vanity),
            ("DS", self.ds),
        ] {
            if !(0.0..=1.0).contains(&found) {
                return Err(TldError::Share { what, found });
            }
        }
        if !(0.0..=10.0).contains(&self.exponent) {
            return Err(TldError::Exponent(self.exponent));
        }
        let most = self.delegations.clamp(1, MAX_OPERATORS);
        if let Some(found) = self.operators.filter(|n| !(1..=most).contains(n)) {
            return Err(TldError::Operators { found, delegations: self.delegations, most });
        }
        self.zone.prepend(&[b'x'; wire::name::MAX_LABEL])?.prepend(b"ns1")?;
        Ok(())
    }

    fn operator_count(&self) -> u64 {
        self.operators.unwrap_or(self.delegations / 200).clamp(1, MAX_OPERATORS)
    }

    /// Writes the zone, in canonical order.
    ///
    /// # Errors
    /// What `out` reports; as bad input when the zone cannot be.
    pub fn write(&self, out: &mut impl Write) -> io::Result<Written> {
        self.validate().map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let mut zone = Writer::new(self, out);
        begin(&mut zone.text, &self.zone, self.ttl, "a.nic")?;
        zone.text.put(b"@\tNS\ta.nic");
        zone.text.end(1)?;
        let mut operators = (0..zone.operators).filter(|&rank| self.named_in_zone(rank)).peekable();
        let named = (0..zone.operators).filter(|&rank| self.named_in_zone(rank)).count() as u64;
        let labels = Labels::new(self.delegations.saturating_sub(named), self.seed, reserved);
        std::thread::scope(|scope| {
            let mut labels = LabelsAhead::new(labels, scope);
            let mut label = labels.next_label();
            let mut nic_is_due = true;
            // What comes next in the canonical order: drawn labels, then an operator or the zone's own server.
            loop {
                let operator = operators.peek().map(|&rank| operator_label(rank));
                let operator = operator.as_ref().map(|label| &label[..]);
                let other = operator.into_iter().chain(nic_is_due.then_some(&b"nic"[..])).min();
                while let Some(drawn) = label
                    && other.is_none_or(|other| drawn < other)
                {
                    zone.delegation(drawn)?;
                    label = labels.next_label();
                }
                match other {
                    None => break,
                    Some(b"nic") => {
                        zone.own_server(self.server)?;
                        nic_is_due = false;
                    }
                    Some(_) => zone.operator(operators.next().unwrap_or_default())?,
                }
            }
            zone.text.finish()
        })
    }

    /// Whether an operator has its name in the zone: spread evenly over the ranks.
    fn named_in_zone(&self, rank: u64) -> bool {
        ((rank + 1) as f64 * self.in_zone) as u64 > (rank as f64 * self.in_zone) as u64
    }
}

/// Labels that are not drawn: the zone's own and the operators'.
fn reserved(label: &[u8]) -> bool {
    let operator = |rest: &[u8]| rest.len() == 7 && rest.iter().all(u8::is_ascii_digit);
    label == b"nic" || label.strip_prefix(OPERATOR).is_some_and(operator)
}

/// `hoster0000007`
fn operator_label(rank: u64) -> [u8; 13] {
    let mut label = *b"hoster0000000";
    let mut n = rank;
    for digit in label[OPERATOR.len()..].iter_mut().rev() {
        *digit = b'0' + (n % 10) as u8;
        n /= 10;
    }
    label
}

/// How many name servers an operator has: 2 (as most), 3 or 4.
fn server_count(rank: u64) -> u64 {
    [2, 4, 2, 3, 2, 2, 4, 2][(rank % 8) as usize]
}

struct Writer<'a, W: Write> {
    zone: &'a TldZone,
    text: Text<'a, W>,
    rng: Rng,
    zipf: Zipf,
    operators: u64,
}

impl<'a, W: Write> Writer<'a, W> {
    fn new(zone: &'a TldZone, out: &'a mut W) -> Self {
        let operators = zone.operator_count();
        Writer {
            zone,
            text: Text::new(out),
            rng: Rng::part(zone.seed, 0x0074_6c64),
            zipf: Zipf::new(operators, zone.exponent),
            operators,
        }
    }

    /// A delegation of a drawn label.
    fn delegation(&mut self, label: &[u8]) -> io::Result<()> {
        self.text.put(label);
        if self.rng.unit() < self.zone.vanity {
            self.text.put(b"\tNS\tns1.").put(label).end(1)?;
            self.text.put(b"\tNS\tns2.").put(label).end(1)?;
            self.signed()?;
            let first = self.rng.next_u64();
            for server in 0..2u64 {
                self.text.put(b"ns").number(server + 1).put(b".").put(label).put(b"\tA\t");
                self.text.v4(private(first.wrapping_add(server)));
                self.text.end(1)?;
            }
            return Ok(());
        }
        let rank = self.zipf.draw(&mut self.rng);
        self.servers_of(rank)?;
        self.signed()
    }

    /// An operator's own delegation, with glue for its servers.
    fn operator(&mut self, rank: u64) -> io::Result<()> {
        let label = operator_label(rank);
        self.text.put(&label);
        self.servers_of(rank)?;
        self.signed()?;
        for server in 1..=server_count(rank) {
            self.text.put(b"ns").number(server).put(b".").put(&label).put(b"\tA\t");
            self.text.v4(private(rank * 4 + server));
            self.text.end(1)?;
            self.text.put(b"\tAAAA\t2001:db8:").hex(&(rank as u32).to_be_bytes()[..2]);
            self.text.put(b":").hex(&(rank as u32).to_be_bytes()[2..]).put(b"::").number(server);
            self.text.end(1)?;
        }
        Ok(())
    }

    /// The NS records for an operator's servers, behind an owner that stands already.
    fn servers_of(&mut self, rank: u64) -> io::Result<()> {
        let mut line = *b"\tNS\tns0.hoster0000000.invalid.\n";
        const NUMBER: usize = 6;
        const LABEL: usize = 8;
        line[LABEL..LABEL + 13].copy_from_slice(&operator_label(rank));
        let mut length = line.len();
        if self.zone.named_in_zone(rank) {
            line[LABEL + 13] = b'\n';
            length = LABEL + 14;
        }
        for server in 1..=server_count(rank) {
            line[NUMBER] = b'0' + server as u8;
            self.text.put(&line[..length]);
        }
        self.text.ended(server_count(rank))
    }

    /// A DS record, for some.
    fn signed(&mut self) -> io::Result<()> {
        if self.rng.unit() >= self.zone.ds {
            return Ok(());
        }
        let key_tag = self.rng.below(65_536);
        self.text.put(b"\tDS\t").number(key_tag).put(b" 13 2 ");
        for _ in 0..4 {
            let digest = self.rng.next_u64();
            self.text.hex(&digest.to_be_bytes());
        }
        self.text.end(1)
    }

    /// The addresses of the zone's own server.
    fn own_server(&mut self, server: NameServer) -> io::Result<()> {
        let NameServer { v4, v6 } = server;
        self.text.put(format!("a.nic\tA\t{v4}\n\tAAAA\t{v6}").as_bytes());
        self.text.end(2)
    }
}

/// An address in 10.0.0.0/8.
fn private(n: u64) -> u32 {
    0x0a00_0000 | (n as u32 & 0x00ff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_spread() {
        let mut zone = TldZone::new("test".parse().unwrap(), 1_000, 1);
        assert_eq!((0..1_000).filter(|&rank| zone.named_in_zone(rank)).count(), 500);
        zone.in_zone = 0.0;
        assert!(!zone.named_in_zone(0));
        zone.in_zone = 1.0;
        assert!((0..100).all(|rank| zone.named_in_zone(rank)));
        assert_eq!(&operator_label(42), b"hoster0000042");
        assert!(reserved(b"hoster0000042") && reserved(b"nic"));
        assert!(!reserved(b"hoster0000042x") && !reserved(b"hoster"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = TldZone::new("test".parse().unwrap(), 1_000, 1);
        good.validate().unwrap();
        let table = [
            (TldZone { ds: 1.5, ..good.clone() }, "share of DS, 1.5"),
            (TldZone { vanity: -0.1, ..good.clone() }, "own name servers"),
            (TldZone { exponent: f64::NAN, ..good.clone() }, "exponent"),
            (TldZone { operators: Some(0), ..good.clone() }, "take 1 to 1000"),
            (TldZone { operators: Some(1_001), ..good.clone() }, "take 1 to 1000"),
        ];
        for (zone, part) in table {
            let error = zone.validate().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert_eq!(
                zone.write(&mut Vec::new()).unwrap_err().kind(),
                io::ErrorKind::InvalidInput
            );
        }
    }
}
