//! A recipe, its sources, and the folder of the built programs.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::anyhow;
use clap::Args;
use lab::builds::{Cache, Recipe, Revision, TriedBuild, default_cache};
use record::BuildOutcome;

use crate::failure::Failure;

/// The recipe that builds revisions of a server.
#[derive(Args, Clone, Debug)]
pub(crate) struct BuildArgs {
    /// The recipe: a table [build.NAME] of --builds, or a built-in one (docs/history.md)
    #[arg(long, value_name = "NAME")]
    build: String,
    /// A file with recipes, instead of the built-in ones
    #[arg(long, value_name = "FILE")]
    builds: Option<PathBuf>,
    /// The git repository or folder of archives, instead of the recipe's; SUBMODULE=PATH sets the
    /// one of a submodule; may be repeated
    #[arg(long = "repository", value_name = "PATH")]
    sources: Vec<String>,
    /// The folder of built programs [default: dnsdyno/builds in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

/// A recipe with the programs that were built by it.
pub(crate) struct Builds {
    pub(crate) recipe: Recipe,
    cache: Cache,
}

impl BuildArgs {
    /// Reads the recipe and opens the folder of built programs.
    pub(crate) fn open(&self) -> Result<Builds, Failure> {
        let mut recipe =
            Recipe::read(&self.build, self.builds.as_deref()).map_err(Failure::input)?;
        self.sources.iter().for_each(|source| recipe.set_source(source));
        let dir = self.cache.clone().or_else(|| default_cache(|name| std::env::var_os(name)));
        let dir = dir.ok_or_else(|| {
            Failure::input(anyhow!(
                "there is no place for built programs: give --cache DIR, or set HOME"
            ))
        })?;
        let cache = Cache::open(&dir).map_err(Failure::input)?;
        Ok(Builds { recipe, cache })
    }

    /// Returns the options in words, for a command that is to be repeated.
    pub(crate) fn words(&self) -> String {
        let path = |name: &str, path: &PathBuf| format!(" --{name} {}", path.display());
        let builds = self.builds.iter().map(|file| path("builds", file));
        let sources = self.sources.iter().map(|source| format!(" --repository {source}"));
        let cache = self.cache.iter().map(|dir| path("cache", dir));
        let more: String = builds.chain(sources).chain(cache).collect();
        format!("--build {}{more}", self.build)
    }
}

impl Builds {
    /// Builds the revisions that are not built yet, and prints the outcome of each.
    pub(crate) fn build(&self, revisions: &[Revision], stop: &AtomicBool) -> Vec<TriedBuild> {
        self.cache.build(&self.recipe, revisions, stop, &mut |built, now| {
            let name = &built.record.name;
            match &built.record.outcome {
                BuildOutcome::Program(_) if now => eprintln!("{name}: built"),
                BuildOutcome::Program(_) => {}
                BuildOutcome::NotBuilt(why) => eprintln!("{name}: not built: {why}"),
            }
        })
    }

    /// Returns a revision whose program is not built yet, for the plan of a run.
    pub(crate) fn planned(&self, revision: &Revision) -> TriedBuild {
        TriedBuild::new(&self.recipe, revision, BuildOutcome::Program("(not built yet)".to_owned()))
    }

    /// Returns whether a revision failed to build, and would fail again.
    pub(crate) fn has_failed(&self, revision: &Revision) -> bool {
        self.cache.has_failed(&self.recipe, revision)
    }

    /// Returns the revisions as they were built before; one whose build did not end is a gap.
    pub(crate) fn known(&self, revisions: &[Revision]) -> Vec<TriedBuild> {
        let of = |revision: &Revision| {
            let why = "its build did not end: the disk was full, or it was interrupted";
            let missing = || BuildOutcome::NotBuilt(why.to_owned());
            let known = self.cache.known(&self.recipe, revision);
            known.unwrap_or_else(|| TriedBuild::new(&self.recipe, revision, missing()))
        };
        revisions.iter().map(of).collect()
    }
}
