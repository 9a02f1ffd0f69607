//! A part that an agent starts on its host: a server under test, or an AuthDNS. All of it is data
//! of checked types; no value becomes a word of a shell.

use std::collections::BTreeMap;

use experiment::file::Role;
use measure::Transport;
use serde::{Deserialize, Serialize};

pub(crate) use crate::adapter::Source;
use crate::remote::error::Refusal;
use crate::server::authdns::Serves;
pub(crate) use crate::server::question_plan::QueriedNames;
use crate::testbed::cpus::CpuList;
pub(crate) use crate::testbed::place::Place;

/// A server to start on the agent's host, from scratch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The server under test, whose trials the Tester runs.
    Server(Box<ServerPart>),
    /// An AuthDNS, one of up to sixteen.
    AuthDns(AuthDnsPart),
}

impl Part {
    /// Returns the CPU limit of the part, in cores; `None` without a limit.
    pub(crate) fn cpu_limit(&self) -> Option<f64> {
        match self {
            Part::Server(server) => server.cpu_limit,
            Part::AuthDns(_) => None,
        }
    }
}

/// A server under test: its adapter and its task. The agent's host determines program, version,
/// size of caches, buffers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerPart {
    /// The adapter, by its name in the catalogue or as a whole.
    pub source: Source,
    /// Role in which the server is measured.
    pub role: Role,
    /// Names of the queries, which the server must have or look up.
    pub names: QueriedNames,
    /// Number of threads of the server; one for each core if absent.
    pub threads: Option<usize>,
    /// Cores of the host to which the server is bound.
    pub cpus: Cores,
    /// Transport of the Tester's queries.
    pub transport: Transport,
    /// Number of the Tester's clients.
    pub clients: u32,
    /// Variables of the adapter's templates that the experiment sets.
    pub variables: BTreeMap<String, String>,
    /// Certificate of a server that is queried over TLS.
    pub certificate: Option<Certified>,
    /// Addresses on which the server listens, with the port of its adapter.
    pub listen: Place,
    /// Addresses and port of each AuthDNS.
    pub upstreams: Vec<Place>,
    /// CPU limit of the server, in cores; absent without a limit.
    pub cpu_limit: Option<f64>,
}

/// An AuthDNS: its client, names and addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuthDnsPart {
    /// The client of the AuthDNS: a server under test, or a Tester.
    pub serves: Serves,
    /// Names that the AuthDNS serves.
    pub names: QueriedNames,
    /// Addresses and port on which the AuthDNS listens.
    pub listen: Place,
    /// Cores of the AuthDNS's host, with one worker on each.
    pub cpus: Cores,
}

/// Cores of a part on its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    /// Cores by their numbers; all cores that the agent may use if absent.
    pub list: Option<Vec<usize>>,
    /// Number of cores of the list that are used, from the first one on; all if absent.
    pub count: Option<usize>,
}

/// Certificate and key of a server, as PEM: made by the run's own authority, for this run only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certified {
    /// Certificate of the server, as PEM.
    pub certificate: String,
    /// Private key of the certificate, as PEM.
    pub key: String,
}

impl std::fmt::Debug for Certified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certified")
    }
}

impl Cores {
    /// Returns the cores, of those that are `allowed`.
    ///
    /// # Errors
    /// If one is not allowed; [`Refusal::Cannot`] if there are fewer.
    pub(crate) fn of(&self, allowed: &CpuList) -> Result<CpuList, Refusal> {
        let listed = self.list.as_ref().and_then(|list| CpuList::new(list.iter().copied()));
        let all = listed.unwrap_or_else(|| allowed.clone());
        if !all.is_within(allowed) {
            return Err(format!("cores {all}: this process may use {allowed}").into());
        }
        let count = self.count.unwrap_or(all.count());
        if count == 0 || count > all.count() {
            let why = format!("{count} cores: there are {} ({all})", all.count());
            return Err(Refusal::Cannot(why));
        }
        let some = CpuList::new(all.cpus().iter().take(count).copied());
        some.ok_or_else(|| "no core".to_owned().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_those_of_the_host() {
        let allowed = CpuList::new([0, 1, 4]).expect("cores");
        let of = |list: Option<&[usize]>, count| {
            Cores { list: list.map(<[usize]>::to_vec), count }.of(&allowed)
        };
        let cores = |cpus: &[usize]| Ok(CpuList::new(cpus.iter().copied()).expect("cores"));
        assert_eq!(of(None, None), Ok(allowed.clone()));
        assert_eq!(of(None, Some(2)), cores(&[0, 1]));
        assert_eq!(of(Some(&[1, 4]), Some(1)), cores(&[1]));
        // A core that is not there was named by the user; a number of cores is one of the experiment's.
        assert!(matches!(of(Some(&[2]), None), Err(Refusal::Failed(_))));
        for count in [0, 4] {
            assert!(matches!(of(None, Some(count)), Err(Refusal::Cannot(_))), "{count}");
        }
    }
}
