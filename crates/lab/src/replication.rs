//! A primary under update and the secondaries that follow it: real servers with TSIG, NOTIFY and IXFR, all on the
//! loopback of one network namespace.
//!
//! ```text
//!   updates ──> primary, 127.0.0.1 ── NOTIFY ──> secondary, 127.0.0.2   <── queries
//!                    <── SOA?, IXFR ──           secondary, 127.0.0.3 ...
//! ```
//!
//! Each server asks from the address it answers at, so that whose a transfer is can be seen.
//!
//! Each server works in a folder of its own, is bound to its cores, and ends with the lab.

pub mod nodes;
pub mod part;
pub mod plan;

use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::cpus::CpuList;
use crate::links::{self, LinkError};
use crate::netns::Namespace;
use crate::process::{Launch, Process, ProcessError};
use nodes::{Kind, Role, Signing, Task};

/// The port of all servers.
pub const PORT: u16 = 53;
/// The most secondaries of a primary.
pub const MOST_SECONDARIES: u8 = 8;
/// How long a server may take to end politely.
const GRACE: Duration = Duration::from_secs(20);

/// The shared key of updates, notifications and transfers: its name.
pub const KEY_NAME: &str = "lab";
/// Its algorithm.
pub const KEY_ALGORITHM: &str = "hmac-sha256";
/// Its secret, Base64. It protects nothing: nobody else is in the namespace.
pub const KEY_SECRET: &str = "ZG5zZHluby1kbnNkeW5vLWRuc2R5bm8tZG5zZHlubw==";

/// Why a server of the replication is not up.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its program is not there.
    #[error("{title} is not installed: apt-get install {package}")]
    Missing {
        /// The server.
        title: &'static str,
        /// Its package.
        package: &'static str,
    },
    /// It cannot be what is asked.
    #[error("{0} is not driven as a primary that takes updates")]
    NoPrimary(&'static str),
    /// It does not sign its zone by itself.
    #[error("{0} is not driven as a primary that signs its zone")]
    NoSigner(&'static str),
    /// It is not driven here with a zone that is signed already.
    #[error("{0} is not driven here with a zone file that is signed already")]
    NoSignedFile(&'static str),
    /// Its zone cannot be prepared.
    #[error(transparent)]
    Preparation(#[from] crate::signer::SignError),
    /// Its process is not as it should be.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file of it cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The namespace's loopback cannot be brought up.
    #[error("the loopback: {0}")]
    Network(String),
}

/// The namespace of a replication.
#[derive(Debug)]
pub struct Network {
    namespace: Namespace,
}

impl Network {
    /// A namespace with its loopback up; only inside the lab.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn create() -> Result<Self, NodeError> {
        let network = |e: &dyn std::fmt::Display| NodeError::Network(e.to_string());
        let namespace = Namespace::create("replication").map_err(|e| network(&e))?;
        links::loopback(&namespace, &[]).map_err(|e: LinkError| network(&e))?;
        let secondaries: Vec<IpAddr> =
            (1..=MOST_SECONDARIES).map(|number| (*Self::address(number).ip()).into()).collect();
        links::loopback_addresses(&namespace, &secondaries).map_err(|e| network(&e))?;
        Ok(Network { namespace })
    }

    /// Runs `work` inside; sockets and threads it makes are inside too.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        self.namespace.run(work)
    }

    /// The address of server `number` (up to [`MOST_SECONDARIES`]): the primary is 0.
    pub fn address(number: u8) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, number.saturating_add(1)), PORT)
    }
}

/// A server of the replication.
#[derive(Debug)]
pub struct Node {
    kind: Kind,
    address: SocketAddrV4,
    dir: PathBuf,
    command: Vec<std::ffi::OsString>,
    cpus: CpuList,
    process: Option<Process>,
}

impl Node {
    /// Configures a server in the folder `dir`, which it makes, and starts it.
    ///
    /// # Errors
    /// When it is not installed, or cannot be configured or started.
    pub fn start(
        network: &Network,
        kind: Kind,
        task: &Task<'_>,
        dir: &Path,
        cpus: &CpuList,
    ) -> Result<Self, NodeError> {
        if matches!(task.role, Role::Primary { .. }) && !kind.takes_updates() {
            return Err(NodeError::NoPrimary(kind.title()));
        }
        if matches!(task.role, Role::Primary { signing: Signing::ByPrimary, .. }) && !kind.signs() {
            return Err(NodeError::NoSigner(kind.title()));
        }
        if matches!(task.role, Role::Primary { signing: Signing::InFile, .. })
            && !kind.serves_signed_files()
        {
            return Err(NodeError::NoSignedFile(kind.title()));
        }
        let program = kind.program()?;
        let error = |path: &Path| {
            let path = path.to_owned();
            |source| NodeError::File { path, source }
        };
        std::fs::create_dir_all(dir).map_err(error(dir))?;
        for (name, text) in kind.files(task, dir) {
            let path = dir.join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(error(parent))?;
            }
            std::fs::write(&path, text).map_err(error(&path))?;
        }
        if let Role::Primary { zone_file, .. } = task.role {
            // A copy of its own: its journal lies beside it.
            std::fs::copy(zone_file, dir.join("zone")).map_err(error(zone_file))?;
        }
        for (program, arguments) in kind.preparation(task) {
            crate::signer::execute(program, dir, arguments.iter().map(OsStr::new))?;
        }
        let mut command = vec![program.into_os_string()];
        command.extend(kind.arguments(dir).into_iter().map(Into::into));
        let (dir, cpus) = (dir.to_owned(), cpus.clone());
        let mut node = Node { kind, address: task.address, dir, command, cpus, process: None };
        node.start_again(network)?;
        Ok(node)
    }

    /// Starts it again with what it has left behind.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_again(&mut self, network: &Network) -> Result<(), NodeError> {
        let launch = Launch {
            name: self.kind.name(),
            namespace: &network.namespace,
            cpus: &self.cpus,
            dir: &self.dir,
            command: self.command.clone(),
            environment: Vec::new(),
        };
        self.process = Some(Process::start(&launch)?);
        Ok(())
    }

    /// Which server it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address.into()
    }

    /// Checks that it still runs.
    ///
    /// # Errors
    /// When it has ended, with the end of its log.
    pub fn check(&mut self) -> Result<(), NodeError> {
        match &mut self.process {
            Some(process) => Ok(process.check()?),
            None => Ok(()),
        }
    }

    /// Its process number.
    pub fn pid(&self) -> Option<i32> {
        self.process.as_ref().and_then(|process| i32::try_from(process.pid()).ok())
    }

    /// Ends it without warning (SIGKILL), or waits for that if it was done already.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop(Signal::SIGKILL, GRACE);
        }
        self.kind.forget_process(&self.dir);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop(Signal::SIGTERM, GRACE);
        }
    }
}
