//! The experiments that come with the program.

/// Their names and texts, in the order of the list.
pub(crate) const BUILT_IN: [(&str, &str); 15] = [
    ("dns64-rfc8219", include_str!("../../../experiments/dns64-rfc8219.toml")),
    ("dns64-lockstep", include_str!("../../../experiments/dns64-lockstep.toml")),
    ("dns64-existing-aaaa", include_str!("../../../experiments/dns64-existing-aaaa.toml")),
    ("dns64-cached", include_str!("../../../experiments/dns64-cached.toml")),
    ("dns64-frequency", include_str!("../../../experiments/dns64-frequency.toml")),
    ("auth-scaling", include_str!("../../../experiments/auth-scaling.toml")),
    ("auth-memory", include_str!("../../../experiments/auth-memory.toml")),
    ("zone-size", include_str!("../../../experiments/zone-size.toml")),
    ("rss", include_str!("../../../experiments/rss.toml")),
    ("generators", include_str!("../../../experiments/generators.toml")),
    ("transport-clients", include_str!("../../../experiments/transport-clients.toml")),
    ("queries-per-connection", include_str!("../../../experiments/queries-per-connection.toml")),
    ("many-clients", include_str!("../../../experiments/many-clients.toml")),
    ("resumption", include_str!("../../../experiments/resumption.toml")),
    ("os-evaluation", include_str!("../../../experiments/os-evaluation.toml")),
];

/// The text of a built-in experiment.
pub(crate) fn text(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(built_in, _)| *built_in == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use experiment::{Experiment, estimate};
    use lab::RunOptions;

    use super::*;

    #[test]
    fn each_makes_sense_under_its_name_in_both_forms() {
        for (name, text) in BUILT_IN {
            let experiment = Experiment::parse(text, Path::new(name)).expect(name);
            assert_eq!(experiment.common().name, name);
            for form in [experiment.clone(), experiment.quick()] {
                lab::check(&form, &RunOptions::default()).expect(name);
            }
        }
    }

    #[test]
    fn the_short_forms_end_within_minutes() {
        for (name, text) in BUILT_IN {
            let quick = Experiment::parse(text, Path::new(name)).expect(name).quick();
            let servers = quick.common().servers.len();
            let minutes = estimate(&quick, servers, |_| true).as_secs_f64() / 60.0;
            assert!(minutes < 12.0, "{name} takes {minutes:.1} minutes");
        }
    }
}
