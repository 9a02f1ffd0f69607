//! Random numbers for the program that resolves: ids, ports and letter cases, each used once.
//!
//! ```text
//!   refill, renew ──> map "draws": blocks of each core, a ring <── program: map "used"
//!         └─────────> map "filled" <─────────────────────────────────┘
//! ```

use aya::maps::{Array, MapData};

use crate::error::KernelError;
use crate::program::Loaded;

/// Number of random numbers in a block of the map, and of blocks for each core.
const DRAWS: u64 = 256;
const DRAW_BLOCKS: u64 = 512;
/// Octets of a number and of a block.
const DRAW: usize = 16;
const DRAW_BLOCK: usize = DRAW * DRAWS as usize;

/// A random number for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Id of a query.
    pub id: u16,
    /// Its source port.
    pub port: u16,
    /// Seed of the letter case of its name.
    pub seed: u64,
}

/// The random numbers of all cores.
pub struct ResolverDraws {
    draws: Array<MapData, [u8; DRAW_BLOCK]>,
    used: Array<MapData, u64>,
    filled: Array<MapData, u64>,
}

/// Returns the numbers of entries of the maps for a number of cores.
pub(crate) fn sizes(cores: u32) -> [(&'static str, u32); 3] {
    [("draws", cores * DRAW_BLOCKS as u32), ("used", cores), ("filled", cores)]
}

impl ResolverDraws {
    /// Takes the maps of a program.
    ///
    /// # Errors
    /// If the object lacks one.
    pub(crate) fn of(program: &mut Loaded) -> Result<Self, KernelError> {
        Ok(ResolverDraws {
            draws: Array::try_from(program.take("draws")?)?,
            used: Array::try_from(program.take("used")?)?,
            filled: Array::try_from(program.take("filled")?)?,
        })
    }

    /// Fills up the random numbers of all cores; `draw` makes one. Returns how many were made.
    ///
    /// # Errors
    /// If the kernel refuses them.
    pub fn refill(&mut self, mut draw: impl FnMut() -> Draw) -> Result<u64, KernelError> {
        let mut made = 0;
        for core in 0..self.used.len() {
            let used = self.used.get(&core, 0)?;
            let mut filled = self.filled.get(&core, 0)?;
            // A block is written when all its numbers are used.
            while filled + DRAWS <= used + DRAWS * DRAW_BLOCKS {
                self.write(core, filled / DRAWS % DRAW_BLOCKS, &mut draw)?;
                filled += DRAWS;
                made += DRAWS;
                self.filled.set(core, filled, 0)?;
            }
        }
        Ok(made)
    }

    /// Replaces all numbers that were not used, when `draw` makes others than before.
    ///
    /// # Errors
    /// If the kernel refuses them.
    pub fn renew(&mut self, mut draw: impl FnMut() -> Draw) -> Result<(), KernelError> {
        for core in 0..self.used.len() {
            (0..DRAW_BLOCKS).try_for_each(|block| self.write(core, block, &mut draw))?;
        }
        Ok(())
    }

    /// Writes a block of a core.
    fn write(
        &mut self,
        core: u32,
        number: u64,
        draw: &mut impl FnMut() -> Draw,
    ) -> Result<(), KernelError> {
        let mut block = [0; DRAW_BLOCK];
        for entry in block.chunks_exact_mut(DRAW) {
            let Draw { id, port, seed } = draw();
            entry[..2].copy_from_slice(&id.to_be_bytes());
            entry[2..4].copy_from_slice(&port.to_be_bytes());
            entry[8..].copy_from_slice(&seed.to_ne_bytes());
        }
        Ok(self.draws.set(core * DRAW_BLOCKS as u32 + number as u32, block, 0)?)
    }
}
