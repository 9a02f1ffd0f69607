//! One question before a command asks many: does the server answer at all?
//!
//! ```text
//! one query ──> a valid answer: go on
//!           └─> none: some more ──> a valid answer among them: go on;  none: the command ends, and says why
//! ```
//!
//! The queries are those of the load, over its transport; they are not part of its result. What is valid is the load's to say
//! (`--expect refused`, say). Where answers are compared, and in the commands of other tools, only a host that says that nothing listens
//! there ends it: no reply is a result, too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::anyhow;
use load::Live;
use measure::{Nanos, OpenPacing, Qps, Transport, Warning};
use record::request::{Connecting, Engine, Expect, Query, Workload};
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

/// What a server has to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A valid answer.
    Valid,
    /// Nothing, but its host must not say that nothing listens there.
    Listener,
}

/// Asks each server of a load.
///
/// # Errors
/// If one does not answer as wanted, with the reason.
pub(crate) fn ask(setup: &Setup, wanted: Wanted, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    setup.request().targets().try_for_each(|target| ask_one(setup, target, wanted, stop))
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
    ask(&Setup::new(request, command_line())?, Wanted::Listener, stop)
}

/// Returns the engine that carries queries over a transport, one at a time.
pub(crate) fn engine(transport: Transport) -> Engine {
    if transport.is_datagram() {
        Engine::Udp
    } else {
        Engine::Streams(Box::new(Connecting { clients: 1, ..Connecting::over(transport) }))
    }
}

fn ask_one(
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
    why.map_or(Ok(()), |why| Err(Failure::run(anyhow!(why))))
}

/// Whether the server's host has said that nothing listens there.
fn nobody_listens(trial: &Trial) -> bool {
    let said = |warning: &Warning| {
        matches!(warning, Warning::NobodyListens { .. } | Warning::ConnectionsRefused { .. })
    };
    trial.answered == 0 && trial.warnings.iter().any(said)
}
