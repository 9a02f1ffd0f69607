//! The testbed of a run, and the choices of its command line.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use measure::{Link, Path};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::engine_kind::EngineChoice;

/// Facts of the testbed of a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TestbedFacts {
    /// Network that joins the hosts; absent if not known.
    pub network: Option<Network>,
    /// User as whom the lab ran; absent if unknown.
    pub user: Option<User>,
    /// Kind of the links between the hosts; absent if not known.
    pub link: Option<Link>,
    /// Reason why the links are not of the requested kind; absent if they are.
    pub link_refused: Option<String>,
    /// Path of datagrams over the links.
    pub path: Option<Path>,
    /// Whether the host is a virtual machine, where an interrupt between cores takes microseconds.
    pub virtual_machine: bool,
    /// Bytes of receive buffer that a server's sockets begin with.
    pub receive_buffer: Option<u64>,
    /// Whether idle cores poll instead of sleeping.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub idle_polling: bool,
    /// Cores on which the Tester runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tester_cpus: Vec<usize>,
    /// Cores on which the AuthDNS runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub auth_cpus: Vec<usize>,
    /// Cores of the server; empty if each cell has its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dut_cpus: Vec<usize>,
    /// Whether the number of the server's cores is a setting of each cell.
    pub dut_cpus_vary: bool,
    /// Release of the kernel, as `uname -r` prints it.
    pub kernel: Option<String>,
    /// Model name of the processor.
    pub cpu: Option<String>,
    /// Settings of the Tester's network that decide about its ports, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub port_settings: BTreeMap<String, String>,
    /// Settings that the kernel refused, or that need more rights.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused_settings: Vec<String>,
}

/// Network of the hosts of a testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// Each host has its own network namespace.
    Namespaces,
    /// All hosts share one namespace.
    Loopback,
}

/// User as whom the lab ran: it decides which settings the lab may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum User {
    /// The lab ran as the superuser of the host.
    Root,
    /// The lab ran as an ordinary user, in a user namespace.
    UserNamespace,
}

const STEERED_GUEST: &str = "steered: on this virtual machine the interrupt between cores adds \
    several microseconds to each packet";

/// Options of the command line in addition to the experiment file. A resumed run uses them again.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Choices {
    /// Seed of the order of names and visits.
    pub seed: Option<u64>,
    /// Servers to measure; empty for all of the experiment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// Custom servers of the user, in addition to the experiment's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub custom: Vec<CustomServer>,
    /// Servers built from revisions of their sources, in the order of the revisions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub built: Vec<BuiltServer>,
    /// Kind of the links, instead of the experiment's.
    pub link: Option<Link>,
    /// Path of datagrams over the links, instead of the experiment's choice.
    pub path: Option<Path>,
    /// Engine of the queries, instead of the experiment's choice.
    pub engine: Option<EngineChoice>,
    /// Host of the servers, where an agent starts them or probes the one at an address.
    pub dut: Option<DutHost>,
    /// Repeats of each measurement, instead of the experiment's.
    pub repeats: Option<u32>,
    /// Cores of roles, by their keys in `[cpus]`, instead of the experiment's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub cpus: BTreeMap<String, Vec<usize>>,
    /// Server that others are compared with, instead of the experiment's.
    pub baseline: Option<String>,
    /// Number of Testers on other hosts; absent if the host of the lab is the Tester.
    pub testers: Option<usize>,
}

/// Host of the servers, and the shell to reach it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DutHost {
    /// Name or address, with a user before `@` or without.
    pub host: String,
    /// Name of the processes of a server that runs there; absent if servers are started there.
    pub process: Option<String>,
    /// Words of the remote shell before the host.
    pub shell: Vec<String>,
    /// Path of the same version of the program there, used instead of copying this one.
    pub program: Option<String>,
    /// Addresses that are queried; if empty, the addresses by which the shell reached the host.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub addresses: Vec<IpAddr>,
    /// Cores of the server; all that it may use there if empty.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub cpus: Vec<usize>,
    /// Host of the AuthDNS, reached by the same shell; absent if the AuthDNS runs on the Tester's host.
    pub auth: Option<String>,
    /// Addresses at which the servers query the AuthDNS; the addresses of its host if empty.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub auth_addresses: Vec<IpAddr>,
    /// Further hosts of an AuthDNS in addition to `auth`; each has all names.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub more_auth: Vec<AuthHost>,
    /// Cores of an AuthDNS on a host of its own; all permitted cores there if empty.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub auth_cpus: Vec<usize>,
}

/// A host on which an AuthDNS runs, outside of the testbed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuthHost {
    /// Name or address, with a user before `@` or without.
    pub host: String,
    /// Addresses at which the servers query this AuthDNS; the addresses of its host if empty.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub addresses: Vec<IpAddr>,
}

/// A server built from one revision of its sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BuiltServer {
    /// Name of the server in the run: the recipe and the revision, with `@` between them.
    pub name: String,
    /// Name of the recipe that built it.
    pub build: String,
    /// Name of the revision: a tag, a commit, or the version of an archive.
    pub revision: String,
    /// Commit, or SHA-256 of the archive, in hexadecimal.
    pub commit: String,
    /// First line of the commit's message; empty for an archive.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub subject: String,
    /// Time of the commit, in seconds since 1970; absent for an archive.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub committed_unix_s: Option<i64>,
    /// Program, or why there is none.
    #[serde(flatten)]
    pub outcome: BuildOutcome,
}

impl BuiltServer {
    /// Returns whether there is a program.
    pub fn is_built(&self) -> bool {
        matches!(self.outcome, BuildOutcome::Program(_))
    }
}

/// Outcome of a build: a program, or a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BuildOutcome {
    /// Path of the program that was built.
    Program(String),
    /// Reason why the server was not built.
    NotBuilt(String),
}

/// A custom server of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CustomServer {
    /// Name that the user gave the server.
    pub name: String,
    /// Method of starting or reaching the server.
    #[serde(flatten)]
    pub how: CustomHow,
}

/// Method of starting or reaching a custom server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CustomHow {
    /// The lab starts it by this command line.
    Command(String),
    /// The user runs it at this address.
    Address(SocketAddr),
}

impl TestbedFacts {
    /// Returns the facts by name, in words.
    pub fn words(&self) -> BTreeMap<String, String> {
        let network = self.network.map(|network| match network {
            Network::Namespaces => ("namespaces", "tester, auth, dut on veth links".to_owned()),
            Network::Loopback => ("network", "one namespace, its loopback".to_owned()),
        });
        let user = self.user.map(|user| match user {
            User::Root => "root".to_owned(),
            User::UserNamespace => "user namespace".to_owned(),
        });
        let cpus = |cpus: &[usize]| (!cpus.is_empty()).then(|| cpu_list(cpus));
        let vary = self.dut_cpus_vary.then(|| "see each cell".to_owned());
        let refused = &self.refused_settings;
        let link = match (&self.link_refused, self.link) {
            (Some(why), _) => Some(format!("plain, since others were refused ({why})")),
            (None, Some(Link::Steered)) if self.virtual_machine => Some(STEERED_GUEST.to_owned()),
            (None, link) => link.map(|link| link.to_string()),
        };
        let ports: Vec<String> =
            self.port_settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let named = [
            ("links", link),
            ("ports", (!ports.is_empty()).then(|| ports.join(", "))),
            ("path", self.path.map(|path| path.to_string())),
            ("user", user),
            ("tester cpus", cpus(&self.tester_cpus)),
            ("auth cpus", cpus(&self.auth_cpus)),
            ("dut cpus", vary.or_else(|| cpus(&self.dut_cpus))),
            (
                "receive buffer",
                self.receive_buffer.map(|bytes| format!("{bytes} octets by default")),
            ),
            ("idle cores", self.idle_polling.then(|| "poll".to_owned())),
            ("kernel", self.kernel.clone()),
            ("cpu", self.cpu.clone()),
            ("refused settings", (!refused.is_empty()).then(|| refused.join("; "))),
        ];
        let named = named.into_iter().filter_map(|(name, fact)| Some((name, fact?)));
        network.into_iter().chain(named).map(|(name, fact)| (name.to_owned(), fact)).collect()
    }
}

impl Choices {
    /// Returns the choices by name, in words.
    pub fn words(&self) -> BTreeMap<String, String> {
        let custom = self.custom.iter().map(|server| match &server.how {
            CustomHow::Command(command) => (format!("custom {}", server.name), command.clone()),
            CustomHow::Address(address) => (format!("remote {}", server.name), address.to_string()),
        });
        let mut words: BTreeMap<String, String> = custom.collect();
        words.extend(self.seed.map(|seed| ("seed".to_owned(), seed.to_string())));
        words.extend(self.link.map(|link| ("asked link".to_owned(), link.to_string())));
        words.extend(self.path.map(|path| ("asked path".to_owned(), path.to_string())));
        words.extend(self.engine.map(|e| ("asked engine".to_owned(), e.to_string())));
        words.extend(self.repeats.map(|n| ("asked repeats".to_owned(), n.to_string())));
        if let Some(DutHost { host, process, auth, more_auth, .. }) = &self.dut {
            let dut = match process {
                Some(process) => format!("{host}, processes {process}"),
                None => host.clone(),
            };
            words.insert("host of the server".to_owned(), dut);
            let more = more_auth.iter().map(|more| more.host.as_str());
            let hosts: Vec<&str> = auth.as_deref().into_iter().chain(more).collect();
            if !hosts.is_empty() {
                words.insert("host of the AuthDNS".to_owned(), hosts.join(", "));
            }
        }
        let testers = self.testers.map(|count| format!("{count} on other hosts"));
        words.extend(testers.map(|testers| ("Testers".to_owned(), testers)));
        if !self.servers.is_empty() {
            words.insert("servers".to_owned(), self.servers.join(", "));
        }
        words
    }
}

/// Returns a list of cores in its shortest form: `0-3,8`. `cpus` must be ascending.
pub fn cpu_list(cpus: &[usize]) -> String {
    let mut parts = Vec::new();
    let mut rest = cpus;
    while let [first, ..] = rest {
        let run = rest.iter().enumerate().take_while(|(i, cpu)| **cpu == first + i).count();
        parts.push(match run {
            1 => first.to_string(),
            _ => format!("{first}-{}", first + run - 1),
        });
        rest = &rest[run..];
    }
    parts.join(",")
}
