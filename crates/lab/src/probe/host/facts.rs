//! Facts of the host from `/proc` and `/sys`.

use std::fs;
use std::path::Path;

use record::HostFacts;
use record::host::{Cache, Card, CpuFacts, HOST_SCHEMA, KernelFacts, MemoryFacts};

use crate::testbed::cpus::CpuList;

/// Words of the kernel's command line that change its speed; others are not recorded (privacy).
const SPEED_OPTIONS: [&str; 22] = [
    "mitigations",
    "nosmt",
    "isolcpus",
    "nohz",
    "nohz_full",
    "rcu_nocbs",
    "idle",
    "preempt",
    "tsc",
    "clocksource",
    "intel_pstate",
    "amd_pstate",
    "intel_idle.max_cstate",
    "processor.max_cstate",
    "cpuidle.off",
    "transparent_hugepage",
    "hugepages",
    "maxcpus",
    "nr_cpus",
    "irqaffinity",
    "numa_balancing",
    "iommu",
];
/// Settings that matter for a benchmark of a network server.
const SETTINGS: [&str; 8] = [
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.rmem_default",
    "net.core.netdev_max_backlog",
    "net.core.netdev_budget",
    "net.core.busy_poll",
    "net.core.bpf_jit_enable",
    "net.ipv4.ip_local_port_range",
];

/// Returns a file's text without its final line break; empty if there is no such file.
fn read_text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// Returns the text unless it is empty.
fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the names in a directory, sorted.
fn names(dir: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Reads the facts that need no measurement.
pub(super) fn read() -> HostFacts {
    let cards = names("/sys/class/net").into_iter().filter(|name| name != "lo");
    HostFacts {
        schema: HOST_SCHEMA,
        cpu: read_cpu(),
        kernel: read_kernel(),
        memory: read_memory(),
        network: cards.map(read_card).collect(),
        ..HostFacts::default()
    }
}

/// Returns the size of the largest cache, in bytes.
pub(super) fn last_cache(cpu: &CpuFacts) -> u64 {
    cpu.caches.iter().map(|cache| cache.bytes).max().unwrap_or(32 << 20)
}

/// Reads the facts of the processor from `/proc/cpuinfo` and `/sys`.
pub(crate) fn read_cpu() -> CpuFacts {
    const CPUS_DIR: &str = "/sys/devices/system/cpu";
    let info = read_text("/proc/cpuinfo");
    let field = |name: &str| field(&info, name);
    let core = |number: &usize, file: &str| read_text(format!("{CPUS_DIR}/cpu{number}/{file}"));
    let online: Option<CpuList> = read_text(format!("{CPUS_DIR}/online")).parse().ok();
    let online = online.unwrap_or_else(CpuList::allowed);
    let unique = |file: &str| {
        let mut values: Vec<String> =
            online.cpus().iter().map(|number| core(number, file)).collect();
        values.sort();
        values.dedup();
        values.retain(|value| !value.is_empty());
        values
    };
    let mut siblings = unique("topology/thread_siblings_list");
    siblings.retain(|list| list.contains([',', '-']));
    let boost = match (
        read_text(format!("{CPUS_DIR}/cpufreq/boost")),
        read_text(format!("{CPUS_DIR}/intel_pstate/no_turbo")),
    ) {
        (boost, _) if !boost.is_empty() => Some(boost == "1"),
        (_, no_turbo) if !no_turbo.is_empty() => Some(no_turbo == "0"),
        _ => None,
    };
    let khz = |file: &str| core(&online.cpus()[0], file).parse::<f64>().ok().map(|khz| khz / 1e3);
    let dir = format!("{CPUS_DIR}/vulnerabilities");
    let mitigations =
        names(&dir).into_iter().map(|name| (read_text(format!("{dir}/{name}")), name));
    let mitigations = mitigations.filter(|(state, _)| state != "Not affected" && !state.is_empty());
    CpuFacts {
        model: field("model name"),
        online: online.count(),
        allowed: CpuList::allowed().cpus().to_vec(),
        smt: non_empty(read_text(format!("{CPUS_DIR}/smt/control"))),
        siblings,
        governors: unique("cpufreq/scaling_governor"),
        boost,
        mhz: khz("cpufreq/scaling_cur_freq").or_else(|| field("cpu MHz")?.parse().ok()),
        max_mhz: khz("cpufreq/cpuinfo_max_freq"),
        caches: caches(&format!("{CPUS_DIR}/cpu{}/cache", online.cpus()[0])),
        mitigations: mitigations.map(|(state, name)| (name, state)).collect(),
        virtual_machine: field("flags")
            .is_some_and(|f| f.split(' ').any(|flag| flag == "hypervisor")),
    }
}

/// Returns the value of the first line `name : value` of `/proc/cpuinfo`.
fn field(info: &str, name: &str) -> Option<String> {
    let line =
        info.lines().find(|line| line.split(':').next().is_some_and(|n| n.trim() == name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn caches(dir: &str) -> Vec<Cache> {
    let indices = names(dir).into_iter().filter(|name| name.starts_with("index"));
    let cache = |index: String| {
        let file = |name: &str| read_text(format!("{dir}/{index}/{name}"));
        let bytes = bytes_of(&file("size"))?;
        let level = file("level").parse().ok()?;
        Some(Cache { level, kind: file("type"), bytes, shared_by: file("shared_cpu_list") })
    };
    indices.filter_map(cache).collect()
}

/// Parses a size such as `32K`, in bytes.
fn bytes_of(text: &str) -> Option<u64> {
    let (digits, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => (digits, [('K', 10), ('M', 20), ('G', 30)]),
        None => return text.parse().ok(),
    };
    let unit = text.chars().last()?;
    let (_, shift) = shift.into_iter().find(|(letter, _)| *letter == unit)?;
    digits.parse::<u64>().ok()?.checked_shl(shift)
}

fn read_kernel() -> KernelFacts {
    const CLOCK_DIR: &str = "/sys/devices/system/clocksource/clocksource0";
    let line = read_text("/proc/cmdline");
    let setting = |name: &&str| {
        let value = read_text(format!("/proc/sys/{}", name.replace('.', "/")));
        (!value.is_empty()).then(|| ((*name).to_owned(), value.replace('\t', " ")))
    };
    KernelFacts {
        release: non_empty(read_text("/proc/sys/kernel/osrelease")),
        distribution: distribution(&read_text("/etc/os-release")),
        version: non_empty(read_text("/proc/sys/kernel/version")),
        options: speed_options(&line),
        clock_source: non_empty(read_text(format!("{CLOCK_DIR}/current_clocksource"))),
        clock_sources: read_text(format!("{CLOCK_DIR}/available_clocksource"))
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        settings: SETTINGS.iter().filter_map(setting).collect(),
    }
}

/// Returns the name of a distribution in its file os-release.
fn distribution(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    non_empty(name.trim_matches(['"', '\'']).to_owned())
}

/// Returns the words of a command line that change the speed.
fn speed_options(line: &str) -> Vec<String> {
    let about_speed = |word: &&str| SPEED_OPTIONS.contains(&word.split('=').next().unwrap_or(""));
    line.split_whitespace().filter(about_speed).map(str::to_owned).collect()
}

fn read_memory() -> MemoryFacts {
    let info = read_text("/proc/meminfo");
    let bytes = |name: &str| {
        let value = field(&info, name).unwrap_or_default();
        let digits = value.split(' ').next().unwrap_or_default();
        digits.parse::<u64>().unwrap_or(0).saturating_mul(1024)
    };
    let nodes = names("/sys/devices/system/node");
    let nodes = nodes
        .iter()
        .filter(|name| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok()));
    MemoryFacts {
        total: bytes("MemTotal"),
        available: bytes("MemAvailable"),
        nodes: nodes.count().max(1),
    }
}

/// Returns the available memory of this host, in bytes; a gibibyte if the host does not report it.
pub(crate) fn available_memory() -> u64 {
    Some(read_memory().available).filter(|bytes| *bytes > 0).unwrap_or(1 << 30)
}

fn read_card(name: String) -> Card {
    let dir = format!("/sys/class/net/{name}");
    let queues = names(format!("{dir}/queues"));
    let of = |kind: &'static str| queues.iter().filter(move |queue| queue.starts_with(kind));
    let masks = of("rx-").map(|queue| (queue, read_text(format!("{dir}/queues/{queue}/rps_cpus"))));
    let masks = masks.filter(|(_, mask)| mask.contains(|c| c != '0' && c != ','));
    let driver = fs::read_link(format!("{dir}/device/driver")).ok();
    let driver = driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    Card {
        driver,
        receive_queues: of("rx-").count(),
        send_queues: of("tx-").count(),
        mbit: read_text(format!("{dir}/speed")).parse().ok().filter(|mbit| *mbit > 0),
        mtu: read_text(format!("{dir}/mtu")).parse().unwrap_or(0),
        steering: masks.map(|(queue, mask)| (queue.clone(), mask)).collect(),
        hashing: hashing(&name),
        name,
    }
}

/// Returns the packet fields by which the card spreads UDP over IPv4 over its queues.
fn hashing(name: &str) -> Vec<String> {
    let output =
        std::process::Command::new("ethtool").args(["-n", name, "rx-flow-hash", "udp4"]).output();
    let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    parse_hashing(&output.unwrap_or_default())
}

/// Parses the output of `ethtool -n CARD rx-flow-hash udp4`: a heading, then one line for each field.
fn parse_hashing(output: &str) -> Vec<String> {
    let mut lines = output.lines();
    let known = lines.any(|line| line.contains("for computing Hash flow key"));
    let fields = lines.map(str::trim).filter(|line| known && !line.is_empty() && *line != "None");
    fields.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fields_and_options() {
        let table = [
            ("32K", Some(32 << 10)),
            ("1M", Some(1 << 20)),
            ("7", Some(7)),
            ("K", None),
            ("", None),
        ];
        for (text, bytes) in table {
            assert_eq!(bytes_of(text), bytes, "{text}");
        }
        let info = "model\t\t: 1\nmodel name\t: A: B\n";
        assert_eq!(field(info, "model name").as_deref(), Some("A: B"));
        assert_eq!(field(info, "flags"), None);
        let line = "root=/dev/secret mitigations=off quiet nosmt token=1 isolcpus=1-3";
        assert_eq!(speed_options(line), ["mitigations=off", "nosmt", "isolcpus=1-3"]);
        let system = "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        assert_eq!(distribution(system).as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        let output =
            "UDP over IPV4 flows use these fields for computing Hash flow key:\nIP SA\nIP DA\n\n";
        assert_eq!(parse_hashing(output), ["IP SA", "IP DA"]);
        assert!(parse_hashing("netlink error: not supported\n").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "[ -~\n\t:]{0,200}") {
            bytes_of(&text);
            field(&text, "model name");
            speed_options(&text);
            parse_hashing(&text);
        }
    }
}
