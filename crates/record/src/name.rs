//! The name of a cell, with one spelling for every table, page, message and export.

/// Returns the name of a cell: its server, the server's version if known, and each setting as `key=value`, separated
/// by spaces.
pub fn cell_name<'a>(
    server: &str,
    version: Option<&str>,
    settings: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> String {
    let mut name = server.to_owned();
    name.extend(version.iter().flat_map(|version| [" ", version]));
    for (key, value) in settings {
        name.extend([" ", key, "=", value]);
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn settings_follow_the_server_and_its_version() {
        let settings: BTreeMap<String, String> =
            [("cores".to_owned(), "2".to_owned()), ("zone".into(), "/16".into())].into();
        assert_eq!(cell_name("nsd", None, &settings), "nsd cores=2 zone=/16");
        assert_eq!(cell_name("nsd", Some("4.6.1"), &settings), "nsd 4.6.1 cores=2 zone=/16");
        assert_eq!(cell_name("nsd", None, &BTreeMap::new()), "nsd");
    }
}
