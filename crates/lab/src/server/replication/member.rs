//! A server of a group, started, killed and started again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::adapter::part::ReplicationRole;
use crate::adapter::template::Setting;
use crate::server::{Installed, Instance, LabEnv, Server, ServerError};
use crate::testbed::place::Place;
use crate::testbed::{Host, PORT, address_v4, address_v6};

/// The file of a primary's zone, beside its configuration.
const ZONE_FILE: &str = "zone";

/// A server with its role in a group.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) installed: Installed,
    /// Name among the files of the run.
    pub(crate) name: String,
    /// Host on which the server runs, whose cores it gets.
    pub(crate) host: Host,
    /// Role of the server in the group.
    pub(crate) part: ReplicationRole,
    /// Zone of the group, without a final dot.
    pub(crate) zone: String,
    /// Zone file of a primary; the server works on a copy beside its journal.
    pub(crate) zone_file: Option<PathBuf>,
    /// Number of threads; one for each core if absent.
    pub(crate) threads: Option<usize>,
    /// Further variables of the member's templates.
    pub(crate) variables: BTreeMap<String, String>,
}

impl Member {
    /// Starts the member from scratch, without waiting for it.
    pub(crate) fn start(&self, env: LabEnv<'_>) -> Result<Server, ServerError> {
        let state = self.state(env.dir);
        // Files of an earlier start are removed.
        let _ = fs::remove_dir_all(&state);
        let setting = self.setting(env, &state);
        let io = |path: &Path| {
            let path = path.display().to_string();
            move |source| ServerError::Io(path, source)
        };
        fs::create_dir_all(&state).map_err(io(&state))?;
        if let Some(zone) = &self.zone_file {
            let to = state.join(ZONE_FILE);
            fs::copy(zone, &to).map_err(io(&to))?;
        }
        prepare(&self.installed, &setting, &state)?;
        self.start_again(env)
    }

    /// Starts the member with the state of its earlier start.
    pub(crate) fn start_again(&self, env: LabEnv<'_>) -> Result<Server, ServerError> {
        let state = self.state(env.dir);
        let replication = self.installed.adapter().replicating()?;
        for stale in &replication.stale_files {
            // The pid file of the killed process would block the start; it may not exist.
            let _ = fs::remove_file(state.join(stale));
        }
        let part = &self.part;
        let addresses = part
            .v4
            .iter()
            .map(|at| IpAddr::V4(*at))
            .chain(part.v6.iter().map(|at| IpAddr::V6(*at)));
        let addresses: Vec<_> = addresses.map(|at| SocketAddr::new(at, PORT)).collect();
        self.installed.check_free(env.testbed, self.host, &addresses)?;
        let setting = self.setting(env, &state);
        let instance = Instance { name: &self.name, host: self.host, state: &state };
        self.installed.launch_instance(&instance, &replication.files, &setting, env.testbed)
    }

    fn state(&self, dir: &Path) -> PathBuf {
        dir.join(&self.name)
    }

    fn setting(&self, env: LabEnv<'_>, state: &Path) -> Setting {
        let cpus = env.testbed.cpus(self.host);
        let threads = self.threads.unwrap_or(cpus.count());
        let place =
            Place { v4: self.part.source, v6: address_v6(Host::Dut, Host::Tester), port: PORT };
        let upstream = Place { v4: address_v4(Host::Auth, Host::Dut), ..place };
        Setting {
            zone: self.zone.clone(),
            zone_file: ZONE_FILE.to_owned(),
            listen: place,
            upstream,
            upstreams: vec![upstream],
            threads,
            slabs: threads.next_power_of_two(),
            cpus: cpus.to_string(),
            replication: Some(self.part.clone()),
            variables: self.variables.clone(),
            ..self.installed.common_setting(env.lab.privileged(), state)
        }
    }
}

/// Writes the configuration of a server of a group below `state`, which contains the zone of a primary, and runs the
/// commands before its first start.
pub(crate) fn prepare(
    installed: &Installed,
    setting: &Setting,
    state: &Path,
) -> Result<(), ServerError> {
    let replication = installed.adapter().replicating()?;
    installed.write_files(&replication.files, setting, state, &mut BTreeMap::new())?;
    let commands = installed.render(replication.prepare.get_ref(), setting)?;
    for command in commands.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = command.split_whitespace();
        let program = words.next().unwrap_or_default();
        crate::server::signer::execute(program, state, words.map(OsStr::new))?;
    }
    Ok(())
}
