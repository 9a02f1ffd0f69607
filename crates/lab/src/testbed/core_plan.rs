//! The cores of each host, by the settings of an experiment.

use experiment::Settings;

use crate::testbed::cpus::{CpuList, CpuPlan};

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
