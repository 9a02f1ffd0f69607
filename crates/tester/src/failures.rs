//! Doubts about a trial over connections: failures, and a server that answers only when the next
//! query arrives.

use engine::stream::Failure;
use load::ConnectionTally;
use measure::warning::DELAYED_REPLY;
use measure::{Nanos, Warning};
use streams::client::StreamCounts;

/// A failure of connections, and the warning about a number of them.
type WarnedFailure = (Failure, fn(u64) -> Warning);

/// Failures of connections that are reported; queries need not have been lost by them.
const CONNECTIONS: [WarnedFailure; 4] = [
    (Failure::Refused, |connections| Warning::ConnectionsRefused { connections }),
    (Failure::NoPort, |connections| Warning::NoPorts { connections }),
    (Failure::NoFile, |connections| Warning::NoFiles { connections }),
    (Failure::BadCertificate, |connections| Warning::BadCertificate { connections }),
];

/// Doubts about connections. Queries of each connection followed one another every `gap`, where that is constant.
pub(crate) fn warnings(
    tally: &ConnectionTally,
    streams: StreamCounts,
    gap: Option<Nanos>,
) -> Vec<Warning> {
    let connections = CONNECTIONS.map(|(why, warning)| (tally.failed[why.index()], warning));
    let connections = connections.into_iter().filter(|(n, _)| *n > 0);
    let mut all: Vec<Warning> = connections.map(|(n, warning)| warning(n)).collect();
    all.extend(tally.queries_failed.iter().map(|(why, &queries)| Warning::QueriesFailed {
        queries,
        reason: why.reason().into_owned(),
    }));
    if streams.refused > 0 {
        all.push(Warning::StreamsRefused { times: streams.refused });
    }
    all.extend(gap.and_then(|gap| median_is_gap(tally, gap)));
    all.extend(delayed_replies(tally));
    all
}

/// Returns the warning about replies that waited for a delayed acknowledgement of the Tester's kernel: they come 40 ms
/// after their query, and hardly any shortly before or after that.
fn delayed_replies(tally: &ConnectionTally) -> Option<Warning> {
    /// Share and number of the replies from which on a warning is shown.
    const MIN_SHARE: f64 = 0.005;
    const MIN_REPLIES: u64 = 20;
    /// Factor by which these replies exceed the numbers of equally long times before and after.
    const STANDS_OUT: u64 = 4;
    /// Longest time to a server whose latency is not caused by its distance.
    const MAX_DISTANCE_TIME: Nanos = Nanos::from_millis(10);
    let mut latency = tally.steady.clone();
    latency.merge(&tally.first_query);
    let (first, end) = DELAYED_REPLY.into_inner();
    let length = end.since(first);
    let delayed = latency.count_within(first, end);
    let beside =
        latency.count_within(first.since(length), first) + latency.count_within(end, end + length);
    let share = delayed as f64 / latency.count().max(1) as f64;
    // Over UDP and QUIC no data wait for the acknowledgement of a segment, and the time to connect
    // is unknown.
    let is_near = tally.connect.count() > 0 && tally.connect.quantile(0.5) < MAX_DISTANCE_TIME;
    (is_near && delayed >= MIN_REPLIES && share >= MIN_SHARE && delayed > STANDS_OUT * beside)
        .then_some(Warning::DelayedReplies { share })
}

/// Returns the warning about a server whose replies leave only when the next query arrives: the
/// second of two small writes waits for the acknowledgement of the first (RFC 1122 section 4.2.3.4,
/// Nagle), which travels with the next query. The kernel sends it by itself after 40 ms.
fn median_is_gap(tally: &ConnectionTally, gap: Nanos) -> Option<Warning> {
    /// Least number of replies for percentiles.
    const MIN_REPLIES: u64 = 20;
    /// Shortest gap that is distinct from a usual latency.
    const MIN_GAP: Nanos = Nanos::from_micros(500);
    const DELAYED_ACK: Nanos = Nanos::from_millis(40);
    let (latency, range) = (&tally.steady, 0.9..=1.1);
    let is_gap =
        |quantile| range.contains(&(latency.quantile(quantile).as_secs_f64() / gap.as_secs_f64()));
    // A server as slow as that by chance has another spread.
    let stands_out = latency.count() >= MIN_REPLIES && (MIN_GAP..DELAYED_ACK).contains(&gap);
    (stands_out && is_gap(0.5) && is_gap(0.25) && is_gap(0.75))
        .then(|| Warning::MedianIsGap { gap_us: gap.as_micros_f64() })
}

#[cfg(test)]
mod tests {
    use engine::stream::{QueryFailure, StreamCode};

    use super::*;

    #[test]
    fn a_median_that_is_the_gap_is_told() {
        let gap = Nanos::from_millis(10);
        let table: [(&[u64], Option<Nanos>, bool); 5] = [
            (&[10_050, 10_100, 9_980], Some(gap), true),
            (&[10_050, 10_100, 9_980], None, false),
            (&[120, 130, 150], Some(gap), false),
            (&[10_000, 300, 25_000], Some(gap), false),
            (&[100, 101, 99], Some(Nanos::from_micros(100)), false),
        ];
        for (latencies, gap, told) in table {
            let mut tally = ConnectionTally::default();
            for &us in latencies.iter().cycle().take(60) {
                tally.steady.record(Nanos::from_micros(us));
            }
            let warnings = warnings(&tally, StreamCounts::default(), gap);
            assert_eq!(!warnings.is_empty(), told, "{latencies:?}: {warnings:?}");
        }
    }

    #[test]
    fn replies_that_wait_for_an_acknowledgement_are_told() {
        // Latencies of a hundred replies and the time to connect in milliseconds, and the share.
        let table = [
            (vec![(75, 1), (25, 41)], 1, Some(0.25)),
            (vec![(100, 40)], 1, Some(1.0)),
            (vec![(75, 1), (25, 41)], 30, None),
            (vec![(99, 1), (1, 41)], 1, None),
            (vec![(50, 41), (25, 35), (25, 55)], 1, None),
            (vec![(60, 44), (40, 47)], 1, Some(1.0)),
            (vec![(100, 20)], 1, None),
        ];
        for (latencies, connect, share) in table {
            let mut tally = ConnectionTally::default();
            tally.connect.record(Nanos::from_millis(connect));
            for &(count, ms) in &latencies {
                tally.steady.record_many(Nanos::from_millis(ms), count);
            }
            let wanted: Vec<Warning> =
                share.map(|share| Warning::DelayedReplies { share }).into_iter().collect();
            assert_eq!(warnings(&tally, StreamCounts::default(), None), wanted, "{latencies:?}");
        }
    }

    #[test]
    fn each_reason_is_told_once() {
        let mut tally = ConnectionTally::default();
        tally.failed[Failure::NoPort.index()] = 3;
        tally.queries_failed.insert(QueryFailure::Status(503), 10);
        tally.queries_failed.insert(QueryFailure::StreamReset(StreamCode::Quic(1)), 2);
        let streams = StreamCounts { refused: 4, waited: 9 };
        let failed =
            |queries, reason: &str| Warning::QueriesFailed { queries, reason: reason.to_owned() };
        let expected = [
            Warning::NoPorts { connections: 3 },
            failed(10, "http-503"),
            failed(2, "stream-reset-DOQ_INTERNAL_ERROR"),
            Warning::StreamsRefused { times: 4 },
        ];
        assert_eq!(warnings(&tally, streams, None), expected);
    }
}
