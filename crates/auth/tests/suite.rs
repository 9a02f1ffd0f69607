//! The tests of this crate in one program: each program is linked with the whole crate.

mod answers;
mod common;
mod role;
