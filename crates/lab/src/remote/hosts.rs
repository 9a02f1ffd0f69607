//! The remote hosts of a run: their agents, addresses and cores.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use experiment::Settings;
use experiment::settings::Family;
use measure::any_address;

use crate::adapter::Adapter;
use crate::remote::agent::{AgentTask, Remote};
use crate::remote::error::RemoteError;
use crate::remote::lines::{Agents, Remotes, SharedAgent, SharedJob, StartedPart};
use crate::remote::parts::{AuthDnsPart, Cores, Part, Place};
use crate::server::Installed;
use crate::server::authdns::Serves;
use crate::server::question_plan::QuestionPlan;
use crate::testbed::core_plan::given_plan;
use crate::testbed::cpus::{CpuList, CpuPlan};
use crate::testbed::enter::Lab;
use crate::testbed::{PORT, Places, Testbed};

/// Port of an AuthDNS whose user may not open [`PORT`].
const HIGH_PORT: u16 = 5300;
/// Time that a remote start may take in addition to the adapter's limit: the zone is written, an
/// earlier server is stopped.
pub(crate) const RESERVE: Duration = Duration::from_secs(180);

/// Advice if the addresses of several AuthDNS are not usable.
const GIVE_ADDRESSES: &str =
    "give the addresses of each one (`auth HOST IP,...` in the file, or --auth-address)";

/// Hosts of a run that are hosts.
#[derive(Clone, Debug, Default)]
pub struct RemoteHosts {
    /// Host of the server under test; absent if that is here.
    pub dut: Option<DutHost>,
    /// Remote shells and programs of the hosts.
    pub remotes: Remotes,
    /// Agents on the hosts, after their start.
    pub agents: Agents,
    /// Testers on other hosts; absent if this host is the Tester.
    pub testers: Option<Testers>,
}

/// Testers on other hosts, which run each trial together.
#[derive(Clone, Debug)]
pub struct Testers {
    /// Number of Testers, each with a slice of every load.
    pub count: usize,
    /// The Testers' job, after its start.
    pub job: Option<SharedJob>,
}

/// Host of the server under test, as the user describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DutHost {
    /// Whether servers are started on the server's host; else a running server is watched.
    pub starts: bool,
    /// Addresses that are queried; if empty, the addresses by which ssh reached it.
    pub addresses: Vec<IpAddr>,
    /// Cores of the server; all of its host if absent.
    pub cpus: Option<CpuList>,
    /// Addresses at which the server queries each AuthDNS, in the order of their hosts; if empty,
    /// the addresses of its host that reach the server.
    pub auth_addresses: Vec<Vec<IpAddr>>,
    /// Cores of an AuthDNS on a host of its own; all cores of that host if absent.
    pub auth_cpus: Option<CpuList>,
}

impl RemoteHosts {
    /// Makes the hosts of a resumed run.
    pub(crate) fn recorded(host: record::DutHost) -> Self {
        let (starts, cpus) = (host.process.is_none(), CpuList::new(host.cpus));
        let watch = |process| AgentTask::Watch { process, cpus: cpus.clone() };
        let task = host.process.map_or(AgentTask::Start, watch);
        let (shell, program) = (host.shell, host.program);
        let way =
            |host, task| Remote { host, shell: shell.clone(), task, program: program.clone() };
        let (more, more_addresses): (Vec<String>, Vec<_>) =
            host.more_auth.into_iter().map(|more| (more.host, more.addresses)).unzip();
        let auth =
            host.auth.into_iter().chain(more).map(|auth| way(auth, AgentTask::Start)).collect();
        let remotes = Remotes { dut: Some(way(host.host, task)), auth };
        let dut = DutHost {
            starts,
            addresses: host.addresses,
            cpus,
            auth_addresses: [host.auth_addresses].into_iter().chain(more_addresses).collect(),
            auth_cpus: CpuList::new(host.auth_cpus),
        };
        RemoteHosts { dut: Some(dut), remotes, ..RemoteHosts::default() }
    }

    /// Returns the hosts for the record, from which [`recorded`](Self::recorded) restores them.
    pub(crate) fn record(&self) -> Option<record::DutHost> {
        let (dut, way) = (self.dut.as_ref()?, self.remotes.dut.as_ref()?);
        let process = match &way.task {
            AgentTask::Watch { process, .. } => Some(process.clone()),
            AgentTask::Start => None,
        };
        let listed =
            |cpus: &Option<CpuList>| cpus.as_ref().map_or(Vec::new(), |cpus| cpus.cpus().to_vec());
        let mut hosts = self.remotes.auth.iter().map(|auth| auth.host.clone());
        let mut addresses = dut.auth_addresses.iter().cloned();
        let mut next_addresses = || addresses.next().unwrap_or_default();
        let (auth, auth_addresses) = (hosts.next(), next_addresses());
        let more = hosts.map(|host| record::AuthHost { host, addresses: next_addresses() });
        Some(record::DutHost {
            host: way.host.clone(),
            process,
            shell: way.shell.clone(),
            program: way.program.clone(),
            addresses: dut.addresses.clone(),
            cpus: listed(&dut.cpus),
            auth,
            auth_addresses,
            more_auth: more.collect(),
            auth_cpus: listed(&dut.auth_cpus),
        })
    }

    /// Returns the job of the Testers; `None` if this host is the Tester.
    pub(crate) fn job(&self) -> Option<SharedJob> {
        self.testers.as_ref()?.job.clone()
    }

    /// Returns the number of Testers on other hosts; 0 if this host is the Tester.
    pub(crate) fn tester_count(&self) -> usize {
        self.testers.as_ref().map_or(0, |testers| testers.count)
    }

    /// Returns whether servers are started on another host.
    pub fn starts(&self) -> bool {
        self.dut.as_ref().is_some_and(|dut| dut.starts)
    }

    /// Returns the plan of the cores of this host for settings: a remote server has none here.
    pub(crate) fn plan(&self, settings: &Settings) -> CpuPlan {
        let plan = given_plan(settings, &CpuList::allowed());
        CpuPlan { dut: plan.tester.clone(), ..plan }
    }
}

/// State of a server's host on which a run starts servers.
#[derive(Debug)]
pub(crate) struct RemoteDut {
    pub(crate) dut: SharedAgent,
    /// Agents on the hosts of the AuthDNS; empty if that is here.
    auth: Vec<SharedAgent>,
    /// Cores of the server there.
    pub(crate) cpus: Cores,
    auth_cpus: Cores,
    /// Addresses of the hosts; the loopback's where one has none of a family.
    pub(crate) places: Places,
    /// This host, where the AuthDNS runs if no agent starts it.
    pub(crate) testbed: Testbed,
}

impl RemoteDut {
    /// Makes the host of a run's servers; `None` if its servers are started here.
    ///
    /// # Errors
    /// If an address is missing, in words.
    pub(crate) fn new(
        lab: &Lab,
        hosts: &RemoteHosts,
        settings: &Settings,
    ) -> Result<Option<Self>, String> {
        let Some(host) = hosts.dut.as_ref().filter(|dut| dut.starts) else { return Ok(None) };
        let Some(dut) = hosts.agents.dut.clone() else {
            return Err("there is no agent on the server's host".to_owned());
        };
        let auth = hosts.agents.auth.clone();
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
        let given = |number: usize| host.auth_addresses.get(number).map_or(&[][..], Vec::as_slice);
        let port = |root| if root { PORT } else { HIGH_PORT };
        let of_agent = |(number, agent): (usize, &SharedAgent)| {
            let root = agent.lock().greeting().root;
            place(&told(given(number), agent), port(root))
        };
        let mut auth_places: Vec<Place> = auth.iter().enumerate().map(of_agent).collect();
        if auth.is_empty() {
            let own = if given(0).is_empty() { own_addresses_to(&at) } else { given(0).to_vec() };
            auth_places.push(place(&own, port(lab.privileged())));
        }
        check_together(&auth_places)?;
        let places = Places { dut: place(&at, PORT), auth: auth_places };
        let listed = |cpus: &Option<CpuList>| cpus.as_ref().map(|cpus| cpus.cpus().to_vec());
        let cores = |list| Cores { list, count: None };
        let testbed = Testbed::here(lab, hosts.plan(settings), places.clone());
        Ok(Some(RemoteDut {
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

    /// Looks for the server on its host.
    ///
    /// # Errors
    /// If it is not installed there.
    pub(crate) fn find(&self, adapter: &Adapter) -> Result<Installed, RemoteError> {
        let version = self.dut.lock().find(&adapter.source)?;
        Ok(Installed::remote(adapter, version))
    }

    /// Returns the address that the Tester queries: IPv6 if the server listens on it, its host has one, and `family` is not IPv4.
    ///
    /// # Errors
    /// If it has no address that the server listens on, in words.
    pub(crate) fn target(&self, adapter: &Adapter, family: Family) -> Result<SocketAddr, String> {
        let (listen, place) = (adapter.listen, self.places.dut);
        let wanted = listen.ipv6 && family == Family::Ipv6;
        let v6 = (wanted && !place.v6.is_loopback()).then_some(IpAddr::V6(place.v6));
        let v4 = (listen.ipv4 && !place.v4.is_loopback()).then_some(IpAddr::V4(place.v4));
        let why = || format!("{} does not listen on any known address of its host", adapter.title);
        let ip = v6.or(v4).ok_or_else(why)?;
        Ok(SocketAddr::new(ip, listen.port))
    }

    /// Starts the AuthDNS on each host that there is for one, of a known behaviour on the first one alone.
    ///
    /// # Errors
    /// If one does not answer there.
    pub(crate) fn start_authdns(
        &self,
        serves: Serves,
        question_plan: &QuestionPlan,
    ) -> Result<Vec<StartedPart>, RemoteError> {
        let count = if serves == Serves::Truth { 1 } else { self.auth.len() };
        let mut started = Vec::new();
        for (agent, place) in self.auth.iter().zip(&self.places.auth).take(count) {
            let (names, cpus) = (question_plan.queried_names(), self.auth_cpus.clone());
            let part = AuthDnsPart { serves, names, listen: *place, cpus };
            started.push(StartedPart(agent.clone()));
            let launched = agent.lock().launch(&Part::AuthDns(part), RESERVE);
            launched?;
        }
        Ok(started)
    }

    /// Returns the addresses of the AuthDNS on other hosts, for the server, all of one family.
    pub(crate) fn authdns_addresses(&self) -> Vec<SocketAddr> {
        let v6 = self.places.auth.iter().all(|place| !place.v6.is_loopback());
        let ip = |place: &Place| if v6 { IpAddr::V6(place.v6) } else { IpAddr::V4(place.v4) };
        self.places.auth.iter().map(|place| SocketAddr::new(ip(place), place.port)).collect()
    }
}

/// Checks that each of several AuthDNS has its own address, and that all have one of the same
/// family.
fn check_together(places: &[Place]) -> Result<(), String> {
    let [_, _, ..] = places else { return Ok(()) };
    let families: [Vec<IpAddr>; 2] = [
        places.iter().map(|place| place.v4.into()).collect(),
        places.iter().map(|place| place.v6.into()).collect(),
    ];
    for (number, ip) in families.iter().flat_map(|family| family.iter().enumerate()) {
        let before = if ip.is_ipv4() { &families[0] } else { &families[1] };
        if !ip.is_loopback() && before[..number].contains(ip) {
            return Err(format!("two AuthDNS have the address {ip}: {GIVE_ADDRESSES}"));
        }
    }
    let is_whole = |family: &Vec<IpAddr>| !family.iter().any(IpAddr::is_loopback);
    match families.iter().any(is_whole) {
        true => Ok(()),
        false => Err(format!("the AuthDNS have no addresses of one family: {GIVE_ADDRESSES}")),
    }
}

/// Returns the first address of each family; the loopback's without one.
fn place(addresses: &[IpAddr], port: u16) -> Place {
    let v4 = addresses.iter().find_map(|a| if let IpAddr::V4(a) = a { Some(*a) } else { None });
    let v6 = addresses.iter().find_map(|a| if let IpAddr::V6(a) = a { Some(*a) } else { None });
    Place { v4: v4.unwrap_or(Ipv4Addr::LOCALHOST), v6: v6.unwrap_or(Ipv6Addr::LOCALHOST), port }
}

/// Returns the addresses of this host from which it reaches `others`.
fn own_addresses_to(others: &[IpAddr]) -> Vec<IpAddr> {
    let source = |other: &IpAddr| {
        let socket = UdpSocket::bind((any_address(*other), 0)).ok()?;
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
        assert_eq!(own_addresses_to(&[ip("127.0.0.1"), ip("::1")]), [ip("127.0.0.1"), ip("::1")]);
    }

    #[test]
    fn several_authdns_have_addresses_of_their_own() {
        let of = |text: &str| {
            let addresses: Vec<IpAddr> =
                text.split(',').map(|text| text.parse().expect("an address")).collect();
            place(&addresses, 53)
        };
        let check =
            |texts: &[&str]| check_together(&texts.iter().map(|t| of(t)).collect::<Vec<_>>());
        assert_eq!(check(&["::1"]), Ok(()), "one is not compared");
        assert_eq!(check(&["192.0.2.1,fd00::1", "192.0.2.2"]), Ok(()));
        let twice = check(&["192.0.2.1,fd00::1", "192.0.2.2", "192.0.2.3,fd00::1"]);
        assert!(
            twice.is_err_and(|why| why.starts_with("two AuthDNS have the address fd00::1: give"))
        );
        let unlike = check(&["192.0.2.1", "fd00::1"]);
        assert!(unlike.is_err_and(|why| why.starts_with("the AuthDNS have no addresses of one")));
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
            more_auth: vec![record::AuthHost {
                host: text("auth2.example"),
                addresses: Vec::new(),
            }],
            auth_cpus: vec![0],
        };
        let watched = record::DutHost {
            process: Some(text("nsd")),
            auth: None,
            more_auth: Vec::new(),
            cpus: Vec::new(),
            ..started.clone()
        };
        for host in [started, watched] {
            let hosts = RemoteHosts::recorded(host.clone());
            assert_eq!(hosts.starts(), host.process.is_none());
            assert_eq!(hosts.record(), Some(host));
        }
        assert_eq!(RemoteHosts::default().record(), None);
    }
}
