//! The tests of this crate in one program: each program is linked with the whole crate.

mod answers;
mod capacity;
mod drill;
mod file;
mod hogs;
mod mlrsearch;
mod replication;
mod scripted;
mod search;
mod search_ends;
mod verify;
mod voids;
