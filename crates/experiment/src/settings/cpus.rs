//! The cores of each role.

use serde::Deserialize;

/// Cores of each role. Where `tester`, `auth` or `dut` is empty, the lab chooses by the cores of
/// its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CpuPlan {
    /// Cores of the Measurer.
    pub tester: Vec<usize>,
    /// Cores of the AuthDNS.
    pub auth: Vec<usize>,
    /// Cores of the server under test.
    pub dut: Vec<usize>,
    /// Cores of the sender of updates; if empty, the cores of `auth`, where the primary runs.
    pub updates: Vec<usize>,
    /// Cores of the attacker of a drill; if empty, the cores of `auth`.
    pub attacker: Vec<usize>,
}

impl CpuPlan {
    /// Returns the list of a role by its key; `None` if there is no such role.
    pub fn of_role(&mut self, role: &str) -> Option<&mut Vec<usize>> {
        match role {
            "tester" => Some(&mut self.tester),
            "auth" => Some(&mut self.auth),
            "dut" => Some(&mut self.dut),
            "updates" => Some(&mut self.updates),
            "attacker" => Some(&mut self.attacker),
            _ => None,
        }
    }
}
