//! Tables of text, and the columns of a table of cells.

use std::collections::BTreeSet;
use std::fmt::Write;

use record::CellRecord;

/// Alignment of a text within its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Left-aligned, as for words.
    Left,
    /// Right-aligned, as for numbers.
    Right,
}

/// Aligns lines of text in columns, each as wide as its widest text, separated by two spaces. Columns beyond `sides`
/// use the last alignment of `sides`.
pub fn align<R: AsRef<[String]>>(rows: &[R], sides: &[Align]) -> String {
    let rows = || rows.iter().map(AsRef::as_ref);
    let columns = rows().map(<[String]>::len).max().unwrap_or(0);
    let width = |i: usize| {
        rows().filter_map(|row| row.get(i)).map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows() {
        let texts = row.iter().zip(&widths).enumerate().map(|(i, (text, &width))| {
            match sides.get(i).or(sides.last()) {
                Some(Align::Right) => format!("{text:>width$}"),
                _ => format!("{text:<width$}"),
            }
        });
        let _ = writeln!(out, "{}", texts.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}

/// Returns a line, cut between words if it has more than `most` characters.
pub(crate) fn shortened(line: &str, most: usize) -> String {
    if line.chars().count() <= most {
        return line.to_owned();
    }
    let cut: String = line.chars().take(most - 1).collect();
    format!("{} …", cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words))
}

/// Returns the alignment of a table with `words` columns of words before its columns of numbers.
pub(crate) fn words_then_numbers(words: usize) -> Vec<Align> {
    let mut sides = vec![Align::Left; words];
    sides.push(Align::Right);
    sides
}

/// Returns the values in their order, each once.
pub(crate) fn each_once<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// Returns the values in ascending order, each once.
pub(crate) fn sorted_once<T: Ord>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    all.into_iter().collect::<BTreeSet<T>>().into_iter().collect()
}

/// Groups values by their keys, in the order of their first occurrence.
pub(crate) fn by_key<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Returns the settings that differ between cells, sorted; a setting that only some cells have differs too.
pub(crate) fn varied<'a>(cells: impl Iterator<Item = &'a CellRecord> + Clone) -> Vec<String> {
    let keys = sorted_once(cells.clone().flat_map(|cell| cell.settings.keys()));
    let differs = |key: &&String| {
        let mut values = cells.clone().map(|cell| cell.settings.get(*key));
        let first = values.next().flatten();
        values.any(|value| value != first)
    };
    keys.into_iter().filter(differs).cloned().collect()
}

/// Figures that come first, in this order.
const LEADING: [&str; 30] = [
    "replies",
    "timeouts",
    "errors",
    "malformed",
    "over_tcp",
    "alone",
    "qps",
    "updates",
    "syncs_per_update",
    "writes_per_update",
    "disk_syncs",
    "gone_after_SIGKILL",
    "acknowledged_but_not_done",
    "not_acknowledged",
    "looked_up_after_SIGKILL",
    "latency_p50",
    "latency_p99",
    "updates_done",
    "lag_p50",
    "lag_p99",
    "lag_watched",
    "lag_unseen",
    "goodput_before",
    "goodput_during",
    "goodput_after",
    "recovery",
    "not_recovered_within",
    "latency_p99_before",
    "latency_p99_during",
    "latency_p99_after",
];

/// Returns the names of figures, each once: first as in [`LEADING`], then the others in
/// alphabetical
/// order.
pub(crate) fn figure_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let rank =
        |name: &str| LEADING.iter().position(|first| *first == name).unwrap_or(LEADING.len());
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_unstable_by_key(|name| (rank(name), *name));
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_text() {
        let rows = [["a", "1"], ["bbb", "22"], ["ä", "x"]].map(|row| row.map(str::to_owned));
        assert_eq!(align(&rows, &words_then_numbers(1)), "a     1\nbbb  22\nä     x\n");
        assert_eq!(align(&rows, &[Align::Left]), "a    1\nbbb  22\nä    x\n");
        assert_eq!(align::<[String; 2]>(&[], &[]), "");
    }

    #[test]
    fn what_varies() {
        let cell = |settings: &[(&str, &str)]| {
            let settings =
                settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            CellRecord::new("nsd", settings, "load")
        };
        let cells = [
            cell(&[("cores", "1"), ("role", "auth"), ("late", "x")]),
            cell(&[("cores", "2"), ("role", "auth")]),
        ];
        assert_eq!(varied(cells.iter()), ["cores", "late"]);
        assert_eq!(varied(cells[..1].iter()), [""; 0]);
    }
}
