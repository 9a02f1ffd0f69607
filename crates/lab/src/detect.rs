//! What is installed here: an adapter's program, and the version it tells.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::adapter::Adapter;
use crate::process::POLL;

/// How long a program may take to print its version.
const LIMIT: Duration = Duration::from_secs(10);
/// No more of what it prints is read, bytes.
const MAX_PRINTED: usize = 64 * 1024;

/// What an adapter's server is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detected {
    /// Its program; absent when it is not installed.
    pub program: Option<PathBuf>,
    /// Its version, when the program told it.
    pub version: Option<String>,
}

/// Looks for the server's program and asks it for its version, outside of any testbed.
pub fn detect(adapter: &Adapter) -> Detected {
    let program = adapter.program().ok();
    let printed = program.as_deref().and_then(|program| printed(adapter, program).ok());
    let version = printed.and_then(|text| adapter.read_version(&text));
    Detected { program, version }
}

/// What the program prints when it is asked for its version.
fn printed(adapter: &Adapter, program: &Path) -> io::Result<String> {
    let file = tempfile::NamedTempFile::new()?;
    let out = || File::options().append(true).open(file.path());
    let mut child = Command::new(program)
        .args(&adapter.version.arguments)
        .stdin(Stdio::null())
        .stdout(out()?)
        .stderr(out()?)
        .process_group(0)
        .spawn()?;
    let deadline = Instant::now() + LIMIT;
    while child.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(POLL);
    }
    let bytes = fs::read(file.path())?;
    Ok(String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_PRINTED)]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(binary: &str) -> Adapter {
        let text = format!(
            "name = \"x\"\ntitle = \"X\"\nroles = [\"dns64\"]\npackage = \"x\"\nbinaries = [\"{binary}\"]\n\
             version = {{ arguments = [\"-c\", \"echo X 1.2 >&2\"], after = \"X \" }}\n[start]\narguments = []\n"
        );
        Adapter::parse(&text, Path::new("x.toml")).unwrap()
    }

    #[test]
    fn a_program_tells_its_version() {
        let found = detect(&adapter("sh"));
        assert_eq!(found.version.as_deref(), Some("1.2"));
        assert!(found.program.is_some());
        assert_eq!(detect(&adapter("no-such-x")), Detected { program: None, version: None });
    }
}
