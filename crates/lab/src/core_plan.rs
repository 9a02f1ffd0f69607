//! The cores of each host, by the settings of an experiment.

use experiment::{Settings, Visit};
use measure::Link;
use record::EngineKind;

use crate::cpus::{CpuList, CpuPlan};
use crate::session::Session;

/// Why a server with programs in the kernel needs moderated links, or one core for all hosts.
const NOT_ITS_CORE: &str = "over other links than `moderated` the server's programs would run on the core of the Tester; plain links \
                            will do if all hosts have the same one core in `[cpus]`";
/// Why a server without programs needs a core of its own.
const NO_PROGRAMS: &str = "without programs in the kernel the server needs a core of its own, beside a Tester that never sleeps";
/// Why one core does not do for other engines and links.
const NOT_PLAIN: &str = "one core for all hosts needs the engine `kernel` and `plain` links, on which each packet is worked off where it was sent";
/// Note on a server with programs in the kernel that shares one core with Tester and AuthDNS.
const ONE_CORE: &str = "Tester, AuthDNS and server share one core, which does all work for a query in turn: the rate is a lower bound \
                        of the server's";

impl Session<'_> {
    /// Returns a note on a server, with programs in the kernel or without, whose programs run on the core of the Tester. A server
    /// elsewhere has cores of its own.
    ///
    /// # Errors
    /// If neither would be measured, in words.
    pub(crate) fn shared_core(
        &self,
        v: &Visit,
        programs: bool,
    ) -> Result<Option<&'static str>, String> {
        if self.afar.is_some() || self.checked.adapters[v.server].remote.is_some() {
            return Ok(None);
        }
        let link = self.testbed.link();
        if self.testbed.cpu_plan().all().len() == 1 {
            return match (programs, self.engines[v.point], link) {
                (false, ..) => Err(NO_PROGRAMS.to_owned()),
                (true, EngineKind::Kernel, Link::Plain) => Ok(Some(ONE_CORE)),
                (true, ..) => Err(NOT_PLAIN.to_owned()),
            };
        }
        match (programs, link) {
            (true, Link::Plain | Link::Steered) => Err(NOT_ITS_CORE.to_owned()),
            (true, Link::Moderated) | (false, _) => Ok(None),
        }
    }
}

/// Returns the cores of each host: those of `[cpus]`, or `cores` cores for the server beside those of the Tester.
///
/// # Errors
/// If this host has too few cores, in words.
pub(crate) fn cpu_plan(settings: &Settings, allowed: &CpuList) -> Result<CpuPlan, String> {
    let Some(cores) = settings.dut.cores else { return Ok(given_plan(settings)) };
    let plan = CpuPlan::spread(allowed, cores);
    if plan.dut.count() < cores || plan.dut_shares() {
        let have = allowed.count();
        return Err(format!(
            "{cores} cores for the server: this host has {have}, and the Tester needs one of them"
        ));
    }
    Ok(plan)
}

/// Returns the cores of each host by `[cpus]`.
pub(crate) fn given_plan(settings: &Settings) -> CpuPlan {
    // A checked experiment names a core for each.
    let list = |cpus: &[usize]| CpuList::new(cpus.iter().copied()).unwrap_or(CpuList::allowed());
    let cpus = &settings.cpus;
    CpuPlan { tester: list(&cpus.tester), auth: list(&cpus.auth), dut: list(&cpus.dut) }
}
