//! The AuthDNS in the kernel, before the sockets.

use std::net::SocketAddr;

use ::auth::{AuthConfig, AuthCounters};
use anyhow::anyhow;
use kernel::{KernelAuth, KernelCounters, KernelError, Listen, XdpMode};

use super::args::{AuthArgs, AuthEngine};
use crate::failure::Failure;

/// Attaches the program to the devices if `--engine kernel` is given; without the right to do so
/// the sockets answer alone, and a message says so.
pub(super) fn start(
    args: &AuthArgs,
    config: &AuthConfig,
    addresses: &[SocketAddr],
) -> Result<Option<KernelAuth>, Failure> {
    if args.engine == AuthEngine::Sockets {
        if !args.device.is_empty() {
            return Err(Failure::input(anyhow!("--device requires --engine kernel")));
        }
        return Ok(None);
    }
    if !config.is_plain() {
        let why = "--engine kernel answers at once and correctly: delays, losses, faults, capacities, stalls, --remember, --internet and --traps need --engine sockets";
        return Err(Failure::input(anyhow!(why)));
    }
    let listen = Listen::new(addresses).map_err(Failure::input)?;
    let mut kernel = match KernelAuth::load(config, &listen) {
        Err(why @ KernelError::NotPermitted) => {
            eprintln!("warning: {why}; the sockets answer alone");
            return Ok(None);
        }
        loaded => loaded.map_err(Failure::input)?,
    };
    let mode = args.xdp.unwrap_or_default();
    for device in &args.device {
        kernel.attach_for_hosts(device, mode).map_err(Failure::input)?;
    }
    if mode == XdpMode::Generic {
        let devices = args.device.join(", ");
        eprintln!(
            "warning: generic XDP on {devices}: servers that query this AuthDNS are measured at its speed, not theirs"
        );
    }
    Ok(Some(kernel))
}

/// Adds the answers of the kernel. Queries that it passed up were counted by the sockets.
pub(super) fn add(counters: &mut AuthCounters, kernel: &KernelCounters) {
    counters.queries += kernel.queries.saturating_sub(kernel.passed);
    counters.answers += kernel.answers;
    counters.nodata += kernel.nodata;
    counters.nxdomain += kernel.nxdomain;
    counters.overflow += kernel.dropped;
}
