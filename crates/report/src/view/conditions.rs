//! Conditions that a figure depends on: the rule and goal of its search, the engine, the kind of link, the path. Figures of
//! different conditions are never compared, so every table names them.

use record::{CellRecord, EngineKind, Run};

/// A condition: its name, and the function that returns its value for a cell; `None` if it does not
/// apply.
type Condition = (&'static str, fn(&Run, &CellRecord) -> Option<String>);

/// Every condition, in the order of the headings.
const ALL: [Condition; 5] = [
    ("rule", |_, cell| (!cell.rule.is_empty()).then(|| cell.rule.clone())),
    ("goal", |_, cell| (!cell.goal.is_empty()).then(|| cell.goal.clone())),
    ("engine", |_, cell| {
        let all = || cell.trials.iter().map(|record| record.trial.conditions.engine);
        let kernel = all().flatten().find(|engine| *engine == EngineKind::Kernel);
        kernel.or(all().flatten().next()).map(|engine| engine.to_string())
    }),
    ("link", |run, cell| {
        let testbed = run.plan.testbed.as_ref();
        let link = cell.link().or(testbed.and_then(|t| t.link));
        known(cell, link.map(|link| link.to_string()))
    }),
    ("path", |run, cell| {
        let path = cell.path().or(run.plan.testbed.as_ref().and_then(|t| t.path));
        known(cell, path.map(|path| path.to_string()))
    }),
];

/// Value of a condition that is not known, which is named only beside others.
const NOT_KNOWN: &str = "not known";

/// Returns the words of a condition of the network; "not known" if the record has trials without it.
fn known(cell: &CellRecord, word: Option<String>) -> Option<String> {
    word.or_else(|| (!cell.trials.is_empty()).then(|| NOT_KNOWN.to_owned()))
}

/// Conditions of the cells of a table.
pub(crate) struct Conditions {
    /// Conditions that all cells share, in words; empty without any.
    pub(crate) heading: String,
    /// Names of the conditions that differ, for columns of the table.
    pub(crate) columns: Vec<&'static str>,
}

impl Conditions {
    /// Makes the conditions of some cells of `run`; a varied setting of the same name has a column already.
    pub(crate) fn of<'a>(
        run: &Run,
        cells: impl Iterator<Item = &'a CellRecord> + Clone,
        varied: &[String],
    ) -> Self {
        let (mut heading, mut columns) = (Vec::new(), Vec::new());
        for (name, value) in ALL {
            let mut values = cells.clone().filter_map(|cell| value(run, cell));
            let Some(first) = values.next() else { continue };
            let kernel = EngineKind::Kernel.to_string();
            if name == "engine" && first != kernel && values.clone().all(|value| value != kernel) {
                // Sockets and streams are known by the transport.
                continue;
            }
            if values.all(|value| value == first) {
                heading.extend((first != NOT_KNOWN).then(|| format!("{name} {first}")));
            } else if !varied.iter().any(|key| key == name) {
                columns.push(name);
            }
        }
        Conditions { heading: heading.join(", "), columns }
    }

    /// Returns the values of the columns for a cell of `run`.
    pub(crate) fn values(&self, run: &Run, cell: &CellRecord) -> Vec<String> {
        let value = |name: &&str| {
            let (_, value) = ALL.iter().find(|(known, _)| known == name).expect("a condition");
            value(run, cell).unwrap_or_else(|| "-".to_owned())
        };
        self.columns.iter().map(value).collect()
    }

    /// Returns the heading of a table: `title`, and the conditions in brackets.
    pub(crate) fn title(&self, title: &str) -> String {
        match self.heading.as_str() {
            "" => title.to_owned(),
            heading => format!("{title} ({heading})"),
        }
    }
}

/// Returns the conditions of a cell in words.
pub(crate) fn of_cell(run: &Run, cell: &CellRecord) -> String {
    let words = |(name, value): &Condition| {
        value(run, cell).filter(|value| value != NOT_KNOWN).map(|value| format!("{name} {value}"))
    };
    ALL.iter().filter_map(words).collect::<Vec<_>>().join(", ")
}

/// Returns link and path of all cells of a run in words, such as "link plain, path wire".
pub(crate) fn network(run: &Run) -> String {
    let words = |(name, value): &Condition| {
        let mut values: Vec<String> =
            run.results.iter().filter_map(|cell| value(run, cell)).collect();
        values.sort_unstable();
        values.dedup();
        let known = values.iter().any(|value| value != NOT_KNOWN);
        known.then(|| format!("{name} {}", values.join(" and ")))
    };
    ALL[3..].iter().filter_map(words).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn cell(rule: &str, goal: &str) -> CellRecord {
        let (rule, goal) = (rule.to_owned(), goal.to_owned());
        CellRecord { rule, goal, ..CellRecord::new("nsd", BTreeMap::new(), "search") }
    }

    #[test]
    fn what_is_common_is_in_the_heading_and_the_rest_in_columns() {
        let cells = [cell("mlrsearch", "zero-loss"), cell("rfc8219", "zero-loss")];
        let run = Run::default();
        let conditions = Conditions::of(&run, cells.iter(), &[]);
        assert_eq!(conditions.title("Capacity"), "Capacity (goal zero-loss)");
        assert_eq!(conditions.columns, ["rule"]);
        assert_eq!(conditions.values(&run, &cells[1]), ["rfc8219"]);
        assert!(Conditions::of(&run, cells.iter(), &["rule".to_owned()]).columns.is_empty());
        let one = Conditions::of(&run, cells[..1].iter(), &[]);
        assert_eq!(one.title("Capacity"), "Capacity (rule mlrsearch, goal zero-loss)");
        assert_eq!(Conditions::of(&run, [].iter(), &[]).title("Capacity"), "Capacity");
    }

    #[test]
    fn what_is_not_known_of_any_cell_is_not_named() {
        let mut one = cell("", "");
        let mut trial = crate::tests::trial();
        (trial.conditions.link, trial.conditions.path) = (None, Some(measure::Path::OneHost));
        one.trials.push(record::TrialRecord { repeat: 0, rate_qps: 1.0, trial });
        let run = Run { results: vec![one], ..Run::default() };
        let conditions = Conditions::of(&run, run.results.iter(), &[]);
        let wanted = "path one-host".to_owned();
        assert!(conditions.heading.ends_with(&wanted), "{}", conditions.heading);
        assert!(!conditions.heading.contains("link"), "{}", conditions.heading);
        assert_eq!(network(&run), wanted);
    }

    #[test]
    fn the_engine_is_named_where_one_is_the_kernel() {
        let run = Run::default();
        let measured = |engine| {
            let mut cell = cell("mlrsearch", "zero-loss");
            let mut trial = crate::tests::trial();
            trial.conditions.engine = Some(engine);
            cell.trials.push(record::TrialRecord { repeat: 0, rate_qps: 1.0, trial });
            cell
        };
        let [sockets, kernel] = [EngineKind::Sockets, EngineKind::Kernel].map(measured);
        let alone = Conditions::of(&run, [sockets.clone()].iter(), &[]);
        assert!(!alone.heading.contains("engine"), "{}", alone.heading);
        let alone = Conditions::of(&run, [kernel.clone()].iter(), &[]);
        assert!(alone.heading.contains("engine kernel"), "{}", alone.heading);
        let cells = [sockets, kernel];
        let both = Conditions::of(&run, cells.iter(), &[]);
        assert_eq!(both.columns, ["engine"]);
        assert_eq!(both.values(&run, &cells[0]), ["sockets"]);
        assert!(Conditions::of(&run, cells.iter(), &["engine".to_owned()]).columns.is_empty());
    }
}
