//! Cores of each host of the testbed.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// A set of cores, ascending, never empty; written `0`, `0,2` or `0-3,8`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// Makes a list of the cores `cpus`; `None` if there are none.
    pub fn new(cpus: impl IntoIterator<Item = usize>) -> Option<Self> {
        let mut cpus: Vec<usize> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        (!cpus.is_empty()).then_some(Self(cpus))
    }

    /// Returns the cores that this process may use.
    pub fn allowed() -> Self {
        let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
        let cpus = (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false));
        Self::new(cpus).unwrap_or(Self(vec![0]))
    }

    /// Returns the cores in ascending order.
    pub fn cpus(&self) -> &[usize] {
        &self.0
    }

    /// Returns the number of cores.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the first `count` cores, at least one.
    pub(crate) fn first(&self, count: usize) -> Self {
        Self(self.0.iter().copied().take(count.max(1)).collect())
    }

    /// Returns one thread of each physical core, if that leaves two or more; otherwise all.
    pub(crate) fn one_thread_each(&self) -> Self {
        let is_first = |cpu: &usize| {
            threads_of(*cpu).iter().find(|thread| self.0.contains(thread)) == Some(cpu)
        };
        let firsts: Vec<usize> = self.0.iter().copied().filter(is_first).collect();
        if firsts.len() > 1 { Self(firsts) } else { self.clone() }
    }

    /// Returns these cores with the other threads of their physical cores.
    pub(crate) fn with_siblings(&self) -> Self {
        let threads = self.0.iter().flat_map(|cpu| threads_of(*cpu));
        Self::new(threads).unwrap_or_else(|| self.clone())
    }

    /// Returns whether every core of this list is in `other`.
    pub(crate) fn is_within(&self, other: &CpuList) -> bool {
        self.0.iter().all(|cpu| other.0.contains(cpu))
    }

    /// Returns whether the two lists share a core.
    pub fn shares_with(&self, other: &CpuList) -> bool {
        self.0.iter().any(|cpu| other.0.contains(cpu))
    }

    /// Returns the mask as the kernel writes it in sysfs: 32-bit groups in hexadecimal, the highest first.
    pub fn mask(&self) -> String {
        let groups = self.0.last().map_or(0, |cpu| cpu / 32) + 1;
        let mut words = vec![0u32; groups];
        for cpu in &self.0 {
            words[cpu / 32] |= 1 << (cpu % 32);
        }
        let words: Vec<String> = words.iter().rev().map(|word| format!("{word:08x}")).collect();
        words.join(",")
    }

    /// Returns the set for `sched_setaffinity(2)`; `None` if a core number is too large.
    pub(crate) fn to_set(&self) -> Option<CpuSet> {
        let mut set = CpuSet::new();
        self.0.iter().try_for_each(|&cpu| set.set(cpu)).ok()?;
        Some(set)
    }
}

/// Returns the threads of the physical core of `cpu`; that one alone if no others are known.
fn threads_of(cpu: usize) -> Vec<usize> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let threads = std::fs::read_to_string(file).ok().and_then(|text| text.parse().ok());
    threads.map_or_else(|| vec![cpu], |threads: CpuList| threads.0)
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let error = |why| CpuListError { found: text.to_owned(), why };
        let mut cpus = Vec::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let parse = |digits: &str| digits.trim().parse().map_err(|_| error("not a number"));
            let (first, last): (usize, usize) = (parse(first)?, parse(last)?);
            if last >= CpuSet::count() {
                return Err(error("core numbers this large do not exist"));
            }
            if first > last {
                return Err(error("the range ends before it begins"));
            }
            cpus.extend(first..=last);
        }
        Self::new(cpus).ok_or_else(|| error("it is empty"))
    }
}

impl fmt::Display for CpuList {
    /// Writes the shortest form: `0-3,8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&record::testbed::cpu_list(&self.0))
    }
}

/// Error of a list of cores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a list of cores such as 0, 0,2 or 0-3: {why}")]
pub struct CpuListError {
    /// The text as the user gave it.
    pub found: String,
    /// The problem.
    pub why: &'static str,
}

/// The cores of the three hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuPlan {
    /// Cores of the Measurer, with one worker on each.
    pub tester: CpuList,
    /// Cores of the AuthDNS, with one worker on each.
    pub auth: CpuList,
    /// Cores of the server under test.
    pub dut: CpuList,
}

impl CpuPlan {
    /// Returns every core of the plan, in ascending order.
    pub fn all(&self) -> Vec<usize> {
        let lists = [&self.tester, &self.auth, &self.dut];
        let cpus: BTreeSet<usize> = lists.into_iter().flat_map(|list| list.0.clone()).collect();
        cpus.into_iter().collect()
    }

    /// Makes a plan: the server under test gets `cores` cores, by default half of all, but never
    /// the first one. The Measurer gets half of the other cores, from the first one on, and the
    /// AuthDNS the rest, from the last one on, each at most as many as the server. If only one core
    /// is left, both use it.
    pub fn spread(allowed: &CpuList, cores: impl Into<Option<usize>>) -> Self {
        let all = allowed.cpus();
        let Some(beside) = all.len().checked_sub(1).filter(|beside| *beside > 0) else {
            return Self { tester: allowed.clone(), auth: allowed.clone(), dut: allowed.clone() };
        };
        let wanted: Option<usize> = cores.into();
        let cores = wanted.unwrap_or(all.len() / 2).clamp(1, beside);
        let others = all.len() - cores;
        let tester = others.div_ceil(2).min(cores);
        let auth = (others - tester).min(cores);
        let list = |cpus: &[usize]| CpuList(cpus.to_vec());
        Self {
            tester: list(&all[..tester]),
            auth: list(if auth == 0 { &all[..tester] } else { &all[all.len() - auth..] }),
            dut: list(&all[tester..tester + cores]),
        }
    }

    /// Returns the cores for the lab itself: allowed cores that no host has, or else the Tester's.
    /// Threads of the server's physical cores (`near_dut`) are used only if there are no others.
    pub(crate) fn for_lab(&self, allowed: &CpuList, near_dut: &CpuList) -> CpuList {
        let hosts = self.all();
        let free = |cpu: &usize| !hosts.contains(cpu);
        let of_tester = |cpu: &usize| self.tester.0.contains(cpu);
        let preferred: [&dyn Fn(&usize) -> bool; 3] = [&free, &of_tester, &|_| true];
        let beside = |avoided: &CpuList| {
            let left = || allowed.0.iter().copied().filter(|cpu| !avoided.0.contains(cpu));
            preferred.into_iter().find_map(|wanted| CpuList::new(left().filter(wanted)))
        };
        beside(near_dut).or_else(|| beside(&self.dut)).unwrap_or_else(|| self.tester.clone())
    }

    /// Returns whether the server under test shares a core with the Tester, which then slows it down.
    pub fn dut_shares(&self) -> bool {
        self.dut.shares_with(&self.tester) || self.dut.shares_with(&self.auth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_and_writes_lists() {
        let table = [
            ("0", vec![0], "0"),
            ("3,1", vec![1, 3], "1,3"),
            ("0-2,8", vec![0, 1, 2, 8], "0-2,8"),
            (" 2-2 ", vec![2], "2"),
        ];
        for (text, cpus, shown) in table {
            let list: CpuList = text.parse().unwrap();
            assert_eq!((list.cpus(), list.to_string().as_str()), (cpus.as_slice(), shown));
        }
        for bad in ["", "a", "1-", "3-1", "0,,1", "99999999"] {
            assert!(bad.parse::<CpuList>().is_err(), "{bad}");
        }
    }

    #[test]
    fn masks_are_the_kernels() {
        assert_eq!(CpuList::new([0]).unwrap().mask(), "00000001");
        assert_eq!(CpuList::new([1, 33]).unwrap().mask(), "00000002,00000002");
    }

    #[test]
    fn plans() {
        fn plan(allowed: &str, cores: impl Into<Option<usize>>) -> String {
            let p = CpuPlan::spread(&allowed.parse().unwrap(), cores);
            format!("{} {} {}", p.tester, p.auth, p.dut)
        }
        assert_eq!(plan("0", 1), "0 0 0");
        assert_eq!(plan("0-1", 1), "0 0 1");
        assert_eq!(plan("0-1", 4), "0 0 1");
        assert_eq!(plan("0-3", 1), "0 3 1");
        assert_eq!(plan("0-3", 3), "0 0 1-3");
        assert_eq!(plan("4-7", 2), "4 7 5-6");
        assert_eq!(plan("0-15", 4), "0-3 12-15 4-7");
        assert_eq!(plan("0-31", 16), "0-7 24-31 8-23");
        assert_eq!(plan("0-31", 31), "0 0 1-31");
        for (allowed, chosen) in
            [("0", "0 0 0"), ("2-3", "2 2 3"), ("0-2", "0 2 1"), ("0-7", "0-1 6-7 2-5")]
        {
            assert_eq!(plan(allowed, None), chosen);
        }
    }

    #[test]
    fn the_lab_has_cores_that_no_host_has_or_those_of_the_tester() {
        let beside = |allowed: &str, hosts: [&str; 3], near: &str| {
            let [tester, auth, dut] = hosts.map(|cpus| cpus.parse().unwrap());
            let (plan, near) = (CpuPlan { tester, auth, dut }, near.parse().unwrap());
            plan.for_lab(&allowed.parse().unwrap(), &near).to_string()
        };
        let lab = |allowed: &str, hosts: [&str; 3]| beside(allowed, hosts, hosts[2]);
        assert_eq!(lab("0-1", ["0", "0", "0"]), "1");
        assert_eq!(lab("0-1", ["0", "0", "1"]), "0");
        assert_eq!(lab("0-3", ["0", "3", "1"]), "2");
        assert_eq!(lab("0-3", ["0-1", "1", "1-3"]), "0");
        assert_eq!(lab("0-1", ["0", "1", "0"]), "1");
        assert_eq!(lab("0", ["0", "0", "0"]), "0");
        // Threads of the server's physical core come last.
        assert_eq!(beside("0-3", ["0", "2", "1"], "1,3"), "0");
        assert_eq!(beside("0-7", ["0", "2", "1"], "1,5"), "3-4,6-7");
        assert_eq!(beside("0-1", ["1", "1", "0"], "0-1"), "1");
        // The Tester is on another host.
        assert_eq!(beside("0-3", ["1000", "0-1", "0-1"], "0-3"), "2-3");
    }

    proptest! {
        #[test]
        fn a_list_round_trips(cpus in proptest::collection::btree_set(0usize..200, 1..40)) {
            let list = CpuList::new(cpus).unwrap();
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9, -]{0,12}|\\PC{0,12}") {
            match text.parse::<CpuList>() {
                Ok(list) => prop_assert_eq!(list.to_string().parse::<CpuList>(), Ok(list)),
                Err(error) => prop_assert_eq!(error.found, text),
            }
        }
    }
}
