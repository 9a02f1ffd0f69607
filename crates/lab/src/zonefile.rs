//! The namespace's zone as a master file, written as a stream: a million names take no memory.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use wire::{Namespace, Pref64};

/// The largest namespace that is written out: a /12, 2^20 names, as the published measurements have it.
pub const MAX_NAMES: u64 = 1 << 20;

/// What each name of a zone has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneRecords {
    /// Its IPv4 address.
    A,
    /// Its IPv4 address embedded in the prefix.
    Aaaa(Pref64),
}

/// A zone file that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// It would have too many names.
    #[error(
        "a zone of {prefix} would have {names} names; at most {MAX_NAMES} are written out: \
         take a prefix of /12 or longer, such as 10.0.0.0/12"
    )]
    TooLarge {
        /// The namespace's prefix.
        prefix: String,
        /// How many names it has.
        names: u64,
    },
    /// The file system said no.
    #[error("cannot write the zone file {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// Writes the zone to `path`; `server` are the name server's addresses.
///
/// # Errors
/// When it would be too large, or cannot be written.
pub fn write_zone(
    path: &Path,
    namespace: &Namespace,
    records: ZoneRecords,
    server: (Ipv4Addr, Ipv6Addr),
) -> Result<(), ZoneError> {
    if namespace.size() > MAX_NAMES {
        let (prefix, names) = (namespace.prefix().to_string(), namespace.size());
        return Err(ZoneError::TooLarge { prefix, names });
    }
    let error = |source| ZoneError::Io { path: path.display().to_string(), source };
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(error)?);
    generate(&mut out, namespace, records, server).and_then(|()| out.flush()).map_err(error)
}

/// Writes the zone: the apex, the name server, every name in order.
fn generate(
    out: &mut impl Write,
    namespace: &Namespace,
    records: ZoneRecords,
    (v4, v6): (Ipv4Addr, Ipv6Addr),
) -> io::Result<()> {
    let zone = namespace.zone().to_string();
    let zone = zone.trim_end_matches('.');
    write!(
        out,
        "$ORIGIN {zone}.\n$TTL 3600\n\
         @ IN SOA ns1 hostmaster 1 3600 600 604800 300\n@ IN NS ns1\n\
         ns1 IN A {v4}\nns1 IN AAAA {v6}\n"
    )?;
    let mut label = [0; wire::namespace::LABEL];
    for index in 0..namespace.size() {
        let address = namespace.nth(index);
        Namespace::write_label(address, &mut label);
        out.write_all(&label)?;
        match records {
            ZoneRecords::A => writeln!(out, " IN A {address}")?,
            ZoneRecords::Aaaa(pref64) => writeln!(out, " IN AAAA {}", pref64.embed(address))?,
        }
    }
    Ok(())
}

/// The zone of the reverse names of a prefix's addresses, cut at a dot, without a final one.
pub(crate) fn reverse_zone(namespace: &Namespace) -> String {
    let octets = namespace.prefix().first().octets();
    let given = usize::from(namespace.prefix().prefix_len() / 8);
    let labels: Vec<String> = octets[..given].iter().rev().map(u8::to_string).collect();
    let separator = if labels.is_empty() { "" } else { "." };
    format!("{}{separator}in-addr.arpa", labels.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(prefix: &str) -> Namespace {
        Namespace::with_default_zone(prefix.parse().unwrap())
    }

    #[test]
    fn a_small_zone() {
        let mut text = Vec::new();
        let server = (Ipv4Addr::new(10, 9, 0, 2), "fd00:9::2".parse().unwrap());
        let records = ZoneRecords::Aaaa("2001:db8:64::/96".parse().unwrap());
        generate(&mut text, &namespace("10.0.0.254/31"), records, server).unwrap();
        let wanted = "$ORIGIN dns64perf.test.\n$TTL 3600\n\
                      @ IN SOA ns1 hostmaster 1 3600 600 604800 300\n@ IN NS ns1\n\
                      ns1 IN A 10.9.0.2\nns1 IN AAAA fd00:9::2\n\
                      010-000-000-254 IN AAAA 2001:db8:64::a00:fe\n\
                      010-000-000-255 IN AAAA 2001:db8:64::a00:ff\n";
        assert_eq!(String::from_utf8(text).unwrap(), wanted);
    }

    #[test]
    fn a_large_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let server = (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        let path = dir.path().join("zone");
        let error =
            write_zone(&path, &namespace("10.0.0.0/11"), ZoneRecords::A, server).unwrap_err();
        assert!(error.to_string().contains("2097152 names"), "{error}");
        write_zone(&path, &namespace("10.0.0.0/24"), ZoneRecords::A, server).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 6 + 256);
    }

    #[test]
    fn reverse_zones_are_cut_at_a_dot() {
        let table = [
            ("0.0.0.0/2", "in-addr.arpa"),
            ("10.0.0.0/8", "10.in-addr.arpa"),
            ("10.16.0.0/12", "10.in-addr.arpa"),
            ("192.0.2.0/24", "2.0.192.in-addr.arpa"),
        ];
        for (prefix, zone) in table {
            assert_eq!(reverse_zone(&namespace(prefix)), zone);
        }
    }
}
