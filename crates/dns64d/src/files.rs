//! Files with rules for single names.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use dns64::rules::RulesFormat;
use dns64::{Config, Rules};

/// Largest file with rules, in octets.
const MAX_FILE: u64 = 1 << 30;

/// Reads all rules of a configuration.
///
/// # Errors
/// The first file that cannot be read, or its first line.
pub(crate) fn rules(config: &Config) -> anyhow::Result<Rules> {
    let mut rules = Rules::default();
    for (key, format, paths) in [
        ("rules.lists", RulesFormat::List, &config.rules.lists),
        ("rules.zones", RulesFormat::Zone, &config.rules.zones),
    ] {
        for path in paths {
            let place = || format!("{key}: {}", path.display());
            let text = read(path).with_context(place)?;
            rules.add(format, &text).with_context(place)?;
        }
    }
    Ok(rules)
}

/// Reads a text file.
fn read(path: &PathBuf) -> anyhow::Result<String> {
    let len = std::fs::metadata(path).with_context(|| unreadable(path))?.len();
    if len > MAX_FILE {
        return Err(anyhow!("it has {len} octets, more than {MAX_FILE}"));
    }
    std::fs::read_to_string(path).with_context(|| unreadable(path))
}

/// Returns the remedy for a file that cannot be read.
fn unreadable(path: &Path) -> String {
    match path.exists() {
        true => "it cannot be read: it must be a text file that server.user may read, in a folder that was there at the start (server.restrict-files)".into(),
        false => "there is no such file: write it, or remove the setting".into(),
    }
}

/// Logs how many rules there are.
pub(crate) fn log_rules(rules: &Rules) {
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
