//! The commands, each with its arguments beside it.

pub(crate) mod agent;
pub(crate) mod auth;
pub(crate) mod bisect;
pub(crate) mod compare;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod dropin;
pub(crate) mod history;
pub(crate) mod host;
pub(crate) mod load;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod selftest;
pub(crate) mod servers;
pub(crate) mod site;
pub(crate) mod task;
pub(crate) mod trace;
pub(crate) mod update;
pub(crate) mod verify;
pub(crate) mod zone;
