//! The configuration of the generators and of the checker, as their structures.

use measure::{Nanos, Pacing, Rng};

use super::frame::{Frame, octets};
use super::plan::{Order, PlainReply, Questions, TesterPlan};
use crate::auth::octet_places;
use crate::error::KernelError;
use crate::layout::Layout;

/// Size of `struct config` in `bpf/tester/tables.h`.
pub(crate) const CONFIG: usize = 752;
/// Number of words of `struct generator`.
pub(crate) const GENERATOR: usize = 27;
/// First word with the times of the last run and of the schedule, and first word with the places of
/// a closed loop.
const FIRST_CLOCK_WORD: usize = 14;
const FIRST_PLACE_WORD: usize = 22;
/// Number of places with which a window opens, as in `crates/load/src/window.rs`.
const FIRST_PLACES: u64 = 64;
/// First source port: below the ports that Linux assigns to sockets.
pub(crate) const FIRST_PORT: u16 = 16_384;
/// Size of the frame in `struct config`.
const FRAME_SIZE: usize = 520;
/// Binary logarithm of the unit of even gaps, and of the random quantiles.
const GAP_SCALE: u32 = 32;
const QUANTILE_SCALE: u32 = 24;
/// Number of random quantiles, without the last one.
pub(crate) const QUANTILES: u32 = 4_096;
/// Lowest rate of a worker, in queries a second.
const MIN_RATE: f64 = 0.6;

/// Sizes of the tables that a plan needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Binary logarithms of the slots and of the ports of a worker.
    pub(crate) slot_bits: u32,
    pub(crate) port_bits: u32,
    /// Number of seconds that are counted, and of steps.
    pub(crate) seconds: u32,
    pub(crate) steps: u32,
}

/// Returns the content of `struct config`.
pub(crate) fn common(
    plan: &TesterPlan,
    sizes: Sizes,
    start: Nanos,
    index: u32,
    stopped: bool,
) -> [u8; CONFIG] {
    let frame = Frame::new(plan);
    let unordered = Order { mask: 0, shift: 0, keys: [0; 3] };
    let (order, first, question) = match &plan.questions {
        Questions::Names(names) => (names.order, names.first, names.question),
        Questions::List(_) => (None, 0, 0),
    };
    let (is_list, sequential) = (frame.question_at.is_some(), order.is_none());
    let order = order.unwrap_or(unordered);
    let (count, _) = plan.questions.numbers();
    let workers = plan.cpus.len() as u32;
    let (expect, rcodes, address, places) = expected(plan.expect);
    let mut config = Layout::new();
    let until = start + plan.duration;
    let steps = [plan.steps.length.0, plan.steps.count as u64];
    let times = [start.0, plan.timeout.0, until.0].into_iter().chain(steps);
    for word in times.chain([count, order.mask]).chain(order.keys) {
        config.put_u64(word);
    }
    for word in [
        order.shift,
        first,
        u32::from(sequential),
        u32::from(is_list),
        workers,
        index,
        sizes.slot_bits,
        sizes.port_bits,
        workers << sizes.port_bits,
        u32::from(FIRST_PORT),
        u32::from(salt(plan)),
        u32::from(plan.sources.len() > 1),
        frame.question_at.unwrap_or(frame.bytes.len()) as u32,
        question as u32,
        frame.question_at.map_or(0, |at| frame.bytes.len() - at) as u32,
        frame.blank_len() as u32,
        frame.udp_sum,
        frame.ip_sum,
        frame.tail_sum,
        plan.instants.shift,
        plan.instants.count as u32,
        sizes.seconds,
        u32::from(plan.target.is_ipv6()),
        expect,
        u32::from(u16::from_ne_bytes(plan.target.port().to_be_bytes())),
        rcodes,
        u32::from(plan.pacing.outstanding().is_some()),
        u32::from(plan.keep_places),
    ] {
        config.put_u32(word);
    }
    config.put(16, &octets(plan.target.ip()));
    config.put(16, &address);
    config.put(4, &places);
    config.put_u32(u32::from(stopped));
    // The checker compares questions with the frame's question, except for the label, which varies.
    config.put(FRAME_SIZE, &frame.bytes);
    config.finish()
}

/// Returns the salt of the ids.
pub(crate) fn salt(plan: &TesterPlan) -> u16 {
    Rng::part(plan.seed, 0x1d).next_u64() as u16
}

/// Returns the kind of expectation, the expected return codes, the expected address without the
/// octets of an IPv4 address, and the place of these octets.
fn expected(expect: PlainReply) -> (u32, u32, [u8; 16], [u8; 4]) {
    match expect {
        PlainReply::Never => (0, 0, [0; 16], [0; 4]),
        PlainReply::Address => (1, 0, [0; 16], [0; 4]),
        PlainReply::Rcodes(rcodes) => (3, u32::from(rcodes), [0; 16], [0; 4]),
        PlainReply::Embedded(pref64) => {
            let none = pref64.embed(std::net::Ipv4Addr::UNSPECIFIED).octets();
            (2, 0, none, octet_places(pref64))
        }
    }
}

/// Returns the content of `struct generator` for `worker` of a plan whose schedule begins at `start` and has `planned`
/// queries for this worker.
pub(crate) fn generator(plan: &TesterPlan, worker: usize, start: Nanos) -> [u64; GENERATOR] {
    let workers = plan.cpus.len() as f64;
    let each = plan.rate().unwrap_or(1.0) / workers;
    let mut first = worker as f64 * 1e9 / plan.rate().unwrap_or(1.0);
    let (mut planned, mut end, mut random, mut places) = (0, u64::MAX, 0, [0; 2]);
    let (mut gap, mut scale) = (1e9 / each * f64::from(GAP_SCALE).exp2(), GAP_SCALE);
    match plan.pacing {
        Pacing::Window { outstanding } | Pacing::CappedWindow { outstanding, .. } => {
            let (all, count) = (u64::from(outstanding), workers as u64);
            let own = all / count + u64::from((worker as u64) < all % count);
            // A window with a highest rate sends no bursts, so that it can be open from the start.
            let is_capped = plan.rate().is_some();
            places = [own, if is_capped { own } else { FIRST_PLACES }];
            if !is_capped {
                (first, gap, scale) = (0.0, 0.0, 0);
            }
            // A worker without a place has nothing to send.
            planned = if own > 0 { u64::MAX } else { 0 };
            end = (start + plan.duration).0;
        }
        Pacing::Poisson { .. } => {
            let mut rng = Rng::part(plan.seed, worker as u64);
            // Short gaps have more binary digits, so that the product with a quantile has at most
            // 62 bits.
            let digits = 32 - (1e9 / each).log2().ceil().max(0.0) as u32;
            scale = QUANTILE_SCALE + digits;
            gap = 1e9 / each * f64::from(digits).exp2();
            first = -(1.0 - rng.unit()).ln() * 1e9 / each;
            (planned, end) = (u64::MAX, (start + plan.duration).0);
            random = rng.next_u64() | 1;
        }
        _ => {
            if let Some(schedule) = plan.pacing.schedule(plan.duration, plan.seed) {
                planned = schedule.shard(worker as u32, plan.cpus.len() as u32).planned();
            }
        }
    }
    let (_, limit) = plan.questions.numbers();
    let count = plan.cpus.len() as u64;
    let left = limit.map_or(u64::MAX, |all| all.saturating_sub(worker as u64).div_ceil(count));
    let due = start.0 + first as u64;
    let fraction = (first.fract() * f64::from(scale).exp2()) as u64;
    let (worker, scale) = (worker as u64, u64::from(scale));
    let mut words = [0; GENERATOR];
    let schedule =
        [1, worker, planned, end, due, fraction, gap as u64, scale, random, worker, left];
    words[..schedule.len()].copy_from_slice(&schedule);
    words[FIRST_CLOCK_WORD..][..2].fill(start.0);
    words[FIRST_PLACE_WORD..][..2].copy_from_slice(&places);
    words
}

/// Returns the quantiles of the exponential distribution of mean 1, in 2^-24.
pub(crate) fn quantiles() -> impl Iterator<Item = u64> {
    (0..QUANTILES).map(|bin| {
        let below = f64::from(bin) / f64::from(QUANTILES);
        (-(1.0 - below).ln() * f64::from(1u32 << QUANTILE_SCALE)) as u64
    })
}

/// Checks that the tables are large enough for a plan.
///
/// # Errors
/// If the plan needs more than a table can hold; the error names the table and a remedy.
pub(crate) fn sizes(plan: &TesterPlan) -> Result<Sizes, KernelError> {
    let error = |why: String| Err(KernelError::Plan(why));
    let rate = match plan.pacing {
        Pacing::Window { .. } => f64::INFINITY,
        _ => plan.rate().ok_or_else(|| {
            KernelError::Plan("the pacing is not constant, poisson or window".to_owned())
        })?,
    };
    if plan.cpus.is_empty() || rate / (plan.cpus.len() as f64) < MIN_RATE {
        return error("each worker needs a core, and a query a second".to_owned());
    }
    let ports = (plan.cpus.len() as u32) << plan.port_bits();
    if ports > super::plan::MAX_PORTS {
        let most = super::plan::MAX_PORTS;
        return error(format!("{ports} source ports: at most {most} are possible"));
    }
    let slot_bits = plan.slot_bits().map_err(|held| {
        KernelError::Plan(format!(
            "each worker would have {held} queries waiting for their timeout: give more cores, a lower rate or a shorter timeout"
        ))
    })?;
    let len = Frame::len_of(plan.target.ip(), plan.questions.longest());
    if len > super::frame::MAX_FRAME {
        let most = super::frame::MAX_FRAME;
        return error(format!("a query takes {len} octets on the wire: {most} at most"));
    }
    let seconds = plan.duration.as_secs_f64().ceil() as u32 + 2;
    let (port_bits, seconds, steps) =
        (plan.port_bits(), seconds.min(86_400), plan.steps.count as u32);
    Ok(Sizes { slot_bits, port_bits, seconds, steps })
}
