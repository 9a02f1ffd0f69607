//! Programs that stay on a device after the end of their process, and what is left there of a process that has ended.
//!
//! A program that is attached by a link of BPF ([`Loaded::attach`](crate::program::Loaded::attach)) goes with its process. One that
//! is attached over netlink stays until another one takes its place, or until somebody removes it (`ip link set DEVICE xdp off`). A
//! process that may attach to a device of its own has a name in the network namespace, so that its successor knows whether the
//! program there is one that was left:
//!
//! ```text
//!   Place::of ──> abstract socket, as long as the process lives
//!      └────────> program on the device, of our name, without a living owner ──> replaced or removed
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use aya::programs::{ProgramFd, loaded_programs};
use netlink_packet_core::NLM_F_ACK;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage, LinkXdp};
use nix::net::if_::if_nametoindex;

use crate::tester::ask;

/// Flags of an attachment (linux/if_link.h): only if there is no program, in the native mode, in place of an expected one.
const IF_NONE: u32 = 1;
const NATIVE: u32 = 1 << 2;
const REPLACE: u32 = 1 << 4;
/// File descriptor that stands for no program.
const NO_PROGRAM: i32 = -1;

/// A device of this process.
#[derive(Debug)]
pub(crate) struct Place {
    index: u32,
    /// The sign that this process lives; `None` if another one has the device.
    sign: Option<UnixDatagram>,
}

impl Place {
    /// Takes a device, for programs of a name.
    ///
    /// # Errors
    /// If there is no such device.
    pub(crate) fn of(device: &str) -> io::Result<Self> {
        let index = if_nametoindex(device)?;
        let name = SocketAddr::from_abstract_name(format!("dnsdyno/xdp/{index}"))?;
        Ok(Place { index, sign: UnixDatagram::bind_addr(&name).ok() })
    }

    /// Removes a program of this name that an ended process has left.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) fn clear(&self, name: &str) -> io::Result<()> {
        match self.left(name)? {
            Some(left) => self.set(None, Some(left.as_fd())),
            None => Ok(()),
        }
    }

    /// Returns whether this user may look up programs, of which there is one at least.
    pub(crate) fn may_look_up() -> bool {
        matches!(loaded_programs().next(), Some(Ok(_)))
    }

    /// Attaches a program of this name so that it stays, in place of one that an ended process has left.
    ///
    /// # Errors
    /// If the device has no native mode, or another program.
    pub(crate) fn attach(&self, name: &str, program: &ProgramFd) -> io::Result<()> {
        let left = self.left(name)?;
        self.set(Some(program.as_fd()), left.as_ref().map(AsFd::as_fd))
    }

    /// Returns the program of this name that an ended process has left. Only root can look it up.
    fn left(&self, name: &str) -> io::Result<Option<ProgramFd>> {
        if self.sign.is_none() {
            return Ok(None);
        }
        let Some(id) = self.program()? else { return Ok(None) };
        let mut programs = loaded_programs().filter_map(Result::ok);
        let left = programs.find(|p| p.id() == id && p.name_as_str() == Some(name));
        Ok(left.and_then(|left| left.fd().ok()))
    }

    /// Returns the number of the program on the device.
    fn program(&self) -> io::Result<Option<u32>> {
        let mut found = None;
        ask(RouteNetlinkMessage::GetLink(self.message(Vec::new())), 0, |message| {
            let RouteNetlinkMessage::NewLink(link) = message else { return };
            for attribute in &link.attributes {
                let LinkAttribute::Xdp(parts) = attribute else { continue };
                found = found.or(parts.iter().find_map(|part| match part {
                    LinkXdp::ProgId(id) => Some(*id),
                    _ => None,
                }));
            }
        })?;
        Ok(found)
    }

    /// Attaches a program, or none, in place of another one, or of none.
    fn set(
        &self,
        program: Option<BorrowedFd<'_>>,
        expected: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let mut parts = vec![LinkXdp::Fd(program.map_or(NO_PROGRAM, |fd| fd.as_raw_fd()))];
        let flags = match expected {
            Some(fd) => {
                parts.push(LinkXdp::ExpectedFd(fd.as_raw_fd() as u32));
                REPLACE
            }
            None => IF_NONE,
        };
        parts.push(LinkXdp::Flags(NATIVE | flags));
        let message = self.message(vec![LinkAttribute::Xdp(parts)]);
        ask(RouteNetlinkMessage::SetLink(message), NLM_F_ACK, |_| ())
    }

    fn message(&self, attributes: Vec<LinkAttribute>) -> LinkMessage {
        let mut message = LinkMessage::default();
        message.header.index = self.index;
        message.attributes = attributes;
        message
    }
}
