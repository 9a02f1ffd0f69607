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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key {
    /// Keyed hash of the rest, by which tables find the key; 0 for a question that is in none.
    pub(crate) hash: u64,
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
            ..Key::default()
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
    bits: [u8; 32],
}

/// Eight octets, each of them 1. Letters are compared eight at a time, which is five times as fast as one by one.
const ONES: u64 = 0x0101_0101_0101_0101;

impl Case {
    /// Returns the letter case of `name`.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Self {
        let mut bits = [0; 32];
        for (chunk, bits) in name.chunks(8).zip(&mut bits) {
            // The multiplication moves the bits together.
            let capitals = letters(octets(chunk), b'A') >> 7;
            *bits = (capitals.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
        }
        Case { bits }
    }

    /// Makes a random letter case from 64 random bits (0: all lower case). Each letter of the first 64 octets
    /// has its own bit.
    #[inline]
    pub(crate) fn random(seed: u64) -> Self {
        let mut bits = [0; 32];
        for (part, turn) in bits.chunks_exact_mut(8).zip([0, 17, 34, 51]) {
            part.copy_from_slice(&seed.rotate_left(turn).to_le_bytes());
        }
        Case { bits }
    }

    /// Applies this letter case to a name in lower case.
    #[inline]
    pub(crate) fn apply(&self, name: &mut [u8]) {
        if self.bits == [0; 32] {
            return;
        }
        for (chunk, bits) in name.chunks_mut(8).zip(self.bits) {
            let octets = octets(chunk);
            // Moves each bit to the highest one of its octet.
            let capitals = ((u64::from(bits) * ONES) & 0x8040_2010_0804_0201) + 0x7f * ONES;
            let spelled = octets ^ (capitals & letters(octets, b'a')) >> 2;
            match chunk.first_chunk_mut() {
                Some(whole) => *whole = spelled.to_le_bytes(),
                None => chunk.copy_from_slice(&spelled.to_le_bytes()[..chunk.len()]),
            }
        }
    }
}

/// Returns up to eight octets as a number, the first in the lowest bits.
#[inline]
fn octets(chunk: &[u8]) -> u64 {
    u64::from_le_bytes(chunk.try_into().unwrap_or_else(|_| {
        let mut all = [0; 8];
        all[..chunk.len()].copy_from_slice(chunk);
        all
    }))
}

/// Returns which octets are letters from `a` on, `A` or `a`: their highest bits. Length octets, which are below 64, are none.
#[inline]
fn letters(octets: u64, a: u8) -> u64 {
    let low = octets & (0x7f * ONES);
    let (from_a, after_z) = (u64::from(0x80 - a) * ONES, u64::from(0x80 - a - 26) * ONES);
    (low + from_a) & !(low + after_z) & !octets & (0x80 * ONES)
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
