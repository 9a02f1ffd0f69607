//! The queried names: a bit for each IPv4 address, in pages that are made when they are needed; and how many messages came.
//!
//! A Measurer that lost a query needs to know whether the server lost it, or the server's query to
//! upstream. So an AuthDNS that remembers its names answers queries of class CH, which is for
//! questions about the server itself: NOERROR for a name of the namespace that was queried in class
//! IN, NXDOMAIN for one that was not; the zone itself has a TXT record with the number of messages.
//! All workers share one memory.

use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Addresses of a page: 4 KiB.
const PAGE_BITS: u32 = 15;
const WORDS_PER_PAGE: usize = 1 << (PAGE_BITS - 6);

/// The queried names.
#[derive(Debug)]
pub(crate) struct QueriedNames {
    pages: Box<[OnceLock<Box<[AtomicU64]>>]>,
    messages: OwnLine,
}

/// A counter on a cache line of its own: all workers write it, and read the pages with each query.
#[derive(Debug, Default)]
#[repr(align(64))]
struct OwnLine(AtomicU64);

impl QueriedNames {
    /// Makes an empty memory: 3 MiB for the table, and 4 KiB for each block of 32,768 addresses
    /// with a queried one.
    pub(crate) fn new() -> Self {
        let pages = 1 << (u32::BITS - PAGE_BITS);
        let pages = std::iter::repeat_with(OnceLock::new).take(pages).collect();
        QueriedNames { pages, messages: OwnLine::default() }
    }

    /// Counts messages that came, also messages without a name.
    #[inline]
    pub(crate) fn count(&self, messages: usize) {
        self.messages.0.fetch_add(messages as u64, Ordering::Relaxed);
    }

    /// Returns the number of messages that have come.
    pub(crate) fn messages(&self) -> u64 {
        self.messages.0.load(Ordering::Relaxed)
    }

    /// Notes that the name of `address` was queried.
    #[inline]
    pub(crate) fn note(&self, address: Ipv4Addr) {
        let (page, word, bit) = place(address);
        let empty = || std::iter::repeat_with(AtomicU64::default).take(WORDS_PER_PAGE).collect();
        let word = &self.pages[page].get_or_init(empty)[word];
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Returns whether the name of `address` was queried.
    pub(crate) fn contains(&self, address: Ipv4Addr) -> bool {
        let (page, word, bit) = place(address);
        self.pages[page].get().is_some_and(|page| page[word].load(Ordering::Relaxed) & bit != 0)
    }
}

/// Returns page, word and bit of an address.
#[inline]
fn place(address: Ipv4Addr) -> (usize, usize, u64) {
    let address = u32::from(address);
    let word = (address >> 6) as usize % WORDS_PER_PAGE;
    ((address >> PAGE_BITS) as usize, word, 1 << (address % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_bit() {
        let asked = QueriedNames::new();
        let some = [0, 1, 63, 64, 32_767, 32_768, 0x0a01_0203, u32::MAX].map(Ipv4Addr::from);
        for (i, address) in some.into_iter().enumerate() {
            assert!(!asked.contains(address), "{address}");
            asked.note(address);
            asked.note(address);
            for (j, other) in some.into_iter().enumerate() {
                assert_eq!(asked.contains(other), j <= i, "{other} after {address}");
            }
        }
    }
}
