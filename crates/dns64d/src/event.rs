//! Requests of other threads to the main thread.

use std::sync::Arc;

use dns64::config::HostsConfig;
use dns64::{Nat64s, Rules};

use crate::reading::{ReadConfig, ReloadRequest};

/// An event that the main thread handles.
pub(crate) enum Event {
    /// Begins to read the configuration again.
    Reload(ReloadRequest),
    /// Applies the configuration that was read, and sends the changed settings, or the reason why
    /// there are none.
    Read {
        number: u64,
        result: Box<anyhow::Result<ReadConfig>>,
    },
    /// Uses these prefixes from now on: one that is followed or probed has changed.
    Nat64s(Nat64s),
    /// Uses other names of hosts, of these files.
    Hosts(HostsConfig, Arc<Rules>),
    End,
}
