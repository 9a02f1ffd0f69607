//! One question before a command asks many: does the server answer at all?
//!
//! ```text
//! one query ──> a valid answer: go on
//!           └─> none: some more ──> a valid answer among them: go on;  none: the command ends, and says why
//! ```
//!
//! The queries are those of the load, over its transport. They are not part of its result, but the server sees them: `--no-check`
//! loads a server without them. `--expect` says what is valid. Where answers are compared, only a host that says that
//! nothing listens there ends the command: no reply is a result, too. The commands of other tools do not ask, as those tools do not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::anyhow;
use clap::Args;
use load::Live;
use measure::{Nanos, OpenPacing, Qps, Slice, Warning};
use record::request::{Engine, Expect, Query, Workload};
use record::{Trial, TrialRequest};
use tester::Setup;

use crate::failure::Failure;
use crate::process::command_line;

/// Longest time for the reply to the first query: within it almost every server answers.
const FIRST: Nanos = Nanos::from_millis(250);
/// Number of queries after it, by which a lost or a wrong reply is told from a server that gives no other.
pub(crate) const FURTHER: u64 = 20;
/// Shortest and longest time for their replies; between the two the timeout of the load.
const PATIENCE: [Nanos; 2] = [Nanos::from_secs(1), Nanos::from_secs(5)];

/// Whether a server is asked before it is loaded.
#[derive(Args, Clone, Debug)]
pub(crate) struct CheckArgs {
    /// Load also a server that gives no valid answer, and send it no query but those of the load: without this one query is sent
    /// before (20 more if it gets no valid answer), and the command ends if no answer is valid
    #[arg(long)]
    no_check: bool,
}

impl CheckArgs {
    /// Asks each server of a load, unless its queries are a capture's, it is a part of the load of several Testers, which begin
    /// together, or the kernel sends it: only a program in the kernel may see the replies.
    ///
    /// # Errors
    /// If one gives no valid answer, with the reason.
    pub(crate) fn ask(&self, setup: &Setup, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
        let request = setup.request();
        let is_part = request.start_at.is_some() || request.slice != Slice::default();
        let is_replay = matches!(request.workload, Workload::Replay { .. });
        let by_kernel = matches!(request.engine, Engine::Kernel(_));
        if self.no_check || is_part || is_replay || by_kernel {
            return Ok(());
        }
        request.targets().try_for_each(|target| ask(setup, target, Wanted::Valid, stop))
    }
}

/// What a server has to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// A valid answer.
    Valid,
    /// Nothing, but its host must not say that nothing listens there.
    Listener,
}

/// Asks a server that is not loaded for the root, whatever it replies.
///
/// # Errors
/// If its host says that nothing listens there.
pub(crate) fn ask_server(
    target: SocketAddr,
    engine: Engine,
    timeout: Nanos,
    stop: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    let workload = Workload::Name {
        name: ".".to_owned(),
        qtype: "NS".to_owned(),
        expect: Expect::Answered,
        query: Query::plain(true),
    };
    let pacing = OpenPacing::Constant.at(Qps::default());
    let request = TrialRequest { engine, timeout, ..TrialRequest::new(target, workload, pacing) };
    ask(&Setup::new(request, command_line())?, target, Wanted::Listener, stop)
}

/// Asks a server of a load.
fn ask(
    setup: &Setup,
    target: SocketAddr,
    wanted: Wanted,
    stop: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    let patience = setup.request().timeout.clamp(PATIENCE[0], PATIENCE[1]);
    let mut why = None;
    for (queries, timeout) in [(1, FIRST), (FURTHER, patience)] {
        let asking = setup.asking(target, queries, timeout)?;
        let trial = asking.run(&Arc::new(Live::default()), stop)?.trial;
        let enough = match wanted {
            Wanted::Valid => false,
            Wanted::Listener => !nobody_listens(&trial),
        };
        why = report::no_answer(&trial).filter(|_| !enough);
        if why.is_none() || nobody_listens(&trial) {
            break;
        }
    }
    let remedy = match wanted {
        Wanted::Valid => "; --no-check loads the server nevertheless",
        Wanted::Listener => "",
    };
    why.map_or(Ok(()), |why| Err(Failure::run(anyhow!("{why}{remedy}"))))
}

/// Whether the server's host has said that nothing listens there.
fn nobody_listens(trial: &Trial) -> bool {
    let said = |warning: &Warning| {
        matches!(warning, Warning::NobodyListens { .. } | Warning::ConnectionsRefused { .. })
    };
    trial.answered == 0 && trial.warnings.iter().any(said)
}
