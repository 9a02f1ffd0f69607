//! Answers behind aliases.
//!
//! The answer section may start at the name asked for and go through CNAME records (RFC 1034 section 3.6.2), or through
//! a DNAME, which replaces the end of every name below its owner (RFC 6672), before it comes to the records wanted:
//!
//! ```text
//!   www.example  CNAME  web.old.test        asked: www.example AAAA
//!   old.test     DNAME  new.test
//!   web.old.test CNAME  web.new.test        (made from the DNAME; may be left out)
//!   web.new.test AAAA   2001:db8::1         the end of the chain
//! ```
//!
//! Records usually stand in this order, but nothing says they must, so the section is read again until the chain grows
//! no more. At most [`MAX_HOPS`] aliases are followed (so the section is read at most 17 times), and at most
//! [`MAX_STEPS`] labels and pointers are looked at in a message, whatever it holds: a loop of aliases ends as "no
//! answer", a message made to be slow as "malformed".

use crate::message::{Budget, HEADER, NameBuffer, Record, Relation, relate};
use crate::name::Name;
use crate::reply::Invalid;
use crate::rr::{Qclass, Qtype};

/// The most aliases that are followed, about as many as resolvers do.
pub const MAX_HOPS: u32 = 16;

/// The most labels and pointers that are followed in one message; the worst 64 KiB message found takes 0.9 ms.
const MAX_STEPS: u32 = 1 << 16;

/// The answer section of a message.
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a> {
    /// The message.
    pub reply: &'a [u8],
    /// The offset where its answers start.
    pub at: usize,
    /// How many there are.
    pub count: u16,
    /// The question that they answer: name, type and class in wire form.
    pub question: &'a [u8],
}

/// What a reader of the section comes by.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// The section is read from its start again: records wanted that were seen so far will be seen again.
    Start,
    /// An alias on the way: a CNAME, or a DNAME above.
    Alias(Record<'a>),
    /// The CNAME that stands for the DNAME before it, and leads no further than that.
    Made(Record<'a>),
    /// A record of the type wanted, at the name where the chain has come to.
    Wanted(Record<'a>),
}

/// Where a chain of aliases ends.
#[derive(Clone, Copy, Debug)]
pub struct ChainEnd {
    /// The name there.
    pub name: Name,
    /// How many aliases led to it.
    pub hops: u32,
    /// How many records of the type wanted it has.
    pub wanted: u32,
    /// How many of other types.
    pub other: u32,
}

/// What one reading of the section found at the name where it began.
#[derive(Default)]
struct Found {
    /// Records of the type wanted.
    wanted: u32,
    /// Records of other types, aliases not counted.
    other: u32,
    /// Whether an alias led to another name.
    moved: bool,
}

impl<'a> Answers<'a> {
    /// Whether records of the type are there, all with `size` octets of data, and with this data if one is stated.
    pub(super) fn all_are(
        &self,
        wanted: Qtype,
        size: usize,
        data: Option<&[u8]>,
    ) -> Result<u8, Invalid> {
        let end = self.follow(wanted, &mut |seen| match (seen, data) {
            (Seen::Wanted(record), _) if record.rdata.len() != size => Err(Invalid::Malformed),
            (Seen::Wanted(record), Some(data)) if record.rdata != data => {
                Err(Invalid::WrongAddress)
            }
            _ => Ok(()),
        })?;
        match end {
            Some(ChainEnd { wanted: 1.., .. }) => Ok(0),
            Some(ChainEnd { other: 1.., .. }) => Err(Invalid::WrongType),
            _ => Err(Invalid::NoAnswer),
        }
    }

    /// Whether no record of the type asked for is there.
    pub(super) fn none_is(&self) -> Result<u8, Invalid> {
        let end = self.follow(self.qtype(), &mut |_| Ok(()))?;
        if end.is_some_and(|end| end.wanted > 0) { Err(Invalid::UnexpectedAnswer) } else { Ok(0) }
    }

    /// Reads the section until the chain of aliases ends, and says what stands at its end: `None` after more than
    /// [`MAX_HOPS`] aliases. `visit` sees the aliases in their order, and may end the reading with an error.
    pub fn follow(
        &self,
        wanted: Qtype,
        visit: &mut impl FnMut(Seen<'a>) -> Result<(), Invalid>,
    ) -> Result<Option<ChainEnd>, Invalid> {
        let qname = &self.question[..self.question.len().saturating_sub(4)];
        let mut name = NameBuffer::copy_of(qname).ok_or(Invalid::Malformed)?;
        let (mut hops, mut found) = (0, Found::default());
        let mut budget = Budget(MAX_STEPS);
        // Most often the section is empty, or there is one reading.
        for _ in 0..if self.count == 0 { 0 } else { MAX_HOPS + 1 } {
            visit(Seen::Start)?;
            found = self.read(&mut name, wanted, &mut hops, &mut budget, visit)?;
            if !found.moved || hops > MAX_HOPS {
                break;
            }
        }
        if found.moved {
            return Ok(None);
        }
        let name = Name::from_wire(name.as_wire()).map_err(|_| Invalid::Malformed)?;
        Ok(Some(ChainEnd { name, hops, wanted: found.wanted, other: found.other }))
    }

    /// Reads the section once, moving `name` along the aliases on the way.
    fn read(
        &self,
        name: &mut NameBuffer,
        wanted: Qtype,
        hops: &mut u32,
        budget: &mut Budget,
        visit: &mut impl FnMut(Seen<'a>) -> Result<(), Invalid>,
    ) -> Result<Found, Invalid> {
        let mut found = Found::default();
        // The name that a DNAME has replaced.
        let mut replaced: Option<NameBuffer> = None;
        let mut at = self.at;
        for _ in 0..self.count {
            let (record, end) = Record::read(self.reply, at).ok_or(Invalid::Malformed)?;
            at = end;
            if record.class != self.qclass() && self.qclass() != Qclass::ANY {
                continue;
            }
            let deeper = record.rtype == Qtype::DNAME && wanted != Qtype::DNAME;
            let relation = if *hops == 0 && !deeper && self.points_to_question(record.owner) {
                Relation::Same
            } else {
                relate(self.reply, record.owner, name.as_wire(), deeper, budget)
                    .ok_or(Invalid::Malformed)?
            };
            let is_wanted = record.rtype == wanted || wanted == Qtype::ANY;
            let target = match relation {
                Relation::Same if is_wanted => {
                    visit(Seen::Wanted(record))?;
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
                        visit(Seen::Made(record))?;
                    }
                    None
                }
            };
            if let Some(front) = target {
                let next =
                    self.aliased(name, front, &record, end, budget).ok_or(Invalid::Malformed)?;
                let old = std::mem::replace(name, next);
                replaced = (record.rtype == Qtype::DNAME).then_some(old);
                visit(Seen::Alias(record))?;
                *hops += 1;
                if *hops > MAX_HOPS {
                    return Ok(Found { moved: true, ..Found::default() });
                }
                found = Found { moved: true, ..Found::default() };
            }
        }
        Ok(found)
    }

    /// The first `front` octets of `name`, then the name that is the data of an alias record.
    fn aliased(
        &self,
        name: &NameBuffer,
        front: usize,
        record: &Record<'_>,
        end: usize,
        budget: &mut Budget,
    ) -> Option<NameBuffer> {
        // The name must fill the data exactly; what pointers lead to lies elsewhere.
        if crate::message::skip_name(self.reply, record.rdata_at)? != end {
            return None;
        }
        NameBuffer::join(&name.as_wire()[..front], self.reply, record.rdata_at, budget)
    }

    /// Whether the name at `owner` is a pointer to the question's, which has been compared: no need to walk it.
    fn points_to_question(&self, owner: usize) -> bool {
        crate::message::word(self.reply, owner) == Some(0xc000 | HEADER as u16)
    }

    /// The type asked for.
    fn qtype(&self) -> Qtype {
        Qtype(self.question_word(4))
    }

    /// The class asked for.
    fn qclass(&self) -> Qclass {
        Qclass(self.question_word(2))
    }

    /// The number so many octets before the question's end; the question equals one that has been parsed.
    fn question_word(&self, from_end: usize) -> u16 {
        crate::message::word(self.question, self.question.len() - from_end).unwrap_or(0)
    }
}
