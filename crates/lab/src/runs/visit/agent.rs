//! Visits to a server that an agent starts on another host: the server is configured there by its adapter, started from scratch
//! for each repeat, and probed.
//!
//! ```text
//!   this host                                            the server's host, by ssh
//!     AuthDNS <───────────── queries of the server ─────── agent ── the server, in a pid namespace
//!     Measurer ═════════════ queries ══════════════════════════════> (addresses of that host)
//! ```
//!
//! The AuthDNS runs here, in the network of the caller, or is started by an agent on a third host. There may be several of these: each
//! has all names, and the server asks them in its own way.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use experiment::file::Role;
use experiment::{Point, Settings, Visit};

use super::{StartedServer, outside_testbed};
use crate::adapter::Adapter;
use crate::adapter::variables;
use crate::remote::error::{Refusal, RemoteError};
use crate::remote::hosts::{RESERVE, RemoteDut};
use crate::remote::lines::StartedPart;
use crate::remote::parts::{Certified, Cores, Part, ServerPart};
use crate::runs::bench::{LabBench, RemoteParts, Upstream};
use crate::runs::session::{Cell, Session, Shortfall};
use crate::server::authdns::{self, Serves};
use crate::server::query_stream::Prepared;
use crate::server::question_plan::QuestionPlan;
use crate::server::ready::{Over, Question, answers};
use crate::server::{Installed, LabEnv, transport_port};
use crate::testbed::core_plan::cpu_plan;
use crate::testbed::cpus::CpuPlan;
use crate::testbed::netns::Namespace;

/// End of the note on trials without some of the Testers, after their number.
const FEWER_TESTERS: &str = " valid trials were sent with fewer Testers, since others were lost";

impl From<RemoteError> for Shortfall {
    fn from(e: RemoteError) -> Self {
        match e {
            RemoteError::Interrupted { .. } => Shortfall::Interrupted,
            RemoteError::Refused { why: Refusal::Cannot(_), .. } => {
                Shortfall::Cannot(e.to_string())
            }
            other => Shortfall::Failed(other.to_string()),
        }
    }
}

/// A remote server that was started, with its upstream.
struct Raised {
    remote: RemoteParts,
    authdns: Option<Upstream>,
    target: SocketAddr,
    /// File of the certification authority whose certificates are accepted.
    trusted_ca: Option<PathBuf>,
}

impl Session<'_> {
    /// Returns the plan of this host's cores at a point.
    pub(crate) fn plan_here(&self, settings: &Settings) -> Result<CpuPlan, String> {
        match &self.remote_dut {
            Some(_) => Ok(self.options.remote_hosts.plan(settings)),
            None => cpu_plan(settings, self.lab.allowed_cpus()),
        }
    }

    /// Returns the number of the server's cores at a point, as far as it is known.
    pub(crate) fn server_cores(&self, settings: &Settings) -> Option<usize> {
        match &self.remote_dut {
            Some(remote_dut) => {
                Some(settings.dut.cores.unwrap_or_else(|| remote_dut.dut_cpus().len()))
            }
            None => Some(cpu_plan(settings, self.lab.allowed_cpus()).ok()?.dut.count()),
        }
    }

    /// Returns whether a server of this host has programs in the kernel at a point.
    pub(crate) fn has_programs(&self, adapter: &Adapter, point: &Point) -> bool {
        self.remote_dut.is_none() && variables::has_programs(adapter, point)
    }

    /// Notes that several Testers sent the queries, if there were several, and the number of trials
    /// without some of them.
    pub(crate) fn note_testers(&self, cell: &mut Cell) {
        let Some(testers) = &self.options.remote_hosts.testers else { return };
        let note = format!(
            "the queries were sent by {} Testers together; each trial lists their parts",
            testers.count
        );
        cell.record.note(note);
        let stand = cell.record.trials.iter().filter(|one| !one.trial.void.is_void());
        let parts = stand.filter_map(|one| Some(one.trial.merged.as_ref()?.parts.len()));
        let fewer = parts.filter(|parts| *parts < testers.count).count();
        if fewer > 0 {
            cell.record.notes.retain(|note| !note.ends_with(FEWER_TESTERS));
            cell.record.note(format!("{fewer}{FEWER_TESTERS}"));
        }
    }

    /// Returns why an adapter cannot be configured for the AuthDNS of the run.
    fn asks_one_only(&self, adapter: &Adapter, settings: &Settings) -> Option<String> {
        let several =
            self.remote_dut.as_ref().is_some_and(|remote_dut| remote_dut.places.auth.len() > 1);
        (several && settings.role != Role::Authoritative && !adapter.asks_several()).then(|| {
            format!(
                "there are several AuthDNS, but the adapter of {} supports only one: its templates have no `upstreams`",
                adapter.title
            )
        })
    }

    /// Starts a remote server with its upstream, and waits until the Tester gets correct answers.
    fn raise(
        &self,
        v: &Visit,
        installed: &Installed,
        stream: Option<&Prepared>,
    ) -> Result<Raised, Shortfall> {
        let point = &self.checked.experiment.points[v.point];
        let adapter = installed.adapter();
        let why = self.checked.bound_to_this_host(adapter, point);
        if let Some(why) = why.or_else(|| self.asks_one_only(adapter, &point.settings)) {
            return Err(Shortfall::Cannot(why));
        }
        let question_plan = self.question_plan(v);
        let trusted_ca = match point.settings.tester.transport.uses_tls() {
            true => Some(self.certified()?),
            false => None,
        };
        let certificate = trusted_ca.as_ref().map(|dir| certificate(dir)).transpose();
        let certificate = certificate.map_err(Shortfall::Failed)?;
        let remote_dut = self.remote_dut()?;
        let family = point.settings.tester.family;
        let mut target = remote_dut.target(adapter, family).map_err(Shortfall::Cannot)?;
        let (authdns, auth) = self.authdns_for(remote_dut, point, &question_plan)?;
        let part = Part::Server(Box::new(ServerPart {
            source: adapter.source.clone(),
            role: point.settings.role,
            names: question_plan.queried_names(),
            threads: point.settings.dut.threads,
            cpus: Cores { count: point.settings.dut.cores, ..remote_dut.cpus.clone() },
            transport: point.settings.tester.transport,
            clients: point.settings.most_clients(),
            variables: variables::given(point),
            certificate,
            listen: remote_dut.places.dut,
            upstreams: remote_dut.places.auth.clone(),
            cpu_limit: point.settings.dut.cpu_limit,
        }));
        let ready: Duration = adapter.chain().map(|part| part.ready.timeout).sum();
        let limit = ready + RESERVE;
        let outside = Namespace::own().map_err(|e| Shortfall::Failed(e.to_string()))?;
        let launched = remote_dut.dut.lock().launch(&part, limit)?;
        let started = Some(StartedPart(remote_dut.dut.clone()));
        let questions = Question::of(
            stream.and_then(Prepared::origin).as_ref(),
            &question_plan.namespace,
            question_plan.ask(),
        );
        if adapter.listen.udp {
            answers(&outside, target, Over::Udp, &questions).map_err(|why| {
                Shortfall::Failed(format!(
                    "{why}, though it does on its own host: check the link and the firewalls"
                ))
            })?;
        }
        if trusted_ca.is_some() {
            target.set_port(transport_port(point.settings.tester.transport));
        }
        let remote = RemoteParts {
            outside: Some(outside),
            dut: Some(remote_dut.dut.clone()),
            auth,
            part: Some(part),
            started,
            limit,
            launched,
            testers: self.options.remote_hosts.job(),
            tester_count: self.options.remote_hosts.tester_count(),
        };
        Ok(Raised { remote, authdns, target, trusted_ca: trusted_ca.map(|dir| dir.join("ca.pem")) })
    }

    /// Starts the AuthDNS of a remote server: here, or by agents; none behind an authoritative server.
    fn authdns_for(
        &self,
        remote_dut: &RemoteDut,
        point: &Point,
        question_plan: &QuestionPlan,
    ) -> Result<(Option<Upstream>, Vec<StartedPart>), Shortfall> {
        if point.settings.role == Role::Authoritative {
            return Ok((None, Vec::new()));
        }
        if remote_dut.places.auth.iter().any(|place| place.v4.is_loopback()) {
            let why = "servers query their AuthDNS over IPv4, but its host has no IPv4 address: give --auth-address";
            return Err(Shortfall::Cannot(why.to_owned()));
        }
        let serves = Serves::of(point);
        let agents = remote_dut.start_authdns(serves, question_plan)?;
        if !agents.is_empty() {
            return Ok((None, agents));
        }
        let env = LabEnv { testbed: &remote_dut.testbed, ..self.env() };
        let started = authdns::start(serves, &question_plan.namespace, question_plan.pref64, env);
        let process = started.map_err(|e| Shortfall::Failed(e.to_string()))?;
        Ok((Some(Upstream::AuthDns(process)), Vec::new()))
    }

    /// Starts the server on its remote host by an agent.
    pub(super) fn start_remote<'s>(
        &'s self,
        v: &Visit,
        installed: &'s Installed,
        stream: Option<&Prepared>,
    ) -> Result<StartedServer<'s>, Shortfall> {
        let Raised { remote, authdns, target, trusted_ca } = self.raise(v, installed, stream)?;
        let settings = &self.checked.experiment.points[v.point].settings;
        let remote_dut = self.remote_dut()?;
        let circumstances = outside_testbed(target, &settings.tester, Some(&remote_dut.dut));
        let place = match circumstances.one_host {
            Some(_) => "in another network namespace of this host",
            None => "on another host",
        };
        let host = remote_dut.host();
        let mut notes =
            vec![format!("the server ran {place}, {host}, where an agent started and probed it")];
        let several = remote_dut.places.auth.len();
        if several > 1 && settings.role != Role::Authoritative {
            notes.push(format!(
                "the server was given {several} AuthDNS, each with all names; each trial lists the queries of each"
            ));
        }
        let env = LabEnv { testbed: &remote_dut.testbed, ..self.env() };
        let base = self.base(v, stream, target, trusted_ca);
        let bench = LabBench::new(env, base, authdns).with_remote(remote);
        let title = format!("{} on {host} at {target}", installed.adapter().title);
        Ok(StartedServer { title, circumstances, notes, ..StartedServer::new(bench, installed) })
    }

    /// Returns the remote host of the servers.
    fn remote_dut(&self) -> Result<&RemoteDut, Shortfall> {
        self.remote_dut.as_ref().ok_or_else(|| Shortfall::Failed("no host".to_owned()))
    }
}

/// Reads the certificate of a run's servers.
fn certificate(dir: &FilePath) -> Result<Certified, String> {
    let read = |name: &str| {
        let path = dir.join(name);
        fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    };
    Ok(Certified { certificate: read("server.pem")?, key: read("server.key")? })
}
