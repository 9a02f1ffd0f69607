//! Errors of processes on other hosts.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::testbed::enter::GIVEN_JOB;

/// A process on another host, or several that are a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The agent on a host.
    Agent(String),
    /// The Testers of a job, and their conductor.
    Job,
}

/// Reason why an order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// A further try would fail too: a program is not installed, there are too few cores, a request
    /// is wrong.
    #[error("{0}")]
    Cannot(String),
    /// A further try may succeed.
    #[error("{0}")]
    Failed(String),
}

impl Refusal {
    /// Returns the error with the name of the refusing host.
    pub fn by(self, name: &str) -> Self {
        match self {
            Refusal::Cannot(why) => Refusal::Cannot(format!("{name}: {why}")),
            Refusal::Failed(why) => Refusal::Failed(format!("{name}: {why}")),
        }
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Refusal::Failed(why)
    }
}

/// Error of a process on another host.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The program that starts the agent, such as ssh, cannot be started.
    #[error("cannot start `{starter}`: {source}; install it, or give its path with {option}")]
    Start {
        /// Program of the remote shell, or the starter of a job.
        starter: String,
        /// Option that takes the path of the program.
        option: &'static str,
        /// Why the program did not start.
        source: io::Error,
    },
    /// The program cannot be read or copied to the host.
    #[error(
        "cannot copy this program to {host}: {source}; name a program there with --dut-program"
    )]
    Bring {
        /// Host to which the program was to be copied.
        host: String,
        /// Why it cannot be read or sent.
        source: io::Error,
    },
    /// The environment variable by which a job starts a run is set, but is not valid.
    #[error("{GIVEN_JOB} is set, but no job has started this process: unset it")]
    NotGiven,
    /// An order was not carried out there.
    #[error("{}{why}", .peer.place())]
    Refused {
        /// The host or Tester that refused the order.
        peer: Peer,
        /// Why the order was refused, and whether a retry may help.
        why: Refusal,
    },
    /// The program there is of another version.
    #[error("{peer} has version {found}, this program {wanted}; {}", .peer.remedy())]
    Version {
        /// The host or Tester with the other version.
        peer: Peer,
        /// Version of the program there.
        found: String,
        /// Version of this program, required on the other side.
        wanted: String,
    },
    /// The link broke, or the process ended.
    #[error("{0} is gone: it ended (see standard error), or the link broke")]
    Gone(Peer),
    /// No message came in time.
    #[error("{0} did not reply within {1:?}")]
    Silent(Peer, Duration),
    /// The connection is unusable: the next message may reply to an abandoned order.
    #[error("{0} did not complete an order: start again, runs with --resume")]
    Lost(Peer),
    /// The message is no reply to the order.
    #[error("{0} sent an unexpected message: {1}")]
    Strange(Peer, String),
    /// The user interrupted the wait.
    #[error("{}interrupted", .peer.place())]
    Interrupted {
        /// The host or Tester whose reply was waited for.
        peer: Peer,
    },
}

impl From<RemoteError> for Refusal {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Refused { peer: Peer::Job, why } => why,
            other => Refusal::Failed(other.to_string()),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Agent(_) => write!(f, "{}the agent", self.place()),
            Peer::Job => f.write_str("the job of the Testers"),
        }
    }
}

impl Peer {
    /// Returns the prefix of messages with the host; empty for a job, which names its hosts itself.
    fn place(&self) -> String {
        match self {
            Peer::Agent(host) => format!("{host}: "),
            Peer::Job => String::new(),
        }
    }

    /// Returns the remedy for another version.
    fn remedy(&self) -> &'static str {
        match self {
            Peer::Agent(_) => "leave --dut-program out, and this program is copied there",
            Peer::Job => "give the path of the same version with --cluster",
        }
    }
}
