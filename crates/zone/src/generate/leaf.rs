//! A generator of a leaf zone: the hosts of an organisation.

use std::io::{self, Write};

use measure::Rng;
use wire::Name;

use super::{NameServer, Written};
use crate::labels::Labels;
use crate::text::{Text, begin};

/// Number of hosts that are an alias, per thousand.
const ALIASES: u64 = 100;
/// Number of other hosts with an AAAA record, per thousand.
const AAAA: u64 = 400;
/// Number of other hosts with an MX record, per thousand.
const MX: u64 = 20;
/// Number of other hosts with a TXT record, per thousand.
const TXT: u64 = 20;

/// The zone of an organisation: each host has an A record, some also have an AAAA, MX or TXT record, and one in ten is
/// an alias of another.
#[derive(Clone, Debug)]
pub struct LeafZone {
    /// The name of the zone.
    pub zone: Name,
    /// Number of names below the apex, without the name server.
    pub hosts: u64,
    /// TTL of all records, in seconds.
    pub ttl: u32,
    /// The addresses of the name server `ns1` of the zone.
    pub server: NameServer,
    /// Seed of the random choices.
    pub seed: u64,
}

impl LeafZone {
    /// Checks the parameters.
    ///
    /// # Errors
    /// If the zone name leaves no room for another label.
    pub fn validate(&self) -> Result<(), wire::NameError> {
        self.zone.prepend(&[b'x'; wire::name::MAX_LABEL]).map(|_| ())
    }

    /// Writes the zone, in canonical order.
    ///
    /// # Errors
    /// If writing to `out` fails; `InvalidInput` if the zone name leaves no room for another label.
    pub fn write(&self, out: &mut impl Write) -> io::Result<Written> {
        self.validate().map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let mut text = Text::new(out);
        begin(&mut text, &self.zone, self.ttl, "ns1")?;
        text.put(b"@\tNS\tns1\n@\tMX\t10 ns1\n@\tTXT\t\"v=spf1 mx -all\"");
        text.end(3)?;
        let mut labels = Labels::new(self.hosts, self.seed, |label| label == b"ns1");
        let mut rng = Rng::part(self.seed, 0x6c65_6166);
        let mut server_is_due = true;
        let mut last_host: Vec<u8> = b"ns1".to_vec();
        while let Some(label) = labels.next_label() {
            if server_is_due && label > &b"ns1"[..] {
                own_server(&mut text, self.server)?;
                server_is_due = false;
            }
            if rng.below(1_000) < ALIASES {
                text.put(label).put(b"\tCNAME\t").put(&last_host).end(1)?;
                continue;
            }
            host(&mut text, label, &mut rng)?;
            last_host.clear();
            last_host.extend_from_slice(label);
        }
        if server_is_due {
            own_server(&mut text, self.server)?;
        }
        text.finish()
    }
}

/// Writes the addresses of `ns1`.
fn own_server<W: Write>(text: &mut Text<'_, W>, server: NameServer) -> io::Result<()> {
    let NameServer { v4, v6 } = server;
    text.put(format!("ns1\tA\t{v4}\n\tAAAA\t{v6}").as_bytes());
    text.end(2)
}

/// Writes the records of one host.
fn host<W: Write>(text: &mut Text<'_, W>, label: &[u8], rng: &mut Rng) -> io::Result<()> {
    let number = rng.next_u64();
    text.put(label).put(b"\tA\t").v4(0x0a00_0000 | (number as u32 & 0x00ff_ffff)).end(1)?;
    if rng.below(1_000) < AAAA {
        text.put(b"\tAAAA\t2001:db8::").hex(&number.to_be_bytes()[..2]);
        text.put(b":").hex(&number.to_be_bytes()[2..4]).end(1)?;
    }
    if rng.below(1_000) < MX {
        text.put(b"\tMX\t10 ").put(label).end(1)?;
    }
    if rng.below(1_000) < TXT {
        text.put(b"\tTXT\t\"host ").number(number % 1_000_000).put(b"\"").end(1)?;
    }
    Ok(())
}
