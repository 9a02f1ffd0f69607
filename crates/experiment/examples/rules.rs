//! Compares the rules of a search on a simulated server whose host stalls: `cargo run --release -p experiment --example rules`.
//!
//! The server answers 100,000 queries a second. Its core, or the Tester's, stalls now and then (Poisson) for a time with
//! an exponential distribution. What arrives meanwhile waits in a socket buffer of so many datagrams, and is lost beyond.
//! The table shows the rate found over the true rate: the median, and 5 to 95 % of the runs.

use experiment::{
    Bench, BenchError, Circumstances, NameBudget, Repeats, RuleName, Search, TrialSpec,
};
use measure::{Goal, Histogram, Limiter, Nanos, OpenPacing, Pacing, Qps, Rng, stats};
use record::{SCHEMA, Second, Times, Trial};

/// Queries a second that the server answers.
const CAPACITY: f64 = 100_000.0;
/// Datagrams in a receive buffer of the default size, and in one of 4 MB.
const BUFFERS: [(&str, f64); 2] = [("default buffers", 277.0), ("4 MB buffers", 5_450.0)];
/// Mean duration of a stall, in seconds.
const STALL_S: f64 = 0.005;
/// Stalls a minute: a quiet host, the host of the project's runs, and a bad one.
const STALLS: [f64; 3] = [0.0, 2.0, 20.0];
/// Runs for each row.
const RUNS: u64 = 40;

/// A simulated server that stalls.
struct Stalling {
    rng: Rng,
    stalls_per_s: f64,
    buffer: f64,
    /// Seconds of all trials.
    spent_s: f64,
    /// An empty distribution of times.
    no_times: Times,
}

impl Stalling {
    /// A number from an exponential distribution.
    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.rng.below(1 << 53) as f64 / (1u64 << 53) as f64).ln()
    }

    /// Queries lost in one second at `rate`, when the second begins with what the buffer already holds.
    fn second(&mut self, rate: f64) -> f64 {
        let mut lost = (rate - CAPACITY).max(0.0);
        let mut at = 0.0;
        loop {
            at += if self.stalls_per_s > 0.0 {
                self.exponential(1.0 / self.stalls_per_s)
            } else {
                2.0
            };
            if at >= 1.0 {
                return lost.min(rate);
            }
            let stalled_s = self.exponential(STALL_S);
            lost += (rate * stalled_s - self.buffer).max(0.0);
        }
    }
}

impl Bench for Stalling {
    fn trial(&mut self, spec: &TrialSpec) -> Result<Trial, BenchError> {
        let Pacing::Constant { rate } = spec.pacing else { panic!("an even load") };
        let (rate, seconds) = (rate.get(), spec.duration.as_secs_f64());
        let mut series = Vec::new();
        let mut passed = true;
        for _ in 0..seconds.ceil() as u64 {
            let lost = self.second(rate).round();
            series.push(Second {
                sent: rate as u64,
                valid: (rate - lost).max(0.0) as u64,
                ..Second::default()
            });
            passed &= lost == 0.0;
            self.spent_s += 1.0;
            if !passed && spec.early_stop {
                break;
            }
        }
        let sent: u64 = series.iter().map(|s| s.sent).sum();
        let valid: u64 = series.iter().map(|s| s.valid).sum();
        let none = self.no_times.clone();
        Ok(Trial {
            schema: SCHEMA,
            planned: sent,
            sent,
            answered: valid,
            valid,
            lost: sent - valid,
            offered_qps: rate,
            answered_qps: rate,
            duration_s: seconds,
            latency_us: none.clone(),
            latency_from_send_us: none.clone(),
            schedule_error_us: none,
            limiter: Limiter::Dut,
            passed: spec.goal.is_some().then_some(passed),
            series,
            ..Trial::default()
        })
    }
}

/// A row of the table.
struct Row {
    name: &'static str,
    rule: RuleName,
    goal: Goal,
    duration: Nanos,
    repeats: u32,
}

fn main() {
    let second = Nanos::from_secs(1);
    let (zero, half_percent) = (Goal::zero_loss(), Goal { max_loss: 0.005, latency: Vec::new() });
    let rows = [
        Row {
            name: "RFC 8219, 60 s, 5 searches",
            rule: RuleName::Rfc8219,
            goal: zero.clone(),
            duration: Nanos::from_secs(60),
            repeats: 5,
        },
        Row {
            name: "RFC 8219, 60 s, 20 searches",
            rule: RuleName::Rfc8219,
            goal: zero.clone(),
            duration: Nanos::from_secs(60),
            repeats: 20,
        },
        Row {
            name: "RFC 8219, 2 s, 2 searches",
            rule: RuleName::Rfc8219,
            goal: zero.clone(),
            duration: Nanos::from_secs(2),
            repeats: 2,
        },
        Row {
            name: "MLRsearch, zero loss, 1 s",
            rule: RuleName::Mlrsearch,
            goal: zero,
            duration: second,
            repeats: 1,
        },
        Row {
            name: "MLRsearch, 0.5 %, 1 s",
            rule: RuleName::Mlrsearch,
            goal: half_percent,
            duration: second,
            repeats: 1,
        },
    ];
    println!(
        "| rule | buffers | stalls a minute | found over true: median (5 to 95 %) | seconds of trials |"
    );
    println!("|---|---|---|---|---|");
    for row in &rows {
        for (buffers, size) in BUFFERS {
            for stalls in STALLS {
                print_row(row, buffers, size, stalls);
            }
        }
    }
}

/// Runs and prints a row.
fn print_row(row: &Row, buffers: &str, buffer: f64, stalls: f64) {
    let qps = |rate: f64| Qps::new(rate).expect("a rate");
    let search = Search {
        rule: row.rule.rule(&[], None, row.duration).expect("no setting of another rule"),
        goal: row.goal.clone(),
        start: qps(10_000.0),
        expected: None,
        min: qps(1_000.0),
        max: qps(1e6),
        resolution: 0.01,
        duration: row.duration,
        timeout: Nanos::from_secs(1),
        client_names: None,
        pacing: OpenPacing::Constant,
    };
    let (mut found, mut spent) = (Vec::new(), 0.0);
    let no_times = Times::from(&Histogram::new());
    for run in 0..RUNS {
        let rng = Rng::part(run, stalls as u64);
        let mut bench = Stalling {
            rng,
            stalls_per_s: stalls / 60.0,
            buffer,
            spent_s: 0.0,
            no_times: no_times.clone(),
        };
        let repeats = Repeats {
            search: search.clone(),
            repeats: row.repeats,
            circumstances: Circumstances::default(),
        };
        let mut names = NameBudget::new(1 << 40, true);
        let (cell, _) = repeats.run(&mut bench, "simulated", &mut names, None, &mut |_| ());
        found.push(cell.median_qps.unwrap_or(0.0) / CAPACITY);
        spent += bench.spent_s / RUNS as f64;
    }
    let at = |p| stats::percentile(&found, p).unwrap_or(0.0);
    println!(
        "| {} | {buffers} | {stalls} | {:.2} ({:.2} to {:.2}) | {spent:.0} |",
        row.name,
        at(50.0),
        at(5.0),
        at(95.0)
    );
}
