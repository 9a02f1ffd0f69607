//! A link whose two ends are in one namespace of their own, for programs that send and answer at its ends without any host.
//!
//! ```text
//!   Measurer's programs ── tester ════ auth ── AuthDNS's program
//! ```
//!
//! It has a queue for each core, so that what a core sends is answered and checked on the same core. Nobody else sends there: a packet of
//! the system's own (multicast and router discovery of IPv6) makes the core that sent it work off a queue, and if that is another queue's core,
//! it keeps the queue for as long as it is never empty; then one core does the work of two, and queues overflow.

use std::fs;
use std::io::{self, ErrorKind};

use crate::testbed::links::{self, LinkError};
use crate::testbed::netns::Namespace;

/// Switches IPv6 off for the devices that are made after it; programs do not need it.
const IPV6_OFF: &str = "/proc/sys/net/ipv6/conf/default/disable_ipv6";

/// A link in a namespace of its own; removed when this value is dropped.
#[derive(Debug)]
pub struct ShortLink {
    namespace: Namespace,
}

/// Reason why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum ShortLinkError {
    /// The kernel refuses a namespace.
    #[error("cannot make a network namespace: {0}; run as root, or use the engine `sockets`")]
    Namespace(#[from] io::Error),
    /// IPv6 cannot be switched off.
    #[error("cannot set {IPV6_OFF} in a network namespace: {0}")]
    Quiet(#[source] io::Error),
    /// The kernel refuses a link.
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
        match namespace.run(|| fs::write(IPV6_OFF, "1"))? {
            // A kernel without IPv6.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            written => written.map_err(ShortLinkError::Quiet)?,
        }
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
