//! The sandbox of one build: a process with its own namespaces that runs the commands of a recipe.
//!
//! It has no network, and can write only below the folder of the build. It ends with the process that started it, when its time is over,
//! or when its files are too large; with it the kernel ends all that it has started (they are in its pid namespace). It protects the host from
//! accidents, such as a build that downloads or installs something; it is no protection from sources that mean harm.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sys::resource::{Resource, setrlimit};

use super::Recipe;
use crate::testbed::enter::{Entered, enter, exit_code};

/// Name of the hidden command that runs a build.
pub const BUILD_COMMAND: &str = "__build";
/// File with the commands, in the folder of the build.
pub(super) const SCRIPT: &str = "build.sh";
/// Exit code: the time was over.
const TIMED_OUT: u8 = 124;
/// Exit code: the files were too large.
const TOO_LARGE: u8 = 123;
/// Exit code: the sandbox could not be made.
const EXIT_REFUSED: u8 = 122;
/// Interval between checks of the running commands.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval between checks of the size of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Returns why a build failed, from the exit code of the hidden command; `None` if it did not.
pub(super) fn failure(status: ExitStatus, recipe: &Recipe) -> Option<String> {
    match exit_code(status) {
        0 => None,
        TIMED_OUT => Some(format!("the build took longer than {:?}", recipe.timeout)),
        TOO_LARGE => Some(format!("the build needs more than {} MB", recipe.most_mb)),
        EXIT_REFUSED => Some("the sandbox could not be made".to_owned()),
        code => Some(format!("the build failed with exit code {code}")),
    }
}

/// Runs the build of a folder (arguments: folder, seconds, megabytes); returns the exit code.
pub fn sandbox_main(args: impl IntoIterator<Item = OsString>) -> u8 {
    let mut args = args.into_iter();
    let dir = PathBuf::from(args.next().unwrap_or_default());
    let mut number = || args.next()?.to_str()?.parse::<u64>().ok();
    let (Some(seconds), Some(megabytes)) = (number(), number()) else {
        eprintln!("{BUILD_COMMAND} is the lab's own command and not for direct use");
        return EXIT_REFUSED;
    };
    let done = match enter() {
        Ok(Entered::Outside(code)) => return code,
        Ok(Entered::Inside(lab)) => {
            run(&dir, seconds, megabytes, || lab.interrupted().load(Ordering::Relaxed))
        }
        Err(e) => Err(io::Error::other(e.to_string())),
    };
    done.unwrap_or_else(|e| {
        eprintln!("the sandbox: {e}");
        EXIT_REFUSED
    })
}

fn run(dir: &Path, seconds: u64, megabytes: u64, stopped: impl Fn() -> bool) -> io::Result<u8> {
    protect(dir)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    setrlimit(Resource::RLIMIT_FSIZE, megabytes << 20, megabytes << 20)?;
    let home = dir.join("home");
    let kept = ["PATH", "HOST_HOME", "RUSTUP_HOME", "PREFIX", "REVISION", "JOBS"];
    let kept = kept.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut child = Command::new("sh")
        .arg(dir.join(SCRIPT))
        .current_dir(only_folder(dir.join("source")))
        .env_clear()
        .envs(kept)
        .envs([("HOME", &home), ("TMPDIR", &home)])
        .env("LANG", "C.UTF-8")
        .spawn()?;
    let (began, mut looked) = (Instant::now(), Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(exit_code(status));
        }
        if began.elapsed() >= Duration::from_secs(seconds) {
            return Ok(TIMED_OUT);
        }
        if looked.elapsed() >= CHECK_INTERVAL {
            looked = Instant::now();
            if size(dir) > megabytes << 20 {
                return Ok(TOO_LARGE);
            }
        }
        if stopped() {
            return Ok(130);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Makes all of the host's file systems read-only for this process and its children, except `dir`.
fn protect(dir: &Path) -> io::Result<()> {
    let none = None::<&str>;
    mount(Some(dir), dir, none, MsFlags::MS_BIND, none)?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let (Some(point), Some(options)) = (fields.get(4), fields.get(5)) else { continue };
        let point = PathBuf::from(unescaped(point));
        if point == dir || point.starts_with("/proc") || options.split(',').any(|o| o == "ro") {
            continue;
        }
        // The kernel locks these options of a mount inherited by this user.
        let locked = options.split(',').filter_map(|option| match option {
            "nosuid" => Some(MsFlags::MS_NOSUID),
            "nodev" => Some(MsFlags::MS_NODEV),
            "noexec" => Some(MsFlags::MS_NOEXEC),
            "noatime" => Some(MsFlags::MS_NOATIME),
            "nodiratime" => Some(MsFlags::MS_NODIRATIME),
            "relatime" => Some(MsFlags::MS_RELATIME),
            _ => None,
        });
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
        let flags = locked.fold(flags, |flags, locked| flags | locked);
        match mount(none, &point, none, flags, none) {
            // Another mount may hide it.
            Err(e) if point == Path::new("/") => return Err(e.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Returns a path of `mountinfo` without its octal escapes.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

/// Returns the folder of the sources: archives have them in a folder of their own.
fn only_folder(dir: PathBuf) -> PathBuf {
    let mut entries = fs::read_dir(&dir).into_iter().flatten().flatten();
    match (entries.next(), entries.next()) {
        (Some(only), None) if only.path().is_dir() => only_folder(only.path()),
        _ => dir,
    }
}

/// Returns the size of the files of a folder, in octets.
fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}
