//! ARCHITECTURE.md compared with the code: its table of crates, who may import whom, and what is
//! absent on purpose.

mod source;

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata};
use source::scope::{Circles, Scope};

/// Crates that open sockets, or bring a runtime that does.
const SOCKETS: &[&str] = &[
    "socket2", "mio", "tokio", "async-io", "smol", "quinn", "h2", "h3", "hyper", "aya", "udp",
    "streams", "kernel",
];
/// Crates that call the kernel for anything.
const SYSTEM: &[&str] = &["nix", "libc", "rustix", "signal-hook", "procfs"];
/// Crates that read a clock.
const CLOCKS: &[&str] = &["chrono", "time", "jiff", "quanta", "coarsetime"];
/// Crates that know what is in a DNS message.
const DNS: &[&str] = &["wire", "domain", "hickory-proto"];
/// Roles, engines and what runs them.
const ROLES_AND_ENGINES: &[&str] =
    &["load", "auth", "dns64", "engine", "udp", "streams", "kernel", "tester", "lab"];

const SOCKET_PATHS: &[&str] = &[
    "std::net::UdpSocket",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::os::unix::net",
    "std::os::fd",
    "nix::sys::socket",
];
const CLOCK_PATHS: &[&str] =
    &["std::time::Instant", "std::time::SystemTime", "std::thread::sleep", "engine::clock"];
const PROCESS_PATHS: &[&str] = &["std::process", "std::os::unix::process", "nix::unistd"];
const COMMAND_PATHS: &[&str] =
    &["std::process::Command", "std::os::unix::process", "tokio::process", "nix::unistd::execvp"];

/// Look-ups in the C library, which loads modules of the host for them: a static program cannot.
const LOOKUP_PATHS: &[&str] = &[
    "std::net::ToSocketAddrs",
    "tokio::net::lookup_host",
    "nix::unistd::User",
    "nix::unistd::Group",
];

/// What some crates must not have, neither as a dependency nor as a path in their sources.
struct Absence {
    crates: &'static [&'static str],
    what: &'static str,
    dependencies: &'static [&'static str],
    paths: &'static [&'static str],
}

/// The crates that compute and do nothing else.
const PURE: &[&str] = &["wire", "measure", "load", "auth", "dns64", "experiment", "report"];

const ABSENT: &[Absence] = &[
    Absence { crates: PURE, what: "sockets", dependencies: SOCKETS, paths: SOCKET_PATHS },
    Absence { crates: &["engine"], what: "sockets", dependencies: SOCKETS, paths: SOCKET_PATHS },
    Absence { crates: PURE, what: "system calls", dependencies: SYSTEM, paths: &[] },
    Absence { crates: PURE, what: "processes", dependencies: &[], paths: PROCESS_PATHS },
    Absence { crates: &["engine"], what: "processes", dependencies: &[], paths: PROCESS_PATHS },
    Absence { crates: PURE, what: "clock", dependencies: CLOCKS, paths: CLOCK_PATHS },
    Absence { crates: &["engine", "udp", "streams"], what: "DNS", dependencies: DNS, paths: &[] },
    Absence {
        crates: &["report"],
        what: "role and no engine",
        dependencies: ROLES_AND_ENGINES,
        paths: &[],
    },
];

/// The crate that starts processes.
const STARTS_PROCESSES: &str = "lab";

/// Lines of code in a room, without comments and tests.
const MAX_ROOM: usize = 5_000;

/// The crates that hold `unsafe` code. Clippy wants a `SAFETY:` line for each block.
const UNSAFE: &[&str] = &["cluster", "kernel", "streams", "udp"];

fn architecture() -> String {
    let path = source::workspace().join("ARCHITECTURE.md");
    std::fs::read_to_string(path).expect("ARCHITECTURE.md is readable")
}

/// The names in the first column of the table of crates.
fn described(page: &str) -> BTreeSet<String> {
    let (_, after) = page.split_once("\n## Crates\n").expect("a chapter on the crates");
    let rows =
        after.lines().skip_while(|line| !line.starts_with('|')).take_while(|l| l.starts_with('|'));
    let first = rows.filter_map(|row| row.split('|').nth(1)).map(str::trim);
    first.filter_map(|cell| cell.strip_prefix('`')?.strip_suffix('`')).map(str::to_owned).collect()
}

/// Which crates each crate may import; `None`: all.
type Layers = BTreeMap<String, Option<BTreeSet<String>>>;

/// The table below "Who may import whom".
fn layers(page: &str) -> Layers {
    let (_, after) = page.split_once("Who may import whom").expect("a table of the layers");
    let (_, table) = after.split_once("```\n").expect("the table is a block");
    let (table, _) = table.split_once("```").expect("the block ends");
    let names = |list: &str| list.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
    let mut layers = Layers::new();
    for line in table.lines() {
        let (crates, imports) =
            line.split_once("  ").unwrap_or_else(|| panic!("no two columns: {line}"));
        let imports = match imports.trim() {
            "nothing of ours" => Some(BTreeSet::new()),
            "anything" => None,
            list => Some(names(list).into_iter().collect()),
        };
        for name in names(crates) {
            let before = layers.insert(name.clone(), imports.clone());
            assert!(before.is_none(), "ARCHITECTURE.md: {name} stands in two layers");
        }
    }
    layers
}

/// The folder of each crate and its dependencies: the names of folders for ours, of packages for others; those of
/// tests are not among them.
fn crates(metadata: &Metadata) -> BTreeMap<String, BTreeSet<String>> {
    let of = |package: &cargo_metadata::Package| {
        let shipped = package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development);
        let names = shipped.map(|dependency| match &dependency.path {
            Some(path) => source::crate_name(path.as_std_path()),
            None => dependency.name.clone(),
        });
        (source::crate_name(package.manifest_path.as_std_path()), names.collect())
    };
    metadata.packages.iter().map(of).collect()
}

#[test]
fn every_crate_stands_in_one_layer() {
    let (page, metadata) = (architecture(), source::metadata());
    let (layers, crates) = (layers(&page), crates(&metadata));
    for name in crates.keys() {
        assert!(
            layers.contains_key(name),
            "the crate {name} stands in no layer of ARCHITECTURE.md"
        );
        assert!(
            described(&page).contains(name),
            "ARCHITECTURE.md does not say what the crate {name} is"
        );
    }
    let imports = layers.values().flatten().flatten();
    for name in layers.keys().chain(imports).chain(&described(&page)) {
        assert!(crates.contains_key(name), "ARCHITECTURE.md names {name}, which is no crate");
    }
    for package in &metadata.packages {
        let folder = source::crate_name(package.manifest_path.as_std_path());
        assert_eq!(package.name.as_str(), folder, "a package is named as its folder");
    }
}

#[test]
fn crates_import_only_what_their_layer_allows() {
    let (layers, metadata) = (layers(&architecture()), source::metadata());
    for (name, dependencies) in crates(&metadata) {
        let Some(Some(allowed)) = layers.get(&name) else { continue };
        for import in dependencies.iter().filter(|import| layers.contains_key(*import)) {
            assert!(allowed.contains(import), "{name} imports {import}, which its layer forbids");
        }
    }
}

#[test]
fn rooms_import_only_from_those_before_them() {
    let (page, targets) = (architecture(), source::targets());
    let line = page.lines().find_map(|line| line.strip_prefix("Rooms of `lab`"));
    let rooms: Vec<&str> = line.expect("the rooms").split('`').skip(1).step_by(2).collect();
    let files = &targets.iter().find(|(name, _)| name == "lab").expect("a crate").1;
    let room = |file: usize| {
        let name = files[file].module.first()?;
        Some(
            rooms.iter().position(|room| room == name).unwrap_or_else(|| panic!("{name}: no room")),
        )
    };
    let mut lines = vec![0; rooms.len()];
    for (file, imports) in Circles::imports(files).iter().enumerate() {
        let above = |import: &&usize| room(file).is_some() && room(**import) > room(file);
        if let Some(import) = imports.iter().find(above) {
            let [from, to] = [file, *import].map(|file| files[file].path.display());
            panic!("{from} imports {to}, which is in a room above");
        }
        let text = std::fs::read_to_string(source::workspace().join(&files[file].path));
        let text = text.expect("UTF-8");
        let code = text.lines().map(str::trim).take_while(|line| *line != "#[cfg(test)]");
        let code = code.filter(|line| !line.is_empty() && !line.starts_with("//")).count();
        room(file).into_iter().for_each(|room| lines[room] += code);
    }
    for (room, lines) in rooms.iter().zip(lines) {
        assert!((1..=MAX_ROOM).contains(&lines), "the room {room} of lab has {lines} lines");
    }
}

#[test]
fn what_is_absent_is_no_dependency() {
    let crates = crates(&source::metadata());
    for absence in ABSENT {
        for name in absence.crates {
            let dependencies = crates.get(*name).unwrap_or_else(|| panic!("{name} is no crate"));
            for dependency in dependencies {
                let found = absence.dependencies.contains(&dependency.as_str());
                assert!(!found, "{name} knows no {}, but depends on {dependency}", absence.what);
            }
        }
    }
}

#[test]
fn what_is_absent_is_not_named() {
    let targets = source::targets();
    for absence in ABSENT {
        for name in absence.crates {
            let found = named(&targets, &|other| other == *name, absence.paths);
            assert!(found.is_empty(), "{name} knows no {}:\n{}", absence.what, found.join("\n"));
        }
    }
}

#[test]
fn only_the_lab_starts_processes() {
    let found = named(&source::targets(), &|name| name != STARTS_PROCESSES, COMMAND_PATHS);
    assert!(found.is_empty(), "only {STARTS_PROCESSES} starts processes:\n{}", found.join("\n"));
}

#[test]
fn no_name_is_looked_up_in_the_c_library() {
    let found = named(&source::targets(), &|_| true, LOOKUP_PATHS);
    assert!(found.is_empty(), "static programs cannot do it:\n{}", found.join("\n"));
}

/// Where crates name a forbidden path outside their tests.
fn named(
    targets: &[(String, Vec<source::File>)],
    which: &dyn Fn(&str) -> bool,
    forbidden: &[&str],
) -> Vec<String> {
    let mut found = Vec::new();
    for file in targets.iter().filter(|(name, _)| which(name)).flat_map(|(_, files)| files) {
        for (path, line) in Scope::of(file, 0).iter().flat_map(Scope::full_paths) {
            let path = path.join("::");
            if forbidden.iter().any(|forbidden| touches(&path, forbidden)) {
                found.push(format!("{}:{line}: {path}", file.path.display()));
            }
        }
    }
    found
}

/// Whether a path is the forbidden one, stands below it, or is a glob that brings it.
fn touches(path: &str, forbidden: &str) -> bool {
    let below = |path: &str, of: &str| {
        path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let glob = path.strip_suffix("::*").is_some_and(|module| below(forbidden, module));
    glob || below(path, forbidden)
}

#[test]
fn unsafe_code_lives_where_it_may() {
    let keyword = ["un", "safe"].concat();
    let mut found = BTreeMap::new();
    for path in source::all_rust_files() {
        let text = std::fs::read_to_string(&path).expect("UTF-8");
        let written = ["{", "fn ", "impl ", "extern "].map(|what| format!("{keyword} {what}"));
        let allowed = format!("allow({keyword}_code)");
        if text.contains(&allowed) || written.iter().any(|word| text.contains(word)) {
            found.insert(source::crate_name(&path), path);
        }
    }
    for (name, path) in &found {
        assert!(UNSAFE.contains(&name.as_str()), "{keyword} code in {name}: {}", path.display());
    }
    let all: BTreeSet<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(all, UNSAFE.iter().copied().collect(), "a crate without {keyword} code is listed");
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let manifest = |path: &std::path::Path| std::fs::read_to_string(path).expect("UTF-8");
    let workspace = manifest(&source::workspace().join("Cargo.toml"));
    for lint in ["unsafe_code = \"deny\"", "undocumented_unsafe_blocks = \"deny\""] {
        assert!(workspace.lines().any(|line| line == lint), "Cargo.toml without {lint}");
    }
    for package in source::metadata().packages {
        let path = package.manifest_path.as_std_path();
        let taken = manifest(path).contains("[lints]\nworkspace = true\n");
        assert!(taken, "{} does not take the lints of the workspace", source::shown(path));
    }
}
