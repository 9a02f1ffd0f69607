//! The messages to and from one server in a capture that was taken on its link.

use std::net::SocketAddr;

use measure::{Histogram, Nanos};

use crate::transactions::{Transaction, Transactions};
use crate::{Capture, CaptureError, Dns, Messages};

/// Messages that a server received and sent.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Times of the queries, since 1970, in rising order.
    pub arrivals: Vec<Nanos>,
    /// Number of replies that the server sent.
    pub replies: u64,
    /// Time from a query to its first reply.
    pub latency: Histogram,
}

impl Served {
    /// Reads a capture to its end.
    ///
    /// # Errors
    /// If the capture is cut short or damaged.
    pub fn read(capture: &mut Capture, server: SocketAddr) -> Result<Self, CaptureError> {
        let mut served = Served::default();
        let mut transactions = Transactions::default();
        let answered = |transaction: &Transaction, latency: &mut Histogram| {
            if let (Some(query), Some(reply)) = (&transaction.query, &transaction.reply) {
                latency.record(reply.at.since(query.at));
            }
        };
        Messages::new(vec![server.port()]).read(capture, |message| {
            let Some(dns) = Dns::read(message.bytes) else { return };
            match dns.is_response() {
                false if message.destination == server => served.arrivals.push(message.at),
                true if message.source == server => served.replies += 1,
                _ => return,
            }
            transactions.add(message, &dns, &mut |done| answered(done, &mut served.latency));
        })?;
        // Captures of several cores may be out of order by microseconds.
        served.arrivals.sort_unstable();
        Ok(served)
    }
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
        let found = Served::read(&mut capture(&packets), server).expect("whole");
        assert_eq!((found.arrivals.len(), found.replies), (3, 3));
        assert_eq!(found.latency.count(), 2);
        let longest = found.latency.max().as_micros_f64();
        assert!((longest - 500.0).abs() < 1.0, "{longest}");
        let other = "10.9.0.2:54".parse().expect("an address");
        let none = Served::read(&mut capture(&packets), other).expect("whole");
        assert_eq!((none.arrivals.len(), none.replies), (0, 0));
    }
}
