//! The tests of this crate in one program: each program is linked with the whole crate.

mod captures;
mod common;
mod dnstap;
mod encapsulations;
mod export;
mod mutations;
