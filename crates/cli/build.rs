//! Notes the commit of the sources, for the records of runs; nothing where they are no git repository.

use std::path::Path;
use std::process::Command;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo::rerun-if-changed=build.rs");
    for file in ["HEAD", "index", "logs/HEAD"].map(|name| root.join(".git").join(name)) {
        if file.exists() {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    let describe = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let found = Command::new("git").args(describe).current_dir(&root).output();
    let commit = found.ok().filter(|found| found.status.success());
    if let Some(commit) = commit.and_then(|found| String::from_utf8(found.stdout).ok()) {
        println!("cargo::rustc-env=DNSDYNO_COMMIT={}", commit.trim());
    }
}
