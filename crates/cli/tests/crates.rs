//! The crates as packages: each has its metadata and a README, and is packed with all that its build reads. The fuzz targets, which
//! are a workspace of their own, are complete and built of the same versions.
//!
//! A README is the head of the crate's documentation. After a change of it:
//! `DNSDYNO_WRITE_README=1 cargo test -p cli --test crates`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand, Package, TargetKind};

fn metadata() -> Metadata {
    let mut command = MetadataCommand::new();
    command.no_deps().other_options(["--offline".to_owned(), "--locked".to_owned()]);
    command.exec().expect("cargo metadata")
}

/// Returns the packages of the workspace.
fn packages(metadata: &Metadata) -> Vec<&Package> {
    let packages = metadata.workspace_packages();
    assert!(packages.len() >= 20, "{}", packages.len());
    packages
}

/// Returns the README of a package: its description, the documentation of its root, and how to get it.
fn readme(package: &Package) -> String {
    let kinds = [TargetKind::Lib, TargetKind::Bin];
    let root = package.targets.iter().find(|target| target.is_kind(kinds[0].clone()));
    let root =
        root.or_else(|| package.targets.iter().find(|target| target.is_kind(kinds[1].clone())));
    let source = std::fs::read_to_string(&root.expect("a library or a program").src_path);
    let source = source.expect("a source");
    let head = source.lines().map_while(|line| line.strip_prefix("//!"));
    let docs: Vec<&str> = head.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    // Links to items lead nowhere outside of rustdoc.
    let docs = docs.join("\n").replace("[`", "`").replace("`]", "`");
    let name = package.name.as_str();
    let program = match name {
        "cli" => Some("dnsdyno"),
        "dns64d" => Some("dns64d"),
        _ => None,
    };
    let install = program.map_or(String::new(), |program| {
        format!(
            "\nThe program is `{program}`:\n\n```\ncargo install --locked --path crates/{name}     # from a checkout; --git URL {name}: from a repository\n\
             apt install ./{program}_*.deb                      # the package that `make deb` builds\n```\n"
        )
    });
    format!(
        "# {name}\n\n{docs}\n{install}\nA crate of [dnsdyno](../../README.md), a dynamometer for DNS servers; \
         [ARCHITECTURE.md](../../ARCHITECTURE.md) says which crates it may use, and which may use it.\n"
    )
}

#[test]
fn each_crate_has_metadata_and_the_readme_of_its_documentation() {
    if std::env::var_os("DNSDYNO_WRITE_README").is_some() {
        for package in packages(&metadata()) {
            let path = package.manifest_path.with_file_name("README.md");
            std::fs::write(path, readme(package)).expect("writes");
        }
    }
    let metadata = metadata();
    for package in packages(&metadata) {
        let (name, folder) = (&package.name, package.manifest_path.parent().expect("a folder"));
        assert_eq!(folder.file_name(), Some(name.as_str()));
        assert!(package.description.as_ref().is_some_and(|text| text.len() > 10), "{name}");
        assert_eq!(package.license.as_deref(), Some("BSD-3-Clause"), "{name}");
        assert_eq!(package.keywords[..2], ["dns", "benchmark"], "{name}");
        assert!(!package.categories.is_empty() && package.rust_version.is_some(), "{name}");
        let path = folder.join("README.md");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            text == readme(package),
            "{path} is not the documentation of its crate: see this test"
        );
        assert_eq!(package.readme().as_deref(), Some(path.as_path()), "{name}");
        for dependency in package.dependencies.iter().filter(|dependency| dependency.path.is_some())
        {
            let version = dependency.req.to_string();
            assert_eq!(
                version,
                format!("^{}", package.version),
                "{name} needs {}",
                dependency.name
            );
        }
    }
}

/// Tests of a crate are modules of a few programs, one of which must name each of their files.
#[test]
fn each_file_of_tests_is_compiled() {
    for package in packages(&metadata()) {
        let folder = package.manifest_path.with_file_name("tests");
        let Ok(files) = std::fs::read_dir(&folder) else { continue };
        let programs = package.targets.iter().filter(|target| target.is_kind(TargetKind::Test));
        let programs: Vec<_> = programs.map(|target| target.src_path.as_std_path()).collect();
        let text: String =
            programs.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
        let files = files.map(|file| file.expect("a file").path());
        for file in files.filter(|file| file.extension().is_some_and(|kind| kind == "rs")) {
            let module = format!("mod {};", file.file_stem().expect("a name").display());
            let named = programs.contains(&&*file) || text.lines().any(|line| line == module);
            assert!(named, "{}: no program of {folder} has `{module}`", file.display());
        }
    }
}

#[test]
fn each_crate_is_packed_with_what_its_build_reads() {
    let metadata = metadata();
    let target = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO"));
    command.args(
        "package --workspace --no-verify --offline --locked --allow-dirty --quiet".split(' '),
    );
    command.arg("--manifest-path").arg(metadata.workspace_root.join("Cargo.toml"));
    let output = command.env("CARGO_TARGET_DIR", target.path()).stdin(Stdio::null()).output();
    let output = output.expect("cargo");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    for package in packages(&metadata) {
        let file = format!("{}-{}.crate", package.name, package.version);
        let list = files(&target.path().join("package").join(&file));
        let has = |name: &str| {
            list.lines().any(|line| line.split_once('/').is_some_and(|(_, path)| path == name))
        };
        assert!(has("README.md") && has("Cargo.toml"), "{file}: {list}");
        // Files beside the sources that a build includes.
        let wanted: &[&str] = match package.name.as_str() {
            "lab" => &["build.rs", "servers/unbound.toml", "experiments/dns64-rfc8219.toml"],
            "kernel" => &["build.rs", "bpf/auth.bpf.o"],
            "dns64" => &["src/config/defaults.toml"],
            "record" => &["src/store/schema.sql"],
            _ => &[],
        };
        for name in wanted {
            assert!(has(name), "{file} has no {name}: {list}");
        }
    }
}

/// Returns the names of the files in a packed crate.
fn files(path: &Path) -> String {
    let output = Command::new("tar").arg("-tzf").arg(path).output().expect("tar");
    assert!(
        output.status.success(),
        "{}: {}",
        path.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the file names in a folder, without what follows a dot.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let stem = |entry: std::fs::DirEntry| {
        entry.path().file_stem().map(|stem| stem.to_string_lossy().into_owned())
    };
    entries.filter_map(|entry| stem(entry.expect("an entry"))).collect()
}

/// A package of a lock file.
#[derive(Default)]
struct Locked {
    versions: BTreeSet<String>,
    dependencies: BTreeSet<String>,
}

/// Returns the packages of a lock file by their names.
fn locked(path: &Path) -> BTreeMap<String, Locked> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut packages = BTreeMap::<String, Locked>::new();
    for package in text.split("[[package]]\n").skip(1) {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key));
            line.unwrap_or_default().trim_matches('"').to_owned()
        };
        let of_name = packages.entry(value("name = ")).or_default();
        of_name.versions.insert(value("version = "));
        // ` "name",` or ` "name version",` where there are more versions than one.
        let dependencies = package.lines().filter_map(|line| line.strip_prefix(" \""));
        let name = |line: &str| line.trim_end_matches("\",").split(' ').next().map(str::to_owned);
        of_name.dependencies.extend(dependencies.filter_map(name));
    }
    packages
}

#[test]
fn the_fuzz_targets_are_complete_and_of_the_versions_of_the_workspace() {
    let metadata = metadata();
    let root = metadata.workspace_root.as_std_path();
    let folder = root.join("fuzz");
    let mut command = MetadataCommand::new();
    command.manifest_path(folder.join("Cargo.toml")).no_deps();
    let fuzz = command.exec().expect("cargo metadata");
    let [fuzz] = &fuzz.workspace_packages()[..] else { panic!("one package") };
    let targets: BTreeSet<String> = fuzz.targets.iter().map(|target| target.name.clone()).collect();
    assert_eq!(targets, names(&folder.join("fuzz_targets")), "fuzz/Cargo.toml");
    let table = std::fs::read_to_string(folder.join("README.md")).expect("a text");
    for target in &targets {
        assert!(!names(&folder.join("seeds").join(target)).is_empty(), "{target} has no seeds");
        assert!(table.contains(&format!("`{target}`")), "fuzz/README.md has no {target}");
    }
    let remedy = "fuzz/Cargo.lock is not in step: see fuzz/README.md";
    let (ours, theirs) = (locked(&root.join("Cargo.lock")), locked(&folder.join("Cargo.lock")));
    for (name, package) in &theirs {
        let known = ours.get(name).map_or(&package.versions, |known| &known.versions);
        assert!(package.versions.is_subset(known), "{name} {:?}: {remedy}", package.versions);
    }
    let needed = |dependency: &&Dependency| {
        dependency.kind == DependencyKind::Normal && !dependency.optional
    };
    for package in packages(&metadata).into_iter().chain([*fuzz]) {
        let Some(locked) = theirs.get(package.name.as_str()) else { continue };
        for dependency in package.dependencies.iter().filter(needed) {
            let name = &dependency.name;
            assert!(locked.dependencies.contains(name), "{} needs {name}: {remedy}", package.name);
        }
    }
}
