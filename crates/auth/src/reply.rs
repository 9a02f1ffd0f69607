//! A written reply: its kind, and the offsets that faults need.

use std::net::Ipv4Addr;

use wire::extend::ReplyOptions;
use wire::message::HEADER;
use wire::{Query, ReplyWriter};

/// UDP payload size in the OPT record of replies, in octets (the size of DNS flag day 2020).
pub(crate) const EDNS_UDP_SIZE: u16 = 1_232;

/// The kind of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// There is no reply: the message is no query.
    None,
    /// Records that answer the question.
    Answer,
    /// The name has no record of the type.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// The servers of a zone below.
    Referral,
    /// A return code other than NOERROR and NXDOMAIN.
    Error,
}

/// A written reply, with the offsets that faults need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Size in octets; 0 for no reply.
    pub(crate) len: usize,
    /// The kind of the reply.
    pub(crate) kind: ReplyKind,
    /// The offset where the question ends, or the header if there is no question.
    pub(crate) question_end: usize,
    /// Whether the last record is an OPT record.
    pub(crate) has_opt: bool,
    /// The requested options, with an idle timeout of 0; used for replies over a stream.
    pub(crate) options: ReplyOptions,
    /// The address of the queried name of the namespace.
    pub(crate) host: Option<Ipv4Addr>,
    /// The offset of the last octet of the address in the answer, or of the last digit of the name in a PTR answer.
    pub(crate) address_octet: Option<usize>,
}

impl Reply {
    /// The value for no reply.
    pub(crate) const NONE: Self = Reply {
        len: 0,
        kind: ReplyKind::None,
        question_end: HEADER,
        has_opt: false,
        options: ReplyOptions { keepalive: None, padded: false, cookie: None },
        host: None,
        address_octet: None,
    };

    /// Writes the reply to a message, of at most `limit` octets; `fill` adds the records, and
    /// returns its result.
    #[inline]
    pub(crate) fn compose(
        message: &[u8],
        out: &mut [u8],
        limit: impl FnOnce(&Query<'_>) -> usize,
        fill: impl FnOnce(&Query<'_>, &mut ReplyWriter<'_>) -> Self,
    ) -> Self {
        let query = match Query::parse(message) {
            Ok(query) => query,
            Err(error) => {
                let bare = |len| Reply { len, kind: ReplyKind::Error, ..Reply::NONE };
                return error.reply(out).map_or(Reply::NONE, bare);
            }
        };
        let Some(mut writer) = ReplyWriter::new(out, limit(&query), &query) else {
            return Reply::NONE;
        };
        if let Some(edns) = &query.edns {
            writer.opt(EDNS_UDP_SIZE, edns.do_bit);
        }
        let question_end = writer.position();
        let filled = fill(&query, &mut writer);
        let options = query.edns.map(|edns| ReplyOptions::requested(&edns, Some(0)));
        let (has_opt, options) = (options.is_some(), options.unwrap_or_default());
        Reply { len: writer.finish(), question_end, has_opt, options, ..filled }
    }
}
