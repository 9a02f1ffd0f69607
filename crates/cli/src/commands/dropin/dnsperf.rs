//! `dnsdyno dnsperf`: the command line and the output of dnsperf 2.14.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::SystemTime;

use anyhow::anyhow;
use clap::Args;
use load::pipeline::MAX_OUTSTANDING;
use measure::{Nanos, Pacing, Qps, Transport};
use record::{Connections, Times, Trial};

use super::data::Form;
use super::options::{Common, LONG_OPTIONS, MODE};
use super::verbose::Texts;
use super::{NO_LIMIT, RunningOutput, Sending, finish, percent, response_codes, words_of};
use crate::arguments::choice::choice;
use crate::arguments::number::seconds;
use crate::failure::Failure;
use crate::output::print;

pub(crate) const EXAMPLES: &str = "Example:
  dnsdyno dnsperf -s 10.9.0.2 -p 5300 -d queries.txt -l 10 -q 500 -c 32

Also by a link of that name: ln -s $(command -v dnsdyno) ~/bin/dnsperf";

#[derive(Args, Clone, Debug)]
pub(crate) struct DnsperfArgs {
    #[command(flatten)]
    common: Common,
    /// Transport: udp, tcp, dot or doh
    #[arg(short = 'm', value_name = "mode", value_parser = choice(&MODE), default_value = "udp")]
    mode: Transport,
    /// Number of clients, each with a port or a connection of its own
    #[arg(short = 'c', value_name = "clients", default_value_t = 1)]
    clients: u32,
    /// Number of threads, one on each core
    #[arg(short = 'T', value_name = "threads", default_value_t = 1)]
    threads: u32,
    /// Number of passes through the file [default: once, with -l without an end]
    #[arg(short = 'n', value_name = "runs_through_file", value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,
    /// Run for this number of seconds
    #[arg(short = 'l', value_name = "limit", value_parser = seconds)]
    limit: Option<Nanos>,
    /// Timeout of a query, in seconds
    #[arg(short = 't', value_name = "timeout", value_parser = seconds, default_value = "5")]
    timeout: Nanos,
    /// Largest number of queries outstanding
    #[arg(short = 'q', value_name = "num_queries", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    outstanding: u32,
    /// Highest number of queries a second
    #[arg(short = 'Q', value_name = "max_qps")]
    max_qps: Option<u32>,
    /// Interval at which the answers a second are printed (seconds)
    #[arg(short = 'S', value_name = "stats_interval", value_parser = seconds)]
    stats_interval: Option<Nanos>,
    /// The file has dynamic updates
    #[arg(short = 'u', conflicts_with = "binary")]
    updates: bool,
    /// The file has binary messages
    #[arg(short = 'B')]
    binary: bool,
}

pub(crate) fn run(args: &DnsperfArgs) -> Result<(), Failure> {
    if args.common.wants_long_help() {
        return print(|out| writeln!(out, "{LONG_OPTIONS}"));
    }
    let mut say = |text: String| args.common.say("dnsperf", &text);
    args.common.say_ignored(args.mode, &mut say);
    let form = match (args.updates, args.binary) {
        (true, _) => Form::Updates,
        (false, true) => Form::Binary,
        (false, false) => Form::Queries,
    };
    let sending = args.sending(&mut say)?;
    let (target, limited) = (sending.target, args.limit.filter(|limit| *limit > Nanos::ZERO));
    let texts = args.common.is_verbose().then(|| Texts::of(form));
    let messages = args.common.messages(form, &sending, "dnsperf", texts.clone())?;
    let setup = sending.setup(&messages)?;
    print(|out| write!(out, "{}", args.heading(target, limited)))?;
    let interval = args.stats_interval.filter(|interval| *interval > Nanos::ZERO);
    let running_output = RunningOutput { interval, each: texts };
    let (trial, interrupted) = super::run(&setup, running_output, &messages, args.common.data())?;
    // A loop that used up its file ends with its last replies.
    let at_limit = |limit: Nanos| (trial.duration_s - limit.as_secs_f64()).abs() < 1e-9;
    let runs_ended = !limited.is_some_and(at_limit);
    let reason = match (interrupted, runs_ended) {
        (true, _) => "interruption",
        (false, true) => "end of file",
        (false, false) => "time limit",
    };
    let mut out = format!("[Status] Testing complete ({reason})\n\n");
    statistics(
        &trial,
        if args.updates { "Updates" } else { "Queries" },
        args.common.latency_histogram(),
        args.mode.uses_http(),
        &mut out,
    );
    finish(&out, &trial)?;
    messages.check()
}

impl DnsperfArgs {
    fn sending(&self, say: &mut dyn FnMut(String)) -> Result<Sending, Failure> {
        if self.timeout == Nanos::ZERO {
            return Err(Failure::input(anyhow!("-t 0: a query needs time for its reply")));
        }
        let most = MAX_OUTSTANDING.saturating_mul(self.clients.max(1));
        if self.outstanding > most {
            let why =
                format!("-q {}: -c {} clients have {most} ids", self.outstanding, self.clients);
            return Err(Failure::input(anyhow!("{why}: give more clients")));
        }
        let target = self.common.target(self.mode)?;
        let rate = self.max_qps.filter(|qps| *qps > 0).and_then(|qps| Qps::new(qps.into()));
        let outstanding = self.outstanding;
        let limit = self.limit.filter(|limit| *limit > Nanos::ZERO);
        Ok(Sending {
            target,
            engine: self.common.engine(self.mode, self.clients),
            pacing: match rate {
                Some(rate) => Pacing::CappedWindow { outstanding, rate },
                None => Pacing::Window { outstanding },
            },
            duration: limit.unwrap_or(NO_LIMIT),
            timeout: self.timeout,
            sockets: self.common.sockets(target, self.clients, self.threads, say)?,
            runs: self.runs.or(if limit.is_none() { Some(1) } else { None }),
            most_outstanding: None,
            step: None,
        })
    }

    /// Returns the lines before the test.
    fn heading(&self, target: std::net::SocketAddr, limit: Option<Nanos>) -> String {
        let runs = self.runs.or(if limit.is_none() { Some(1) } else { None });
        let runs = runs.map(|n| format!("{n} run{} through file", if n == 1 { "" } else { "s" }));
        let limit = limit.map(|limit| format!("{} seconds", micros(limit.as_secs_f64())));
        let ends: Vec<String> = limit.into_iter().chain(runs).collect();
        format!(
            "DNS Performance Testing Tool\nVersion 2.14.0 (dnsdyno {})\n\n\
             [Status] Command line: dnsperf {}\n[Status] Sending {} (to {target})\n\
             [Status] Started at: {}\n[Status] Stopping after {}\n",
            env!("CARGO_PKG_VERSION"),
            words_of("dnsperf"),
            if self.updates { "updates" } else { "queries" },
            calendar(SystemTime::now()),
            ends.join(" or "),
        )
    }
}

/// Returns a time in UTC as `ctime(3)` writes it: `Mon Nov 23 00:31:40 2026`.
fn calendar(time: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs() / 86_400);
    let text = humantime::format_rfc3339_seconds(time).to_string();
    let month = text[5..7].parse::<usize>().map_or("", |month| MONTHS[(month - 1) % 12]);
    let day = text[8..10].trim_start_matches('0');
    format!("{} {month} {day:>2} {} {}", DAYS[days as usize % 7], &text[11..19], &text[..4])
}

/// Returns seconds with six decimals, cut as dnsperf cuts them.
fn micros(seconds: f64) -> String {
    let micros = (seconds * 1e6) as u64;
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// Adds dnsperf's statistics of a trial, over HTTP or not; `units` are `Queries` or `Updates`.
fn statistics(trial: &Trial, units: &str, histogram: bool, http: bool, out: &mut String) {
    let share = |n: u64| percent(n, trial.sent);
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    line("Statistics:\n".to_owned());
    line(format!("  {units} sent:         {}", trial.sent));
    line(format!("  {units} completed:    {} ({:.2}%)", trial.answered, share(trial.answered)));
    line(format!("  {units} lost:         {} ({:.2}%)", trial.lost, share(trial.lost)));
    if trial.unresolved > 0 {
        line(format!(
            "  {units} interrupted:  {} ({:.2}%)",
            trial.unresolved,
            share(trial.unresolved)
        ));
    }
    let strays = trial.unexpected + trial.duplicates + trial.late;
    if strays > 0 {
        line(format!("  Unexpected IDs:       {strays} ({:.2}%)", share(strays)));
    }
    line(String::new());
    line(response_codes(trial).trim_end().to_owned());
    line(format!(
        "  Average packet size:  request {}, response {}",
        trial.octets.queries / trial.sent.max(1),
        trial.octets.replies / trial.answered.max(1)
    ));
    line(format!("  Run time (s):         {}", micros(trial.answering_s())));
    line(format!("  {units} per second:   {:.6}\n", trial.answered_qps));
    latency(&trial.latency_from_send_us, histogram.then_some("answer count"), &mut line);
    if let Some(connections) = &trial.connections {
        line(String::new());
        connection_statistics(connections, &mut line);
        if http {
            line("\nDNS-over-HTTPS statistics:\n".to_owned());
            line(format!("  HTTP/2 return codes:  {}\n", http_codes(trial, connections)));
        }
    }
}

/// Returns the status codes of HTTP with their numbers. A reply is the content of a response with code 200 (RFC 8484 section 4.2.1).
fn http_codes(trial: &Trial, connections: &Connections) -> String {
    let failed = &connections.queries_failed;
    let replies = trial.answered + trial.late + failed.get("media-type").unwrap_or(&0);
    let mut codes = BTreeMap::from([("200", replies)]);
    codes.extend(failed.iter().filter_map(|(why, n)| Some((why.strip_prefix("http-")?, *n))));
    let codes = codes.into_iter().filter(|(_, n)| *n > 0);
    let codes: Vec<String> = codes.map(|(code, n)| format!("{code}: {n}")).collect();
    if codes.is_empty() { "none".to_owned() } else { codes.join(", ") }
}

/// Adds the lines about a distribution of times, and its buckets if they have a title.
fn latency(times: &Times, buckets: Option<&str>, line: &mut impl FnMut(String)) {
    let s = |us: f64| micros(us / 1e6);
    line(format!(
        "  Average Latency (s):  {} (min {}, max {})",
        s(times.mean),
        s(times.min),
        s(times.max)
    ));
    if times.count < 2 {
        return;
    }
    line(format!("  Latency StdDev (s):   {:.6}", times.stdev / 1e6));
    let (Some(title), Ok(histogram)) = (buckets, times.histogram()) else { return };
    line(format!("  Latency bucket (s):   {title}"));
    for [least, most, count] in histogram.spans() {
        line(format!("  {} - {}:  {count}", micros(least as f64 / 1e9), micros(most as f64 / 1e9)));
    }
}

fn connection_statistics(c: &Connections, line: &mut impl FnMut(String)) {
    line("Connection Statistics:\n".to_owned());
    line(format!(
        "  Connection attempts:  {} ({} successful, {:.2}%)\n",
        c.attempts,
        c.established,
        percent(c.established, c.attempts)
    ));
    latency(&c.handshake_us, None, line);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_ctime() {
        for (at, text) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (1_795_393_900, "Mon Nov 23 00:31:40 2026"),
        ] {
            assert_eq!(calendar(SystemTime::UNIX_EPOCH + Duration::from_secs(at)), text);
        }
    }

    #[test]
    fn seconds_are_cut_to_microseconds() {
        assert_eq!([micros(5.0), micros(0.0000019)], ["5.000000", "0.000001"]);
    }
}
