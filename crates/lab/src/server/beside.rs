//! Several servers in the DUT's host at a time, each at a port of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Installed, LabEnv, Server, ServerError, Service, Stage};
use crate::testbed::{Host, PORT};

/// Number before the ports of the servers after the first.
const PORT_BESIDE: u16 = 5400;

impl Installed {
    /// Starts a server from scratch as number `number`, from 0, of several servers in the DUT's
    /// host, which must be cleared before. Returns it with the address that the Tester queries.
    ///
    /// # Errors
    /// If it does not start; with the end of its log.
    pub(crate) fn start_beside(
        &self,
        number: u16,
        service: &Service,
        env: LabEnv<'_>,
    ) -> Result<(Server, SocketAddr), ServerError> {
        let mut address = self.address();
        // A server without a configurable port keeps its port.
        if address.port() == PORT && number > 0 {
            address.set_port(PORT_BESIDE + number);
        }
        let _ = std::fs::remove_dir_all(self.state(env.dir));
        self.check_free(env.testbed, Host::Dut, &[address])?;
        let mut server =
            Server { parts: Vec::new(), files: BTreeMap::new(), loaded: Duration::ZERO };
        let stage = Stage { service, env, host: Host::Dut, number };
        self.add_to(&mut server, stage, address.port())?;
        Ok((server, address))
    }
}
