//! The configuration of a server, written outside of the lab from its adapter: for tests and benchmarks that start a
//! server themselves, and for authors of adapters.
//!
//! ```text
//!   defaults ── `listen.port = 5300`, ... ──> Setting ──> files in DIR, command line
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use experiment::file::Role;
use nix::unistd::geteuid;
use serde_json::{Map, Value};
use wire::namespace::DEFAULT_ZONE;

use crate::adapter::Adapter;
use crate::adapter::part::{KEY, ReplicationRole, Signing};
use crate::adapter::template::Setting;
use crate::server::replication::prepare;
use crate::server::{Installed, ServerError};
use crate::testbed::PORT;
use crate::testbed::place::Place;

/// Port of the upstream server if no other is assigned.
const UPSTREAM_PORT: u16 = 5353;

/// Error while writing a server's configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigureError {
    /// An assignment cannot be accepted.
    #[error("`{text}`: {why}")]
    Assignment {
        /// Assignment of a variable as it was given, `NAME=VALUE`.
        text: String,
        /// The problem.
        why: String,
    },
    /// The server is not installed, or its files cannot be written.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// Writes the configuration of a server into `dir`; returns its command line, which begins with `env` if it needs
/// variables of the environment.
///
/// Each assignment sets a variable of the adapter's templates to a value of TOML or a text: `listen.port=5300`,
/// `listen.v4=10.9.0.2`. With an assignment to `replication` the server is a primary (or a secondary) whose zone is the
/// file `zone` in `dir`. By default it listens on port 53 of 127.0.0.1 and ::1 and queries port 5353 there.
///
/// # Errors
/// If an assignment is invalid, the server is not installed, or a file cannot be written.
pub fn configure(
    adapter: &Adapter,
    dir: &Path,
    assignments: &[String],
) -> Result<Vec<OsString>, ConfigureError> {
    let installed = Installed::outside(adapter)?;
    let setting = assigned(adapter, defaults(&installed, dir), assignments)?;
    if setting.replication.is_some() {
        prepare(&installed, &setting, dir)?;
    } else {
        installed.write_files(&adapter.files, &setting, dir, &mut BTreeMap::new())?;
    }
    let (command, environment) = installed.command(&setting)?;
    if environment.is_empty() {
        return Ok(command);
    }
    let variables = environment.into_iter().map(|(name, value)| format!("{name}={value}").into());
    Ok(std::iter::once("env".into()).chain(variables).chain(command).collect())
}

/// Returns the variables of a server on the loopback addresses.
fn defaults(installed: &Installed, dir: &Path) -> Setting {
    let role = installed.adapter().roles.first().copied().unwrap_or(Role::Authoritative);
    let place = Place { v4: Ipv4Addr::LOCALHOST, v6: Ipv6Addr::LOCALHOST, port: PORT };
    let upstream = Place { port: UPSTREAM_PORT, ..place };
    Setting {
        role,
        cpus: "0".to_owned(),
        zone: DEFAULT_ZONE.to_owned(),
        namespace: "10.0.0.0/8".to_owned(),
        reverse_zone: "10.in-addr.arpa".to_owned(),
        pref64: "2001:db8:64::/96".to_owned(),
        listen: place,
        upstream,
        upstreams: vec![upstream],
        behind: installed.adapter().front.then_some(upstream),
        zone_file: dir.join("zone").display().to_string(),
        ..installed.common_setting(geteuid().is_root(), dir)
    }
}

/// Returns the variables after all assignments.
fn assigned(
    adapter: &Adapter,
    mut setting: Setting,
    assignments: &[String],
) -> Result<Setting, ConfigureError> {
    for text in assignments {
        let bad = |why: String| ConfigureError::Assignment { text: text.clone(), why };
        let (key, value) =
            text.split_once('=').ok_or_else(|| bad("it is VARIABLE=VALUE".to_owned()))?;
        let mut all = serde_json::to_value(&setting).map_err(|e| bad(e.to_string()))?;
        let name = key.split('.').next().unwrap_or_default().trim();
        if name == "replication" {
            let part = setting.replication.unwrap_or_else(|| alone(setting.listen));
            all[name] = serde_json::to_value(part).map_err(|e| bad(e.to_string()))?;
        } else if all.get(name).is_none() || setting.variables.contains_key(name) {
            if !adapter.knows_variable(name) {
                return Err(bad(format!("{} has no such variable", adapter.title)));
            }
            if let Some(why) = adapter.refuses(name, value) {
                return Err(bad(why));
            }
            setting.variables.insert(name.to_owned(), value.to_owned());
            continue;
        }
        let change = parse(key, value).map_err(bad)?;
        merge(&mut all, serde_json::to_value(change).map_err(|e| bad(e.to_string()))?);
        setting = serde_json::from_value(all).map_err(|e| bad(e.to_string()))?;
        if name == "upstream" {
            setting.upstreams = vec![setting.upstream];
        }
    }
    setting.slabs = setting.threads.next_power_of_two();
    Ok(setting)
}

/// Parses an assignment; a value that is no TOML is a text.
fn parse(key: &str, value: &str) -> Result<toml::Table, String> {
    let quoted = || toml::Value::String(value.to_owned());
    toml::from_str(&format!("{key} = {value}"))
        .or_else(|_| toml::from_str(&format!("{key} = {}", quoted())))
        .map_err(|e| e.message().to_owned())
}

/// Returns the part of a primary without secondaries.
fn alone(listen: Place) -> ReplicationRole {
    ReplicationRole {
        primary: true,
        signing: Signing::Unsigned,
        v4: vec![listen.v4],
        v6: Vec::new(),
        source: listen.v4,
        peers: Vec::new(),
        key: KEY,
    }
}

/// Replaces values of `all` by values of `change`, table by table.
fn merge(all: &mut Value, change: Value) {
    match (all, change) {
        (Value::Object(all), Value::Object(change)) => {
            for (key, value) in change {
                merge(all.entry(key).or_insert(Value::Object(Map::new())), value);
            }
        }
        (all, change) => *all = change,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::tests::GOOD;

    fn adapter() -> Adapter {
        Adapter::parse(GOOD, Path::new("x.toml")).unwrap()
    }

    #[test]
    fn variables_are_assigned() {
        let dir = tempfile::tempdir().unwrap();
        let words = ["listen.v6=fd00::7", "threads=3"].map(str::to_owned);
        let command = configure(&adapter(), dir.path(), &words).unwrap();
        let words: Vec<&str> = command.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words[..2], ["env", "X_THREADS=3"]);
        assert!(words[2].ends_with("/sh") && words[4].ends_with("/x.conf"), "{words:?}");
        let text = std::fs::read_to_string(dir.path().join("x.conf")).unwrap();
        assert_eq!(text, "listen fd00::7\n");
    }

    #[test]
    fn a_wrong_assignment_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for (text, part) in [
            ("listen.port=x", "`listen.port=x`: invalid type: string"),
            ("speed=7", "X has no such variable"),
            ("listen.prot=5300", "unknown field `prot`"),
            ("threads", "`threads`: it is VARIABLE=VALUE"),
            ("replication.primary=1", "expected a boolean"),
        ] {
            let error = configure(&adapter(), dir.path(), &[text.to_owned()]).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        let error = configure(&adapter(), dir.path(), &["replication.primary=true".to_owned()]);
        assert!(error.unwrap_err().to_string().contains("no table `[replication]`"));
    }
}
