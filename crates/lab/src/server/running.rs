//! A running server: its processes, and how they are stopped.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::adapter::Stop;
use crate::testbed::process::{LogTail, Process, ProcessError};

/// A running server with the servers behind it, and their configuration files.
#[derive(Debug)]
pub struct Server {
    // Its own process first, then the processes of the servers behind it.
    pub(super) parts: Vec<ServerProcess>,
    pub(super) files: BTreeMap<String, String>,
    pub(super) loaded: Duration,
}

/// A process of a server, and how to stop it.
#[derive(Debug)]
pub(super) struct ServerProcess {
    pub(super) process: Process,
    pub(super) stop: Stop,
}

impl Server {
    /// Checks that the server and the one behind it still run.
    ///
    /// # Errors
    /// If a process has ended, with the end of its log.
    pub fn check(&mut self) -> Result<(), ProcessError> {
        self.parts.iter_mut().try_for_each(|part| part.process.check())
    }

    /// Returns the process id of the server itself.
    pub fn pid(&self) -> u32 {
        self.parts[0].process.pid()
    }

    /// Returns the process ids of the server and of the servers behind it.
    pub fn pids(&self) -> Vec<u32> {
        self.parts.iter().map(|part| part.process.pid()).collect()
    }

    /// Returns the last lines of the server's own output.
    pub(crate) fn tail(&self) -> LogTail {
        self.parts[0].process.tail()
    }

    /// Returns the server's configuration files as used, by name.
    pub fn files(&self) -> &BTreeMap<String, String> {
        &self.files
    }

    /// Returns the time from the server's start to the first correct answer for the last name.
    pub fn loaded(&self) -> Duration {
        self.loaded
    }

    /// Binds all threads of the server to the cores of its host.
    ///
    /// # Errors
    /// If a thread may still run elsewhere.
    pub(crate) fn hold_to_cpus(&self) -> Result<(), ProcessError> {
        self.parts.iter().try_for_each(|part| part.process.hold_to_cpus())
    }

    /// Makes the error that the server did not do `what` in time.
    pub(crate) fn late(&self, what: &str, limit: Duration) -> ProcessError {
        self.parts[0].process.late(what, limit)
    }

    /// Makes the error that the run was interrupted.
    pub(crate) fn interrupted(&self) -> ProcessError {
        self.parts[0].process.interrupted()
    }

    /// Kills the server (SIGKILL) and waits for its end, also if another process has killed it.
    pub(crate) fn kill(mut self) {
        for part in &mut self.parts {
            part.process.stop(Signal::SIGKILL, part.stop.timeout);
        }
    }

    /// Stops the server as its adapter prescribes, then the server behind it.
    pub fn stop(mut self) {
        for part in &mut self.parts {
            part.process.stop(part.stop.signal, part.stop.timeout);
        }
    }
}
