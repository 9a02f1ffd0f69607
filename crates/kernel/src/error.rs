//! Errors of loading and attaching, with the missing requirement and a remedy.

use std::net::SocketAddr;

use aya::programs::ProgramError;
use aya::{EbpfError, maps::MapError};
use thiserror::Error;

/// The system's error for a missing right. A refused program gives EACCES or another error.
const EPERM: i32 = 1;

/// Error: a program cannot be loaded or attached.
#[derive(Debug, Error)]
pub enum KernelError {
    /// The user may not load programs.
    #[error(
        "this user may not load BPF programs: run as root, or with CAP_BPF and CAP_NET_ADMIN outside of containers"
    )]
    NotPermitted,
    /// The user may not look up programs.
    #[error(
        "a program that stays after the end of its process needs root, or CAP_SYS_ADMIN: without it the next process cannot find the program to replace it"
    )]
    MayNotStay,
    /// The kernel refuses a program; the message of its verifier follows.
    #[error("the kernel refuses the program `{name}` ({why}); Linux 6.1 or newer is needed\n{log}")]
    Refused {
        /// Name of the program in its object.
        name: &'static str,
        /// Error with which the kernel refuses it.
        why: String,
        /// What its verifier printed, which names the instruction; may be empty.
        log: String,
    },
    /// The device does not exist or has no native XDP.
    #[error(
        "cannot attach to {device}: {why}; the device needs a driver with native XDP (veth has it, loopback does not; a server can use generic XDP: `--xdp generic`, `kernel.xdp`), an MTU that fits into a page (1500 does), and no other program (`ip link set {device} xdp off` removes one)"
    )]
    Attach {
        /// Name of the network device.
        device: String,
        /// Error with which the kernel refuses it.
        why: String,
    },
    /// The program of an earlier server on a device cannot be removed.
    #[error(
        "a program on {device}, perhaps of an earlier server, cannot be removed: {why}; `ip link set {device} xdp off` removes it"
    )]
    Left {
        /// Name of the network device.
        device: String,
        /// Error of the kernel, or that it is no program of ours.
        why: String,
    },
    /// The object lacks an expected map or program.
    #[error("the BPF object lacks {0}: it belongs to another version")]
    Missing(&'static str),
    /// The number of cores is not known.
    #[error("cannot read the number of cores in {0}: {1}")]
    Cores(&'static str, std::io::Error),
    /// A map cannot be read or written.
    #[error("cannot use a map of the program")]
    Map(#[from] MapError),
    /// The memory of a map cannot be shared.
    #[error("cannot share the memory of the map `{0}` with the kernel: {1}")]
    Memory(&'static str, std::io::Error),
    /// There is no route to the server.
    #[error("the engine `kernel` has no route to {0}: {1}")]
    Route(SocketAddr, String),
    /// The kernel programs cannot send this load.
    #[error("{0}")]
    Plan(String),
    /// The kernel stopped a generator.
    #[error("the kernel does not run the program that sends: {0}")]
    Run(String),
    /// The addresses cannot be served by one program.
    #[error("{0}")]
    Listen(String),
}

impl KernelError {
    /// Describes why an object cannot be loaded.
    pub(crate) fn load(error: EbpfError) -> Self {
        Self::of("maps", &error)
    }

    /// Describes why a program cannot be loaded.
    pub(crate) fn program(name: &'static str, error: ProgramError) -> Self {
        let log = match &error {
            ProgramError::LoadError { verifier_log, .. } => verifier_log.to_string(),
            _ => String::new(),
        };
        match Self::of(name, &error) {
            KernelError::Refused { name, why, .. } => KernelError::Refused { name, why, log },
            other => other,
        }
    }

    /// Describes why a program cannot be attached to a device.
    pub(crate) fn attach(device: &str, error: &ProgramError) -> Self {
        let first = error as &(dyn std::error::Error + 'static);
        let causes = std::iter::successors(Some(first), |error| error.source());
        Self::cannot_attach(device, causes.last().unwrap_or(first))
    }

    /// Describes why a program cannot be attached to a device, by its cause.
    pub(crate) fn cannot_attach(device: &str, cause: &(dyn std::error::Error + 'static)) -> Self {
        KernelError::Attach { device: device.to_owned(), why: cause.to_string() }
    }

    fn of(name: &'static str, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut causes = std::iter::successors(Some(error), |error| error.source());
        let denied = causes.any(|cause| {
            let system =
                cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
            system == Some(EPERM)
        });
        if denied {
            KernelError::NotPermitted
        } else {
            KernelError::Refused { name, why: error.to_string(), log: String::new() }
        }
    }
}
