//! The short form of RFC 8219's experiment for tests of who runs its trials: one rate, which a trial decides, and one
//! search in a cell.

use std::path::{Path, PathBuf};

const QUICK: &str = "[quick]
repeats = 1

[quick.search]
rule = \"mlrsearch\"
goal = \"loss < 0.5%\"
start = \"1k\"
max = \"1k\"
resolution = 0.1
duration = \"1s\"
duration-sum = \"1s\"
";

/// Writes the experiment into a folder; a debug build can do its rate on a small machine.
pub(crate) fn write(dir: &Path) -> PathBuf {
    let file = dir.join("dns64-rfc8219.toml");
    let text = lab::built_in::experiment("dns64-rfc8219").expect("an experiment");
    let (full, _) = text.split_once("[quick]").expect("it has a short form");
    let text = format!("{full}{QUICK}");
    std::fs::write(&file, text).expect("writes");
    file
}
