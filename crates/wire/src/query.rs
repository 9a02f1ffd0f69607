//! Queries that are composed once and then edited in place.
//!
//! Two queries of a load differ in the id and in a label, or in the question as a whole. So a [`QueryTemplate`] is a
//! whole message composed at start; each query is a copy and two small stores:
//!
//! ```text
//!   [ id ][ flags, counts ][ 0f 010-000-000-000 | zone | type class ][ OPT ]
//!     ^ set_id                  ^ set_label
//! ```
//!
//! For workloads with names of different lengths (query files), [`compose`] joins a header, a given question and a
//! given OPT record.

use crate::edns::Edns;
use crate::message::{HEADER, Header, flag};
use crate::name::Name;
use crate::namespace::{LABEL, Namespace};
use crate::rr::{Qclass, Qtype};

/// A whole query message whose id, first label and type are edited in place.
#[derive(Clone, Debug)]
pub struct QueryTemplate {
    /// The message with id 0.
    bytes: Box<[u8]>,
    /// The offset where the question ends.
    question_end: usize,
}

impl QueryTemplate {
    /// Returns a query in class IN with id 0; without `edns` it has no OPT record.
    pub fn new(
        qname: &Name,
        qtype: Qtype,
        recursion_desired: bool,
        checking_disabled: bool,
        edns: Option<&Edns>,
    ) -> Self {
        let flags = if recursion_desired { flag::RD } else { 0 }
            | if checking_disabled { flag::CD } else { 0 };
        let header = Header { id: 0, flags, counts: [1, 0, 0, u16::from(edns.is_some())] };
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend_from_slice(qname.as_wire());
        bytes.extend_from_slice(&qtype.0.to_be_bytes());
        bytes.extend_from_slice(&Qclass::IN.0.to_be_bytes());
        let question_end = bytes.len();
        if let Some(edns) = edns {
            bytes.extend_from_slice(&edns.to_opt());
        }
        Self { bytes: bytes.into(), question_end }
    }

    /// Returns a query for a name of `namespace`: the first one until [`set_label`](Self::set_label) replaces it.
    pub fn for_namespace(
        namespace: &Namespace,
        qtype: Qtype,
        recursion_desired: bool,
        checking_disabled: bool,
        edns: Option<&Edns>,
    ) -> Self {
        let qname = namespace.name(namespace.nth(0));
        Self::new(&qname, qtype, recursion_desired, checking_disabled, edns)
    }

    /// Returns the size of the message in octets. Editing does not change it.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a message has at least one octet")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the message with id 0.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the range of the question in the message: after the header, up to the OPT record.
    #[inline]
    pub fn question_range(&self) -> std::ops::Range<usize> {
        HEADER..self.question_end
    }

    /// Writes the message with `id` to the start of `out` and returns its length.
    ///
    /// # Panics
    ///
    /// If `out` is shorter than [`len`](Self::len).
    #[inline]
    pub fn write(&self, id: u16, out: &mut [u8]) -> usize {
        let out = &mut out[..self.bytes.len()];
        out.copy_from_slice(&self.bytes);
        out[..2].copy_from_slice(&id.to_be_bytes());
        self.bytes.len()
    }

    /// Returns the messages with these ids as a stream carries them, each after its length (RFC 1035 section 4.2.2).
    pub fn framed(&self, ids: std::ops::Range<u16>) -> Vec<u8> {
        let mut stream = Vec::with_capacity(ids.len() * (2 + self.bytes.len()));
        for id in ids {
            stream.extend_from_slice(&(self.bytes.len() as u16).to_be_bytes());
            stream.extend_from_slice(&id.to_be_bytes());
            stream.extend_from_slice(&self.bytes[2..]);
        }
        stream
    }

    /// Writes the message with `id` and with `label` as its first label to the start of `out`; returns its length.
    ///
    /// # Panics
    ///
    /// If `out` is too short, or the label is longer than 63 octets.
    #[inline]
    pub fn write_with_label(&self, id: u16, label: &[u8], out: &mut [u8]) -> usize {
        debug_assert!((1..=63).contains(&label.len()), "a label has {} octets", label.len());
        let rest = &self.bytes[HEADER + 1 + usize::from(self.bytes[HEADER])..];
        let label_end = HEADER + 1 + label.len();
        let out = &mut out[..label_end + rest.len()];
        out[..HEADER].copy_from_slice(&self.bytes[..HEADER]);
        out[..2].copy_from_slice(&id.to_be_bytes());
        out[HEADER] = label.len() as u8;
        out[HEADER + 1..label_end].copy_from_slice(label);
        out[label_end..].copy_from_slice(rest);
        out.len()
    }

    /// Replaces the id of a written message.
    ///
    /// # Panics
    ///
    /// If `out` is shorter than two octets.
    #[inline]
    pub fn set_id(&self, out: &mut [u8], id: u16) {
        out[..2].copy_from_slice(&id.to_be_bytes());
    }

    /// Replaces the first label of a written message, which must have fifteen octets like the labels of a namespace.
    ///
    /// # Panics
    ///
    /// If `out` is not a message of this template.
    #[inline]
    pub fn set_label(&self, out: &mut [u8], label: &[u8; LABEL]) {
        debug_assert_eq!(usize::from(out[HEADER]), LABEL, "the first label keeps its length");
        out[HEADER + 1..][..LABEL].copy_from_slice(label);
    }
}

/// Writes a query: header, `question` (name, type and class in wire form), and the OPT record if any; returns its
/// length.
///
/// # Panics
///
/// If `out` is shorter than 12 octets, the question and the OPT record.
#[inline]
pub fn compose(
    out: &mut [u8],
    id: u16,
    question: &[u8],
    recursion_desired: bool,
    opt: Option<&[u8]>,
) -> usize {
    let flags = if recursion_desired { flag::RD } else { 0 };
    let header = Header { id, flags, counts: [1, 0, 0, u16::from(opt.is_some())] };
    let opt = opt.unwrap_or_default();
    let question_end = HEADER + question.len();
    let end = question_end + opt.len();
    let out = &mut out[..end];
    out[..HEADER].copy_from_slice(&header.to_bytes());
    out[HEADER..question_end].copy_from_slice(question);
    out[question_end..].copy_from_slice(opt);
    end
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::server::Query;

    #[test]
    fn a_template_is_edited_in_place() {
        let namespace = Namespace::with_default_zone("10.0.0.0/8".parse().unwrap());
        let edns = Edns { udp_size: 4096, dnssec_ok: true, options: vec![(10, vec![1; 8])] };
        let template =
            QueryTemplate::for_namespace(&namespace, Qtype::AAAA, true, true, Some(&edns));
        let mut out = [0xee; 512];
        let len = template.write(0x1234, &mut out);
        assert_eq!(len, template.len());
        let mut label = [0; LABEL];
        Namespace::write_label(Ipv4Addr::new(10, 1, 2, 3), &mut label);
        template.set_label(&mut out, &label);
        assert_eq!(out[HEADER + 1..][..LABEL], label);
        template.set_id(&mut out, 7);
        let query = Query::parse(&out[..len]).unwrap();
        assert_eq!((query.id, query.qtype, query.qclass), (7, Qtype::AAAA, Qclass::IN));
        assert!(query.rd && query.cd && !query.ad);
        assert_eq!(namespace.address(query.qname), Some(Ipv4Addr::new(10, 1, 2, 3)));
        assert_eq!(query.question, &out[template.question_range()]);
        let seen = query.edns.unwrap();
        assert_eq!((seen.udp_size, seen.do_bit, seen.options().count()), (4096, true, 1));
        assert_eq!(out[len], 0xee);
    }

    #[test]
    fn a_stream_has_each_message_behind_its_length() {
        let name: Name = "a.test".parse().unwrap();
        let template = QueryTemplate::new(&name, Qtype::TXT, true, false, None);
        let (stream, len) = (template.framed(7..9), template.len());
        assert_eq!(stream.len(), 2 * (2 + len));
        for (frame, id) in stream.chunks(2 + len).zip(7..) {
            let mut wanted = [0; 512];
            template.write(id, &mut wanted);
            assert_eq!(frame[..2], (len as u16).to_be_bytes());
            assert_eq!(frame[2..], wanted[..len]);
        }
        assert!(template.framed(3..3).is_empty());
    }

    #[test]
    fn compose_and_template_write_the_same_message() {
        let name: Name = "www.example.com".parse().unwrap();
        for edns in [None, Some(Edns::default())] {
            let template = QueryTemplate::new(&name, Qtype::MX, true, false, edns.as_ref());
            let mut written = [0; 512];
            let len = template.write(0xabcd, &mut written);
            let mut composed = [0; 512];
            let opt = edns.map(|edns| edns.to_opt());
            let question = &template.bytes()[template.question_range()];
            assert_eq!(compose(&mut composed, 0xabcd, question, true, opt.as_deref()), len);
            assert_eq!(composed[..len], written[..len]);
        }
    }

    #[test]
    fn a_label_of_another_length_makes_the_message_of_its_name() {
        let prefix = "10.0.0.0/8".parse().unwrap();
        let namespace = Namespace::with_default_zone(prefix).with_padding(false);
        for edns in [None, Some(Edns::default())] {
            let template =
                QueryTemplate::for_namespace(&namespace, Qtype::AAAA, true, false, edns.as_ref());
            for address in [[10, 1, 2, 3], [10, 200, 0, 255]].map(Ipv4Addr::from) {
                let name = namespace.name(address);
                let whole = QueryTemplate::new(&name, Qtype::AAAA, true, false, edns.as_ref());
                let (mut wanted, mut found) = ([0; 512], [0; 512]);
                let len = whole.write(7, &mut wanted);
                let label = address.to_string().replace('.', "-");
                assert_eq!(template.write_with_label(7, label.as_bytes(), &mut found), len);
                assert_eq!(found, wanted);
            }
        }
    }

    #[test]
    fn a_template_has_the_layout_of_rfc_1035() {
        let name: Name = "a.test".parse().unwrap();
        let template = QueryTemplate::new(&name, Qtype::AAAA, true, false, None);
        let expected = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x1c\0\x01";
        assert_eq!(template.bytes(), expected);
    }
}
