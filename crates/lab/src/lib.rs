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

mod adapter;
mod afar;
pub mod agent;
mod answers;
mod attack;
pub mod authdns;
mod bench;
pub mod builds;
pub mod built_in;
mod catalogue;
mod clients;
mod configure;
mod control_group;
mod core_plan;
mod core_speed;
mod cpus;
mod daemon;
pub mod detect;
pub mod durability;
mod elsewhere;
mod engine;
pub mod enter;
mod evidence;
pub mod exec;
mod features;
mod generator;
mod handover;
pub mod host;
pub mod internet;
pub mod job;
mod leftovers;
mod limit;
mod link_mode;
mod links;
mod log_bound;
mod netns;
mod pair;
mod place;
pub mod probe;
mod process;
mod query_stream;
mod question_plan;
pub mod ready;
mod remote;
mod replication;
mod reserve;
mod rounds;
mod run;
mod rundir;
mod self_test;
mod server;
mod server_host;
mod session;
mod short_link;
pub mod signer;
mod template;
pub mod testbed;
mod together;
mod tuning;
mod variables;
mod visit;
mod watch;
pub mod zone_load;
pub mod zonefile;

pub use adapter::{Adapter, AdapterError};
pub use afar::{DutHost, Elsewhere, Testers};
pub use attack::attackable;
pub use catalogue::Catalogue;
pub use configure::{ConfigureError, configure};
pub use cpus::{CpuList, CpuPlan};
pub use enter::{EnterError, Entered, Lab, Network, ending_signals, enter, enter_with, is_inside};
pub use exec::{ATTACK_COMMAND, MEASURE_COMMAND, exec_main};
pub use netns::Namespace;
pub use pair::{Pair, PairCapture, PairCores};
pub use process::{Launch, Process, ProcessError};
pub use reserve::Reservation;
pub use run::{Checked, Event, RunError, RunOptions, check, run_experiment};
pub use rundir::RunDir;
pub use server::{Installed, Server, ServerError, Service};
pub use server_host::ServerHost;
pub use short_link::{ShortLink, ShortLinkError};
pub use testbed::{Host, Places, Testbed, TestbedError, TestbedPlan};
pub use watch::{LiveUpdate, Watcher};
pub use zone_load::{ZoneLoad, zone_load};
