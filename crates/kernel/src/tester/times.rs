//! Counters of the programs, summed over cores.

use aya::maps::{Array, PerCpuArray, PerCpuValues};
use measure::counted::Counted;
use measure::{Histogram, Nanos};

use super::config::Sizes;
use crate::error::KernelError;
use crate::program::Programs;
use crate::records::{LoadCounts, Record, SecondCounts, StepCounts, sum};

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
fn of_cores(programs: &Programs) -> Result<PerCpuValues<LoadCounts>, KernelError> {
    Ok(PerCpuArray::try_from(programs.map("counters")?)?.get(&0, 0)?)
}

/// Reads the counts so far, summed over all cores.
pub(crate) fn counts(programs: &Programs) -> Result<TesterCounts, KernelError> {
    let cores = of_cores(programs)?;
    let last = |time: fn(&LoadCounts) -> u64| Nanos(cores.iter().map(time).max().unwrap_or(0));
    let all: LoadCounts = sum(cores.iter().copied());
    Ok(TesterCounts {
        counted: Counted {
            sent: all.sent,
            valid: all.valid,
            late: all.late,
            lost: all.lost,
            duplicates: all.duplicates,
            unexpected: all.unexpected,
            blocked: all.blocked,
            reply_octets: all.octets,
            nxdomain: all.nxdomain,
            query_octets: all.query_octets,
            while_sending: all.while_sending,
        },
        unread: all.unread,
        exhausted: all.exhausted > 0,
        finished: cores.iter().filter(|core| core.finished > 0).count(),
        last_sent: last(|core| core.last_sent),
        last_reply: last(|core| core.last_reply),
        waited: Nanos(all.waited),
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
        outstanding: outstanding(&sum(of_cores(programs)?.iter().copied())),
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
    let second = |SecondCounts { sent, valid, nxdomain }| TesterSecond { sent, valid, nxdomain };
    Ok(rows(programs, "series", cores, seconds)?.into_iter().map(second).collect())
}

/// Reads the counts of each step.
fn steps(programs: &Programs, cores: u32, steps: u32) -> Result<Vec<TesterStep>, KernelError> {
    let step = |StepCounts { sent, answered, latency, answered_of_sent }| TesterStep {
        sent,
        answered,
        latency_ns: latency,
        answered_of_sent,
    };
    Ok(rows(programs, "steps", cores, steps)?.into_iter().map(step).collect())
}

/// Reads a table that has `count` rows for each core, summed over the cores.
fn rows<R: Record>(
    programs: &Programs,
    name: &'static str,
    cores: u32,
    count: u32,
) -> Result<Vec<R>, KernelError> {
    let table = Array::<_, R>::try_from(programs.map(name)?)?;
    let row = |row| {
        let of_cores = (0..cores).map(|core| table.get(&(core * count + row), 0));
        Ok(sum(of_cores.collect::<Result<Vec<R>, _>>()?))
    };
    (0..count).map(row).collect()
}

/// Computes the outstanding queries at each instant from the counts of begins and ends.
fn outstanding(all: &LoadCounts) -> Vec<u64> {
    let mut now = 0u64;
    (all.rise.iter().zip(&all.fall))
        .map(|(rise, fall)| {
            now = (now + rise).saturating_sub(*fall);
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
        let mut core = LoadCounts::ZERO;
        (core.rise[1], core.rise[3], core.fall[3]) = (5, 2, 4);
        assert_eq!(outstanding(&sum([core, core]))[..5], [0, 10, 10, 6, 6]);
    }
}
