//! Time that a server takes to load its zone, with its memory and disk space.
//!
//! The time is from its start to the first correct answer for the zone's last name, which the Tester queries
//! repeatedly: first with an empty directory of state, then with the state that the first start left, such as a
//! compiled database. The zone file is in the page cache each time, since it has just been written.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use record::{CellRecord, Figure, Series};

use crate::probe::{Sampler, Watched};
use crate::server::{Installed, LabEnv, ServerError, Service};
use crate::testbed::Host;
use crate::testbed::procfs;
use measure::procfs::{parse_memory, parse_proportional};

/// Interval between samples of memory and CPU while a zone loads.
const SAMPLING: Duration = Duration::from_millis(100);
/// Largest number of levels and entries of a directory that are counted.
const MAX_ENTRIES: (usize, usize) = (16, 1_000_000);

/// Result of loading a zone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ZoneLoad {
    /// `zone_load_first` and `zone_load_later` (s), `zone_file` and `disk_used` (B),
    /// `memory_resident`, `memory_proportional` and `memory_peak` (B); memory is read once the zone
    /// is loaded.
    pub figures: BTreeMap<String, Figure>,
    /// Samples of the first load, with the role `dut`.
    pub series: Vec<Series>,
    /// Configuration files of the server.
    pub files: BTreeMap<String, String>,
}

impl ZoneLoad {
    /// Adds the load in one more repeat to a cell.
    pub(crate) fn add_to(self, cell: &mut CellRecord) {
        for (name, figure) in self.figures {
            match cell.figures.get_mut(&name) {
                Some(known) => known.values.extend(figure.values),
                None => {
                    cell.figures.insert(name, figure);
                }
            }
        }
        // The series of one repeat are sufficient.
        cell.series = self.series;
    }
}

/// Starts the server from scratch and then `later` more times, and stops it each time.
///
/// # Errors
/// If the server does not start.
pub fn zone_load(
    installed: &Installed,
    service: &Service,
    env: LabEnv<'_>,
    later: u32,
) -> Result<ZoneLoad, ServerError> {
    let testbed = env.testbed;
    let mut load = ZoneLoad::default();
    let mut figure = |name: &str, unit: &str, value: f64| {
        let found = load.figures.entry(name.to_owned());
        found.or_insert_with(|| Figure::new(unit, Vec::new())).values.push(value);
    };
    let watched = Watched {
        role: "dut",
        pids: vec![std::process::id()],
        children_only: true,
        cpus: testbed.cpus(Host::Dut).clone(),
    };
    let sampler = Sampler::start(vec![watched], SAMPLING, testbed.cpus(Host::Tester), None);
    let started = installed.start(service, env);
    load.series = sampler.stop();
    let mut server = started?;
    load.files = server.files().clone();
    figure("zone_load_first", "s", server.loaded().as_secs_f64());
    if let Some(zone) = &service.zone_file {
        figure("zone_file", "B", fs::metadata(zone).map_or(0, |m| m.len()) as f64);
    }
    for (name, bytes) in memory(&server.pids()) {
        figure(name, "B", bytes as f64);
    }
    for _ in 0..later {
        server.stop();
        server = installed.start_again(service, env)?;
        figure("zone_load_later", "s", server.loaded().as_secs_f64());
    }
    server.stop();
    let used = disk_used(&installed.state(env.dir), MAX_ENTRIES.0, &mut 0).unwrap_or(0);
    figure("disk_used", "B", used as f64);
    Ok(load)
}

/// Returns the memory of a server's processes, in bytes.
pub(crate) fn memory(pids: &[u32]) -> [(&'static str, u64); 3] {
    let pids: Vec<u32> = pids.iter().copied().flat_map(procfs::tree).collect();
    let read = |file: &'static str| {
        let texts = pids
            .iter()
            .filter_map(move |pid| fs::read_to_string(format!("/proc/{pid}/{file}")).ok());
        texts.collect::<Vec<_>>()
    };
    let status: Vec<_> = read("status").iter().map(|text| parse_memory(text)).collect();
    let proportional = read("smaps_rollup").iter().map(|t| parse_proportional(t)).sum();
    [
        ("memory_resident", status.iter().map(|memory| memory.resident).sum()),
        ("memory_proportional", proportional),
        ("memory_peak", status.iter().map(|memory| memory.peak).sum()),
    ]
}

/// Returns the disk space of a directory, in bytes; holes do not count.
fn disk_used(dir: &Path, levels: usize, entries: &mut usize) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        *entries += 1;
        if *entries > MAX_ENTRIES.1 {
            break;
        }
        let metadata = entry.metadata()?;
        // A block has 512 bytes on every file system.
        sum += metadata.blocks() * 512;
        if metadata.is_dir() && levels > 0 {
            sum += disk_used(&entry.path(), levels - 1, entries)?;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_take_no_room() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/b"), vec![1; 100_000]).unwrap();
        fs::File::create(dir.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        let used = disk_used(dir.path(), 3, &mut 0).unwrap();
        assert!((100_000..1_000_000).contains(&used), "{used}");
        assert!(disk_used(dir.path(), 0, &mut 0).unwrap() < 100_000);
    }
}
