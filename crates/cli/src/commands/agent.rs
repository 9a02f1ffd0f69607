//! `dnsdyno agent`: watches a server on this host for a Tester elsewhere, which starts it by ssh.

use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::Args;
use lab::CpuList;
use lab::agent::{Order, Reply, Seen, allowed_cpus, named};
use lab::probe::HostProbe;
use measure::stall::Side;
use tester::CoreWatch;

use crate::arguments::remote;
use crate::failure::Failure;

pub(crate) const NOTES: &str = "`dnsdyno load --dut HOST` starts it on the server's host and removes it. It reads orders from its \
standard input, one line of JSON each, and ends with it, or when no order comes for a minute beyond the expected end of a trial.";

/// Time within which the first order must come, and each one outside of trials.
const IDLE: Duration = Duration::from_secs(60);
/// Longest time of a trial, in seconds: a year and a day.
const MOST_S: f64 = 366.0 * 86_400.0;

/// Number of orders that wait to be carried out.
const WAITING: usize = 16;
/// Longest order, in bytes.
const LONGEST: u64 = 4_096;

/// `dnsdyno agent`
#[derive(Args, Clone, Debug)]
pub(crate) struct AgentArgs {
    /// Name of the server's processes
    #[arg(long, value_name = "NAME", value_parser = remote::process)]
    process: String,
    /// The server's cores [default: those on which its processes may run]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
}

/// A server, and what watches it during a trial.
struct Watched {
    pids: Vec<u32>,
    cpus: CpuList,
    running: Option<(HostProbe, CoreWatch)>,
}

impl Watched {
    /// Finds the server.
    fn new(args: &AgentArgs) -> Result<Self, String> {
        let pids = named(&args.process);
        if pids.is_empty() {
            return Err(format!(
                "no process is named `{}` (as `ps -eo comm` shows it)",
                args.process
            ));
        }
        let cpus = args.cpus.clone().or_else(|| allowed_cpus(&pids));
        Ok(Watched { cpus: cpus.unwrap_or_else(CpuList::allowed), pids, running: None })
    }

    /// Carries out an order; returns the reply, and how long to wait for the next order.
    fn reply(&mut self, order: &Order) -> (Reply, Duration) {
        match *order {
            Order::Clock => (Reply::Clock { now_ns: engine::clock::monotonic().0 }, IDLE),
            Order::Begin { at_most_s } => {
                let probe = HostProbe::begin(self.pids.clone(), self.cpus.clone());
                let cores = self.cpus.cpus().iter().map(|cpu| (Side::Dut, *cpu));
                self.running = Some((probe, CoreWatch::start(cores)));
                (Reply::Begun, Duration::from_secs_f64(at_most_s.clamp(0.0, MOST_S)) + IDLE)
            }
            Order::End { sending_s } => match self.running.take() {
                Some((probe, watch)) => {
                    (Reply::Seen(Box::new(self.seen(probe, watch, sending_s))), IDLE)
                }
                None => (Reply::Refused { why: "no trial had begun".to_owned() }, IDLE),
            },
        }
    }

    fn seen(&self, probe: HostProbe, watch: CoreWatch, sending_s: f64) -> Seen {
        let disturbances = watch.end();
        let (usage, receive_drops) = probe.end(sending_s, &disturbances.watched);
        let alive = self.pids.iter().all(|pid| lab::probe::procfs::read_stat(*pid).is_some());
        Seen { usage, cpus: self.cpus.cpus().to_vec(), receive_drops, disturbances, alive }
    }
}

pub(crate) fn run(args: &AgentArgs) -> Result<(), Failure> {
    let mut watched = match Watched::new(args) {
        Ok(watched) => watched,
        Err(why) => {
            say(&Reply::Refused { why }).map_err(Failure::run)?;
            return Err(Failure::Silent);
        }
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    say(&Reply::Ready { version, processes: watched.pids.len() }).map_err(Failure::run)?;
    let (sender, orders) = mpsc::sync_channel(WAITING);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = String::new();
            match input.by_ref().take(LONGEST).read_line(&mut line) {
                Ok(1..) if sender.send(line).is_ok() => {}
                _ => return,
            }
        }
    });
    let mut patience = IDLE;
    loop {
        let line = match orders.recv_timeout(patience) {
            Ok(line) => line,
            // The Tester has gone, or its link.
            Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return Ok(()),
        };
        let reply = match serde_json::from_str(&line) {
            Ok(order) => {
                let (reply, until) = watched.reply(&order);
                // Orders for the time do not shorten a trial.
                patience = if order == Order::Clock { patience } else { until };
                reply
            }
            Err(error) => Reply::Refused { why: format!("this is no order: {error}") },
        };
        say(&reply).map_err(Failure::run)?;
    }
}

/// Writes a reply.
fn say(reply: &Reply) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, reply)?;
    out.write_all(b"\n")?;
    out.flush()
}
