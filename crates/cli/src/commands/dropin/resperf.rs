//! `dnsdyno resperf`: the command line, the output and the plot data of resperf.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use measure::{Nanos, Pacing, Qps, Transport};
use record::{Steps, Trial};

use super::data::Form;
use super::options::{Common, LONG_OPTIONS, MODE};
use super::{RunningOutput, Sending, finish, response_codes, words_of};
use crate::arguments::choice::choice;
use crate::arguments::number::seconds;
use crate::failure::Failure;
use crate::output::print;

pub(crate) const EXAMPLES: &str = "Example:
  dnsdyno resperf -s 10.9.0.2 -d queries.txt -m 50000 -r 30 -P plot.txt

Also by a link of that name: ln -s $(command -v dnsdyno) ~/bin/resperf";

/// Number of queries that each client may have outstanding: one for each id.
const PER_CLIENT: u64 = 65_536;

#[derive(Args, Clone, Debug)]
pub(crate) struct ResperfArgs {
    #[command(flatten)]
    common: Common,
    /// Transport: udp, tcp, dot or doh
    #[arg(short = 'M', value_name = "mode", value_parser = choice(&MODE), default_value = "udp")]
    mode: Transport,
    /// Timeout of a query, in seconds
    #[arg(short = 't', value_name = "timeout", value_parser = seconds, default_value = "45")]
    timeout: Nanos,
    /// Length of the steps in the plot data, in seconds
    #[arg(short = 'i', value_name = "interval", value_parser = seconds, default_value = "0.5")]
    interval: Nanos,
    /// The rate that the ramp ends at, in queries a second
    #[arg(short = 'm', value_name = "max_qps", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_qps: u32,
    /// The file of the plot data
    #[arg(short = 'P', value_name = "plot_data_file", default_value = "resperf.gnuplot")]
    plot: PathBuf,
    /// Length of the ramp, in seconds
    #[arg(short = 'r', value_name = "rampup_time", value_parser = seconds, default_value = "60")]
    ramp: Nanos,
    /// How long the last rate is kept, in seconds
    #[arg(short = 'c', value_name = "constant_traffic_time", value_parser = seconds, default_value = "0")]
    constant: Nanos,
    /// Loss, in per cent, beyond which there is no maximum throughput
    #[arg(short = 'L', value_name = "max_loss", default_value_t = 100.0)]
    max_loss: f64,
    /// Number of clients, each with a port or a connection of its own
    #[arg(short = 'C', value_name = "clients", default_value_t = 1)]
    clients: u32,
    /// Number of queries outstanding at which the sending ends [default: 65536]
    #[arg(short = 'q', value_name = "max_outstanding", value_parser = clap::value_parser!(u64).range(1..))]
    outstanding: Option<u64>,
    /// Read the file again at its end
    #[arg(short = 'R')]
    reopen: bool,
    /// Accepted and ignored: a test that falls behind its schedule is void
    #[arg(short = 'F', value_name = "fall_behind")]
    fall_behind: Option<u32>,
}

pub(crate) fn run(args: &ResperfArgs) -> Result<(), Failure> {
    if args.common.wants_long_help() {
        return print(|out| writeln!(out, "{LONG_OPTIONS}"));
    }
    let mut say = |text: String| args.common.say("resperf", &text);
    args.common.say_ignored(args.mode, &mut say);
    if args.common.is_verbose() {
        say("-v: nothing more is printed while the test runs".to_owned());
    }
    if args.fall_behind.is_some() {
        say("-F: a test that falls behind does not end; its report says VOID".to_owned());
    }
    let sending = args.sending(&mut say)?;
    let messages = args.common.messages(Form::Queries, &sending, "resperf", None)?;
    // The plot file is opened before the test, to find errors early.
    record::try_writing(&args.plot).map_err(Failure::input)?;
    let setup = sending.setup(&messages)?;
    print(|out| write!(out, "{}", heading()))?;
    let (trial, _) = super::run(&setup, RunningOutput::default(), &messages, args.common.data())?;
    let mut out = String::new();
    if args.constant > Nanos::ZERO && !trial.stopped_early {
        out += "[Status] Ramp-up done, sending constant traffic\n";
    }
    if trial.stopped_early {
        let _ = writeln!(out, "[Status] Reached {} outstanding queries", args.most_outstanding());
    }
    out += "[Status] Waiting for more responses\n[Status] Testing complete\n";
    let none = Steps::default();
    let steps = trial.steps.as_ref().unwrap_or(&none);
    statistics(&trial, steps, args.max_loss, &mut out);
    // The plot is written even if the text could not be.
    let plotted = write_plot(&args.plot, steps);
    finish(&out, &trial).and(plotted)?;
    messages.check()?;
    let whole =
        trial.stopped_early || trial.duration_s >= (args.ramp + args.constant).as_secs_f64();
    match !args.reopen && !whole && trial.void.0 != Some(measure::Void::Interrupted) {
        true => Err(Failure::run(anyhow!("ran out of query data; -R reads the file again"))),
        false => Ok(()),
    }
}

impl ResperfArgs {
    fn most_outstanding(&self) -> u64 {
        self.outstanding.unwrap_or(PER_CLIENT)
    }

    fn sending(&self, say: &mut dyn FnMut(String)) -> Result<Sending, Failure> {
        let bad = |why: String| Err(Failure::input(anyhow!(why)));
        let duration = self.ramp + self.constant;
        if duration == Nanos::ZERO {
            return bad("-r 0 -c 0: the ramp or the constant traffic needs a time".to_owned());
        }
        if self.interval == Nanos::ZERO || self.timeout == Nanos::ZERO {
            return bad("-i and -t must be longer than 0".to_owned());
        }
        let most = PER_CLIENT.saturating_mul(self.clients.into());
        if self.outstanding.is_some_and(|n| n > most) {
            return bad(format!("-q is at most 65536 for each client, {most} here"));
        }
        let target = self.common.target(self.mode)?;
        let to = Qps::new(self.max_qps.into()).unwrap_or_default();
        Ok(Sending {
            target,
            engine: self.common.engine(self.mode, self.clients),
            pacing: Pacing::RampHold { from: Qps::default(), to, hold: self.constant },
            duration,
            timeout: self.timeout,
            sockets: self.common.sockets(target, self.clients, 1, say)?,
            runs: (!self.reopen).then_some(1),
            most_outstanding: Some(self.most_outstanding()),
            step: Some(self.interval),
        })
    }
}

/// Returns the lines before the test.
fn heading() -> String {
    format!(
        "DNS Resolution Performance Testing Tool\nVersion 2.14.0 (dnsdyno {})\n\n\
         [Status] Command line: resperf {}\n[Status] Sending\n",
        env!("CARGO_PKG_VERSION"),
        words_of("resperf")
    )
}

/// Adds resperf's statistics of a trial.
fn statistics(trial: &Trial, steps: &Steps, max_loss: f64, out: &mut String) {
    let max = report::maximum(steps, max_loss);
    let micros = (trial.duration_s * 1e6) as u64;
    let _ = write!(
        out,
        "\nStatistics:\n\n  Queries sent:         {}\n  Queries completed:    {}\n  Queries lost:         {}\n{}  \
         Run time (s):         {}.{:06}\n  Maximum throughput:   {:.6} qps\n  Lost at that point:   {:.2}%\n",
        trial.sent,
        trial.answered,
        trial.sent - trial.answered,
        response_codes(trial),
        micros / 1_000_000,
        micros % 1_000_000,
        max.map_or(0.0, |max| max.answered_qps),
        max.map_or(0.0, |max| max.lost_percent),
    );
}

/// Writes the plot data in resperf's columns. The times of connections are not known: their columns
/// are 0.
fn write_plot(path: &Path, steps: &Steps) -> Result<(), Failure> {
    let mut text = String::from(
        "# time target_qps actual_qps responses_per_sec failures_per_sec avg_latency connections conn_avg_latency\n",
    );
    for (number, step) in steps.steps.iter().enumerate() {
        let rate = |count: u64| count as f64 / steps.length_s;
        let _ = writeln!(
            text,
            "{:7.3} {:8.2} {:8.2} {:8.2} {:8.2} {:8.6} {:8.2} {:8.6}",
            (number as f64 + 0.5) * steps.length_s,
            step.target_qps.unwrap_or_default(),
            rate(step.sent),
            rate(step.answered),
            rate(step.failed),
            step.latency_us / 1e6,
            0.0,
            0.0
        );
    }
    record::write_bytes(path, text.as_bytes()).map_err(Failure::run)
}
