//! The configuration file, and files with rules and with names of hosts.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use dns64::config::{HostsConfig, RulesConfig};
use dns64::rules::RulesFormat;
use dns64::{Config, RuleSets, Rules};
use nix::fcntl::OFlag;

/// Largest file with rules, and largest configuration file, in octets.
const MAX_RULES: u64 = 1 << 30;
const MAX_CONFIG: u64 = 16 << 20;
/// Largest file with names of hosts, in octets.
const MAX_HOSTS: u64 = 64 << 20;

/// Reads a configuration file.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn config(path: &Path) -> anyhow::Result<String> {
    read(path, MAX_CONFIG)
}

/// Reads all rules of a configuration.
///
/// # Errors
/// The first file that cannot be read, or its first line.
pub(crate) fn rules(config: &Config) -> anyhow::Result<RuleSets> {
    let mut sets = config.rules_files().map(|(place, files)| rules_of(&place, files));
    let common = sets.next().transpose()?.unwrap_or_default();
    let common = Arc::new(common);
    let views = sets.map(|set| set.map(Arc::new)).collect::<anyhow::Result<_>>()?;
    Ok(RuleSets { common, views, hosts: Arc::new(hosts(&config.hosts)?.0) })
}

/// Reads rules that the setting at `place` names.
fn rules_of(place: &str, files: &RulesConfig) -> anyhow::Result<Rules> {
    let mut rules = Rules::default();
    for (key, format, paths) in
        [("lists", RulesFormat::List, &files.lists), ("zones", RulesFormat::Zone, &files.zones)]
    {
        for path in paths {
            let place = || format!("{place}.{key}: {}", path.display());
            let text = read(path, MAX_RULES).with_context(place)?;
            rules.add(format, &text).with_context(place)?;
        }
    }
    Ok(rules)
}

/// Reads all names of hosts; returns them and the Unix time at which the next lease ends.
///
/// # Errors
/// The first file that cannot be read; leases may be missing, before the first one.
pub(crate) fn hosts(config: &HostsConfig) -> anyhow::Result<(Rules, Option<u64>)> {
    let (mut rules, mut next) = (Rules::default(), None::<u64>);
    for path in &config.files {
        let place = || format!("hosts.files: {}", path.display());
        let missing = || anyhow!("there is no such file: write it, or remove the setting");
        let text = hosts_file(path).and_then(|text| text.ok_or_else(missing));
        rules.add_hosts(&text.with_context(place)?);
    }
    for leases in &config.leases {
        let texts =
            leases.files().iter().map(|path| hosts_file(path)).collect::<Result<Vec<_>, _>>();
        let texts = texts.with_context(|| format!("hosts.leases: {}", leases.file.display()))?;
        let texts: Vec<String> = texts.into_iter().flatten().collect();
        let end = rules.add_leases(leases.format, &texts, &leases.domain, unix());
        next = next.into_iter().chain(end).min();
    }
    Ok((rules, next))
}

/// Returns all files with names of hosts.
pub(crate) fn paths_of_hosts(config: &HostsConfig) -> impl Iterator<Item = PathBuf> {
    let leases = config.leases.iter().flat_map(|leases| leases.files());
    config.files.iter().cloned().chain(leases)
}

/// Returns the Unix time, in seconds.
pub(crate) fn unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Reads a file with names of hosts; `None` if there is none.
///
/// # Errors
/// If it cannot be read.
fn hosts_file(path: &Path) -> anyhow::Result<Option<String>> {
    // A folder that may not be entered is no reason to forget all names.
    match path.try_exists().with_context(|| unreadable(path))? {
        true => read(path, MAX_HOSTS).map(Some),
        false => Ok(None),
    }
}

/// Reads a text file of at most so many octets. What is no file, such as a pipe, could take for ever.
fn read(path: &Path, most: u64) -> anyhow::Result<String> {
    // Without the flag to open a pipe waits for a writer.
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let file = file.with_context(|| unreadable(path))?;
    let facts = file.metadata().with_context(|| unreadable(path))?;
    if !facts.is_file() {
        bail!("it is no regular file: write the path of one");
    }
    let mut text = String::new();
    file.take(most + 1).read_to_string(&mut text).with_context(|| unreadable(path))?;
    if text.len() as u64 > most {
        bail!("it has more than {most} octets: write less");
    }
    Ok(text)
}

/// Returns the remedy for a file that cannot be read.
fn unreadable(path: &Path) -> String {
    match path.exists() {
        true => "it cannot be read: it must be a text file that server.user may read, in a folder that was there at the start (server.restrict-files)".into(),
        false => "there is no such file: write it, or remove the setting".into(),
    }
}

/// Logs how many rules there are.
pub(crate) fn log_rules(rules: &RuleSets) {
    if !rules.is_empty() {
        tracing::info!(rules = rules.len(), "rules for single names read");
    }
    if rules.skipped() > 0 {
        let skipped = rules.skipped();
        tracing::warn!(
            skipped,
            "records of response policy zones are left out: their triggers or actions are not supported"
        );
    }
}
