//! The tests of this crate in one program: each program is linked with the whole crate.

mod compare;
mod schemas;
mod sizes;
mod store;
