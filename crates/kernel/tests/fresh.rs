//! The committed objects are those of the sources.

use std::path::Path;
use std::process::Command;

#[test]
fn objects_are_those_of_their_sources() {
    let of_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    let starts = |program| Command::new(program).arg("--version").output().is_ok();
    let header = Path::new("/usr/include/bpf/bpf_helpers.h");
    if !(starts("clang-14") && starts("llvm-strip-14") && header.exists()) {
        return skip::because("no compiler for BPF (clang-14 llvm-14 libbpf-dev)");
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
