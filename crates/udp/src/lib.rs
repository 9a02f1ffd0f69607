//! Batched UDP sockets.
//!
//! | feature | kernel option | what it saves |
//! |---|---|---|
//! | many messages in one call | `sendmmsg(2)`, `recvmmsg(2)` | a system call per datagram |
//! | segmentation offload | `UDP_SEGMENT` | network stack work per sent datagram |
//! | receive coalescing | `UDP_GRO` | network stack work per received datagram |
//! | receive timestamps | `SO_TIMESTAMPNS` | waiting time in the queue, which latencies would include |
//! | drop counts | `SO_MEMINFO` | estimates: exact at any time, while `SO_RXQ_OVFL` comes only with the next datagram |
//! | large buffers | `SO_RCVBUFFORCE`, `SO_SNDBUFFORCE` | drops in bursts |
//! | destination address | `IP_PKTINFO`, `IPV6_PKTINFO` | a socket per address for wildcard binds |
//!
//! Each feature is probed when a socket is opened, left out if the kernel lacks it, and can be switched off.
//! If segmentation fails at run time (`EIO`, `EINVAL`, `EMSGSIZE`: the device does not support it), it is
//! switched off permanently, and the datagrams are sent one by one.
//!
//! ```text
//!   socket    one socket: options, probes, errors that name the address
//!   ready     sockets with datagrams: a sweep over few sockets, epoll over many
//!   receive   recvmmsg, frames from ancillary data       cmsg     ancillary data
//!   send      sendmmsg, errors, retries                 address  socket addresses
//!   sockets   the sockets of one worker                 options  requested and active options
//!   doorbell  lets another thread end a wait
//!   stamp     converts timestamps to the engine's clock
//! ```
//!
//! Beside the engine: `capture` (packet sockets), `icmp6` (router advertisements and echo replies), `netlink` (devices and routes),
//! `sys` (a worker's core, timers and open files; what runs on cores),
//! `processes` (what processes ran, and whose a socket is), and
//! `core_speed` (how fast a core is). Each `unsafe` here is a system call, or a structure that one reads or writes.

mod address;
pub mod capture;
mod cmsg;
pub mod core_speed;
mod doorbell;
pub mod icmp6;
pub mod netlink;
mod options;
pub mod processes;
mod ready;
mod receive;
mod send;
mod socket;
mod sockets;
mod stamp;
pub mod sys;

pub use doorbell::Doorbell;
pub use options::{UdpFacts, UdpOptions};
pub use socket::Prepare;
pub use sockets::{MAX_SOCKETS, UdpEngine, sources};
