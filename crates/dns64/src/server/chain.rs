//! The chain of aliases of a reply, as far as the server that sent it knows; and names at its end that are answered locally.

use wire::edns::opt_fixed;
use wire::message::{HEADER, Record, name_at, records};
use wire::{Name, Qtype};

use super::outcome::Outcome;
use super::{Ctx, Dns64};
use crate::config::Group;
use crate::policy::View;
use crate::question::{Key, KeyFlags};
use crate::reply::{Reading, Reply};
use crate::special::{self, Asked, Special};
use crate::transaction::{LookupId, Transaction};

impl Dns64 {
    /// Follows the chain of a reply into the scratch buffers; `None` if it cannot be followed.
    pub(super) fn read(&mut self, t: u32, reply: &Reply<'_>, qtype: Qtype) -> Option<Reading> {
        let Transaction {
            key: Key { flags: KeyFlags { dnssec, .. }, group, .. }, is_apart, ..
        } = self.questions[t];
        // Rules for the names of additional records also decide which of them are kept.
        if group != Group::ALL && !is_apart {
            let owners =
                reply.additional().filter_map(|record| name_at(reply.bytes(), record.owner));
            owners.for_each(|owner| self.note_name(t, Some(&owner.to_lowercase())));
        }
        let mut reading =
            reply.read(qtype, dnssec, &mut self.scratch.chain, &mut self.scratch.found);
        match &mut reading {
            Some(reading) if reading.hops > 0 => self.cut(t, reading),
            Some(reading) => self.note_name(t, Some(&reading.name)),
            None => {}
        }
        reading
    }

    /// Records a name that a question has reached, or its own without one: if other clients may get another answer for it,
    /// the answer is valid for the client's group only.
    pub(super) fn note_name(&mut self, t: u32, name: Option<&Name>) {
        let transaction = &self.questions[t];
        if transaction.key.group != Group::ALL && !transaction.is_apart {
            let is_apart = self.settings.is_apart(name.unwrap_or(transaction.name()));
            self.questions[t].is_apart = is_apart;
        }
    }

    /// Returns whether this server itself knows the records of a name to which a question has moved, over `more` aliases than before.
    pub(super) fn is_local(&self, t: u32, more: &[u8], name: &Name) -> bool {
        let (settings, group) = (&self.settings, self.questions[t].key.group);
        // Upstream may lead from the target of a rule back into its wildcard: then upstream's
        // records are used, unless the aliases form a loop.
        let is_taken =
            |target: &Name| self.visits(t, more, target) == 0 || self.visits(t, more, name) > 1;
        settings.rules.has_records(group, name, is_taken)
            || special::is_local(&settings.policy, group, name)
    }

    /// Returns how often a question has reached a name, over `more` aliases than before.
    fn visits(&self, t: u32, more: &[u8], name: &Name) -> usize {
        let Transaction { key, chain, .. } = &self.questions[t];
        let is_it = |record: &Record<'_>| {
            record.rtype == Qtype::CNAME && record.rdata.eq_ignore_ascii_case(name.as_wire())
        };
        let led = |chain| records(chain, 0).filter(is_it).count();
        let start = self.target(t).map_or(key.name, |target| target.name);
        usize::from(start == *name) + led(chain) + led(more)
    }

    /// Ends a lookup for a name to which its question has moved, if this server itself knows the records of the name; returns whether
    /// it does.
    pub(super) fn ends_locally(&mut self, at: LookupId, ctx: &mut Ctx<'_>) -> bool {
        let transaction = &self.questions[at.transaction];
        let Some(name) = transaction.name.as_deref().copied() else { return false };
        let mut key = Key { name, qtype: self.questions[at].qtype, ..transaction.key };
        if !self.is_local(at.transaction, &[], &name) {
            return false;
        }
        if self.settings.is_never(key.group, &transaction.key.name) {
            key.view = View::default();
        }
        Key::question(&name, key.qtype, &mut self.scratch.question);
        if self.answer_moved(&key, ctx.now) {
            // A reload may remove the rule before a cached answer expires.
            self.questions[at.transaction].cached = false;
        } else {
            let view = self.whole_view(at.transaction);
            let (policy, scratch) = (&self.settings.policy, &mut self.scratch);
            let (question, answer) = (&scratch.question, &mut scratch.answer);
            match (Asked { policy, key: &key, question, answer }).answer(view, ctx.now) {
                Special::No => return false,
                // Other clients with the same key may have other blocks.
                Special::Ipv4Only => self.questions[at.transaction].cached = false,
                _ => {}
            }
        }
        // Extended errors of the answer are those of a reply.
        let answer = &self.scratch.answer;
        let opt = opt_fixed(0, 0, false, answer.options.len() as u16);
        let mut message = [answer.bytes(), &opt, &answer.options].concat();
        let additional = u16::from_be_bytes([message[10], message[11]]) + 1;
        message[10..HEADER].copy_from_slice(&additional.to_be_bytes());
        let outcome = Reply::parse(&message).map_or(Outcome::Nothing, Outcome::Reply);
        self.proceed(at, outcome, ctx);
        true
    }

    /// Ends the chain of a reply at its first name that belongs to other servers than the queried
    /// ones, or that this server answers itself: only these have the rest of the chain.
    fn cut(&mut self, t: u32, reading: &mut Reading) {
        let group = self.questions[t].key.group;
        let pool = self.upstreams.pool_for(group, self.questions[t].name());
        let (mut at, mut hops) = (0, 0);
        while let Some((record, end)) = Record::read(&self.scratch.chain, at) {
            at = end;
            if record.rtype != Qtype::CNAME {
                continue;
            }
            let Ok(name) = Name::from_wire(record.rdata) else { break };
            let name = name.to_lowercase();
            hops += 1;
            self.note_name(t, Some(&name));
            if self.upstreams.pool_for(group, &name) != pool
                || self.is_local(t, &self.scratch.chain[..at], &name)
            {
                while let Some((signature, end)) = Record::read(&self.scratch.chain, at)
                    && signature.rtype == Qtype::RRSIG
                {
                    at = end;
                }
                self.scratch.chain.truncate(at);
                self.scratch.found.clear();
                (reading.name, reading.hops) = (name, hops);
                (reading.wanted, reading.leaves) = (0, true);
                return;
            }
        }
    }
}
