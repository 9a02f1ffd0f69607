//! A job that the user has started: its rank 0, the conductor, starts the run, whose trials the job
//! runs.
//!
//! ```text
//! mpirun ──┬─> dnsdyno-cluster run ..., rank 0 ── starts, with pipes ──> dnsdyno run ... ──> the lab, agents
//!          │      the conductor  <── asks ── ── answers ──>                 (no rank: it has its own namespaces and signals)
//!          └─> dnsdyno-cluster run ..., ranks 1..: the Testers
//! ```

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::JobLine;
use crate::remote::error::{Peer, RemoteError};
use crate::remote::handover::Pipes;
use crate::testbed::enter::{GIVEN_JOB, exit_code};
use crate::testbed::process::POLL;

/// The inherited data of a run that a job started.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct GivenJob {
    pipes: Pipes,
    /// Number of Testers of the job, without the conductor.
    testers: usize,
}

/// A run that this process has started for the job of which it is the conductor.
#[derive(Debug)]
pub struct StartedRun {
    waits: JoinHandle<io::Result<ExitStatus>>,
}

impl StartedRun {
    /// Starts `program`, which is `dnsdyno`, with the words of the command line (the first one is
    /// its name in records) and the pipes to a job of `testers` Testers. It gets SIGTERM when
    /// `signalled` is set, and no other signal of this process. Returns the other ends of the
    /// pipes: for requests, and for answers.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(
        program: &Path,
        words: &[OsString],
        testers: usize,
        signalled: Arc<AtomicBool>,
    ) -> io::Result<(Self, PipeReader, PipeWriter)> {
        let (asks, their_asks) = io::pipe()?;
        let (their_answers, answers) = io::pipe()?;
        let given = GivenJob { pipes: Pipes::pass(&their_asks, &their_answers)?, testers };
        let mut command = Command::new(program);
        if let Some((name, arguments)) = words.split_first() {
            command.arg0(name).args(arguments);
        }
        let child = command
            .env(GIVEN_JOB, serde_json::to_string(&given)?)
            // `mpirun` ends a rank with all of its group, one second after its SIGTERM; the servers
            // need longer.
            .process_group(0)
            .spawn()?;
        let waits = std::thread::spawn(move || wait(child, &signalled));
        Ok((StartedRun { waits }, asks, answers))
    }

    /// Waits until the run has ended; returns its exit code, as a shell reports it.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn wait(self) -> io::Result<u8> {
        let status = self.waits.join().map_err(|_| io::Error::other("its thread panicked"))??;
        Ok(exit_code(status))
    }
}

/// Waits for a run; sends it SIGTERM once after a signal.
fn wait(mut child: Child, signalled: &AtomicBool) -> io::Result<ExitStatus> {
    let mut terminated = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if !terminated && signalled.load(Ordering::Relaxed) {
            terminated = true;
            // The child was not waited for yet, so that its number is still valid.
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        }
        std::thread::sleep(POLL);
    }
}

/// Returns the number of Testers of the job that has started this process, if one has.
///
/// # Errors
/// If the environment variable about the job is not valid.
pub fn testers() -> Result<Option<usize>, RemoteError> {
    Ok(given()?.map(|given| given.testers))
}

impl JobLine {
    /// Returns the job that has started this process, if one has. This process gets a signal when
    /// the rank that started it ends.
    ///
    /// # Errors
    /// If its pipes are not there.
    pub(in crate::remote) fn given() -> Result<Option<Self>, RemoteError> {
        let Some(given) = given()? else { return Ok(None) };
        // Without the signal, the next trial finds the pipes closed.
        let _ = set_pdeathsig(Signal::SIGTERM);
        let (orders, replies) = given.pipes.take().map_err(|_| RemoteError::Gone(Peer::Job))?;
        Ok(Some(JobLine { orders, replies, starter: None }))
    }
}

fn given() -> Result<Option<GivenJob>, RemoteError> {
    let Ok(text) = std::env::var(GIVEN_JOB) else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|_| RemoteError::NotGiven)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    /// Starts a shell in place of a run.
    fn start(script: &str, signalled: &Arc<AtomicBool>) -> (StartedRun, PipeReader, PipeWriter) {
        let words: Vec<OsString> = ["its name", "-c", script].map(Into::into).into();
        StartedRun::start(Path::new("/bin/sh"), &words, 2, signalled.clone()).expect("starts")
    }

    #[test]
    fn a_run_has_the_pipes_and_tells_its_end() {
        let never = Arc::new(AtomicBool::new(false));
        // The numbers of the pipes are what it was told.
        let said = r#"set -- $(echo "$DNSDYNO_JOB" | tr -dc '0-9 ,' | tr , ' '); echo "$0 $3" > /proc/self/fd/$1; exit 3"#;
        let (run, asks, answers) = start(said, &never);
        let mut read = String::new();
        BufReader::new(asks).read_line(&mut read).expect("readable");
        assert_eq!(read, "its name 2\n");
        drop(answers);
        assert_eq!(run.wait().expect("ends"), 3);
    }

    #[test]
    fn a_run_is_told_to_end() {
        let signalled = Arc::new(AtomicBool::new(true));
        let (run, _asks, _answers) = start("exec sleep 600", &signalled);
        assert_eq!(run.wait().expect("ends"), 128 + 15);
        let nowhere = StartedRun::start(Path::new("/nonexistent"), &[], 1, signalled);
        assert!(nowhere.is_err());
    }
}
