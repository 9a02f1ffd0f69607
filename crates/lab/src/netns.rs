//! Network namespaces without names: held by a descriptor, gone with the last process that holds it.

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
    /// Whether this process is in it: there is nothing to enter, and an ordinary user could not.
    own: bool,
}

impl Namespace {
    /// A new network namespace, empty but for its loopback; `name` is for messages only.
    ///
    /// # Errors
    /// What the kernel says; EPERM outside the lab.
    pub fn create(name: &'static str) -> io::Result<Self> {
        // A namespace belongs to a thread: one that lives just long enough to take hold of it.
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        Ok(Self { name, file: join(made.join())??, own: false })
    }

    /// The one that this process is in.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn own() -> io::Result<Self> {
        Ok(Self { name: "own", file: File::open("/proc/thread-self/ns/net")?, own: true })
    }

    /// What the namespace is called in messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The descriptor that holds it.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// A path under which a child of this process can open it (not inherited: close-on-exec stays set);
    /// empty where the child is in it already.
    pub(crate) fn path(&self) -> PathBuf {
        if self.own {
            return PathBuf::new();
        }
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Runs `work` on a thread of its own inside the namespace; sockets it opens stay there.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
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

/// A panic of a namespace's thread as an error.
fn join<T>(result: std::thread::Result<T>) -> io::Result<T> {
    result.map_err(|_| io::Error::other("the namespace's thread panicked"))
}
