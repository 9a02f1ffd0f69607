//! The cores of each host, by the settings of an experiment and by the cores of this host.

use experiment::Settings;

use crate::testbed::cpus::{CpuList, CpuPlan};

/// Returns the cores of each host, from `[cpus]`, or the lab's choice for a host without any there.
/// Where `dut.cores` is set, the server has that many cores: the first of `cpus.dut`, or any but
/// the Tester's.
///
/// # Errors
/// If there are too few, or the server would share one with the Tester, an attacker or a sender of updates, in words.
pub(crate) fn cpu_plan(settings: &Settings, allowed: &CpuList) -> Result<CpuPlan, String> {
    let mut plan = given_plan(settings, allowed);
    let cpus = &settings.cpus;
    if let Some(cores) = settings.dut.cores {
        if plan.dut.count() < cores || plan.dut_shares() {
            let have = match cpus.dut.len() {
                0 => format!("this host has {}, and the Tester needs one of them", allowed.count()),
                given => format!("`cpus.dut` has {given}"),
            };
            return Err(format!("{cores} cores for the server: {have}"));
        }
        plan.dut = plan.dut.first(cores);
    }
    // With a single core, no process has a core of its own.
    if allowed.count() > 1 {
        let [tester, auth, dut] = [&plan.tester, &plan.auth, &plan.dut].map(|l| l.cpus().to_vec());
        let chosen = experiment::settings::CpuPlan { tester, auth, dut, ..cpus.clone() };
        settings.check_server_alone(&chosen)?;
    }
    Ok(plan)
}

/// Returns the cores of each host, from `[cpus]`, or the lab's choice among the others: one thread
/// of each physical core, and the other threads too if the server is to have more.
pub(crate) fn given_plan(settings: &Settings, allowed: &CpuList) -> CpuPlan {
    let firsts = allowed.one_thread_each();
    let enough = settings.dut.cores.is_none_or(|cores| cores < firsts.count());
    let pool = if enough { firsts } else { allowed.clone() };
    let [tester, auth, dut] = planned_cores(settings);
    let is_given = |cpu: &usize| [tester, auth, dut].into_iter().any(|given| given.contains(cpu));
    let left = CpuList::new(pool.cpus().iter().copied().filter(|cpu| !is_given(cpu)));
    let chosen = CpuPlan::spread(&left.unwrap_or(pool), settings.dut.cores);
    let given = |cpus: &[usize], chosen| CpuList::new(cpus.iter().copied()).unwrap_or(chosen);
    CpuPlan {
        tester: given(tester, chosen.tester),
        auth: given(auth, chosen.auth),
        dut: given(dut, chosen.dut),
    }
}

/// Returns the cores that `[cpus]` gives the Measurer, the AuthDNS and the server.
fn planned_cores(settings: &Settings) -> [&[usize]; 3] {
    [&settings.cpus.tester, &settings.cpus.auth, &settings.cpus.dut]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use experiment::Experiment;

    use super::*;

    fn planned(allowed: &str, keys: &str) -> Result<String, String> {
        let head = "name = \"x\"\ntitle = \"x\"\nrole = \"authoritative\"\nservers = [\"nsd\"]\nmethod = \"closed\"\nrepeats = 1\n";
        let text = format!("{head}{keys}\n[workload]\nnamespace = \"10.0.0.0/16\"\n");
        let experiment = Experiment::parse(&text, Path::new("x.toml")).expect("an experiment");
        // Numbers that no machine has siblings of.
        let plan = cpu_plan(&experiment.points[0].settings, &allowed.parse().expect("a list"))?;
        Ok(format!("{} {} {}", plan.tester, plan.auth, plan.dut))
    }

    #[test]
    fn the_lab_chooses_among_the_cores_that_are_left() {
        for (allowed, keys, wanted) in [
            ("1000-1001", "", "1000 1000 1001"),
            ("1000-1001", "[cpus]\ndut = [1000]", "1001 1001 1000"),
            ("1000-1001", "[cpus]\ndut = [1001]", "1000 1000 1001"),
            ("1000-1003", "[cpus]\ntester = [1003]", "1003 1002 1001"),
            ("1000-1015", "[cpus]\ndut = [1002, 1003]", "1000-1001,1004-1005 1013-1015 1002-1003"),
            ("1000", "", "1000 1000 1000"),
        ] {
            assert_eq!(planned(allowed, keys).as_deref(), Ok(wanted), "{allowed} {keys}");
        }
        for (allowed, keys, part) in [
            ("1000-1001", "[dut]\ncores = 2", "this host has 2, and the Tester needs one"),
            ("1000-1003", "[cpus]\nattacker = [1002]", "overlap the cores of `attacker`, 1002"),
        ] {
            let refused = planned(allowed, keys).expect_err("a refusal");
            assert!(refused.contains(part), "{refused}");
        }
    }
}
