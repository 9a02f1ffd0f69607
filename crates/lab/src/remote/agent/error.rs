//! What keeps a Tester from an agent.

use std::io;
use std::time::Duration;

/// Error of an agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The remote shell cannot be started.
    #[error("cannot start `{shell}`: {source}")]
    Shell {
        /// Program of the remote shell.
        shell: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The program cannot be read or brought.
    #[error(
        "cannot bring this program to {host}: {source}; give the path of one there with --dut-program"
    )]
    Bring {
        /// The host.
        host: String,
        /// Error of the system.
        source: io::Error,
    },
    /// An order failed there.
    #[error("{host}: {why}")]
    Refused {
        /// The host.
        host: String,
        /// Why.
        why: String,
    },
    /// The host cannot run this part, however often it is tried: a server is not installed, or there are too few cores.
    #[error("{host}: {why}")]
    Cannot {
        /// The host.
        host: String,
        /// What is missing.
        why: String,
    },
    /// The program there is of another version.
    #[error(
        "{host}: the agent has version {found}, this program {wanted}; leave --dut-program out to bring this one"
    )]
    Version {
        /// The host.
        host: String,
        /// Version of the agent.
        found: String,
        /// Version of this program.
        wanted: String,
    },
    /// The link broke, or the agent ended.
    #[error("{host}: the agent is gone: the remote shell ended, or the link broke")]
    Gone {
        /// The host.
        host: String,
    },
    /// The agent does not reply.
    #[error("{host}: the agent did not reply within {0:?}", .limit)]
    Silent {
        /// The host.
        host: String,
        /// Time limit.
        limit: Duration,
    },
    /// The reply is none.
    #[error("{host}: this is no reply of an agent: {found}")]
    Strange {
        /// The host.
        host: String,
        /// What came.
        found: String,
    },
    /// The user interrupted the wait.
    #[error("{host}: interrupted")]
    Interrupted {
        /// The host.
        host: String,
    },
}
