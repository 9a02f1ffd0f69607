//! The conductor: one trial on all Testers, from the slices to the merged record.
//!
//! ```text
//! hello ─> prepare, all ─> clocks ─> start at T, each by its own clock ─> counters, parts ─> clocks ─> merge
//!             └── a Tester that is lost before the start costs nothing: the slices are assigned again, if enough are left
//! ```

mod trial;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use engine::clock;
use lab::message::{Greeting, Order, Reply, decode, encode};
use measure::{Nanos, Reading};

use crate::link::Link;

/// Number of times that two clocks are compared; the shortest round trip counts.
const PINGS: usize = 40;
/// Interval between checks for a message.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Interval of the messages that keep Testers alive.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Time limits of the conductor, and how many Testers it needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Time within which all Testers must be there.
    pub hello: Duration,
    /// Time without a message after which a Tester is lost; it sends two a second.
    pub silence: Duration,
    /// Time within which a request must be checked and its files read.
    pub prepare: Duration,
    /// Time within which a ping must be returned.
    pub ping: Duration,
    /// Time from the order to start to the start; sockets are opened in its last second.
    pub lead: Duration,
    /// Time of a trial beside its sending and its last timeout.
    pub reserve: Duration,
    /// Time within which interrupted Testers must report: `mpirun` kills a process one second after SIGTERM.
    pub stopping: Duration,
    /// Fewest Testers that run a trial; all that the job has if absent.
    pub least: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            hello: Duration::from_secs(60),
            silence: Duration::from_secs(10),
            prepare: Duration::from_secs(300),
            ping: Duration::from_secs(2),
            lead: Duration::from_secs(2),
            reserve: Duration::from_secs(30),
            stopping: Duration::from_millis(700),
            least: None,
        }
    }
}

/// The conductor of a job.
#[derive(Debug)]
pub struct Conductor<L> {
    link: L,
    version: String,
    command: String,
    limits: Limits,
    /// The Testers, by their ranks from 1 on.
    testers: Vec<Tester>,
    /// Reports that came while another one was waited for.
    inbox: VecDeque<(usize, Reply)>,
    /// Number of the trial, and of the ping.
    trial: u64,
    ping: u64,
    /// Time of the last keep-alive to the Testers.
    told: Instant,
}

/// State of a Tester, as the conductor knows it.
#[derive(Clone, Debug)]
struct Tester {
    /// Name of the agent in messages: its rank; once it has said hello, its host and process too.
    name: String,
    /// Whether the Tester has sent its greeting.
    is_there: bool,
    /// Time of the Tester's last message.
    heard: Instant,
    /// Reason why the Tester is lost; `None` if it is not.
    lost: Option<String>,
    /// Counters of the running trial.
    counters: [u64; 5],
}

impl Tester {
    fn new(rank: usize) -> Self {
        let heard = Instant::now();
        let name = format!("rank {rank}");
        Tester { name, is_there: false, heard, lost: None, counters: [0; 5] }
    }
}

impl<L: Link> Conductor<L> {
    /// Waits until all Testers of the same version are there. `command` is the command line, for
    /// records.
    pub fn gather(link: L, version: &str, command: &str, limits: Limits) -> Self {
        let testers = (1..link.size()).map(Tester::new).collect();
        let (version, command) = (version.to_owned(), command.to_owned());
        let told = Instant::now();
        let inbox = VecDeque::new();
        let mut conductor =
            Conductor { link, version, command, limits, testers, inbox, trial: 0, ping: 0, told };
        let deadline = Instant::now() + limits.hello;
        while Instant::now() < deadline && conductor.testers.iter().any(|t| !t.is_there) {
            if conductor.receive().is_none() {
                std::thread::sleep(CHECK_INTERVAL);
            }
        }
        for index in 0..conductor.testers.len() {
            if !conductor.testers[index].is_there {
                conductor.lose(index, format!("it sent no message within {:?}", limits.hello));
            }
        }
        conductor
    }

    /// Returns the Testers that are lost, each with the reason.
    pub fn lost(&self) -> impl Iterator<Item = (&str, &str)> {
        self.testers.iter().filter_map(|t| Some((t.name.as_str(), t.lost.as_deref()?)))
    }

    /// Tells all Testers to leave; returns the link.
    pub fn end(mut self) -> L {
        for index in 0..self.testers.len() {
            // Lost Testers get the order too: they may be reachable again.
            self.order(index, &Order::Leave);
        }
        self.link
    }

    /// Returns the Testers that are not lost.
    fn living(&self) -> Vec<usize> {
        (0..self.testers.len()).filter(|index| self.testers[*index].lost.is_none()).collect()
    }

    /// Notes that a Tester is lost.
    fn lose(&mut self, index: usize, why: String) {
        self.testers[index].lost.get_or_insert(why);
    }

    fn order(&mut self, index: usize, order: &Order) {
        self.link.send(index + 1, &encode(order));
    }

    /// Returns the next report, with its Tester; `None` if there is none. Greetings and counters are taken in here.
    fn receive(&mut self) -> Option<(usize, Reply)> {
        if let Some(report) = self.inbox.pop_front() {
            return Some(report);
        }
        loop {
            let (index, report) = self.poll()?;
            if let Some(report) = report.and_then(|report| self.take_in(index, report)) {
                return Some((index, report));
            }
        }
    }

    /// Returns the next message; a Tester whose message cannot be read is lost.
    fn poll(&mut self) -> Option<(usize, Option<Reply>)> {
        let (from, message) = self.link.poll()?;
        let index = from.checked_sub(1)?;
        self.testers[index].heard = Instant::now();
        let report = decode(&message).map_err(|found| {
            self.lose(index, format!("not a message of this program: {found}"));
        });
        Some((index, report.ok()))
    }

    /// Takes in greetings, counters and late times; returns other reports.
    fn take_in(&mut self, index: usize, report: Reply) -> Option<Reply> {
        let tester = &mut self.testers[index];
        match report {
            Reply::Ready(greeting) => {
                let Greeting { version, host, pid, .. } = *greeting;
                tester.name = format!("rank {} (host {host}, process {pid})", index + 1);
                tester.is_there = true;
                if version != self.version {
                    let own = &self.version;
                    let why = format!("the Tester has version {version}, the conductor {own}");
                    self.lose(index, why);
                }
                None
            }
            Reply::Counters { counters, .. } => {
                tester.counters = counters;
                None
            }
            Reply::Clock { .. } => None,
            other => Some(other),
        }
    }

    /// Sleeps after all pending messages were received: gives up Testers that were silent for too
    /// long, and sends the others a keep-alive when it is due.
    fn nap(&mut self) {
        let limit = self.limits.silence;
        for index in self.living() {
            if self.testers[index].heard.elapsed() > limit {
                let why = format!(
                    "no message within {limit:?}: it died or hangs, or the link to its host is down"
                );
                self.lose(index, why);
            }
        }
        if self.told.elapsed() > KEEPALIVE_INTERVAL {
            self.told = Instant::now();
            self.living().into_iter().for_each(|index| self.order(index, &Order::Alive));
        }
        std::thread::sleep(CHECK_INTERVAL);
    }

    /// Compares the clock of a Tester with this host's clock; the Tester is lost if it does not
    /// reply.
    fn compare_clock(&mut self, index: usize) -> Option<Reading> {
        let mut best = None;
        for _ in 0..PINGS {
            let Some(reading) = self.ping(index) else {
                let why = format!("it did not return a ping within {:?}", self.limits.ping);
                self.lose(index, why);
                return None;
            };
            best = Some(reading.better(best));
        }
        best
    }

    /// Sends a ping and waits for its return without sleeping; other reports wait in the inbox.
    fn ping(&mut self, index: usize) -> Option<Reading> {
        self.ping += 1;
        let message = encode(&Order::Clock { number: self.ping });
        let deadline = Instant::now() + self.limits.ping;
        let sent = clock::realtime();
        self.link.send(index + 1, &message);
        while Instant::now() < deadline {
            let polled = self.poll();
            let now = clock::realtime();
            match polled {
                Some((from, Some(Reply::Clock { number, now_ns })))
                    if from == index && number == self.ping =>
                {
                    return Some(Reading::of_round_trip(sent, Nanos(now_ns), now));
                }
                Some((from, Some(report))) => {
                    let report = self.take_in(from, report);
                    self.inbox.extend(report.map(|report| (from, report)));
                }
                Some((_, None)) => {}
                None => std::thread::yield_now(),
            }
        }
        None
    }

    /// Waits, and keeps the Testers alive.
    pub fn pause(&mut self, time: Nanos) {
        let until = Instant::now() + Duration::from(time);
        while Instant::now() < until {
            match self.receive() {
                Some((index, report)) => self.handle_unsolicited(index, &report),
                None => self.nap(),
            }
        }
    }

    /// Handles a report that is not the reply to an order.
    fn handle_unsolicited(&mut self, index: usize, report: &Reply) {
        if *report == Reply::Leaving {
            self.lose(index, "a signal ended it".to_owned());
        }
    }
}
