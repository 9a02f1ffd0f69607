//! Catalogue of all adapters: the built-in ones, those of a directory, and fronts joined with servers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::adapter::built_in::SERVERS;
use crate::adapter::{Adapter, AdapterError};

/// All adapters, by name; `dnsdist+unbound` is dnsdist in front of unbound.
#[derive(Clone, Debug)]
pub struct Catalogue {
    own: BTreeMap<String, Adapter>,
    joined: BTreeMap<String, Adapter>,
}

impl Catalogue {
    /// Loads the built-in adapters, and those of `dir` (every `*.toml` in it), which take precedence.
    ///
    /// # Errors
    /// If `dir` or a file in it cannot be read or is invalid.
    pub fn load(dir: Option<&Path>) -> Result<Self, AdapterError> {
        let mut all = BTreeMap::new();
        for (name, text) in SERVERS {
            let path = Path::new("servers").join(name).with_extension("toml");
            let adapter = Adapter::parse(text, &path)?;
            all.insert(adapter.name.clone(), adapter);
        }
        let Some(dir) = dir else { return Ok(Self::join(all)) };
        let unreadable = |path: &Path, source| {
            let path = path.to_owned();
            AdapterError::Unreadable { path, source }
        };
        let mut paths = Vec::new();
        for entry in fs::read_dir(dir).map_err(|e| unreadable(dir, e))? {
            let path = entry.map_err(|e| unreadable(dir, e))?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                paths.push(path);
            }
        }
        paths.sort();
        for path in paths {
            let text = fs::read_to_string(&path).map_err(|e| unreadable(&path, e))?;
            let adapter = Adapter::parse(&text, &path)?;
            all.insert(adapter.name.clone(), adapter);
        }
        Ok(Self::join(all))
    }

    /// Joins every front with every server that can be behind a front.
    fn join(own: BTreeMap<String, Adapter>) -> Self {
        let fronts = own.values().filter(|adapter| adapter.front);
        let pairs = fronts.flat_map(|front| {
            let behind = own.values().filter(|adapter| !adapter.front && adapter.remote.is_none());
            behind.map(|behind| front.before(behind))
        });
        let joined = pairs.map(|adapter| (adapter.name.clone(), adapter)).collect();
        Self { own, joined }
    }

    /// Adds an adapter, such as a custom server of one run; it replaces an adapter of the same name.
    pub fn add(&mut self, adapter: Adapter) {
        self.own.insert(adapter.name.clone(), adapter);
        *self = Self::join(std::mem::take(&mut self.own));
    }

    /// Returns the adapter `name`.
    ///
    /// # Errors
    /// If there is no such adapter; the error names the known ones.
    pub fn get(&self, name: &str) -> Result<&Adapter, AdapterError> {
        let found = self.joined.get(name).or_else(|| self.own.get(name).filter(|a| !a.front));
        found.ok_or_else(|| {
            let known = self.own.values().map(|adapter| match adapter.front {
                true => format!("{}+SERVER", adapter.name),
                false => adapter.name.clone(),
            });
            let known = known.collect::<Vec<_>>().join(", ");
            AdapterError::Unknown { name: name.to_owned(), known }
        })
    }

    /// Returns all adapters by name, without the joined ones.
    pub fn iter(&self) -> impl Iterator<Item = &Adapter> {
        self.own.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::tests::GOOD;

    #[test]
    fn the_built_in_ones_are_good() {
        let catalogue = Catalogue::load(None).unwrap();
        let names: Vec<&str> = catalogue.iter().map(|adapter| adapter.name.as_str()).collect();
        let files: Vec<&str> = SERVERS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, files, "each file is called like its server");
        let error = catalogue.get("powerdns").unwrap_err().to_string();
        let start =
            "there is no server `powerdns`; known are authdns, bind9, dns64-threads, dns64d, ";
        assert!(error.starts_with(start), "{error}");
    }

    #[test]
    fn a_front_joins_with_any_server() {
        let catalogue = Catalogue::load(None).unwrap();
        let both = catalogue.get("dnsdist+unbound").unwrap();
        assert_eq!(both.title, "dnsdist before Unbound");
        assert_eq!(both.roles, catalogue.get("unbound").unwrap().roles);
        let names: Vec<&str> = both.chain().map(|adapter| adapter.name.as_str()).collect();
        assert_eq!(names, ["dnsdist+unbound", "unbound"]);
        assert!(catalogue.get("dnsdist").is_err() && catalogue.get("dnsdist+dnsdist").is_err());
    }

    #[test]
    fn versions_are_read() {
        let catalogue = Catalogue::load(None).unwrap();
        let table = [
            ("unbound", "Version 1.17.1\n\nConfigure line: --build", "1.17.1"),
            (
                "bind9",
                "BIND 9.18.49-1~deb12u3-Debian (Extended Support) <id:>",
                "9.18.49-1~deb12u3-Debian",
            ),
            ("nsd", "NSD version 4.6.1\nWritten by", "4.6.1"),
            ("knot", "knotd (Knot DNS), version 3.2.6\n", "3.2.6"),
            ("knot-resolver", "Knot Resolver, version 5.6.0\n", "5.6.0"),
            (
                "pdns-recursor",
                "Nov 21 08:10:10 PowerDNS Recursor 4.8.8 (C) 2001-2022 PowerDNS.COM BV",
                "4.8.8",
            ),
            ("pdns", "Nov 21 PowerDNS Authoritative Server 4.7.3 (C) 2001", "4.7.3"),
            ("yadifa", "yadifad 2.6.4-10892 (2023-03-01)\n", "2.6.4-10892"),
            ("dnsdist+nsd", "dnsdist 1.7.3 (Lua 5.1.4 [LuaJIT 2.1.0-beta3])", "1.7.3"),
        ];
        for (name, printed, version) in table {
            let adapter = catalogue.get(name).unwrap();
            let query = adapter.version.as_ref().unwrap();
            assert_eq!(query.read(printed).as_deref(), Some(version));
        }
        let query = catalogue.get("nsd").unwrap().version.as_ref().unwrap();
        assert_eq!(query.read("usage: nsd"), None);
    }

    #[test]
    fn a_directory_adds_and_replaces() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.toml"), GOOD).unwrap();
        fs::write(dir.path().join("n.toml"), GOOD.replace("\"x\"", "\"nsd\"")).unwrap();
        fs::write(dir.path().join("README"), "not an adapter").unwrap();
        let catalogue = Catalogue::load(Some(dir.path())).unwrap();
        assert_eq!(catalogue.iter().count(), SERVERS.len() + 1);
        assert_eq!(catalogue.get("nsd").unwrap().title, "X");
        fs::write(dir.path().join("y.toml"), "name =").unwrap();
        let error = Catalogue::load(Some(dir.path())).unwrap_err().to_string();
        assert!(error.contains("y.toml:1:"), "{error}");
        assert!(Catalogue::load(Some(Path::new("/no/such"))).is_err());
    }
}
