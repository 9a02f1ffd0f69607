//! A generator of a zone with names of every kind that a DNS64 server treats differently, and of a
//! query for each.
//!
//! | of 20 names | records |
//! |---|---|
//! | 8 | A; one in a thousand has 90 of them, which fit no datagram |
//! | 3 | A and AAAA |
//! | 1 | AAAA alone |
//! | 1 | an alias of a name with A |
//! | 1 | an alias of a name with A and AAAA |
//! | 1 | MX alone |
//! | 1 | three A |
//! | 1 | none of its own: it is below a wildcard |
//! | 1 | A, and an AAAA record of ::ffff:0:0/96, which RFC 6147 section 5.1.4 excludes |
//! | 1 | none of its own: it is below a DNAME |
//! | 1 | none: it does not exist |
//!
//! Seven of ten queries ask for AAAA, one each for A, MX and HTTPS.

use std::io::{self, Write};

use wire::{Name, Qtype};

use super::{NameServer, Written};
use crate::text::{Text, begin};

/// Number of kinds of names.
const KIND_COUNT: u64 = 20;
/// Divisor and remainder of the numbers of names that have [`MANY_ADDRESSES`] addresses.
const WITH_MANY_ADDRESSES: (u64, u64) = (1_000, 500);
const MANY_ADDRESSES: u32 = 90;
/// First documentation address (RFC 5737), and first address of the names with A records.
const FIRST_DOCUMENTED: u32 = 0xc000_0200;
const FIRST_ADDRESS: u32 = 0xc000_0000;
/// Types of the queries for names of the same kind, in turn.
const TYPES: [Qtype; 10] = [
    Qtype::AAAA,
    Qtype::AAAA,
    Qtype::AAAA,
    Qtype::AAAA,
    Qtype::AAAA,
    Qtype::AAAA,
    Qtype::AAAA,
    Qtype::A,
    Qtype::MX,
    Qtype::HTTPS,
];

/// A zone with names of many kinds.
#[derive(Clone, Copy, Debug)]
pub struct MixedZone {
    /// The name of the zone.
    pub zone: Name,
    /// Number of names that are queried.
    pub names: u64,
    /// TTL of all records, in seconds.
    pub ttl: u32,
    /// The addresses of the name server `ns1` of the zone.
    pub server: NameServer,
}

impl MixedZone {
    /// Writes the zone, in canonical order.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn write(&self, out: &mut impl Write) -> io::Result<Written> {
        let mut text = Text::new(out);
        begin(&mut text, &self.zone, self.ttl, "ns1")?;
        text.put(b"@\tNS\tns1\nalias\tDNAME\ttarget");
        text.end(2)?;
        for number in 0..self.names {
            put_name(&mut text, number)?;
        }
        let NameServer { v4, v6 } = self.server;
        text.put(format!("ns1\tA\t{v4}\nns1\tAAAA\t{v6}").as_bytes());
        text.end(2)?;
        text.put(b"*.target\tA\t192.0.2.78\n*.wild\tA\t192.0.2.77");
        text.end(2)?;
        text.finish()
    }

    /// Writes a query for each name, a line each.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn write_queries(&self, out: &mut impl Write) -> io::Result<()> {
        for number in 0..self.names {
            let below = match number % KIND_COUNT {
                16 => ".wild",
                18 => ".alias",
                _ => "",
            };
            let qtype = TYPES[(number / KIND_COUNT % TYPES.len() as u64) as usize];
            writeln!(out, "n{number:08}{below}.{} {qtype}", self.zone)?;
        }
        Ok(())
    }
}

/// Writes the records of a name; some have none.
fn put_name<W: Write>(text: &mut Text<'_, W>, number: u64) -> io::Result<()> {
    let label = format!("n{number:08}");
    let label = label.as_bytes();
    let mut addresses = |first: u32, count: u32| {
        for address in first..first + count {
            text.put(label).put(b"\tA\t").v4(address).end(1)?;
        }
        Ok::<_, io::Error>(())
    };
    let address = FIRST_ADDRESS | (number % (1 << 16)) as u32;
    let own6 = || format!("2001:db8::{:x}:{:x}", number >> 16 & 0xffff, number & 0xffff);
    let kind = number % KIND_COUNT;
    match kind {
        _ if number % WITH_MANY_ADDRESSES.0 == WITH_MANY_ADDRESSES.1 => {
            addresses(FIRST_DOCUMENTED, MANY_ADDRESSES)?
        }
        15 => addresses(FIRST_DOCUMENTED + 1, 3)?,
        0..=10 | 17 => addresses(address, 1)?,
        _ => {}
    }
    let rest = match kind {
        8..=11 => format!("AAAA\t{}", own6()),
        12 => format!("CNAME\tn{:08}", number - 12),
        13 => format!("CNAME\tn{:08}", number - 4),
        14 => "MX\t10 ns1".to_owned(),
        17 => format!("AAAA\t::ffff:{}", std::net::Ipv4Addr::from(address)),
        _ => return Ok(()),
    };
    text.put(label).put(b"\t").put(rest.as_bytes()).end(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Reader;

    fn zone(names: u64) -> MixedZone {
        let zone = "mixed.test".parse().expect("a name");
        MixedZone { zone, names, ttl: 60, server: NameServer::default() }
    }

    #[test]
    fn each_kind_has_its_records_and_a_query() {
        let (mut text, mut queries) = (Vec::new(), Vec::new());
        let written = zone(600).write(&mut text).expect("written");
        zone(600).write_queries(&mut queries).expect("written");
        assert_eq!(written.bytes, text.len() as u64);
        let mut reader = Reader::new(&text[..], std::path::Path::new("zone"), None);
        let (mut owners, mut records): (BTreeMap<String, Vec<String>>, u64) = Default::default();
        while let Some(record) = reader.next_record().expect("a zone") {
            let owner = Name::from_wire(record.owner()).expect("a name").to_string();
            owners.entry(owner).or_default().push(record.rtype().to_string());
            records += 1;
        }
        assert_eq!(records, written.records);
        let queries = String::from_utf8(queries).expect("text");
        let lines: Vec<(&str, &str)> =
            queries.lines().filter_map(|line| line.split_once(' ')).collect();
        assert_eq!(lines.len(), 600);
        let types = |number: usize| {
            let owner = lines[number].0.trim_end_matches('.');
            let found = owners.iter().find(|(name, _)| name.trim_end_matches('.') == owner);
            found.map_or(String::new(), |(_, types)| types.join(" "))
        };
        let wanted = [
            (0, "A"),
            (8, "A AAAA"),
            (11, "AAAA"),
            (12, "CNAME"),
            (13, "CNAME"),
            (14, "MX"),
            (15, "A A A"),
            (16, ""),
            (17, "A AAAA"),
            (18, ""),
            (19, ""),
        ];
        for (kind, records) in wanted {
            assert_eq!(types(kind), records, "{kind}");
            assert_eq!(types(580 + kind), records, "{kind}");
        }
        assert_eq!(types(500), ["A"; 90].join(" "));
        let count = |qtype: &str| lines.iter().filter(|(_, asked)| *asked == qtype).count();
        assert_eq!((count("AAAA"), count("A"), count("MX"), count("HTTPS")), (420, 60, 60, 60));
        assert!(lines[16].0.contains(".wild.") && lines[18].0.contains(".alias."), "{lines:?}");
    }
}
