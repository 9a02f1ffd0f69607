//! What this host says about a trial: the use of cores, drops in this network namespace.

use std::collections::BTreeMap;

/// Ticks of a core (`USER_HZ`, 100 a second) by what it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoreTicks {
    /// In processes: user, nice and system time.
    pub(crate) processes: u64,
    /// Idle and waiting for disks.
    pub(crate) idle: u64,
    /// Taken by the hypervisor.
    pub(crate) steal: u64,
    /// All.
    pub(crate) total: u64,
}

impl CoreTicks {
    pub(crate) fn since(self, earlier: CoreTicks) -> CoreTicks {
        CoreTicks {
            processes: self.processes.saturating_sub(earlier.processes),
            idle: self.idle.saturating_sub(earlier.idle),
            steal: self.steal.saturating_sub(earlier.steal),
            total: self.total.saturating_sub(earlier.total),
        }
    }

    fn plus(self, other: CoreTicks) -> CoreTicks {
        CoreTicks {
            processes: self.processes + other.processes,
            idle: self.idle + other.idle,
            steal: self.steal + other.steal,
            total: self.total + other.total,
        }
    }
}

/// Ticks a second in `/proc/stat`.
pub(crate) const TICKS_PER_S: f64 = 100.0;

/// The ticks of each core since the host started; empty where `/proc/stat` cannot be read.
pub(crate) fn cores() -> BTreeMap<usize, CoreTicks> {
    parse_cores(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

fn parse_cores(text: &str) -> BTreeMap<usize, CoreTicks> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let t: Vec<u64> = words.map_while(|w| w.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal] = *t.first_chunk()?;
        let total = user + nice + system + idle + iowait + irq + softirq + steal;
        Some((
            cpu,
            CoreTicks { processes: user + nice + system, idle: idle + iowait, steal, total },
        ))
    };
    text.lines().filter_map(line).collect()
}

/// The sum over `cpus`, or over all cores.
pub(crate) fn sum(cores: &BTreeMap<usize, CoreTicks>, cpus: Option<&[usize]>) -> CoreTicks {
    cores
        .iter()
        .filter(|(cpu, _)| cpus.is_none_or(|cpus| cpus.contains(cpu)))
        .fold(CoreTicks::default(), |sum, (_, t)| sum.plus(*t))
}

/// UDP datagrams of this network namespace that found their receive queue full, IPv4 and IPv6.
pub(crate) fn udp_receive_drops() -> u64 {
    let v4 = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
    let v6 = std::fs::read_to_string("/proc/thread-self/net/snmp6").unwrap_or_default();
    parse_drops(&v4, &v6)
}

fn parse_drops(v4: &str, v6: &str) -> u64 {
    let mut udp =
        v4.lines().filter(|line| line.starts_with("Udp: ")).map(str::split_ascii_whitespace);
    let (names, values) = (udp.next(), udp.next());
    let four = names.zip(values).and_then(|(names, values)| {
        names.zip(values).find(|(name, _)| *name == "RcvbufErrors")?.1.parse().ok()
    });
    let six =
        v6.lines().find_map(|line| line.strip_prefix("Udp6RcvbufErrors")?.trim().parse().ok());
    four.unwrap_or(0u64) + six.unwrap_or(0u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proc_says() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 40 5 6 7 8 0 0\ncpu1 10 0 0 90 0 0 0 0 0 0\nintr 5\n";
        let cores = parse_cores(text);
        assert_eq!(cores[&0], CoreTicks { processes: 6, idle: 45, steal: 8, total: 72 });
        assert_eq!(
            sum(&cores, Some(&[1])),
            CoreTicks { processes: 10, idle: 90, steal: 0, total: 100 }
        );
        assert_eq!(sum(&cores, None).total, 172);
        assert!(parse_cores("cpux 1\ncpu0 1 2\n").is_empty());
        let v4 = "Tcp: A B\nTcp: 1 2\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 1 2 3 4 5\n";
        assert_eq!(parse_drops(v4, "Udp6InErrors\t3\nUdp6RcvbufErrors                	7\n"), 12);
        assert_eq!(parse_drops("", ""), 0);
        assert!(!super::cores().is_empty());
    }
}
