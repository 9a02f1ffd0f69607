//! The kernel path: BPF programs (XDP) that answer DNS queries before a socket sees them.
//!
//! ```text
//!   network device ──> XDP program ──> reply, at once                    bpf/*.bpf.c, committed as bpf/*.bpf.o
//!                          └─ all else ──> sockets, as without it
//! ```
//!
//! `auth` stands in for the AuthDNS, `cache` for the cache of dns64d; `packet.h` is what both know of frames.
//!
//! A program and its maps are loaded from an object that is part of this binary, so that no compiler is needed; a test
//! compiles the sources again where clang is installed and compares. What is attached is owned by the process: when it ends,
//! however it ends, the kernel detaches it.
//!
//! Linux 6.1 or newer, and the right to load programs (root, or CAP_BPF and CAP_NET_ADMIN in the first user namespace).

mod auth;
mod cache;
mod error;
mod layout;
mod program;
pub mod tester;

pub use self::auth::{KernelAuth, KernelCounters, Listen};
pub use cache::{
    ANSWER_MEMORY, AnswerMap, CacheCounters, ClientNetwork, CounterMap, Encoded, KernelCache,
    Serving, Stored,
};
pub use error::KernelError;
pub use tester::KernelTester;
