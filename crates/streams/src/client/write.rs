//! How messages that leave together are written to a connection.

/// How queries that are due together on a connection are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// Each with its own write: a TLS record, and a segment, of its own.
    #[default]
    Each,
    /// All with one write, as far as they fit into a TLS record.
    Together,
}
