//! Replies from upstream: one bounded walk over the message, and the records at the end of its chain of
//! aliases.

mod dname;
mod normal;

use std::collections::HashSet;

use wire::edns::{EdnsSeen, push_option};
use wire::extend::{CLIENT_SUBNET, COOKIE};
use wire::message::{HEADER, Header, Record, flag, name_at, question_end, records};
use wire::reply::chain::{Answers, ChainEnd, ChainEvent, MAX_HOPS};
use wire::reply::readable::{self, Shape};
use wire::{Invalid, Name, Opcode, Qtype, Rcode};

use crate::answer::{Answer, MAX_MESSAGE};
use crate::extended_error::{EXTENDED_ERROR, ExtendedError, is_dnssec};
use crate::subnet::Subnet;
use dname::{add_missing_cnames, push_refused};

pub(crate) use normal::{claims_authentic, normalise};

/// Longest options of a reply that a client gets, in octets; further ones are left out.
const MAX_OPTIONS: usize = 512;
/// Highest number of signatures of a section that are matched with records; the others are left
/// out.
const MAX_SIGNATURES: usize = 64;

/// A reply whose sections and records have been read to their ends without an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply<'a> {
    bytes: &'a [u8],
    pub(crate) header: Header,
    /// The question section: name, type and class of one question.
    pub(crate) question: &'a [u8],
    /// Return code, all twelve bits.
    pub(crate) rcode: u16,
    /// Start of the additional section, and its end in front of an OPT record.
    additional_at: usize,
    additional_end: usize,
    /// Number of additional records in front of the OPT record.
    additional: u16,
    /// Number of SOA records in the authority section.
    soas: u16,
    /// Whether the requested records, or the proof of their absence, have signatures.
    pub(crate) is_signed: bool,
    /// EDNS fields; `None` without EDNS.
    edns: Option<EdnsSeen<'a>>,
}

/// A record of the wanted type: the position of its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundRecord {
    pub(crate) rtype: Qtype,
    pub(crate) ttl: u32,
    pub(crate) at: usize,
    len: usize,
}

impl FoundRecord {
    /// Returns false for an address record whose data has not the length of an address.
    fn may_be_address(&self) -> bool {
        match self.rtype {
            Qtype::A => self.len == 4,
            Qtype::AAAA => self.len == 16,
            _ => true,
        }
    }
}

/// Result of following a chain of aliases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Name at the end of the chain.
    pub(crate) name: Name,
    /// Number of aliases that lead to it.
    pub(crate) hops: u32,
    /// Number of records of the requested type.
    pub(crate) wanted: u32,
    /// Whether no such record was left out as malformed.
    pub(crate) whole: bool,
    /// Whether the chain has a CNAME record that the reply lacks.
    pub(crate) mended: bool,
    /// Whether the answer section has records that do not belong to the question.
    pub(crate) foreign: bool,
    /// Whether the chain was cut off at a name for which other servers are queried.
    pub(crate) leaves: bool,
}

impl<'a> Reply<'a> {
    /// Parses the reply in a message; `None` if it is malformed or not a reply to one question.
    /// Octets after its records are ignored, as in other resolvers.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header = Header::read(bytes)?;
        if !header.is_response() || header.opcode() != Opcode::QUERY || header.counts[0] != 1 {
            return None;
        }
        let at = question_end(bytes)?;
        let mut reply = Reply {
            bytes,
            header,
            question: &bytes[HEADER..at],
            rcode: u16::from(header.rcode()),
            additional_at: at,
            additional_end: at,
            additional: 0,
            soas: 0,
            is_signed: false,
            edns: None,
        };
        reply.bytes = &bytes[..reply.walk(at)?];
        Some(reply)
    }

    /// Walks all records from `at` on; returns the position of their end.
    #[inline]
    fn walk(&mut self, mut at: usize) -> Option<usize> {
        let [_, answers, authority, additional] = self.header.counts;
        for _ in 0..answers {
            let (record, end) = Record::read(self.bytes, at)?;
            self.is_signed |= covered(&record) == Some(self.qtype());
            at = end;
        }
        for _ in 0..authority {
            let (record, end) = Record::read(self.bytes, at)?;
            self.is_signed |= record.rtype == Qtype::RRSIG;
            if record.rtype == Qtype::SOA {
                self.soas += 1;
                negative_ttl(&record)?;
            }
            at = end;
        }
        (self.additional_at, self.additional_end) = (at, at);
        let mut opts = 0;
        for _ in 0..additional {
            let (record, end) = Record::read(self.bytes, at)?;
            if record.rtype == Qtype::OPT {
                opts += 1;
                // A server states its own version, in the form of version 0 (RFC 6891 section 6.1.3).
                let edns = EdnsSeen::from_record(&record)?;
                if self.bytes[at] != 0 || opts > 1 {
                    return None;
                }
                self.rcode |= u16::from(edns.extended_rcode) << 4;
                self.edns = Some(edns);
            } else if opts == 0 {
                self.additional += 1;
                self.additional_end = end;
            }
            at = end;
        }
        Some(at)
    }

    /// Returns the type in the reply's question.
    pub(crate) fn qtype(&self) -> Qtype {
        let from = self.question.len() - 4;
        Qtype(u16::from_be_bytes([self.question[from], self.question[from + 1]]))
    }

    /// Returns the name in the reply's question.
    pub(crate) fn name(&self) -> Option<Name> {
        Name::from_wire(&self.question[..self.question.len() - 4]).ok()
    }

    /// Returns whether the reply is truncated.
    pub(crate) fn is_truncated(&self) -> bool {
        self.header.is_truncated()
    }

    /// Returns whether the reply has an OPT record.
    pub(crate) fn has_edns(&self) -> bool {
        self.edns.is_some()
    }

    /// Returns whether upstream states that the data is authentic.
    pub(crate) fn is_authentic(&self) -> bool {
        self.header.flags & flag::AD != 0
    }

    /// Returns whether upstream states that DNSSEC validation failed (RFC 8914).
    pub(crate) fn is_bogus(&self) -> bool {
        let mut options = self.edns.iter().flat_map(EdnsSeen::options).flatten();
        self.rcode == Rcode::SERVFAIL.0
            && options.any(|(code, data)| code == EXTENDED_ERROR && is_dnssec(data))
    }

    /// Returns whether the server could not, or would not, answer: bogus data does not count, nor a
    /// name that does not exist or, made from a DNAME record, is too long (YXDOMAIN, RFC 6672
    /// section 2.2).
    pub(crate) fn is_failure(&self) -> bool {
        !matches!(Rcode(self.rcode), Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN)
            && !self.is_bogus()
    }

    /// Returns the TTL of a negative answer about `name` in seconds, from the SOA record of its
    /// zone in the authority section (RFC 2308 section 5); the SOA record of another zone does not
    /// count.
    pub(crate) fn negative_ttl(&self, name: &Name) -> Option<u32> {
        if self.soas == 0 {
            return None;
        }
        let is_own = |soa: &Record<'_>| {
            soa.rtype == Qtype::SOA
                && name_at(self.bytes, soa.owner).is_some_and(|owner| name.ends_with(&owner))
        };
        self.authority().filter(is_own).filter_map(|soa| negative_ttl(&soa)).min()
    }

    /// Returns the records of the answer section, without a copy.
    fn answers(&self) -> Answers<'a> {
        let at = HEADER + self.question.len();
        Answers { reply: self.bytes, at, count: self.header.counts[1], question: self.question }
    }

    /// Follows the chain of aliases. Its aliases are written to `chain` as whole uncompressed records, with their
    /// signatures if `dnssec`; the records of type `wanted` go to `found`. Returns `None` for a malformed chain or one
    /// of more than 16 aliases.
    pub(crate) fn read(
        &self,
        wanted: Qtype,
        dnssec: bool,
        chain: &mut Vec<u8>,
        found: &mut Vec<FoundRecord>,
    ) -> Option<Reading> {
        chain.clear();
        found.clear();
        let bytes = self.bytes;
        let (mut dname, mut aliases) = (false, 0);
        let end = self.answers().follow(wanted, &mut |seen| {
            match seen {
                ChainEvent::Start => found.clear(),
                ChainEvent::Alias(record) => {
                    found.clear();
                    dname |= record.rtype == Qtype::DNAME;
                    aliases += 1;
                    self.push(chain, &record).ok_or(Invalid::Malformed)?;
                    if dnssec {
                        let owner = name_at(bytes, record.owner).ok_or(Invalid::Malformed)?;
                        self.push_signatures(chain, &owner, record.rtype);
                    }
                }
                // This CNAME has the name to which the DNAME has already led.
                ChainEvent::Synthesized(record) => {
                    aliases += 1;
                    self.push(chain, &record).ok_or(Invalid::Malformed)?;
                }
                ChainEvent::Wanted(Record { rtype, ttl, rdata_at, rdata, .. }) => {
                    found.push(FoundRecord { rtype, ttl, at: rdata_at, len: rdata.len() });
                }
            }
            Ok(())
        });
        let qname = &self.question[..self.question.len() - 4];
        let end = match end {
            Err(_) if Rcode(self.rcode) == Rcode::YXDOMAIN => {
                let name = push_refused(chain, qname, self, dnssec)?;
                (dname, aliases) = (false, aliases + 1);
                Some(ChainEnd { name, hops: aliases, wanted: 0, other: 0 })
            }
            end => end.ok()?,
        };
        let ChainEnd { name, hops, mut wanted, .. } = end?;
        let mended = dname && add_missing_cnames(chain, qname)?;
        let mut foreign = self.has_foreign(aliases + wanted, dnssec, chain, &name);
        // Some servers send the four octets of A in AAAA records (RFC 4074 section 4.4): these
        // count as absent.
        found.retain(FoundRecord::may_be_address);
        let whole = found.len() == wanted as usize;
        if !whole {
            foreign = true;
            wanted = if found.is_empty() { 0 } else { wanted };
        }
        let name = name.to_lowercase();
        Some(Reading { name, hops, wanted, whole, mended, foreign, leaves: false })
    }

    /// Returns whether the answer section has more than the `own` records that belong to the question: the chain, which
    /// ends at `name`, the records there, and the signatures of all these if `dnssec`.
    fn has_foreign(&self, own: u32, dnssec: bool, chain: &[u8], name: &Name) -> bool {
        let answers = self.header.counts[1];
        if own >= u32::from(answers) || !dnssec {
            return own < u32::from(answers);
        }
        let belongs = |owner: Name| {
            let is_it = |alias: Record<'_>| {
                chain[alias.owner..alias.rdata_at - 10].eq_ignore_ascii_case(owner.as_wire())
            };
            owner == *name || records(chain, 0).any(is_it)
        };
        let signatures = self.records().take(usize::from(answers)).filter(|record| {
            covered(record).is_some() && name_at(self.bytes, record.owner).is_some_and(belongs)
        });
        own + (signatures.count() as u32) < u32::from(answers)
    }

    /// Appends the signatures of the records of a name and type in the answer section to `out`.
    pub(crate) fn push_signatures(&self, out: &mut Vec<u8>, owner: &Name, rtype: Qtype) {
        for record in self.records().take(usize::from(self.header.counts[1])) {
            if covered(&record) == Some(rtype)
                && name_at(self.bytes, record.owner).as_ref() == Some(owner)
            {
                // A signature that cannot be read is left out.
                let before = out.len();
                if self.push(out, &record).is_none() {
                    out.truncate(before);
                }
            }
        }
    }

    /// Returns the data of a found record.
    pub(crate) fn data(&self, found: &FoundRecord) -> &'a [u8] {
        &self.bytes[found.at..found.at + found.len]
    }

    /// Makes one RRset of found records: without duplicates, and all have the lowest TTL (RFC 2181
    /// sections 5 and 5.2).
    pub(crate) fn make_set(&self, found: &mut Vec<FoundRecord>) {
        if found.len() < 2 {
            return;
        }
        let (mut seen, ttl) = (HashSet::new(), found.iter().map(|found| found.ttl).min());
        found.retain_mut(|found| {
            found.ttl = ttl.unwrap_or(found.ttl);
            seen.insert(self.data(found))
        });
    }

    /// Returns the whole message as it came.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns whether the reply's chain ends in an alias, without records of the target and
    /// without a statement about it.
    pub(crate) fn ends_in_alias(&self, reading: &Reading) -> bool {
        let says_nothing = self.rcode == 0 && reading.wanted == 0 && self.soas == 0;
        reading.leaves && !self.is_failure() || reading.hops > 0 && says_nothing
    }

    /// Returns whether the reply may answer a question of its name unchanged: with at most one SOA.
    pub(crate) fn is_plain(&self) -> bool {
        self.soas <= 1
    }

    /// Returns whether a client can parse all of its records.
    pub(crate) fn is_readable(&self) -> bool {
        let [_, answers, authority, _] = self.header.counts;
        let count = usize::from(answers) + usize::from(authority) + usize::from(self.additional);
        readable::are_readable(self.bytes, HEADER + self.question.len(), count)
    }

    /// Returns whether the reply is a negative answer, whose TTL comes from the SOA.
    pub(crate) fn is_negative(&self, wanted: u32) -> bool {
        self.rcode == 3 || self.rcode == 0 && wanted == 0
    }

    /// Copies everything except the OPT record into `answer`, under `question` (of the same length) in lower
    /// case.
    pub(crate) fn copy_to(&self, answer: &mut Answer, question: &[u8]) {
        debug_assert_eq!(question.len(), self.question.len());
        answer.clear();
        let end = self.additional_end.min(MAX_MESSAGE);
        answer.room[..end].copy_from_slice(&self.bytes[..end]);
        let question_end = HEADER + question.len();
        answer.room[HEADER..question_end].copy_from_slice(question);
        let [questions, answers, authority, _] = self.header.counts;
        let header =
            Header { counts: [questions, answers, authority, self.additional], ..self.header };
        answer.room[..HEADER].copy_from_slice(&header.to_bytes());
        answer.len = end;
        answer.question_end = question_end;
        answer.optional_at = self.additional_at;
        answer.rcode = self.rcode;
    }

    /// Copies the EDNS options that are meant for the client: extended errors. A refusal without
    /// one gets one, so that the client does not blame this server.
    #[inline]
    pub(crate) fn copy_options(&self, answer: &mut Answer) {
        for (code, data) in self.edns.iter().flat_map(EdnsSeen::options).flatten() {
            let out = &mut answer.options;
            if code == EXTENDED_ERROR && out.len() + 4 + data.len() <= MAX_OPTIONS {
                push_option(out, code, data);
            }
        }
        if self.rcode == Rcode::REFUSED.0 && answer.options.is_empty() {
            ExtendedError::NoReachableAuthority.push(&mut answer.options);
        }
    }

    /// Returns the prefix length of the networks that the reply is valid for, in reply to this
    /// subnet (RFC 7871 section 7.2.1); 0 for all networks, also without the option; `None` for a
    /// reply to another subnet.
    #[inline]
    pub(crate) fn scope(&self, subnet: &Subnet) -> Option<u8> {
        let own = self.edns.and_then(|edns| edns.option(CLIENT_SUBNET));
        own.map_or(Some(0), |data| subnet.is_like(data).then(|| data[3]))
    }

    /// Returns the data of the reply's cookie (RFC 7873); only the first one counts.
    #[inline]
    pub(crate) fn cookie(&self) -> Option<&'a [u8]> {
        self.edns?.option(COOKIE)
    }

    /// Returns the records of the authority section.
    pub(crate) fn authority(&self) -> impl Iterator<Item = Record<'a>> {
        let [_, answers, authority, _] = self.header.counts;
        self.records().skip(usize::from(answers)).take(usize::from(authority))
    }

    /// Returns whether a record of the authority section may be in an answer about `name`: the SOA record of its zone,
    /// NS records within its bailiwick, and proofs and signatures for a client that validates them.
    fn may_be_authority(&self, record: &Record<'_>, name: &Name, dnssec: bool) -> bool {
        let owner = || name_at(self.bytes, record.owner);
        match record.rtype {
            Qtype::SOA => owner().is_some_and(|owner| name.ends_with(&owner)),
            Qtype::NS => owner().is_some_and(|owner| is_in_bailiwick(&owner, name)),
            Qtype::NSEC | Qtype::NSEC3 | Qtype::RRSIG | Qtype::DS => dnssec,
            _ => false,
        }
    }

    /// Returns whether a record of the additional section may be in an answer about `name`: a
    /// signature only for a client that requests them (RFC 4035 section 3.2.1).
    fn may_be_additional(&self, record: &Record<'_>, name: &Name, dnssec: bool) -> bool {
        (dnssec || record.rtype != Qtype::RRSIG)
            && name_at(self.bytes, record.owner).is_some_and(|owner| is_in_bailiwick(&owner, name))
    }

    /// Returns the records of the authority section that belong to an answer about `name` and match
    /// `wanted`, with one SOA record at most.
    pub(crate) fn own_authority(
        &self,
        name: &Name,
        dnssec: bool,
        wanted: impl Fn(Qtype) -> bool,
    ) -> Vec<Record<'a>> {
        let mut soas = 0;
        self.with_signatures(self.authority().filter(|record| {
            soas += u32::from(record.rtype == Qtype::SOA);
            (record.rtype != Qtype::SOA || soas == 1)
                && wanted(record.rtype)
                && self.may_be_authority(record, name, dnssec)
        }))
    }

    /// Returns the additional records that belong to an answer about `name` and match `wanted`.
    pub(crate) fn own_additional(
        &self,
        name: &Name,
        dnssec: bool,
        wanted: impl Fn(&Record<'_>) -> bool,
    ) -> Vec<Record<'a>> {
        self.with_signatures(
            self.additional()
                .filter(|record| self.may_be_additional(record, name, dnssec) && wanted(record)),
        )
    }

    /// Returns whether all records after the answer section belong to an answer about `name`.
    pub(crate) fn has_own_records(&self, name: &Name, dnssec: bool) -> bool {
        let (mut count, mut signatures) = (0, 0);
        let mut is_own = |record: &Record<'_>, is_own: bool| {
            (count, signatures) = (count + 1, signatures + usize::from(covered(record).is_some()));
            is_own
        };
        let all_own = self
            .authority()
            .all(|record| is_own(&record, self.may_be_authority(&record, name, dnssec)))
            && self
                .additional()
                .all(|record| is_own(&record, self.may_be_additional(&record, name, dnssec)));
        all_own
            && (signatures == 0
                || self.own_authority(name, dnssec, |_| true).len()
                    + self.own_additional(name, dnssec, |_| true).len()
                    == count)
    }

    /// Returns the records of a section without the signatures of records that are not among them:
    /// a validator would look for a missing RRset.
    fn with_signatures(&self, records: impl Iterator<Item = Record<'a>>) -> Vec<Record<'a>> {
        let mut all: Vec<_> = records.collect();
        let of = |record: &Record<'a>| (covered(record), name_at(self.bytes, record.owner));
        let signatures = all.iter().filter(|record| record.rtype == Qtype::RRSIG).map(of);
        let mut lone: Vec<_> = signatures.take(MAX_SIGNATURES).collect();
        let limit = lone.len();
        if limit > 0 {
            for record in all.iter().filter(|record| record.rtype != Qtype::RRSIG) {
                if lone.iter().any(|(rtype, _)| *rtype == Some(record.rtype)) {
                    let owner = name_at(self.bytes, record.owner);
                    lone.retain(|(rtype, name)| *rtype != Some(record.rtype) || *name != owner);
                }
            }
            let mut seen = 0;
            all.retain(|record| {
                let is_signature = record.rtype == Qtype::RRSIG;
                seen += usize::from(is_signature);
                !is_signature || seen <= limit && !lone.contains(&of(record))
            });
        }
        all
    }

    /// Appends the SOA record of the zone of `name` to `out`, from the answer or the authority section, and returns its
    /// negative TTL in seconds; `None` without one.
    pub(crate) fn push_soa(&self, name: &Name, out: &mut Vec<u8>) -> Option<u32> {
        let [_, answers, authority, _] = self.header.counts;
        let mut records = self.records().take(usize::from(answers) + usize::from(authority));
        let soa = records.find(|record| {
            record.rtype == Qtype::SOA
                && name_at(self.bytes, record.owner).is_some_and(|owner| name.ends_with(&owner))
        })?;
        self.push(out, &soa)?;
        negative_ttl(&soa)
    }

    /// Returns the additional records in front of the OPT record.
    pub(crate) fn additional(&self) -> impl Iterator<Item = Record<'a>> {
        records(self.bytes, self.additional_at).take(self.additional.into())
    }

    /// Returns the records of all three sections, in their order.
    fn records(&self) -> impl Iterator<Item = Record<'a>> {
        records(self.bytes, HEADER + self.question.len())
    }

    /// Appends the data of a found record to `out`, with uncompressed names.
    pub(crate) fn push_data(&self, out: &mut Vec<u8>, found: &FoundRecord) -> Option<()> {
        let FoundRecord { rtype, at, len, .. } = *found;
        let Shape { front, names, after } =
            Shape::of(rtype).unwrap_or(Shape { front: len, names: 0, after: 0 });
        let end = at + len;
        let mut at = at + front;
        out.extend_from_slice(self.bytes.get(at - front..at).filter(|_| at <= end)?);
        for _ in 0..names {
            out.extend_from_slice(name_at(self.bytes, at)?.as_wire());
            at = wire::message::skip_name(self.bytes, at)?;
        }
        out.extend_from_slice(self.bytes.get(at..end).filter(|rest| rest.len() == after)?);
        Some(())
    }

    /// Appends a record of the reply to `out`, uncompressed.
    pub(crate) fn push(&self, out: &mut Vec<u8>, record: &Record<'_>) -> Option<()> {
        let Record { rtype, ttl, rdata_at: at, rdata, .. } = *record;
        let owner = name_at(self.bytes, record.owner)?;
        out.extend_from_slice(owner.as_wire());
        out.extend_from_slice(&self.bytes[at - 10..at - 2]);
        let len_at = out.len();
        out.extend_from_slice(&[0, 0]);
        self.push_data(out, &FoundRecord { rtype, ttl, at, len: rdata.len() })?;
        let len = u16::try_from(out.len() - len_at - 2).ok()?;
        out[len_at..len_at + 2].copy_from_slice(&len.to_be_bytes());
        Some(())
    }
}

/// Returns whether `owner` is in the bailiwick of an answer about `name`: they have the last two
/// labels in common, or all labels of a shorter name. Only such records may come with an answer:
/// otherwise a server of one domain could inject records of another one.
fn is_in_bailiwick(owner: &Name, name: &Name) -> bool {
    let skipped = name.labels().count().saturating_sub(2);
    let start: usize = name.labels().take(skipped).map(|label| 1 + label.len()).sum();
    wire::name::strip_suffix(owner.as_wire(), &name.as_wire()[start..]).is_some()
}

/// Returns the TTL of a negative answer with this SOA record, in seconds (RFC 2308 section 5); `None` if its data is too
/// short.
fn negative_ttl(soa: &Record<'_>) -> Option<u32> {
    let minimum = soa.rdata.last_chunk().map(|&minimum| u32::from_be_bytes(minimum))?;
    Some(soa.ttl.min(if minimum >> 31 == 0 { minimum } else { 0 }))
}

/// Longest chain over several replies, in octets: [`MAX_HOPS`] aliases with two long names each, and their signatures.
pub(crate) const MAX_CHAIN: usize = MAX_HOPS as usize * (530 + 1_100);

/// Returns the type of the records that a signature covers; `None` for other records.
#[inline]
pub(crate) fn covered(record: &Record<'_>) -> Option<Qtype> {
    let signature = (record.rtype == Qtype::RRSIG).then_some(record.rdata)?;
    signature.first_chunk().map(|rtype| Qtype(u16::from_be_bytes(*rtype)))
}

#[cfg(test)]
mod tests;
