//! Requests by client, and their distribution.
//!
//! The requests of a client are its queries. If it has only replies, each of them counts as a
//! query.

use std::collections::HashMap;
use std::net::IpAddr;

use record::TraceClients;

/// Largest number of counted clients; a full table takes about 70 MiB.
pub const MAX_CLIENTS: usize = 1 << 20;

/// Number of requests of each client, in a table of limited size.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// Number of queries and of replies, by client.
    by_address: HashMap<IpAddr, [u64; 2]>,
    /// Number of queries and replies of clients beyond the limit.
    beyond: [u64; 2],
}

impl Clients {
    /// Counts a message to (`reply`) or from a client.
    #[inline]
    pub fn add(&mut self, client: IpAddr, reply: bool) {
        if let Some(counts) = self.by_address.get_mut(&client) {
            counts[usize::from(reply)] += 1;
        } else if self.by_address.len() < MAX_CLIENTS {
            let mut counts = [0; 2];
            counts[usize::from(reply)] = 1;
            self.by_address.insert(client, counts);
        } else {
            self.beyond[usize::from(reply)] += 1;
        }
    }

    /// Returns the distribution of requests, with the `most` busiest clients.
    pub fn spread(&self, most: usize) -> TraceClients {
        let requests = |counts: [u64; 2]| if counts[0] > 0 { counts[0] } else { counts[1] };
        let all = self.by_address.iter().map(|(address, counts)| (*address, requests(*counts)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by_key(|&(address, count)| (std::cmp::Reverse(count), address));
        let total: u64 = all.iter().map(|(_, count)| count).sum();
        let busiest = all.iter().take(most);
        let mut spread = TraceClients {
            distinct: all.len() as u64,
            beyond: requests(self.beyond),
            busiest: busiest.map(|(address, count)| (address.to_string(), *count)).collect(),
            ..TraceClients::default()
        };
        let (mut sum, mut next_point) = (0u64, 1u64);
        for (rank, (_, count)) in (1u64..).zip(&all) {
            sum += count;
            if spread.half == 0 && sum * 2 >= total {
                spread.half = rank;
            }
            if spread.nine_tenths == 0 && u128::from(sum) * 10 >= u128::from(total) * 9 {
                spread.nine_tenths = rank;
            }
            if rank == next_point || rank == all.len() as u64 {
                spread.curve.push((rank, sum as f64 / total as f64));
                next_point *= 2;
            }
        }
        spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_busiest_clients() {
        let mut clients = Clients::default();
        for (last, requests) in [(1u8, 54), (2, 25), (3, 11), (4, 4)] {
            (0..requests).for_each(|_| clients.add([192, 0, 2, last].into(), false));
        }
        // Replies count where there is no query.
        (0..6).for_each(|_| clients.add([192, 0, 2, 9].into(), true));
        clients.add([192, 0, 2, 1].into(), true);
        let spread = clients.spread(2);
        assert_eq!((spread.distinct, spread.half, spread.nine_tenths), (5, 1, 3));
        assert_eq!(spread.busiest, [("192.0.2.1".to_owned(), 54), ("192.0.2.2".to_owned(), 25)]);
        assert_eq!(spread.curve, [(1, 0.54), (2, 0.79), (4, 0.96), (5, 1.0)]);
    }
}
