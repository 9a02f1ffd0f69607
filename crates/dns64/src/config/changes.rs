//! The differences between two configuration files, for the operator.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::DEFAULTS;

/// Settings that a running server cannot change.
pub const NEED_RESTART: [&str; 16] = [
    "server.listen",
    "server.workers",
    "server.stream-threads",
    "server.cpus",
    "server.socket-buffer",
    "server.route",
    "server.user",
    "server.restrict-files",
    "server.log-format",
    "limits.outstanding",
    "cache.snapshot",
    "metrics.listen",
    "control",
    "dnstap",
    "tls",
    "kernel",
];

/// One setting that differs between two configuration files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Key of the setting, such as `cache.size` or `dns64[0].prefix`.
    pub key: String,
    /// Value before the change, as TOML; `None` if the setting was missing.
    pub before: Option<String>,
    /// Value after the change, as TOML; `None` if the setting is missing now.
    pub after: Option<String>,
    /// Whether the server needs a restart for it: it cannot change the setting, and runs with another value.
    pub needs_restart: bool,
}

/// Returns the settings that differ between two valid configuration files, by their keys; the server was started with a third one.
pub fn changes(before: &str, after: &str, started: &str) -> Vec<Change> {
    let (mut old, new, running) = (settings(before), settings(after), settings(started));
    let mut all = Vec::new();
    for (key, value) in new {
        let before = old.remove(&key);
        if before.as_ref() != Some(&value) {
            all.push(Change::new(key, before, Some(value), &running));
        }
    }
    let removed = old.into_iter();
    all.extend(removed.map(|(key, value)| Change::new(key, Some(value), None, &running)));
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all
}

impl Change {
    fn new(
        key: String,
        before: Option<Value>,
        after: Option<Value>,
        running: &BTreeMap<String, Value>,
    ) -> Self {
        let belongs = |to: &str| {
            key.strip_prefix(to)
                .is_some_and(|rest| matches!(rest.bytes().next(), None | Some(b'.')))
        };
        let needs_restart =
            NEED_RESTART.iter().any(|to| belongs(to)) && after.as_ref() != running.get(&key);
        let text = |value: Option<Value>| value.map(|value| value.to_string());
        Change { needs_restart, key, before: text(before), after: text(after) }
    }
}

/// Returns all settings of a configuration file, with the defaults of those that it lacks.
fn settings(file: &str) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for text in [DEFAULTS, file] {
        // The caller has read the file before.
        flatten("", text.parse::<Table>().unwrap_or_default(), &mut all);
    }
    all
}

/// Adds the values of a table and its tables with their whole keys.
fn flatten(prefix: &str, table: Table, all: &mut BTreeMap<String, Value>) {
    for (key, value) in table {
        let key = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(table) => flatten(&key, table, all),
            Value::Array(tables) if tables.first().is_some_and(Value::is_table) => {
                for (number, table) in tables.into_iter().enumerate() {
                    if let Value::Table(table) = table {
                        flatten(&format!("{key}[{number}]"), table, all);
                    }
                }
            }
            value => drop(all.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_named_with_both_values() {
        let before =
            "cache.size = \"64MiB\"\nserver.workers = 2\n[[dns64]]\nprefix = \"64:ff9b::/96\"";
        let after =
            "cache.size = \"1MiB\"\nserver.workers = 3\nserver.log = \"info\"\nlimits.slip = 2";
        let seen: Vec<_> = changes(before, after, before)
            .into_iter()
            .map(|c| format!("{} {:?} {:?} {}", c.key, c.before, c.after, c.needs_restart))
            .collect();
        assert_eq!(
            seen,
            [
                "cache.size Some(\"\\\"64MiB\\\"\") Some(\"\\\"1MiB\\\"\") false",
                "dns64[0].prefix Some(\"\\\"64:ff9b::/96\\\"\") None false",
                "server.workers Some(\"2\") Some(\"3\") true",
            ]
        );
        assert!(changes("", DEFAULTS, "").is_empty());
        let tls = changes("", "tls.dot = [\"[::1]:853\"]", "");
        assert!(tls.len() == 1 && tls[0].needs_restart);
        // Back to the value with which the server runs.
        let back = changes("server.workers = 3", "server.workers = 2", "server.workers = 2");
        assert!(back.len() == 1 && !back[0].needs_restart);
    }

    #[test]
    fn every_setting_that_needs_a_restart_exists() {
        let all = settings("");
        for key in NEED_RESTART {
            let found = |name: &String| name == key || name.starts_with(&format!("{key}."));
            assert!(all.keys().any(found), "{key}");
        }
    }
}
