//! Version of the tables of a store.

/// Version that this program writes.
pub(super) const VERSION: i32 = 4;
