//! The maps of answers that the programs of dns64d give: blocks with one answer after the other,
//! and sets with their places by the hash of an answer's key (`bpf/cache.h`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::KernelError;
use crate::program::Programs;
use crate::records::words;
use crate::shared::SharedWords;
use crate::stored::EncodedAnswer;

/// Number of answers in a set.
const WAYS_PER_SET: usize = 8;
/// Octets of a unit, at which answers begin, and units of a block.
const UNIT: usize = 64;
const UNITS: usize = 64;
const BLOCK_OCTETS: usize = UNITS * UNIT;
/// Sets for each block: enough for answers of two units, of which six in seven then find a place.
const SETS_PER_BLOCK: usize = UNITS / 2 / WAYS_PER_SET;
/// Memory of a block and its sets, in octets.
const BLOCK_MEMORY: usize = BLOCK_OCTETS + SETS_PER_BLOCK * WAYS_PER_SET * 8;
/// Number of the lowest bit that a place has of the hash, and of the lowest one of the round of its block.
const TAG: u32 = 40;
const ROUND: u32 = 32;

/// Numbers of sets and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapSizes {
    pub(crate) sets: u32,
    pub(crate) blocks: u32,
    /// Blocks that the program fills; the server fills the others.
    pub(crate) of_program: u32,
}

impl MapSizes {
    /// Returns the sizes that fit into `memory` octets; `resolves`: the program stores answers of
    /// its own.
    pub(crate) fn within(memory: usize, resolves: bool) -> Self {
        // The number of a unit has 32 bits.
        let blocks = (memory / BLOCK_MEMORY).clamp(2, 1 << 26) as u32;
        let of_program = if resolves { blocks / 2 } else { 0 };
        MapSizes { sets: blocks * SETS_PER_BLOCK as u32, blocks, of_program }
    }

    /// Returns the numbers of entries of the maps.
    pub(crate) fn sizes(self) -> [(&'static str, u32); 2] {
        [("sets", self.sets), ("blocks", self.blocks)]
    }
}

/// A writer of the maps of answers, for one thread: it writes into their memory, without a system call.
#[derive(Debug)]
pub struct AnswerMap {
    maps: Arc<Maps>,
    fill: FillPlace,
}

/// The maps, which all writers have in common.
#[derive(Debug)]
struct Maps {
    /// Places of the answers of each set; see `bpf/cache_maps.h`.
    sets: SharedWords,
    blocks: SharedWords,
    ring: Ring,
}

/// The server's blocks. A writer that needs a block begins the next one, and after the last one the
/// first again.
#[derive(Debug)]
struct Ring {
    first: u32,
    count: u32,
    /// Number of blocks that were begun.
    begun: AtomicU64,
}

/// Place of a writer's next answer.
#[derive(Debug)]
struct FillPlace {
    /// Number of the writer's block among all begun blocks.
    number: u64,
    /// Number of units of the block that are written.
    units: usize,
}

impl AnswerMap {
    /// Takes the maps of a program.
    ///
    /// # Errors
    /// If the object lacks a map, or the kernel does not share their memory.
    pub(crate) fn of(program: &mut Programs, room: MapSizes) -> Result<Self, KernelError> {
        let sets = SharedWords::of(program, "sets", room.sets as usize * WAYS_PER_SET)?;
        let blocks = SharedWords::of(program, "blocks", room.blocks as usize * BLOCK_OCTETS / 8)?;
        let ring = Ring::new(room.of_program, room.blocks - room.of_program);
        Ok(AnswerMap { maps: Arc::new(Maps { sets, blocks, ring }), fill: FillPlace::NONE })
    }

    /// Returns another writer of the same maps. Two that are in one block, since there are fewer blocks than writers, overwrite each other's
    /// answers, which then fail their checks.
    pub fn writer(&self) -> AnswerMap {
        AnswerMap { maps: self.maps.clone(), fill: FillPlace::NONE }
    }

    /// Stores an answer in place of the oldest one.
    pub fn store(&mut self, answer: &EncodedAnswer) {
        let Maps { sets, blocks, ring } = &*self.maps;
        let hash = answer.key.hash();
        let unit = self.fill.take(ring, answer.entry.len());
        let block = &blocks.words()[unit as usize * UNIT / 8..][..answer.entry.len().div_ceil(8)];
        for (to, word) in block.iter().zip(words(&answer.entry)) {
            to.store(word, Ordering::Relaxed);
        }
        let sets = sets.words();
        let set = (((hash & 0xffff_ffff) * (sets.len() / WAYS_PER_SET) as u64) >> 32) as usize;
        let set = &sets[set * WAYS_PER_SET..][..WAYS_PER_SET];
        let places = std::array::from_fn(|way| set[way].load(Ordering::Relaxed));
        let place = self.fill.place(ring, hash, unit);
        // A place that is written there at the same time is lost with its answer, which is then
        // resolved again.
        set[self.fill.way_for(ring, &places, place)].store(place, Ordering::Release);
    }
}

impl Ring {
    /// Makes a ring of `count` blocks, from `first` on.
    fn new(first: u32, count: u32) -> Self {
        Ring { first, count, begun: AtomicU64::new(0) }
    }
}

impl FillPlace {
    /// No room: the first answer begins a block.
    const NONE: FillPlace = FillPlace { number: 0, units: UNITS };

    /// Takes the units for an answer of `octets` octets, after the others or in the next block;
    /// returns the number of the first unit.
    fn take(&mut self, ring: &Ring, octets: usize) -> u32 {
        let units = octets.div_ceil(UNIT);
        debug_assert!(units <= UNITS, "an answer has {octets} octets");
        let count = u64::from(ring.count);
        // Other writers may have begun a whole round of blocks since, this one included.
        let is_over = ring.begun.load(Ordering::Relaxed) > self.number + count;
        if is_over || self.units + units > UNITS {
            *self = FillPlace { number: ring.begun.fetch_add(1, Ordering::Relaxed), units: 0 };
        }
        let block = ring.first + (self.number % count) as u32;
        let unit = block * UNITS as u32 + self.units as u32;
        self.units += units;
        unit
    }

    /// Returns the place of an answer with this hash of its key at a unit of the block.
    fn place(&self, ring: &Ring, hash: u64, unit: u32) -> u64 {
        let round = (self.number / u64::from(ring.count)) as u8;
        hash >> TAG << TAG | u64::from(round) << ROUND | u64::from(unit)
    }

    /// Returns the entry of a set for a place, chosen as in the program: over one with the same
    /// key, or in a free entry, or over the oldest.
    fn way_for(&self, ring: &Ring, places: &[u64; WAYS_PER_SET], place: u64) -> usize {
        let is_own = |other: &u64| *other == 0 || (other ^ place) >> TAG == 0;
        let own = places.iter().position(is_own);
        let oldest = || (0..WAYS_PER_SET).max_by_key(|way| self.age(ring, places[*way]));
        own.or_else(oldest).unwrap_or_default()
    }

    /// Returns the number of blocks that were begun between the answer at a place and this block; 0
    /// if that is newer.
    fn age(&self, ring: &Ring, place: u64) -> u32 {
        let block = (place as u32 / UNITS as u32).wrapping_sub(ring.first);
        if block >= ring.count {
            // The program itself stored this answer, so its age is not known here.
            return ring.count / 2;
        }
        let count = u64::from(ring.count);
        // An answer that is 128 rounds old looks like a newer one.
        let rounds = ((self.number / count) as u8).wrapping_sub((place >> ROUND) as u8) as i8;
        let age =
            i64::from(rounds) * count as i64 + (self.number % count) as i64 - i64::from(block);
        u32::try_from(age.max(0)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::mix;

    #[test]
    fn answers_stand_in_whole_units_one_behind_the_other() {
        let (ring, mut fill) = (Ring::new(4, 2), FillPlace::NONE);
        assert_eq!(fill.take(&ring, 65), 4 * 64);
        assert_eq!(fill.take(&ring, 64), 4 * 64 + 2);
        assert_eq!(fill.take(&ring, BLOCK_OCTETS - 192), 4 * 64 + 3);
        // The next block, and the first one again.
        assert_eq!(fill.take(&ring, 8), 5 * 64);
        assert_eq!((fill.take(&ring, BLOCK_OCTETS), fill.number), (4 * 64, 2));
        assert_eq!(fill.place(&ring, u64::MAX, 7), u64::MAX >> TAG << TAG | 1 << ROUND | 7);
    }

    #[test]
    fn writers_have_blocks_of_their_own() {
        let (ring, mut fills) = (Ring::new(4, 3), [FillPlace::NONE, FillPlace::NONE]);
        let blocks = [0, 1, 0, 1].map(|writer| fills[writer].take(&ring, 8) / UNITS as u32);
        assert_eq!(blocks, [4, 5, 4, 5]);
        // The second one takes the third block, and the first one again: that of the other, which leaves it.
        assert_eq!(fills[1].take(&ring, BLOCK_OCTETS) / UNITS as u32, 6);
        assert_eq!(fills[1].take(&ring, 64) / UNITS as u32, 4);
        assert_eq!(fills[0].take(&ring, 64) / UNITS as u32, 5);
    }

    #[test]
    fn the_oldest_answer_makes_room() {
        let (ring, fill) = (Ring::new(4, 100), FillPlace { number: 300, units: 0 });
        let of = |tag: u64, round: u64, block: u64| tag << TAG | round << ROUND | (block * 64 + 7);
        let way = |places: &[u64; WAYS_PER_SET], place| fill.way_for(&ring, places, place);
        let mut places = [0; WAYS_PER_SET];
        for (at, block) in (10..18).enumerate() {
            assert_eq!(way(&places, of(at as u64 + 1, 2, block)), at, "the next one");
            places[at] = of(at as u64 + 1, 2, block);
        }
        assert_eq!(way(&places, of(4, 3, 4)), 3, "with the same key");
        assert_eq!(way(&places, of(9, 3, 4)), 0, "the oldest");
        places[2] = of(3, 1, 103);
        assert_eq!(way(&places, of(9, 3, 4)), 2, "that of an answer which was overwritten");
        // Those of the program are in the middle.
        places = [of(1, 2, 40); WAYS_PER_SET];
        places[5] = of(6, 9, 1);
        assert_eq!(way(&places, of(9, 3, 4)), 7, "those are older");
        places = [of(1, 2, 70); WAYS_PER_SET];
        places[5] = of(6, 9, 1);
        assert_eq!(way(&places, of(9, 3, 4)), 5, "the others are younger");
        // Other writers may be ahead.
        places = [of(1, 3, 20); WAYS_PER_SET];
        places[6] = of(6, 2, 103);
        assert_eq!(way(&places, of(9, 3, 4)), 6, "the others are newer");
    }

    #[test]
    fn six_of_seven_short_answers_find_a_place_however_many_write() {
        let room = MapSizes::within(300 * BLOCK_MEMORY, false);
        for writers in [1, 2, 8, 64] {
            let mut sets = vec![[0; WAYS_PER_SET]; room.sets as usize];
            let ring = Ring::new(0, room.blocks);
            let mut fills: Vec<FillPlace> = (0..writers).map(|_| FillPlace::NONE).collect();
            let number = |hash: u64| (((hash & 0xffff_ffff) * u64::from(room.sets)) >> 32) as usize;
            let count = room.blocks as usize * UNITS / 2;
            let hashes: Vec<u64> = (0..3 * count as u64).map(|name| mix(77, name)).collect();
            for (at, hash) in hashes.iter().enumerate() {
                let fill = &mut fills[at % writers];
                let unit = fill.take(&ring, 2 * UNIT);
                let place = fill.place(&ring, *hash, unit);
                let places = &mut sets[number(*hash)];
                places[fill.way_for(&ring, places, place)] = place;
            }
            // Of those whose memory was not written again; each writer may have begun its block anew.
            let kept = &hashes[2 * count + writers * UNITS / 2..];
            let has =
                |hash: &&u64| sets[number(**hash)].iter().any(|place| (place ^ **hash) >> TAG == 0);
            let found = kept.iter().filter(has).count();
            assert!(found * 7 > kept.len() * 6, "{found} of {} by {writers}", kept.len());
        }
    }

    #[test]
    fn room_is_for_both() {
        let room = MapSizes { sets: 60_000, blocks: 15_000, of_program: 7_500 };
        assert_eq!(MapSizes::within(15_000 * BLOCK_MEMORY, true), room);
        assert_eq!(MapSizes::within(0, false), MapSizes { sets: 8, blocks: 2, of_program: 0 });
    }
}
