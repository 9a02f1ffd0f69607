//! Lists what is built in: every TOML file of `servers/`, `experiments/` and `builds/`, as name and text, sorted by name. The folders are
//! at the top of the repository; links beside this file lead to them, so that they are in the packed crate.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let variable = |name| env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let (manifest, out) = (variable("CARGO_MANIFEST_DIR")?, variable("OUT_DIR")?);
    for folder in ["servers", "experiments", "builds"] {
        let path = manifest.join(folder).canonicalize()?;
        // A file that is added, removed or changed changes the list.
        println!("cargo:rerun-if-changed={}", path.display());
        fs::write(out.join(folder).with_extension("rs"), list(&path)?)?;
    }
    Ok(())
}

/// The files of `folder` as a Rust slice of names without ending and texts.
fn list(folder: &Path) -> io::Result<String> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort_by_key(|path| path.file_stem().map(ToOwned::to_owned));
    let line = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default();
        format!("({name:?}, include_str!({path:?})),\n")
    };
    Ok(format!("&[\n{}]\n", paths.iter().map(line).collect::<String>()))
}
