//! Warnings about disturbances of measurements on a host.

use std::fs;
use std::time::Duration;

use measure::Warning;
use record::HostFacts;
use record::host::{KernelFacts, Timer};

use crate::testbed::cpus::CpuList;
use measure::procfs::{CoreTimes, parse_cores};

/// Share (0 to 1) of the cores that other processes may use without a warning.
const MAX_OTHERS: f64 = 0.05;
/// Share (0 to 1) of the cores' time that the hypervisor may take without a warning.
const MAX_STEAL: f64 = 0.005;
/// Longest interruption of a core without a warning, in microseconds: the largest delay of a query
/// that keeps its schedule.
const AWAY_US: f64 = 1_000.0;
/// Longest clock read without a warning, in nanoseconds: a tenth of a query at a million a second.
const CLOCK_NS: f64 = 100.0;
/// Smallest receive buffer without a warning, in bytes: the size that the Tester requests.
const MIN_BUFFER: u64 = 4 << 20;

/// Returns the shares of the cores that other processes and the hypervisor use while this process is idle for `look`;
/// `None` if `look` is zero.
pub(super) fn others(look: Duration) -> (Option<f64>, Option<f64>) {
    let read = || {
        let cores = parse_cores(&fs::read_to_string("/proc/stat").unwrap_or_default());
        let allowed = CpuList::allowed();
        let cores = cores.iter().filter(|(cpu, _)| allowed.cpus().contains(cpu));
        cores.fold(CoreTimes::default(), |sum, (_, core)| sum.plus(core))
    };
    if look.is_zero() {
        return (None, None);
    }
    let before = read();
    std::thread::sleep(look);
    let spent = read().since(&before);
    let total = (spent.busy() + spent.idle + spent.wait).max(1) as f64;
    let share = |ticks| Some(ticks as f64 / total);
    (share(spent.busy() - spent.steal), share(spent.steal))
}

/// Returns the warnings about a host.
pub(super) fn warnings(host: &HostFacts) -> Vec<Warning> {
    let (cpu, kernel) = (&host.cpu, &host.kernel);
    let governors = cpu.governors.iter().filter(|governor| *governor != "performance");
    let governors: Vec<String> = governors.cloned().collect();
    let (others, steal) = (host.others_busy.unwrap_or(0.0), host.steal.unwrap_or(0.0));
    let cores = cpu.allowed.len();
    let all = [
        (!governors.is_empty(), Warning::ClockRateVaries { governors }),
        (cpu.governors.is_empty() && cpu.virtual_machine, Warning::ClockRateHidden),
        (cpu.boost == Some(true), Warning::Boost),
        (!cpu.siblings.is_empty(), Warning::SharedCores { siblings: cpu.siblings.clone() }),
        (others > MAX_OTHERS, Warning::OthersBusy { share: others }),
        (steal > MAX_STEAL, Warning::Steal { share: steal }),
        (cores < 3, Warning::FewCores { cores: cores as u64 }),
    ];
    let mut out: Vec<Warning> =
        all.into_iter().filter_map(|(wrong, warning)| wrong.then_some(warning)).collect();
    out.extend(host.timer.iter().flat_map(|timer| timer_warnings(timer, kernel)));
    let buffer = kernel.settings.get("net.core.rmem_max").and_then(|bytes| bytes.parse().ok());
    let small = buffer.filter(|bytes| *bytes < MIN_BUFFER && !nix::unistd::geteuid().is_root());
    out.extend(small.map(|bytes| Warning::BufferLimit { bytes, wanted: MIN_BUFFER }));
    out
}

/// Returns the warnings about the clock and the scheduler.
fn timer_warnings(timer: &Timer, kernel: &KernelFacts) -> Vec<Warning> {
    let source = kernel.clock_source.as_deref().unwrap_or_default();
    let slow = timer.clock_read_ns > CLOCK_NS && source != "tsc";
    let slow = slow.then(|| Warning::SlowClock {
        read_ns: timer.clock_read_ns,
        source: source.to_owned(),
        sources: kernel.clock_sources.clone(),
    });
    let away = timer.gaps.iter().filter(|gaps| gaps.max_us > AWAY_US);
    let away = away.map(|gaps| Warning::CoreAway { cpu: gaps.cpu, max_us: gaps.max_us });
    slow.into_iter().chain(away).collect()
}

#[cfg(test)]
mod tests {
    use record::host::Gaps;

    use super::*;

    #[test]
    fn each_disturbance_has_its_warning() {
        let mut host = HostFacts::default();
        host.cpu.allowed = vec![0, 1, 2];
        host.cpu.governors = vec!["performance".to_owned()];
        assert_eq!(warnings(&host), []);
        host.cpu.governors = vec!["ondemand".to_owned(), "performance".to_owned()];
        host.cpu.siblings = vec!["0,1".to_owned()];
        host.cpu.allowed.pop();
        (host.others_busy, host.steal) = (Some(0.3), Some(0.02));
        let gaps = vec![Gaps { cpu: 1, max_us: 2_500.0, ..Gaps::default() }];
        host.timer = Some(Timer { clock_read_ns: 900.0, gaps, ..Timer::default() });
        let said: Vec<String> = warnings(&host).iter().map(Warning::with_advice).collect();
        let said = said.join("\n");
        let parts = [
            "governor ondemand)",
            "(0,1)",
            "used 30 %",
            "took 2.0 %",
            "2 cores",
            "900 ns",
            "core 1 interrupted a busy program for up to 2.5 ms",
        ];
        for part in parts {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
