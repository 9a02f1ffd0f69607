//! What a bench has on other hosts.

use std::time::Duration;

use crate::remote::agent::{Launched, Part, SharedAgent};
use crate::remote::job::SharedJob;
use crate::testbed::netns::Namespace as Netns;

/// What a bench has on other hosts.
#[derive(Debug, Default)]
pub(crate) struct Away {
    /// Network of the Measurer; absent if that runs in the tester's host of the testbed.
    pub(crate) outside: Option<Netns>,
    /// Agent on the server's host; absent if that is out of reach.
    pub(crate) dut: Option<SharedAgent>,
    /// Agents that have started an AuthDNS each.
    pub(crate) auth: Vec<SharedAgent>,
    /// The server, if the agent has started it.
    pub(crate) part: Option<Part>,
    /// Time within which it must start.
    pub(crate) limit: Duration,
    /// How it was started.
    pub(crate) launched: Launched,
    /// Testers that run the trials in place of the Measurer.
    pub(crate) testers: Option<SharedJob>,
}

impl Away {
    /// Stops what the agents have started. What an agent cannot stop any more ends with it.
    pub(crate) fn stop(&self) {
        let started = self.dut.iter().filter(|_| self.part.is_some());
        for agent in started.chain(&self.auth) {
            let _ = agent.lock().stop();
        }
    }

    /// Returns the resident memory of a server that was started there, in bytes.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.part.as_ref()?;
        Some(self.dut.as_ref()?.lock().collect().ok()?.memory)
    }
}
