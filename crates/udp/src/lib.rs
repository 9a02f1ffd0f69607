//! Batched UDP sockets.
//!
//! | feature | kernel option | what it saves |
//! |---|---|---|
//! | many messages a call | `sendmmsg(2)`, `recvmmsg(2)` | a system call per datagram |
//! | segmentation offload | `UDP_SEGMENT` | a walk through the stack per datagram sent |
//! | receive coalescing | `UDP_GRO` | a walk through the stack per datagram received |
//! | receive stamps | `SO_TIMESTAMPNS` | the wait in the queue, in latencies |
//! | drop counts | `SO_MEMINFO` | guessing; exact at any time, where `SO_RXQ_OVFL` speaks only with the next datagram |
//! | large buffers | `SO_RCVBUFFORCE`, `SO_SNDBUFFORCE` | drops in bursts |
//! | the address asked | `IP_PKTINFO`, `IPV6_PKTINFO` | a socket per address for wildcard binds |
//!
//! Each is probed when a socket is made, is left out where the kernel lacks it, and can be switched
//! off. Segmentation that fails at run time (`EIO`, `EINVAL`, `EMSGSIZE`: a device that cannot) is
//! switched off for good and the datagrams are sent one by one.
//!
//! ```text
//!   socket    one socket: options, probes, errors that name the address
//!   ready     which sockets have something: a sweep over few, epoll over many
//!   receive   recvmmsg, ancillary data to frames        cmsg     ancillary data
//!   send      sendmmsg, errors, retries                 address  socket addresses
//!   sockets   the sockets of one worker                       options  what is asked, what is in force
//!   doorbell  another thread ends a wait
//!   stamp     the wall clock of stamps to the engine's clock
//! ```
//!
//! Beside the engine: `capture` (packet sockets) and `sys` (a worker's core, timers and open files). Each `unsafe` here
//! is a system call, or a structure that one reads or writes.

mod address;
pub mod capture;
mod cmsg;
mod doorbell;

mod options;
mod ready;
mod receive;
mod send;
mod socket;
mod sockets;
mod stamp;
pub mod sys;

pub use doorbell::Doorbell;
pub use options::{UdpFacts, UdpOptions};
pub use sockets::{MAX_SOCKETS, UdpEngine, sources};
