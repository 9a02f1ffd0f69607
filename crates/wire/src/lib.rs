//! Bytes of DNS messages, for a load generator and a synthetic server.
//!
//! A general DNS library parses a message into types and builds it back. A measuring tool does not need that on its hot
//! path: every query differs from the last one in a few bytes, and nearly every reply has the same layout. So this
//! crate edits queries in place and checks replies at the offset where the answer must be; all other replies go to a
//! full, bounded parse.
//!
//! ```text
//!   text of the operator          bytes of a message              who uses it
//!   ────────────────────          ──────────────────              ───────────
//!   prefix  pref64  name  rr ──>  edns ──> query                  load: what to send
//!            │        │             │        │
//!         namespace ──┘             │      message ──> reply      load: is it valid?
//!                                   │        │
//!                                   └────> server ──> writer      auth: the query, the answer
//!
//!   what a server tells of its messages
//!   dnstap <──> frame_stream                                      dns64d writes it, trace reads it
//!
//!   what a load balancer puts in front of queries
//!   proxy                                                         dns64d and trace read it
//! ```
//!
//! Absent on purpose: sockets, a clock, global state, `unsafe`, and allocation in code that runs once per query. Every
//! loop over received bytes has a stated bound.

pub mod dnstap;
pub mod edns;
pub mod extend;
pub mod frame_stream;
pub mod message;
pub mod name;
pub mod namespace;
pub mod period;
pub mod pref64;
mod prefix;
pub mod proxy;
pub mod query;
pub mod query_line;
pub mod reply;
pub mod rr;
pub mod server;
pub mod writer;

pub use edns::{Edns, EdnsSeen};
pub use message::Header;
pub use name::order::{LabelRange, LabelRangeError};
pub use name::{Name, NameError};
pub use namespace::Namespace;
pub use pref64::{Pref64, Pref64Error};
pub use prefix::{Ipv4Prefix, Ipv4PrefixError};
pub use query::{QueryTemplate, compose};
pub use reply::{Expect, Invalid};
pub use rr::{Opcode, Qclass, Qtype, Rcode};
pub use server::{Query, QueryError};
pub use writer::{Owner, ReplyWriter};
