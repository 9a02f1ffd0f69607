//! A generator of the zone of the dns64perf namespace, with one line per record or with `$GENERATE` lines.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use wire::{Namespace, Pref64};

use super::{NameServer, Written};
use crate::text::{Text, begin};

/// The record of each name in the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneRecords {
    /// An A record with the IPv4 address.
    A,
    /// An AAAA record with the IPv4 address embedded in this prefix.
    Aaaa(Pref64),
}

/// The form in which the records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// One line for each record, which every server reads.
    Expanded,
    /// One `$GENERATE` line per 256 records, which BIND and YADIFA expand.
    Generate,
}

/// The zone of a namespace.
#[derive(Clone, Copy, Debug)]
pub struct Dns64Zone {
    /// The names in the zone.
    pub namespace: Namespace,
    /// The record of each name.
    pub records: ZoneRecords,
    /// The form in which the records are written.
    pub style: Style,
    /// TTL of all records, in seconds.
    pub ttl: u32,
    /// The addresses of the name server `ns1` of the zone.
    pub server: NameServer,
}

impl Dns64Zone {
    /// Writes the zone.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn write(&self, out: &mut impl Write) -> io::Result<Written> {
        let mut text = Text::new(out);
        begin(&mut text, self.namespace.zone(), self.ttl, "ns1")?;
        let NameServer { v4, v6 } = self.server;
        text.put(b"@\tNS\tns1");
        text.end(1)?;
        match self.style {
            Style::Expanded => self.expanded(&mut text)?,
            Style::Generate => self.generate(&mut text)?,
        }
        // Letters come after digits in canonical order.
        text.put(format!("ns1\tA\t{v4}\nns1\tAAAA\t{v6}").as_bytes());
        text.end(2)?;
        text.finish()
    }

    /// Writes one line per record.
    fn expanded<W: Write>(&self, text: &mut Text<'_, W>) -> io::Result<()> {
        let mut label = [0; wire::namespace::LABEL];
        let mut address6 = String::new();
        for address in canonical(&self.namespace) {
            let len = self.namespace.label(address, &mut label);
            text.put(&label[..len]);
            match self.records {
                ZoneRecords::A => text.put(b"\tA\t").v4(address.to_bits()),
                ZoneRecords::Aaaa(pref64) => {
                    address6.clear();
                    // Writing to a String does not fail.
                    let _ = write!(address6, "{}", pref64.embed(address));
                    text.put(b"\tAAAA\t").put(address6.as_bytes())
                }
            };
            text.end(1)?;
        }
        Ok(())
    }

    /// Writes one `$GENERATE` line for each /24, or for the whole prefix if it is longer.
    fn generate<W: Write>(&self, text: &mut Text<'_, W>) -> io::Result<()> {
        let size = self.namespace.size();
        let per_line = size.min(256);
        for line in 0..size / per_line {
            let first = self.namespace.nth(line * per_line);
            let [a, b, c, d] = first.octets();
            let last = u64::from(d) + per_line - 1;
            let label = match self.namespace.is_padded() {
                true => format!("{a:03}-{b:03}-{c:03}-${{0,3,d}}"),
                false => format!("{a}-{b}-{c}-$"),
            };
            text.put(format!("$GENERATE {d}-{last} {label} ").as_bytes());
            match self.records {
                ZoneRecords::A => text.put(format!("A {a}.{b}.{c}.$").as_bytes()),
                ZoneRecords::Aaaa(pref64) => {
                    text.put(format!("AAAA {}", with_counter(pref64, first)).as_bytes())
                }
            };
            text.end(per_line)?;
        }
        Ok(())
    }
}

/// Returns the addresses of a namespace in the canonical order of their names.
///
/// Padded names are in the order of their addresses. Numbers without padding are in the order of their texts: 0, 1, 10,
/// 100, 101, and so on, since a dash sorts before all digits.
fn canonical(namespace: &Namespace) -> impl Iterator<Item = Ipv4Addr> {
    let (first, size) = (namespace.nth(0).to_bits(), namespace.size());
    let mut order: [u8; 256] = std::array::from_fn(|value| value as u8);
    if !namespace.is_padded() {
        order.sort_by_key(|value| value.to_string());
    }
    let last = (u64::from(first) + size - 1) as u32;
    let octets = move |place: usize| {
        let (from, to) = (first.to_be_bytes()[place], last.to_be_bytes()[place]);
        order.into_iter().filter(move |octet| (from..=to).contains(octet))
    };
    // A prefix is a product: each octet has all values between its first and its last.
    octets(0).flat_map(move |a| {
        octets(1).flat_map(move |b| {
            octets(2).flat_map(move |c| octets(3).map(move |d| Ipv4Addr::new(a, b, c, d)))
        })
    })
}

/// Returns the embedded address with the counter of `$GENERATE` in place of the last octet.
///
/// The position of that octet depends on the prefix length; it is found by embedding two addresses that differ there.
fn with_counter(pref64: Pref64, address: Ipv4Addr) -> String {
    let [a, b, c, _] = address.octets();
    let embed = |d| Ipv6Addr::octets(&pref64.embed(Ipv4Addr::new(a, b, c, d)));
    let (zero, ones) = (embed(0), embed(255));
    let mut text = String::new();
    for (i, octet) in zero.iter().enumerate() {
        if i > 0 && i % 2 == 0 {
            text.push(':');
        }
        if zero[i] == ones[i] {
            // Writing to a String does not fail.
            let _ = write!(text, "{octet:02x}");
        } else {
            text.push_str("${0,2,x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(prefix: &str, records: ZoneRecords, style: Style) -> String {
        let zone = Dns64Zone {
            namespace: Namespace::with_default_zone(prefix.parse().unwrap()),
            records,
            style,
            ttl: 3600,
            server: NameServer { v4: Ipv4Addr::new(10, 9, 0, 2), v6: "fd00:9::2".parse().unwrap() },
        };
        let mut text = Vec::new();
        let written = zone.write(&mut text).unwrap();
        assert_eq!(written.bytes, text.len() as u64);
        assert_eq!(written.records, 4 + zone.namespace.size());
        String::from_utf8(text).unwrap()
    }

    const HEAD: &str = "$ORIGIN dns64perf.test.\n$TTL 3600\n\
        @\tIN\tSOA\tns1 hostmaster 1 3600 600 604800 300\n@\tNS\tns1\n";
    const TAIL: &str = "ns1\tA\t10.9.0.2\nns1\tAAAA\tfd00:9::2\n";

    #[test]
    fn one_line_per_record() {
        let records = ZoneRecords::Aaaa("2001:db8:64::/96".parse().unwrap());
        let wanted = "010-000-000-254\tAAAA\t2001:db8:64::a00:fe\n\
                      010-000-000-255\tAAAA\t2001:db8:64::a00:ff\n";
        assert_eq!(
            zone("10.0.0.254/31", records, Style::Expanded),
            format!("{HEAD}{wanted}{TAIL}")
        );
        let wanted = "010-000-000-254\tA\t10.0.0.254\n010-000-000-255\tA\t10.0.0.255\n";
        let found = zone("10.0.0.254/31", ZoneRecords::A, Style::Expanded);
        assert_eq!(found, format!("{HEAD}{wanted}{TAIL}"));
    }

    #[test]
    fn names_without_padding_are_in_canonical_order() {
        let namespace = |prefix: &str| {
            Namespace::with_default_zone(prefix.parse().unwrap()).with_padding(false)
        };
        for prefix in ["10.0.0.0/15", "9.8.7.6/31", "255.255.255.255/32", "192.168.96.0/19"] {
            let namespace = namespace(prefix);
            let all: Vec<Ipv4Addr> = canonical(&namespace).collect();
            assert_eq!(all.len() as u64, namespace.size());
            let names: Vec<_> = all.iter().map(|address| namespace.name(*address)).collect();
            assert!(names.is_sorted() && names.windows(2).all(|w| w[0] != w[1]), "{prefix}");
            assert!(all.iter().all(|address| namespace.contains(*address)));
        }
    }

    #[test]
    fn generate_lines_without_padding() {
        let namespace = Namespace::with_default_zone("10.0.3.0/24".parse().unwrap());
        let server = NameServer { v4: [10, 9, 0, 2].into(), v6: Ipv6Addr::LOCALHOST };
        let mut text = Vec::new();
        Dns64Zone {
            namespace: namespace.with_padding(false),
            records: ZoneRecords::A,
            style: Style::Generate,
            ttl: 3600,
            server,
        }
        .write(&mut text)
        .unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("\n$GENERATE 0-255 10-0-3-$ A 10.0.3.$\n"), "{text}");
    }

    #[test]
    fn generate_lines() {
        let found = zone("10.0.0.0/23", ZoneRecords::A, Style::Generate);
        let wanted = "$GENERATE 0-255 010-000-000-${0,3,d} A 10.0.0.$\n\
                      $GENERATE 0-255 010-000-001-${0,3,d} A 10.0.1.$\n";
        assert_eq!(found, format!("{HEAD}{wanted}{TAIL}"));
        for (pref64, data) in [
            ("2001:db8:64::/96", "2001:0db8:0064:0000:0000:0000:0a00:00${0,2,x}"),
            ("2001:db8::/32", "2001:0db8:0a00:00${0,2,x}:0000:0000:0000:0000"),
            ("2001:db8:100::/40", "2001:0db8:010a:0000:00${0,2,x}:0000:0000:0000"),
        ] {
            let records = ZoneRecords::Aaaa(pref64.parse().unwrap());
            let wanted = format!("$GENERATE 254-255 010-000-000-${{0,3,d}} AAAA {data}\n");
            let found = zone("10.0.0.254/31", records, Style::Generate);
            assert_eq!(found, format!("{HEAD}{wanted}{TAIL}"));
        }
    }
}
