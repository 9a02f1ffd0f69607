//! Captures of DNS traffic: statistics, filters, anonymisation, conversion to workloads.
//!
//! ```text
//! file, pipe ──source──> bytes ──capture──> frames ──packet──> packets ──fragments, tcp──> messages ──> stats
//!              gzip, zstd, xz, lz4  pcap, pcapng, snoop   link, IP, UDP, TCP     whole again  ^         │         filter
//!                                   dnstap    └────────────────tap────────────────────────────┘└─dns──>  queries, populations ...
//! ```
//!
//! Each capture is read once, in constant memory: every table, and every loop over captured bytes, has a bound.
//! Unreadable packets are counted by kind and skipped; a capture that is cut short or damaged gives the part before
//! that.
//!
//! Absent on purpose: sockets and a clock. A live interface is a source like any other: a packet socket
//! (`udp::capture`), or tcpdump through a pipe; so are servers that write dnstap to a socket.

pub mod anonymise;
mod capture;
mod dns;
pub mod exchanges;
pub mod export;
mod fragments;
mod messages;
pub mod options;
mod packet;
mod pairs;
pub mod population;
mod select;
mod served;
pub mod source;
pub mod stats;
mod tap;
mod tcp;
pub mod transactions;
pub mod transfers;
mod write;

pub use anonymise::Anonymiser;
pub use capture::{Capture, CaptureError, Frame, Frames, Merge};
pub use dns::{Dns, Question};
pub use messages::{Message, Messages, Transport};
pub use select::{Cut, Select, Ways};
pub use served::Served;
pub use stats::Stats;
pub use write::Writer;
