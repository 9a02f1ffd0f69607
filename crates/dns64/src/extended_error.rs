//! Extended DNS errors (RFC 8914): an EDNS option with the reason for an answer.

use wire::edns;

/// Code of the EDNS option.
pub(crate) const EXTENDED_ERROR: u16 = 15;

/// Info codes of this server (RFC 8914 section 4, and IANA's registry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum ExtendedError {
    /// The records have expired and are served because upstream fails.
    StaleAnswer = 3,
    /// The data does not validate.
    DnssecBogus = 6,
    /// A rule of the operator for the name forbids it.
    Blocked = 15,
    /// The configuration removes all records: excluded AAAA, or A that are not mapped.
    Filtered = 17,
    /// The client is not permitted.
    Prohibited = 18,
    /// The answer that the name does not exist has expired.
    StaleNxdomain = 19,
    /// Upstream refuses to answer.
    NoReachableAuthority = 22,
    /// No upstream server replies in time, or its reply cannot be read.
    NetworkError = 23,
    /// The AAAA records are made of A records.
    Synthesized = 29,
}

impl ExtendedError {
    /// Appends the option, without a text.
    pub(crate) fn push(self, options: &mut Vec<u8>) {
        let [high, low] = (self as u16).to_be_bytes();
        options.extend_from_slice(&[0, EXTENDED_ERROR as u8, 0, 2, high, low]);
    }
}

/// Returns whether some options have this extended error.
pub(crate) fn has(error: ExtendedError, options: &[u8]) -> bool {
    let is_it = |(code, data): (u16, &[u8])| {
        code == EXTENDED_ERROR && data.starts_with(&(error as u16).to_be_bytes())
    };
    edns::options(options).any(is_it)
}

/// Returns whether the option reports a failed DNSSEC validation: unsupported algorithms, codes 5
/// to 12, a signature that expires before it is valid (25), and too many iterations of NSEC3 (27,
/// RFC 9276).
pub(crate) fn is_dnssec(data: &[u8]) -> bool {
    let code = data.first_chunk().map(|code| u16::from_be_bytes(*code));
    matches!(code, Some(1 | 2 | 5..=12 | 25 | 27))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_and_recognised() {
        let mut options = Vec::new();
        ExtendedError::DnssecBogus.push(&mut options);
        assert_eq!(options, [0, 15, 0, 2, 0, 6]);
        assert!(is_dnssec(&options[4..]) && is_dnssec(&[0, 12, b'x']));
        assert!(is_dnssec(&[0, 25]) && is_dnssec(&[0, 27]));
        assert!(![&[][..], &[6], &[0, 3], &[0, 13], &[0, 26], &[1, 6]].into_iter().any(is_dnssec));
        assert!(has(ExtendedError::DnssecBogus, &options));
        assert!(
            !has(ExtendedError::StaleAnswer, &options)
                && !has(ExtendedError::DnssecBogus, &[0, 15])
        );
    }
}
