//! The Rust sources of the workspace as syntax trees: what the guards in `layers.rs` and `shapes.rs` look at.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod scope;

use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand, Target, TargetKind};
use syn::{Attribute, ImplItem, Item, ItemMod, TraitItem};

/// One source file of a crate, without its tests.
pub(crate) struct File {
    /// Path below the workspace's folder.
    pub(crate) path: PathBuf,
    /// Names of the modules from the crate's root to this file.
    pub(crate) module: Vec<String>,
    /// The items without those that only tests compile.
    pub(crate) items: Vec<Item>,
    /// Lines of the file without those that only tests compile.
    pub(crate) lines: usize,
}

/// The folder of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let cli = Path::new(env!("CARGO_MANIFEST_DIR"));
    cli.ancestors().nth(2).expect("crates/cli stands in a workspace").to_owned()
}

/// What cargo says of the packages of the workspace.
pub(crate) fn metadata() -> Metadata {
    let mut command = MetadataCommand::new();
    command.no_deps().other_options(["--offline".to_owned()]).exec().expect("cargo metadata runs")
}

/// The name of the folder of `crates/` in which a file or folder lies.
pub(crate) fn crate_name(path: &Path) -> String {
    let crates = workspace().join("crates");
    let below = path.strip_prefix(crates).expect("lies in crates/");
    let first = below.components().next().expect("lies in a crate");
    first.as_os_str().to_string_lossy().into_owned()
}

/// A path from the workspace's folder on.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(workspace()).expect("lies in the workspace").display().to_string()
}

/// Every Rust file of every crate, its tests and benchmarks too.
pub(crate) fn all_rust_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![workspace().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 100, "{} Rust files found", files.len());
    files
}

/// The programs and libraries of each crate, in the order of their names; each with all its files.
pub(crate) fn targets() -> Vec<(String, Vec<File>)> {
    let metadata = metadata();
    let mut targets: Vec<_> = metadata
        .packages
        .iter()
        .flat_map(|package| &package.targets)
        .filter(|target| ships(target))
        .map(|target| {
            let root = target.src_path.as_std_path();
            let mut files = Vec::new();
            read(root, &folder(root), Vec::new(), &mut files);
            (crate_name(root), files)
        })
        .collect();
    targets.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert!(targets.len() > 10, "{} programs and libraries found", targets.len());
    targets
}

/// Whether users get the target: it is neither a test, nor a benchmark, nor a build script.
fn ships(target: &Target) -> bool {
    target.kind.iter().any(|kind| matches!(kind, TargetKind::Lib | TargetKind::Bin))
}

/// Reads a file and the files of its modules. `folder` is where those lie.
fn read(path: &Path, folder: &Path, module: Vec<String>, files: &mut Vec<File>) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut left_out = 0;
    let items = without_tests(parsed.items, &mut left_out);
    let shown = path.strip_prefix(workspace()).expect("lies in the workspace").to_owned();
    let lines = text.lines().count() - left_out;
    read_modules(&items, folder, &module, files);
    files.push(File { path: shown, module, items, lines });
}

/// Reads the files of the modules that `items` declare.
fn read_modules(items: &[Item], folder: &Path, module: &[String], files: &mut Vec<File>) {
    for item in items {
        let Item::Mod(ItemMod { ident, content, .. }) = item else { continue };
        let name = ident.to_string();
        let path = [module, std::slice::from_ref(&name)].concat();
        match content {
            Some((_, items)) => read_modules(items, &folder.join(&name), &path, files),
            None => {
                let beside = folder.join(format!("{name}.rs"));
                let within = folder.join(&name).join("mod.rs");
                let file = if beside.exists() { beside } else { within };
                read(&file, &folder.join(&name), path, files);
            }
        }
    }
}

/// Where the modules of a crate's root lie.
fn folder(root: &Path) -> PathBuf {
    root.parent().expect("a file lies in a folder").to_owned()
}

/// The items without tests; `left_out` grows by their lines.
fn without_tests(items: Vec<Item>, left_out: &mut usize) -> Vec<Item> {
    let kept = items.into_iter().filter_map(|mut item| {
        if only_tests(attributes(&item)) {
            *left_out += lines(&item);
            return None;
        }
        match &mut item {
            Item::Mod(ItemMod { content: Some((_, items)), .. }) => {
                *items = without_tests(std::mem::take(items), left_out);
            }
            Item::Impl(block) => block.items.retain(|item| match item {
                ImplItem::Fn(function) => !only_tests(&function.attrs),
                ImplItem::Const(constant) => !only_tests(&constant.attrs),
                _ => true,
            }),
            Item::Trait(block) => block.items.retain(|item| match item {
                TraitItem::Fn(function) => !only_tests(&function.attrs),
                _ => true,
            }),
            _ => {}
        }
        Some(item)
    });
    kept.collect()
}

/// The lines from the first to the last token of a piece of source.
pub(crate) fn lines(spanned: &impl syn::spanned::Spanned) -> usize {
    let span = spanned.span();
    span.end().line - span.start().line + 1
}

/// Whether only tests compile what has these attributes.
fn only_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = match &attribute.meta {
            syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string(),
            meta => return meta.path().is_ident("test"),
        };
        let mut words = condition.split(|c: char| !c.is_alphanumeric() && c != '_');
        !condition.contains("not") && words.any(|word| word == "test")
    })
}

/// The attributes of an item.
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}
