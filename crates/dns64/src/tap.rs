//! Observed queries and answers, for the query log and for dnstap.
//!
//! A worker without both has no tap. One with a tap copies messages into a buffer, which its caller
//! takes after each step, so that no thread waits; what does not fit into the buffer is counted as
//! lost.

use std::net::IpAddr;

use engine::Destination;
use measure::{Nanos, Transport};

use crate::config::Config;
use crate::transaction::{Client, ReplyTo};

/// Octets of messages that one step may observe: a batch of queries and their answers of usual size.
const MAX_STEP_OCTETS: usize = 2 << 20;

/// The messages of one step.
#[derive(Debug, Default)]
pub struct Observed {
    octets: Vec<u8>,
    entries: Vec<ObservedMessage>,
    /// Number of messages that the buffer could not hold.
    pub lost: u64,
}

/// Kind of an observed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapKind {
    /// A query as it came from the client, before any rule was applied.
    Query,
    /// The answer to a client.
    Answer,
}

/// A message for the query log or dnstap; its octets are stored separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedMessage {
    /// The kind of the message: the client's query or the answer to it.
    pub kind: TapKind,
    /// Whether the query log gets the message.
    pub is_logged: bool,
    /// Whether dnstap gets the message; the query log may take only a sample.
    pub is_tapped: bool,
    /// Address of the client: the source of the query, the destination of the answer.
    pub client: IpAddr,
    /// Port of the client; `None` on a stream.
    pub port: Option<u16>,
    /// Transport over which the client's query came.
    pub transport: Transport,
    /// Time at which the client's query came.
    pub asked: Nanos,
    /// Time of the message itself.
    pub at: Nanos,
    start: usize,
    end: usize,
}

impl Observed {
    /// Returns the messages in the order of their times.
    pub fn iter(&self) -> impl Iterator<Item = (&ObservedMessage, &[u8])> {
        self.entries.iter().map(|entry| (entry, &self.octets[entry.start..entry.end]))
    }

    /// Removes all messages and keeps the memory.
    pub fn clear(&mut self) {
        self.octets.clear();
        self.entries.clear();
        self.lost = 0;
    }
}

/// Which messages a worker copies for the query log and dnstap, and the copies since the last
/// hand-over.
#[derive(Debug)]
pub(crate) struct Tap {
    queries: bool,
    answers: bool,
    /// The query log gets one in this number of answers; 0: none.
    sample: u32,
    /// Number of answers until the next one that is.
    until_sample: u32,
    pub(crate) observed: Observed,
}

impl Tap {
    /// Makes the tap of a configuration; `None` if nothing is to be observed.
    pub(crate) fn new(config: &Config) -> Option<Box<Self>> {
        let dnstap = config.dnstap.is_on();
        let tap = Tap {
            queries: dnstap && config.dnstap.queries,
            answers: dnstap && config.dnstap.answers,
            sample: config.server.log_queries,
            until_sample: 0,
            observed: Observed::default(),
        };
        (tap.queries || tap.answers || tap.sample > 0).then(|| Box::new(tap))
    }

    /// Copies a client's query if dnstap has queries.
    pub(crate) fn query(&mut self, client: &Client, message: &[u8]) {
        if self.queries {
            self.add(TapKind::Query, client, client.asked, message, false);
        }
    }

    /// Observes an answer to a client.
    pub(crate) fn answer(&mut self, client: &Client, now: Nanos, message: &[u8]) {
        let mut is_logged = false;
        if self.sample > 0 {
            is_logged = self.until_sample == 0;
            self.until_sample = if is_logged { self.sample } else { self.until_sample } - 1;
        }
        if self.answers || is_logged {
            self.add(TapKind::Answer, client, now, message, is_logged);
        }
    }

    fn add(&mut self, kind: TapKind, client: &Client, at: Nanos, message: &[u8], is_logged: bool) {
        let Observed { octets, entries, lost } = &mut self.observed;
        let start = octets.len();
        if start + message.len() > MAX_STEP_OCTETS {
            *lost += 1;
            return;
        }
        octets.extend_from_slice(message);
        let port = match client.to {
            ReplyTo::Datagram(Destination::Peer { peer, .. }) => Some(peer.port()),
            _ => None,
        };
        let is_tapped = if kind == TapKind::Query { self.queries } else { self.answers };
        let &Client { address, transport, asked, .. } = client;
        let (client, end) = (address, octets.len());
        entries.push(ObservedMessage {
            kind,
            is_logged,
            is_tapped,
            client,
            port,
            transport,
            asked,
            at,
            start,
            end,
        });
    }
}
