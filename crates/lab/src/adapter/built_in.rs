//! Built-in servers, experiments and recipes. The build script lists the files of `servers/`, `experiments/` and `builds/`: a file
//! that is added there is built in.

/// Name and text of each adapter, sorted by name.
pub static SERVERS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/servers.rs"));

/// Name and text of each experiment, sorted by name.
pub static EXPERIMENTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// Name and text of each recipe, sorted by name.
pub static RECIPES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/builds.rs"));

/// Returns the text of the built-in experiment `name`.
pub fn experiment(name: &str) -> Option<&'static str> {
    EXPERIMENTS.iter().find(|(built_in, _)| *built_in == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ::experiment::{Experiment, estimate, servers_at};
    use record::Form;

    use super::*;
    use crate::runs::run::{RunOptions, check};

    /// Returns name and parsed form of each experiment.
    fn experiments() -> impl Iterator<Item = (&'static str, Experiment)> {
        EXPERIMENTS
            .iter()
            .map(|(name, text)| (*name, Experiment::parse(text, Path::new(name)).unwrap()))
    }

    #[test]
    fn each_is_valid_under_its_name_in_all_forms() {
        for (name, experiment) in experiments() {
            assert_eq!(experiment.common().name, name);
            for form in [Form::Full, Form::Medium, Form::Quick] {
                let Ok(form) = experiment.clone().in_form(form) else { continue };
                check(&form, &RunOptions::default()).expect(name);
            }
        }
    }

    #[test]
    fn the_shorter_forms_end_within_minutes() {
        for (name, experiment) in experiments() {
            let bound = if name == "client-maximum" { 6.0 } else { 12.0 };
            for (form, bound) in [(Form::Quick, bound), (Form::Medium, 15.0)] {
                let Ok(form) = experiment.clone().in_form(form) else { continue };
                let time = estimate(&form, |point| servers_at(&form, point), true);
                let minutes = time.as_secs_f64() / 60.0;
                assert!(minutes < bound, "{name} takes {minutes:.1} minutes");
            }
        }
    }

    #[test]
    fn points_for_other_servers_have_no_cell() {
        let (_, experiment) = experiments().find(|(name, _)| *name == "dns64-rfc8219").unwrap();
        let options = RunOptions { only: vec!["unbound".to_owned()], ..RunOptions::default() };
        let checked = check(&experiment, &options).expect("it is valid");
        let points = || experiment.points.iter().enumerate();
        let others = points().filter(|(_, point)| !point.settings.measures("unbound"));
        let cells: Vec<usize> = others.map(|(number, _)| checked.servers_at(number)).collect();
        assert!(!cells.is_empty() && cells.iter().all(|cells| *cells == 0), "{cells:?}");
        assert!(points().all(|(number, _)| checked.servers_at(number) <= 1));
    }

    #[test]
    fn every_file_is_built_in() {
        for (folder, list) in
            [("servers", SERVERS), ("experiments", EXPERIMENTS), ("builds", RECIPES)]
        {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
            let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            let mut names: Vec<String> = entries
                .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
                .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
                .collect();
            names.sort();
            assert!(names.len() > 5, "{folder}: {names:?}");
            assert_eq!(list.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
        }
        assert!(experiment("dns64-rfc8219").is_some_and(|text| text.contains("[search]")));
        assert!(experiment("dns64").is_none());
    }
}
