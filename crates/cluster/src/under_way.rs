//! Messages in transfer: MPI reads their octets until the receiver has them, which may be never.
//!
//! A send that waits, buffered or not, hangs in Open MPI for ever if the receiver has died: the conductor would end with the first
//! Tester. The octets of such a message stay until the process ends.
#![allow(unsafe_code)]

use mpi::request::{Request, StaticScope};
use mpi::topology::Process;
use mpi::traits::*;

/// Messages that are being sent, in the order of their sending.
#[derive(Default)]
pub(crate) struct UnderWay(Vec<PendingSend>);

struct PendingSend {
    request: Request<'static, [u8], StaticScope>,
    /// The octets that the request reads, from a box.
    octets: *mut [u8],
}

impl UnderWay {
    /// Sends a message, and never waits.
    pub(crate) fn send(&mut self, to: &Process<'_>, message: &[u8], tag: i32) {
        let octets = Box::into_raw(Box::<[u8]>::from(message));
        // SAFETY: `free_sent` alone frees the octets, after the request has ended, and nothing
        // writes to them.
        let lasting: &'static [u8] = unsafe { &*octets };
        let request = to.immediate_send_with_tag(StaticScope, lasting, tag);
        self.0.push(PendingSend { request, octets });
        self.free_sent();
    }

    /// Frees the messages that were sent; returns whether all messages were sent.
    pub(crate) fn free_sent(&mut self) -> bool {
        for PendingSend { request, octets } in std::mem::take(&mut self.0) {
            match request.test() {
                // SAFETY: the octets come from a box, MPI no longer reads them, and the reference
                // of `send` went with the request.
                Ok(_) => drop(unsafe { Box::from_raw(octets) }),
                Err(request) => self.0.push(PendingSend { request, octets }),
            }
        }
        self.0.is_empty()
    }
}
