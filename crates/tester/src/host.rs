//! Counters of this host for a trial: the use of cores, drops in this network namespace.

use std::collections::BTreeMap;

use measure::procfs::{CoreTimes, UdpCounters, parse_cores};

/// Ticks a second in `/proc/stat`.
pub(crate) const TICKS_PER_S: f64 = 100.0;

/// Returns the ticks of each core since the host started; empty if `/proc/stat` cannot be read.
pub(crate) fn cores() -> BTreeMap<usize, CoreTimes> {
    parse_cores(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Returns the sum over `cpus`, or over all cores.
pub(crate) fn sum(cores: &BTreeMap<usize, CoreTimes>, cpus: Option<&[usize]>) -> CoreTimes {
    cores
        .iter()
        .filter(|(cpu, _)| cpus.is_none_or(|cpus| cpus.contains(cpu)))
        .fold(CoreTimes::default(), |sum, (_, t)| sum.plus(t))
}

/// Returns the UDP datagrams of this network namespace that were dropped at a full receive queue, IPv4 and IPv6.
pub(crate) fn udp_receive_drops() -> u64 {
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
    };
    UdpCounters::parse(&read("snmp"), &read("snmp6")).receive_buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_cover_the_given_cores() {
        let text = "cpu0 1 2 3 40 5 6 7 8 0 0\ncpu1 10 0 0 90 0 0 0 0 0 0\n";
        let cores = parse_cores(text);
        assert_eq!(sum(&cores, Some(&[0])).processes(), 6);
        assert_eq!(
            sum(&cores, Some(&[1])),
            CoreTimes { user: 10, idle: 90, ..CoreTimes::default() }
        );
        assert_eq!(sum(&cores, None).total(), 172);
        assert!(!super::cores().is_empty());
    }
}
