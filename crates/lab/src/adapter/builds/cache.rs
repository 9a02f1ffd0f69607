//! The folder of built programs: a folder for each revision and recipe, which is complete once it has a file `result`.
//!
//! ```text
//! NAME@REVISION-KEY/
//!   source/, home/   removed after the build
//!   prefix/          what `make install` and the like wrote
//!   log              output of the commands
//!   result           "built", or why not: written last
//! NAME@REVISION-KEY.lock   held while it is built
//! ```

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::sys::statvfs::statvfs;
use record::BuildOutcome;

use super::sandbox::{self, BUILD_COMMAND, SCRIPT};
use super::{BuildError, Recipe, Revision, TriedBuild};
use crate::testbed::cpus::CpuList;
use crate::testbed::enter;
use crate::testbed::exec::ExecRequest;

/// Largest number of builds that are kept; the oldest are removed.
const MOST_KEPT: usize = 300;
/// Free space below which a failed build is retried the next time, in octets.
const MIN_FREE_SPACE: u64 = 64 << 20;
/// Message of programs about a full disk: a build that fails with it is retried, since its files
/// are removed by then.
const NO_SPACE: &str = "No space left on device";
/// Octets at the end of a build's output in which [`NO_SPACE`] is looked for.
const TAIL_OCTETS: u64 = 1 << 20;
/// Interval between checks of a running build.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Content of the file `result` of a program that was built.
const BUILT: &str = "built";

/// Returns the default folder of built programs: `dnsdyno/builds` in `$XDG_CACHE_HOME`, or in `~/.cache`.
pub fn default_cache(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("dnsdyno/builds"))
}

/// The folder of built programs.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// Opens the folder; makes it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(dir: &Path) -> Result<Self, BuildError> {
        fs::create_dir_all(dir).map_err(BuildError::file(dir))?;
        Ok(Cache { dir: fs::canonicalize(dir).map_err(BuildError::file(dir))? })
    }

    /// Returns a revision that was built, or failed to build, before; `None` if it was not tried
    /// yet.
    pub fn known(&self, recipe: &Recipe, revision: &Revision) -> Option<TriedBuild> {
        let dir = self.dir.join(recipe.key(revision));
        let result = fs::read_to_string(dir.join("result")).ok()?;
        let program = dir.join("prefix").join(&recipe.program);
        let outcome = match result.trim() {
            BUILT if program.is_file() => BuildOutcome::Program(program.display().to_string()),
            BUILT => return None,
            why => BuildOutcome::NotBuilt(why.to_owned()),
        };
        Some(TriedBuild::new(recipe, revision, outcome))
    }

    /// Builds the revisions that were not tried yet, as many at once as there are cores, and
    /// returns all in their order. Failed builds are included. `stop` ends running builds and
    /// prevents further ones. `notify` gets each result, with whether it was built just now.
    pub fn build(
        &self,
        recipe: &Recipe,
        revisions: &[Revision],
        stop: &AtomicBool,
        notify: &mut dyn FnMut(&TriedBuild, bool),
    ) -> Vec<TriedBuild> {
        let cores = CpuList::allowed().count();
        let known: Vec<Option<TriedBuild>> =
            revisions.iter().map(|revision| self.known(recipe, revision)).collect();
        known.iter().flatten().for_each(|built| notify(built, false));
        let missing: Vec<usize> = (0..known.len()).filter(|i| known[*i].is_none()).collect();
        let workers = cores.min(missing.len()).max(1);
        let jobs = (cores / workers).max(1);
        let (next, mut all) = (AtomicUsize::new(0), known);
        std::thread::scope(|scope| {
            let (sender, done) = channel();
            for _ in 0..workers {
                let (sender, next, missing) = (sender.clone(), &next, &missing);
                scope.spawn(move || {
                    while let Some(i) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let outcome = self.build_one(recipe, &revisions[*i], jobs, stop);
                        let outcome =
                            outcome.unwrap_or_else(|e| BuildOutcome::NotBuilt(e.to_string()));
                        let built = TriedBuild::new(recipe, &revisions[*i], outcome);
                        // The receiver lives as long as this scope.
                        let _ = sender.send((*i, built));
                    }
                });
            }
            drop(sender);
            for (i, built) in done {
                notify(&built, true);
                all[i] = Some(built);
            }
        });
        self.prune(recipe, revisions);
        all.into_iter().flatten().collect()
    }

    /// Builds a revision, unless another process has built it since.
    fn build_one(
        &self,
        recipe: &Recipe,
        revision: &Revision,
        jobs: usize,
        stop: &AtomicBool,
    ) -> Result<BuildOutcome, BuildError> {
        let key = recipe.key(revision);
        let (dir, lock) = (self.dir.join(&key), self.dir.join(format!("{key}.lock")));
        let file = File::create(&lock).map_err(BuildError::file(&lock))?;
        let _held = Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, e)| BuildError::file(&lock)(e.into()))?;
        if let Some(built) = self.known(recipe, revision) {
            return Ok(built.record.outcome);
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(BuildOutcome::NotBuilt("interrupted".to_owned()));
        }
        // Remains of a killed build.
        let _ = fs::remove_dir_all(&dir);
        let source = dir.join("source");
        for folder in [&source, &dir.join("home"), &dir.join("prefix")] {
            fs::create_dir_all(folder).map_err(BuildError::file(folder))?;
        }
        recipe.extract(revision, &source)?;
        let script = format!("set -eux\n{}\n", recipe.commands.join("\n"));
        fs::write(dir.join(SCRIPT), script).map_err(BuildError::file(&dir))?;
        let why = self.run(recipe, revision, &dir, jobs, stop)?;
        let full = why.is_some() && is_full(&dir);
        for folder in [&source, &dir.join("home")] {
            // Remaining files are removed with the whole folder.
            let _ = fs::remove_dir_all(folder);
        }
        let program = dir.join("prefix").join(&recipe.program);
        let why = why.or_else(|| {
            let missing = || format!("its commands did not make {}", recipe.program);
            (!program.is_file()).then(missing)
        });
        let Some(why) = why else {
            self.conclude(&dir, BUILT)?;
            return Ok(BuildOutcome::Program(program.display().to_string()));
        };
        let why = format!("{why}; its output: {}", dir.join("log").display());
        if full {
            return Ok(BuildOutcome::NotBuilt(format!("the disk is full; {why}")));
        }
        if !stop.load(Ordering::Relaxed) {
            self.conclude(&dir, &why)?;
        }
        Ok(BuildOutcome::NotBuilt(why))
    }

    /// Returns whether a revision failed to build, and would do so again.
    pub fn has_failed(&self, recipe: &Recipe, revision: &Revision) -> bool {
        self.known(recipe, revision).is_some_and(|built| !built.record.is_built())
    }

    /// Runs the commands in the sandbox; returns why they failed, if they did.
    fn run(
        &self,
        recipe: &Recipe,
        revision: &Revision,
        dir: &Path,
        jobs: usize,
        stop: &AtomicBool,
    ) -> Result<Option<String>, BuildError> {
        let failed = |e: std::io::Error| BuildError::File("the sandbox".into(), e);
        let log = File::create(dir.join("log")).map_err(BuildError::file(dir))?;
        let errors = log.try_clone().map_err(failed)?;
        let limits = [recipe.timeout.as_secs().max(1), recipe.most_mb];
        let words = [enter::program().into(), BUILD_COMMAND.into(), dir.into()];
        let limits = limits.map(|limit| limit.to_string().into());
        // The wrapper has the kernel end the build when this thread ends.
        let request = ExecRequest {
            parent: std::process::id(),
            netns: PathBuf::new(),
            cpus: CpuList::allowed(),
            daemon: false,
            dir: dir.join("source"),
            command: words.into_iter().chain(limits).collect(),
        };
        let mut command = Command::new(enter::program());
        let home = std::env::var_os("HOME").unwrap_or_default();
        enter::hide_from(&mut command)
            .args(request.to_args().map_err(failed)?)
            .env("HOST_HOME", home)
            .env("PREFIX", dir.join("prefix"))
            .env("REVISION", &revision.name)
            .env("JOBS", jobs.to_string())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        let mut child = command.spawn().map_err(failed)?;
        loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                return Ok(sandbox::failure(status, recipe));
            }
            if stop.load(Ordering::Relaxed) {
                child.kill().and_then(|()| child.wait()).map_err(failed)?;
                return Ok(Some("interrupted".to_owned()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Writes the file that makes a build complete.
    fn conclude(&self, dir: &Path, result: &str) -> Result<(), BuildError> {
        let new = dir.join("result.new");
        let written = File::create(&new).and_then(|mut file| {
            writeln!(file, "{}", result.replace('\n', " "))?;
            file.sync_all()?;
            fs::rename(&new, dir.join("result"))
        });
        written.map_err(BuildError::file(&new))
    }

    /// Removes the oldest builds if there are too many, except the builds of `revisions`.
    fn prune(&self, recipe: &Recipe, revisions: &[Revision]) {
        let wanted: Vec<String> = revisions.iter().map(|revision| recipe.key(revision)).collect();
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut all: Vec<_> = entries
            .filter(|entry| !wanted.iter().any(|key| entry.file_name() == **key))
            .filter_map(|entry| {
                let made = fs::metadata(entry.path().join("result")).ok()?.modified().ok()?;
                Some((made, entry.path()))
            })
            .collect();
        all.sort();
        let most = MOST_KEPT.saturating_sub(wanted.len());
        let surplus = all.len().saturating_sub(most);
        for (_, path) in all.into_iter().take(surplus) {
            // A build that cannot be removed is retried the next time.
            let _ = fs::remove_dir_all(&path);
            // The version itself contains dots.
            let mut lock = path.into_os_string();
            lock.push(".lock");
            let _ = fs::remove_file(lock);
        }
    }
}

/// Returns whether the disk of a failed build is full, or was when it failed.
fn is_full(dir: &Path) -> bool {
    let space = statvfs(dir).map_or(u64::MAX, |s| s.blocks_available() * s.fragment_size());
    let mut said = Vec::new();
    let read = File::open(dir.join("log")).and_then(|mut log| {
        let length = log.seek(SeekFrom::End(0))?;
        log.seek(SeekFrom::Start(length.saturating_sub(TAIL_OCTETS)))?;
        log.take(TAIL_OCTETS).read_to_end(&mut said)
    });
    space < MIN_FREE_SPACE || read.is_err() || String::from_utf8_lossy(&said).contains(NO_SPACE)
}
