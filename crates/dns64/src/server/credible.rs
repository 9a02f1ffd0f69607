//! Checks that a reply belongs to its query and is not forged: its question, the letter case of the
//! name in it (0x20), its client subnet (RFC 7871), and its cookie (RFC 7873).

use measure::Nanos;
use wire::message::HEADER;
use wire::{Name, Qclass, Qtype};

use super::Dns64;
use crate::question::Case;
use crate::reply::Reply;
use crate::transaction::{Attempt, Lookup, LookupId, Path, QueryEdns};
use crate::upstream::{Credibility, ServerId};

/// Whether a reply is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyTrust {
    /// The reply matches the query, and the server's ways are as before.
    Yes,
    /// The server has stopped using cookies, or the reply is forged: a query over a stream, which
    /// no third party can answer, shows which.
    Doubtful,
    /// The reply belongs to another query, or is forged.
    No,
}

impl Dns64 {
    /// Returns whether a reply to an attempt of a lookup is believed; `octets` is the message as received.
    pub(super) fn belief(
        &mut self,
        attempt: &Attempt,
        at: LookupId,
        reply: &Reply<'_>,
        octets: &[u8],
        now: Nanos,
    ) -> ReplyTrust {
        let (transaction, server) = (&self.questions[at.transaction], attempt.server);
        let lookup = transaction.lookups[at.slot];
        let question = &octets[HEADER..HEADER + reply.question.len()];
        let matched = compare(question, transaction.name(), lookup.qtype, attempt.case_seed);
        if matched == QuestionMatch::No || self.is_for_another_subnet(at.transaction, reply) {
            return ReplyTrust::No;
        }
        match self.check_cookie(attempt, &lookup, reply, now) {
            Credibility::Wrong => return ReplyTrust::No,
            Credibility::Missing => return ReplyTrust::Doubtful,
            Credibility::Right => {}
        }
        if matched == QuestionMatch::OtherCase {
            self.upstreams.note_case_changed(server, now);
            return ReplyTrust::Doubtful;
        }
        if attempt.case_seed != 0 {
            self.upstreams.note_case_kept(server);
        }
        ReplyTrust::Yes
    }

    /// Returns whether a reply is to a client subnet that was not sent (RFC 7871 section 7.3).
    fn is_for_another_subnet(&self, t: u32, reply: &Reply<'_>) -> bool {
        self.questions[t].subnet.as_ref().is_some_and(|subnet| reply.scope(subnet).is_none())
    }

    /// Returns whether the next attempt of a lookup has a cookie.
    pub(super) fn sends_cookie(&self, at: LookupId, server: ServerId, now: Nanos) -> bool {
        let lookup = &self.questions[at];
        let edns =
            self.settings.config.upstream.udp_size > 0 && lookup.edns == QueryEdns::WithOptions;
        edns && self.upstreams.sends_cookie(server, lookup.has_unanswered_cookie(server), now)
    }

    /// Compares the cookie of a reply with the cookie of its query.
    fn check_cookie(
        &mut self,
        attempt: &Attempt,
        lookup: &Lookup,
        reply: &Reply<'_>,
        now: Nanos,
    ) -> Credibility {
        let cookie = self.upstreams.cookie_mut(attempt.server);
        if !attempt.has_cookie {
            if lookup.has_unanswered_cookie(attempt.server) {
                cookie.note_absent(now);
            }
            return Credibility::Right;
        }
        let returned = reply.cookie();
        let seen = cookie.check(returned, now);
        let is_own = returned.is_some() && seen == Credibility::Right;
        self.counters.upstream_cookies += u64::from(is_own);
        seen
    }

    /// Returns whether a reply over a stream belongs to its query. Its cookie shows whether the
    /// server still uses cookies.
    pub(super) fn believes_on_stream(
        &mut self,
        t: u32,
        lookup: &Lookup,
        reply: &Reply<'_>,
        now: Nanos,
    ) -> bool {
        let name = self.questions[t].name();
        if compare(reply.question, name, lookup.qtype, 0) == QuestionMatch::No
            || self.is_for_another_subnet(t, reply)
        {
            return false;
        }
        let seen = self.check_cookie(&lookup.last, lookup, reply, now);
        if seen == Credibility::Missing {
            self.upstreams.cookie_mut(lookup.last.server).forget();
        }
        seen != Credibility::Wrong
    }
}

impl Lookup {
    /// Returns whether the attempt before the last one had a cookie for a server, and has no reply.
    fn has_unanswered_cookie(&self, server: ServerId) -> bool {
        let Attempt { path, server: asked, has_cookie, .. } = self.earlier;
        path != Path::None && asked == server && has_cookie
    }
}

/// Result of the comparison of a reply's question with the one sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuestionMatch {
    Exact,
    OtherCase,
    No,
}

/// Returns whether a question in lower case is that for a name and a type.
pub(super) fn is_exact(question: &[u8], name: &Name, qtype: Qtype) -> bool {
    compare(question, name, qtype, 0) == QuestionMatch::Exact
}

/// Compares the question of a reply, as received, with the one sent.
fn compare(question: &[u8], name: &Name, qtype: Qtype, seed: u64) -> QuestionMatch {
    let Some((replied, tail)) = question.split_last_chunk::<4>() else { return QuestionMatch::No };
    let [t1, t0] = qtype.0.to_be_bytes();
    let [c1, c0] = Qclass::IN.0.to_be_bytes();
    let name = name.as_wire();
    if *tail != [t1, t0, c1, c0] || replied.len() != name.len() {
        return QuestionMatch::No;
    }
    let mut asked = [0; 255];
    let asked = &mut asked[..name.len()];
    asked.copy_from_slice(name);
    Case::random(seed).apply(asked);
    if replied == asked {
        QuestionMatch::Exact
    } else if replied.eq_ignore_ascii_case(asked) {
        QuestionMatch::OtherCase
    } else {
        QuestionMatch::No
    }
}
