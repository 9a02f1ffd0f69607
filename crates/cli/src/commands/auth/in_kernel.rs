//! The AuthDNS in the kernel, before the sockets.

use std::net::SocketAddr;

use ::auth::{AuthConfig, AuthCounters};
use anyhow::anyhow;
use kernel::{AuthProgram, KernelAuth, KernelCounters, KernelError, Listen};

use super::args::{AuthArgs, AuthEngine};
use crate::failure::Failure;

/// Attaches the program to the devices if it is asked for; without the right to do so the sockets answer alone, which is
/// said.
pub(super) fn start(
    args: &AuthArgs,
    config: &AuthConfig,
    addresses: &[SocketAddr],
) -> Result<Option<KernelAuth>, Failure> {
    if args.engine == AuthEngine::Sockets {
        let given = args.device.is_empty();
        return given
            .then_some(None)
            .ok_or_else(|| Failure::input(anyhow!("--device is for --engine kernel")));
    }
    if !config.is_plain() {
        let why = "--engine kernel answers at once and correctly: delays, losses, faults, capacities, stalls and --remember are of --engine sockets";
        return Err(Failure::input(anyhow!(why)));
    }
    let listen = Listen::new(addresses).map_err(Failure::input)?;
    let mut kernel = match KernelAuth::load(&program(config), &listen) {
        Err(why @ KernelError::NotPermitted) => {
            eprintln!("warning: {why}; the sockets answer alone");
            return Ok(None);
        }
        loaded => loaded.map_err(Failure::input)?,
    };
    for device in &args.device {
        kernel.attach(device).map_err(Failure::input)?;
    }
    Ok(Some(kernel))
}

/// Adds what the kernel answered. What it passed up was counted by the sockets.
pub(super) fn add(counters: &mut AuthCounters, kernel: &KernelCounters) {
    counters.queries += kernel.queries.saturating_sub(kernel.passed);
    counters.answers += kernel.answers;
    counters.nodata += kernel.nodata;
    counters.nxdomain += kernel.nxdomain;
    counters.overflow += kernel.dropped;
}

fn program(config: &AuthConfig) -> AuthProgram {
    let prebuilt = config.prebuilt();
    AuthProgram {
        namespace: config.namespace,
        pref64: config.pref64,
        aaaa_below: prebuilt.aaaa_below,
        address: prebuilt.address,
        embedded: prebuilt.embedded,
        soa: prebuilt.soa,
        udp_size: prebuilt.udp_size,
    }
}
