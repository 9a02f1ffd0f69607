//! Selection of messages by zone, type, client or time, and random samples.

use std::net::IpAddr;

use ipnet::IpNet;
use measure::{Nanos, rng::splitmix64};
use wire::name::order::{Place, place};
use wire::{LabelRange, Name, Qtype};

use crate::dns::Dns;
use crate::messages::Message;

/// The conditions that a selected message meets; an empty or open condition accepts all messages.
#[derive(Clone, Debug)]
pub struct Select {
    /// The name in the question is one of these zones or below one.
    pub zones: Vec<Name>,
    /// The query type is one of these.
    pub types: Vec<Qtype>,
    /// The client is in one of these networks.
    pub clients: Vec<IpNet>,
    /// The time of capture is this or later.
    pub from: Nanos,
    /// The time of capture is before this.
    pub to: Nanos,
    /// Share (0 to 1) of the transactions to select.
    pub sample: f64,
    /// Seed of the sample: the same seed selects the same transactions.
    pub seed: u64,
    /// The direction of the messages: queries, replies, or both.
    pub ways: Ways,
}

/// The direction of messages that are selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ways {
    /// Both queries and replies are selected.
    #[default]
    Both,
    /// Only queries are selected, not replies.
    Queries,
    /// Only replies are selected, not queries.
    Replies,
}

impl Default for Select {
    /// Returns conditions that accept all messages.
    fn default() -> Self {
        Select {
            zones: Vec::new(),
            types: Vec::new(),
            clients: Vec::new(),
            from: Nanos::ZERO,
            to: Nanos::MAX,
            sample: 1.0,
            seed: 0,
            ways: Ways::Both,
        }
    }
}

impl Select {
    /// Returns whether a message meets the conditions; `dns` is the parsed message. A message without a header is
    /// accepted only if there is no condition on its content.
    pub fn accepts(&self, message: &Message<'_>, dns: Option<&Dns>) -> bool {
        self.accepts_time(message.at)
            && self.accepts_content(dns)
            && self.accepts_client(client(message, dns))
            && self.accepts_sample(message, dns)
    }

    /// Returns whether the time meets the conditions.
    fn accepts_time(&self, at: Nanos) -> bool {
        self.from <= at && (at < self.to || self.to == Nanos::MAX)
    }

    /// Returns whether direction and question meet the conditions.
    fn accepts_content(&self, dns: Option<&Dns>) -> bool {
        let way = match (self.ways, dns) {
            (Ways::Both, _) => true,
            (_, None) => false,
            (ways, Some(dns)) => (ways == Ways::Replies) == dns.is_response(),
        };
        let question = dns.and_then(|dns| dns.question);
        let question_is =
            |want: &dyn Fn(&crate::dns::Question) -> bool| question.as_ref().is_some_and(want);
        way && (self.types.is_empty() || question_is(&|q| self.types.contains(&q.qtype)))
            && (self.zones.is_empty()
                || question_is(&|q| {
                    let name = q.name.as_wire();
                    self.zones.iter().any(|zone| place(name, zone.as_wire()) != Place::Outside)
                }))
    }

    /// Returns whether the client meets the conditions.
    fn accepts_client(&self, client: IpAddr) -> bool {
        self.clients.is_empty() || self.clients.iter().any(|network| network.contains(&client))
    }

    /// Returns whether the message is in the sample; uses fields that a query and its reply share, so both are in the
    /// sample or neither.
    fn accepts_sample(&self, message: &Message<'_>, dns: Option<&Dns>) -> bool {
        if self.sample >= 1.0 {
            return true;
        }
        let reply = dns.is_some_and(Dns::is_response);
        let (client, server) = if reply {
            (message.destination, message.source)
        } else {
            (message.source, message.destination)
        };
        let bits = |ip: IpAddr| match ip {
            IpAddr::V4(v4) => u128::from(u32::from(v4)),
            IpAddr::V6(v6) => u128::from(v6),
        };
        let id = message.bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
        let ports = u64::from(client.port()) << 32 | u64::from(server.port()) << 16 | u64::from(id);
        let (client, server) = (bits(client.ip()), bits(server.ip()));
        let mut hash = self.seed;
        for word in
            [client as u64, (client >> 64) as u64, server as u64, (server >> 64) as u64, ports]
        {
            hash ^= word;
            hash = splitmix64(&mut hash);
        }
        ((hash >> 11) as f64 / (1u64 << 53) as f64) < self.sample
    }
}

/// Ranges of labels below a zone, which cut a stream of messages as they cut the zone.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The zone whose names are cut.
    pub zone: Name,
    /// Range of labels of each part, in the order of the parts.
    pub ranges: Vec<LabelRange>,
}

impl Cut {
    /// Returns the numbers of the parts, from 0, that hold the name in the question; each part holds the apex.
    pub fn parts(&self, dns: Option<&Dns>) -> impl Iterator<Item = usize> {
        let question = dns.and_then(|dns| dns.question);
        let holds = move |range: &LabelRange| {
            question
                .as_ref()
                .is_some_and(|asked| range.has(&place(asked.name.as_wire(), self.zone.as_wire())))
        };
        self.ranges.iter().enumerate().filter(move |(_, range)| holds(range)).map(|(part, _)| part)
    }
}

/// Returns the client of a message: the sender of a query, the receiver of a reply.
fn client(message: &Message<'_>, dns: Option<&Dns>) -> IpAddr {
    let end = if dns.is_some_and(Dns::is_response) { message.destination } else { message.source };
    end.ip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Transport;

    /// Returns whether `select` accepts a query of `client` for `name`, and its reply.
    fn accepts(
        select: &Select,
        client: u8,
        id: u16,
        name: &str,
        qtype: Qtype,
        at: u64,
    ) -> [bool; 2] {
        let name: Name = name.parse().expect("a name");
        let mut bytes = wire::QueryTemplate::new(&name, qtype, true, false, None).bytes().to_vec();
        bytes[..2].copy_from_slice(&id.to_be_bytes());
        let (client, server) = (([10, 0, 0, client], 4_000).into(), ([192, 0, 2, 1], 53).into());
        let mut one = |source, destination| {
            let ends = [source, destination];
            let message = Message::whole(Transport::Udp, ends, Nanos(at), &bytes);
            let accepted = select.accepts(&message, Dns::read(&bytes).as_ref());
            bytes[2] |= 0x80;
            accepted
        };
        [one(client, server), one(server, client)]
    }

    #[test]
    fn each_condition_selects() {
        let all = Select::default();
        let select = |change: fn(&mut Select)| {
            let mut select = all.clone();
            change(&mut select);
            select
        };
        let (yes, no) = ([true; 2], [false; 2]);
        for (select, expected) in [
            (all.clone(), yes),
            (select(|s| s.zones = vec!["example".parse().expect("a name")]), yes),
            (select(|s| s.zones = vec!["www.EXAMPLE".parse().expect("a name")]), yes),
            (select(|s| s.zones = vec!["ample".parse().expect("a name")]), no),
            (select(|s| s.types = vec![Qtype::MX, Qtype::A]), yes),
            (select(|s| s.types = vec![Qtype::MX]), no),
            (select(|s| s.clients = vec!["10.0.0.0/30".parse().expect("a network")]), yes),
            (select(|s| s.clients = vec!["192.0.2.0/24".parse().expect("a network")]), no),
            (select(|s| s.from = Nanos(7)), yes),
            (select(|s| s.from = Nanos(8)), no),
            (select(|s| s.to = Nanos(7)), no),
            (select(|s| s.ways = Ways::Queries), [true, false]),
            (select(|s| s.ways = Ways::Replies), [false, true]),
            (select(|s| s.sample = 0.0), no),
        ] {
            assert_eq!(accepts(&select, 1, 9, "www.example", Qtype::A, 7), expected, "{select:?}");
        }
    }

    #[test]
    fn a_sample_contains_whole_transactions() {
        let select = Select { sample: 0.25, seed: 5, ..Select::default() };
        let accepted = (0..4_000u16)
            .filter(|&id| {
                let [query, reply] =
                    accepts(&select, (id % 100) as u8, id, "a.example", Qtype::A, 0);
                assert_eq!(query, reply);
                query
            })
            .count();
        assert!((900..1_100).contains(&accepted), "{accepted}");
    }
}
