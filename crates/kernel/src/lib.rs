//! The kernel path: BPF programs (XDP) that answer DNS queries before a socket sees them.
//!
//! ```text
//!   network device ──> XDP program ──> reply, at once                    bpf/*.bpf.c, committed as bpf/*.bpf.o
//!                          └─ all else ──> sockets, as without it
//! ```
//!
//! `auth` stands in for the AuthDNS, `cache` for the cache of dns64d, `resolver` for its plain
//! resolution too; `packet.h` has the frame layout for all, `cache.h` what the last two know of
//! answers.
//!
//! A program and its maps are loaded from an object that is part of this binary, so that no compiler is needed; a test
//! compiles the sources again where clang is installed and compares. What is attached is owned by the process: when it ends,
//! however it ends, the kernel detaches it, unless it is to stay (`attached`).
//!
//! Linux 6.1 or newer, and the right to load programs (root, or CAP_BPF and CAP_NET_ADMIN in the first user namespace).

mod answers;
mod attached;
mod auth;
mod cache;
mod draws;
mod error;
mod left;
mod program;
mod records;
mod resolver;
mod run_time;
mod shared;
mod stored;
pub mod tester;

pub use self::auth::{KernelAuth, KernelCounters, Listen};
pub use answers::AnswerMap;
pub use cache::{
    CacheCounters, ClientNetwork, CounterMap, KernelCache, KernelResolver, ReplyLimits, Serving,
};
pub use draws::{Draw, ResolverDraws};
pub use error::KernelError;
pub use left::clear_left;
pub use program::XdpMode;
pub use resolver::{
    Embedding, HandedQuery, MAX_BLOCKS, MAX_RULES, Resolved, ResolverCounters, ResolverRules,
    ResolverWork, Rules, Upstream,
};
pub use run_time::{RunCost, RunStatistics, RunTime, programs_on_devices, run_cost};
pub use stored::{EncodedAnswer, Stored};
pub use tester::KernelTester;
