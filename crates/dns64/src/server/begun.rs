//! Queries whose resolution a program in front of the server has begun.

use engine::Received;
use wire::{Qtype, Rcode};

use super::credible::is_exact;
use super::outcome::Outcome;
use super::{Ctx, Dns64};
use crate::plain::ContinuedQuery;
use crate::reply::{self, Reply};
use crate::transaction::{Attempt, Lookup, LookupId, Path};

impl Dns64 {
    /// Handles a query that was begun: as one that arrives now, except that the reply to its first query to upstream may be there.
    pub(super) fn on_begun(&mut self, begun: ContinuedQuery, ctx: &mut Ctx<'_>) {
        let ContinuedQuery { socket, client, message, reply } = begun;
        ctx.begun = reply;
        let query = Received { socket, peer: client, to: None, at: ctx.now, bytes: &message };
        self.on_query(&query, ctx);
        ctx.begun = None;
    }

    /// Begins a question with the reply that came with it, if the reply answers it; returns whether
    /// it does.
    pub(super) fn use_begun(&mut self, t: u32, ctx: &mut Ctx<'_>) -> bool {
        let Some((address, mut message)) = ctx.begun.take() else { return false };
        let Some(server) = self.upstreams.number_of(address) else { return false };
        let claims_authentic = reply::claims_authentic(&message);
        reply::normalise(&mut message, self.upstreams.trusts(server));
        let name = *self.questions[t].name();
        let Some(reply) = Reply::parse(&message)
            .filter(|reply| is_exact(reply.question, &name, Qtype::AAAA))
            .filter(|reply| Rcode(reply.rcode) != Rcode::BADCOOKIE)
        else {
            return false;
        };
        let until = ctx.now + self.settings.config.upstream.give_up_after;
        let last =
            Attempt { path: Path::Unsent, server, case_seed: 0, has_cookie: false, sent: ctx.now };
        let lookup = Lookup::begun(Qtype::AAAA, last, until);
        self.questions[t].lookups[0] = Lookup { claims_authentic, ..lookup };
        if reply.is_truncated() {
            self.on_truncated(LookupId::first(t), ctx.now);
        } else {
            self.end_lookup(LookupId::first(t), Outcome::Reply(reply), ctx);
        }
        true
    }
}
