//! Notes the commit of the sources, for the records of runs and `--version`; nothing where they are no git repository. For `--version` also
//! what this build has. The program dns64d uses this file too.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo::rerun-if-changed={}", root.join("crates/cli/build.rs").display());
    for file in ["HEAD", "index", "logs/HEAD"].map(|name| root.join(".git").join(name)) {
        if file.exists() {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    let describe = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let found = Command::new("git").args(describe).current_dir(&root).output();
    let commit = found.ok().filter(|found| found.status.success());
    let commit = commit.and_then(|found| String::from_utf8(found.stdout).ok());
    if let Some(commit) = &commit {
        println!("cargo::rustc-env=DNSDYNO_COMMIT={}", commit.trim());
    }
    println!(
        "cargo::rustc-env=DNSDYNO_BUILD_COMMIT={}",
        commit.as_deref().unwrap_or("not known").trim()
    );
    let target = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let features = [
        ("quic", env::var_os("CARGO_FEATURE_QUIC").is_some()),
        ("static", target.split(',').any(|feature| feature == "crt-static")),
    ];
    let features: Vec<&str> = features.iter().filter(|one| one.1).map(|one| one.0).collect();
    println!("cargo::rustc-env=DNSDYNO_BUILD_FEATURES={}", features.join(", "));
    // The objects of crates/kernel/bpf are little-endian.
    let little = env::var("CARGO_CFG_TARGET_ENDIAN").is_ok_and(|endian| endian == "little");
    let engine = if little { "yes (needs root, or CAP_BPF and CAP_NET_ADMIN)" } else { "no" };
    println!("cargo::rustc-env=DNSDYNO_BUILD_KERNEL_ENGINE={engine}");
}
