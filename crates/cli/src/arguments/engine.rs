//! What carries the queries of a load: sockets, or programs in the kernel.

use anyhow::bail;
use clap::Args;
use record::request::{Engine, HardwareAddress, InKernel};
use record::{EngineChoice, TrialRequest};
use tester::Setup;

use crate::arguments::choice::{Choice, choice};
use crate::failure::Failure;
use crate::process::command_line;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineArgs {
    /// What sends queries over UDP and checks replies: the sockets of the workers, programs in the
    /// kernel (XDP; as root), or the kernel if it can carry the load, else sockets
    #[arg(long, value_parser = choice(&ENGINE), value_name = "ENGINE", default_value = "sockets")]
    pub(crate) engine: EngineChoice,
    /// Network device for the engine `kernel` [default: the device of the source address]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Hardware address of the server, or of the router on the way to it, for the engine `kernel` [default: looked up]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) neighbour: Option<HardwareAddress>,
}

/// Engines of a load over UDP.
pub(crate) const ENGINE: [Choice<EngineChoice>; 3] = [
    ("sockets", "The sockets of the workers", EngineChoice::Sockets),
    ("kernel", "Programs in the kernel", EngineChoice::Kernel),
    ("auto", "The kernel where it can carry the load, else sockets", EngineChoice::Auto),
];

impl EngineArgs {
    /// Returns the engine of a request that would have `engine` without these arguments.
    pub(crate) fn apply(&self, engine: Engine) -> anyhow::Result<Engine> {
        match (self.engine, engine) {
            (EngineChoice::Kernel, Engine::Udp) => Ok(Engine::Kernel(self.way())),
            (EngineChoice::Kernel, _) => {
                bail!(
                    "--engine kernel sends over UDP and without clients: leave out --clients and the arguments of connections"
                )
            }
            (EngineChoice::Sockets, _) if self.device.is_some() || self.neighbour.is_some() => {
                bail!("--device and --neighbour are for --engine kernel")
            }
            (_, engine) => Ok(engine),
        }
    }

    /// Checks a request; with `auto` the kernel carries it if it can, else sockets do, and the reason is printed.
    pub(crate) fn setup(&self, request: TrialRequest) -> Result<Setup, Failure> {
        if self.engine == EngineChoice::Auto && request.engine == Engine::Udp {
            let engine = Engine::Kernel(self.way());
            let tried = Setup::new(TrialRequest { engine, ..request.clone() }, command_line());
            let tried = tried.and_then(|setup| setup.probe_kernel().map(|()| setup));
            match tried {
                Ok(setup) => return Ok(setup),
                Err(why) => eprintln!("engine sockets: {why}"),
            }
        }
        Ok(Setup::new(request, command_line())?)
    }

    fn way(&self) -> InKernel {
        InKernel { device: self.device.clone(), neighbour: self.neighbour }
    }
}
