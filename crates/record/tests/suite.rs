//! The tests of this crate in one program: each program is linked with the whole crate.

mod compare;
mod sizes;
mod store;
