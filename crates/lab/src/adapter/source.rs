//! The text of an adapter: another host makes the same adapter from it.

use std::path::Path;

use experiment::Custom;
use experiment::file::Role;
use serde::{Deserialize, Serialize};

use super::{Adapter, AdapterError};

/// The text of an adapter, from which the agent makes the same adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The file of an adapter.
    File(String),
    /// The file of a front, and the server behind it.
    Front(String, Box<Source>),
    /// A custom server of the user, with its name.
    Custom(String, Role, Box<Custom>),
}

impl Default for Source {
    /// An empty file, which is no adapter.
    fn default() -> Self {
        Source::File(String::new())
    }
}

impl Source {
    /// Makes the adapter.
    ///
    /// # Errors
    /// If a text is not valid.
    pub(crate) fn adapter(&self) -> Result<Adapter, AdapterError> {
        match self {
            Source::File(text) => Adapter::parse(text, Path::new("adapter")),
            Source::Front(text, behind) => {
                let front = Adapter::parse(text, Path::new("adapter"))?;
                Ok(front.before(&behind.adapter()?))
            }
            Source::Custom(name, role, custom) => Adapter::custom(name, *role, custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::catalogue::Catalogue;

    #[test]
    fn an_adapter_is_the_same_there() {
        let catalogue = Catalogue::load(None).expect("adapters");
        for name in ["unbound", "dnsdist+nsd"] {
            let adapter = catalogue.get(name).expect("an adapter");
            let line = serde_json::to_string(&adapter.source).expect("JSON");
            let source: Source = serde_json::from_str(&line).expect("a source");
            let there = source.adapter().expect("an adapter");
            assert_eq!(format!("{there:?}"), format!("{adapter:?}"));
        }
        let custom = Custom::new("/opt/x/x -p {{ listen.port }}");
        let adapter = Adapter::custom("x", Role::Dns64, &custom).expect("an adapter");
        let there = adapter.source.adapter().expect("an adapter");
        assert_eq!(format!("{there:?}"), format!("{adapter:?}"));
        assert!(Source::default().adapter().is_err());
        assert!(Source::File("name =".to_owned()).adapter().is_err());
    }
}
