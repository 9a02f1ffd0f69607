//! Variables of adapters (`[variables]` of an experiment): accepted values, and cells of servers that lack a variable.
//!
//! ```text
//! point: cache=on  ──> server with the variable: cell cache=on     server without it: one cell, without `cache`
//! point: cache=off ──>                           cell cache=off                       the same cell: not visited again
//! ```

use std::collections::BTreeMap;

use experiment::{Experiment, FileError, Point};

use crate::adapter::{Adapter, Variable};

/// Checks the values that an experiment gives to the variables of its servers.
///
/// # Errors
/// The error names the place of the first value that an adapter does not accept.
pub(crate) fn check(experiment: &Experiment, adapters: &[Adapter]) -> Result<(), FileError> {
    for point in &experiment.points {
        for adapter in adapters {
            for (name, value) in &point.settings.variables {
                if let Some(why) = adapter.refuses(name, &value.0) {
                    return Err(experiment.bad(point, &format!("variables.{name}"), why));
                }
            }
        }
    }
    Ok(())
}

/// Returns the values that a point gives to variables.
pub(crate) fn given(point: &Point) -> BTreeMap<String, String> {
    point.settings.variables.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect()
}

/// Returns the settings of a server's cell at a point: the varied ones, without variables that its adapter lacks.
pub(crate) fn cell_settings(adapter: &Adapter, point: &Point) -> BTreeMap<String, String> {
    let mut settings = point.varied.clone();
    settings.retain(|name, _| {
        !point.settings.variables.contains_key(name) || adapter.knows_variable(name)
    });
    settings
}

/// Returns whether the server has no cell of its own at point `index`: the point is for other servers, or an earlier one of `points`
/// gives it the same cell.
pub(crate) fn is_left_out(adapter: &Adapter, points: &[Point], index: usize) -> bool {
    let (settings, point) = (cell_settings(adapter, &points[index]), &points[index]);
    let repeats = |earlier: &Point| {
        earlier.settings.measures(&adapter.name) && cell_settings(adapter, earlier) == settings
    };
    let is_repeated = || settings != point.varied && points[..index].iter().any(repeats);
    !point.settings.measures(&adapter.name) || is_repeated()
}

/// Returns whether the server has programs in the kernel, attached to its devices, with the variables of a point.
pub(crate) fn has_programs(adapter: &Adapter, point: &Point) -> bool {
    let chosen: BTreeMap<String, String> =
        point.settings.variables.iter().map(|(k, v)| (k.clone(), v.0.clone())).collect();
    adapter.chain().any(|part| {
        let values = part.with_defaults(&chosen);
        let with = |(name, variable): (&String, &Variable)| {
            values.get(name).is_some_and(|value| variable.programs.contains(value))
        };
        part.variables.iter().any(with)
    })
}

/// Returns the notes on a server's cell at a point: variables that its adapter lacks, shortcomings of their values.
pub(crate) fn notes(adapter: &Adapter, point: &Point) -> Vec<String> {
    let mut out = Vec::new();
    for (name, value) in &point.settings.variables {
        if point.varied.contains_key(name) && !adapter.knows_variable(name) {
            out.push(format!("its adapter has no variable `{name}`: measured once, as it is"));
        }
        let variables = adapter.chain().filter_map(|part| part.variables.get(name));
        out.extend(variables.filter_map(|variable| variable.notes.get(&value.0).cloned()));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::adapter::tests::GOOD;

    fn experiment(values: &str) -> Experiment {
        let text = format!(
            "name = \"x\"\ntitle = \"X\"\nrole = \"dns64\"\nservers = [\"x\"]\nmethod = \"closed\"\n\
             [matrix]\nvariables.cache = [{values}]\n"
        );
        Experiment::parse(&text, Path::new("x.toml")).expect("an experiment")
    }

    fn adapter(variables: &str) -> Adapter {
        let text = GOOD.replace("[start]", &format!("{variables}\n[start]"));
        Adapter::parse(&text, Path::new("x.toml")).expect("an adapter")
    }

    const CACHE: &str =
        "[variables.cache]\nvalues = [\"on\", \"off\"]\nnotes.off = \"it stays on\"";

    #[test]
    fn values_are_checked_with_their_place() {
        let known = [adapter(CACHE)];
        assert!(check(&experiment("\"on\", \"off\""), &known).is_ok());
        let error = check(&experiment("\"on\", 64"), &known).expect_err("64").to_string();
        assert_eq!(error, "x.toml:7:26: `64`: `cache` of X is on or off");
        assert!(check(&experiment("64"), &[adapter("")]).is_ok(), "nobody says what it may be");
    }

    #[test]
    fn a_server_without_the_variable_has_one_cell() {
        let experiment = experiment("\"on\", \"off\"");
        let points = &experiment.points;
        let (with, without) = (adapter(CACHE), adapter(""));
        let cells = |adapter: &Adapter| -> Vec<(usize, bool)> {
            let of = |i: usize| {
                (cell_settings(adapter, &points[i]).len(), is_left_out(adapter, points, i))
            };
            (0..2).map(of).collect()
        };
        assert_eq!(cells(&with), [(1, false), (1, false)]);
        assert_eq!(cells(&without), [(0, false), (0, true)]);
        assert_eq!(notes(&with, &points[0]), [""; 0]);
        assert_eq!(notes(&with, &points[1]), ["it stays on"]);
        assert_eq!(notes(&without, &points[0]).len(), 1);
    }

    #[test]
    fn a_point_may_be_for_some_servers_only() {
        let text = "name = \"x\"\ntitle = \"X\"\nrole = \"dns64\"\nservers = [\"x\", \"y\"]\nmethod = \"closed\"\n\
                    [[matrix.way]]\nname = \"usual\"\n[[matrix.way]]\nname = \"programs\"\nonly = [\"x\"]\n\
                    variables.kernel = \"all\"\n";
        let parse = |text: &str| Experiment::parse(text, Path::new("x.toml"));
        let points = parse(text).expect("an experiment").points;
        const KERNEL: &str =
            "[variables.kernel]\nvalues = [\"off\", \"all\"]\nprograms = [\"all\"]";
        let x = adapter(KERNEL);
        let y = Adapter { name: "y".to_owned(), ..adapter("") };
        let left_out = |adapter: &Adapter| [0, 1].map(|point| is_left_out(adapter, &points, point));
        assert_eq!((left_out(&x), left_out(&y)), ([false, false], [false, true]));
        assert_eq!([0, 1].map(|point| has_programs(&x, &points[point])), [false, true]);
        assert!(!has_programs(&y, &points[1]));
        let error = parse(&text.replace("[\"x\"]", "[\"z\"]")).expect_err("unknown").to_string();
        assert_eq!(error, "x.toml:10:8: `servers` does not name z");
    }

    #[test]
    fn a_value_ends_with_a_version() {
        let adapter = adapter(&format!("{CACHE}\nuntil.off = \"4.8\""));
        let lacks = |value, version| adapter.lacks("cache", value, version);
        let why = lacks("off", Some("4.10.1")).expect("a later version");
        assert_eq!(why, "X 4.10.1 has no `cache` off: versions before 4.8 have");
        for (value, version) in [("off", Some("4.6.1")), ("on", Some("4.10.1")), ("off", None)] {
            assert_eq!(lacks(value, version), None, "{value} {version:?}");
        }
    }

    #[test]
    fn a_variable_needs_values_and_notes_on_them() {
        for (wrong, why) in [
            (CACHE.replace("\"on\", \"off\"", ""), "needs at least one value"),
            (CACHE.replace("notes.off", "notes.of"), "a note on `of`"),
            (format!("{CACHE}\nuntil.of = \"4.8\""), "a version for `of`"),
            (format!("{CACHE}\nprograms = [\"of\"]"), "has programs with `of`"),
        ] {
            let text = GOOD.replace("[start]", &format!("{wrong}\n[start]"));
            let error = Adapter::parse(&text, Path::new("x.toml")).expect_err("wrong").to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
