//! Samples over time: the resources that each role uses, a few times a second, as series of the record.
//!
//! ```text
//!   Sampler::start ──> thread: read, wait, read, wait, ... ──> stop ──> Vec<Series>
//! ```
//!
//! | series | unit | of |
//! |---|---|---|
//! | `ROLE.user`, `ROLE.system` | % of a core | its processes |
//! | `ROLE.softirq` | % of a core | its cores, from any cause |
//! | `ROLE.resident`, `ROLE.proportional` | B | its processes; the second counts a shared page in parts |
//! | `ROLE.peak` | B | the sum of its processes' peaks, one sample at the end |
//! | `ROLE.voluntary`, `ROLE.involuntary` | 1/s | context switches of its threads |
//! | `ROLE.drops` | 1/s | datagrams its kernel received and dropped |
//! | `ROLE/PROGRAM.user`, ... | as above | where a role has several programs, such as a front and the server behind it |
//! | `system.user`, `.system`, `.idle`, `.wait`, `.irq`, `.softirq`, `.steal` | % | all cores together |
//! | `system.switches`, `system.interrupts` | 1/s | all cores together |
//! | `system.between-cores` | 1/s | interrupts that cores sent each other: rescheduling and function calls |
//!
//! A series that is always zero is left out, except those of CPU and memory. One sample takes about a millisecond;
//! the sampler runs on the cores it is given, which should not be the server's.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use measure::procfs::{
    CoreTimes, Memory, StatLine, Switches, SystemCounts, UdpCounters, parse_cores, parse_memory,
    parse_proportional, parse_system,
};
use record::Series;

use super::periodic::{Counters, Periodic};
use super::ticks_per_second;
use crate::probe::watch::{LiveUpdate, Watcher};
use crate::testbed::cpus::CpuList;
use crate::testbed::procfs;

/// Largest number of samples of a series; at the limit every second one is dropped and the interval doubles.
const MAX_SAMPLES: usize = 1_000;
/// Largest number of programs of a role with series of their own.
const MAX_PROGRAMS: usize = 8;
/// Inverse of the largest share of time for reading proportional sizes: the kernel walks through all pages of a
/// process for them.
const PROPORTIONAL_SHARE: u32 = 100;

/// Samples: seconds since the beginning, and the value.
type Points = Vec<(f64, f64)>;

/// A role to be sampled.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Name of the role in the series: `tester`, `authdns`, `dut`.
    pub role: &'static str,
    /// Processes of the role; their children are sampled too.
    pub pids: Vec<u32>,
    /// Whether only the children belong to the role, not the process that starts them.
    pub children_only: bool,
    /// Cores of the role, whose use is sampled too.
    pub cpus: CpuList,
}

/// Takes samples until it is stopped or dropped.
#[derive(Debug)]
pub struct Sampler(Periodic<Samples>);

impl Sampler {
    /// Starts to sample `watched` every `interval`, on the cores `on`; notifies `watcher` of the busy share of each
    /// role.
    pub fn start(
        watched: Vec<Watched>,
        interval: Duration,
        on: &CpuList,
        watcher: Option<Watcher>,
    ) -> Self {
        Sampler(Periodic::start(on, move || Samples::new(watched, interval, watcher)))
    }

    /// Stops sampling; returns the samples since its start.
    pub fn stop(self) -> Vec<Series> {
        self.0.stop().map(Samples::into_series).unwrap_or_default()
    }
}

/// Counters of one process in one sample.
#[derive(Clone, Debug, Default)]
struct Program {
    name: String,
    stat: StatLine,
    switches: Switches,
    memory: Memory,
}

/// Counters of all roles in one sample.
#[derive(Debug)]
struct Sample {
    at: Instant,
    cores: BTreeMap<usize, CoreTimes>,
    system: SystemCounts,
    /// Interrupts that cores sent each other.
    between_cores: u64,
    roles: Vec<RoleSample>,
}

/// Counters of one role in one sample.
#[derive(Debug, Default)]
struct RoleSample {
    programs: BTreeMap<u32, Program>,
    drops: u64,
}

impl Sample {
    fn take(watched: &[Watched]) -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let table = procfs::Table::read();
        Sample {
            at: Instant::now(),
            cores: parse_cores(&stat),
            system: parse_system(&stat),
            between_cores: procfs::interrupts_between_cores(),
            roles: watched.iter().map(|watched| RoleSample::take(watched, &table)).collect(),
        }
    }
}

impl RoleSample {
    fn take(watched: &Watched, table: &procfs::Table) -> Self {
        let skipped = usize::from(watched.children_only);
        let pids = watched.pids.iter().flat_map(|pid| table.tree(*pid).into_iter().skip(skipped));
        let programs = pids.filter_map(|pid| Some((pid, Program::read(pid)?)));
        let programs: BTreeMap<u32, Program> = programs.collect();
        // All processes of a role share one network namespace.
        let drops = programs.keys().next().map_or(0, |pid| {
            let read =
                |name| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
            UdpCounters::parse(&read("snmp"), &read("snmp6")).in_errors
        });
        RoleSample { programs, drops }
    }
}

impl Program {
    /// Reads the counters of a process; `None` if there is no such process, or if it has ended: until its parent
    /// waits for it, it has a number but no memory.
    fn read(pid: u32) -> Option<Self> {
        let stat = procfs::read_stat(pid)?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let memory = parse_memory(&status);
        if memory.resident == 0 {
            return None;
        }
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Some(Program {
            name: name.trim().replace('.', "_"),
            stat,
            switches: procfs::read_switches(pid),
            memory,
        })
    }
}

/// The series that were sampled so far, and the watcher that receives each sample.
#[derive(Debug)]
struct Samples {
    watched: Vec<Watched>,
    watcher: Option<Watcher>,
    interval: Duration,
    began: Instant,
    last: Sample,
    count: u32,
    tick_s: f64,
    // Name to unit and samples.
    series: BTreeMap<String, (&'static str, Points)>,
    peaks: BTreeMap<(usize, u32), u64>,
    next_proportional: Instant,
}

impl Samples {
    fn new(watched: Vec<Watched>, interval: Duration, watcher: Option<Watcher>) -> Self {
        let began = Instant::now();
        let last = Sample::take(&watched);
        let tick_s = 1.0 / ticks_per_second();
        let (series, peaks) = (BTreeMap::new(), BTreeMap::new());
        let next_proportional = began;
        let interval = interval.max(Duration::from_millis(10));
        Samples {
            watched,
            watcher,
            interval,
            began,
            last,
            count: 0,
            tick_s,
            series,
            peaks,
            next_proportional,
        }
    }
}

impl Counters for Samples {
    fn pause(&self) -> Duration {
        (self.last.at + self.interval).saturating_duration_since(Instant::now())
    }

    fn sample(&mut self) {
        let now = Sample::take(&self.watched);
        let then = std::mem::replace(&mut self.last, now);
        let seconds = self.last.at.duration_since(then.at).as_secs_f64();
        // The last sample may follow directly after the one before: shares of so short a time are meaningless.
        if seconds < 0.2 * self.interval.as_secs_f64() {
            self.last = then;
            return;
        }
        let at = round(self.last.at.duration_since(self.began).as_secs_f64(), 1e3);
        let differences = self.differences(&then, seconds);
        if let Some(watcher) = &self.watcher {
            watcher.notify(LiveUpdate::Cpu(self.busy(&differences)));
        }
        for (name, unit, value) in differences {
            let (_, samples) = self.series.entry(name).or_insert_with(|| (unit, Vec::new()));
            samples.push((at, round(value, 1e1)));
        }
        self.proportional(at);
        self.count += 1;
        if self.count as usize >= MAX_SAMPLES {
            self.thin_out();
        }
    }
}

impl Samples {
    /// Drops every second sample and doubles the interval.
    fn thin_out(&mut self) {
        for (_, samples) in self.series.values_mut() {
            let mut place = 0;
            samples.retain(|_| {
                place += 1;
                place % 2 == 0
            });
        }
        self.count /= 2;
        self.interval *= 2;
    }

    /// Returns the value of each series since `then`.
    fn differences(&mut self, then: &Sample, seconds: f64) -> Vec<(String, &'static str, f64)> {
        let mut out = Vec::new();
        let now = &self.last;
        let percent = |ticks: u64| ticks as f64 * self.tick_s / seconds * 100.0;
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        let cores = |sample: &Sample, cpus: Option<&CpuList>| {
            let wanted = |cpu: &usize| cpus.is_none_or(|list| list.cpus().contains(cpu));
            let cores = sample.cores.iter().filter(|(cpu, _)| wanted(cpu));
            cores.fold(CoreTimes::default(), |sum, (_, core)| sum.plus(core))
        };
        let all = cores(now, None).since(&cores(then, None));
        let total = (all.busy() + all.idle + all.wait).max(1) as f64;
        for (what, ticks) in [
            ("user", all.user),
            ("system", all.system),
            ("idle", all.idle),
            ("wait", all.wait),
            ("irq", all.irq),
            ("softirq", all.softirq),
            ("steal", all.steal),
        ] {
            out.push((format!("system.{what}"), "%", ticks as f64 / total * 100.0));
        }
        let (s, t) = (now.system, then.system);
        out.push(("system.switches".to_owned(), "1/s", rate(s.switches, t.switches)));
        out.push(("system.interrupts".to_owned(), "1/s", rate(s.interrupts, t.interrupts)));
        let between = rate(now.between_cores, then.between_cores);
        out.push(("system.between-cores".to_owned(), "1/s", between));
        for (i, watched) in self.watched.iter().enumerate() {
            let (now_role, then_role) = (&now.roles[i], &then.roles[i]);
            let role = watched.role;
            let softirq = cores(now, Some(&watched.cpus)).since(&cores(then, Some(&watched.cpus)));
            out.push((format!("{role}.softirq"), "%", percent(softirq.softirq)));
            // A Tester ends with its trial, before the last sample: then it has no value, rather
            // than zero.
            if now_role.programs.is_empty() {
                continue;
            }
            out.push((format!("{role}.drops"), "1/s", rate(now_role.drops, then_role.drops)));
            for (name, spent) in spent(role, now_role, then_role) {
                out.push((format!("{name}.user"), "%", percent(spent.user)));
                out.push((format!("{name}.system"), "%", percent(spent.system)));
                out.push((format!("{name}.resident"), "B", spent.resident as f64));
                out.push((format!("{name}.voluntary"), "1/s", spent.voluntary as f64 / seconds));
                out.push((
                    format!("{name}.involuntary"),
                    "1/s",
                    spent.involuntary as f64 / seconds,
                ));
            }
            for (pid, program) in &now_role.programs {
                let peak = self.peaks.entry((i, *pid)).or_default();
                *peak = program.memory.peak.max(*peak);
            }
        }
        out
    }

    /// Returns the busy share of each role's cores, from the result of `differences`.
    fn busy(&self, differences: &[(String, &'static str, f64)]) -> Vec<(&'static str, f64)> {
        let share = |watched: &Watched| {
            let own = ["user", "system", "softirq"].map(|what| format!("{}.{what}", watched.role));
            let percent = differences.iter().filter(|(name, ..)| own.contains(name));
            let percent: f64 = percent.map(|(.., value)| value).sum();
            (watched.role, (percent / 100.0 / watched.cpus.count().max(1) as f64).min(1.0))
        };
        self.watched.iter().map(share).collect()
    }

    /// Reads the proportional sizes when they are due.
    fn proportional(&mut self, at: f64) {
        let began = Instant::now();
        if began < self.next_proportional {
            return;
        }
        for (watched, look) in self.watched.iter().zip(&self.last.roles) {
            let read = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
            let sizes = look.programs.keys().filter_map(read);
            let size: u64 = sizes.map(|text| parse_proportional(&text)).sum();
            if size > 0 {
                let name = format!("{}.proportional", watched.role);
                self.series.entry(name).or_insert(("B", Vec::new())).1.push((at, size as f64));
            }
        }
        self.next_proportional = began + began.elapsed() * PROPORTIONAL_SHARE;
    }

    fn into_series(mut self) -> Vec<Series> {
        let at = round(self.last.at.duration_since(self.began).as_secs_f64(), 1e3);
        for (i, watched) in self.watched.iter().enumerate() {
            let peaks = self.peaks.iter().filter(|((role, _), _)| *role == i);
            let peak: u64 = peaks.map(|(_, peak)| peak).sum();
            let name = format!("{}.peak", watched.role);
            self.series.insert(name, ("B", vec![(at, peak as f64)]));
        }
        let kept = self.series.into_iter().filter(|(name, (_, samples))| {
            let always = [".user", ".system", ".idle"].iter().any(|end| name.ends_with(end));
            always || samples.iter().any(|(_, value)| *value != 0.0)
        });
        let series =
            kept.map(|(name, (unit, samples))| Series { name, unit: unit.to_owned(), samples });
        series.collect()
    }
}

/// Resources that a role, or one of its programs, used between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    user: u64,
    system: u64,
    resident: u64,
    voluntary: u64,
    involuntary: u64,
}

/// Returns the CPU use by names of series: the role, and each of its programs if there are several.
fn spent(role: &str, now: &RoleSample, then: &RoleSample) -> BTreeMap<String, Usage> {
    let mut out: BTreeMap<String, Usage> = BTreeMap::from([(role.to_owned(), Usage::default())]);
    let first = now.programs.values().next().map(|program| &program.name);
    let several = now.programs.values().any(|program| Some(&program.name) != first);
    for (pid, program) in &now.programs {
        let before = then.programs.get(pid).cloned().unwrap_or_default();
        let own = format!("{role}/{}", program.name);
        let named = several && (out.contains_key(&own) || out.len() <= MAX_PROGRAMS);
        for name in [Some(role.to_owned()), named.then_some(own)].into_iter().flatten() {
            let sum = out.entry(name).or_default();
            sum.user += program.stat.user.saturating_sub(before.stat.user);
            sum.system += program.stat.system.saturating_sub(before.stat.system);
            sum.resident += program.memory.resident;
            let (s, t) = (program.switches, before.switches);
            sum.voluntary += s.voluntary.saturating_sub(t.voluntary);
            sum.involuntary += s.involuntary.saturating_sub(t.involuntary);
        }
    }
    out
}

/// Rounds to a multiple of one `per`-th: more digits are noise, and enlarge the record.
fn round(value: f64, per: f64) -> f64 {
    (value * per).round() / per
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn program(name: &str, user: u64, resident: u64) -> Program {
        Program {
            name: name.to_owned(),
            stat: StatLine { user, ..StatLine::default() },
            memory: Memory { resident, peak: resident },
            ..Program::default()
        }
    }

    #[test]
    fn several_programs_have_series_of_their_own() {
        let then = RoleSample { programs: [(1, program("a", 5, 1))].into(), drops: 0 };
        let two = [(1, program("a", 7, 1)), (2, program("b", 3, 10)), (3, program("b", 1, 10))];
        let now = RoleSample { programs: two.into(), drops: 0 };
        let by_name = spent("dut", &now, &then);
        let found: Vec<(&str, u64, u64)> =
            by_name.iter().map(|(name, s)| (name.as_str(), s.user, s.resident)).collect();
        assert_eq!(found, [("dut", 6, 21), ("dut/a", 2, 1), ("dut/b", 4, 20)]);
        assert_eq!(spent("dut", &then, &then).len(), 1);
    }

    #[test]
    fn a_process_that_has_ended_gives_no_sample() {
        let mut child =
            std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let watched = Watched {
            role: "tester",
            pids: vec![child.id()],
            children_only: false,
            cpus: CpuList::allowed(),
        };
        let mut samples = Samples::new(vec![watched], Duration::from_millis(10), None);
        std::thread::sleep(Duration::from_millis(20));
        samples.sample();
        child.kill().expect("it can be killed");
        // One sample before the parent waits for it, one after.
        let stat = format!("/proc/{}/stat", child.id());
        loop {
            std::thread::sleep(Duration::from_millis(20));
            if std::fs::read_to_string(&stat).expect("nobody waited for it").contains(") Z ") {
                break;
            }
        }
        samples.sample();
        child.wait().expect("it ended");
        std::thread::sleep(Duration::from_millis(20));
        samples.sample();
        let count = |name: &str| samples.series[name].1.len();
        assert_eq!((count("system.idle"), count("tester.softirq")), (3, 3));
        assert_eq!(
            (count("tester.resident"), count("tester.user"), count("tester.drops")),
            (1, 1, 1)
        );
        assert!(samples.series["tester.resident"].1[0].1 > 0.0);
    }

    #[test]
    fn long_runs_are_thinned_out() {
        let mut samples = Samples::new(Vec::new(), Duration::from_secs(1), None);
        let values = (0..10).map(|i| (f64::from(i), 0.0)).collect();
        samples.series.insert("x".to_owned(), ("", values));
        samples.thin_out();
        let left: Vec<f64> = samples.series["x"].1.iter().map(|(at, _)| *at).collect();
        assert_eq!(left.len(), 5);
        assert_eq!(left[1] - left[0], 2.0);
        assert_eq!(samples.interval, Duration::from_secs(2));
    }

    #[test]
    fn it_sees_this_process() {
        let own = Watched {
            role: "dut",
            pids: vec![std::process::id()],
            children_only: false,
            cpus: CpuList::allowed(),
        };
        let interval = Duration::from_millis(50);
        let (seen, busiest) = (Arc::new(Mutex::new(0.0_f64)), |share: f64, seen: &Mutex<f64>| {
            let mut seen = seen.lock().unwrap();
            *seen = seen.max(share);
        });
        let told = seen.clone();
        let watcher = Watcher::new(move |update| {
            if let LiveUpdate::Cpu(roles) = update {
                busiest(roles[0].1, &told);
            }
        });
        let cpus = CpuList::allowed();
        let sampler = Sampler::start(vec![own], interval, &cpus, Some(watcher));
        let begun = Instant::now();
        let mut work = 0_u64;
        // Longer where this thread has no core.
        let is_seen = || *seen.lock().unwrap() > 0.0;
        while begun.elapsed() < Duration::from_millis(400)
            || (!is_seen() && begun.elapsed() < Duration::from_secs(30))
        {
            work = std::hint::black_box(work.wrapping_add(1));
        }
        let series = sampler.stop();
        let busiest = *seen.lock().unwrap();
        assert!(busiest > 0.0 && busiest <= 1.0, "{busiest}");
        let get = |name: &str| {
            let found = series.iter().find(|series| series.name == name);
            found.unwrap_or_else(|| panic!("{name} of {series:?}"))
        };
        assert!(get("dut.user").samples.iter().any(|(_, percent)| *percent > 0.0));
        for name in ["dut.resident", "system.idle"] {
            assert!(!get(name).samples.is_empty(), "no samples of {name}");
        }
        let (_, peak) = get("dut.peak").samples[0];
        assert!(
            get("dut.resident").samples.iter().all(|(_, bytes)| *bytes <= peak && *bytes > 1e5)
        );
        assert!(get("dut.proportional").samples[0].1 > 1e5);
        let idle =
            get("system.idle").samples.iter().all(|(_, percent)| (0.0..=100.0).contains(percent));
        assert!(idle && get("system.user").unit == "%");
    }
}
