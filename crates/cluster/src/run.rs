//! `dnsdyno-cluster run`: an experiment whose trials are those of this job.
//!
//! The lab executes its program again in namespaces, which a rank cannot: so the run is a child of rank 0, which conducts for it over
//! pipes as it does for `dnsdyno run --hosts` ([`cluster::serve()`]).

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use cluster::{Conductor, Link};
use lab::job::given::StartedRun;

use crate::{VERSION, ranks};

/// The program of the run.
const PROGRAM: &str = "dnsdyno";

/// Starts the run of a command line, and conducts its trials until it ends; returns its exit code. A signal ends both.
pub(crate) fn conduct<L: Link>(
    conductor: Conductor<L>,
    words: &[OsString],
    testers: usize,
) -> (Conductor<L>, ExitCode) {
    let (program, signalled) = (program(), ranks::signalled());
    let started = StartedRun::start(&program, words, testers, signalled.clone());
    let (run, orders, replies) = match started {
        Ok(started) => started,
        Err(why) => {
            let program = program.display();
            eprintln!(
                "dnsdyno-cluster: cannot start {program} for the run: {why}; put it beside dnsdyno-cluster, or into a folder of $PATH"
            );
            return (conductor, ExitCode::from(2));
        }
    };
    let conductor = cluster::serve(conductor, VERSION, orders, replies, signalled);
    match run.wait() {
        Ok(code) => {
            if let Some(signal) = code.checked_sub(128).filter(|signal| *signal > 0) {
                eprintln!(
                    "dnsdyno-cluster: the run was killed by signal {signal}; what it had measured is in the store"
                );
            }
            (conductor, ExitCode::from(code))
        }
        Err(why) => {
            eprintln!("dnsdyno-cluster: cannot wait for {}: {why}", program.display());
            (conductor, ExitCode::from(1))
        }
    }
}

/// Returns the path of the program: beside this one, or a name for `$PATH`.
fn program() -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(PROGRAM)).filter(|path| path.exists());
    beside.unwrap_or_else(|| PROGRAM.into())
}
