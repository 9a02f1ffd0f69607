//! Delivers answers to all clients that wait for them, and stores them in the cache.

use wire::Rcode;
use wire::extend::MAX_REPLY_OPTIONS;
use wire::message::OPT_FIXED;

use super::{Ctx, Dns64};
use crate::admission::{Admission, Verdict};
use crate::answer::{Age, AnswerRef, MAX_MESSAGE};
use crate::counters::Counters;
use crate::extended_error::ExtendedError;
use crate::statistics::Statistics;
use crate::streams::Outbox;
use crate::subnet::Subnet;
use crate::tap::Tap;
use crate::transaction::{Client, LookupId, ReplyTo, Transaction};

/// Delivery of answers to clients: rate limits, counters and observers.
pub(super) struct Delivery {
    pub(super) admission: Admission,
    pub(super) statistics: Statistics,
    pub(super) tap: Option<Box<Tap>>,
    pub(super) outbox: Outbox,
}

impl Dns64 {
    /// Sends the composed answer to one client.
    pub(super) fn deliver(&mut self, client: &Client, age: Age, ctx: &mut Ctx<'_>) {
        let answer = self.scratch.answer.as_ref();
        self.delivery.deliver(&answer, client, age, ctx, &mut self.counters);
    }

    /// Sends an error message; an empty message tells a stream that there is no reply.
    pub(super) fn send_error(
        &mut self,
        to: ReplyTo,
        network: u16,
        message: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        let copy = |out: &mut [u8]| {
            out.copy_from_slice(message);
            message.len()
        };
        let sent = match to {
            ReplyTo::Stream { stream, client } => {
                self.delivery.outbox.answer(stream, client, message.len(), copy)
            }
            ReplyTo::Datagram(_) if message.is_empty() => return,
            ReplyTo::Datagram(to) => {
                if self.delivery.admission.reply(network, &message[2..], ctx.now) != Verdict::Send {
                    self.counters.rate_limited += 1;
                    return;
                }
                let sent = ctx.tx.push(to, message.len(), copy);
                self.counters.replies += u64::from(sent);
                sent
            }
        };
        self.counters.unsent += u64::from(!sent);
    }

    /// Sends the composed answer of this server itself to a client: it is valid for all networks
    /// (RFC 7871 section 7.2.2).
    pub(super) fn deliver_own(
        &mut self,
        client: &Client,
        subnet: Option<Subnet>,
        ctx: &mut Ctx<'_>,
    ) {
        subnet.iter().for_each(|subnet| subnet.push_answer(0, &mut self.scratch.answer.options));
        self.deliver(client, Age::Fresh, ctx);
    }

    /// Stores the composed answer, sends it to all waiting clients and ends the question.
    pub(super) fn finish(&mut self, t: u32, ctx: &mut Ctx<'_>) {
        let Transaction { subnet, scope, .. } = &self.questions[t];
        let options = &mut self.scratch.answer.options;
        subnet.iter().for_each(|subnet| subnet.push_answer(*scope, options));
        let answer = &mut self.scratch.answer;
        self.store.put(&self.questions[t], answer, &self.settings, ctx.now);
        self.deliver_to_all(t, Age::Fresh, ctx);
        self.close(t);
    }

    /// Ends a question without a valid reply: with a recently expired answer if that is allowed and stored,
    /// otherwise with SERVFAIL and its reason.
    pub(super) fn fail(&mut self, t: u32, reason: Option<ExtendedError>, ctx: &mut Ctx<'_>) {
        if !self.serve_stale(t, ctx) {
            self.fail_now(t, reason, ctx);
        }
    }

    /// Ends a question with SERVFAIL and its reason.
    pub(super) fn fail_now(&mut self, t: u32, reason: Option<ExtendedError>, ctx: &mut Ctx<'_>) {
        self.question_of(t);
        let answer = &mut self.scratch.answer;
        answer.question_only(&self.scratch.question, Rcode::SERVFAIL);
        answer.failure = true;
        reason.iter().for_each(|reason| reason.push(&mut answer.options));
        self.finish(t, ctx);
    }

    /// Ends a question whose answer upstream cannot send whole: with a recently expired answer, or with an empty truncated
    /// one over UDP, so that the client uses TCP, and SERVFAIL over a stream (RFC 2181 section 9).
    pub(super) fn fail_truncated(&mut self, t: u32, ctx: &mut Ctx<'_>) {
        if !self.serve_stale(t, ctx) {
            self.question_of(t);
            let answer = &mut self.scratch.answer;
            answer.incomplete(&self.scratch.question);
            ExtendedError::NetworkError.push(&mut answer.options);
            self.finish(t, ctx);
        }
    }

    /// Ends a question without a reply to its clients.
    pub(super) fn drop_all(&mut self, t: u32, ctx: &mut Ctx<'_>) {
        while let Some(client) = self.questions.next_client(t) {
            self.delivery.admission.leave(client.network);
            self.send_error(client.to, client.network, &[], ctx);
        }
        self.close(t);
    }

    /// Sends the composed answer to all clients that wait for it.
    pub(super) fn deliver_to_all(&mut self, t: u32, age: Age, ctx: &mut Ctx<'_>) {
        if self.scratch.answer.rcode == Rcode::SERVFAIL.0 {
            self.counters.failures += 1;
        }
        while let Some(client) = self.questions.next_client(t) {
            self.delivery.admission.leave(client.network);
            self.deliver(&client, age, ctx);
        }
    }

    /// Removes a question from all tables.
    pub(super) fn close(&mut self, t: u32) {
        self.release(LookupId::first(t));
        self.release(LookupId::second(t));
        self.questions.close(t);
    }
}

impl Delivery {
    /// Sends an answer to one client.
    pub(super) fn deliver(
        &mut self,
        answer: &AnswerRef<'_>,
        client: &Client,
        age: Age,
        ctx: &mut Ctx<'_>,
        counters: &mut Counters,
    ) {
        let mut wants = client.wants;
        // A client on a stream is proven.
        let verdict = match client.proven {
            true => Verdict::Send,
            false => self.admission.reply(client.network, answer.identity(), ctx.now),
        };
        match verdict {
            Verdict::Send => {}
            Verdict::Slip => {
                // Room for the question only.
                wants.limit = (answer.question_end + 11) as u16;
                counters.rate_limited += 1;
            }
            Verdict::Drop => return counters.rate_limited += 1,
        }
        let mut truncated = false;
        let write = |out: &mut [u8]| {
            let len;
            (len, truncated) = answer.deliver(&wants, age, out);
            // The server's own query has no client.
            let tap = self.tap.iter_mut().filter(|_| !client.is_discovery());
            tap.for_each(|tap| tap.answer(client, ctx.now, &out[..len]));
            len
        };
        let sent = match client.to {
            ReplyTo::Stream { stream, client: address } => {
                let own = OPT_FIXED + answer.options.len();
                let asked = if client.wants.options.is_empty() { 0 } else { MAX_REPLY_OPTIONS };
                let room = (answer.bytes.len() + own + asked).min(MAX_MESSAGE);
                self.outbox.answer(stream, address, room, write)
            }
            ReplyTo::Datagram(to) => ctx.tx.push(to, wants.limit.into(), write),
        };
        counters.replies += u64::from(sent);
        counters.unsent += u64::from(!sent);
        counters.truncated += u64::from(truncated);
        if sent {
            let (rcode, latency) = (Rcode(answer.rcode), ctx.now.since(client.asked));
            self.statistics.answered(answer.qtype(), rcode, latency);
        }
    }
}
