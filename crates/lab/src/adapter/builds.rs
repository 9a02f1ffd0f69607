//! Servers built from revisions of their sources, so that one experiment measures many versions.
//!
//! ```text
//!   recipe ([build.NAME])  ──> revisions (tags, commits, archives) ──> cache: built already?
//!                                                                       └─ no: sandbox ──> program, or why not and its log
//!   program + adapter ──> a server NAME@REVISION of the run
//! ```
//!
//! A build is a gap in the results when it fails, never the end of a run.

mod cache;
mod recipe;
mod sandbox;
mod source;

use std::path::Path;

use experiment::Custom;
use experiment::file::Role;
use record::{BuildOutcome, BuiltServer};

pub use self::cache::{Cache, default_cache};
pub use self::recipe::{Recipe, Revision};
pub use self::sandbox::{BUILD_COMMAND, sandbox_main};
use crate::adapter::catalogue::Catalogue;
use crate::adapter::{Adapter, AdapterError};

/// Error of a recipe, of its sources, or of the folder of built programs.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The recipe is not valid.
    #[error("{0}")]
    Recipe(String),
    /// The sources do not have the revision.
    #[error("{0}")]
    Source(String),
    /// A program that reads the sources failed.
    #[error("{what} failed: {why}")]
    Tool {
        /// Program and its first arguments.
        what: String,
        /// The end of its output.
        why: String,
    },
    /// A file or folder could not be read or written.
    #[error("{0}: {1}")]
    File(String, #[source] std::io::Error),
}

impl BuildError {
    fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| BuildError::File(path.display().to_string(), source)
    }
}

/// A build of a server for a run, successful or not.
#[derive(Clone, Debug)]
pub struct TriedBuild {
    /// The build, as the record stores it.
    pub record: BuiltServer,
    runs: Runs,
}

/// How a built program is configured and started.
#[derive(Clone, Debug)]
enum Runs {
    /// The adapter of this name starts the built program.
    Adapter(String),
    /// The recipe describes a custom server.
    Custom(Box<Custom>),
}

impl TriedBuild {
    /// Returns the outcome of the build of a revision.
    pub fn new(recipe: &Recipe, revision: &Revision, outcome: BuildOutcome) -> Self {
        let runs = match (&recipe.custom, &outcome) {
            (Some(custom), BuildOutcome::Program(program)) => {
                Runs::Custom(Box::new(custom.with_program(program)))
            }
            _ => Runs::Adapter(recipe.adapter.clone().unwrap_or_default()),
        };
        let record = BuiltServer {
            name: recipe.server_name(revision),
            build: recipe.name.clone(),
            revision: revision.name.clone(),
            commit: revision.commit.clone(),
            subject: revision.subject.clone(),
            committed_unix_s: revision.committed_unix_s,
            outcome,
        };
        TriedBuild { record, runs }
    }

    /// Returns the adapter of the built server; `None` if it was not built.
    pub(crate) fn adapter(
        &self,
        catalogue: &Catalogue,
        role: Role,
    ) -> Result<Option<Adapter>, AdapterError> {
        let BuildOutcome::Program(program) = &self.record.outcome else { return Ok(None) };
        let name = &self.record.name;
        let adapter = match &self.runs {
            Runs::Adapter(known) => catalogue.get(known)?.named(name, Some(Path::new(program))),
            Runs::Custom(custom) => {
                Adapter::custom(&self.record.build, role, custom)?.named(name, None)
            }
        };
        Ok(Some(adapter))
    }
}
