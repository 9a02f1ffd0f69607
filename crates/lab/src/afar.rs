//! The hosts of a run that are elsewhere: their agents, addresses and cores.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use experiment::Settings;

use crate::adapter::Adapter;
use crate::agent::{
    AgentError, Agents, AuthDnsPart, Cores, Part, Place, Remote, Remotes, SharedAgent, Task,
};
use crate::authdns::Serves;
use crate::core_plan::given_plan;
use crate::cpus::{CpuList, CpuPlan};
use crate::enter::Lab;
use crate::question_plan::QuestionPlan;
use crate::server::Installed;
use crate::testbed::{PORT, Places, Testbed};

/// Port of an AuthDNS whose user may not open [`PORT`].
const HIGH_PORT: u16 = 5300;
/// Time allowed to a start there beside that of its adapter: the zone is written, what ran before is stopped.
pub(crate) const RESERVE: Duration = Duration::from_secs(180);

/// Hosts of a run that are elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    /// Host of the server under test; absent if that is here.
    pub dut: Option<DutHost>,
    /// Ways to the hosts.
    pub remotes: Remotes,
    /// Agents on the hosts, once they are started.
    pub agents: Agents,
}

/// Host of the server under test, as the user describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DutHost {
    /// Whether servers are started there; else one that runs there is watched.
    pub starts: bool,
    /// Addresses that are queried; those by which ssh reached it if empty.
    pub addresses: Vec<IpAddr>,
    /// Cores of the server; all of its host if absent.
    pub cpus: Option<CpuList>,
    /// Addresses of the AuthDNS for the server; those of its host that reach the server if empty.
    pub auth_addresses: Vec<IpAddr>,
    /// Cores of an AuthDNS on a third host; all of that if absent.
    pub auth_cpus: Option<CpuList>,
}

impl Elsewhere {
    /// Makes the hosts of a run that goes on.
    pub(crate) fn recorded(host: record::DutHost) -> Self {
        let (starts, cpus) = (host.process.is_none(), CpuList::new(host.cpus));
        let watch = |process| Task::Watch { process, cpus: cpus.clone() };
        let task = host.process.map_or(Task::Start, watch);
        let (shell, program) = (host.shell, host.program);
        let way =
            |host, task| Remote { host, shell: shell.clone(), task, program: program.clone() };
        let remotes = Remotes {
            dut: Some(way(host.host, task)),
            auth: host.auth.map(|auth| way(auth, Task::Start)),
        };
        let dut = DutHost {
            starts,
            addresses: host.addresses,
            cpus,
            auth_addresses: host.auth_addresses,
            auth_cpus: CpuList::new(host.auth_cpus),
        };
        Elsewhere { dut: Some(dut), remotes, agents: Agents::default() }
    }

    /// Returns the hosts for the record, of which [`recorded`](Self::recorded) makes the same ones.
    pub(crate) fn record(&self) -> Option<record::DutHost> {
        let (dut, way) = (self.dut.as_ref()?, self.remotes.dut.as_ref()?);
        let process = match &way.task {
            Task::Watch { process, .. } => Some(process.clone()),
            Task::Start => None,
        };
        let listed =
            |cpus: &Option<CpuList>| cpus.as_ref().map_or(Vec::new(), |cpus| cpus.cpus().to_vec());
        Some(record::DutHost {
            host: way.host.clone(),
            process,
            shell: way.shell.clone(),
            program: way.program.clone(),
            addresses: dut.addresses.clone(),
            cpus: listed(&dut.cpus),
            auth: self.remotes.auth.as_ref().map(|auth| auth.host.clone()),
            auth_addresses: dut.auth_addresses.clone(),
            auth_cpus: listed(&dut.auth_cpus),
        })
    }

    /// Returns whether servers are started on another host.
    pub fn starts(&self) -> bool {
        self.dut.as_ref().is_some_and(|dut| dut.starts)
    }

    /// Returns the plan of the cores of this host for settings: a server that is started elsewhere has none here.
    pub(crate) fn plan(&self, settings: &Settings) -> CpuPlan {
        let plan = given_plan(settings);
        CpuPlan { dut: plan.tester.clone(), ..plan }
    }
}

/// What a run knows of a server's host while it starts servers there.
#[derive(Debug)]
pub(crate) struct Afar {
    pub(crate) dut: SharedAgent,
    auth: Option<SharedAgent>,
    /// Cores of the server there.
    pub(crate) cpus: Cores,
    auth_cpus: Cores,
    /// Addresses of both hosts; the loopback's where one has none of a family.
    pub(crate) places: Places,
    /// This host, where the AuthDNS runs if no agent starts it.
    pub(crate) testbed: Testbed,
}

impl Afar {
    /// Makes it for a run; `None` if its servers are started here.
    ///
    /// # Errors
    /// If an address is missing, in words.
    pub(crate) fn new(
        lab: &Lab,
        elsewhere: &Elsewhere,
        settings: &Settings,
    ) -> Result<Option<Self>, String> {
        let Some(host) = elsewhere.dut.as_ref().filter(|dut| dut.starts) else { return Ok(None) };
        let Some(dut) = elsewhere.agents.dut.clone() else {
            return Err("there is no agent on the server's host".to_owned());
        };
        let auth = elsewhere.agents.auth.clone();
        let told = |given: &[IpAddr], agent: &SharedAgent| match given {
            [] => agent.lock().greeting().addresses.clone(),
            given => given.to_vec(),
        };
        let at = told(&host.addresses, &dut);
        if at.is_empty() {
            return Err(
                "the addresses of the server's host are not known: give --dut-address".to_owned()
            );
        }
        let (auth_at, root) = match &auth {
            Some(auth) => (told(&host.auth_addresses, auth), auth.lock().greeting().root),
            None if host.auth_addresses.is_empty() => (toward(&at), lab.privileged()),
            None => (host.auth_addresses.clone(), lab.privileged()),
        };
        let port = if root { PORT } else { HIGH_PORT };
        let places = Places { dut: place(&at, PORT), auth: place(&auth_at, port) };
        let listed = |cpus: &Option<CpuList>| cpus.as_ref().map(|cpus| cpus.cpus().to_vec());
        let cores = |list| Cores { list, count: None };
        let testbed = Testbed::here(lab, elsewhere.plan(settings), places);
        Ok(Some(Afar {
            dut,
            auth,
            cpus: cores(listed(&host.cpus)),
            auth_cpus: cores(listed(&host.auth_cpus)),
            places,
            testbed: testbed.map_err(|e| e.to_string())?,
        }))
    }

    /// Returns the cores of a server there.
    pub(crate) fn dut_cpus(&self) -> Vec<usize> {
        self.cpus.list.clone().unwrap_or_else(|| self.dut.lock().greeting().cpus.clone())
    }

    /// Returns the name of the server's host.
    pub(crate) fn host(&self) -> String {
        self.dut.lock().host().to_owned()
    }

    /// Looks for the server there.
    ///
    /// # Errors
    /// [`AgentError::Absent`] if it is not installed there.
    pub(crate) fn find(&self, adapter: &Adapter) -> Result<Installed, AgentError> {
        let version = self.dut.lock().find(&adapter.source)?;
        Ok(Installed::elsewhere(adapter, version))
    }

    /// Returns the address that the Tester queries: IPv6 if the server listens on it and its host has one.
    ///
    /// # Errors
    /// If it has no address that the server listens on, in words.
    pub(crate) fn target(&self, adapter: &Adapter) -> Result<SocketAddr, String> {
        let (listen, place) = (adapter.listen, self.places.dut);
        let v6 = (listen.ipv6 && !place.v6.is_loopback()).then_some(IpAddr::V6(place.v6));
        let v4 = (listen.ipv4 && !place.v4.is_loopback()).then_some(IpAddr::V4(place.v4));
        let why = || format!("{} listens on no address that is known of its host", adapter.title);
        let ip = v6.or(v4).ok_or_else(why)?;
        Ok(SocketAddr::new(ip, listen.port))
    }

    /// Starts an AuthDNS on the third host, if there is one.
    ///
    /// # Errors
    /// If it does not answer there.
    pub(crate) fn start_authdns(
        &self,
        serves: Serves,
        asked: &QuestionPlan,
    ) -> Result<Option<SharedAgent>, AgentError> {
        let Some(auth) = &self.auth else { return Ok(None) };
        let part = AuthDnsPart {
            serves,
            asked: asked.asked(),
            listen: self.places.auth,
            cpus: self.auth_cpus.clone(),
        };
        auth.lock().launch(&Part::AuthDns(part), RESERVE)?;
        Ok(Some(auth.clone()))
    }

    /// Returns the address of the AuthDNS on the third host for this one.
    pub(crate) fn authdns_address(&self) -> SocketAddr {
        let Place { v4, v6, port } = self.places.auth;
        let ip = if v6.is_loopback() { IpAddr::V4(v4) } else { IpAddr::V6(v6) };
        SocketAddr::new(ip, port)
    }
}

/// Returns the first address of each family; the loopback's without one.
fn place(addresses: &[IpAddr], port: u16) -> Place {
    let v4 = addresses.iter().find_map(|a| if let IpAddr::V4(a) = a { Some(*a) } else { None });
    let v6 = addresses.iter().find_map(|a| if let IpAddr::V6(a) = a { Some(*a) } else { None });
    Place { v4: v4.unwrap_or(Ipv4Addr::LOCALHOST), v6: v6.unwrap_or(Ipv6Addr::LOCALHOST), port }
}

/// Returns the addresses of this host from which it reaches `others`.
fn toward(others: &[IpAddr]) -> Vec<IpAddr> {
    let source = |other: &IpAddr| {
        let any = match other {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((*other, PORT)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    others.iter().filter_map(source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_without_an_address_has_the_loopback() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let both = [ip("fd00::1"), ip("192.0.2.1"), ip("fd00::2")];
        let place_of = |addresses: &[IpAddr]| {
            let Place { v4, v6, port } = place(addresses, 53);
            (v4.to_string(), v6.to_string(), port)
        };
        assert_eq!(place_of(&both), ("192.0.2.1".to_owned(), "fd00::1".to_owned(), 53));
        assert_eq!(place_of(&both[..1]), ("127.0.0.1".to_owned(), "fd00::1".to_owned(), 53));
        assert_eq!(toward(&[ip("127.0.0.1"), ip("::1")]), [ip("127.0.0.1"), ip("::1")]);
    }

    #[test]
    fn a_run_goes_on_on_the_hosts_of_its_record() {
        let text = |text: &str| text.to_owned();
        let started = record::DutHost {
            host: text("root@server.example"),
            process: None,
            shell: vec![text("ssh"), text("-4")],
            program: Some(text("/opt/dnsdyno")),
            addresses: vec![IpAddr::from([192, 0, 2, 1])],
            cpus: vec![1, 2],
            auth: Some(text("auth.example")),
            auth_addresses: vec![IpAddr::from([192, 0, 2, 2])],
            auth_cpus: vec![0],
        };
        let watched = record::DutHost {
            process: Some(text("nsd")),
            auth: None,
            cpus: Vec::new(),
            ..started.clone()
        };
        for host in [started, watched] {
            let elsewhere = Elsewhere::recorded(host.clone());
            assert_eq!(elsewhere.starts(), host.process.is_none());
            assert_eq!(elsewhere.record(), Some(host));
        }
        assert_eq!(Elsewhere::default().record(), None);
    }
}
