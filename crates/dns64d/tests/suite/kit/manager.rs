//! The part of a service manager that keeps sockets, in place of systemd: it receives descriptors with their names over the
//! socket for notifications (sd_pid_notify_with_fds(3)), and passes them to the next server as 3, 4 and so on
//! (sd_listen_fds(3)).

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};

use command_fds::{CommandFdExt, FdMapping};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::fstat;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Most descriptors in one message.
const MOST: usize = 16;

pub(crate) struct Manager {
    dir: tempfile::TempDir,
    kept: Arc<Kept>,
}

/// What it keeps, and the socket over which it hears of more.
struct Kept {
    socket: UnixDatagram,
    /// The descriptors with their names.
    descriptors: Mutex<Vec<(String, OwnedFd)>>,
}

impl Kept {
    /// Returns the descriptors, with those of all messages that have been sent so far.
    fn now(&self) -> MutexGuard<'_, Vec<(String, OwnedFd)>> {
        let mut kept = self.descriptors.lock().expect("no panic");
        while let Some((text, descriptors)) = receive(&self.socket) {
            let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
            let name = line("FDNAME=").unwrap_or("stored").to_owned();
            if line("FDSTOREREMOVE=1").is_some() {
                kept.retain(|(other, _)| *other != name);
            }
            if line("FDSTORE=1").is_some() {
                for descriptor in descriptors {
                    // As systemd does with those that it has already.
                    let inode = |fd: &OwnedFd| fstat(fd).expect("a descriptor").st_ino;
                    let is_new = |kept: &(String, OwnedFd)| inode(&kept.1) != inode(&descriptor);
                    if kept.iter().all(is_new) {
                        kept.push((name.clone(), descriptor));
                    }
                }
            }
        }
        kept
    }
}

impl Manager {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let socket = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
        let kept = Arc::new(Kept { socket, descriptors: Mutex::default() });
        let reader = kept.clone();
        // It ends with the tests. The socket itself holds few messages.
        std::thread::spawn(move || {
            loop {
                let mut sockets = [PollFd::new(reader.socket.as_fd(), PollFlags::POLLIN)];
                poll(&mut sockets, PollTimeout::NONE).expect("a socket");
                drop(reader.now());
            }
        });
        Manager { dir, kept }
    }

    /// Returns the names of the descriptors that it keeps.
    pub(crate) fn names(&self) -> Vec<String> {
        self.kept.now().iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns a descriptor that it keeps.
    pub(crate) fn socket(&self, name: &str) -> OwnedFd {
        let kept = self.kept.now();
        let (_, socket) = kept.iter().find(|(other, _)| other == name).expect("it is kept");
        socket.try_clone().expect("a descriptor")
    }

    /// Keeps another descriptor, as one of a socket unit.
    pub(crate) fn add(&self, name: &str, descriptor: OwnedFd) {
        self.kept.now().push((name.to_owned(), descriptor));
    }

    /// Passes all descriptors to a server that is to be started.
    pub(crate) fn prepare(&self, command: &mut Command) {
        let kept = self.kept.now();
        let (names, mappings): (Vec<&str>, Vec<FdMapping>) = kept
            .iter()
            .zip(3..)
            .map(|((name, descriptor), child_fd)| {
                let parent_fd = descriptor.try_clone().expect("a descriptor");
                (name.as_str(), FdMapping { parent_fd, child_fd })
            })
            .unzip();
        command
            .env("NOTIFY_SOCKET", self.notify())
            .env("LISTEN_FDS", names.len().to_string())
            .env("LISTEN_FDNAMES", names.join(":"))
            .fd_mappings(mappings)
            .expect("each descriptor has a number of its own");
    }

    fn notify(&self) -> PathBuf {
        self.dir.path().join("notify")
    }
}

/// Receives a message and its descriptors, if there is one.
fn receive(socket: &UnixDatagram) -> Option<(String, Vec<OwnedFd>)> {
    let mut room = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut room)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let len = match recvmsg(socket, parts, &mut control, flags) {
        Ok(received) => received.bytes,
        Err(Errno::AGAIN) => return None,
        Err(error) => panic!("{error}"),
    };
    let descriptors = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let descriptors = descriptors.collect();
    Some((String::from_utf8_lossy(&room[..len]).into_owned(), descriptors))
}
