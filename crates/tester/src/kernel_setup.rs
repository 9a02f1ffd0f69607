//! Which loads the programs in the kernel can carry, and the way of their queries.

use kernel::tester::{Route, Via, prepare_signals};
use measure::Pacing;
use record::TrialRequest;
use record::request::{Gso, InKernel};
use udp::sys;

use crate::error::{Invalid, TesterError};
use crate::workload::WorkloadPlan;

/// Largest UDP payload size that queries may announce: larger replies come in fragments, of which a program sees no whole one.
const MAX_UDP_SIZE: u16 = 1_432;

/// The way of queries that the kernel sends.
#[derive(Clone, Debug)]
pub(crate) struct KernelSetup {
    pub(crate) route: Route,
}

impl KernelSetup {
    /// Checks that the programs can carry a load, and finds the way to its server. Without cores in the request there is one
    /// worker, on the first core.
    ///
    /// # Errors
    /// With the field that needs the engine of sockets, or with what is missing on the way.
    pub(crate) fn new(
        request: &mut TrialRequest,
        workload: &WorkloadPlan,
        way: &InKernel,
    ) -> Result<Self, TesterError> {
        let cpus = &mut request.sockets.cpus;
        if cpus.is_empty() {
            cpus.extend(sys::allowed_cpus()?.first());
        }
        check(request, workload)?;
        prepare_signals()?;
        let via = Via {
            device: way.device.clone(),
            source: request.sockets.source.map(|source| source.addr()),
            neighbour: way.neighbour.map(|address| address.0),
        };
        Ok(KernelSetup { route: Route::find(request.target, &via)? })
    }
}

/// Refuses what only sockets can do.
fn check(request: &TrialRequest, workload: &WorkloadPlan) -> Result<(), Invalid> {
    let refuse =
        |field, why: &str| Err(Invalid::value(field, format!("{why}; use the engine `sockets`")));
    let WorkloadPlan::Namespace(spec) = workload else {
        return refuse("workload", "the engine `kernel` sends the names of a namespace, each once");
    };
    if !spec.namespace.is_padded() {
        let why = "the engine `kernel` sends names with leading zeros";
        return refuse("workload.namespace.unpadded", why);
    }
    if spec.edns.as_ref().is_some_and(|edns| edns.udp_size > MAX_UDP_SIZE) {
        let why = format!("the engine `kernel` reads no fragments: {MAX_UDP_SIZE} at most");
        return refuse("workload.query.edns.udp_size", &why);
    }
    if !matches!(request.pacing, Pacing::Constant { .. } | Pacing::Poisson { .. }) {
        return refuse("pacing", "the engine `kernel` has the pacings constant and poisson");
    }
    if !request.also.is_empty() {
        return refuse("also", "the engine `kernel` asks one server");
    }
    if request.sockets.gso == Gso::On {
        return refuse("sockets.gso", "the engine `kernel` sends each query as a packet");
    }
    if request.most_outstanding.is_some() || request.step.is_some() {
        let field = if request.step.is_some() { "step" } else { "most_outstanding" };
        return refuse(field, "the engine `kernel` counts the queries of a whole trial");
    }
    if request.sockets.first_port.is_some() {
        return refuse("sockets.first_port", "the engine `kernel` chooses the source ports");
    }
    let cpus = &request.sockets.cpus;
    if cpus.iter().enumerate().any(|(i, cpu)| cpus[..i].contains(cpu)) {
        return refuse("sockets.cpus", "each worker of the engine `kernel` has a core of its own");
    }
    Ok(())
}
