//! Files that the server may use after its start: the files of its configuration, and no others
//! (landlock(7)).
//!
//! The kernel enforces it for all threads that are started afterwards, even if the server is
//! compromised. A rule is for a folder, so that files may be replaced: files of the configuration
//! are read again on SIGHUP.

use std::path::{Path, PathBuf};

use ::landlock::{
    ABI, Access, AccessFs, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, path_beneath_rules,
};
use dns64::Config;

/// Version of the kernel's interface whose rights are handled; an older kernel enforces the rights
/// that it supports.
const LANDLOCK_ABI: ABI = ABI::V5;

/// Restricts this thread, and those that it starts, to the files of the configuration at `path`.
/// Without Landlock in the kernel nothing changes, and a message is logged.
pub(crate) fn restrict(path: &Path, config: &Config) {
    if !config.server.restrict_files {
        return;
    }
    match apply(&read_folders(path, config), &written_folders(config)) {
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => {}
        Ok(RulesetStatus::NotEnforced) => {
            tracing::info!("the kernel has no Landlock: all files of the user stay accessible");
        }
        Err(error) => tracing::warn!("server.restrict-files: {error}"),
    }
}

/// Restricts this thread to these folders.
fn apply(read: &[PathBuf], written: &[PathBuf]) -> Result<RulesetStatus, RulesetError> {
    // The socket for control is removed at the end; the snapshot of the cache is written and
    // replaces the old one.
    let changes: BitFlags<AccessFs> =
        AccessFs::MakeSock | AccessFs::MakeReg | AccessFs::WriteFile | AccessFs::RemoveFile;
    let changes = changes | AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Truncate;
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK_ABI))?
        .create()?
        .add_rules(path_beneath_rules(read, AccessFs::ReadFile | AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(written, changes))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// Returns the folders of the files that are read on a reload, and of the files to which they link.
fn read_folders(path: &Path, config: &Config) -> Vec<PathBuf> {
    let tls = [&config.tls.certificate, &config.tls.key];
    let pools = config.pools();
    let authorities = pools.iter().map(|pool| &pool.tls_authorities);
    let rules = config.rules_files().flat_map(|(_, files)| files.lists.iter().chain(&files.zones));
    let files = tls.into_iter().chain(authorities).chain(rules).map(PathBuf::as_path);
    let hosts: Vec<PathBuf> = crate::files::paths_of_hosts(&config.hosts).collect();
    let files = files.chain(hosts.iter().map(PathBuf::as_path)).chain([path]);
    let mut folders = Vec::new();
    for file in files.filter(|file| !file.as_os_str().is_empty()) {
        folders.push(folder(file));
        // A certificate is often a link to the current one.
        folders.extend(std::fs::canonicalize(file).ok().map(|file| folder(&file)));
    }
    folders.retain(|folder| folder.exists());
    folders
}

/// Returns the folders of the socket for control, which is removed at the end, and of the snapshot of the cache.
fn written_folders(config: &Config) -> Vec<PathBuf> {
    let files = [&config.control.socket, &config.cache.snapshot];
    let used = files.into_iter().filter(|file| !file.as_os_str().is_empty());
    used.map(|file| folder(file)).filter(|folder| folder.exists()).collect()
}

/// Returns the folder of a file.
fn folder(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
