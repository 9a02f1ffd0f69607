//! The variables of a server's templates that its transport needs, the same wherever the server runs.

use std::collections::BTreeMap;
use std::path::Path;

use measure::Transport;
use nix::sys::resource::{Resource, getrlimit};

use super::Installed;

/// Smallest number of connections that a server is configured for, and number of its other open files.
const MIN_CONNECTIONS: u64 = 1_000;
const OTHER_FILES: u64 = 500;

impl Installed {
    /// Returns the values of the variables: the ones `given` by the experiment, and the ones of a
    /// server that has `clients` over `transport`. `certified` is the directory with its
    /// certificate, for TLS.
    ///
    /// # Errors
    /// If the server cannot have that many clients here, in words.
    pub(crate) fn variables(
        &self,
        transport: Transport,
        clients: u32,
        given: BTreeMap<String, String>,
        certified: Option<&Path>,
    ) -> Result<BTreeMap<String, String>, String> {
        let mut variables = given;
        if !transport.is_datagram() {
            let room = self.connections(clients)?;
            variables.entry("connections".to_owned()).or_insert(room.to_string());
        }
        if let Some(dir) = certified {
            let path = |file: &str| dir.join(file).display().to_string();
            variables.insert("transport".to_owned(), transport.to_string());
            variables.insert("certificate".to_owned(), path("server.pem"));
            variables.insert("key".to_owned(), path("server.key"));
        }
        Ok(variables)
    }

    /// Returns the number of connections that the server must accept if each of `clients` has one:
    /// some more, since a closed one may still count when the next is opened.
    ///
    /// # Errors
    /// If a process may not open so many files here, in words.
    pub fn connections(&self, clients: u32) -> Result<u64, String> {
        let open_files = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard);
        let (clients, each) = (u64::from(clients), self.adapter.files_per_connection.max(1));
        let needed = clients * each + OTHER_FILES;
        if needed > open_files {
            return Err(format!(
                "{clients} connections: {} needs {needed} open files for them, and a process may have {open_files} here (ulimit -Hn)",
                self.adapter.title
            ));
        }
        let wanted = clients + clients / 50 + 100;
        Ok(wanted.max(MIN_CONNECTIONS).min((open_files - OTHER_FILES) / each))
    }
}
