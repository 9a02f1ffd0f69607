//! Which loads the programs in the kernel can carry, the way of their queries, and their questions if they are listed.

use std::sync::Arc;

use kernel::tester::{ListOrder, QuestionList, Route, RouteParts, prepare_signals};
use load::workload::file::{QueryFile, QueryOptions};
use measure::Pacing;
use record::TrialRequest;
use record::request::{Gso, InKernel};
use udp::sys;
use wire::message::HEADER;
use wire::{Edns, compose};

use crate::error::{Invalid, TesterError};
use crate::workload::WorkloadPlan;

/// Largest UDP payload size that queries may announce: larger replies come in fragments, of which a program sees no whole one.
const MAX_UDP_SIZE: u16 = 1_432;

/// The route of queries that the kernel sends, and their questions if they are not from a
/// namespace.
#[derive(Clone, Debug)]
pub(crate) struct KernelSetup {
    pub(crate) route: Route,
    pub(crate) listed: Option<Listed>,
}

/// Questions of a query file.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) order: ListOrder,
    /// Hash of each question, by which the workload knows it.
    pub(crate) hashes: Arc<[u32]>,
}

impl Listed {
    /// Reads the questions of a file.
    ///
    /// # Errors
    /// If there are too many.
    fn new(file: &QueryFile, options: &QueryOptions, path: &str) -> Result<Self, Invalid> {
        let (mut list, mut hashes) = (QuestionList::default(), Vec::new());
        let read = file.try_each(|hash, question| {
            hashes.push(hash);
            list.push(question)
        });
        read.map_err(|why| {
            let why = format!("{path}: {why}; use the engine `sockets`");
            Invalid::value("workload.queries", why)
        })?;
        let tail = options.edns.as_ref().map(Edns::to_opt);
        let mut query = vec![0; HEADER + tail.as_ref().map_or(0, Vec::len)];
        compose(&mut query, 0, &[], options.recursion_desired, tail.as_deref());
        let mut header = [0; HEADER];
        header.copy_from_slice(&query[..HEADER]);
        let tail = tail.unwrap_or_default();
        let order = ListOrder { list: Arc::new(list), header, tail, runs: options.runs };
        Ok(Listed { order, hashes: hashes.into() })
    }
}

impl KernelSetup {
    /// Checks that the programs can carry a load, and finds the way to its server. Without cores in the request there is one
    /// worker, on the first core.
    ///
    /// # Errors
    /// If a field of the request needs the engine of sockets, or a feature of the kernel is missing;
    /// the error names it.
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
        let listed = match workload {
            WorkloadPlan::File(file, options, path) => Some(Listed::new(file, options, path)?),
            _ => None,
        };
        prepare_signals()?;
        let via = RouteParts {
            device: way.device.clone(),
            source: request.sockets.source.map(|source| source.addr()),
            neighbour: way.neighbour.map(|address| address.0),
        };
        Ok(KernelSetup { route: Route::find(request.target, &via)?, listed })
    }
}

/// Refuses requests that need sockets.
fn check(request: &TrialRequest, workload: &WorkloadPlan) -> Result<(), Invalid> {
    let refuse =
        |field, why: &str| Err(Invalid::value(field, format!("{why}; use the engine `sockets`")));
    let edns = match workload {
        WorkloadPlan::Namespace(spec) if !spec.namespace.is_padded() => {
            let why = "the engine `kernel` sends names with leading zeros";
            return refuse("workload.namespace.unpadded", why);
        }
        WorkloadPlan::Namespace(spec) => &spec.edns,
        WorkloadPlan::File(file, ..) if file.has_messages() => {
            let why = "the engine `kernel` sends names and types, all with the same header";
            return refuse("workload.messages", why);
        }
        WorkloadPlan::File(_, options, _) if options.sample.is_some() => {
            return refuse("workload.probability", "the engine `kernel` cannot skip queries");
        }
        WorkloadPlan::File(_, options, _) => &options.edns,
        _ => {
            let why = "the engine `kernel` sends the names of a namespace, each once, or the queries of a text file";
            return refuse("workload", why);
        }
    };
    if edns.as_ref().is_some_and(|edns| edns.udp_size > MAX_UDP_SIZE) {
        let why = format!("the engine `kernel` does not read fragments: {MAX_UDP_SIZE} at most");
        return refuse("workload.query.edns.udp_size", &why);
    }
    if matches!(
        request.pacing,
        Pacing::Ramp { .. } | Pacing::RampHold { .. } | Pacing::LockStep { .. }
    ) {
        return refuse(
            "pacing",
            "the engine `kernel` supports the pacings constant, poisson and window",
        );
    }
    if !request.also.is_empty() {
        return refuse("also", "the engine `kernel` queries one server");
    }
    if request.sockets.gso == Gso::On {
        return refuse("sockets.gso", "the engine `kernel` sends each query as a packet");
    }
    if request.most_outstanding.is_some() {
        return refuse(
            "most_outstanding",
            "the engine `kernel` cannot stop after a number of queries",
        );
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
