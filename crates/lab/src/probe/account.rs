//! The CPU time of a server with all its processes, also of processes that begin and end between
//! two readings: servers that start processes for each change of a zone (NSD) have hundreds a
//! second.

use crate::testbed::control_group::ControlGroup;
use crate::testbed::procfs;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of times that new processes are looked for: one may start another while it is moved.
const MAX_SEARCHES: u32 = 3;

/// A control group with a server's processes, which counts their CPU time until it is dropped.
#[derive(Debug)]
pub(crate) struct Account(ControlGroup);

impl Account {
    /// Opens an account of the processes `pids` and of their later children; `None` where this
    /// process may not make control groups, where the kernel would give the group a share of the
    /// cores, or if a process cannot be moved.
    pub(crate) fn open(pids: &[u32]) -> Option<Self> {
        Self::of(ControlGroup::for_counting(*pids.first()?).next()?, pids)
    }

    /// Opens the account in a control group.
    pub(super) fn of(group: ControlGroup, pids: &[u32]) -> Option<Self> {
        let mut moved = BTreeSet::new();
        for _ in 0..MAX_SEARCHES {
            let table = procfs::Table::read();
            for pid in pids.iter().flat_map(|pid| table.tree(*pid)) {
                // Children of a moved process are in the group from their start.
                if moved.insert(pid) {
                    group.add(pid).ok()?;
                }
            }
        }
        Some(Account(group))
    }

    /// Returns the run time of the processes since the account was opened.
    pub(super) fn spent(&self) -> Option<ProcessRunTime> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        if let Some(all) = self.0.get("cpuacct.usage") {
            let part = |name| self.0.get(name).and_then(|text| number(&text)).unwrap_or(0);
            let (user, system) = (part("cpuacct.usage_user"), part("cpuacct.usage_sys"));
            return Some(ProcessRunTime { all: number(&all)?, user, system });
        }
        let text = self.0.get("cpu.stat")?;
        let part = |name| text.lines().find_map(|line| number(line.strip_prefix(name)?));
        let [all, user, system] = ["usage_usec ", "user_usec ", "system_usec "].map(part);
        let ns = |us: Option<u64>| us.unwrap_or(0) * 1_000;
        Some(ProcessRunTime { all: ns(Some(all?)), user: ns(user), system: ns(system) })
    }
}

/// Time that processes ran, in nanoseconds. All of it is exact. Unless the kernel reads its clock
/// at each entry (`VIRT_CPU_ACCOUNTING`), it samples at its ticks (`CONFIG_HZ`: 100 to 1,000 a
/// second) the mode in which they run, so that only the ratio of the parts is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessRunTime {
    /// Time in any mode, exact.
    pub(super) all: u64,
    /// Part of the time in user mode.
    pub(super) user: u64,
    /// Part of the time in the kernel.
    pub(super) system: u64,
}

/// The account of the server that runs.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    pids: Vec<u32>,
    account: Option<Arc<Account>>,
}

impl Accounts {
    /// Returns the account of the processes `pids`, a new one if they are not the same as last
    /// time.
    pub(crate) fn of(&mut self, pids: Vec<u32>) -> Option<Arc<Account>> {
        if self.account.is_none() || self.pids != pids {
            // The group of the old account is removed first.
            self.account = None;
            self.account = Account::open(&pids).map(Arc::new);
            self.pids = pids;
        }
        self.account.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn processes_that_ended_are_counted() {
        let mut shell = Command::new("sh");
        // Each inner shell ends within milliseconds, and nobody looks meanwhile.
        let busy = "read go; for i in 1 2 3 4 5 6 7 8 9; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done; \
                    echo done; read end";
        shell.args(["-c", busy]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().expect("starts");
        let (mut input, output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        if let Some(account) = Account::open(&[shell.id()]) {
            let before = account.spent().expect("it counts").all;
            std::io::Write::write_all(&mut input, b"go\n").expect("writes");
            let mut line = String::new();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
            let spent = (account.spent().expect("it counts").all - before) as f64 / 1e9;
            // The kernel counted the same for the children that were waited for, in ticks.
            let stat = procfs::read_stat(shell.id()).expect("it waits");
            let ticks = stat.children as f64 / crate::probe::ticks_per_second();
            assert!(spent >= ticks, "{spent} s, of its children {ticks} s");
            assert!(ticks > 0.0);
        } else {
            skip::because("no control groups for this user");
        }
        drop(input);
        shell.wait().expect("ends");
    }
}
