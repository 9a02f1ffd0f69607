//! The configuration file, and files with rules and with names of hosts.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::net::Ipv6Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use dns64::config::{HostsConfig, LeasesConfig, RulesConfig};
use dns64::rules::{Leases, RulesFormat};
use dns64::{Config, RuleSets, Rules};
use nix::fcntl::OFlag;
use nix::net::if_::if_nametoindex;

/// Largest file with rules, and largest configuration file, in octets.
const MAX_RULES: u64 = 1 << 30;
const MAX_CONFIG: u64 = 16 << 20;
/// Largest file with names of hosts, in octets.
const MAX_HOSTS: u64 = 64 << 20;

/// Reads a configuration file, with the numbers of interfaces in place of their names.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn config(path: &Path) -> anyhow::Result<String> {
    read_text(path, MAX_CONFIG).map(|text| with_scopes(&text))
}

/// Returns a text whose link-local addresses (`fe80::1%eth0`) have the numbers of their interfaces. The name of an interface that is
/// not there stays.
fn with_scopes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        (out, rest) = (out + before + "%", after);
        let is_outside = |c: char| !c.is_ascii_hexdigit() && c != ':';
        let address = before.rsplit(is_outside).next().unwrap_or_default();
        let end = after.find(|c: char| c.is_whitespace() || "\"']/".contains(c));
        let (name, behind) = after.split_at(end.unwrap_or(after.len()));
        if address.parse::<Ipv6Addr>().is_ok()
            && let Ok(number) = if_nametoindex(name)
        {
            (out, rest) = (out + &number.to_string(), behind);
        }
    }
    out + rest
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
    Ok(RuleSets { common, views, hosts: Arc::new(hosts(&config.hosts)?) })
}

/// Reads rules that the setting at `place` names.
fn rules_of(place: &str, files: &RulesConfig) -> anyhow::Result<Rules> {
    let mut rules = Rules::default();
    for (key, format, paths) in
        [("lists", RulesFormat::List, &files.lists), ("zones", RulesFormat::Zone, &files.zones)]
    {
        for path in paths {
            let place = || format!("{place}.{key}: {}", path.display());
            let text = read_text(path, MAX_RULES).with_context(place)?;
            rules.add(format, &text).with_context(place)?;
        }
    }
    Ok(rules)
}

/// Reads all names of hosts.
///
/// # Errors
/// The first file that cannot be read; leases may be missing, before the first one.
fn hosts(config: &HostsConfig) -> anyhow::Result<Rules> {
    let mut texts = HostsTexts::default();
    match texts.read(config).into_iter().next() {
        Some(error) => Err(error),
        None => Ok(texts.rules(config).unwrap_or_default().0),
    }
}

/// Texts of files with names of hosts, each with its last readable content.
#[derive(Default)]
pub(crate) struct HostsTexts(HashMap<PathBuf, String>);

impl HostsTexts {
    /// Reads all files again; returns the errors of files whose last text stays in use.
    pub(crate) fn read(&mut self, config: &HostsConfig) -> Vec<anyhow::Error> {
        let mut before = std::mem::take(&mut self.0);
        let mut errors = Vec::new();
        for (number, path) in paths_of_hosts(config).enumerate() {
            let is_leases = number >= config.files.len();
            let missing = || anyhow!("there is no such file: write it, or remove the setting");
            let text = hosts_file(&path)
                .and_then(|text| text.or(is_leases.then(String::new)).ok_or_else(missing));
            let key = if is_leases { "hosts.leases" } else { "hosts.files" };
            let text = text.with_context(|| format!("{key}: {}", path.display()));
            let text = text.or_else(|error| {
                errors.push(error);
                before.remove(&path).ok_or(())
            });
            if let Ok(text) = text {
                self.0.insert(path, text);
            }
        }
        errors
    }

    /// Returns all names, and the Unix time at which the next lease ends; `None` if a file could never be read.
    pub(crate) fn rules(&self, config: &HostsConfig) -> Option<(Rules, Option<u64>)> {
        let mut rules = Rules::default();
        for path in &config.files {
            rules.add_hosts(self.0.get(path)?);
        }
        let leases = config.leases.iter().map(|leases| {
            let files = leases.files();
            let texts = files.iter().map(|path| self.0.get(path).map(String::as_str));
            let LeasesConfig { format, ref domain, .. } = *leases;
            Some(Leases { format, texts: texts.collect::<Option<_>>()?, domain })
        });
        let next = rules.add_leases(&leases.collect::<Option<Vec<_>>>()?, unix());
        Some((rules, next))
    }
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

/// Reads a file with names of hosts; `None` if it does not exist.
///
/// # Errors
/// If it cannot be read.
fn hosts_file(path: &Path) -> anyhow::Result<Option<String>> {
    // A folder that may not be entered is no reason to forget all names.
    match path.try_exists().with_context(|| unreadable(path))? {
        true => {
            let octets = read(path, MAX_HOSTS)?;
            // An octet in another encoding is no reason to refuse the file either.
            Ok(Some(String::from_utf8_lossy(&octets).into_owned()))
        }
        false => Ok(None),
    }
}

/// Reads a text file of at most `most` octets.
///
/// # Errors
/// If it cannot be read.
fn read_text(path: &Path, most: u64) -> anyhow::Result<String> {
    String::from_utf8(read(path, most)?).with_context(|| unreadable(path))
}

/// Reads a file of at most `most` octets. Pipes and devices are refused, since reading could take
/// for ever.
fn read(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    // Without this flag, opening a pipe waits for a writer.
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let file = file.with_context(|| unreadable(path))?;
    let facts = file.metadata().with_context(|| unreadable(path))?;
    if !facts.is_file() {
        bail!("it is no regular file: write the path of one");
    }
    let mut octets = Vec::new();
    file.take(most + 1).read_to_end(&mut octets).with_context(|| unreadable(path))?;
    if octets.len() as u64 > most {
        bail!("it has more than {most} octets: write less");
    }
    Ok(octets)
}

/// Returns the remedy for a file that cannot be read.
fn unreadable(path: &Path) -> String {
    match path.try_exists() {
        Ok(true) | Err(_) => "it cannot be read: it must be a text file that server.user may read, in a folder that was there at the start (server.restrict-files)".into(),
        Ok(false) => "there is no such file: write it, or remove the setting".into(),
    }
}

/// Logs the number of rules.
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
    if rules.hosts.skipped() > 0 {
        let skipped = rules.hosts.skipped();
        tracing::info!(skipped, "lines and names of hosts files and leases are left out");
    }
}
