//! Zone files: of the namespace for an authoritative server, of its reverse names, slices of others, and queries for their
//! names.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use experiment::settings::ZoneSlice;
use wire::{LabelRange, Namespace};
use zone::queries::{Queries, QueriesError};
use zone::slice::{SliceError, Slicer, balance};
use zone::{Dns64Zone, NameServer, Reader, Style, ZoneRecords};

use crate::testbed::{Host, address_v4, address_v6};

/// Bounds of the largest namespace that is written: a /12 on any machine, and at most a /5, as in the published
/// measurements (seed 003).
const NAME_BOUNDS: (u64, u64) = (1 << 20, 1 << 27);
/// Largest number of names of a zone on any host.
pub(crate) const MOST_NAMES: u64 = NAME_BOUNDS.1;
/// Size of the zone file for each name, in bytes.
const FILE_BYTES_PER_NAME: u64 = 48;
/// Octets of a zone file that any server loads in a second: slower ones are late. BIND loads six times as many here.
const LOADED_BYTES_PER_S: u64 = 2_000_000;
/// Share of the available memory that a zone may occupy in its server and as a file, as a fraction.
const MEMORY_SHARE: (u64, u64) = (4, 5);

/// TTL of its records, in seconds.
const TTL: u32 = 3600;
/// Number of queries for the names of a zone.
const QUERY_COUNT: u64 = 200_000;

/// Error: a zone file cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// The zone would have too many names.
    #[error(
        "a zone of {prefix} would have {names} names; at most {most} fit into the available memory of this machine: \
         take a longer prefix, such as 10.0.0.0/12"
    )]
    TooLarge {
        /// Prefix of IPv4 addresses, each of which is a name.
        prefix: String,
        /// Number of names that the prefix has.
        names: u64,
        /// Largest number of names here.
        most: u64,
    },
    /// The file system refused an operation.
    #[error("cannot write the zone file {0}: {1}")]
    Io(String, #[source] io::Error),
}

/// Returns the time that a server may take to load a zone file. A large one takes longer: of seed 003's /5, 5.8 GB, NSD took 657 s.
pub(crate) fn loading_limit(file: &Path) -> Duration {
    Duration::from_secs(file.metadata().map_or(0, |file| file.len() / LOADED_BYTES_PER_S))
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
    check_size(namespace, MOST_NAMES)?;
    let (v4, v6) = (address_v4(Host::Dut, Host::Tester), address_v6(Host::Dut, Host::Tester));
    let (style, server) = (Style::Expanded, NameServer { v4, v6 });
    let zone = Dns64Zone { namespace: *namespace, records, style, ttl: TTL, server };
    let error = |source| ZoneError::Io(path.display().to_string(), source);
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(error)?);
    zone.write(&mut out).and_then(|_| out.flush()).map_err(error)
}

/// Writes a slice of the zone file `zone` to `to`, as `dnsdyno zone slice` makes it; returns its range of labels.
///
/// # Errors
/// If the zone cannot be read, or the file cannot be written.
pub(crate) fn cut_zone(zone: &Path, slice: ZoneSlice, to: &Path) -> Result<LabelRange, SliceError> {
    let open = || Reader::open(zone, None);
    let range = match slice.of() {
        1 => LabelRange::default(),
        of => balance(open()?, of, 1)?.swap_remove(slice.number() - 1),
    };
    let error = |source| SliceError::Write(slice.number(), source);
    let mut outs = [BufWriter::new(File::create(to).map_err(error)?)];
    Slicer::new(vec![range.clone()]).slice(open, &mut outs)?;
    outs[0].flush().map_err(error)?;
    Ok(range)
}

/// Writes queries for the names of the zone file `zone` to `to`, as `dnsdyno zone queries` does; a share `www` of them is
/// for `www` below a name.
///
/// # Errors
/// If the zone cannot be read, or the file cannot be written.
pub(crate) fn write_queries(zone: &Path, www: f64, to: &Path) -> Result<(), QueriesError> {
    let range = LabelRange::default();
    let asked = Queries { count: QUERY_COUNT, range, missing: 0.1, www, exponent: 0.9, seed: 1 };
    let mut out = BufWriter::with_capacity(1 << 20, File::create(to)?);
    asked.write(Reader::open(zone, None)?, &mut out)?;
    Ok(out.flush()?)
}

/// Checks that a namespace has at most `most` names.
pub(crate) fn check_size(namespace: &Namespace, most: u64) -> Result<(), ZoneError> {
    if namespace.size() <= most {
        return Ok(());
    }
    let (prefix, names) = (namespace.prefix().to_string(), namespace.size());
    Err(ZoneError::TooLarge { prefix, names, most })
}

/// Returns the largest number of names of a zone here, a power of two, for a server that takes `bytes` of memory for each.
pub(crate) fn most_names(bytes: u64) -> u64 {
    fitting(crate::probe::host::available_memory(), bytes)
}

/// Returns the largest number of names that fit into `available` bytes.
fn fitting(available: u64, bytes: u64) -> u64 {
    let fits = available / MEMORY_SHARE.1 * MEMORY_SHARE.0 / (bytes + FILE_BYTES_PER_NAME);
    (1 << fits.max(1).ilog2()).clamp(NAME_BOUNDS.0, NAME_BOUNDS.1)
}

/// Returns the namespace of a zone with `wanted` names, or with as many as `most` permits; the seed's is 8.0.0.0/5.
pub(crate) fn namespace_of(wanted: u64, most: u64) -> Namespace {
    let names = wanted.max(256).checked_next_power_of_two().unwrap_or(most).min(most);
    let prefix = wire::Ipv4Prefix::new([8, 0, 0, 0].into(), 32 - names.ilog2() as u8);
    Namespace::with_default_zone(prefix.expect("a prefix of /5 or longer has no other bits set"))
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
        let error = check_size(&namespace("10.0.0.0/11"), 1 << 20).unwrap_err().to_string();
        assert!(error.contains("2097152 names; at most 1048576 fit"), "{error}");
        let error = write_zone(&path, &namespace("0.0.0.0/4"), ZoneRecords::A).unwrap_err();
        assert!(error.to_string().contains("268435456 names"), "{error}");
        write_zone(&path, &namespace("10.0.0.0/24"), ZoneRecords::A).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 6 + 256);
        assert!(text.ends_with("\nns1\tA\t10.9.0.2\nns1\tAAAA\tfd00:9::2\n"), "{text}");
    }

    #[test]
    fn a_zone_has_a_name_for_each_query_if_the_memory_permits() {
        let table = [
            (225_000, 1 << 27, "8.0.0.0/14"),
            (1 << 18, 1 << 27, "8.0.0.0/14"),
            (120_000_000, 1 << 27, "8.0.0.0/5"),
            (120_000_000, 1 << 22, "8.0.0.0/10"),
            (u64::MAX, 1 << 27, "8.0.0.0/5"),
            (0, 1 << 27, "8.0.0.0/24"),
        ];
        for (wanted, most, prefix) in table {
            assert_eq!(namespace_of(wanted, most).prefix().to_string(), prefix, "{wanted}");
        }
        // The servers of seed 003, whose /5 NSD held in 38.1 GB.
        let table =
            [(64, 300, "/5"), (64, 1_024, "/7"), (48, 300, "/6"), (48, 175, "/5"), (1, 300, "/11")];
        for (gigabytes, bytes, prefix) in table {
            let most = fitting(gigabytes * 1_000_000_000, bytes);
            let found = namespace_of(u64::MAX, most).prefix().to_string();
            assert!(found.ends_with(prefix), "{gigabytes} GB, {bytes}: {found}");
        }
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
