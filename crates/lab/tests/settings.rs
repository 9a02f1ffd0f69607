//! The table of equal settings in docs/servers.md against the adapters.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Heads of the table's columns, as the page must have them.
const COLUMNS: [&str; 12] = [
    "server",
    "threads",
    "cache on",
    "cache off",
    "buffers",
    "validation",
    "cookies",
    "minimal responses",
    "logging",
    "rate limits",
    "upstream connections",
    "TCP connections",
];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The cells of a line of a table; `\\|` within a cell is a bar.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|').trim_end_matches('|');
    let cells = line.replace("\\|", "\u{0}");
    cells.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
}

/// The parts of a text between backticks.
fn literals(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_table_of_equal_settings_is_that_of_the_adapters() {
    let page = read("docs/servers.md");
    let (_, section) = page.split_once("## Equal settings").expect("the section");
    let mut rows = section.lines().skip_while(|line| !line.starts_with('|'));
    assert_eq!(cells(rows.next().expect("a head")), COLUMNS);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers");
    let mut adapters: BTreeSet<String> = fs::read_dir(folder)
        .expect("the adapters")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    let mut compared = 0;
    for row in rows.skip(1).take_while(|line| line.starts_with('|')).map(cells) {
        assert_eq!(row.len(), COLUMNS.len(), "{row:?}");
        let name = literals(&row[0])[0].to_owned();
        assert!(adapters.remove(&name), "{name} has no adapter, or two rows");
        let adapter = read(&format!("servers/{name}.toml"));
        for (column, cell) in COLUMNS.iter().zip(&row).skip(1) {
            assert!(!cell.is_empty(), "{name}, {column}: empty");
            for literal in literals(cell) {
                assert!(
                    adapter.contains(literal),
                    "{name}, {column}: no `{literal}` in the adapter"
                );
                compared += 1;
            }
        }
    }
    assert!(adapters.is_empty(), "without a row: {adapters:?}");
    assert!(compared > 60, "{compared}");
}

#[test]
fn cells_and_literals_are_read() {
    assert_eq!(cells(r"| `a` | x `b \| c;` |"), ["`a`", "x `b | c;`"]);
    assert_eq!(literals("x `b | c;` and `d`"), ["b | c;", "d"]);
}
