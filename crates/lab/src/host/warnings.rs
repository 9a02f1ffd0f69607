//! What spoils measurements on a host, each with what to do about it.

use std::fs;
use std::time::Duration;

use super::Fingerprint;
use crate::cpus::CpuList;
use crate::probe::procfs::{CoreTimes, parse_cores};

/// Others may use so large a share (0 to 1) of the cores before it is worth a word.
const OTHERS: f64 = 0.05;
/// The same of the hypervisor.
const STEAL: f64 = 0.005;
/// A core may be away for so long, microseconds: the most that a query of a kept schedule may be late.
const AWAY_US: f64 = 1_000.0;
/// A look at the clock may take so long, nanoseconds: a tenth of a query at a million a second.
const CLOCK_NS: f64 = 100.0;
/// Receive buffers of an ordinary user may be so small, bytes: the Tester asks for this.
const BUFFER: u64 = 4 << 20;

/// The shares of the cores that others and the hypervisor use while this process does nothing.
pub(super) fn others(look: Duration) -> (f64, f64) {
    let read = || {
        let cores = parse_cores(&fs::read_to_string("/proc/stat").unwrap_or_default());
        let allowed = CpuList::allowed();
        let cores = cores.iter().filter(|(cpu, _)| allowed.cpus().contains(cpu));
        cores.fold(CoreTimes::default(), |sum, (_, core)| sum.plus(core))
    };
    if look.is_zero() {
        return (0.0, 0.0);
    }
    let before = read();
    std::thread::sleep(look);
    let spent = read().since(&before);
    let total = (spent.busy() + spent.idle + spent.wait).max(1) as f64;
    ((spent.busy() - spent.steal) as f64 / total, spent.steal as f64 / total)
}

/// What spoils measurements.
pub(super) fn warnings(host: &Fingerprint) -> Vec<String> {
    let (cpu, kernel) = (&host.facts.cpu, &host.facts.kernel);
    let mut out = Vec::new();
    let mut say = |wrong: bool, what: String| out.extend(wrong.then_some(what));
    let governors = cpu.governors.iter().filter(|governor| *governor != "performance");
    let governors: Vec<&str> = governors.map(String::as_str).collect();
    say(
        !governors.is_empty(),
        format!(
            "the clock rate follows the load (governor {}): as root, cpupower frequency-set -g performance",
            governors.join(", ")
        ),
    );
    say(
        cpu.governors.is_empty() && cpu.virtual_machine,
        "a virtual machine without a view of the clock rate: what its host does to it shows in repeats only"
            .to_owned(),
    );
    say(
        cpu.boost == Some(true),
        "the clock rate goes above its rating while the machine is cool: let it warm up, or switch boost off"
            .to_owned(),
    );
    say(
        !cpu.siblings.is_empty(),
        format!(
            "cores are threads of shared ones ({}): give Tester and server no two of one, or switch SMT off",
            cpu.siblings.join("; ")
        ),
    );
    say(
        host.others_busy > OTHERS,
        format!("other processes used {:.0} % of the cores: stop them", host.others_busy * 100.0),
    );
    say(
        host.steal > STEAL,
        format!(
            "the hypervisor took {:.1} % of the cores' time for others: take a machine of your own",
            host.steal * 100.0
        ),
    );
    say(
        cpu.allowed.len() < 3,
        format!(
            "{} cores: Measurer and AuthDNS share one, and the server is not tried on several",
            cpu.allowed.len()
        ),
    );
    if let Some(timer) = &host.timer {
        say(
            timer.clock_read_ns > CLOCK_NS && kernel.clock_source != "tsc",
            format!(
                "a look at the clock takes {:.0} ns (clock source {}): of {} take tsc if it is there",
                timer.clock_read_ns,
                kernel.clock_source,
                kernel.clock_sources.join(", ")
            ),
        );
        for gaps in timer.gaps.iter().filter(|gaps| gaps.max_us > AWAY_US) {
            say(
                true,
                format!(
                    "core {} went away from a busy program for up to {:.1} ms: something else runs there",
                    gaps.cpu,
                    gaps.max_us / 1e3
                ),
            );
        }
    }
    let buffer =
        kernel.settings.get("net.core.rmem_max").and_then(|bytes| bytes.parse::<u64>().ok());
    say(
        buffer.is_some_and(|bytes| bytes < BUFFER) && !nix::unistd::geteuid().is_root(),
        format!(
            "receive buffers end at {} bytes: as root, sysctl net.core.rmem_max={BUFFER}",
            buffer.unwrap_or(0)
        ),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Facts, Gaps, Timer};
    use super::*;

    #[test]
    fn what_is_wrong_is_said() {
        let mut host = Fingerprint {
            schema: 1,
            taken_unix_s: 0.0,
            facts: Facts::default(),
            memory_bandwidth: None,
            memory_latency: Vec::new(),
            timer: None,
            others_busy: 0.0,
            steal: 0.0,
            warnings: Vec::new(),
        };
        host.facts.cpu.allowed = vec![0, 1, 2];
        host.facts.cpu.governors = vec!["performance".to_owned()];
        assert_eq!(warnings(&host), Vec::<String>::new());
        host.facts.cpu.governors = vec!["ondemand".to_owned(), "performance".to_owned()];
        host.facts.cpu.siblings = vec!["0,1".to_owned()];
        host.facts.cpu.allowed.pop();
        (host.others_busy, host.steal) = (0.3, 0.02);
        let gaps = vec![Gaps { cpu: 1, max_us: 2_500.0, ..Gaps::default() }];
        host.timer = Some(Timer { clock_read_ns: 900.0, gaps, ..Timer::default() });
        let said = warnings(&host).join("\n");
        let parts = [
            "governor ondemand)",
            "(0,1)",
            "used 30 %",
            "took 2.0 %",
            "2 cores",
            "900 ns",
            "core 1 went away from a busy program for up to 2.5 ms",
        ];
        for part in parts {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
