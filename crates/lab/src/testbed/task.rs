//! Tasks that this program itself runs in a host of the testbed, as a process of its own.
//!
//! ```text
//!   lab ── Task, JSON on standard input ──> dnsdyno __task KIND ── result, JSON on standard output ──> lab
//! ```

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use experiment::settings::AnswersSettings;
use measure::{Nanos, WaitMode};
use record::{AttackRequest, TrialRequest};
use serde::{Deserialize, Serialize};
use update::Sender;

use crate::testbed::cpus::CpuList;
use crate::testbed::enter::program;

/// Name of the hidden command that does a task.
pub const TASK_COMMAND: &str = "__task";

/// Task of a process of this program.
#[derive(Debug, Serialize, Deserialize)]
pub enum Task {
    /// Run a trial; its result is a [`record::TrialResult`].
    Measure(Box<TrialRequest>),
    /// Attack the server under test; the result is a [`record::AttackOutcome`].
    Attack(Box<AttackRequest>),
    /// Send updates to a primary; the result is a [`record::UpdateRun`].
    Updates {
        /// Destination and form of the updates: rate, transport, key.
        sender: Box<Sender>,
        /// File of the stream of updates.
        updates: PathBuf,
        /// File for the outcome of each update.
        outcomes: PathBuf,
    },
    /// Count zone transfers until a signal ends it; the result is a [`record::Transfers`].
    Transfers {
        /// Network interface that the packets pass.
        interface: String,
        /// Addresses whose transfers are counted separately.
        secondaries: Vec<IpAddr>,
    },
    /// Compare the answers of servers; the result is a [`record::AnswerDiff`].
    Answers(Box<AnswersTask>),
    /// Be an AuthDNS until a signal ends it; it has no result.
    Auth(Box<AuthTask>),
}

/// A comparison of the answers of servers.
#[derive(Debug, Serialize, Deserialize)]
pub struct AnswersTask {
    /// Addresses of the servers, in the order of the comparison.
    pub servers: Vec<SocketAddr>,
    /// File of the queries: lines of names and types, or a capture.
    pub queries: PathBuf,
    /// Whether that is a capture, whose queries are sent as they are.
    pub captured: bool,
    /// Whether queries of other files have the RD bit.
    pub recursion: bool,
    /// Settings of the comparison; its file of known differences has an absolute path.
    pub settings: AnswersSettings,
    /// File for each query whose answers differ.
    pub lines: Option<PathBuf>,
    /// File for the counters while the task runs.
    pub live: Option<PathBuf>,
}

/// An AuthDNS of the lab.
#[derive(Debug, Serialize, Deserialize)]
pub struct AuthTask {
    /// Addresses on which the AuthDNS listens.
    pub listen: Vec<SocketAddr>,
    /// Cores, with one worker on each.
    pub cpus: CpuList,
    /// Whether workers sleep or spin while no query comes.
    pub wait: WaitMode,
    /// Whether datagrams may arrive joined.
    pub gro: bool,
    /// Network interface whose queries a program in the kernel answers; `None` if the sockets
    /// answer all.
    pub device: Option<String>,
    /// Source of the answers: computed from names, or zones.
    pub answers: AuthAnswers,
}

/// The answers of an AuthDNS.
#[derive(Debug, Serialize, Deserialize)]
pub enum AuthAnswers {
    /// Queries for the names of a namespace.
    Namespace {
        /// IPv4 prefix of the names.
        prefix: String,
        /// Zone that the names end with.
        zone: String,
        /// Prefix of the addresses in AAAA records.
        pref64: String,
        /// The kind of client that the AuthDNS serves.
        serves: Serves,
        /// Whether the AuthDNS reports the names of its queries.
        remember: bool,
    },
    /// Answers from the zones of an Internet in a box.
    Internet {
        /// Folder with the zones, as `dnsdyno zone internet` writes it.
        folder: PathBuf,
        /// File for a line about each query.
        log: PathBuf,
        /// Times before replies: each server has one of them, chosen by its address.
        delays: Vec<Nanos>,
        /// Share (0 to 1) of the replies that are not sent.
        loss: f64,
        /// Share (0 to 1) of the replies that are truncated.
        truncated: f64,
    },
}

/// The client that an AuthDNS answers, which decides the records of its names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Serves {
    /// The server under test; a share of the names has AAAA records of their own.
    Dut {
        /// Share (0 to 1) of the names with AAAA records.
        aaaa_share: f64,
        /// Whether the zone has the names that drills query.
        drilled: bool,
    },
    /// The Measurer itself, for a self-test: every name has an AAAA record.
    SelfTest,
    /// A server with a known behaviour that the Measurer must find.
    Truth,
}

impl Task {
    /// Returns the command line of its process. The kind is shown in lists of processes.
    pub(crate) fn command(&self) -> Vec<OsString> {
        let kind = match self {
            Task::Measure(_) => "measure",
            Task::Attack(_) => "attack",
            Task::Updates { .. } => "updates",
            Task::Transfers { .. } => "transfers",
            Task::Answers(_) => "answers",
            Task::Auth(_) => "auth",
        };
        vec![program().into(), TASK_COMMAND.into(), kind.into()]
    }
}
