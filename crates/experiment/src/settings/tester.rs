//! Limits of the Tester: its certified rates, and the trials that its programs in the kernel can
//! carry (docs/kernel.md).

use measure::{Link, Path, Qps, Transport};
use record::testbed::cpu_list;
use record::{CellRecord, Certificate, EngineChoice};
use serde::Deserialize;

use super::{CpuPlan, Method, Settings};
use crate::known::Known;

/// Protocol that carries the Tester's queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv6, as the clients of a DNS64 server use; IPv4 if the server listens on IPv4 alone.
    Ipv6,
    /// IPv4; a server that listens on IPv6 alone is then not measured.
    Ipv4,
}

impl Settings {
    /// Returns these settings with a search that stays within the Tester's certified rate; a number of clients is no rate.
    pub fn within(&self, certificate: Option<&Certificate>) -> Settings {
        let mut settings = self.clone();
        let certificate = certificate.filter(|_| self.method == Method::Search);
        let certified =
            certificate.and_then(|c| Qps::new(c.certified_qps)).filter(|q| q.get() > 0.0);
        if let (Some(search), Some(certified)) = (&mut settings.search, certified)
            && certified.get() < search.max.get()
        {
            search.max = certified;
            search.min = if search.min.get() > certified.get() { certified } else { search.min };
            search.start =
                if search.start.get() > certified.get() { certified } else { search.start };
        }
        settings
    }

    /// Returns these settings with the findings of earlier closed loops of a cell.
    pub fn knowing(mut self, cell: &CellRecord) -> Settings {
        self.capacity.known = Known::of(cell);
        self
    }

    /// Checks that the server shares none of its cores in a plan of cores.
    ///
    /// # Errors
    /// The role that shares one of them, in words.
    pub fn check_server_alone(&self, cpus: &CpuPlan) -> Result<(), String> {
        // With these settings each packet is handled on the core that sent it, and all on one core
        // (docs/kernel.md).
        let chain = cpus.dut.len() == 1
            && [&cpus.tester, &cpus.auth].into_iter().all(|list| *list == cpus.dut)
            && self.tester.engine == EngineChoice::Kernel
            && self.host.link == Some(Link::Plain)
            && self.host.path == Path::Wire;
        let hosts = [("tester", &cpus.tester), ("auth", &cpus.auth)];
        let others = [("updates", &cpus.updates), ("attacker", &cpus.attacker)];
        let mut roles = hosts.into_iter().filter(|_| !chain).chain(others);
        let shares = |list: &Vec<usize>| list.iter().any(|cpu| cpus.dut.contains(cpu));
        let Some((role, shared)) = roles.find(|(_, list)| shares(list)) else { return Ok(()) };
        Err(format!(
            "the server's cores {} overlap the cores of `{role}`, {}: each would take CPU time from the other. Give each its own in `[cpus]`; \
             Tester, AuthDNS and a server with programs in the kernel may share one, with `tester.engine` = \"kernel\" and `host.link` = \"plain\"",
            cpu_list(&cpus.dut),
            cpu_list(shared)
        ))
    }

    /// Returns why the engine `kernel` cannot carry the trials, as the key and the reason; `None` if it can.
    pub fn needs_sockets(&self) -> Option<(&'static str, &'static str)> {
        let (tester, workload) = (&self.tester, &self.workload);
        let all = [
            (
                tester.transport != Transport::Udp,
                "tester.transport",
                "the engine `kernel` supports only the transport udp",
            ),
            (
                !matches!(
                    self.method,
                    Method::Search | Method::Load | Method::Capacity | Method::Closed
                ),
                "method",
                "the engine `kernel` supports the methods search, load, capacity and closed",
            ),
            (
                workload.replay.is_some(),
                "workload.replay",
                "the engine `kernel` cannot send at the times of a capture",
            ),
            (
                workload.repeat_share > 0.0,
                "workload.repeat-share",
                "the engine `kernel` cannot repeat names",
            ),
            (
                workload.unpadded,
                "workload.unpadded",
                "the engine `kernel` sends names with leading zeros",
            ),
            (tester.gso, "tester.gso", "the engine `kernel` sends each query as a packet"),
            (
                self.host.path == Path::HostOffload,
                "host.path",
                "the engine `kernel` sends each query as a packet: use the path `wire`",
            ),
        ];
        all.into_iter().find(|(needed, ..)| *needed).map(|(_, key, why)| (key, why))
    }
}
