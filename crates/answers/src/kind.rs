//! Kinds of differences between two answers, and sets of them.

use std::ops::BitOr;

/// What two answers differ in. A difference in several places has the first of these kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DifferenceKind {
    /// One of the servers does not answer in time.
    Timeout,
    /// The socket to one of the servers has an error: nothing listens, the connection is reset.
    Error,
    /// One of the replies cannot be parsed.
    Malformed,
    /// The question sections: names, types or classes.
    Question,
    /// The return code, with the upper bits of EDNS.
    Rcode,
    /// The flags or the opcode.
    Flags,
    /// The records of the answer section, without signatures.
    Answer,
    /// The signatures (RRSIG) of any section: what they cover, algorithm, key tag, signer; not their times and octets.
    Signatures,
    /// The records of the authority section, without signatures.
    Authority,
    /// The records of the additional section, without signatures and the OPT record.
    Additional,
    /// The OPT record: whether there is one, its version, size, DO bit and options.
    Edns,
    /// The TTLs of records that both replies have.
    Ttl,
}

measure::words! {
    DifferenceKind {
        Timeout = "timeout",
        Error = "error",
        Malformed = "malformed",
        Question = "question",
        Rcode = "rcode",
        Flags = "flags",
        Answer = "answer",
        Signatures = "signatures",
        Authority = "authority",
        Additional = "additional",
        Edns = "edns",
        Ttl = "ttl",
    }
}

/// A set of kinds, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds(u16);

impl Kinds {
    /// The empty set: the answers are equal.
    pub const NONE: Self = Self(0);
    /// The set of all kinds.
    pub const ALL: Self = Self((1 << DifferenceKind::ALL.len()) - 1);

    /// Returns the set with a further kind.
    pub fn with(self, kind: DifferenceKind) -> Self {
        Self(self.0 | 1 << kind as u16)
    }

    /// Returns the kinds that `other` does not have.
    pub fn without(self, other: Kinds) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the kinds that both sets have.
    pub fn both(self, other: Kinds) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns whether the set has a kind.
    pub fn has(self, kind: DifferenceKind) -> bool {
        self.0 & 1 << kind as u16 != 0
    }

    /// Returns whether the set has no kind.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the kinds in their order.
    pub fn iter(self) -> impl Iterator<Item = DifferenceKind> {
        DifferenceKind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }

    /// Returns the first kind in the order of [`DifferenceKind`].
    pub fn first(self) -> Option<DifferenceKind> {
        self.iter().next()
    }

    /// Returns the words of the kinds.
    pub fn words(self) -> Vec<String> {
        self.iter().map(|kind| kind.word().to_owned()).collect()
    }
}

impl BitOr for Kinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl From<DifferenceKind> for Kinds {
    fn from(kind: DifferenceKind) -> Self {
        Kinds::NONE.with(kind)
    }
}

impl FromIterator<DifferenceKind> for Kinds {
    fn from_iter<I: IntoIterator<Item = DifferenceKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Kinds::NONE, Kinds::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_their_place_and_their_word() {
        for (place, kind) in DifferenceKind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, kind.word().parse()), (place, Ok(kind)));
        }
        let error = "answers".parse::<DifferenceKind>().expect_err("no kind").to_string();
        assert!(error.contains("`answers`") && error.contains("timeout, error"), "{error}");
    }

    #[test]
    fn sets_of_kinds() {
        let some: Kinds = [DifferenceKind::Ttl, DifferenceKind::Answer].into_iter().collect();
        assert_eq!(
            (some.first(), some.words()),
            (Some(DifferenceKind::Answer), vec!["answer".into(), "ttl".into()])
        );
        assert_eq!(some.without(DifferenceKind::Answer.into()), DifferenceKind::Ttl.into());
        assert_eq!(some.both(DifferenceKind::Edns.into()), Kinds::NONE);
        assert!(
            Kinds::ALL.has(DifferenceKind::Ttl)
                && Kinds::NONE.is_empty()
                && !(some | Kinds::NONE).is_empty()
        );
        assert_eq!(Kinds::ALL.iter().count(), DifferenceKind::ALL.len());
    }
}
