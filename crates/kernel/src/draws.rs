//! Random numbers for the program that resolves: ids, ports and letter cases, each used once.
//!
//! ```text
//!   refill, renew ──> map "draws": blocks of each core, a ring <── program: map "used"
//!         └─────────> map "filled" <─────────────────────────────────┘
//! ```

use std::sync::atomic::Ordering;

use crate::error::KernelError;
use crate::program::Programs;
use crate::shared::SharedWords;

/// Number of random numbers in a block of the map, and of blocks for each core.
const DRAWS_PER_BLOCK: u64 = 256;
const DRAW_BLOCKS: u64 = 512;
/// Words of a number and of a block.
const DRAW_WORDS: usize = 2;
const DRAW_BLOCK: usize = DRAW_WORDS * DRAWS_PER_BLOCK as usize;

/// A random number for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Id of the query to upstream.
    pub id: u16,
    /// Source port of the query to upstream.
    pub port: u16,
    /// Seed of the letter case of its name.
    pub seed: u64,
}

/// The random numbers of all cores.
pub struct ResolverDraws {
    draws: SharedWords,
    used: SharedWords,
    filled: SharedWords,
}

/// Returns the numbers of entries of the maps for a number of cores.
pub(crate) fn sizes(cores: u32) -> [(&'static str, u32); 3] {
    [("draws", cores * DRAW_BLOCKS as u32), ("used", cores), ("filled", cores)]
}

impl ResolverDraws {
    /// Takes the maps of a program that is loaded, for a number of cores.
    ///
    /// # Errors
    /// If the object lacks one, or the kernel does not share their memory.
    pub(crate) fn of(program: &mut Programs, cores: u32) -> Result<Self, KernelError> {
        let cores = cores as usize;
        let mut shared = |map, words| SharedWords::of(program, map, words);
        Ok(ResolverDraws {
            draws: shared("draws", cores * DRAW_BLOCKS as usize * DRAW_BLOCK)?,
            used: shared("used", cores)?,
            filled: shared("filled", cores)?,
        })
    }

    /// Fills up the random numbers of all cores; `draw` makes one.
    pub fn refill(&mut self, mut draw: impl FnMut() -> Draw) {
        let counts = self.used.words().iter().zip(self.filled.words()).enumerate();
        for (core, (used, count)) in counts {
            let (used, mut filled) = (used.load(Ordering::Acquire), count.load(Ordering::Relaxed));
            // A block is written when all its numbers are used.
            while filled + DRAWS_PER_BLOCK <= used + DRAWS_PER_BLOCK * DRAW_BLOCKS {
                self.write(core, filled / DRAWS_PER_BLOCK % DRAW_BLOCKS, &mut draw);
                filled += DRAWS_PER_BLOCK;
                count.store(filled, Ordering::Release);
            }
        }
    }

    /// Replaces all numbers that were not used, when `draw` makes others than before.
    pub fn renew(&mut self, mut draw: impl FnMut() -> Draw) {
        for core in 0..self.used.words().len() {
            (0..DRAW_BLOCKS).for_each(|block| self.write(core, block, &mut draw));
        }
    }

    /// Writes a block of a core.
    fn write(&self, core: usize, number: u64, draw: &mut impl FnMut() -> Draw) {
        let block = core * DRAW_BLOCKS as usize + number as usize;
        let words = &self.draws.words()[block * DRAW_BLOCK..][..DRAW_BLOCK];
        for entry in words.chunks_exact(DRAW_WORDS) {
            let Draw { id, port, seed } = draw();
            let ([a, b], [c, d]) = (id.to_be_bytes(), port.to_be_bytes());
            let first = u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]);
            entry[0].store(first, Ordering::Relaxed);
            entry[1].store(seed, Ordering::Relaxed);
        }
    }
}
