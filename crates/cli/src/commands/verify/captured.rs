//! Summary of a capture beside a server: queries, replies, their times.

use std::net::SocketAddr;

use experiment::Captured;
use experiment::verify::INTERVAL;
use measure::Nanos;
use trace::transactions::{Transaction, Transactions};
use trace::{Capture, CaptureError, Dns, Messages};

/// Reads a capture to its end and summarises the messages to and from `server`.
///
/// # Errors
/// If the capture is cut short or damaged.
pub(super) fn summary(capture: &mut Capture, server: SocketAddr) -> Result<Captured, CaptureError> {
    let mut out = Captured::default();
    let mut arrivals: Vec<Nanos> = Vec::new();
    let mut transactions = Transactions::default();
    let answered = |transaction: &Transaction, out: &mut Captured| {
        if let (Some(query), Some(reply)) = (&transaction.query, &transaction.reply) {
            out.latency.record(reply.at.since(query.at));
        }
    };
    Messages::new(vec![server.port()]).read(capture, |message| {
        let Some(dns) = Dns::read(message.bytes) else { return };
        match dns.is_response() {
            false if message.destination == server => arrivals.push(message.at),
            true if message.source == server => out.replies += 1,
            _ => return,
        }
        transactions.add(message, &dns, &mut |transaction| answered(transaction, &mut out));
    })?;
    // Captures of several cores may be out of order by microseconds.
    arrivals.sort_unstable();
    out.queries = arrivals.len() as u64;
    if let (Some(&first), Some(&last)) = (arrivals.first(), arrivals.last()) {
        out.rate_qps = rate(first, &arrivals);
        out.intervals = vec![0; (last.since(first).0 / INTERVAL.0) as usize];
        for at in arrivals {
            let interval = (at.since(first).0 / INTERVAL.0) as usize;
            if let Some(count) = out.intervals.get_mut(interval) {
                *count += 1;
            }
        }
    }
    Ok(out)
}

/// Returns the rate of arrivals, a second: the slope of their numbers over their times, by least squares, so that neither
/// the first nor the last decides.
fn rate(first: Nanos, arrivals: &[Nanos]) -> f64 {
    let count = arrivals.len() as f64;
    let times = || arrivals.iter().map(|at| at.since(first).as_secs_f64());
    let (mean_k, mean_t) = ((count - 1.0) / 2.0, times().sum::<f64>() / count);
    let (mut over, mut under) = (0.0, 0.0);
    for (k, t) in times().enumerate() {
        over += (k as f64 - mean_k) * (t - mean_t);
        under += (t - mean_t) * (t - mean_t);
    }
    if under > 0.0 { over / under } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Makes a capture (LINKTYPE_RAW) of packets: time in microseconds, whether it is a reply, id.
    fn capture(packets: &[(u64, bool, u16)]) -> Capture {
        let mut bytes: Vec<u8> = [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_535, 101]
            .iter()
            .flat_map(|w| w.to_ne_bytes())
            .collect();
        for &(at, reply, id) in packets {
            let mut dns = vec![0; 12];
            dns[..2].copy_from_slice(&id.to_be_bytes());
            dns[2] = if reply { 0x80 } else { 0 };
            dns[5] = 1;
            dns.extend_from_slice(&[1, b'x', 0, 0, 1, 0, 1]);
            let (client, server) = ([10, 9, 0, 1], [10, 9, 0, 2]);
            let (from, to) = if reply { (server, client) } else { (client, server) };
            let (sport, dport) = if reply { (53_u16, 4_000_u16) } else { (4_000, 53) };
            let length = (28 + dns.len()) as u16;
            let mut packet = vec![0x45, 0];
            packet.extend_from_slice(&length.to_be_bytes());
            packet.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0]);
            packet.extend_from_slice(&from);
            packet.extend_from_slice(&to);
            for word in [sport, dport, length - 20, 0] {
                packet.extend_from_slice(&word.to_be_bytes());
            }
            packet.extend_from_slice(&dns);
            let head = [
                (at / 1_000_000) as u32,
                (at % 1_000_000) as u32,
                packet.len() as u32,
                packet.len() as u32,
            ];
            bytes.extend(head.iter().flat_map(|word| word.to_ne_bytes()));
            bytes.extend(packet);
        }
        Capture::new(Box::new(std::io::Cursor::new(bytes)), Path::new("memory")).expect("a capture")
    }

    #[test]
    fn queries_and_replies_are_counted_and_matched() {
        // Three queries, one answered twice, one not answered.
        let packets = [
            (1_000_000, false, 1),
            (1_000_300, true, 1),
            (1_000_400, true, 1),
            (1_012_000, false, 2),
            (1_025_000, false, 3),
            (1_025_500, true, 3),
        ];
        let server = "10.9.0.2:53".parse().expect("an address");
        let found = summary(&mut capture(&packets), server).expect("whole");
        assert_eq!((found.queries, found.replies), (3, 3));
        assert!((found.rate_qps - 80.0).abs() < 0.1, "25 ms for two intervals: {}", found.rate_qps);
        assert_eq!(found.intervals, [1, 1], "the last interval is not over");
        assert_eq!(found.latency.count(), 2);
        let longest = found.latency.max().as_micros_f64();
        assert!((longest - 500.0).abs() < 1.0, "{longest}");
        let other = "10.9.0.2:54".parse().expect("an address");
        let none = summary(&mut capture(&packets), other).expect("whole");
        assert_eq!((none.queries, none.replies), (0, 0));
    }
}
