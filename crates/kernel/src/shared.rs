//! The memory of a map of the kind array, in this process as in the kernel (`BPF_F_MMAPABLE`):
//! writes need no system call.

#![allow(unsafe_code)]

use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use aya::maps::Map;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::KernelError;
use crate::program::Programs;

/// Words of a map, which programs read and write at the same time.
#[derive(Debug)]
pub(crate) struct SharedWords {
    first: NonNull<AtomicU64>,
    count: NonZeroUsize,
}

// SAFETY: the mapping belongs to the value and not to a thread, and its words are atomic.
unsafe impl Send for SharedWords {}
// SAFETY: all access is to atomic words.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Takes a map of a program, which has `words` words, at least one.
    ///
    /// # Errors
    /// If the object lacks it, or the kernel does not share its memory.
    pub(crate) fn of(
        program: &mut Programs,
        map: &'static str,
        count: usize,
    ) -> Result<Self, KernelError> {
        let missing = || KernelError::Missing(map);
        let Map::Array(data) = program.take(map)? else { return Err(missing()) };
        let count = NonZeroUsize::new(count).ok_or_else(missing)?;
        let octets = count.saturating_mul(const { NonZeroUsize::new(8).unwrap() });
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice; the kernel refuses more octets than the map has, in pages, and the mapping keeps
        // the map when its descriptor is closed.
        let mapped = unsafe { mmap(None, octets, access, MapFlags::MAP_SHARED, data.fd(), 0) };
        let first = mapped.map_err(|error| KernelError::Memory(map, error.into()))?.cast();
        Ok(SharedWords { first, count })
    }

    /// Returns the words, which programs and other threads change concurrently.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has so many words as long as `self` lives, it begins with a page, and every bit pattern is a valid u64.
        // Programs store whole, aligned words there (`__u64` in bpf/cache_maps.h, bpf/resolver_maps.h).
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count.get()) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, to which no reference is left.
        let _ = unsafe { munmap(self.first.cast(), 8 * self.count.get()) };
    }
}
