//! Control groups of the lab: processes that the kernel limits or counts together.
//!
//! | version | folder | who may |
//! |---|---|---|
//! | 2 | `/sys/fs/cgroup` (it has `cgroup.controllers`) | root |
//! | 1 | `/sys/fs/cgroup/CONTROLLER`; version 2 may stand beside it, without controllers, in `/sys/fs/cgroup/unified` | root |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;

/// Folder of the control groups.
const ROOT: &str = "/sys/fs/cgroup";
/// File of a group with the numbers of its processes; a number written to it moves that process there.
const PROCESSES_FILE: &str = "cgroup.procs";
/// Folder of version 2 where version 1 is also mounted.
const UNIFIED_DIR: &str = "unified";
/// Files of a group to which the kernel gives a share of the cores of its own, in version 1 and 2.
const SHARE_FILES: [&str; 2] = ["cpu.shares", "cpu.weight"];
/// Begin of the names of groups.
const PREFIX: &str = "dnsdyno-";
/// Age of a group up to which it is not swept.
const MIN_SWEEP_AGE: Duration = Duration::from_secs(60);
/// Number of attempts to remove an empty group, since its processes may still be ending.
const REMOVAL_TRIES: u32 = 100;
/// Pause between two attempts to remove a group.
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// A control group; when dropped, its processes go back to the group around it, and it is removed.
#[derive(Debug)]
pub(crate) struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Makes a group below the first one, if this process may; `controller` is its folder in version 1.
    pub(crate) fn new(controller: &str) -> Option<Self> {
        Self::below(&hierarchy(controller))
    }

    /// Makes groups that count the CPU time of their processes and change nothing for them, the
    /// best first: below the group of the process `pid`, so that its limits hold too, and without a
    /// share of the cores, by which the kernel would divide the cores among groups before it does
    /// so among processes.
    pub(crate) fn for_counting(pid: u32) -> impl Iterator<Item = Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let places = counting_places(&groups, is_unified()).into_iter();
        places.filter_map(|place| Self::below(&place).filter(|group| !group.has_share()))
    }

    /// Whether the kernel gives the group a share of the cores.
    fn has_share(&self) -> bool {
        SHARE_FILES.iter().any(|name| self.0.join(name).exists())
    }

    fn below(parent: &Path) -> Option<Self> {
        sweep(parent, ticket());
        let path = parent.join(format!("{PREFIX}{}-{}", std::process::id(), ticket()));
        let made = parent.join(PROCESSES_FILE).exists() && fs::create_dir(&path).is_ok();
        made.then(|| ControlGroup(path))
    }

    /// The folder of the group.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a setting.
    ///
    /// # Errors
    /// If the kernel has no such setting, or refuses the value.
    pub(crate) fn set(&self, name: &str, value: &str) -> io::Result<()> {
        fs::write(self.0.join(name), value)
    }

    /// Reads a counter or a setting.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.join(name)).ok()
    }

    /// Moves a process here, and with it its later children; one that has ended is passed over.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn add(&self, pid: u32) -> io::Result<()> {
        match self.set(PROCESSES_FILE, &pid.to_string()) {
            Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => Ok(()),
            written => written,
        }
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        for _ in 0..REMOVAL_TRIES {
            let left = self.get(PROCESSES_FILE).unwrap_or_default();
            if let Some(parent) = self.0.parent() {
                for pid in left.lines() {
                    // A process that has ended has left the group already.
                    let _ = fs::write(parent.join(PROCESSES_FILE), pid);
                }
            }
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(REMOVAL_PAUSE);
        }
    }
}

/// Whether control groups are of version 2.
pub(crate) fn is_unified() -> bool {
    Path::new(ROOT).join("cgroup.controllers").exists()
}

/// The folder of the first group of a controller.
fn hierarchy(controller: &str) -> PathBuf {
    let root = PathBuf::from(ROOT);
    if is_unified() { root } else { root.join(controller) }
}

/// Finds the group of a controller in `/proc/PID/cgroup`, and all controllers of its hierarchy; version 2 has none there.
fn entry<'a>(groups: &'a str, controller: &str) -> Option<(Vec<&'a str>, &'a str)> {
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let controllers: Vec<_> = controllers.split(',').collect();
        controllers.contains(&controller).then_some((controllers, path))
    })
}

/// Returns the folders of a process's groups (`/proc/PID/cgroup`) in which new groups count CPU
/// time, the best first. In version 1 `cpuacct` is often one with `cpu`, whose groups have shares;
/// version 2 counts without a controller.
fn counting_places(groups: &str, is_unified: bool) -> Vec<PathBuf> {
    let alone = entry(groups, "cpuacct").filter(|(all, _)| !all.contains(&"cpu"));
    let of_version_1 = alone.map(|(_, path)| ("cpuacct", path));
    let beside = if is_unified { "" } else { UNIFIED_DIR };
    let of_version_2 = entry(groups, "").map(|(_, path)| (beside, path));
    let places = of_version_1.into_iter().chain(of_version_2);
    let folder = |(hierarchy, path): (&str, &str)| {
        Path::new(ROOT).join(hierarchy).join(path.trim_start_matches('/'))
    };
    places.map(folder).collect()
}

/// Removes the groups of labs that were killed: the kernel removes no group with a process in it. A
/// young group may belong to a lab that is about to use it.
fn sweep(parent: &Path, now: u128) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let made = name.strip_prefix(PREFIX).and_then(|rest| rest.rsplit('-').next()?.parse().ok());
        if made.is_some_and(|made: u128| now.saturating_sub(made) > MIN_SWEEP_AGE.as_nanos()) {
            // An error means that the group is in use, or that another lab has removed it; groups
            // that count may be inside groups that limit.
            sweep(&entry.path(), now);
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns a number that distinguishes groups of this machine; two labs may use the same process numbers.
fn ticket() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| d.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_killed_labs_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let now = 1_000 * MIN_SWEEP_AGE.as_nanos();
        let names = ["1-5", &format!("2-{}", now - 7), "3-6", "x"].map(|n| format!("{PREFIX}{n}"));
        let groups = names.map(|name| parent.path().join(name));
        groups.iter().for_each(|group| fs::create_dir(group).unwrap());
        // A group with a process cannot be removed, as this folder with a file.
        fs::write(groups[2].join(PROCESSES_FILE), "1").unwrap();
        sweep(parent.path(), now);
        assert_eq!(groups.map(|group| group.exists()), [false, true, true, true]);
    }

    #[test]
    fn a_group_that_is_not_made_is_not_removed() {
        let parent = tempfile::tempdir().unwrap();
        let sleeps = || nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_THREAD);
        let sleeps = || sleeps().unwrap().voluntary_context_switches();
        let before = sleeps();
        assert!(
            ControlGroup::below(parent.path()).is_none(),
            "this is no folder of control groups"
        );
        assert!(sleeps() - before < i64::from(REMOVAL_TRIES), "it waited for a removal");
    }

    #[test]
    fn a_group_is_left_as_it_was_found() {
        let Some(group) = ControlGroup::new("cpu") else {
            return skip::because("no control groups for this user");
        };
        let path = group.path().to_owned();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        group.add(child.id()).unwrap();
        let inner = ControlGroup::below(&path).expect("a group in the group");
        inner.add(child.id()).unwrap();
        drop(inner);
        assert!(group.get(PROCESSES_FILE).unwrap().contains(&child.id().to_string()));
        drop(group);
        assert!(!path.exists());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn groups_that_count_have_no_share_of_the_cores() {
        let Some(group) = ControlGroup::for_counting(std::process::id()).next() else {
            return skip::because("no control groups for this user");
        };
        assert!(!group.has_share());
        if !is_unified() {
            assert!(ControlGroup::new("cpu").is_some_and(|group| group.has_share()));
        }
    }

    #[test]
    fn the_group_of_a_controller_is_found() {
        let groups = "4:memory:/a/b\n2:cpu,cpuacct:/c\n1:name=systemd:/d\n0::/e\n";
        let found = ["memory", "cpuacct", "", "pids"].map(|controller| entry(groups, controller));
        let paths = found.map(|entry| entry.map(|(_, path)| path));
        assert_eq!(paths, [Some("/a/b"), Some("/c"), Some("/e"), None]);
    }

    #[test]
    fn time_is_counted_where_no_core_is_divided() {
        let separate = "2:cpuacct:/c\n1:cpu:/d\n0::/e\n";
        let joined = "2:cpu,cpuacct:/c\n0::/e\n";
        // Groups of a process, whether version 2 is the only one, and the folders.
        let table = [
            (separate, false, &["cpuacct/c", "unified/e"][..]),
            (joined, false, &["unified/e"]),
            ("2:cpuacct,cpu:/c\n", false, &[]),
            ("0::/e/f\n", true, &["e/f"]),
            ("", true, &[]),
        ];
        for (groups, is_unified, expected) in table {
            let expected: Vec<_> = expected.iter().map(|path| Path::new(ROOT).join(path)).collect();
            assert_eq!(counting_places(groups, is_unified), expected, "{groups}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_a_group_or_none(text in "[ -~\n:,]{0,200}", controller in "[a-z]{0,3}") {
            entry(&text, &controller);
            let places = counting_places(&text, controller.is_empty());
            proptest::prop_assert!(places.iter().all(|place| place.starts_with(ROOT)));
        }
    }
}
