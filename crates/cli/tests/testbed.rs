//! The tests whose runs take the cores of this machine for themselves, one after the other, in one program.

mod answers;
mod clients;
mod demand;
mod drill;
mod edges;
mod engines;
mod fronts;
mod history;
mod kernel_faults;
mod kernel_tester;
#[allow(dead_code, unused_imports, unused_macros, reason = "each program uses its part")]
mod kit;
mod live;
mod metrics;
mod remote;
mod replication;
mod resume;
mod streams;
mod trust;
mod verify;
