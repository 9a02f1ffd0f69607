//! `dnsdyno dnsperf`, `resperf` and `kxdpgun`: the command lines of these tools, with their output.
//!
//! ```text
//! their options ──> Sending ──> TrialRequest ──> the Tester, as for `load` ──> Trial ──> their lines, then our report
//! their files   ──> data    ──> messages ──┘
//! ```
//!
//! Nothing is measured in another way than by `dnsdyno load`. An option without effect here is
//! accepted, and a message says so. The exit code is theirs: 0 if the test ran, whatever the server
//! answered.

mod data;
pub(crate) mod dnsperf;
pub(crate) mod kxdpgun;
mod options;
pub(crate) mod resperf;
mod updates;
mod verbose;

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ipnet::IpNet;
use lab::CpuList;
use load::{Journal, Live};
use measure::{Nanos, Pacing, Transport};
use record::request::{Connecting, Engine, Expect, Sockets, Workload};
use record::{Trial, TrialRequest};
use tester::{Background, Setup};

use self::data::MessageFile;
use self::verbose::{RCODES, Texts};
use crate::arguments::address::SourceArg;
use crate::failure::Failure;
use crate::output::print;
use crate::process::{self, command_line, interruption};
use crate::progress::{View, wait_for_start};

/// Names of the tools, which are commands of this program and names by which it may be called.
const TOOLS: [&str; 3] = ["dnsperf", "resperf", "kxdpgun"];

/// Time after which a test without a limit ends.
const NO_LIMIT: Nanos = Nanos::from_secs(365 * 86_400);

/// Returns the words of the command line; if the program was called by the name of a tool, with the tool as the command.
pub(crate) fn words(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = args.collect();
    let called = words.first().and_then(|word| Path::new(word).file_name()).map(ToOwned::to_owned);
    if let Some(tool) = called.filter(|name| TOOLS.iter().any(|tool| *name == **tool)) {
        words.splice(..1, [OsString::from("dnsdyno"), tool]);
    }
    words
}

/// The load that a tool's options describe.
struct Sending {
    target: SocketAddr,
    engine: Engine,
    pacing: Pacing,
    duration: Nanos,
    timeout: Nanos,
    sockets: Sockets,
    /// How often the file is used; again and again if `None`.
    runs: Option<u64>,
    most_outstanding: Option<u64>,
    step: Option<Nanos>,
}

impl Sending {
    /// Returns the length in octets of the longest message that can be sent.
    fn longest_message(&self) -> usize {
        self.engine.longest_message(self.target)
    }

    /// Returns the setup of the trial that sends the messages of a file.
    fn setup(self, messages: &MessageFile) -> Result<Setup, Failure> {
        let workload = Workload::Messages {
            path: messages.path().to_owned(),
            expect: Expect::Answered,
            runs: messages.runs,
        };
        let request = TrialRequest {
            engine: self.engine,
            duration: self.duration,
            timeout: self.timeout,
            sockets: self.sockets,
            most_outstanding: self.most_outstanding,
            keep_places: true,
            step: self.step,
            ..TrialRequest::new(self.target, workload, self.pacing)
        };
        let setup = Setup::new(request, command_line());
        messages.check()?;
        Ok(setup?)
    }
}

/// What is printed while a test runs.
#[derive(Default)]
struct RunningOutput {
    /// Time between two lines with the answers a second.
    interval: Option<Nanos>,
    /// Names and types of the queries, if each has a line.
    each: Option<Texts>,
}

/// Interval between checks of the journal.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a trial. Also returns whether it was interrupted. The record names the data file, not the
/// file of messages made from it.
fn run(
    setup: &Setup,
    running_output: RunningOutput,
    messages: &MessageFile,
    data: Option<&Path>,
) -> Result<(Trial, bool), Failure> {
    let journal = running_output.each.as_ref().map(|_| Journal::default());
    let live = Arc::new(Live { journal, watched: true, ..Live::default() });
    let stop = interruption()?;
    let rates = running_output.interval.map(|every| {
        let live = live.clone();
        Background::start(move |done| print_rates(every.into(), &live, done))
    });
    let each = running_output.each.map(|texts| {
        let live = live.clone();
        Background::start(move |done| print_each(&texts, &live, done))
    });
    let asked = View::Nothing.start(&live);
    let ran = setup.run(&live, &stop);
    drop((rates, each, asked));
    let mut trial = match ran {
        Ok(ran) => ran.with_verdict(),
        Err(error) => return Err(messages.check().err().unwrap_or_else(|| error.into())),
    };
    let data = data.map_or_else(|| "the standard input".into(), |path| path.display().to_string());
    let workload = &mut trial.conditions.workload;
    *workload = workload.replace(&messages.path().display().to_string(), &data);
    Ok((trial, stop.load(Ordering::Relaxed)))
}

/// Prints the outcome of each query, until the test is over and none waits.
fn print_each(texts: &Texts, live: &Live, done: &AtomicBool) {
    let Some(journal) = &live.journal else { return };
    while !done.load(Ordering::Relaxed) {
        texts.print(journal);
        std::thread::park_timeout(CHECK_INTERVAL);
    }
    texts.print(journal);
    if journal.left_out() > 0 {
        eprintln!(
            "{} queries are not printed: they came faster than lines are read",
            journal.left_out()
        );
    }
}

/// Prints the time and the answers a second, as dnsperf does with `-S`.
fn print_rates(every: Duration, live: &Live, done: &AtomicBool) {
    wait_for_start(live, done);
    let (mut last, mut before) = (std::time::Instant::now(), 0);
    while !done.load(Ordering::Relaxed) {
        let left = (last + every).saturating_duration_since(std::time::Instant::now());
        if !left.is_zero() {
            std::thread::park_timeout(left);
            continue;
        }
        let answered = live.answered.load(Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = std::time::Instant::now();
        let rate = (answered - before) as f64 / at.duration_since(last).as_secs_f64();
        // A closed reader of the output must not end the test.
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{}.{:06}: {rate:.6}", now.as_secs(), now.subsec_micros());
        (last, before) = (at, answered);
    }
}

/// Returns the source of a local address; all of them are one.
fn source(local: Option<SourceArg>, target: SocketAddr) -> Result<Option<IpNet>, Failure> {
    let same = |net: &IpNet| net.addr().is_ipv4() == target.is_ipv4();
    match local.map(|local| local.net) {
        Some(net) if !same(&net) => {
            let why = format!(
                "the local address {} and the server {} are of different families",
                net.addr(),
                target.ip()
            );
            Err(Failure::input(anyhow::anyhow!(why)))
        }
        local => Ok(local.filter(|net| !net.addr().is_unspecified())),
    }
}

/// Returns the cores of `threads` threads: none for one thread, which may run on any.
fn cores(threads: u32, clients: u32, say: &mut dyn FnMut(String)) -> Vec<usize> {
    let wanted = threads.clamp(1, clients.max(1)) as usize;
    if wanted == 1 {
        return Vec::new();
    }
    let allowed = CpuList::allowed();
    if wanted > allowed.count() {
        say(format!("-T {threads}: there is a thread for each of {} cores", allowed.count()));
    }
    allowed.cpus().iter().copied().take(wanted).collect()
}

/// Returns the connections of `clients` over a transport.
fn connecting(transport: Transport, clients: u32) -> Connecting {
    Connecting { clients, ..Connecting::over(transport) }
}

/// Returns the return codes of the replies and their numbers, by code.
fn rcodes(trial: &Trial) -> Vec<(&str, u64)> {
    let mut all: Vec<(&str, u64)> =
        trial.rcodes.iter().map(|(code, n)| (code.as_str(), *n)).collect();
    all.sort_by_key(|(code, _)| {
        RCODES.iter().position(|known| known == code).unwrap_or(RCODES.len())
    });
    all
}

/// Returns the line with the return codes, as dnsperf and resperf print it.
fn response_codes(trial: &Trial) -> String {
    let share = |(code, n): (&str, u64)| {
        format!("{code} {n} ({:.2}%)", n as f64 * 100.0 / trial.answered.max(1) as f64)
    };
    let all: Vec<String> = rcodes(trial).into_iter().map(share).collect();
    format!("  Response codes:       {}\n", all.join(", "))
}

/// Returns the words after the name of a tool on the command line.
fn words_of(tool: &str) -> String {
    let words = process::words().skip_while(|word| !word.ends_with(tool)).skip(1);
    words.collect::<Vec<_>>().join(" ")
}

/// Prints what the tool prints, and then our report: checks, limiter, warnings.
fn finish(theirs: &str, trial: &Trial) -> Result<(), Failure> {
    print(|out| write!(out, "{theirs}\ndnsdyno's checks:\n\n{}", report::trial(trial)))
}

/// Returns a share in per cent; 0 if `all` is 0.
fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 * 100.0 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_with_the_name_of_a_tool_is_its_command() {
        for (line, wanted) in [
            ("/usr/bin/dnsperf -s ::1", "dnsdyno dnsperf -s ::1"),
            ("kxdpgun", "dnsdyno kxdpgun"),
            ("./resperf -h", "dnsdyno resperf -h"),
            ("/usr/bin/dnsdyno load x", "/usr/bin/dnsdyno load x"),
            ("dnsperf2 -h", "dnsperf2 -h"),
        ] {
            let found = words(line.split(' ').map(OsString::from));
            assert_eq!(found.join(std::ffi::OsStr::new(" ")), wanted);
        }
        assert!(words(std::iter::empty()).is_empty());
    }
}
