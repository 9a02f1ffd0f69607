//! Variables of adapters (`[variables]` of an experiment): accepted values, and cells of servers that lack a variable.
//!
//! ```text
//! point: cache=on  ──> server with the variable: cell cache=on     server without it: one cell, without `cache`
//! point: cache=off ──>                           cell cache=off                       the same cell: not visited again
//! ```

use std::collections::BTreeMap;

use experiment::settings::Scalar;
use experiment::{Experiment, FileError, Point, Settings};
use record::AttackKind;

use crate::adapter::{Adapter, Variable};

/// Checks the values that an experiment sets for the variables of its servers.
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

/// Variable of templates with the path of the root hints, for a resolver that starts at the root.
pub(crate) const ROOT_HINTS: &str = "root_hints";

/// Variables of templates of servers that follow delegations, and of those that validate the zone of forged signatures.
const ITERATE: &str = "iterate";
const VALIDATE: &str = "validate";

/// Returns why a version of a server cannot be measured at a point: it lacks a variable, cannot
/// start at the root, or does not do the attacked work.
pub(crate) fn lacking(adapter: &Adapter, point: &Point, version: Option<&str>) -> Option<String> {
    let lacks = |(name, value): (&String, &Scalar)| adapter.lacks(name, &value.0, version);
    let variable = point.settings.variables.iter().find_map(lacks);
    let setting = || no_root(adapter, point).or_else(|| other_prefix(adapter, point));
    variable.or_else(setting).or_else(|| not_attacked(adapter, point))
}

/// Returns why a server cannot synthesise the addresses of a point.
fn other_prefix(adapter: &Adapter, point: &Point) -> Option<String> {
    let workload = &point.settings.workload;
    let only = adapter.chain().find_map(|part| Some((part, part.only_pref64?)));
    let (part, pref64) = only.filter(|_| workload.qtype == "AAAA")?;
    (workload.pref64.parse() != Ok(pref64)).then(|| {
        format!("{} synthesises with {pref64} only: set `pref64 = \"{pref64}\"`", part.title)
    })
}

/// Returns why the attack of a drill cannot harm a server, if the server leaves the attacked work
/// to others: a goodput of 100 % would be meaningless.
fn not_attacked(adapter: &Adapter, point: &Point) -> Option<String> {
    let (variable, does) = match point.settings.drill.as_ref()?.attack {
        AttackKind::Delegations => (ITERATE, "follow delegations"),
        AttackKind::Signatures => (VALIDATE, "validate"),
        _ => return None,
    };
    (!adapter.knows_variable(variable)).then(|| {
        format!(
            "not applicable: {} forwards and does not {does}; its adapter has no `{variable}`",
            adapter.title
        )
    })
}

/// Returns why a server cannot start at the root of an Internet in a box, if a point has one.
fn no_root(adapter: &Adapter, point: &Point) -> Option<String> {
    let can = adapter.remote.is_none() && adapter.knows_variable(ROOT_HINTS);
    (point.settings.workload.internet.is_some() && !can).then(|| {
        format!(
            "{} does not start at the root of the lab: its adapter has no `{ROOT_HINTS}`",
            adapter.title
        )
    })
}

/// Returns the values of variables at a point.
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

/// Returns whether a setting differs between the points at which a server is measured, except
/// points where it has programs in the kernel.
pub(crate) fn varies<T: PartialEq>(
    adapter: &Adapter,
    points: &[Point],
    setting: impl Fn(&Settings) -> T,
) -> bool {
    let measures = |point: &&Point| point.settings.measures(&adapter.name);
    let own = points.iter().filter(measures).filter(|point| !has_programs(adapter, point));
    let mut values = own.map(|point| setting(&point.settings));
    let first = values.next();
    values.any(|value| Some(value) != first)
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
    let wrong = adapter.chain().filter_map(|part| part.wrong_addresses.as_deref());
    let mut out: Vec<String> =
        wrong.map(|why| format!("any AAAA record counts as valid: {why}")).collect();
    for (name, value) in &point.settings.variables {
        if point.varied.contains_key(name) && !adapter.knows_variable(name) {
            out.push(format!("the server's adapter has no variable `{name}`: one measurement"));
        }
        let variables = adapter.chain().filter_map(|part| part.variables.get(name));
        out.extend(variables.filter_map(|variable| variable.notes.get(&value.0).cloned()));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use experiment::file::Role;

    use super::*;
    use crate::adapter::built_in::SERVERS;
    use crate::adapter::template::{Setting, render};
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
    fn what_is_varied_for_others_is_not_varied() {
        let catalogue = crate::adapter::catalogue::Catalogue::load(None).expect("adapters");
        let text = crate::adapter::built_in::experiment("dns64-rfc8219").expect("an experiment");
        let links = text.replace("variables.cache = \"off\"", "host.link = \"steered\"");
        for (text, varied) in [(text.to_owned(), false), (links, true)] {
            let experiment = Experiment::parse(&text, Path::new("x.toml")).expect("an experiment");
            // Other links are for dns64d with programs in the kernel.
            for name in ["unbound", "dns64d"] {
                let adapter = catalogue.get(name).expect("an adapter");
                assert_eq!(varies(adapter, &experiment.points, |s| s.host.link), varied, "{name}");
            }
        }
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
    fn resolvers_start_at_the_root_and_validate_if_it_is_signed() {
        for name in ["unbound", "bind9", "knot-resolver", "pdns-recursor"] {
            let text = SERVERS.iter().find(|(built_in, _)| *built_in == name).expect(name).1;
            let adapter = Adapter::parse(text, Path::new(name)).expect(name);
            for ds in ["", "12345 13 2 00ff"] {
                let chosen =
                    [(ROOT_HINTS, "/box/hints"), ("root_anchor", "/box/anchor"), ("root_ds", ds)];
                let chosen = chosen.map(|(name, value)| (name.to_owned(), value.to_owned()));
                let variables = adapter.with_defaults(&chosen.into());
                let sample = Setting::sample(Role::Resolver, false, "9999", true);
                let setting = Setting { variables, ..sample };
                let rendered =
                    adapter.files.iter().map(|file| render(file.text.get_ref(), &setting));
                let text = rendered.collect::<Result<String, _>>().expect(name);
                assert!(text.contains("/box/hints"), "{name}: {text}");
                assert!(!text.contains("dns64perf.test"), "{name} forwards: {text}");
                let validates = text.contains("00ff") || text.contains("/box/anchor");
                assert_eq!(validates, !ds.is_empty(), "{name}: {text}");
            }
        }
    }

    #[test]
    fn a_server_without_root_hints_has_no_cell_with_an_internet() {
        let text = "name = \"x\"\ntitle = \"X\"\nrole = \"resolver\"\nservers = [\"x\"]\nmethod = \"closed\"\n";
        let parse = |text: &str| {
            let mut experiment = Experiment::parse(text, Path::new("x.toml")).expect("valid");
            experiment.points.remove(0)
        };
        let usual = parse(text);
        let internet = parse(&format!("{text}[workload.internet]\nhit-rate = 0.25\n"));
        assert_eq!(lacking(&adapter(""), &usual, None), None);
        let why = lacking(&adapter(""), &internet, None).expect("it forwards");
        assert!(why.contains("X does not start at the root of the lab"), "{why}");
        let hints = "[variables.root_hints]\nvalues = [\"\"]";
        assert_eq!(lacking(&adapter(hints), &internet, None), None);
    }

    #[test]
    fn servers_that_compute_their_answers_load_no_zone() {
        let catalogue = crate::adapter::catalogue::Catalogue::load(None).expect("adapters");
        let loads = |name: &&str| catalogue.get(name).expect("an adapter").loads_zones();
        let servers = ["authdns", "fakedns", "bind9", "nsd", "knot", "yadifa", "pdns", "unbound"];
        let loading: Vec<&str> = servers.into_iter().filter(loads).collect();
        assert_eq!(loading, ["bind9", "nsd", "knot", "yadifa", "pdns"]);
    }

    #[test]
    fn a_server_with_a_prefix_of_its_own_has_no_cell_with_another() {
        let text = "name = \"x\"\ntitle = \"X\"\nrole = \"authoritative\"\nservers = [\"x\"]\nmethod = \"closed\"\n[workload]\n";
        let lacks = |workload: &str| {
            let experiment = Experiment::parse(&format!("{text}{workload}"), Path::new("x.toml"));
            let point = experiment.expect("valid").points.remove(0);
            lacking(&adapter("only-pref64 = \"2001:db8::/96\""), &point, None)
        };
        let why = lacks("type = \"AAAA\"").expect("another prefix");
        assert_eq!(why, "X synthesises with 2001:db8::/96 only: set `pref64 = \"2001:db8::/96\"`");
        assert_eq!(lacks("pref64 = \"2001:DB8:0::/96\""), None);
        assert_eq!(lacks("type = \"A\""), None);
    }

    #[test]
    fn an_attack_on_what_a_server_leaves_to_others_is_not_applicable() {
        let catalogue = crate::adapter::catalogue::Catalogue::load(None).expect("adapters");
        let text = crate::adapter::built_in::experiment("drills").expect("an experiment");
        let mut experiment = Experiment::parse(text, Path::new("drills.toml")).expect("valid");
        experiment = experiment.in_form(record::Form::Quick).expect("it has one");
        let attacked = |attack: &str| -> Vec<&'static str> {
            let mut points = experiment.points.iter();
            let point = points.find(|point| point.varied["attack"] == attack).expect(attack);
            let servers = ["unbound", "bind9", "knot-resolver", "pdns-recursor", "dns64d"];
            let reached = |name: &&str| {
                lacking(catalogue.get(name).expect("an adapter"), point, None).is_none()
            };
            servers.into_iter().filter(reached).collect()
        };
        assert_eq!(attacked("delegations"), ["unbound", "bind9", "pdns-recursor"]);
        assert_eq!(attacked("signatures"), ["unbound", "bind9", "knot-resolver", "pdns-recursor"]);
        assert_eq!(attacked("idle").len(), 5);
    }

    #[test]
    fn a_value_ends_with_a_version() {
        let adapter = adapter(&format!("{CACHE}\nuntil.off = \"4.8\""));
        let lacks = |value, version| adapter.lacks("cache", value, version);
        let why = lacks("off", Some("4.10.1")).expect("a later version");
        assert_eq!(why, "X 4.10.1 does not support `cache` off: only versions before 4.8 do");
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
            (format!("{CACHE}\nprograms = [\"of\"]"), "lists programs for `of`"),
        ] {
            let text = GOOD.replace("[start]", &format!("{wrong}\n[start]"));
            let error = Adapter::parse(&text, Path::new("x.toml")).expect_err("wrong").to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
