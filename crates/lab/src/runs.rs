//! Runs of experiments: their sessions, the visits of each cell, and the methods on a bench.

mod answers;
pub(crate) mod attack;
mod bench;
mod engine;
mod generator;
pub(crate) mod pair;
mod rounds;
pub(crate) mod run;
mod self_test;
mod session;
mod visit;
