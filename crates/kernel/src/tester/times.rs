//! Counters of the programs, summed over cores.

use aya::maps::{Array, PerCpuArray};
use measure::counted::Counted;
use measure::{Histogram, Nanos};

use super::config::Sizes;
use crate::error::KernelError;
use crate::program::Programs;

/// Number of words of `struct counts` in `bpf/tester/tables.h`, and number of words before the
/// instants.
const COUNTS_WORDS: usize = FIRST_COUNTS + 2 * INSTANTS;
const FIRST_COUNTS: usize = 17;
/// Most instants at which outstanding queries are counted.
const INSTANTS: usize = 128;
/// Buckets of a row of a histogram, rows of a histogram, and histograms of a core.
const ROW_BUCKETS: usize = 1_024;
pub(crate) const ROWS: u32 = 28;
pub(crate) const HISTOGRAMS: u32 = 3;
/// The histogram of the latencies from due to reply.
const LATENCY: u32 = 1;

/// Counts of all cores together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TesterCounts {
    /// Outcomes of the queries, and the valid replies that the kernel checked.
    pub counted: Counted,
    /// Replies for user space that found no room; their queries are lost.
    pub unread: u64,
    /// Whether a worker ran out of names.
    pub exhausted: bool,
    /// Number of workers that have sent all their queries.
    pub finished: usize,
    /// Time at which the last query left.
    pub last_sent: Nanos,
    /// Time of the last valid reply that the kernel checked.
    pub last_reply: Nanos,
    /// Time without due queries in which the cores of the workers had no other work.
    pub waited: Nanos,
}

/// Counts of the queries that left in one second of the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TesterSecond {
    /// Queries that left in the second.
    pub sent: u64,
    /// Valid replies to these queries that the kernel checked.
    pub valid: u64,
    /// Valid replies with NXDOMAIN.
    pub nxdomain: u64,
}

/// Counts of one step of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TesterStep {
    /// Queries that left in the step.
    pub sent: u64,
    /// Valid replies that came in the step.
    pub answered: u64,
    /// Sum of the replies' times from sending, in nanoseconds.
    pub latency_ns: u64,
    /// Such replies to queries that left in this second.
    pub answered_of_sent: u64,
}

/// Everything that is read once, after a load.
#[derive(Clone, Debug)]
pub struct TesterTimes {
    /// Time from due to sent.
    pub schedule_error: Histogram,
    /// Time from due to a valid reply that the kernel checked; the timeout for lost queries.
    pub latency: Histogram,
    /// Time from sent to such a reply.
    pub latency_from_send: Histogram,
    /// Counts of each second of the load, from its start on.
    pub series: Vec<TesterSecond>,
    /// Counts of each step of the plan, in their order.
    pub steps: Vec<TesterStep>,
    /// Queries with such a reply that were outstanding at each instant.
    pub outstanding: Vec<u64>,
}

/// Reads the counters of all cores, each on its own.
fn of_cores(programs: &Programs) -> Result<Vec<[u64; COUNTS_WORDS]>, KernelError> {
    let map = programs.map("counters")?;
    let cores = PerCpuArray::<_, [u64; COUNTS_WORDS]>::try_from(map)?.get(&0, 0)?;
    Ok(cores.iter().copied().collect())
}

/// Reads the counts so far, summed over all cores.
pub(crate) fn counts(programs: &Programs) -> Result<TesterCounts, KernelError> {
    let cores = of_cores(programs)?;
    let sum = |at: usize| cores.iter().map(|core| core[at]).sum();
    let last = |at: usize| Nanos(cores.iter().map(|core| core[at]).max().unwrap_or(0));
    Ok(TesterCounts {
        counted: Counted {
            sent: sum(0),
            valid: sum(1),
            late: sum(2),
            lost: sum(3),
            duplicates: sum(4),
            unexpected: sum(5),
            blocked: sum(6),
            reply_octets: sum(11),
            nxdomain: sum(12),
            query_octets: sum(13),
            while_sending: sum(14),
        },
        unread: sum(7),
        exhausted: cores.iter().any(|core| core[8] > 0),
        finished: cores.iter().filter(|core| core[9] > 0).count(),
        last_sent: last(10),
        last_reply: last(16),
        waited: Nanos(sum(15)),
    })
}

/// Reads the latencies so far.
pub(crate) fn latency(programs: &Programs, cores: u32) -> Result<Histogram, KernelError> {
    histogram(programs, LATENCY, cores)
}

/// Reads the histograms, the seconds and the instants.
pub(crate) fn times(
    programs: &Programs,
    cores: u32,
    sizes: Sizes,
) -> Result<TesterTimes, KernelError> {
    let histogram = |which| histogram(programs, which, cores);
    Ok(TesterTimes {
        schedule_error: histogram(0)?,
        latency: histogram(LATENCY)?,
        latency_from_send: histogram(2)?,
        series: series(programs, cores, sizes.seconds)?,
        steps: steps(programs, cores, sizes.steps)?,
        outstanding: outstanding(&of_cores(programs)?),
    })
}

/// Reads one of the histograms.
fn histogram(programs: &Programs, which: u32, cores: u32) -> Result<Histogram, KernelError> {
    let map = programs.map("times")?;
    let rows = Array::<_, [u64; ROW_BUCKETS]>::try_from(map)?;
    let mut all = Histogram::new();
    for core in 0..cores {
        for row in 0..ROWS {
            let counts = rows.get(&((core * HISTOGRAMS + which) * ROWS + row), 0)?;
            for (column, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                all.record_many(time_of(row, column as u64), *count);
            }
        }
    }
    Ok(all)
}

/// Returns the shortest time of a bucket.
fn time_of(row: u32, column: u64) -> Nanos {
    // Two rows of single nanoseconds; from there on each row is a power of two.
    match row {
        0 => Nanos(column),
        _ => Nanos((ROW_BUCKETS as u64 + column) << (row - 1)),
    }
}

/// Reads the counts of each second.
fn series(programs: &Programs, cores: u32, seconds: u32) -> Result<Vec<TesterSecond>, KernelError> {
    let second = |[sent, valid, nxdomain]: [u64; 3]| TesterSecond { sent, valid, nxdomain };
    Ok(rows(programs, "series", cores, seconds)?.into_iter().map(second).collect())
}

/// Reads the counts of each step.
fn steps(programs: &Programs, cores: u32, steps: u32) -> Result<Vec<TesterStep>, KernelError> {
    let step = |[sent, answered, latency_ns, answered_of_sent]: [u64; 4]| TesterStep {
        sent,
        answered,
        latency_ns,
        answered_of_sent,
    };
    Ok(rows(programs, "steps", cores, steps)?.into_iter().map(step).collect())
}

/// Reads a table that has `count` rows for each core, summed over the cores.
fn rows<const N: usize>(
    programs: &Programs,
    name: &'static str,
    cores: u32,
    count: u32,
) -> Result<Vec<[u64; N]>, KernelError> {
    let table = Array::<_, [u64; N]>::try_from(programs.map(name)?)?;
    let mut all = vec![[0; N]; count as usize];
    for core in 0..cores {
        for (row, sums) in (0..count).zip(&mut all) {
            let of_core = table.get(&(core * count + row), 0)?;
            sums.iter_mut().zip(of_core).for_each(|(sum, of_core)| *sum += of_core);
        }
    }
    Ok(all)
}

/// Computes the outstanding queries at each instant from the counts of begins and ends.
fn outstanding(cores: &[[u64; COUNTS_WORDS]]) -> Vec<u64> {
    let sum = |at: usize| cores.iter().map(|core| core[at]).sum::<u64>();
    let mut now = 0u64;
    (0..INSTANTS)
        .map(|instant| {
            let (rise, fall) = (FIRST_COUNTS + instant, FIRST_COUNTS + INSTANTS + instant);
            now = (now + sum(rise)).saturating_sub(sum(fall));
            now
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bucket of a time, as `record` in `bpf/tester/times.h` finds it.
    fn bucket(time: u64) -> (u32, u64) {
        let shift = time.max(1).ilog2().saturating_sub(10);
        (shift + u32::from((time >> shift) >> 10 == 1), (time >> shift) % ROW_BUCKETS as u64)
    }

    #[test]
    fn buckets_are_those_of_the_histograms() {
        for time in
            (0..37).flat_map(|bit| [1u64 << bit, (1 << bit) + 1, (3 << bit) / 2, (2 << bit) - 1])
        {
            let time = time.min(100_000_000_000);
            let (row, column) = bucket(time);
            assert!(row < ROWS, "{time}");
            let (mut exact, mut ours) = (Histogram::new(), Histogram::new());
            exact.record(Nanos(time));
            ours.record_many(time_of(row, column), 1);
            let spans = |histogram: &Histogram| histogram.spans().collect::<Vec<_>>();
            assert_eq!(spans(&exact), spans(&ours), "{time}");
        }
    }

    #[test]
    fn instants_are_sums() {
        let mut core = [0; COUNTS_WORDS];
        (core[FIRST_COUNTS + 1], core[FIRST_COUNTS + 3]) = (5, 2);
        core[FIRST_COUNTS + INSTANTS + 3] = 4;
        assert_eq!(outstanding(&[core, core])[..5], [0, 10, 10, 6, 6]);
    }
}
