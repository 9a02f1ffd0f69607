//! Captures of DNS traffic: characterised, filtered, anonymised, turned into workloads.
//!
//! ```text
//! file, pipe ──source──> bytes ──capture──> frames ──packet──> packets ──fragments, tcp──> messages ──> stats
//!              gzip, zstd, xz    pcap, pcapng   link, IP, UDP, TCP     whole again            │         filter
//!                                                                                             └─dns──>  queries ...
//! ```
//!
//! One pass, whatever the length of the capture: every table has a bound, every walk over foreign bytes too. What
//! cannot be read is counted by kind and passed over; a capture that is cut or damaged gives what stands before that.
//!
//! What is absent on purpose: no sockets and no clock. A live interface is a source like any other: a packet socket
//! (`udp::capture`), or tcpdump through a pipe.

pub mod anonymise;
pub mod capture;
pub mod dns;
pub mod export;
mod fragments;
pub mod messages;
mod packet;
pub mod select;
pub mod source;
pub mod stats;
mod tcp;
pub mod transactions;
pub mod transfers;
pub mod write;

pub use anonymise::Anonymiser;
pub use capture::{Capture, CaptureError, Frame};
pub use dns::Dns;
pub use messages::{Counts, Message, Messages, Transport};
pub use select::{Select, Ways};
pub use stats::Stats;
pub use tcp::TcpCounts;
pub use write::Writer;
