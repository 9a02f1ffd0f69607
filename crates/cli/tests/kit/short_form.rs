//! The short form of RFC 8219's experiment for tests of who runs its trials: one rate, which a trial decides, and one
//! search in a cell.

use std::path::{Path, PathBuf};

/// Writes the experiment into a folder; a debug build can do its rate on a small machine.
pub(crate) fn write(dir: &Path) -> PathBuf {
    let file = dir.join("dns64-rfc8219.toml");
    let mut text = lab::built_in::experiment("dns64-rfc8219").expect("an experiment").to_owned();
    for (from, to) in [
        ("\"8k\"", "\"1k\""),
        ("\"10k\"", "\"1k\""),
        ("\"500k\"", "\"1k\""),
        ("[quick]\nrepeats = 2", "[quick]\nrepeats = 1"),
        ("[quick.search]\n", "[quick.search]\nduration-sum = \"1s\"\n"),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    std::fs::write(&file, text).expect("writes");
    file
}
