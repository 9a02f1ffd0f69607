//! The program of an adapter, and its version.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{Adapter, AdapterError};

/// Directories with servers that may not be on PATH.
const SYSTEM_DIRS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

impl Adapter {
    /// Returns the path of the adapter's program; checks that the servers behind it are installed
    /// too.
    ///
    /// # Errors
    /// If one is not installed; names the package.
    pub fn program(&self) -> Result<PathBuf, AdapterError> {
        if let Some(behind) = &self.behind {
            behind.program()?;
        }
        if let Some(program) = &self.built {
            return Ok(program.clone());
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        self.find_program(&path).ok_or_else(|| AdapterError::NotInstalled {
            title: self.title.clone(),
            binaries: self.binaries.join(" or "),
            remedy: self.remedy(),
        })
    }

    pub(super) fn find_program(&self, path: &OsStr) -> Option<PathBuf> {
        // A program beside this one takes precedence.
        let own = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
        let dirs: Vec<PathBuf> = own
            .into_iter()
            .chain(std::env::split_paths(path))
            .chain(SYSTEM_DIRS.map(PathBuf::from))
            .collect();
        let executable = |file: &PathBuf| {
            fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        };
        let mut candidates =
            self.binaries.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name)));
        candidates.find(executable)
    }
}
