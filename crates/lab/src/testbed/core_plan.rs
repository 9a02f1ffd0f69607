//! The cores of each host, by the settings of an experiment and by what this host has.

use experiment::Settings;

use crate::testbed::cpus::{CpuList, CpuPlan};

/// Returns the cores of each host: those of `[cpus]`, and the lab's choice for a host without any there. With `dut.cores` the server
/// has so many: the first ones of `cpus.dut`, or others beside the Tester's.
///
/// # Errors
/// If there are too few, or the server would share one with the Tester, in words.
pub(crate) fn cpu_plan(settings: &Settings, allowed: &CpuList) -> Result<CpuPlan, String> {
    let mut plan = given_plan(settings, allowed);
    if let Some(cores) = settings.dut.cores {
        if plan.dut.count() < cores || plan.dut_shares() {
            let have = match settings.cpus.dut.len() {
                0 => format!("this host has {}, and the Tester needs one of them", allowed.count()),
                given => format!("`cpus.dut` has {given}"),
            };
            return Err(format!("{cores} cores for the server: {have}"));
        }
        plan.dut = plan.dut.first(cores);
    }
    if plan.dut_shares() && plan.all().len() > 1 {
        return Err(format!(
            "the server's cores {} are not apart from those of the Tester ({}) and the AuthDNS ({}): give all three in `[cpus]`",
            plan.dut, plan.tester, plan.auth
        ));
    }
    Ok(plan)
}

/// Returns the cores of each host: those of `[cpus]`, or the lab's choice among one thread of each physical core.
pub(crate) fn given_plan(settings: &Settings, allowed: &CpuList) -> CpuPlan {
    let chosen = CpuPlan::spread(&allowed.one_thread_each(), settings.dut.cores);
    let given = |cpus: &[usize], chosen| CpuList::new(cpus.iter().copied()).unwrap_or(chosen);
    let cpus = &settings.cpus;
    CpuPlan {
        tester: given(&cpus.tester, chosen.tester),
        auth: given(&cpus.auth, chosen.auth),
        dut: given(&cpus.dut, chosen.dut),
    }
}
