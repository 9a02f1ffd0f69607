//! Sources of a recipe: a git repository of this host, or a folder with one archive for each version.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use record::VersionOrder;
use sha2::{Digest, Sha256};

use super::{BuildError, Recipe, Revision};

/// Largest number of revisions of one command.
const MOST_REVISIONS: usize = 1_000;
/// Words of a commit that `git` prints: commit, time in seconds since 1970, subject.
const COMMIT_FORMAT: &str = "%H%x09%ct%x09%s";

impl Recipe {
    /// Returns the revisions that `words` names, separated by commas: tags, commits, versions of
    /// archives, `A..B` with both ends, or two dates (`2020-01-01..2024-12-31`). Between two tags
    /// lie the tags that are versions, between two commits the commits of the first parents. Of a
    /// range every `every`-th revision is taken, and the last.
    ///
    /// # Errors
    /// If the sources cannot be read, or do not have them.
    pub fn revisions(&self, words: &str, every: usize) -> Result<Vec<Revision>, BuildError> {
        let versions = self.versions()?;
        let mut all: Vec<Revision> = Vec::new();
        for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let found = match word.split_once("..") {
                Some((from, to)) => {
                    let range = self.range(&versions, from, to)?;
                    let last = range.len().saturating_sub(1);
                    let kept = |(i, one): (usize, Revision)| {
                        (i % every.max(1) == 0 || i == last).then_some(one)
                    };
                    range.into_iter().enumerate().filter_map(kept).collect()
                }
                None => vec![self.find_one(&versions, word)?],
            };
            all.extend(found);
        }
        let mut seen = BTreeSet::new();
        all.retain(|one: &Revision| seen.insert(self.server_name(one)));
        self.check_count(words, all)
    }

    /// Returns the commits of the first parents from `good` to `bad`, with both.
    ///
    /// # Errors
    /// If the sources cannot be read, or `good` does not come before `bad`.
    pub fn commits(&self, good: &str, bad: &str) -> Result<Vec<Revision>, BuildError> {
        if self.archives.is_some() {
            return self.revisions(&format!("{good}..{bad}"), 1);
        }
        let commits = self.between(good, bad)?;
        self.check_count(&format!("{good}..{bad}"), commits)
    }

    fn check_count(&self, words: &str, all: Vec<Revision>) -> Result<Vec<Revision>, BuildError> {
        let source = self.source.display();
        match all.len() {
            0 => Err(BuildError::Source(format!("{source} has no revision in `{words}`"))),
            n if n > MOST_REVISIONS => Err(BuildError::Source(format!(
                "`{words}` are {n} revisions; at most {MOST_REVISIONS} go into one command: name fewer, or use --every"
            ))),
            _ => Ok(all),
        }
    }

    /// Returns all versions: tags or archives whose names fit the recipe, by their numbers.
    fn versions(&self) -> Result<Vec<Revision>, BuildError> {
        if self.source.as_os_str().is_empty() {
            return Err(BuildError::Source(format!(
                "the recipe `{}` has no source: give its {} with --repository PATH",
                self.name,
                if self.archives.is_some() { "folder of archives" } else { "git repository" }
            )));
        }
        let mut versions = match &self.archives {
            Some(pattern) => {
                let folder = std::fs::read_dir(&self.source);
                let folder = folder.map_err(BuildError::file(&self.source))?.flatten();
                let names = folder.filter_map(|entry| entry.file_name().into_string().ok());
                let version = |name: String| fits(pattern, &name, true).map(str::to_owned);
                let named = |name| Revision { name, ..Revision::default() };
                names.filter_map(version).map(named).collect::<Vec<_>>()
            }
            None => {
                let format = "--format=%(refname:short)%09%(objectname)%09%(*objectname)%09%(creatordate:unix)%09%(creatordate:short)";
                let listed = git(&self.source, &["for-each-ref", format, "refs/tags"])?;
                let tags = listed.lines().filter_map(|line| {
                    let mut fields = line.split('\t');
                    let mut next = || fields.next().unwrap_or_default();
                    let (name, object, commit) = (next(), next(), next());
                    let (time, day) = (next(), next());
                    fits(&self.tags, name, false)?;
                    let commit = if commit.is_empty() { object } else { commit };
                    Some(Revision {
                        name: name.to_owned(),
                        commit: commit.to_owned(),
                        committed_unix_s: time.parse().ok(),
                        day: day.to_owned(),
                        ..Revision::default()
                    })
                });
                tags.collect()
            }
        };
        versions.sort_by(|a, b| VersionOrder::of(&a.name).cmp(&VersionOrder::of(&b.name)));
        Ok(versions)
    }

    fn find_one(&self, versions: &[Revision], name: &str) -> Result<Revision, BuildError> {
        if let Some(version) = versions.iter().find(|version| version.name == name) {
            return Ok(Revision { commit: self.commit_of(version)?, ..version.clone() });
        }
        if self.archives.is_some() {
            let known: Vec<&str> = versions.iter().map(|version| version.name.as_str()).collect();
            let (source, known) = (self.source.display(), known.join(", "));
            let why = format!("{source} has no archive of version `{name}`; it has {known}");
            return Err(BuildError::Source(why));
        }
        let commit = format!("{name}^{{commit}}");
        let format = format!("--format={COMMIT_FORMAT}");
        let line = git(&self.source, &["log", "-1", &format, "--end-of-options", &commit, "--"])?;
        let revision = commit_line(&line);
        Ok(Revision { name: name.to_owned(), ..revision })
    }

    fn range(
        &self,
        versions: &[Revision],
        from: &str,
        to: &str,
    ) -> Result<Vec<Revision>, BuildError> {
        let place = |name: &str| versions.iter().position(|version| version.name == name);
        let is_day = |text: &str| text.len() == 10 && text.split('-').count() == 3;
        let found: Vec<&Revision> = match (place(from), place(to)) {
            (Some(first), Some(last)) => {
                versions.get(first..=last).unwrap_or_default().iter().collect()
            }
            (None, None) if is_day(from) && is_day(to) => {
                let within = |one: &&Revision| (from..=to).contains(&one.day.as_str());
                versions.iter().filter(within).collect()
            }
            _ if self.archives.is_none() => return self.between(from, to),
            (first, _) => {
                let missing = if first.is_none() { from } else { to };
                return self.find_one(versions, missing).map(|one| vec![one]);
            }
        };
        let with_commit =
            |one: &Revision| Ok(Revision { commit: self.commit_of(one)?, ..one.clone() });
        found.into_iter().map(with_commit).collect()
    }

    /// Returns the commits of the first parents from one commit to another, with both.
    fn between(&self, from: &str, to: &str) -> Result<Vec<Revision>, BuildError> {
        let source = &self.source;
        let first = self.find_one(&[], from)?;
        let last = self.find_one(&[], to)?;
        let base = git(source, &["merge-base", &first.commit, &last.commit])?;
        if base.trim() != first.commit {
            return Err(BuildError::Source(format!(
                "`{from}` does not come before `{to}`: both come from {}",
                base.trim()
            )));
        }
        let range = format!("{}..{}", first.commit, last.commit);
        let format = format!("--format={COMMIT_FORMAT}");
        let listed = git(source, &["log", "--first-parent", "--reverse", &format, &range, "--"])?;
        let mut all = vec![first];
        all.extend(listed.lines().map(commit_line));
        Ok(all)
    }

    /// Returns the commit of a version: for an archive its SHA-256.
    fn commit_of(&self, version: &Revision) -> Result<String, BuildError> {
        let Some(path) = self.archive(version) else { return Ok(version.commit.clone()) };
        let archive = std::fs::read(&path).map_err(BuildError::file(&path))?;
        Ok(Sha256::digest(archive).iter().map(|octet| format!("{octet:02x}")).collect())
    }

    /// Returns the path of a version's archive; `None` for a git repository.
    fn archive(&self, version: &Revision) -> Option<std::path::PathBuf> {
        let pattern = self.archives.as_ref()?;
        Some(self.source.join(pattern.replacen('*', &version.name, 1)))
    }

    /// Writes the sources of a revision into `folder`, which exists and is empty.
    pub(super) fn extract(&self, revision: &Revision, folder: &Path) -> Result<(), BuildError> {
        if let Some(archive) = self.archive(revision) {
            let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let tar = [".tar", ".tgz", ".tbz2", ".txz", ".crate"];
            if name.ends_with(".zip") {
                let mut unzip = Command::new("unzip");
                printed(unzip.arg("-q").arg(&archive).arg("-d").arg(folder))?;
            } else if tar.iter().any(|part| name.contains(part)) {
                let mut tar = Command::new("tar");
                printed(tar.arg("-xf").arg(&archive).arg("-C").arg(folder))?;
            } else {
                // A program, or a package for the commands to unpack.
                let copy = folder.join(name);
                std::fs::copy(&archive, &copy).map_err(BuildError::file(&copy))?;
            }
            return Ok(());
        }
        unpack(&self.source, &revision.commit, &self.leave_out, folder)?;
        let tree = git(&self.source, &["ls-tree", "-r", &revision.commit])?;
        for line in tree.lines().filter(|line| line.starts_with("160000 commit ")) {
            let (commit, path) =
                line["160000 commit ".len()..].split_once('\t').unwrap_or_default();
            if let Some(repository) = self.submodules.get(path) {
                unpack(repository, commit, &[], &folder.join(path))?;
            }
        }
        Ok(())
    }
}

/// Writes a commit of a repository without some of its folders into `folder`.
fn unpack(
    repository: &Path,
    commit: &str,
    without: &[String],
    folder: &Path,
) -> Result<(), BuildError> {
    let mut archive = Command::new("git");
    archive.arg("-C").arg(repository).args(["archive", "--format=tar", commit, "--", "."]);
    archive.args(without.iter().map(|folder| format!(":(exclude){folder}")));
    archive.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = archive.spawn().map_err(|e| tool("git archive", e.to_string()))?;
    let Some(tar) = running.stdout.take() else { return Err(tool("git archive", "no output")) };
    let mut unpacked = Command::new("tar");
    let unpacked = printed(unpacked.arg("-x").arg("-C").arg(folder).stdin(tar));
    let ended = running.wait_with_output().map_err(|e| tool("git archive", e.to_string()))?;
    if !ended.status.success() {
        return Err(tool("git archive", String::from_utf8_lossy(&ended.stderr).trim()));
    }
    unpacked.map(drop)
}

/// Runs `git` in a repository; returns what it prints.
fn git(repository: &Path, words: &[&str]) -> Result<String, BuildError> {
    let mut command = Command::new("git");
    printed(command.arg("-C").arg(repository).args(words))
}

/// Runs a program; returns what it prints.
fn printed(command: &mut Command) -> Result<String, BuildError> {
    let words: Vec<_> = command.get_args().take(3).map(|word| word.to_string_lossy()).collect();
    let what = format!("{} {}", command.get_program().to_string_lossy(), words.join(" "));
    let output = command.output().map_err(|e| tool(&what, e.to_string()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(tool(&what, String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn tool(what: &str, why: impl Into<String>) -> BuildError {
    BuildError::Tool { what: what.to_owned(), why: why.into() }
}

/// Reads a line of the format [`COMMIT_FORMAT`]; the name is the first twelve digits of the commit.
fn commit_line(line: &str) -> Revision {
    let mut fields = line.trim_end().splitn(3, '\t');
    let mut next = || fields.next().unwrap_or_default().to_owned();
    let (commit, time, subject) = (next(), next(), next());
    let name = commit.chars().take(12).collect();
    Revision { name, commit, subject, committed_unix_s: time.parse().ok(), day: String::new() }
}

/// Returns the part of a name that `*` of a pattern matches: digits, dots, dashes and underscores,
/// with a digit. Versions of distributions, which are names of archives, begin with a digit, and
/// may have letters, `+` and `~`.
fn fits<'n>(pattern: &str, name: &'n str, archive: bool) -> Option<&'n str> {
    let (before, after) = pattern.split_once('*')?;
    let version = name.strip_prefix(before)?.strip_suffix(after)?;
    let digits = |c: char| c.is_ascii_digit() || "._-".contains(c);
    let plain = match archive {
        true => version.chars().all(|c| digits(c) || c.is_ascii_alphabetic() || "+~".contains(c)),
        false => version.chars().all(digits),
    };
    let place = version.find(|c: char| c.is_ascii_digit())?;
    (plain && (place == 0 || !archive)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_tags_of_digits_in_their_order() {
        for (pattern, name, archive, wanted) in [
            ("release-*", "release-1.20.0", false, Some("1.20.0")),
            ("release-*", "release-1.20.0rc1", false, None),
            ("NSD_*_REL", "NSD_4_10_0_REL", false, Some("4_10_0")),
            ("v*", "v3.4.dev", false, None),
            ("v*", "version", false, None),
            ("x-*.tar.gz", "x-1.2.tar.gz", true, Some("1.2")),
            ("x-*.tar.gz", "x-y-1.2.tar.gz", true, None),
            ("x_*_amd64.deb", "x_1.17.1-2+deb12u2_amd64.deb", true, Some("1.17.1-2+deb12u2")),
        ] {
            assert_eq!(fits(pattern, name, archive), wanted, "{pattern} {name}");
        }
    }

    fn run(folder: &Path, command: &str) {
        let done = Command::new("sh").args(["-ec", command]).current_dir(folder).output();
        let done = done.expect("a shell");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    const COMMITS: &str = "git init -q . && git config user.name x && git config user.email x@example.com
        for n in 1 2 3 4 5 6; do echo $n >file; git add file
            GIT_COMMITTER_DATE=\"2024-0$n-01T12:00:00Z\" git commit -q -m \"commit $n\"; git tag v0.$((n + 6)); done
        git tag v0.9rc1; git checkout -q -b side v0.8; echo side >file; git commit -q -a -m side; git checkout -q -";

    fn recipe(text: &str) -> Recipe {
        let text = format!("adapter = \"nsd\"\ncommands = [\"true\"]\nprogram = \"x\"\n{text}");
        toml::from_str(&text).expect("valid")
    }

    fn names(revisions: &[Revision]) -> Vec<&str> {
        revisions.iter().map(|revision| revision.name.as_str()).collect()
    }

    #[test]
    fn revisions_of_a_repository() {
        let dir = tempfile::tempdir().expect("a folder");
        run(dir.path(), COMMITS);
        let mut recipe = recipe("tags = \"v*\"");
        recipe.set_source(dir.path().to_str().expect("UTF-8"));
        let of = |words: &str, every| recipe.revisions(words, every).expect("revisions");
        assert_eq!(names(&of("v0.8..v0.11", 1)), ["v0.8", "v0.9", "v0.10", "v0.11"]);
        assert_eq!(names(&of("v0.7..v0.12", 4)), ["v0.7", "v0.11", "v0.12"]);
        assert_eq!(names(&of("v0.12, v0.7", 1)), ["v0.12", "v0.7"]);
        assert_eq!(names(&of("2024-02-01..2024-04-30", 1)), ["v0.8", "v0.9", "v0.10"]);
        let commits = recipe.commits("v0.8", "HEAD").expect("commits");
        let subjects: Vec<&str> = commits.iter().map(|one| one.subject.as_str()).collect();
        assert_eq!(subjects, ["commit 2", "commit 3", "commit 4", "commit 5", "commit 6"]);
        let aside = recipe.commits("side", "HEAD").expect_err("another branch").to_string();
        assert!(aside.contains("does not come before"), "{aside}");
        assert!(
            recipe.revisions("v0.99", 1).is_err() && recipe.revisions("v0.9..v0.8", 1).is_err()
        );
        let folder = tempfile::tempdir().expect("a folder");
        recipe.extract(&of("v0.9", 1)[0], folder.path()).expect("the sources");
        let file = std::fs::read_to_string(folder.path().join("file")).expect("a file");
        assert_eq!(file, "3\n");
    }

    #[test]
    fn submodules_are_those_of_the_commit() {
        let dir = tempfile::tempdir().expect("a folder");
        run(dir.path(), &format!("mkdir inner outer; cd inner; {COMMITS}"));
        run(
            dir.path(),
            &format!(
                "cd outer; {COMMITS}; git update-index --add --cacheinfo 160000,$(git -C ../inner rev-parse v0.9),sub; git commit -q -m sub"
            ),
        );
        let mut recipe = recipe("");
        recipe.set_source(dir.path().join("outer").to_str().expect("UTF-8"));
        recipe.set_source(&format!("sub={}", dir.path().join("inner").display()));
        let folder = tempfile::tempdir().expect("a folder");
        let head = recipe.revisions("HEAD", 1).expect("a commit");
        recipe.extract(&head[0], folder.path()).expect("the sources");
        let file = std::fs::read_to_string(folder.path().join("sub/file")).expect("a file");
        assert_eq!(file, "3\n");
    }

    #[test]
    fn revisions_of_archives() {
        let dir = tempfile::tempdir().expect("a folder");
        run(
            dir.path(),
            "for n in 9 10rc1 10 11; do mkdir x-1.$n; echo $n >x-1.$n/file; tar -czf x-1.$n.tar.gz x-1.$n; done",
        );
        let mut recipe = recipe("archives = \"x-*.tar.gz\"");
        assert!(
            recipe.revisions("1.9", 1).expect_err("no source").to_string().contains("--repository")
        );
        recipe.set_source(dir.path().to_str().expect("UTF-8"));
        let all = recipe.revisions("1.9..1.11", 1).expect("archives");
        assert_eq!(names(&all), ["1.9", "1.10rc1", "1.10", "1.11"]);
        assert!(all.iter().all(|one| one.commit.len() == 64) && all[0].commit != all[1].commit);
        let error = recipe.revisions("1.9..1.12", 1).expect_err("no such").to_string();
        assert!(
            error.contains("no archive of version `1.12`; it has 1.9, 1.10rc1, 1.10, 1.11"),
            "{error}"
        );
        let folder = tempfile::tempdir().expect("a folder");
        recipe.extract(&all[2], folder.path()).expect("the sources");
        assert!(folder.path().join("x-1.10/file").is_file());
    }

    #[test]
    fn packages_and_programs_are_for_the_commands() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("x_1-2+deb12u1_amd64.deb"), "a package").expect("writes");
        let mut recipe = recipe("archives = \"x_*_amd64.deb\"");
        recipe.set_source(dir.path().to_str().expect("UTF-8"));
        let one = recipe.revisions("1-2+deb12u1", 1).expect("a version");
        assert_eq!(recipe.server_name(&one[0]), "@1-2-deb12u1");
        let folder = tempfile::tempdir().expect("a folder");
        recipe.extract(&one[0], folder.path()).expect("the package");
        let file = folder.path().join("x_1-2+deb12u1_amd64.deb");
        assert_eq!(std::fs::read_to_string(file).expect("a file"), "a package");
    }
}
