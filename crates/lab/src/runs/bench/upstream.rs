//! The server behind the server under test: our AuthDNS, or a real server with a zone.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::server::Server;
use crate::testbed::process::{Process, ProcessError};

/// Time within which the AuthDNS must end.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A server that the server under test queries, in the auth host.
#[derive(Debug)]
pub(crate) enum Upstream {
    /// Our AuthDNS, which computes its answers from the names.
    AuthDns(Process),
    /// Our AuthDNS as an Internet in a box, whose delays could be confused with delayed
    /// acknowledgements.
    Late(Process),
    /// A server of the catalogue, with a zone.
    Authority(Server),
}

impl Upstream {
    /// Checks that the upstream server still runs.
    pub(crate) fn check(&mut self) -> Result<(), ProcessError> {
        match self {
            Upstream::AuthDns(process) | Upstream::Late(process) => process.check(),
            Upstream::Authority(server) => server.check(),
        }
    }

    /// Returns the numbers of the upstream server's processes.
    pub(super) fn pids(&self) -> Vec<u32> {
        match self {
            Upstream::AuthDns(process) | Upstream::Late(process) => vec![process.pid()],
            Upstream::Authority(server) => server.pids(),
        }
    }

    /// Stops the processes and waits for their end.
    pub(crate) fn stop(self) {
        match self {
            Upstream::AuthDns(mut process) | Upstream::Late(mut process) => {
                process.stop(Signal::SIGTERM, STOP_GRACE);
            }
            Upstream::Authority(server) => server.stop(),
        }
    }
}
