//! The committed objects are those of the sources.

use std::path::Path;
use std::process::Command;

/// The compiler with which the objects were built; each compiles the sources in its own way.
const COMPILER: &str = include_str!("../bpf/COMPILER");

/// Returns the first line of a program's version; `None` if it is not installed.
fn version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(str::to_owned)
}

#[test]
fn objects_are_those_of_their_sources() {
    let of_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = Path::new("/usr/include/bpf/bpf_helpers.h");
    let (Some(here), Some(_), true) =
        (version("clang-14"), version("llvm-strip-14"), header.exists())
    else {
        return skip::because("no compiler for BPF (clang-14 llvm-14 libbpf-dev)");
    };
    let built_with = COMPILER.trim_end();
    if here != built_with {
        return skip::because(format_args!(
            "the objects were built with {built_with}, here is {here}"
        ));
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = Command::new(of_crate.join("../../scripts/build-bpf")).arg(dir).output();
    let built = built.expect("the script is there");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut objects = 0;
    for entry in std::fs::read_dir(of_crate.join("bpf")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "o") {
            let name = path.file_name().expect("a file");
            let read = |path: &Path| std::fs::read(path).unwrap_or_default();
            assert!(
                read(&path) == read(&dir.join(name)),
                "{name:?} is stale: run scripts/build-bpf and commit it"
            );
            objects += 1;
        }
    }
    assert!(objects > 0, "there are objects");
}
