//! Recipes: how one revision of a server is built, as a table `[build.NAME]` of a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use experiment::Custom;
use measure::Nanos;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::BuildError;
use crate::adapter::built_in::RECIPES;
use crate::adapter::duration;

/// How one revision of a server is built, and started.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recipe {
    /// Name of the recipe's table, which `--build` takes.
    #[serde(skip)]
    pub name: String,
    /// Git repository, or folder of archives.
    #[serde(default)]
    pub source: PathBuf,
    /// Repositories of submodules, by their paths in the sources.
    #[serde(default)]
    pub submodules: BTreeMap<String, PathBuf>,
    /// Names of the tags that are versions; `*` stands for digits, dots, dashes and underscores.
    #[serde(default = "default_pattern")]
    pub(super) tags: String,
    /// Names of the archives in a folder; `*` stands for the version. Absent for a git repository.
    #[serde(default)]
    pub(super) archives: Option<String>,
    /// Folders of the repository that are not needed, such as tests.
    #[serde(default, rename = "leave-out")]
    pub(super) leave_out: Vec<String>,
    /// Commands of the shell, in the folder of the sources; `$PREFIX` is the folder of the result.
    pub(super) commands: Vec<String>,
    /// Path of the program in `$PREFIX`.
    pub(super) program: String,
    /// Adapter that runs the program.
    #[serde(default)]
    pub(super) adapter: Option<String>,
    /// Custom server that runs the program without an adapter; `$PROGRAM` in its command is the
    /// program.
    #[serde(default)]
    pub(super) custom: Option<Custom>,
    /// Time after which a build is ended.
    #[serde(default = "default_time", deserialize_with = "duration")]
    pub(super) timeout: std::time::Duration,
    /// Largest size of sources and results, in megabytes.
    #[serde(default = "default_size", rename = "most-mb")]
    pub(super) most_mb: u64,
}

fn default_pattern() -> String {
    "*".to_owned()
}

fn default_time() -> std::time::Duration {
    Nanos::from_secs(1_200).into()
}

fn default_size() -> u64 {
    8_000
}

/// A revision of a server's sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revision {
    /// Tag, commit, or version of an archive.
    pub name: String,
    /// Commit, or SHA-256 of the archive, in hexadecimal.
    pub commit: String,
    /// First line of the commit's message; empty for an archive.
    pub subject: String,
    /// Time of the commit, in seconds since 1970.
    pub committed_unix_s: Option<i64>,
    /// Day of a tag, as in 2024-12-31; else empty.
    pub(super) day: String,
}

/// A file of recipes: a table for each (`[build.NAME]`).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    build: BTreeMap<String, Recipe>,
}

impl Recipe {
    /// Reads the recipe `name` from a file, or the built-in one without a file.
    ///
    /// # Errors
    /// If the file cannot be read, has no such table, or the table is not valid.
    pub fn read(name: &str, file: Option<&Path>) -> Result<Self, BuildError> {
        let text = match file {
            Some(path) => std::fs::read_to_string(path).map_err(BuildError::file(path))?,
            None => RECIPES.iter().find(|(known, _)| *known == name).map_or_else(
                || {
                    let known: Vec<&str> = RECIPES.iter().map(|(name, _)| *name).collect();
                    let known = known.join(", ");
                    Err(BuildError::Recipe(format!(
                        "there is no built-in recipe `{name}`; there are {known}; name a file with a table [build.{name}] with --builds"
                    )))
                },
                |(_, text)| Ok((*text).to_owned()),
            )?,
        };
        let shown = file.map_or_else(|| format!("builds/{name}.toml"), |f| f.display().to_string());
        Self::parse(name, &text, &shown)
    }

    fn parse(name: &str, text: &str, shown: &str) -> Result<Self, BuildError> {
        let bad = |why: String| BuildError::Recipe(format!("{shown}: {why}"));
        let mut file: File = toml::from_str(text).map_err(|e| bad(e.to_string()))?;
        let known = file.build.keys().cloned().collect::<Vec<_>>().join(", ");
        let recipe = file.build.remove(name);
        let recipe = recipe
            .ok_or_else(|| bad(format!("there is no table [build.{name}]; there are {known}")))?;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let why = match &recipe {
            _ if !name.chars().all(plain) => {
                "the name of a recipe has lower case letters, digits and dashes".to_owned()
            }
            Recipe { adapter, custom, .. } if adapter.is_some() == custom.is_some() => {
                format!("[build.{name}] needs either `adapter` or a table `custom`")
            }
            Recipe { commands, .. } if commands.is_empty() => {
                format!("[build.{name}] needs `commands`")
            }
            Recipe { custom: Some(custom), .. } if !custom.command.contains("$PROGRAM") => {
                format!("[build.{name}.custom]: its command needs $PROGRAM")
            }
            _ => return Ok(Recipe { name: name.to_owned(), ..recipe }),
        };
        Err(bad(why))
    }

    /// Sets the source of the recipe, or the source of a submodule (`PATH=REPOSITORY`).
    pub fn set_source(&mut self, text: &str) {
        match text.split_once('=') {
            Some((path, repository)) => {
                self.submodules.insert(path.to_owned(), repository.into());
            }
            None => self.source = text.into(),
        }
    }

    /// Returns the name of a revision's server in a run.
    pub fn server_name(&self, revision: &Revision) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        format!("{}@{}", self.name, revision.name.chars().map(plain).collect::<String>())
    }

    /// Returns the key of a build: it depends on commit, commands, program, and the files added to
    /// or left out of the sources.
    pub(super) fn key(&self, revision: &Revision) -> String {
        let what = format!(
            "{}\n{:?}\n{}\n{:?}\n{:?}",
            revision.commit,
            self.commands,
            self.program,
            self.leave_out,
            self.submodules.keys()
        );
        let digest = Sha256::digest(what);
        let hex: String = digest.iter().take(8).map(|octet| format!("{octet:02x}")).collect();
        format!("{}-{hex}", self.server_name(revision))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "[build.x]\nsource = \"/src\"\nadapter = \"nsd\"\ncommands = [\"make\"]\nprogram = \"x\"\n";

    #[test]
    fn the_built_in_recipes_are_valid() {
        for (name, _) in RECIPES {
            Recipe::read(name, None).expect(name);
        }
    }

    #[test]
    fn errors_name_file_and_remedy() {
        let custom = GOOD.replace("adapter = \"nsd\"", "custom = { command = \"y\" }");
        for (name, text, wanted) in [
            ("y", GOOD, "no table [build.y]; there are x"),
            ("x", &GOOD.replace("adapter", "#"), "either `adapter` or a table `custom`"),
            ("x", &GOOD.replace("\"make\"", ""), "needs `commands`"),
            ("x", &GOOD.replace("program", "programs"), "unknown field `programs`"),
            ("x", &custom, "needs $PROGRAM"),
        ] {
            let error = Recipe::parse(name, text, "x.toml").expect_err(wanted).to_string();
            assert!(error.starts_with("x.toml: ") && error.contains(wanted), "{error}");
        }
        let error = Recipe::read("no-such", None).expect_err("none").to_string();
        assert!(error.contains("--builds"), "{error}");
    }

    #[test]
    fn a_build_is_known_by_commit_and_commands() {
        let recipe = Recipe::parse("x", GOOD, "x.toml").expect("valid");
        let other = Recipe::parse("x", &GOOD.replace("make", "make all"), "x.toml").expect("valid");
        let revision = Revision { name: "a/b".into(), commit: "1".into(), ..Revision::default() };
        let next = Revision { commit: "2".into(), ..revision.clone() };
        let key = recipe.key(&revision);
        assert!(key.starts_with("x@a-b-") && key == recipe.key(&revision), "{key}");
        assert!(key != recipe.key(&next) && key != other.key(&revision));
    }
}
