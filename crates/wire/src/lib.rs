//! Bytes of DNS messages, as a load generator and a synthetic server need them.
//!
//! A general DNS library parses a message into types and builds it back. A measuring tool does neither on its hot
//! path: every query differs from the last one in a few bytes, and nearly every reply has the same layout. So this
//! crate edits queries in place and judges replies by looking where the answer has to be, and falls back to a full,
//! bounded parse for everything else.
//!
//! ```text
//!   text of the operator          bytes of a message              who uses it
//!   ────────────────────          ──────────────────              ───────────
//!   prefix  pref64  name  rr ──>  edns ──> query                  load: what to send
//!            │        │             │        │
//!         namespace ──┘             │      message ──> reply      load: was it right?
//!                                   │        │
//!                                   └────> server ──> writer      auth: what was asked, what to say
//! ```
//!
//! What is absent on purpose: no sockets, no clock, no global state, no `unsafe`, and no allocation in anything that
//! runs once per query. Every walk over foreign bytes has a stated bound.

pub mod edns;
pub mod extend;
pub mod message;
pub mod name;
pub mod namespace;
pub mod pref64;
pub mod prefix;
pub mod query;
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
