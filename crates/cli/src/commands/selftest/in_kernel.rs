//! The self-test of the programs in the kernel: Measurer and AuthDNS at the two ends of a private
//! link.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ::auth::{AaaaPolicy, AuthConfig};
use anyhow::anyhow;
use kernel::tester::hardware_of;
use kernel::{KernelAuth, Listen, XdpMode};
use lab::{CpuList, ShortLink};
use load::Live;
use measure::Link;
use record::request::{Engine, HardwareAddress, InKernel};
use record::testbed::Network;
use record::{TrialRequest, TrialResult};
use tester::Setup;
use wire::Namespace;

use super::args::SelftestArgs;
use crate::failure::Failure;
use crate::process::command_line;

/// Address and port of the AuthDNS, and the Measurer's address; no host uses these addresses.
const AUTHDNS_ADDRESS: &str = "[fd00:6464::53]:53";
const MEASURER_ADDRESS: &str = "fd00:6464::1/128";

/// A link with an AuthDNS at its end.
pub(super) struct Chain {
    link: ShortLink,
    auth: KernelAuth,
}

impl Chain {
    /// Makes the link, and starts the AuthDNS; without --cpus there is a chain on each core.
    pub(super) fn start(args: &mut SelftestArgs, namespace: &Namespace) -> Result<Self, Failure> {
        if args.auth_cpus.is_some() {
            let why = "--auth-cpus: with --engine kernel the AuthDNS answers on the core of the worker that queries it";
            return Err(Failure::input(anyhow!(why)));
        }
        let cpus = args.sockets.cpus.get_or_insert_with(CpuList::allowed);
        let queues = cpus.cpus().iter().max().map_or(1, |last| last + 1) as u32;
        let link = ShortLink::create(queues).map_err(Failure::input)?;
        let config = AuthConfig {
            aaaa: AaaaPolicy::Always,
            pref64: args.pref64,
            ..AuthConfig::new(*namespace)
        };
        let listen = Listen::new(&[Self::target()]).map_err(Failure::input)?;
        let mut auth = KernelAuth::load(&config, &listen).map_err(Failure::input)?;
        let attached =
            link.run(|| auth.attach(ShortLink::AUTH, XdpMode::Native)).map_err(Failure::run)?;
        attached.map_err(Failure::input)?;
        Ok(Chain { link, auth })
    }

    /// Directs a request to the AuthDNS at the other end.
    pub(super) fn direct(&self, request: TrialRequest) -> Result<TrialRequest, Failure> {
        let hardware = self.link.run(|| hardware_of(ShortLink::AUTH)).map_err(Failure::run)?;
        let hardware = hardware.ok_or_else(|| Failure::run(anyhow!("the link was removed")))?;
        let engine = Engine::Kernel(InKernel {
            device: Some(ShortLink::TESTER.to_owned()),
            neighbour: Some(HardwareAddress(hardware)),
        });
        let mut request = TrialRequest { engine, target: Self::target(), ..request };
        request.sockets.source = Some(MEASURER_ADDRESS.parse().expect("a prefix"));
        // On every core the AuthDNS works between two queries.
        request.sockets.shared_core = true;
        Ok(request)
    }

    /// Runs the trial, and compares the numbers of both ends.
    pub(super) fn run(
        &self,
        request: &TrialRequest,
        live: &Arc<Live>,
        stop: &Arc<AtomicBool>,
    ) -> Result<TrialResult, Failure> {
        let run = || -> Result<TrialResult, Failure> {
            let setup = Setup::new(request.clone(), command_line())?;
            Ok(setup.run(live, stop)?)
        };
        let result = self.link.run(run).map_err(Failure::run)??;
        let asked = self.auth.counters().map_err(Failure::run)?.queries;
        if asked > result.trial.sent {
            let why = format!(
                "the AuthDNS received {asked} queries, the Measurer sent {}",
                result.trial.sent
            );
            return Err(Failure::run(anyhow!(why)));
        }
        Ok(result)
    }

    /// Returns address and port of the AuthDNS.
    pub(super) fn target() -> SocketAddr {
        AUTHDNS_ADDRESS.parse().expect("an address")
    }

    /// Returns the network between Measurer and AuthDNS.
    pub(super) fn network() -> (Network, Option<Link>) {
        (Network::Namespaces, Some(Link::Plain))
    }
}
