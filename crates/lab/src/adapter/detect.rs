//! Detection of installed servers: the program of an adapter, and its version.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::adapter::{Adapter, VersionQuery};
use crate::testbed::process::wait_for_end;

/// Time within which a program must print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// Largest number of bytes read from its output.
const MAX_PRINTED: usize = 64 * 1024;

/// Detected server of an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectedServer {
    /// Path of the server's program; absent if it is not installed.
    pub program: Option<PathBuf>,
    /// Version of the server, if the program printed it.
    pub version: Option<String>,
}

/// Looks for the server's program and queries its version, outside of any testbed.
pub fn detect(adapter: &Adapter) -> DetectedServer {
    let program = adapter.program().ok();
    let query = adapter.version.as_ref().zip(program.as_deref());
    let version = query.and_then(|(query, program)| query.read(&printed(query, program).ok()?));
    DetectedServer { program, version }
}

/// Returns the output of the program's version query.
fn printed(query: &VersionQuery, program: &Path) -> io::Result<String> {
    let file = tempfile::NamedTempFile::new()?;
    let out = || File::options().append(true).open(file.path());
    let mut child = Command::new(program)
        .args(&query.arguments)
        .stdin(Stdio::null())
        .stdout(out()?)
        .stderr(out()?)
        .process_group(0)
        .spawn()?;
    if wait_for_end(&mut child, VERSION_LIMIT).is_none() {
        child.kill()?;
        child.wait()?;
        return Err(io::ErrorKind::TimedOut.into());
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
    fn a_program_prints_its_version() {
        let found = detect(&adapter("sh"));
        assert_eq!(found.version.as_deref(), Some("1.2"));
        assert!(found.program.is_some());
        assert_eq!(detect(&adapter("no-such-x")), DetectedServer { program: None, version: None });
        let knot = ["knotd (Knot DNS), version 3.3.10\n", "knotd, Knot DNS 3.4.10\n", "Knot DNS"];
        let query = VersionQuery { arguments: Vec::new(), after: "Knot DNS".to_owned() };
        let read = knot.map(|printed| query.read(printed));
        assert_eq!(read.each_ref().map(Option::as_deref), [Some("3.3.10"), Some("3.4.10"), None]);
    }
}
