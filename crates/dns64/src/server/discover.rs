//! The query for the prefixes of an upstream DNS64 server (RFC 7050), treated like other queries:
//! retransmissions, the transport of upstream, zones with servers of their own.

use std::net::Ipv4Addr;

use measure::Transport;
use wire::Query;

use super::{Ctx, Dns64};
use crate::answer::Needs;
use crate::config::Group;
use crate::follow::discovery;
use crate::policy::View;
use crate::question::Key;
use crate::special::Special;
use crate::streams::DISCOVERY;
use crate::transaction::{Client, ReplyTo};

impl Client {
    /// Returns whether the client is this server itself.
    pub(super) fn is_discovery(&self) -> bool {
        matches!(self.to, ReplyTo::Stream { stream: DISCOVERY, .. })
    }
}

impl Dns64 {
    /// Queries AAAA of `ipv4only.arpa` as a client that no block serves; the answer goes to the stream [`DISCOVERY`] and
    /// not into the cache.
    pub(super) fn discover(&mut self, ctx: &mut Ctx<'_>) {
        let template = discovery::query();
        let Ok(query) = Query::parse(template.bytes()) else { return };
        let Some(key) = Key::new(&query, Group::ALL, View::default(), false) else { return };
        Key::question(&key.name, key.qtype, &mut self.scratch.question);
        let address = Ipv4Addr::LOCALHOST.into();
        let client = Client {
            to: ReplyTo::Stream { stream: DISCOVERY, client: address },
            transport: Transport::Tcp,
            wants: Needs::new(&query, 0, Transport::Tcp, None),
            proven: true,
            network: self.delivery.admission.client(address).network,
            address,
            asked: ctx.now,
        };
        // No other client can join this question, so it needs no hash.
        if let Some(t) = self.open(Some(client), key, ctx) {
            self.start(t, Special::No, ctx);
        }
    }
}
