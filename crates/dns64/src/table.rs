//! Tables of pending queries: bounded, without allocation once they are made.

pub(crate) mod ids;
pub(crate) mod slab;
pub(crate) mod wheel;
