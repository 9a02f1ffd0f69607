//! A root directory with a few Debian packages and nothing else, made of files of this host, so that no mirror is needed.
//!
//! ```text
//! /var/lib/dpkg/status ──> essential packages, wanted ones, what they depend on
//!      info/*.list     ──> their files, copied
//!                      ──> a list of installed packages that has only these
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where Debian's dpkg keeps its lists.
const DPKG: &str = "/var/lib/dpkg";
/// Files that nobody needs who runs a program.
const LEFT_OUT: [&str; 4] =
    ["/usr/share/doc/", "/usr/share/locale/", "/usr/share/man/", "/usr/share/info/"];
/// Files without a package that its programs need.
const OWNED_BY_NONE: [&str; 4] =
    ["/etc/passwd", "/etc/group", "/etc/alternatives", "/etc/ld.so.conf"];

/// A root directory; it is removed when dropped.
pub(crate) struct CleanRoot {
    dir: tempfile::TempDir,
}

struct Installed<'a> {
    paragraph: &'a str,
    name: &'a str,
}

impl<'a> Installed<'a> {
    fn of(paragraph: &'a str) -> Option<Self> {
        let name = field(paragraph, "Package")?;
        (field(paragraph, "Status")? == "install ok installed")
            .then_some(Installed { paragraph, name })
    }

    /// Returns the packages that must be there too: of each alternative the first that is installed.
    fn needs(&self, providers: &BTreeMap<&'a str, usize>) -> Vec<usize> {
        let fields = ["Pre-Depends", "Depends"].into_iter();
        let all =
            fields.filter_map(|name| field(self.paragraph, name)).flat_map(|of| of.split(','));
        let one = |choice: &'a str| providers.get(plain(choice)).copied();
        all.filter_map(|choices| choices.split('|').find_map(one)).collect()
    }

    /// Returns the files of dpkg about the package, without the ending.
    fn stem(&self) -> String {
        let of_architecture =
            format!("{}:{}", self.name, field(self.paragraph, "Architecture").unwrap_or_default());
        let is_there = |stem: &String| Path::new(DPKG).join(format!("info/{stem}.list")).exists();
        Some(of_architecture).filter(is_there).unwrap_or_else(|| self.name.to_owned())
    }
}

/// Returns a field of a paragraph, if it is on one line.
fn field<'a>(paragraph: &'a str, name: &str) -> Option<&'a str> {
    paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Returns a package's name without its version and its architecture.
fn plain(dependency: &str) -> &str {
    let name = dependency.trim().split([' ', '(']).next().unwrap_or_default();
    name.split(':').next().unwrap_or_default()
}

impl CleanRoot {
    /// Makes a root with the essential packages, those named, and all that they depend on.
    ///
    /// # Errors
    /// If this is no Debian system, or one of them is not installed here.
    pub(crate) fn new(wanted: &[&str]) -> Result<Self, String> {
        let status =
            fs::read_to_string(format!("{DPKG}/status")).map_err(|e| format!("{DPKG}: {e}"))?;
        let all: Vec<Installed<'_>> = status.split("\n\n").filter_map(Installed::of).collect();
        let mut providers = BTreeMap::new();
        for (i, package) in all.iter().enumerate() {
            for provided in field(package.paragraph, "Provides").unwrap_or_default().split(',') {
                providers.entry(plain(provided)).or_insert(i);
            }
        }
        providers.extend(all.iter().enumerate().map(|(i, package)| (package.name, i)));
        let mut open: Vec<usize> = (0..all.len())
            .filter(|i| field(all[*i].paragraph, "Essential") == Some("yes"))
            .collect();
        for name in wanted {
            let missing = || format!("the package {name} is not installed");
            open.push(*providers.get(name).ok_or_else(missing)?);
        }
        let mut chosen = BTreeSet::new();
        while let Some(i) = open.pop() {
            if chosen.insert(i) {
                open.extend(all[i].needs(&providers));
            }
        }
        let chosen: Vec<&Installed<'_>> = chosen.into_iter().map(|i| &all[i]).collect();
        let root = CleanRoot { dir: tempfile::tempdir().map_err(|e| e.to_string())? };
        root.copy_files(&chosen).and_then(|()| root.list(&chosen)).map_err(|e| e.to_string())?;
        Ok(root)
    }

    /// Returns a path inside the root.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.dir.path().join(inside)
    }

    /// Copies the files of packages.
    fn copy_files(&self, packages: &[&Installed<'_>]) -> std::io::Result<()> {
        // /bin and others are links into /usr, and some lists have files below them.
        for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
            if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
                fs::create_dir_all(self.dir.path().join(&target))?;
                symlink(target, self.path(name))?;
            }
        }
        let mut paths = String::new();
        for package in packages {
            let list = fs::read_to_string(format!("{DPKG}/info/{}.list", package.stem()))?;
            for path in list.lines().filter(|path| path.matches('/').count() > 1 || *path == "/etc")
            {
                if !LEFT_OUT.iter().any(|folder| path.starts_with(folder)) {
                    paths += &format!(".{path}\n");
                }
            }
        }
        let list = self.path("files");
        fs::write(&list, paths)?;
        let script = "tar -C / -c --no-recursion --ignore-failed-read --warning=none -T \"$0/files\" | tar -C \"$0\" -x && \
                      for path in $1; do mkdir -p \"$0$(dirname $path)\" && cp -a $path \"$0$path\"; done; \
                      mkdir -p \"$0/proc\" \"$0/dev\" \"$0/run\" \"$0/tmp\" && chmod 1777 \"$0/tmp\" && ldconfig -r \"$0\"";
        let mut copy = Command::new("sh");
        copy.args(["-c", script]).arg(self.dir.path()).arg(OWNED_BY_NONE.join(" "));
        let copied = copy.stdin(Stdio::null()).output()?;
        fs::remove_file(list)?;
        match copied.status.success() {
            true => Ok(()),
            false => {
                Err(std::io::Error::other(String::from_utf8_lossy(&copied.stderr).into_owned()))
            }
        }
    }

    /// Writes dpkg's list of the packages.
    fn list(&self, packages: &[&Installed<'_>]) -> std::io::Result<()> {
        let folder = self.path("var/lib/dpkg");
        for part in ["info", "updates", "triggers", "alternatives"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let paragraphs: Vec<&str> =
            packages.iter().map(|package| package.paragraph.trim()).collect();
        fs::write(folder.join("status"), paragraphs.join("\n\n") + "\n")?;
        let stems: BTreeSet<String> = packages.iter().map(|package| package.stem()).collect();
        for entry in fs::read_dir(format!("{DPKG}/info"))? {
            let path = entry?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if stems.contains(&stem) || stem == "format" {
                fs::copy(&path, folder.join("info").join(path.file_name().unwrap_or_default()))?;
            }
        }
        Ok(())
    }

    /// Returns a command that runs a shell script in the root, with processes, a network and mounts of its own.
    pub(crate) fn script(&self, script: &str) -> Command {
        let enter = "mount --bind \"$0\" \"$0\" && mount -t proc proc \"$0/proc\" && mount --rbind /dev \"$0/dev\" && mount -t tmpfs tmpfs \"$0/run\" && \
                     ip link set lo up && exec env -i PATH=/usr/sbin:/usr/bin HOME=/root chroot \"$0\" /bin/sh -euc \"$1\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--net", "sh", "-c", enter]);
        command.arg(self.dir.path()).arg(script).stdin(Stdio::null());
        command
    }
}
