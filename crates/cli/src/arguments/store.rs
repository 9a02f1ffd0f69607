//! The store of runs: its path, and names of runs in it.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::anyhow;
use clap::Args;
use record::{Run, Store, StoreError, store::default_path};

use crate::failure::Failure;

/// Path of the store of runs.
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreArgs {
    /// The store of runs [default: $DNSDYNO_STORE, or dnsdyno/runs.db in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, value_name = "PATH")]
    pub(crate) store: Option<PathBuf>,
}

impl StoreArgs {
    /// Returns the path of the store.
    pub(crate) fn path(&self) -> Result<PathBuf, Failure> {
        let path = self.store.clone().or_else(|| default_path(|name| std::env::var_os(name)));
        path.ok_or_else(|| {
            Failure::input(anyhow!(
                "there is no place for the store: give --store PATH, or set HOME"
            ))
        })
    }

    /// Opens the store; creates it if it does not exist.
    pub(crate) fn open(&self) -> Result<Store, Failure> {
        Store::open(&self.path()?).map_err(failure)
    }

    /// Opens the store to read it, if it exists.
    pub(crate) fn existing(&self) -> Result<Option<Store>, Failure> {
        let path = self.path()?;
        path.exists().then(|| Store::open_to_read(&path)).transpose().map_err(failure)
    }

    /// Opens the store to read it; fails if it does not exist.
    pub(crate) fn must_exist(&self) -> Result<Store, Failure> {
        let path = self.path()?;
        self.existing()?.ok_or_else(|| {
            let path = path.display();
            Failure::input(anyhow!("there is no store at {path}; `dnsdyno run` makes one"))
        })
    }

    /// Loads the run that `which` names.
    pub(crate) fn load(&self, which: &RunRef) -> Result<Run, Failure> {
        match which {
            RunRef::File(path) => return record::read_run(path).map_err(Failure::input),
            RunRef::Repeats(paths) => return record::read_repeats(paths).map_err(Failure::input),
            RunRef::Id(_) | RunRef::Last(_) => {}
        }
        let store = self.must_exist()?;
        store.load(which.id(&store)?).map_err(failure)
    }
}

/// Makes an error of the store bad input or a failed run.
pub(crate) fn failure(error: StoreError) -> Failure {
    if error.is_bad_input() { Failure::input(error) } else { Failure::run(error) }
}

/// Name of a run in an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunRef {
    /// The run with this number in the store.
    Id(i64),
    /// The run this many runs before the last one of the store.
    Last(usize),
    /// A file that `--json` or `export` wrote.
    File(PathBuf),
    /// JSON files of several loads, which are repeats of one another.
    Repeats(Vec<PathBuf>),
}

impl FromStr for RunRef {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let back = match text.strip_prefix("last") {
            Some("") => Some(0),
            Some(rest) => rest.strip_prefix('~').and_then(|n| n.parse().ok()),
            None => None,
        };
        let id = || text.parse().ok().map(RunRef::Id);
        let file = || match text.contains(',') {
            true => RunRef::Repeats(text.split(',').map(PathBuf::from).collect()),
            false => RunRef::File(text.into()),
        };
        Ok(back.map(RunRef::Last).or_else(id).unwrap_or_else(file))
    }
}

impl fmt::Display for RunRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunRef::Id(id) => write!(f, "{id}"),
            RunRef::Last(0) => write!(f, "last"),
            RunRef::Last(back) => write!(f, "last~{back}"),
            RunRef::File(path) => write!(f, "{}", path.display()),
            RunRef::Repeats(paths) => {
                let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
                write!(f, "{}", paths.join(","))
            }
        }
    }
}

impl RunRef {
    /// Returns the number of the run in `store`.
    pub(crate) fn id(&self, store: &Store) -> Result<i64, Failure> {
        match self {
            RunRef::Id(id) => Ok(*id),
            RunRef::File(_) | RunRef::Repeats(_) => Err(Failure::input(anyhow!(
                "{self} is not a run of the store: name it by its number, `last` or `last~1`"
            ))),
            RunRef::Last(back) => {
                let runs = store.runs().map_err(failure)?;
                let found = runs.iter().rev().nth(*back).map(|line| line.id);
                found.ok_or_else(|| {
                    let path = store.path().display();
                    Failure::input(match runs.len() {
                        0 => anyhow!("{path}: the store is empty"),
                        n => anyhow!("{path}: the store has {n} runs, there is no last~{back}"),
                    })
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runs() {
        for (text, wanted) in [
            ("12", RunRef::Id(12)),
            ("last", RunRef::Last(0)),
            ("last~2", RunRef::Last(2)),
            ("last~x", RunRef::File("last~x".into())),
            ("lasting.json", RunRef::File("lasting.json".into())),
            ("a/1.json", RunRef::File("a/1.json".into())),
            ("./12", RunRef::File("./12".into())),
            ("a.json,b.json", RunRef::Repeats(vec!["a.json".into(), "b.json".into()])),
        ] {
            assert_eq!(text.parse::<RunRef>(), Ok(wanted), "{text}");
        }
    }
}
