//! Plan of a load by the kernel.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use measure::{Nanos, Pacing};
use wire::Pref64;
use wire::message::HEADER;

use super::list::QuestionList;
use super::route::Route;

/// Largest number of slots of a worker, as a power of two: 64 MiB of the kernel's memory.
const MAX_SLOT_BITS: u32 = 22;
/// Smallest number of slots of a worker, as a power of two.
const MIN_SLOT_BITS: u32 = 16;
/// Queries whose slots are not used again, as a multiple of the queries sent within one timeout.
const TIMEOUTS: f64 = 4.0;
/// Largest number of source ports over all workers.
pub(crate) const MAX_PORTS: u32 = 1 << 14;

/// A load by the kernel.
#[derive(Clone, Debug)]
pub struct TesterPlan {
    /// Address and port of the server.
    pub target: SocketAddr,
    /// Device and hardware addresses of the frames to it.
    pub route: Route,
    /// Source addresses: a single one, or addresses that are assigned to the ports in turn.
    pub sources: Vec<IpAddr>,
    /// Questions of the queries: names of a namespace, or a list.
    pub questions: Questions,
    /// Replies that the kernel checks; all others are passed to user space.
    pub expect: PlainReply,
    /// Schedule: constant or Poisson, or the window of a closed loop with a highest rate or without.
    pub pacing: Pacing,
    /// Whether queries of a closed loop keep their places until their timeout.
    pub keep_places: bool,
    /// Time for which queries are due.
    pub duration: Nanos,
    /// Time after which a query without a reply is lost.
    pub timeout: Nanos,
    /// Core of each worker; there are as many workers.
    pub cpus: Vec<usize>,
    /// Number of source ports of each worker.
    pub ports: usize,
    /// Instants at which outstanding queries are counted: the binary logarithm of the time between two of them in
    /// nanoseconds, and their number.
    pub instants: Instants,
    /// Steps that are counted separately.
    pub steps: EqualSteps,
    /// Seed of random gaps and of the ids.
    pub seed: u64,
}

/// Instants of a trial at which outstanding queries are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    /// Binary logarithm of the time between two of them, in nanoseconds.
    pub shift: u32,
    /// Number of instants; 0 for none.
    pub count: usize,
}

/// Steps of equal length in which queries and replies are counted, from the start of the load on; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EqualSteps {
    /// Length of each step, the same for all.
    pub length: Nanos,
    /// Number of steps; 0 for none.
    pub count: usize,
}

/// Questions of the queries, in their order.
#[derive(Clone, Debug)]
pub enum Questions {
    /// Names of a namespace, computed by the program from their numbers.
    Names(NameOrder),
    /// Questions that were listed beforehand, in the memory of a map.
    List(ListOrder),
}

/// Listed questions, sent in turn.
#[derive(Clone, Debug)]
pub struct ListOrder {
    /// The questions; at least one.
    pub list: Arc<QuestionList>,
    /// Header of the queries, with the id 0.
    pub header: [u8; HEADER],
    /// Octets after each question: an OPT record, or none.
    pub tail: Vec<u8>,
    /// Number of passes through the list; unlimited if `None`.
    pub runs: Option<u64>,
}

impl Questions {
    /// Returns the length of the longest query in octets.
    pub(crate) fn longest(&self) -> usize {
        match self {
            Questions::Names(names) => names.query.len(),
            Questions::List(order) => HEADER + order.list.longest() + order.tail.len(),
        }
    }

    /// Returns the number of different questions, and how many may be sent; `None` if that is unlimited.
    pub(crate) fn numbers(&self) -> (u64, Option<u64>) {
        match self {
            Questions::Names(names) => (names.names, (!names.reuse).then_some(names.names)),
            Questions::List(order) => {
                let count = order.list.count() as u64;
                (count, order.runs.map(|runs| count.saturating_mul(runs)))
            }
        }
    }
}

/// The names of a namespace in the order of their queries.
#[derive(Clone, Debug)]
pub struct NameOrder {
    /// A query with the id 0, for a name whose first label is an address with leading zeros.
    pub query: Vec<u8>,
    /// Length of the question in octets.
    pub question: usize,
    /// Address of the first name.
    pub first: u32,
    /// Number of names, from the first address on.
    pub names: u64,
    /// Parameters of the names' permutation: mask, shift and keys; `None` for their own order.
    pub order: Option<Order>,
    /// Whether to start again when all names are used.
    pub reuse: bool,
}

/// Parameters of the permutation of `load::permutation`, which the program computes too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Mask of the values, one less than a power of two.
    pub mask: u64,
    /// Number of bits by which each step shifts to the right.
    pub shift: u32,
    /// Odd factors of the three steps.
    pub keys: [u64; 3],
}

/// Replies that the kernel checks by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainReply {
    /// No replies: every reply is checked in user space.
    Never,
    /// NOERROR with one record, the address in the name, and perhaps an OPT record.
    Address,
    /// NOERROR with one record, the address in the name embedded in the prefix, and perhaps an OPT
    /// record.
    Embedded(Pref64),
    /// One of these return codes (a bit for each), with up to 16 records whose owners are the root
    /// or a compression pointer.
    Rcodes(u16),
}

impl TesterPlan {
    /// Returns the rate of the schedule, the highest one of a closed loop, in queries a second; `None` of a loop without one, or if the
    /// kernel does not have this pacing.
    pub(crate) fn rate(&self) -> Option<f64> {
        match self.pacing {
            Pacing::Constant { rate }
            | Pacing::Poisson { rate }
            | Pacing::CappedWindow { rate, .. } => Some(rate.get()),
            _ => None,
        }
    }

    /// Returns the binary logarithm of the source ports of a worker.
    pub(crate) fn port_bits(&self) -> u32 {
        self.ports.max(1).next_power_of_two().ilog2()
    }

    /// Returns the binary logarithm of the slots of a worker, or the number of slots that a timeout needs if there are
    /// not as many.
    pub(crate) fn slot_bits(&self) -> Result<u32, u64> {
        let Some(rate) = self.rate() else {
            // The number of queries within a timeout depends on the server.
            return Ok(MAX_SLOT_BITS.min(16 + self.port_bits()));
        };
        let each = rate / self.cpus.len().max(1) as f64;
        let held = each * self.timeout.as_secs_f64();
        if held >= f64::from(1u32 << MAX_SLOT_BITS) {
            return Err(held as u64);
        }
        let wanted = (held * TIMEOUTS) as u64 + 1;
        let bits = wanted.next_power_of_two().ilog2();
        // An id has 16 bits.
        Ok(bits.clamp(MIN_SLOT_BITS, MAX_SLOT_BITS).min(16 + self.port_bits()))
    }
}
