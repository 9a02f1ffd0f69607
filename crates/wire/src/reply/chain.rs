//! Chains of aliases in the answer section.
//!
//! The answer section may lead from the queried name through CNAME records (RFC 1034 section 3.6.2), or through a DNAME
//! record, which replaces the end of every name below its owner (RFC 6672), to the records of the wanted type:
//!
//! ```text
//!   www.example  CNAME  web.old.test        question: www.example AAAA
//!   old.test     DNAME  new.test
//!   web.old.test CNAME  web.new.test        (synthesized from the DNAME; may be left out)
//!   web.new.test AAAA   2001:db8::1         the end of the chain
//! ```
//!
//! Records usually have this order, but it is not required, so the section is read again until the chain stops growing.
//! At most [`MAX_HOPS`] aliases are followed (so the section is read at most 17 times), and at most `MAX_STEPS`
//! labels and pointers of a message are read: a loop of aliases counts as "no answer", a message made to be slow as
//! "malformed".

use crate::message::{Budget, HEADER, Record, Relation, labels, relate};
use crate::name::Name;
use crate::reply::Invalid;
use crate::rr::{Qclass, Qtype};

/// Largest number of aliases that are followed, about as many as resolvers follow.
pub const MAX_HOPS: u32 = 16;

/// Largest number of labels and pointers that are read in one message; the worst 64 KiB message found takes 0.9 ms.
const MAX_STEPS: u32 = 1 << 16;

/// The answer section of a message.
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a> {
    /// The whole message, since names in it are compressed.
    pub reply: &'a [u8],
    /// The offset where the answers start.
    pub at: usize,
    /// Number of answers by the header (ANCOUNT).
    pub count: u16,
    /// The question: name, type and class in wire form.
    pub question: &'a [u8],
}

/// One event while the answer section is read.
#[derive(Clone, Copy, Debug)]
pub enum ChainEvent<'a> {
    /// Reading starts at the first answer again: wanted records that were reported before are reported again.
    Start,
    /// An alias in the chain: a CNAME of the name, or a DNAME of a name above it.
    Alias(Record<'a>),
    /// The CNAME that a server synthesized from the DNAME before it; it leads to the same name.
    Synthesized(Record<'a>),
    /// A record of the wanted type, at the current end of the chain.
    Wanted(Record<'a>),
}

/// The end of a chain of aliases.
#[derive(Clone, Copy, Debug)]
pub struct ChainEnd {
    /// The last name of the chain.
    pub name: Name,
    /// Number of aliases in the chain.
    pub hops: u32,
    /// Number of records of the wanted type at that name.
    pub wanted: u32,
    /// Number of records of other types at that name.
    pub other: u32,
}

/// The result of one pass over the answer section.
#[derive(Default)]
struct ChainPass {
    /// Number of records of the wanted type.
    wanted: u32,
    /// Number of records of other types, without aliases.
    other: u32,
    /// Whether an alias led to another name.
    moved: bool,
}

impl<'a> Answers<'a> {
    /// Checks that the chain ends in records of type `wanted`, all with `size` octets of data that
    /// `right` accepts.
    pub(super) fn check_all(
        &self,
        wanted: Qtype,
        size: usize,
        right: impl Fn(&[u8]) -> bool,
    ) -> Result<u8, Invalid> {
        let end = self.follow(wanted, &mut |event| match event {
            ChainEvent::Wanted(record) if record.rdata.len() != size => Err(Invalid::Malformed),
            ChainEvent::Wanted(record) if !right(record.rdata) => Err(Invalid::WrongAddress),
            _ => Ok(()),
        })?;
        match end {
            Some(ChainEnd { wanted: 1.., .. }) => Ok(0),
            Some(ChainEnd { other: 1.., .. }) => Err(Invalid::WrongType),
            _ => Err(Invalid::NoAnswer),
        }
    }

    /// Checks that the chain ends without a record of the query type.
    pub(super) fn check_none(&self) -> Result<u8, Invalid> {
        let end = self.follow(self.qtype(), &mut |_| Ok(()))?;
        if end.is_some_and(|end| end.wanted > 0) { Err(Invalid::UnexpectedAnswer) } else { Ok(0) }
    }

    /// Follows the chain of aliases and returns its end; `None` after more than [`MAX_HOPS`] aliases. Calls `visit` for
    /// each event in order; an error from `visit` ends the reading.
    pub fn follow(
        &self,
        wanted: Qtype,
        visit: &mut impl FnMut(ChainEvent<'a>) -> Result<(), Invalid>,
    ) -> Result<Option<ChainEnd>, Invalid> {
        let qname = &self.question[..self.question.len().saturating_sub(4)];
        let Ok(mut name) = Name::from_wire(qname) else { return Err(Invalid::Malformed) };
        let (mut hops, mut found) = (0, ChainPass::default());
        let mut budget = Budget(MAX_STEPS);
        // Mostly the section is empty, or one pass is enough.
        for _ in 0..if self.count == 0 { 0 } else { MAX_HOPS + 1 } {
            visit(ChainEvent::Start)?;
            found = self.read(&mut name, wanted, &mut hops, &mut budget, visit)?;
            if !found.moved || hops > MAX_HOPS {
                break;
            }
        }
        if found.moved {
            return Ok(None);
        }
        Ok(Some(ChainEnd { name, hops, wanted: found.wanted, other: found.other }))
    }

    /// Reads the section once and moves `name` along the aliases that it finds.
    fn read(
        &self,
        name: &mut Name,
        wanted: Qtype,
        hops: &mut u32,
        budget: &mut Budget,
        visit: &mut impl FnMut(ChainEvent<'a>) -> Result<(), Invalid>,
    ) -> Result<ChainPass, Invalid> {
        let mut found = ChainPass::default();
        // The name that the last DNAME replaced.
        let mut replaced: Option<Name> = None;
        let mut at = self.at;
        for _ in 0..self.count {
            let (record, end) = Record::read(self.reply, at).ok_or(Invalid::Malformed)?;
            at = end;
            if record.class != self.qclass() && self.qclass() != Qclass::ANY {
                continue;
            }
            let deeper = record.rtype == Qtype::DNAME;
            let relation = if *hops == 0 && !deeper && self.points_to_question(record.owner) {
                Relation::Same
            } else {
                relate(self.reply, record.owner, name.as_wire(), deeper, budget)
                    .ok_or(Invalid::Malformed)?
            };
            let is_wanted = record.rtype == wanted || wanted == Qtype::ANY;
            let target = match relation {
                Relation::Same if is_wanted => {
                    visit(ChainEvent::Wanted(record))?;
                    found.wanted += 1;
                    None
                }
                Relation::Same if record.rtype == Qtype::CNAME => Some(0),
                Relation::Same => {
                    found.other += 1;
                    None
                }
                Relation::Above(front) => Some(front),
                Relation::Other => {
                    if let Some(old) = &replaced
                        && record.rtype == Qtype::CNAME
                        && relate(self.reply, record.owner, old.as_wire(), false, budget)
                            .ok_or(Invalid::Malformed)?
                            == Relation::Same
                    {
                        replaced = None;
                        visit(ChainEvent::Synthesized(record))?;
                    }
                    None
                }
            };
            if let Some(front) = target {
                let next = self
                    .alias_target(name, front, &record, end, budget)
                    .ok_or(Invalid::Malformed)?;
                let old = std::mem::replace(name, next);
                replaced = (record.rtype == Qtype::DNAME).then_some(old);
                visit(ChainEvent::Alias(record))?;
                *hops += 1;
                if *hops > MAX_HOPS {
                    return Ok(ChainPass { moved: true, ..ChainPass::default() });
                }
                found = ChainPass { moved: true, ..ChainPass::default() };
            }
        }
        Ok(found)
    }

    /// Returns the first `front` octets of `name` followed by the target of an alias record.
    fn alias_target(
        &self,
        name: &Name,
        front: usize,
        record: &Record<'_>,
        end: usize,
        budget: &mut Budget,
    ) -> Option<Name> {
        // The name must fill the data exactly, not counting the targets of pointers.
        if crate::message::skip_name(self.reply, record.rdata_at)? != end {
            return None;
        }
        Name::join(&name.as_wire()[..front], labels(self.reply, record.rdata_at, budget))
    }

    /// Returns whether the name at `owner` is a pointer to the name in the question, which has been compared already.
    fn points_to_question(&self, owner: usize) -> bool {
        crate::message::word(self.reply, owner) == Some(0xc000 | HEADER as u16)
    }

    fn qtype(&self) -> Qtype {
        Qtype(self.question_word(4))
    }

    fn qclass(&self) -> Qclass {
        Qclass(self.question_word(2))
    }

    /// Returns the two octets that are `from_end` octets before the end of the question; the question has been parsed
    /// before.
    fn question_word(&self, from_end: usize) -> u16 {
        crate::message::word(self.question, self.question.len() - from_end).unwrap_or(0)
    }
}
