//! Network namespaces without names: a descriptor holds each, and it ends with the last process that uses it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace of this process.
#[derive(Debug)]
pub struct Namespace {
    name: &'static str,
    file: File,
    /// Whether this process is in the namespace already, so that it need not enter it.
    own: bool,
}

impl Namespace {
    /// Makes a new network namespace, empty except for its loopback; `name` is for messages only.
    ///
    /// # Errors
    /// The error of the kernel; EPERM outside the lab.
    pub fn create(name: &'static str) -> io::Result<Self> {
        // A namespace belongs to a thread; this thread ends once it is open.
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        Ok(Self { name, file: join(made.join())??, own: false })
    }

    /// Returns the namespace of this process.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn own() -> io::Result<Self> {
        Ok(Self { name: "own", file: File::open("/proc/thread-self/ns/net")?, own: true })
    }

    /// Returns whether this process is in the namespace.
    pub(crate) fn is_own(&self) -> bool {
        self.own
    }

    /// Returns the name for messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the descriptor that keeps the namespace alive.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns a path under which a child of this process can open the namespace (not inherited:
    /// close-on-exec stays set); empty if the child is in it already.
    pub(crate) fn path(&self) -> PathBuf {
        if self.own {
            return PathBuf::new();
        }
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Runs `work` on a thread inside the namespace; the sockets it opens stay there.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                if !self.own {
                    setns(&self.file, CloneFlags::CLONE_NEWNET)?;
                }
                Ok(work())
            });
            join(inside.join())?
        })
    }
}

/// Converts a panic of a namespace's thread to an error.
fn join<T>(result: std::thread::Result<T>) -> io::Result<T> {
    result.map_err(|_| io::Error::other("the namespace's thread panicked"))
}
