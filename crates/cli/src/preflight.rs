//! One query before a command sends many: does the server answer at all?
//!
//! ```text
//! one query ──> a valid answer: go on
//!           └─> none: some more ──> a valid answer among them: go on;  none: the command ends, and says why
//! ```
//!
//! Several Testers query together, as they send a load, and at once with all queries of the
//! question: they start two seconds after the order, so that a second attempt would take longer
//! than it saves. The queries are those of the load, over its transport. They are not part of its
//! result, but the server sees them: `--no-check` loads a server without them. `--expect` says what
//! is valid. Where answers are compared, only a host that says that nothing listens there ends the
//! command: no reply is a result, too. The commands of other tools do not ask, as those tools do
//! not.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use load::Live;
use measure::{Nanos, OpenPacing, Qps, Slice, Warning};
use record::request::{Engine, Expect, Query, Workload};
use record::{Trial, TrialRequest};
use tester::Setup;

use crate::failure::Failure;
use crate::process::command_line;
use crate::testers::Testers;

/// Longest time for the reply to the first query: within it almost every server answers.
const FIRST_REPLY_WAIT: Nanos = Nanos::from_millis(250);
/// Number of further queries, which distinguish a lost or wrong reply from a server that gives no
/// valid one.
pub(crate) const FURTHER: u64 = 20;
/// Shortest and longest wait for the replies to these; the timeout of the load if it is between.
const REPLY_WAIT_BOUNDS: [Nanos; 2] = [Nanos::from_secs(1), Nanos::from_secs(5)];

/// Whether a server is queried before the load.
#[derive(Args, Clone, Debug)]
pub(crate) struct CheckArgs {
    /// Send no query before the load. Without this option one query checks the server (20 more if its answer is not valid), and the
    /// command ends if no answer is valid
    #[arg(long)]
    no_check: bool,
}

impl CheckArgs {
    /// Queries each server before a load, except for a replayed capture, for a slice of several
    /// Testers, and for the kernel engine, whose replies only its program sees. The `testers` send
    /// the query, if there are any: this host may have no route to the server.
    ///
    /// # Errors
    /// If a server gives no valid answer, with the reason.
    pub(crate) fn ask<'t>(
        &self,
        setup: &Setup,
        testers: Option<&mut (dyn Testers + 't)>,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), Failure> {
        let request = setup.request();
        let is_part = request.start_at.is_some() || request.slice != Slice::default();
        let is_replay = matches!(request.workload, Workload::Replay { .. });
        let by_kernel = matches!(request.engine, Engine::Kernel(_));
        if self.no_check || is_part || is_replay || by_kernel {
            return Ok(());
        }
        let Some(testers) = testers else {
            return request
                .targets()
                .try_for_each(|target| ask(setup, target, ExpectedAnswer::Valid, stop));
        };
        for target in request.targets() {
            // Each Tester has a client, as it has in the load.
            let asking = setup.asking(target, FURTHER, patience(request))?;
            let asking = asking.with_clients(request.clients())?;
            let asked = testers.trial(asking.request(), &Live::default(), stop)?;
            expect_answers(&asked.with_verdict(), ExpectedAnswer::Valid)?;
        }
        Ok(())
    }
}

/// What a server has to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedAnswer {
    /// A valid answer to the query that is sent first.
    Valid,
    /// Any or no answer, but its host must not report a closed port.
    Listener,
}

/// Sends an unloaded server one query for the root; any reply is accepted.
///
/// # Errors
/// If its host reports that no program listens on the port.
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
    ask(&Setup::new(request, command_line())?, target, ExpectedAnswer::Listener, stop)
}

/// Checks a server with one query of a load, and with [`FURTHER`] more without a valid answer.
fn ask(
    setup: &Setup,
    target: SocketAddr,
    wanted: ExpectedAnswer,
    stop: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    let run = |queries, timeout| -> Result<Trial, Failure> {
        let asking = setup.asking(target, queries, timeout)?;
        Ok(asking.run(&Arc::new(Live::default()), stop)?.with_verdict())
    };
    let first = run(1, FIRST_REPLY_WAIT)?;
    if nobody_listens(&first) || expect_answers(&first, wanted).is_ok() {
        return expect_answers(&first, wanted);
    }
    expect_answers(&run(FURTHER, patience(setup.request()))?, wanted)
}

/// Returns the longest wait for replies.
fn patience(request: &TrialRequest) -> Nanos {
    request.timeout.clamp(REPLY_WAIT_BOUNDS[0], REPLY_WAIT_BOUNDS[1])
}

/// A preflight without a valid answer.
#[derive(Debug)]
pub(crate) struct NoAnswer {
    /// The reason, and what to do.
    why: String,
    /// The response code of all replies, if they have one code and it is an error.
    pub(crate) code: Option<String>,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for NoAnswer {}

/// Checks the trial of a preflight query.
///
/// # Errors
/// If no answer is the `wanted` one, with the reason and what to do.
fn expect_answers(trial: &Trial, wanted: ExpectedAnswer) -> Result<(), Failure> {
    let (enough, remedy) = match wanted {
        ExpectedAnswer::Valid => (false, " (--no-check loads the server anyway)"),
        ExpectedAnswer::Listener => (!nobody_listens(trial), ""),
    };
    let why = report::no_answer(trial).filter(|_| !enough);
    let code = report::only_error_code(trial).map(str::to_owned);
    why.map_or(Ok(()), |why| Err(Failure::run(NoAnswer { why: why + remedy, code })))
}

/// Whether the server's host reported that no program listens on the port.
pub(crate) fn nobody_listens(trial: &Trial) -> bool {
    let said = |warning: &Warning| {
        matches!(warning, Warning::NobodyListens { .. } | Warning::ConnectionsRefused { .. })
    };
    trial.answered == 0 && trial.warnings.iter().any(said)
}
