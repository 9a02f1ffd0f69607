//! Pipes to a program that must not be in the lab: the process outside starts it with the user's own rights, and the process
//! inside inherits the pipes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::close;
use serde::{Deserialize, Serialize};

/// The numbers of two inherited pipes: to the program's standard input, and from its standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pipes {
    input: RawFd,
    output: RawFd,
}

impl Pipes {
    /// Lets the next process that is started inherit two pipes.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) fn pass(input: &impl AsFd, output: &impl AsFd) -> io::Result<Self> {
        fcntl(input, FcntlArg::F_SETFD(FdFlag::empty()))?;
        fcntl(output, FcntlArg::F_SETFD(FdFlag::empty()))?;
        Ok(Pipes { input: input.as_fd().as_raw_fd(), output: output.as_fd().as_raw_fd() })
    }

    /// Opens the inherited pipes. Bare numbers would be inherited by every process of the lab too, so they are opened again.
    ///
    /// # Errors
    /// If they are not there.
    pub(crate) fn take(self) -> io::Result<(File, File)> {
        let path = |fd: RawFd| format!("/proc/self/fd/{fd}");
        let input = OpenOptions::new().write(true).open(path(self.input))?;
        let output = File::open(path(self.output))?;
        for (inherited, own) in [(self.input, &input), (self.output, &output)] {
            if inherited != own.as_raw_fd() && fs::read_link(path(inherited)).is_ok() {
                close(inherited)?;
            }
        }
        Ok((input, output))
    }
}
