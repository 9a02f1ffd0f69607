//! The lab: a bench of real servers. Hosts are network namespaces, connected by links; the servers under test are
//! processes pinned to cores; probes show the limiter of each trial.
//!
//! ```text
//!                    enter: user + net + mount + pid namespaces, unnamed, held by descriptors only
//!   ┌──────────────────────────────────────────────────────────────────────────────────────────┐
//!   │              tester-dut                            dut-auth                              │
//!   │  tester ════════════════════════════ dut ═══════════════════════════ auth                │
//!   │  dnsdyno load   10.9.0.0/24          the server     10.9.1.0/24      dnsdyno auth        │
//!   │     ║           fd00:9::/64          under test     fd00:9:1::/64     ║                  │
//!   │     ╚═════════════════════ tester-auth: the self-test ════════════════╝                  │
//!   │                            10.9.2.0/24, fd00:9:2::/64                                    │
//!   └──────────────────────────────────────────────────────────────────────────────────────────┘
//!
//!   adapter (servers/*.toml) ──> process ──> ready ──> probe, trial, probe ──> record
//! ```
//!
//! Only this crate starts processes, and all of them end with it: the kernel kills each one when its parent ends, and
//! all are in a pid namespace whose first process is the lab itself. Root is not needed: an ordinary user gets the
//! same testbed in a user namespace, without the settings that need root (moderated and steered links, forced socket
//! buffers), and the result says which it was.
//!
//! Its six rooms import only from those before them: `testbed`, `probe`, `adapter`, `server`, `remote`, `runs`.

mod adapter;
pub mod probe;
mod remote;
mod runs;
mod server;
pub mod testbed;

pub use adapter::catalogue::Catalogue;
pub use adapter::{Adapter, AdapterError, builds, built_in, detect};
pub use probe::host;
pub use probe::watch::{LiveUpdate, Watcher};
pub use remote::error::{Peer, Refusal, RemoteError};
pub use remote::hosts::{DutHost, RemoteHosts, Testers};
pub use remote::server_host::ServerHost;
pub use remote::{agent, job, lines, message};
pub use runs::attack::attackable;
pub use runs::pair::{Pair, PairCores};
pub use runs::run::{Checked, Event, RunError, RunOptions, check, run_experiment};
pub use server::configure::{ConfigureError, configure};
pub use server::query_stream::Inputs;
pub use server::zone_load::{ZoneLoad, zone_load};
pub use server::{
    Installed, LabEnv, Server, ServerError, Service, authdns, internet, ready, signer, zonefile,
};
pub use testbed::capture::PacketCapture;
pub use testbed::cpus::{CpuList, CpuListError, CpuPlan};
pub use testbed::enter::{
    EnterError, Entered, Lab, LabNetwork, ending_signals, enter, enter_with, handed, is_inside,
    is_privileged,
};
pub use testbed::exec::exec_main;
pub use testbed::netns::Namespace;
pub use testbed::process::{Launch, Process, ProcessError};
pub use testbed::reserve::Reservation;
pub use testbed::rundir::RunDir;
pub use testbed::short_link::{ShortLink, ShortLinkError};
pub use testbed::task::{AnswersTask, AuthAnswers, AuthTask, TASK_COMMAND, Task};
pub use testbed::{Host, Places, Testbed, TestbedError, TestbedPlan, durability, exec};
