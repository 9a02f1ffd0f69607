//! A generator of a zone like a top-level domain, which is mostly delegations.
//!
//! Each delegation has the two to four name servers of an operator; a few operators have most of the delegations
//! (Zipf's law). Half of the operators (by default) have a name in the zone, such as `hoster0000007`, with glue; the
//! names of the others are below `invalid.`. Some delegations have name servers below their own name, with glue, and
//! some are signed.

use std::io::{self, Write};

use measure::{Rng, Zipf};
use wire::Name;

use super::{NameServer, Written};
use crate::labels::{BackgroundLabels, Labels};
use crate::text::{Text, begin};

/// Start of the label of an operator; seven digits follow.
const OPERATOR_LABEL: &[u8] = b"hoster";
/// Largest number of operators that seven digits can number.
const MAX_OPERATORS: u64 = 10_000_000;

/// A zone like a top-level domain.
#[derive(Clone, Debug)]
pub struct TldZone {
    /// The name of the zone.
    pub zone: Name,
    /// Number of delegations in the zone.
    pub delegations: u64,
    /// Number of operators; `None` means one per two hundred delegations.
    pub operators: Option<u64>,
    /// Zipf exponent of the sizes of operators.
    pub exponent: f64,
    /// Share (0 to 1) of operators with a name in the zone.
    pub in_zone: f64,
    /// Share (0 to 1) of delegations with name servers below their own name, with glue.
    pub vanity: f64,
    /// Share (0 to 1) of delegations with a DS record.
    pub ds: f64,
    /// TTL of all records, in seconds.
    pub ttl: u32,
    /// The addresses of the name server `a.nic` of the zone.
    pub server: NameServer,
    /// Seed of the random choices.
    pub seed: u64,
}

/// The reason why the parameters of a zone are not valid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TldError {
    /// A share is not between 0 and 1.
    #[error("the share of {0} is {1}: write a number from 0 to 1")]
    Share(&'static str, f64),
    /// The exponent is not within [`Zipf::EXPONENTS`].
    #[error("the exponent of the sizes of operators is {0}: write a number from {least} to {most}",
        least = Zipf::EXPONENTS.start(), most = Zipf::EXPONENTS.end())]
    Exponent(f64),
    /// There are no operators, more than delegations, or more than can be numbered.
    #[error("{found} operators for {delegations} delegations: write 1 to {most}")]
    Operators {
        /// The given number of operators.
        found: u64,
        /// The number of delegations of the zone.
        delegations: u64,
        /// The largest number of operators allowed.
        most: u64,
    },
    /// The zone name leaves no room for more labels.
    #[error("the zone name leaves no room for more labels: {0}")]
    Zone(#[from] wire::NameError),
}

impl TldZone {
    /// Returns a zone with the shares of a large top-level domain.
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

    /// Checks the parameters.
    ///
    /// # Errors
    /// The first invalid parameter.
    pub fn validate(&self) -> Result<(), TldError> {
        for (what, found) in [
            ("operators in the zone", self.in_zone),
            ("own name servers", self.vanity),
            ("DS", self.ds),
        ] {
            if !(0.0..=1.0).contains(&found) {
                return Err(TldError::Share(what, found));
            }
        }
        if !Zipf::EXPONENTS.contains(&self.exponent) {
            return Err(TldError::Exponent(self.exponent));
        }
        let most = self.delegations.clamp(1, MAX_OPERATORS);
        if let Some(found) = self.operators.filter(|n| !(1..=most).contains(n)) {
            return Err(TldError::Operators { found, delegations: self.delegations, most });
        }
        self.zone.prepend(&[b'x'; wire::name::MAX_LABEL])?.prepend(b"ns1")?;
        Ok(())
    }

    /// Returns the number of operators.
    fn operator_count(&self) -> u64 {
        self.operators.unwrap_or(self.delegations / 200).clamp(1, MAX_OPERATORS)
    }

    /// Writes the zone, in canonical order.
    ///
    /// # Errors
    /// If writing to `out` fails; `InvalidInput` if a parameter is not valid.
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
            let mut labels = BackgroundLabels::new(labels, scope);
            let mut label = labels.next_label();
            let mut nic_is_due = true;
            // Next in canonical order: random labels, then an operator or the zone's own server.
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

    /// Returns whether an operator has a name in the zone; these operators are spread evenly over the ranks.
    fn named_in_zone(&self, rank: u64) -> bool {
        ((rank + 1) as f64 * self.in_zone) as u64 > (rank as f64 * self.in_zone) as u64
    }
}

/// Returns whether a label is reserved for the zone's own server or an operator, so that it is not drawn at random.
fn reserved(label: &[u8]) -> bool {
    let operator = |rest: &[u8]| rest.len() == 7 && rest.iter().all(u8::is_ascii_digit);
    label == b"nic" || label.strip_prefix(OPERATOR_LABEL).is_some_and(operator)
}

/// Returns the label of an operator, such as `hoster0000007`.
fn operator_label(rank: u64) -> [u8; 13] {
    let mut label = *b"hoster0000000";
    let mut n = rank;
    for digit in label[OPERATOR_LABEL.len()..].iter_mut().rev() {
        *digit = b'0' + (n % 10) as u8;
        n /= 10;
    }
    label
}

/// Returns the number of name servers of an operator: 2 (most of them), 3 or 4.
fn server_count(rank: u64) -> u64 {
    [2, 4, 2, 3, 2, 2, 4, 2][(rank % 8) as usize]
}

/// The state while a zone is written.
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

    /// Writes a delegation: its NS records, with glue and DS records by chance.
    fn delegation(&mut self, label: &[u8]) -> io::Result<()> {
        self.text.put(label);
        if self.rng.unit() < self.zone.vanity {
            self.text.put(b"\tNS\tns1.").put(label).end(1)?;
            self.text.put(b"\tNS\tns2.").put(label).end(1)?;
            self.maybe_ds()?;
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
        self.maybe_ds()
    }

    /// Writes the delegation of an operator's own name, with glue for its servers.
    fn operator(&mut self, rank: u64) -> io::Result<()> {
        let label = operator_label(rank);
        self.text.put(&label);
        self.servers_of(rank)?;
        self.maybe_ds()?;
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

    /// Writes the NS records of an operator's servers, after an owner that is written already.
    fn servers_of(&mut self, rank: u64) -> io::Result<()> {
        let mut line = *b"\tNS\tns0.hoster0000000.invalid.\n";
        const NUMBER_DIGITS: usize = 6;
        const LABEL: usize = 8;
        line[LABEL..LABEL + 13].copy_from_slice(&operator_label(rank));
        let mut length = line.len();
        if self.zone.named_in_zone(rank) {
            line[LABEL + 13] = b'\n';
            length = LABEL + 14;
        }
        for server in 1..=server_count(rank) {
            line[NUMBER_DIGITS] = b'0' + server as u8;
            self.text.put(&line[..length]);
        }
        self.text.count_records(server_count(rank))
    }

    /// Writes a DS record for a share of the delegations.
    fn maybe_ds(&mut self) -> io::Result<()> {
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

    /// Writes the addresses of the zone's own server.
    fn own_server(&mut self, server: NameServer) -> io::Result<()> {
        let NameServer { v4, v6 } = server;
        self.text.put(format!("a.nic\tA\t{v4}\n\tAAAA\t{v6}").as_bytes());
        self.text.end(2)
    }
}

/// Returns an address in 10.0.0.0/8.
fn private(n: u64) -> u32 {
    0x0a00_0000 | (n as u32 & 0x00ff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_in_the_zone_are_spread_evenly() {
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
    fn invalid_parameters_are_refused() {
        let good = TldZone::new("test".parse().unwrap(), 1_000, 1);
        good.validate().unwrap();
        let table = [
            (TldZone { ds: 1.5, ..good.clone() }, "share of DS is 1.5"),
            (TldZone { vanity: -0.1, ..good.clone() }, "own name servers"),
            (TldZone { exponent: f64::NAN, ..good.clone() }, "exponent"),
            (TldZone { operators: Some(0), ..good.clone() }, "write 1 to 1000"),
            (TldZone { operators: Some(1_001), ..good.clone() }, "write 1 to 1000"),
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
