//! The maps of answers that the programs of dns64d give: blocks, in which one stands behind the other, and sets with their places by
//! the hash of an answer's key (`bpf/cache.h`).

use aya::maps::{Array, MapData};

use crate::error::KernelError;
use crate::program::Loaded;
use crate::stored::{Encoded, mix, words};

/// Number of answers in a set.
const WAYS: usize = 8;
/// An answer begins with a unit, of so many octets, in a block of so many units.
const UNIT: usize = 64;
const UNITS: usize = 64;
const BLOCK: usize = UNITS * UNIT;
/// Sets for each block: enough for answers of two units, of which six in seven then find a place.
const SETS: usize = UNITS / 2 / WAYS;
/// Memory of a block and its sets, in octets.
const MEMORY: usize = BLOCK + SETS * WAYS * 8;
/// Number of the lowest bit that a place has of the hash, and of the lowest one of the round of its block.
const TAG: u32 = 40;
const ROUND: u32 = 32;

/// Numbers of sets and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) sets: u32,
    pub(crate) blocks: u32,
    /// Blocks that the program fills; the server fills the others.
    pub(crate) of_program: u32,
}

impl Room {
    /// Returns what has room in so many octets, for a program that stores answers of its own or not.
    pub(crate) fn within(memory: usize, resolves: bool) -> Self {
        // The number of a unit has 32 bits.
        let blocks = (memory / MEMORY).clamp(2, 1 << 26) as u32;
        let of_program = if resolves { blocks / 2 } else { 0 };
        Room { sets: blocks * SETS as u32, blocks, of_program }
    }

    /// Returns the numbers of entries of the maps.
    pub(crate) fn sizes(self) -> [(&'static str, u32); 2] {
        [("sets", self.sets), ("blocks", self.blocks)]
    }
}

/// The maps of answers, for one thread that writes them.
pub struct AnswerMap {
    /// Places of the answers of each set; see `bpf/cache.h`.
    sets: Array<MapData, [u64; WAYS]>,
    blocks: Array<MapData, [u8; BLOCK]>,
    fill: Fill,
}

/// Where the server writes its next answer.
struct Fill {
    /// The server's blocks: the first one, and their number.
    first: u32,
    count: u32,
    /// The block, from the first one on, and how often all were written before.
    block: u32,
    round: u8,
    /// What it holds, in whole units.
    octets: Vec<u8>,
}

impl AnswerMap {
    /// Takes the maps of a program.
    ///
    /// # Errors
    /// If the object lacks one.
    pub(crate) fn of(program: &mut Loaded, room: Room) -> Result<Self, KernelError> {
        let sets = Array::try_from(program.take("sets")?)?;
        let blocks = Array::try_from(program.take("blocks")?)?;
        Ok(AnswerMap { sets, blocks, fill: Fill::new(room.of_program, room.blocks) })
    }

    /// Stores an answer, in place of the first that was stored of those which are there.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn store(&mut self, answer: &Encoded) -> Result<(), KernelError> {
        let hash = words(&answer.key).reduce(mix).unwrap_or_default();
        let set = (((hash & 0xffff_ffff) * u64::from(self.sets.len())) >> 32) as u32;
        let (block, unit) = self.fill.put(&answer.entry);
        let mut octets = [0; BLOCK];
        octets[..self.fill.octets.len()].copy_from_slice(&self.fill.octets);
        self.blocks.set(block, octets, 0)?;
        let mut places = self.sets.get(&set, 0)?;
        let place = hash >> TAG << TAG | u64::from(self.fill.round) << ROUND | u64::from(unit);
        places[self.fill.way_for(&places, place)] = place;
        // A place that the program wrote meanwhile is lost, and the answer with it: it is asked for again.
        Ok(self.sets.set(set, places, 0)?)
    }
}

impl Fill {
    /// Makes the one of the blocks from `first` on, of so many.
    fn new(first: u32, blocks: u32) -> Self {
        Fill { first, count: blocks - first, block: 0, round: 0, octets: Vec::with_capacity(BLOCK) }
    }

    /// Puts an answer behind the others, or into the next block; returns the numbers of its block and of its unit.
    fn put(&mut self, entry: &[u8]) -> (u32, u32) {
        if self.octets.len() + entry.len() > BLOCK {
            self.octets.clear();
            self.block = (self.block + 1) % self.count;
            self.round = self.round.wrapping_add(u8::from(self.block == 0));
        }
        let (block, unit) = (self.first + self.block, self.octets.len() / UNIT);
        self.octets.extend_from_slice(entry);
        self.octets.resize(self.octets.len().next_multiple_of(UNIT), 0);
        (block, block * UNITS as u32 + unit as u32)
    }

    /// Returns where in a set a place is noted: instead of one with the same key, or of none, or of the oldest, as the program does.
    fn way_for(&self, places: &[u64; WAYS], place: u64) -> usize {
        let is_own = |other: &u64| *other == 0 || (other ^ place) >> TAG == 0;
        let own = places.iter().position(is_own);
        own.or_else(|| (0..WAYS).max_by_key(|way| self.age(places[*way]))).unwrap_or_default()
    }

    /// Returns how many blocks were begun since the answer at a place was written.
    fn age(&self, place: u64) -> u32 {
        let block = place as u32 / UNITS as u32;
        if block < self.first {
            // One of the program's: that is not known here.
            return self.count / 2;
        }
        let rounds = self.round.wrapping_sub((place >> ROUND) as u8);
        let age = i64::from(rounds) * i64::from(self.count) + i64::from(self.block);
        // One that is 256 rounds old looks as if it were of this round.
        let age = age - i64::from(block - self.first);
        u32::try_from(age.max(0)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_in_whole_units_one_behind_the_other() {
        let mut fill = Fill::new(4, 6);
        assert_eq!(fill.put(&[1; 65]), (4, 4 * 64));
        assert_eq!(fill.put(&[2; 64]), (4, 4 * 64 + 2));
        assert_eq!((fill.octets.len(), fill.octets[65], fill.octets[128]), (192, 0, 2));
        // The rest of a block, and the next one.
        assert_eq!(fill.put(&[3; BLOCK - 192]), (4, 4 * 64 + 3));
        assert_eq!(fill.put(&[4; 8]), (5, 5 * 64));
        assert_eq!(fill.put(&[5; BLOCK]), (4, 4 * 64));
        assert_eq!(fill.round, 1);
    }

    #[test]
    fn the_oldest_answer_makes_room() {
        let mut fill = Fill::new(4, 104);
        fill.round = 3;
        let of = |tag: u64, round: u64, block: u64| tag << TAG | round << ROUND | (block * 64 + 7);
        let mut places = [0; WAYS];
        for (way, block) in (10..18).enumerate() {
            assert_eq!(fill.way_for(&places, of(way as u64 + 1, 2, block)), way, "the next one");
            places[way] = of(way as u64 + 1, 2, block);
        }
        assert_eq!(fill.way_for(&places, of(4, 3, 4)), 3, "with the same key");
        assert_eq!(fill.way_for(&places, of(9, 3, 4)), 0, "the oldest");
        places[2] = of(3, 1, 103);
        assert_eq!(
            fill.way_for(&places, of(9, 3, 4)),
            2,
            "that of an answer which was overwritten"
        );
        // Those of the program are in the middle.
        places = [of(1, 2, 40); WAYS];
        places[5] = of(6, 9, 1);
        assert_eq!(fill.way_for(&places, of(9, 3, 4)), 7, "those are older");
        places = [of(1, 2, 70); WAYS];
        places[5] = of(6, 9, 1);
        assert_eq!(fill.way_for(&places, of(9, 3, 4)), 5, "the others are younger");
    }

    #[test]
    fn six_of_seven_short_answers_find_a_place() {
        let room = Room::within(300 * MEMORY, false);
        let mut sets = vec![[0; WAYS]; room.sets as usize];
        let mut fill = Fill::new(0, room.blocks);
        let number = |hash: u64| (((hash & 0xffff_ffff) * u64::from(room.sets)) >> 32) as usize;
        let count = room.blocks as usize * UNITS / 2;
        let hashes: Vec<u64> = (0..3 * count as u64).map(|name| mix(77, name)).collect();
        for hash in &hashes {
            let (_, unit) = fill.put(&[0; 2 * UNIT]);
            let place = hash >> TAG << TAG | u64::from(fill.round) << ROUND | u64::from(unit);
            let places = &mut sets[number(*hash)];
            places[fill.way_for(places, place)] = place;
        }
        // Of those whose memory was not written again.
        let has =
            |hash: &&u64| sets[number(**hash)].iter().any(|place| (place ^ **hash) >> TAG == 0);
        let found = hashes[2 * count..].iter().filter(has).count();
        assert!(found * 7 > count * 6, "{found} of {count}");
    }

    #[test]
    fn room_is_for_both() {
        let room = Room { sets: 60_000, blocks: 15_000, of_program: 7_500 };
        assert_eq!(Room::within(15_000 * MEMORY, true), room);
        assert_eq!(Room::within(0, false), Room { sets: 8, blocks: 2, of_program: 0 });
    }
}
