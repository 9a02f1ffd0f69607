//! The chain of aliases of a reply, as far as the server that sent it knows.

use wire::message::Record;
use wire::{Name, Qtype};

use super::Dns64;
use crate::config::Group;
use crate::reply::{Reading, Reply};

impl Dns64 {
    /// Follows the chain of a reply into the scratch buffers; `None` if it cannot be followed.
    pub(super) fn read(&mut self, t: u32, reply: &Reply<'_>, qtype: Qtype) -> Option<Reading> {
        let dnssec = self.questions[t].key.flags.dnssec;
        let reading =
            reply.read(qtype, dnssec, &mut self.scratch.chain, &mut self.scratch.found)?;
        match reading.hops > 0 && self.upstreams.has_zones() {
            true => Some(self.cut(t, reading)),
            false => {
                self.note_name(t, reading.name);
                Some(reading)
            }
        }
    }

    /// Notes a name to which a question has come: where other clients may get another answer for it, the answer is for the group of the
    /// client only.
    pub(super) fn note_name(&mut self, t: u32, name: Name) {
        let transaction = &mut self.questions[t];
        if transaction.key.group != Group::ALL && !transaction.is_apart {
            transaction.is_apart = self.settings.is_apart(&name);
        }
    }

    /// Ends the chain of a reply at its first name for which other servers than those that were queried are asked: only these know
    /// what follows.
    fn cut(&mut self, t: u32, reading: Reading) -> Reading {
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
            self.note_name(t, name);
            if self.upstreams.pool_for(group, &name) != pool {
                while let Some((signature, end)) = Record::read(&self.scratch.chain, at)
                    && signature.rtype == Qtype::RRSIG
                {
                    at = end;
                }
                self.scratch.chain.truncate(at);
                self.scratch.found.clear();
                return Reading { name, hops, wanted: 0, leaves: true, ..reading };
            }
        }
        reading
    }
}
