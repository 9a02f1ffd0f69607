//! Questions: a key in lower case that many clients may share, and the letter case of each client.

use wire::{Name, Qclass, Qtype, Query};

use crate::config::Group;

/// Blocks that serve a client, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct View(pub u32);

impl View {
    /// Returns whether no block serves the client, so that nothing is synthesised.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// A question with everything that its answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The name in lower case, so that letter case is no part of the key.
    pub(crate) name: Name,
    pub(crate) qtype: Qtype,
    /// Blocks of the client; empty if the answer does not depend on them.
    pub(crate) view: View,
    pub(crate) flags: KeyFlags,
    /// Clients for which the answer is valid.
    pub(crate) group: Group,
    /// Hash of the client subnet that is sent upstream; 0 for none.
    pub(crate) subnet: u64,
}

/// Bits of a query that its answer depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct KeyFlags {
    /// The RD bit: recursion is desired.
    pub(crate) rd: bool,
    /// The CD bit: checking is disabled.
    pub(crate) cd: bool,
    /// The DO bit: DNSSEC records are wanted.
    pub(crate) dnssec: bool,
}

impl KeyFlags {
    /// Returns the bits of a query.
    #[inline]
    pub(crate) fn of(query: &Query<'_>) -> Self {
        let dnssec = query.edns.is_some_and(|edns| edns.do_bit);
        KeyFlags { rd: query.rd, cd: query.cd, dnssec }
    }
}

impl Key {
    /// Makes the key of a query of class IN from a client of `group` and `view`; `drops`: A records
    /// are left out of all answers.
    pub(crate) fn new(query: &Query<'_>, group: Group, view: View, drops: bool) -> Option<Self> {
        let depends = drops || matches!(query.qtype, Qtype::AAAA | Qtype::HTTPS | Qtype::SVCB);
        Some(Key {
            name: Name::from_wire(query.qname).ok()?.to_lowercase(),
            qtype: query.qtype,
            view: if depends { view } else { View::default() },
            flags: KeyFlags::of(query),
            group,
            subnet: 0,
        })
    }

    /// Writes the question of a name and a type into `out`.
    pub(crate) fn question(name: &Name, qtype: Qtype, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(name.as_wire());
        out.extend_from_slice(&qtype.0.to_be_bytes());
        out.extend_from_slice(&Qclass::IN.0.to_be_bytes());
    }
}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write(self.name.as_wire());
        let flags = self.flags;
        let bits = u64::from(flags.rd) | u64::from(flags.cd) << 1 | u64::from(flags.dnssec) << 2;
        let bits = bits | u64::from(self.group.0) << 8;
        let rest = u64::from(self.qtype.0) << 48 | bits << 32 | u64::from(self.view.0);
        state.write_u64(rest ^ self.subnet);
    }
}

/// Letter case of a name: which letters are capitals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Case {
    /// One bit per octet; all zero for most names.
    bits: [u64; 4],
}

impl Case {
    /// Returns the letter case of `name`.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Self {
        let mut bits = [0; 4];
        for (i, octet) in name.iter().enumerate() {
            bits[i / 64] |= u64::from(octet.is_ascii_uppercase()) << (i % 64);
        }
        Case { bits }
    }

    /// Makes a random letter case from 64 random bits (0: all lower case). Each letter of the first 64 octets
    /// has its own bit.
    #[inline]
    pub(crate) fn random(seed: u64) -> Self {
        Case { bits: [seed, seed.rotate_left(17), seed.rotate_left(34), seed.rotate_left(51)] }
    }

    /// Applies this letter case to a name in lower case.
    #[inline]
    pub(crate) fn apply(&self, name: &mut [u8]) {
        if self.bits == [0; 4] {
            return;
        }
        for (chunk, mut bits) in name.chunks_mut(64).zip(self.bits) {
            for octet in chunk {
                // Length octets are below 64, so that none is confused with a letter.
                let flip = (octet.is_ascii_lowercase() as u8) & bits as u8 & 1;
                *octet ^= flip << 5;
                bits >>= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_letter_case_is_restored(name in prop::collection::vec(any::<u8>(), 0..255), seed: u64) {
            let lower = name.to_ascii_lowercase();
            let mut spelled = lower.clone();
            Case::of(&name).apply(&mut spelled);
            prop_assert_eq!(&spelled, &name);
            let mut random = lower.clone();
            Case::random(seed).apply(&mut random);
            prop_assert_eq!(random.to_ascii_lowercase(), lower);
        }
    }

    #[test]
    fn random_letter_cases_differ() {
        let spell = |seed| {
            let mut name = *b"\x07example\x04test\0";
            Case::random(seed).apply(&mut name);
            name
        };
        assert_eq!(spell(0), *b"\x07example\x04test\0");
        assert_eq!(spell(u64::MAX), *b"\x07EXAMPLE\x04TEST\0");
        assert_eq!(spell(0b10), *b"\x07Example\x04test\0");
    }
}
