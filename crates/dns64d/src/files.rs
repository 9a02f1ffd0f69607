//! Files with rules for single names.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use dns64::config::RulesConfig;
use dns64::rules::RulesFormat;
use dns64::{Config, RuleSets, Rules};
use nix::fcntl::OFlag;

/// Largest file with rules, and largest configuration file, in octets.
const MAX_RULES: u64 = 1 << 30;
const MAX_CONFIG: u64 = 16 << 20;

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
    Ok(RuleSets { common, views: sets.collect::<anyhow::Result<_>>()? })
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
