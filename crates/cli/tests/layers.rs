//! The layers of ARCHITECTURE.md, held against what the crates really import.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Who may import whom; nothing else may.
const LAYERS: [(&str, &[&str]); 18] = [
    ("wire", &[]),
    ("skip", &[]),
    ("measure", &[]),
    ("engine", &["measure"]),
    ("udp", &["engine", "measure"]),
    ("streams", &["engine", "measure"]),
    ("load", &["wire", "engine", "measure"]),
    ("auth", &["wire", "engine", "measure"]),
    ("dns64", &["wire", "engine", "measure"]),
    ("dns64d", &["dns64", "udp", "streams", "wire", "engine", "measure"]),
    ("zone", &["wire", "measure"]),
    ("trace", &["wire", "measure"]),
    ("update", &["wire", "measure", "zone"]),
    ("record", &["measure"]),
    ("experiment", &["record", "measure"]),
    ("lab", &["experiment", "record", "measure", "wire", "zone"]),
    ("report", &["record", "measure"]),
    (
        "cli",
        &[
            "wire",
            "engine",
            "udp",
            "streams",
            "measure",
            "load",
            "auth",
            "zone",
            "record",
            "experiment",
            "lab",
            "report",
            "trace",
            "update",
        ],
    ),
];

#[test]
fn crates_import_only_what_stands_left_of_them() {
    let metadata = MetadataCommand::new()
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .expect("cargo metadata runs");
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        LAYERS.iter().map(|(name, deps)| (*name, deps.iter().copied().collect())).collect();
    let mut seen = 0;
    for package in &metadata.packages {
        let name = package.name.as_str();
        let folder = package.manifest_path.parent().and_then(|path| path.file_name());
        assert_eq!(folder, Some(name), "a package has the name of its folder");
        let allowed = allowed.get(name).unwrap_or_else(|| {
            panic!("the crate {name} stands in no layer: add it to ARCHITECTURE.md and here")
        });
        let ours = package
            .dependencies
            .iter()
            .filter(|d| d.kind == DependencyKind::Normal && d.path.is_some())
            .map(|d| d.name.as_str());
        for import in ours {
            assert!(allowed.contains(import), "{name} imports {import}, which its layer forbids");
        }
        seen += 1;
    }
    assert_eq!(seen, LAYERS.len());
}

#[test]
fn unsafe_code_lives_in_udp_and_streams_only() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/");
    let words = ["{", "fn ", "impl "].map(|what| ["unsafe", what].join(" "));
    let mut found = BTreeSet::new();
    let mut folders = vec![crates.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).expect("UTF-8");
                if words.iter().any(|word| text.contains(word)) {
                    let name = path
                        .strip_prefix(crates)
                        .expect("below")
                        .components()
                        .next()
                        .expect("a crate");
                    found.insert(name.as_os_str().to_string_lossy().into_owned());
                }
            }
        }
    }
    assert_eq!(found, BTreeSet::from(["streams".to_owned(), "udp".to_owned()]));
}
