//! Why an experiment does not begin.

use experiment::{BenchError, FileError};

use crate::adapter::AdapterError;
use crate::server::zonefile::ZoneError;
use crate::testbed::TestbedError;
use crate::testbed::process::ProcessError;
use crate::testbed::rundir::RunDirError;

/// Error that prevents the start of an experiment.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A value of the experiment is not valid in the lab.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file or the rule of search is not the one that the run began with.
    #[error("{0}")]
    Changed(String),
    /// The certificate of the Tester is not for the trials.
    #[error("the certificate is refused: {0}")]
    Certificate(String),
    /// A host is given for a server at an address, but not exactly one server has an address.
    #[error(
        "--dut is the host of one server at an address, but {0} of the servers have an address; choose one with --servers"
    )]
    Dut(usize),
    /// Servers are to be started on another host, and one has an address already.
    #[error(
        "--dut without --dut-process starts the servers on that host, but {0} already runs at an address: choose others with --servers, or give --dut-process"
    )]
    Runs(String),
    /// The other hosts do not fit the run.
    #[error("{0}")]
    Remote(String),
    /// Several Testers cannot run this experiment.
    #[error("--hosts: {0}")]
    Testers(String),
    /// The requested engine is not available.
    #[error("the engine `kernel`: {0}; use `auto` to fall back to sockets")]
    Engine(String),
    /// A requested server is not part of the experiment.
    #[error("the experiment has no server `{name}`; it has {known}")]
    NotInExperiment {
        /// Name on the command line.
        name: String,
        /// Names of the experiment's servers.
        known: String,
    },
    /// Neither the experiment nor the command line has a server.
    #[error(
        "there is no server to measure: write `servers = [\"unbound\"]` in the experiment \
        (`dnsdyno servers` lists them), or name a running server by --remote NAME=ADDRESS, or a server of your own by --custom NAME=COMMAND"
    )]
    NoServer,
    /// An adapter is invalid or missing.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    /// The zone cannot be made.
    #[error(transparent)]
    Zone(#[from] ZoneError),
    /// The directory of the run cannot be made.
    #[error(transparent)]
    Dir(#[from] RunDirError),
    /// The testbed cannot be built.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The AuthDNS does not start.
    #[error(transparent)]
    AuthDns(#[from] ProcessError),
    /// The self-test could not be run.
    #[error("the self-test could not be run: {0}")]
    SelfTest(BenchError),
}

impl RunError {
    /// Returns whether the input is invalid (exit code 2); otherwise the run failed (exit code 1).
    pub fn is_bad_input(&self) -> bool {
        match self {
            RunError::File(_) | RunError::NoServer | RunError::Changed(_) | RunError::Engine(_) => {
                true
            }
            RunError::NotInExperiment { .. } | RunError::Certificate(_) | RunError::Dut(_) => true,
            RunError::Runs(_) | RunError::Remote(_) | RunError::Testers(_) => true,
            RunError::Adapter(e) => !matches!(e, AdapterError::NotInstalled { .. }),
            RunError::Zone(e) => matches!(e, ZoneError::TooLarge { .. }),
            RunError::Testbed(e) => matches!(e, TestbedError::Cpus { .. }),
            RunError::Dir(_) | RunError::AuthDns(_) | RunError::SelfTest(_) => false,
        }
    }
}
