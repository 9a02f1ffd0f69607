//! The end of a lookup, and what it says about the server.

use wire::message::flag;
use wire::{Qtype, Rcode};

use crate::extended_error::ExtendedError;
use crate::question::KeyFlags;
use crate::reply::Reply;
use crate::transaction::QueryEdns;

/// How a lookup ended, after all its attempts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome<'a> {
    Reply(Reply<'a>),
    /// An error return code in a reply without a question.
    Refused,
    /// A truncated reply, also an empty one, and no whole one over a stream: there may be records.
    Truncated,
    /// No reply, or none that can be parsed.
    Nothing,
}

impl Outcome<'_> {
    /// Returns whether the server could not, or would not, answer.
    pub(super) fn is_error(&self) -> bool {
        match self {
            // Another server, which does not validate, must not replace bogus data by an answer.
            Outcome::Reply(reply) => reply.is_failure(),
            Outcome::Refused | Outcome::Truncated => true,
            Outcome::Nothing => false,
        }
    }

    /// Returns whether the server names others in reply to a query that wants recursion, which says
    /// nothing about the name (RFC 2308 section 2.2).
    pub(super) fn is_referral(&self, flags: KeyFlags) -> bool {
        let Outcome::Reply(reply) = self else { return false };
        let has = |rtype| reply.authority().any(|record| record.rtype == rtype);
        flags.rd
            && reply.rcode == 0
            && reply.header.counts[1] == 0
            && reply.header.flags & flag::AA == 0
            && has(Qtype::NS)
            && !has(Qtype::SOA)
    }

    /// Returns whether this may be the error of a server that answers nothing over streams.
    pub(super) fn may_refuse_streams(&self) -> bool {
        match self {
            Outcome::Reply(reply) => {
                matches!(Rcode(reply.rcode), Rcode::FORMERR | Rcode::NOTIMP | Rcode::REFUSED)
            }
            Outcome::Refused => true,
            Outcome::Truncated | Outcome::Nothing => false,
        }
    }

    /// Returns why there is no answer of upstream, for the client (RFC 8914 sections 4.23, 4.24); a
    /// reply here is one whose aliases cannot be followed, which is no error of the network.
    pub(super) fn reason(&self) -> Option<ExtendedError> {
        match self {
            Outcome::Reply(_) => None,
            Outcome::Refused => Some(ExtendedError::NoReachableAuthority),
            Outcome::Truncated | Outcome::Nothing => Some(ExtendedError::NetworkError),
        }
    }

    /// Returns the EDNS of the next query if this may be an error about EDNS, or about the options
    /// that the query had: a client's `address`, or others. A server without EDNS replies without
    /// an OPT record (RFC 6891 section 7), but some return it with FORMERR to each option.
    pub(super) fn accepted_edns(&self, options: bool, address: bool) -> Option<QueryEdns> {
        let less = if options { QueryEdns::WithoutOptions } else { QueryEdns::Absent };
        match self {
            Outcome::Reply(reply) => match Rcode(reply.rcode) {
                Rcode::FORMERR | Rcode::BADVERS if reply.has_edns() => Some(less),
                Rcode::FORMERR | Rcode::NOTIMP if !reply.has_edns() => Some(QueryEdns::Absent),
                // RFC 7871 section 7.1.3.
                Rcode::REFUSED if address => Some(QueryEdns::WithoutOptions),
                _ => None,
            },
            Outcome::Refused => Some(QueryEdns::Absent),
            Outcome::Truncated | Outcome::Nothing => None,
        }
    }
}
