//! Names of cells and of figures.

use std::collections::BTreeMap;
use std::fmt::Write;

use record::{CellRecord, Compared, Skipped};

use super::table::{by_key, varied};
use super::thousands;

/// Returns the full name of a cell: server, version, every setting.
pub fn cell_name(cell: &CellRecord) -> String {
    record::cell_name(&cell.server, cell.server_version.as_deref(), &cell.settings)
}

/// Returns the name of a cell within its run: the server and the settings that are in `keys`, in the order of the
/// run.
pub(crate) fn short_name<'a>(cell: &CellRecord, keys: impl Iterator<Item = &'a String>) -> String {
    record::cell_name(&cell.server, None, chosen(cell, keys))
}

/// Returns the name of a cell with the server's version.
pub(crate) fn long_name<'a>(cell: &CellRecord, keys: impl Iterator<Item = &'a String>) -> String {
    record::cell_name(&cell.server, cell.server_version.as_deref(), chosen(cell, keys))
}

/// Returns the settings of a cell that are in `keys`, in the order of `keys`.
fn chosen<'a>(
    cell: &CellRecord,
    keys: impl Iterator<Item = &'a String>,
) -> impl Iterator<Item = (&String, &String)> {
    keys.filter_map(|key| cell.settings.get_key_value(key))
}

/// Returns a server and its version.
pub(crate) fn server_name(cell: &CellRecord) -> String {
    record::cell_name(&cell.server, cell.server_version.as_deref(), &BTreeMap::new())
}

/// Returns the number of repeats of a cell, and of void ones.
pub(crate) fn repeats(cell: &CellRecord) -> String {
    let (void, made) = (cell.void_repeats.len(), cell.repeats_made());
    match (cell.repeats, void) {
        (repeats, 0) => repeats.to_string(),
        (0, void) => format!("void {void} of {made}"),
        (repeats, void) => format!("{repeats}, void {void} of {made}"),
    }
}

/// Returns the lines below a table about the void repeats and rates of a cell.
pub(crate) fn void_notes(cell: &CellRecord) -> Vec<String> {
    let of = cell.repeats_made();
    let mut notes: Vec<String> = cell
        .void_repeats
        .iter()
        .map(|void| format!("repeat {} of {of} void: {}", void.repeat + 1, void.why))
        .collect();
    let figure = cell.figures.get("highest_answered").filter(|figure| !figure.values.is_empty());
    if figure.is_some() {
        for repeat in (0..of).filter(|repeat| cell.has_repeat(*repeat)) {
            let rates = cell.void_rates(repeat);
            if !rates.is_empty() {
                let rates: Vec<String> = rates.into_iter().map(thousands).collect();
                notes.push(format!(
                    "highest answered: the rates {} were void in repeat {} and show nothing about the server",
                    rates.join(", "),
                    repeat + 1
                ));
            }
        }
    }
    notes
}

/// Returns the name of a skipped server, with its skipped settings.
pub fn skipped_name(skipped: &Skipped) -> String {
    record::cell_name(&skipped.server, None, &skipped.settings)
}

/// Returns the name of a figure that two runs share.
pub(crate) fn compared_name(figure: &Compared) -> String {
    let cell = record::cell_name(&figure.server, None, &figure.settings);
    format!("{cell} {}", figure.figure)
}

/// Returns settings alone, as `key=value` separated by spaces.
pub fn setting_words(settings: &BTreeMap<String, String>) -> String {
    record::cell_name("", None, settings).trim_start().to_owned()
}

/// Returns the labels of a cell for Prometheus: `server`, and `setting_KEY` for each setting. A label's name may
/// contain letters, digits and underscores; other characters of a key become underscores.
pub fn labels(cell: &CellRecord) -> Vec<(String, String)> {
    let word = |key: &str| {
        key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect::<String>()
    };
    let settings =
        cell.settings.iter().map(|(key, value)| (format!("setting_{}", word(key)), value.clone()));
    std::iter::once(("server".to_owned(), cell.server.clone())).chain(settings).collect()
}

/// Returns a figure's name in words: `zone_load` is "zone load".
pub fn figure_name(name: &str) -> String {
    match name {
        "updates" => return "updates a second".to_owned(),
        "updates_done" => return "updates done a second".to_owned(),
        "disk_syncs" => return "syncs a second of the disk".to_owned(),
        _ => {}
    }
    name.replace(['_', '.'], " ")
        .replace("axfr", "AXFR")
        .replace("ixfr", "IXFR")
        .replace("tcp", "TCP")
}

/// Returns the cores of each role of an experiment about updates, as its first trial has them;
/// `None` for other experiments.
pub(crate) fn cores(cells: &[&CellRecord]) -> Option<String> {
    let trials = cells.iter().filter(|cell| !cell.secondaries.is_empty());
    let cpu = &trials.flat_map(|cell| &cell.trials).next()?.trial.cpu;
    let of = |(role, cpu): (&String, &record::Cpu)| {
        format!("{role} {}", record::testbed::cpu_list(&cpu.cpus))
    };
    let roles: Vec<String> = cpu.iter().filter(|(_, cpu)| !cpu.cpus.is_empty()).map(of).collect();
    (!roles.is_empty()).then(|| roles.join(", "))
}

/// Returns a figure's name as the heading of a column, or as a title.
pub(crate) fn figure_title(name: &str) -> String {
    if name == "qps" {
        return "Queries answered a second".to_owned();
    }
    let words = figure_name(name);
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |c| c.to_uppercase().chain(letters).collect())
}

/// Writes the notes on cells; a note on several cells appears once.
pub(crate) fn notes_of_cells(
    out: &mut String,
    results: &[&CellRecord],
    notes: impl Fn(&CellRecord) -> Vec<String>,
) {
    let varied = varied(results.iter().copied());
    let names: Vec<String> = results.iter().map(|r| short_name(r, varied.iter())).collect();
    let each = results.iter().zip(&names);
    let said = each.flat_map(|(r, name)| notes(r).into_iter().map(|note| (note, name.as_str())));
    for (note, names) in by_key(said) {
        let all = names.len() == results.len() && names.len() > 1;
        let whom = if all { "all".to_owned() } else { names.join(", ") };
        let _ = writeln!(out, "{whom}: {note}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_one_spelling() {
        let settings = [("cores".to_owned(), "2".to_owned()), ("zone".into(), "/16".into())].into();
        let mut cell = CellRecord::new("nsd", settings, "load");
        assert_eq!(cell_name(&cell), "nsd cores=2 zone=/16");
        cell.server_version = Some("4.6.1".into());
        assert_eq!(cell_name(&cell), "nsd 4.6.1 cores=2 zone=/16");
        assert_eq!(server_name(&cell), "nsd 4.6.1");
        let keys = ["zone".to_owned(), "hash".to_owned()];
        assert_eq!(short_name(&cell, keys.iter()), "nsd zone=/16");
        assert_eq!(long_name(&cell, keys.iter()), "nsd 4.6.1 zone=/16");
        assert_eq!(setting_words(&cell.settings), "cores=2 zone=/16");
        let skipped = Skipped {
            server: cell.server.clone(),
            settings: cell.settings.clone(),
            why: String::new(),
        };
        assert_eq!(skipped_name(&skipped), "nsd cores=2 zone=/16");
    }

    #[test]
    fn labels_hold_letters_digits_and_underscores() {
        let cell = CellRecord::new("nsd", [("template.x-y".into(), "a b".into())].into(), "load");
        let wanted = [("server", "nsd"), ("setting_template_x_y", "a b")];
        assert_eq!(labels(&cell), wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn figures_are_words() {
        let table = [
            ("qps", "qps", "Queries answered a second"),
            ("zone_load", "zone load", "Zone load"),
            ("latency.p50", "latency p50", "Latency p50"),
            ("ixfr_octets", "IXFR octets", "IXFR octets"),
        ];
        for (name, words, title) in table {
            assert_eq!((figure_name(name).as_str(), figure_title(name).as_str()), (words, title));
        }
    }
}
