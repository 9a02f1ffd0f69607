//! `dnsdyno agent`: watches a server on this host for a remote Tester, or starts one for it; the Tester starts it by ssh.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TrySendError};
use std::time::{Duration, Instant};

use clap::Args;
use lab::Refusal;
use lab::agent::{allowed_cpus, boot_id, named, own_addresses};
use lab::message::{Greeting, Order, Reply, Seen, each, encode};
use lab::probe::{HostLosses, HostProbe, Sending};
use lab::{CpuList, Entered, LabNetwork, ServerHost};
use measure::Nanos;
use measure::stall::Side;
use nix::unistd::getpgrp;
use tester::CoreWatch;

use crate::arguments::remote;
use crate::failure::Failure;
use crate::process::outside;

pub(crate) const NOTES: &str = "`dnsdyno load --dut HOST` and `dnsdyno run --dut HOST` start the \
    agent on the server's host and remove it. The agent reads orders from its standard input, one \
    line of JSON each, and ends with that input, or after half a minute without a message from the Tester. With --start-servers the servers that the agent has started end with it, even if it is killed.";

/// Time within which the first order must come: the program may still be copied to other hosts.
const FIRST_ORDER_WAIT: Duration = Duration::from_secs(300);
/// Longest time without a message from the Tester.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// Longest sleep between two checks whether the wait is over or interrupted.
const WAIT_STEP: Duration = Duration::from_millis(500);
/// Longest time until a trial begins, in seconds: a year and a day.
const MAX_LEAD_S: f64 = 366.0 * 86_400.0;

/// Name of the process group of the process outside of the lab, which is handed to the one inside.
const GROUP: &str = "group";

/// Number of orders that wait to be carried out.
const MAX_WAITING: usize = 16;

#[derive(Args, Clone, Debug)]
pub(crate) struct AgentArgs {
    /// Watch a running server: the name of its processes
    #[arg(long, value_name = "NAME", value_parser = remote::process, required_unless_present = "start_servers")]
    process: Option<String>,
    /// Start servers for the Tester, in a pid namespace that ends with this process
    #[arg(long, conflicts_with_all = ["process", "cpus"])]
    start_servers: bool,
    /// The server's cores [default: the cores on which its processes may run]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
}

/// What is watched during a trial.
enum WatchTarget<'a> {
    /// A server that the user runs.
    Known { name: String, pids: Vec<u32>, cpus: Option<CpuList> },
    /// A server of the lab that this agent started.
    Started(Box<ServerHost<'a>>),
}

impl WatchTarget<'_> {
    /// Finds the server that the user runs.
    fn known(name: &str, cpus: Option<&CpuList>) -> Result<Self, String> {
        let (pids, name) = (named(name), name.to_owned());
        if pids.is_empty() {
            return Err(format!("no process is named `{name}` (as `ps -eo comm` shows it)"));
        }
        Ok(WatchTarget::Known { name, pids, cpus: cpus.cloned() })
    }

    /// Returns the processes and the cores of the target.
    fn place(&self) -> (Vec<u32>, CpuList) {
        match self {
            WatchTarget::Known { pids, cpus, .. } => {
                let cpus = cpus.clone().or_else(|| allowed_cpus(pids));
                (pids.clone(), cpus.unwrap_or_else(CpuList::allowed))
            }
            WatchTarget::Started(host) => (host.pids(), host.cpus()),
        }
    }

    /// Returns the number of messages that an AuthDNS has got, the question included; `None` of another server.
    fn queries(&self) -> Option<u64> {
        match self {
            WatchTarget::Known { .. } => None,
            WatchTarget::Started(host) => host.queries(),
        }
    }

    /// Looks for the server again, if the server was restarted since the last trial.
    fn look_again(&mut self) {
        if let WatchTarget::Known { name, pids, .. } = self
            && !alive(pids)
        {
            *pids = named(name);
        }
    }
}

/// Returns whether all processes run.
fn alive(pids: &[u32]) -> bool {
    !pids.is_empty() && pids.iter().all(|pid| lab::testbed::procfs::read_stat(*pid).is_some())
}

/// A trial that is watched.
struct Trial {
    pids: Vec<u32>,
    probe: HostProbe,
    cores: CoreWatch,
    /// Messages that an AuthDNS had received before the trial.
    queries: Option<u64>,
}

/// The agent: what it watches, and whether a trial runs.
struct Agent<'a> {
    watched: WatchTarget<'a>,
    /// When a trial will begin, and the number of messages that the AuthDNS had received when the
    /// trial was announced.
    due: Option<(Instant, Option<u64>)>,
    /// Whether the server's programs in the kernel are counted in it.
    count_programs: bool,
    trial: Option<Trial>,
}

impl Agent<'_> {
    /// Carries out an order; returns the reply, if it has one.
    fn reply(&mut self, order: &Order) -> Option<Reply> {
        if let WatchTarget::Started(host) = &mut self.watched
            && let Some(reply) = host.reply(order)
        {
            return Some(reply);
        }
        Some(match *order {
            Order::Alive => return None,
            Order::Clock { number } => {
                Reply::Clock { number, now_ns: engine::clock::monotonic().0 }
            }
            Order::Begin { in_s, count_programs } => {
                self.count_programs = count_programs;
                let at = Instant::now() + Duration::from_secs_f64(in_s.clamp(0.0, MAX_LEAD_S));
                (self.trial, self.due) = (None, Some((at, self.watched.queries())));
                self.begin_if_due();
                Reply::Begun
            }
            Order::End(ref sending) => {
                // A trial may end before the time at which it was to begin.
                self.due = self.due.map(|(at, queries)| (at.min(Instant::now()), queries));
                self.begin_if_due();
                match self.trial.take() {
                    Some(trial) => {
                        let queries = self.watched.queries();
                        Reply::Seen(Box::new(trial.end(sending, queries)))
                    }
                    None => refusal("no trial had begun"),
                }
            }
            _ => refusal("this agent only watches: it was started without --start-servers"),
        })
    }

    /// Begins to watch a trial, when it is time.
    fn begin_if_due(&mut self) {
        let Some((_, queries)) = self.due.take_if(|(at, _)| *at <= Instant::now()) else { return };
        self.watched.look_again();
        let (pids, cpus) = self.watched.place();
        let sides: Vec<_> = cpus.cpus().iter().map(|cpu| (Side::Dut, *cpu)).collect();
        let probe = HostProbe::begin(pids.clone(), cpus, self.count_programs);
        let cores = CoreWatch::start(sides);
        self.trial = Some(Trial { pids, probe, cores, queries });
    }

    /// Returns the longest wait for the next order.
    fn step(&self) -> Duration {
        let left = self.due.map(|(at, _)| at.saturating_duration_since(Instant::now()));
        left.map_or(WAIT_STEP, |left| left.min(WAIT_STEP))
    }

    /// Carries out orders until the Tester disconnects, or the user ends this process.
    fn serve(&mut self, orders: &Receiver<Request>, ended: &AtomicBool) -> Result<(), Failure> {
        let (mut heard, mut patience) = (Instant::now(), FIRST_ORDER_WAIT);
        while !ended.load(Ordering::Relaxed) {
            let order = orders.recv_timeout(self.step());
            self.begin_if_due();
            let order = match order {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) if heard.elapsed() < patience => continue,
                // The Tester ended, or its link broke.
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return Ok(()),
            };
            let reply = match order {
                Ok(order) => self.reply(&order),
                Err(why) => Some(refusal(&format!("not an order: {why}"))),
            };
            if let Some(reply) = reply {
                say(&reply).map_err(Failure::run)?;
            }
            (heard, patience) = (Instant::now(), MAX_SILENCE);
        }
        Ok(())
    }
}

impl Trial {
    /// Returns the observations; `queries` is the number of messages that an AuthDNS received so
    /// far.
    fn end(self, sending: &Sending, queries: Option<u64>) -> Seen {
        // The second count includes the query that asked for it.
        let queries = queries.zip(self.queries).map(|(now, then)| now.saturating_sub(then + 1));
        let disturbances = self.cores.end(Nanos::ZERO..=Nanos::MAX);
        let (usage, HostLosses { receive_drops, not_taken }) =
            self.probe.end(sending, &disturbances.watched);
        let alive = alive(&self.pids);
        Seen { usage, receive_drops, not_taken, queries, disturbances, alive }
    }
}

pub(crate) fn run(args: &AgentArgs) -> Result<(), Failure> {
    let Some(process) = &args.process else { return start() };
    let watched = match WatchTarget::known(process, args.cpus.as_ref()) {
        Ok(watched) => watched,
        Err(why) => return refuse(&why),
    };
    let (pids, cpus) = watched.place();
    let greeting = Greeting {
        processes: pids.len(),
        cpus: cpus.cpus().to_vec(),
        group: getpgrp().as_raw(),
        ..greeting()
    };
    let ended = Arc::new(AtomicBool::new(false));
    say(&Reply::Ready(Box::new(greeting))).map_err(Failure::run)?;
    Agent { watched, due: None, count_programs: false, trial: None }
        .serve(&orders(ended.clone()), &ended)
}

/// Starts parts for the Tester, in a pid namespace.
fn start() -> Result<(), Failure> {
    // Process ids differ inside the pid namespace, so the group is read before.
    let group = (GROUP, getpgrp().as_raw().to_string());
    let lab = match lab::enter_with(&[group], LabNetwork::Outside) {
        Ok(Entered::Inside(lab)) => lab,
        Ok(Entered::Outside(code)) => return outside(code),
        Err(error) => return refuse(&error.to_string()),
    };
    let host = match ServerHost::new(&lab) {
        Ok(host) => Box::new(host),
        Err(error) => return refuse(&error.to_string()),
    };
    let group = lab::handed(GROUP).and_then(|group| group.parse().ok());
    let greeting = Greeting {
        cpus: lab.allowed_cpus().cpus().to_vec(),
        root: lab.privileged(),
        group: group.unwrap_or_default(),
        ..greeting()
    };
    say(&Reply::Ready(Box::new(greeting))).map_err(Failure::run)?;
    // A start in progress is cancelled when the Tester disconnects.
    let ended = lab.interrupted().clone();
    let orders = orders(ended.clone());
    Agent { watched: WatchTarget::Started(host), due: None, count_programs: false, trial: None }
        .serve(&orders, &ended)
}

/// Returns the greeting of an agent.
fn greeting() -> Greeting {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Greeting { version, addresses: own_addresses(), boot_id: boot_id(), ..Greeting::default() }
}

/// Sends the reason why the order cannot be carried out.
fn refuse(why: &str) -> Result<(), Failure> {
    say(&refusal(why)).map_err(Failure::run)?;
    Err(Failure::Silent)
}

/// Returns the reply to an order that failed.
fn refusal(why: &str) -> Reply {
    Reply::Refused(Refusal::Failed(why.to_owned()))
}

/// A received order, or the error in it.
type Request = Result<Order, String>;

/// Reads orders on a thread; `ended` is set at their end, also while an order is carried out.
fn orders(ended: Arc<AtomicBool>) -> Receiver<Request> {
    let (sender, orders) = mpsc::sync_channel(MAX_WAITING);
    std::thread::spawn(move || {
        each(io::stdin(), |order: Request| match order {
            // One queued keep-alive is enough.
            Ok(Order::Alive) => {
                !matches!(sender.try_send(order), Err(TrySendError::Disconnected(_)))
            }
            order => sender.send(order).is_ok(),
        });
        ended.store(true, Ordering::Relaxed);
    });
    orders
}

fn say(reply: &Reply) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(&encode(reply))?;
    out.flush()
}
