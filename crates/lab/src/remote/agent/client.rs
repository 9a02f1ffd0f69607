//! The Tester's side: gives the agent orders, and ends it.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use super::error::AgentError;
use super::line::{Line, MOST, Passed, shown};
use super::message::{Collected, Greeting, Launched, Order, Part, Reply, Seen, Source};
use super::reached::boot_id;
use super::shell::{Remote, Shell};

/// Time within which it must reply.
const REPLY: Duration = Duration::from_secs(20);
/// Time within which it must stop what it has started.
const STOP: Duration = Duration::from_secs(60);
/// Interval between signs that the Tester is still there; an agent that misses them ends.
const ALIVE: Duration = Duration::from_secs(5);
/// Longest step of a wait.
const STEP: Duration = Duration::from_millis(100);
/// Number of times that the clocks are compared; the shortest round trip counts.
const CLOCKS: usize = 8;
/// Number of orders and of replies that wait.
const WAITING: usize = 16;

/// A running agent; it ends when this is dropped.
#[derive(Debug)]
pub struct Agent {
    host: String,
    greeting: Greeting,
    /// Absent only at the end.
    orders: Option<SyncSender<Vec<u8>>>,
    replies: Receiver<String>,
    /// Set at the end of its replies.
    ended: Arc<AtomicBool>,
    /// Set when the user interrupts the Tester.
    interrupted: Option<Arc<AtomicBool>>,
    /// How long it was waited for in vain: a late reply would be taken for that to another order.
    lost: Option<Duration>,
    /// Absent if another process has started it.
    _shell: Option<Shell>,
}

impl Agent {
    /// Starts the agent on a host, of the version `version`.
    ///
    /// # Errors
    /// If the host cannot be reached, or the agent cannot do its task there.
    pub fn start(remote: &Remote, version: &str) -> Result<Self, AgentError> {
        Line::open(remote, version).map(Self::over)
    }

    /// Makes an agent of its line.
    pub fn over(line: Line) -> Self {
        let Line { orders, replies, greeting, host, shell } = line;
        Self::with(host, greeting, orders, replies, Some(shell))
    }

    /// Makes an agent of the line that this process has inherited.
    pub(super) fn inherited(passed: &Passed) -> Result<Self, AgentError> {
        let host = passed.host.clone();
        let taken = passed.pipes.take();
        let (orders, replies) = taken.map_err(|_| AgentError::Gone { host: host.clone() })?;
        Ok(Self::with(host, passed.greeting.clone(), orders, replies, None))
    }

    fn with(
        host: String,
        greeting: Greeting,
        mut orders: impl Write + Send + 'static,
        replies: impl Read + Send + 'static,
        shell: Option<Shell>,
    ) -> Self {
        let (sender, waiting) = mpsc::sync_channel::<Vec<u8>>(WAITING);
        std::thread::spawn(move || {
            let alive = line_of(&Order::Alive);
            loop {
                let line = match waiting.recv_timeout(ALIVE) {
                    Ok(line) => line,
                    Err(RecvTimeoutError::Timeout) => alive.clone(),
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                if orders.write_all(&line).is_err() {
                    return;
                }
            }
        });
        let (heard, received) = mpsc::sync_channel(WAITING);
        let ended = Arc::new(AtomicBool::new(false));
        let at_end = ended.clone();
        std::thread::spawn(move || {
            let mut replies = BufReader::new(replies);
            loop {
                let mut line = String::new();
                match replies.by_ref().take(MOST).read_line(&mut line) {
                    Ok(1..) if heard.send(line).is_ok() => {}
                    _ => return at_end.store(true, Ordering::Relaxed),
                }
            }
        });
        Agent {
            host,
            greeting,
            orders: Some(sender),
            replies: received,
            ended,
            interrupted: None,
            lost: None,
            _shell: shell,
        }
    }

    /// Lets `flag` interrupt waits for the agent.
    pub fn heed(&mut self, flag: &Arc<AtomicBool>) {
        self.interrupted = Some(Arc::clone(flag));
    }

    /// Returns the name of its host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns what it said of itself.
    pub fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// Returns whether its host is this one, perhaps in other namespaces: both have one kernel.
    pub fn shares_kernel(&self) -> bool {
        self.greeting.boot_id.is_some() && self.greeting.boot_id == boot_id()
    }

    /// Checks that it is still there, as far as that shows without asking it.
    ///
    /// # Errors
    /// If the remote shell has ended, or the link is known to be broken.
    pub fn check(&self) -> Result<(), AgentError> {
        if self.ended.load(Ordering::Relaxed) { Err(self.gone()) } else { Ok(()) }
    }

    /// Tells it that a trial begins after `time`.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn begin_in(&mut self, time: Duration) -> Result<(), AgentError> {
        match self.ask(&Order::Begin { in_s: time.as_secs_f64() }, REPLY)? {
            Reply::Begun => Ok(()),
            other => Err(self.strange(&other)),
        }
    }

    /// Tells it that the trial has ended, and returns what it saw, with stalls on this host's `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn end(&mut self, sending_s: f64) -> Result<Seen, AgentError> {
        let ahead_ns = self.compare_clocks()?;
        match self.ask(&Order::End { sending_s }, REPLY)? {
            Reply::Seen(mut seen) => {
                seen.move_clock(ahead_ns);
                Ok(*seen)
            }
            other => Err(self.strange(&other)),
        }
    }

    /// Returns how long the server's own process ran until now, in nanoseconds.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn run_time(&mut self) -> Result<u64, AgentError> {
        match self.ask(&Order::RunTime, REPLY)? {
            Reply::RunTime { ran_ns } => Ok(ran_ns),
            other => Err(self.strange(&other)),
        }
    }

    /// Looks for a server there; returns its version, if it prints one.
    ///
    /// # Errors
    /// [`AgentError::Cannot`] if it is not installed there.
    pub fn find(&mut self, source: &Source) -> Result<Option<String>, AgentError> {
        match self.ask(&Order::Find { source: source.clone() }, REPLY)? {
            Reply::Found { version } => Ok(version),
            other => Err(self.strange(&other)),
        }
    }

    /// Starts a part there, which answers on its host when this returns, within `limit`.
    ///
    /// # Errors
    /// If it does not; with the end of its log. [`AgentError::Cannot`] if its host is not for it.
    pub fn launch(&mut self, part: &Part, limit: Duration) -> Result<Launched, AgentError> {
        match self.ask(&Order::Start(part.clone()), limit)? {
            Reply::Started(launched) => Ok(*launched),
            other => Err(self.strange(&other)),
        }
    }

    /// Returns how the part is.
    ///
    /// # Errors
    /// If the agent is gone, or has started none.
    pub fn collect(&mut self) -> Result<Collected, AgentError> {
        match self.ask(&Order::Collect, REPLY)? {
            Reply::Collected(collected) => Ok(*collected),
            other => Err(self.strange(&other)),
        }
    }

    /// Stops the part.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn stop(&mut self) -> Result<(), AgentError> {
        match self.ask(&Order::Stop, STOP)? {
            Reply::Stopped => Ok(()),
            other => Err(self.strange(&other)),
        }
    }

    /// Returns by how much this host's clock is ahead of the agent's, in nanoseconds, by the shortest of some round trips.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn compare_clocks(&mut self) -> Result<i64, AgentError> {
        let mut best: Option<(u64, i64)> = None;
        for _ in 0..CLOCKS {
            let before = monotonic();
            let now_ns = match self.ask(&Order::Clock, REPLY)? {
                Reply::Clock { now_ns } => now_ns,
                other => return Err(self.strange(&other)),
            };
            let trip = monotonic().saturating_sub(before);
            let ahead = (before + trip / 2) as i64 - now_ns as i64;
            best = best.filter(|(shortest, _)| *shortest <= trip).or(Some((trip, ahead)));
        }
        Ok(best.map_or(0, |(_, ahead)| ahead))
    }

    /// Gives it an order, and returns its reply, which must come within `limit`.
    fn ask(&mut self, order: &Order, limit: Duration) -> Result<Reply, AgentError> {
        if let Some(limit) = self.lost {
            return Err(AgentError::Silent { host: self.host.clone(), limit });
        }
        let sent = self.orders.as_ref().map(|orders| orders.try_send(line_of(order)));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.gone());
        }
        let line = self.reply(limit)?;
        let host = || self.host.clone();
        match serde_json::from_str(&line) {
            Ok(Reply::Refused { why }) => Err(AgentError::Refused { host: host(), why }),
            Ok(Reply::Cannot { why }) => Err(AgentError::Cannot { host: host(), why }),
            Ok(reply) => Ok(reply),
            Err(_) => Err(AgentError::Strange { host: host(), found: shown(&line) }),
        }
    }

    /// Waits for the next line.
    fn reply(&mut self, limit: Duration) -> Result<String, AgentError> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // The clocks are compared in the first step of a wait.
            match self.replies.recv_timeout(left.min(STEP)) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let host = || self.host.clone();
            if self.interrupted.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
                && limit > REPLY
            {
                let error = AgentError::Interrupted { host: host() };
                self.lost = Some(limit);
                return Err(error);
            }
            if left.is_zero() {
                self.lost = Some(limit);
                return Err(AgentError::Silent { host: self.host.clone(), limit });
            }
        }
    }

    fn gone(&self) -> AgentError {
        AgentError::Gone { host: self.host.clone() }
    }

    fn strange(&self, reply: &Reply) -> AgentError {
        AgentError::Strange { host: self.host.clone(), found: format!("{reply:?}") }
    }
}

impl Drop for Agent {
    /// Closes the agent's standard input, at which it ends and its files are removed.
    fn drop(&mut self) {
        self.orders = None;
    }
}

/// Returns an order as a line.
fn line_of(order: &Order) -> Vec<u8> {
    let mut line = serde_json::to_vec(order).expect("an order is plain data");
    line.push(b'\n');
    line
}

/// Reads `CLOCK_MONOTONIC`, in nanoseconds.
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::agent::Task;

    /// A remote shell that runs `script` here.
    fn here(script: &str) -> Remote {
        Remote {
            host: "somewhere".to_owned(),
            shell: ["sh", "-c", script].map(str::to_owned).to_vec(),
            task: Task::Watch { process: "x".to_owned(), cpus: None },
            program: Some("dnsdyno".to_owned()),
        }
    }

    const READY: &str = r#"echo '{"reply":"ready","version":"1","processes":1}'"#;

    #[test]
    fn agents_that_are_none_are_told() {
        let table = [
            ("exit 3".to_owned(), "the agent is gone"),
            ("echo hello".to_owned(), "this is no reply of an agent: hello"),
            (
                r#"echo '{"reply":"refused","why":"no process x"}'"#.to_owned(),
                "somewhere: no process x",
            ),
            (READY.replace("\"1\"", "\"0\""), "the agent has version 0, this program 1"),
            (r#"echo '{"reply":"begun"}'"#.to_owned(), "no reply of an agent: "),
        ];
        for (script, why) in table {
            let error = Agent::start(&here(&script), "1").map(|_| ()).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
        let mut agent = Agent::start(&here(READY), "1").expect("it is ready");
        let error = agent.begin_in(Duration::ZERO).expect_err("it has ended").to_string();
        assert!(error.contains("the agent is gone"), "{error}");
        let mut nowhere = here("");
        nowhere.shell = vec!["/nonexistent/ssh".to_owned()];
        let error = Agent::start(&nowhere, "1").map(|_| ()).expect_err("no shell").to_string();
        assert!(error.contains("cannot start `/nonexistent/ssh`"), "{error}");
    }

    #[test]
    fn an_agent_that_refuses_goes_on() {
        let replies = r#"while read -r order; do case "$order" in
            *clock*) echo '{"reply":"clock","now_ns":1}';;
            *run-time*) echo '{"reply":"run-time","ran_ns":7}';;
            *stop*) echo '{"reply":"cannot","why":"never"}';;
            *) echo '{"reply":"refused","why":"not now"}';; esac; done"#;
        let mut agent = Agent::start(&here(&format!("{READY}; {replies}")), "1").expect("ready");
        let error = agent.collect().expect_err("refused").to_string();
        assert_eq!(error, "somewhere: not now");
        let error = agent.stop().expect_err("it cannot");
        assert!(matches!(&error, AgentError::Cannot { why, .. } if why == "never"), "{error}");
        assert_eq!(agent.run_time().expect("a time"), 7);
        assert!(agent.compare_clocks().expect("a clock") > 0);
    }

    #[test]
    fn a_stopped_agent_goes_on_to_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let done = folder.path().join("done");
        // The same shell executes the order to go on: its second word.
        let script = format!(
            r#"case "$2" in kill*) eval "$2"; exit;; esac
            echo '{{"reply":"ready","version":"1","group":'$$'}}'; kill -STOP $$; cat >/dev/null; echo >{}"#,
            done.display()
        );
        let mut remote = here(&script);
        remote.shell.push("sh".to_owned());
        drop(Agent::start(&remote, "1").expect("it is ready"));
        assert!(done.exists());
    }

    #[test]
    fn an_interrupted_start_is_not_waited_for() {
        let mut agent =
            Agent::start(&here(&format!("{READY}; cat >/dev/null")), "1").expect("ready");
        agent.heed(&Arc::new(AtomicBool::new(true)));
        let error = agent.stop().expect_err("interrupted");
        assert!(matches!(error, AgentError::Interrupted { .. }), "{error}");
        let error = agent.run_time().expect_err("its reply would be another's");
        assert!(matches!(error, AgentError::Silent { .. }), "{error}");
    }
}
