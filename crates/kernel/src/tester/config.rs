//! The configuration of the generators and of the checker, as their structures.

use measure::{Nanos, Pacing, Rng};

use super::frame::{Frame, octets};
use super::plan::{Order, PlainReply, Questions, TesterPlan};
use crate::auth::octet_places;
use crate::error::KernelError;
use crate::records::{Generator, Record, TesterConfig, filled};

/// Number of places with which a window opens, as in `crates/load/src/window.rs`.
const FIRST_PLACES: u64 = 64;
/// First source port: below the ports that Linux assigns to sockets.
pub(crate) const FIRST_PORT: u16 = 16_384;
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

/// Returns what the workers of a plan have in common.
pub(crate) fn common(
    plan: &TesterPlan,
    sizes: Sizes,
    start: Nanos,
    index: u32,
    stopped: bool,
) -> TesterConfig {
    let frame = Frame::new(plan);
    let unordered = Order { mask: 0, shift: 0, keys: [0; 3] };
    let (order, first, question) = match &plan.questions {
        Questions::Names(names) => (names.order, names.first, names.question),
        Questions::List(_) => (None, 0, 0),
    };
    let Order { mask, shift, keys } = order.unwrap_or(unordered);
    let workers = plan.cpus.len() as u32;
    let (expect, rcodes, address, octet_at) = expected(plan.expect);
    let Sizes { slot_bits, port_bits, seconds, .. } = sizes;
    TesterConfig {
        start: start.0,
        timeout: plan.timeout.0,
        until: (start + plan.duration).0,
        step_ns: plan.steps.length.0,
        steps: plan.steps.count as u64,
        names: plan.questions.numbers().0,
        mask,
        keys,
        shift,
        first,
        sequential: u32::from(order.is_none()),
        list: u32::from(frame.question_at.is_some()),
        workers,
        ifindex: index,
        slot_bits,
        port_bits,
        ports: workers << port_bits,
        port: u32::from(FIRST_PORT),
        salt: u32::from(salt(plan)),
        many_sources: u32::from(plan.sources.len() > 1),
        frame_len: frame.question_at.unwrap_or(frame.bytes.len()) as u32,
        question_len: question as u32,
        tail_len: frame.question_at.map_or(0, |at| frame.bytes.len() - at) as u32,
        blank_len: frame.blank_len() as u32,
        sum: frame.udp_sum,
        ip_sum: frame.ip_sum,
        tail_sum: frame.tail_sum,
        step: plan.instants.shift,
        instants: plan.instants.count as u32,
        seconds,
        v6: u32::from(plan.target.is_ipv6()),
        expect,
        target_port: u32::from(plan.target.port().to_be()),
        rcodes,
        closed: u32::from(plan.pacing.outstanding().is_some()),
        keeps_places: u32::from(plan.keep_places),
        target: filled(&octets(plan.target.ip())),
        address,
        octet_at,
        stopped: u32::from(stopped),
        // The checker compares questions with the frame's question, except for the label, which varies.
        frame: filled(&frame.bytes),
    }
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

/// Returns `worker` of a plan whose schedule begins at `start`, before its first query.
pub(crate) fn generator(plan: &TesterPlan, worker: usize, start: Nanos) -> Generator {
    let workers = plan.cpus.len() as f64;
    let each = plan.rate().unwrap_or(1.0) / workers;
    let mut first = worker as f64 * 1e9 / plan.rate().unwrap_or(1.0);
    let (mut planned, mut end, mut random) = (0, u64::MAX, 0);
    let (mut window, mut opened) = (0, 0);
    let (mut gap, mut scale) = (1e9 / each * f64::from(GAP_SCALE).exp2(), GAP_SCALE);
    match plan.pacing {
        Pacing::Window { outstanding } | Pacing::CappedWindow { outstanding, .. } => {
            let (all, count) = (u64::from(outstanding), workers as u64);
            let own = all / count + u64::from((worker as u64) < all % count);
            // A window with a highest rate sends no bursts, so that it can be open from the start.
            let is_capped = plan.rate().is_some();
            (window, opened) = (own, if is_capped { own } else { FIRST_PLACES });
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
    Generator {
        active: 1,
        worker: worker as u64,
        planned,
        end,
        due: start.0 + first as u64,
        fraction: (first.fract() * f64::from(scale).exp2()) as u64,
        gap: gap as u64,
        scale: scale.into(),
        random,
        position: worker as u64,
        left,
        last: start.0,
        cursor: start.0,
        window,
        opened,
        ..Generator::ZERO
    }
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
