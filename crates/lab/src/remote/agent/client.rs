//! The Tester's side: gives the agent orders, and ends it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use measure::{Nanos, Reading};

use super::line::{AgentLine, InheritedLine};
use super::reached::boot_id;
use super::shell::{Remote, Shell};
use crate::probe::{Sending, monotonic};
use crate::remote::connection::{Connection, REPLY_TIMEOUT};
use crate::remote::error::{Peer, RemoteError};
use crate::remote::message::{Greeting, LaunchedPart, Order, PartState, Reply, Seen};
use crate::remote::parts::{Part, Source};

/// Time within which the agent must stop its server.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// Number of times that the clocks are compared; the shortest round trip counts.
const CLOCK_COMPARISONS: u64 = 8;

/// A running agent; it ends when this is dropped.
#[derive(Debug)]
pub struct Agent {
    host: String,
    greeting: Greeting,
    // This field is dropped first: the connection ends before the wait for the shell.
    connection: Connection,
    /// Absent if another process has started it.
    _shell: Option<Shell>,
}

impl Agent {
    /// Starts the agent on a host, of the version `version`.
    ///
    /// # Errors
    /// If the host cannot be reached, or the agent cannot do its task there.
    pub fn start(remote: &Remote, version: &str) -> Result<Self, RemoteError> {
        let AgentLine { orders, replies, greeting, host, shell } =
            AgentLine::open(remote, version)?;
        let connection = Connection::new(Peer::Agent(host.clone()), orders, replies);
        Ok(Agent { host, greeting, connection, _shell: Some(shell) })
    }

    /// Makes an agent of the line that this process has inherited; the flag `interrupted` ends waits for it.
    pub(in crate::remote) fn inherited(
        passed: InheritedLine,
        interrupted: &Arc<AtomicBool>,
    ) -> Result<Self, RemoteError> {
        let InheritedLine { host, pipes, greeting } = passed;
        let connection = Connection::inherited(Peer::Agent(host.clone()), pipes, interrupted)?;
        Ok(Agent { host, greeting, connection, _shell: None })
    }

    /// Returns the name of the agent's host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the agent's greeting.
    pub fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// Returns whether the agent's host is this one, perhaps in other namespaces: both have one
    /// kernel.
    pub fn shares_kernel(&self) -> bool {
        self.greeting.boot_id.is_some() && self.greeting.boot_id == boot_id()
    }

    /// Checks that the agent is still connected, as far as known without a message.
    ///
    /// # Errors
    /// If the remote shell has ended, or the link is known to be broken.
    pub fn check(&self) -> Result<(), RemoteError> {
        self.connection.check()
    }

    /// Announces to the agent that a trial begins after `time`, and whether the server's programs
    /// in the kernel are counted.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn begin_after(&mut self, time: Duration, count_programs: bool) -> Result<(), RemoteError> {
        let order = Order::Begin { in_s: time.as_secs_f64(), count_programs };
        match self.connection.ask(&order, REPLY_TIMEOUT)? {
            Reply::Begun => Ok(()),
            other => Err(self.connection.unexpected_reply(&other)),
        }
    }

    /// Announces the end of the trial to the agent, and returns its observations, with stalls on
    /// this host's `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn end(&mut self, sending: &Sending) -> Result<Seen, RemoteError> {
        let clock = self.compare_clocks()?;
        let sending = Sending { from: clock.there(sending.from), ..*sending };
        match self.connection.ask(&Order::End(sending), REPLY_TIMEOUT)? {
            Reply::Seen(mut seen) => {
                seen.move_clock(&clock);
                Ok(*seen)
            }
            other => Err(self.connection.unexpected_reply(&other)),
        }
    }

    /// Returns the run time of the server's own process so far, in nanoseconds.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn run_time(&mut self) -> Result<u64, RemoteError> {
        match self.connection.ask(&Order::RunTime, REPLY_TIMEOUT)? {
            Reply::RunTime { ran_ns } => Ok(ran_ns),
            other => Err(self.connection.unexpected_reply(&other)),
        }
    }

    /// Looks for a server on the agent's host; returns its version, if it prints one.
    ///
    /// # Errors
    /// If it is not installed there.
    pub fn find(&mut self, source: &Source) -> Result<Option<String>, RemoteError> {
        match self.connection.ask(&Order::Find { source: source.clone() }, REPLY_TIMEOUT)? {
            Reply::Found { version } => Ok(version),
            other => Err(self.connection.unexpected_reply(&other)),
        }
    }

    /// Starts a part on the agent's host, and waits at most `limit` until it answers there.
    ///
    /// # Errors
    /// If it does not answer, with the end of its log; the error also says if the host cannot run
    /// it.
    pub fn launch(&mut self, part: &Part, limit: Duration) -> Result<LaunchedPart, RemoteError> {
        match self.connection.ask(&Order::Start(part.clone()), limit)? {
            Reply::Started(launched) => Ok(*launched),
            other => Err(self.connection.unexpected_reply(&other)),
        }
    }

    /// Returns the state of the part.
    ///
    /// # Errors
    /// If the agent is gone, or has started none.
    pub fn collect(&mut self) -> Result<PartState, RemoteError> {
        match self.connection.ask(&Order::Collect, REPLY_TIMEOUT)? {
            Reply::Collected(collected) => Ok(*collected),
            other => Err(self.connection.unexpected_reply(&other)),
        }
    }

    /// Stops the part.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn stop(&mut self) -> Result<(), RemoteError> {
        match self.connection.ask(&Order::Stop, STOP_LIMIT)? {
            Reply::Stopped => Ok(()),
            other => Err(self.connection.unexpected_reply(&other)),
        }
    }

    /// Compares `CLOCK_MONOTONIC` of the agent's host and of this host, by the shortest of several
    /// round trips.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn compare_clocks(&mut self) -> Result<Reading, RemoteError> {
        let mut best = self.compare_once(0)?;
        for number in 1..CLOCK_COMPARISONS {
            best = self.compare_once(number)?.better(Some(best));
        }
        Ok(best)
    }

    fn compare_once(&mut self, number: u64) -> Result<Reading, RemoteError> {
        let sent = monotonic();
        match self.connection.ask(&Order::Clock { number }, REPLY_TIMEOUT)? {
            Reply::Clock { now_ns, .. } => {
                Ok(Reading::of_round_trip(sent, Nanos(now_ns), monotonic()))
            }
            other => Err(self.connection.unexpected_reply(&other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::agent::AgentTask;
    use crate::remote::error::Refusal;

    /// A remote shell that runs `script` here.
    fn here(script: &str) -> Remote {
        Remote {
            host: "somewhere".to_owned(),
            shell: ["sh", "-c", script].map(str::to_owned).to_vec(),
            task: AgentTask::Watch { process: "x".to_owned(), cpus: None },
            program: Some("dnsdyno".to_owned()),
        }
    }

    const READY: &str = r#"echo '{"ready":{"version":"1","processes":1}}'"#;

    #[test]
    fn agents_that_are_none_are_told() {
        let table = [
            ("exit 3".to_owned(), "somewhere: the agent is gone"),
            ("echo hello".to_owned(), "somewhere: the agent sent an unexpected message: hello"),
            (
                r#"echo '{"refused":{"failed":"no process x"}}'"#.to_owned(),
                "somewhere: no process x",
            ),
            (READY.replace("\"1\"", "\"0\""), "the agent has version 0, this program 1"),
            (r#"echo '"begun"'"#.to_owned(), "the agent sent an unexpected message: Begun"),
        ];
        for (script, why) in table {
            let error = Agent::start(&here(&script), "1").map(|_| ()).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
        let mut agent = Agent::start(&here(READY), "1").expect("it is ready");
        let error = agent.begin_after(Duration::ZERO, false);
        let error = error.expect_err("it has ended").to_string();
        assert!(error.contains("the agent is gone"), "{error}");
        let mut nowhere = here("");
        nowhere.shell = vec!["/nonexistent/ssh".to_owned()];
        let error = Agent::start(&nowhere, "1").map(|_| ()).expect_err("no shell").to_string();
        assert!(error.contains("cannot start `/nonexistent/ssh`"), "{error}");
    }

    #[test]
    fn an_agent_that_refuses_goes_on() {
        let replies = r#"while read -r order; do case "$order" in
            *clock*) echo '{"clock":{"number":0,"now_ns":1}}';;
            *run-time*) echo '{"run-time":{"ran_ns":7}}';;
            *stop*) echo '{"refused":{"cannot":"never"}}';;
            *) echo '{"refused":{"failed":"not now"}}';; esac; done"#;
        let mut agent = Agent::start(&here(&format!("{READY}; {replies}")), "1").expect("ready");
        let error = agent.collect().expect_err("refused").to_string();
        assert_eq!(error, "somewhere: not now");
        let error = agent.stop().expect_err("it cannot");
        let RemoteError::Refused { why, .. } = error else { panic!("{error}") };
        assert_eq!(why, Refusal::Cannot("never".to_owned()));
        assert_eq!(agent.run_time().expect("a time"), 7);
        assert!(agent.compare_clocks().expect("a clock").offset_ns < 0);
    }

    #[test]
    fn a_stopped_agent_goes_on_to_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let done = folder.path().join("done");
        // The same shell executes the order to go on: its second word.
        let script = format!(
            r#"case "$2" in kill*) eval "$2"; exit;; esac
            echo '{{"ready":{{"version":"1","group":'$$'}}}}'; kill -STOP $$; cat >/dev/null; echo >{}"#,
            done.display()
        );
        let mut remote = here(&script);
        remote.shell.push("sh".to_owned());
        drop(Agent::start(&remote, "1").expect("it is ready"));
        assert!(done.exists());
    }

    #[test]
    fn an_interrupted_start_is_not_waited_for() {
        let script = format!("{READY}; cat >/dev/null");
        let mut agent = Agent::start(&here(&script), "1").expect("ready");
        agent.connection.interrupted = Arc::new(AtomicBool::new(true));
        let error = agent.stop().expect_err("interrupted");
        assert!(matches!(error, RemoteError::Interrupted { .. }), "{error}");
        let error = agent.run_time().expect_err("its reply would be another's");
        assert!(matches!(error, RemoteError::Lost(..)), "{error}");
    }
}
