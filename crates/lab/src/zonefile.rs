//! The namespace's zone as a file for an authoritative server, and the zone of its reverse names.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use wire::Namespace;
use zone::{Dns64Zone, NameServer, Style, ZoneRecords};

use crate::testbed::{Host, address_v4, address_v6};

/// Largest namespace that is written: a /12, 2^20 names, as in the published measurements.
pub const MAX_NAMES: u64 = 1 << 20;

/// TTL of its records, in seconds.
const TTL: u32 = 3600;

/// Error: a zone file cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// The zone would have too many names.
    #[error(
        "a zone of {prefix} would have {names} names; at most {MAX_NAMES} are written out: \
         take a prefix of /12 or longer, such as 10.0.0.0/12"
    )]
    TooLarge {
        /// Prefix of the namespace.
        prefix: String,
        /// Number of its names.
        names: u64,
    },
    /// The file system refused an operation.
    #[error("cannot write the zone file {path}: {source}")]
    Io {
        /// Path of the file.
        path: String,
        /// Error of the file system.
        source: io::Error,
    },
}

/// Writes the zone to `path`; its name server is the one under test.
///
/// # Errors
/// If the zone would be too large, or cannot be written.
pub fn write_zone(
    path: &Path,
    namespace: &Namespace,
    records: ZoneRecords,
) -> Result<(), ZoneError> {
    if namespace.size() > MAX_NAMES {
        let (prefix, names) = (namespace.prefix().to_string(), namespace.size());
        return Err(ZoneError::TooLarge { prefix, names });
    }
    let (v4, v6) = (address_v4(Host::Dut, Host::Tester), address_v6(Host::Dut, Host::Tester));
    let (style, server) = (Style::Expanded, NameServer { v4, v6 });
    let zone = Dns64Zone { namespace: *namespace, records, style, ttl: TTL, server };
    let error = |source| ZoneError::Io { path: path.display().to_string(), source };
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(error)?);
    zone.write(&mut out).and_then(|_| out.flush()).map_err(error)
}

/// Returns the zone of the reverse names of a prefix's addresses, cut at a dot, without a final dot.
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
    fn a_large_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zone");
        let error = write_zone(&path, &namespace("10.0.0.0/11"), ZoneRecords::A).unwrap_err();
        assert!(error.to_string().contains("2097152 names"), "{error}");
        write_zone(&path, &namespace("10.0.0.0/24"), ZoneRecords::A).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 6 + 256);
        assert!(text.ends_with("\nns1\tA\t10.9.0.2\nns1\tAAAA\tfd00:9::2\n"), "{text}");
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
