//! A link whose two ends are in one namespace of their own, for programs that send and answer at its ends without any host.
//!
//! ```text
//!   Measurer's programs ── tester ════ auth ── AuthDNS's program
//! ```
//!
//! It has a queue for each core, so that what a core sends is answered and checked on the same core.

use std::io;

use crate::links::{self, LinkError};
use crate::netns::Namespace;

/// A link in a namespace of its own; it ends with this value.
#[derive(Debug)]
pub struct ShortLink {
    namespace: Namespace,
}

/// Reason why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum ShortLinkError {
    /// The kernel gives no namespace.
    #[error("cannot make a network namespace: {0}; run as root, or use the engine `sockets`")]
    Namespace(#[from] io::Error),
    /// The kernel gives no link.
    #[error(transparent)]
    Link(#[from] LinkError),
}

impl ShortLink {
    /// Name of the Measurer's end.
    pub const TESTER: &'static str = "tester";
    /// Name of the AuthDNS's end.
    pub const AUTH: &'static str = "auth";

    /// Makes the link, with `queues` queues at each end.
    ///
    /// # Errors
    /// If the kernel refuses; only root may.
    pub fn create(queues: u32) -> Result<Self, ShortLinkError> {
        let namespace = Namespace::create("self-test")?;
        links::loop_back(&namespace, Self::TESTER, Self::AUTH, queues)?;
        Ok(ShortLink { namespace })
    }

    /// Runs `work` on a thread in the namespace; threads that it starts are there too.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        self.namespace.run(work)
    }
}
