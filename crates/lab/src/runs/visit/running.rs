//! Visits to a server that the user runs: the lab starts no server process, and probes only the
//! network, or also the host by an agent.
//!
//! ```text
//!   lab's own network namespace: that of its caller (enter::LabNetwork::Outside)
//!     └─ dnsdyno load ADDRESS ...     on the Tester's cores; the hosts of the testbed stand idle
//! ```
//!
//! Queries go only to an address that the user has named, in the experiment's file or by a flag.

use experiment::{Method, Point, Visit};

use super::{StartedServer, outside_testbed};
use crate::adapter::Adapter;
use crate::adapter::variables::varies;
use crate::runs::bench::{LabBench, RemoteParts};
use crate::runs::session::{Session, Shortfall};
use crate::server::Installed;
use crate::server::query_stream::Prepared;
use crate::server::ready::{Over, Question, accepts, answers};
use crate::testbed::netns::Namespace;

/// Note on a server that is not in the lab, after its place.
const NOT_SEEN: &str =
    "its processor, memory, drops and configuration were not observed, and it was not restarted";
/// Note on a server that an agent probed, after its place.
const PROBED_NOTE: &str = "an agent observed its processor, drops and stalls; its memory and \
    configuration were not observed, and it was not restarted";

/// Returns a setting of the server or its host that differs between points, but cannot be changed
/// there.
fn out_of_reach(adapter: &Adapter, points: &[Point]) -> Option<&'static str> {
    [
        ("number of cores", varies(adapter, points, |s| s.dut.cores)),
        ("number of threads", varies(adapter, points, |s| s.dut.threads)),
        ("CPU limit", varies(adapter, points, |s| s.dut.cpu_limit)),
        ("link", varies(adapter, points, |s| s.host.link)),
    ]
    .into_iter()
    .find_map(|(name, varied)| varied.then_some(name))
}

impl Session<'_> {
    /// Reaches a server that runs at its address.
    pub(super) fn reach<'s>(
        &'s self,
        v: &Visit,
        installed: &'s Installed,
        stream: Option<&Prepared>,
    ) -> Result<StartedServer<'s>, Shortfall> {
        let point = &self.checked.experiment.points[v.point];
        let settings = &point.settings;
        if settings.method == Method::ZoneLoad {
            let why =
                "a remote server cannot be started, so its time to load a zone cannot be measured"
                    .to_owned();
            return Err(Shortfall::Cannot(why));
        }
        if let Some(name) = out_of_reach(installed.adapter(), &self.checked.experiment.points) {
            return Err(Shortfall::Cannot(format!(
                "the experiment varies the {name}, which dnsdyno cannot change on a server that it did not start"
            )));
        }
        let failed = |e: std::io::Error| Shortfall::Failed(e.to_string());
        let (question_plan, outside) = (self.question_plan(v), Namespace::own().map_err(failed)?);
        let target = installed.address();
        let transport = settings.tester.transport;
        if let Some(over) = Over::of(transport) {
            let origin = stream.and_then(Prepared::origin);
            let questions =
                Question::of(origin.as_ref(), &question_plan.namespace, question_plan.ask());
            answers(&outside, target, over, &questions).map_err(|why| {
                Shortfall::Failed(format!("{why}: {}", question_plan.remote_remedy(point)))
            })?;
        } else if transport.uses_tcp() {
            accepts(&outside, target).map_err(Shortfall::Failed)?;
        }
        let dut = self.options.remote_hosts.agents.dut.clone();
        let testers = self.options.remote_hosts.job();
        let seen = if dut.is_some() { PROBED_NOTE } else { NOT_SEEN };
        let beside = dut.as_ref().filter(|_| testers.is_none());
        let circumstances = outside_testbed(target, &settings.tester, beside);
        let place = match circumstances.one_host {
            Some(_) => "the server runs on this host, outside of the testbed",
            None => "the server is remote",
        };
        let tester_count = self.options.remote_hosts.tester_count();
        let outside = Some(outside);
        let remote = RemoteParts { outside, dut, testers, tester_count, ..RemoteParts::default() };
        let base = self.base(v, stream, target, None);
        let bench = LabBench::new(self.env(), base, None).with_remote(remote);
        Ok(StartedServer {
            title: format!("{} at {target}", installed.adapter().title),
            version: None,
            circumstances,
            conforms: settings.method == Method::Search,
            notes: vec![format!("{place}: {seen}")],
            ..StartedServer::new(bench, installed)
        })
    }
}
