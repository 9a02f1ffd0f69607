//! A bounded store whose values are named by numbers. Free numbers are used again, the last one first, since
//! its memory may still be in the CPU cache.

/// The number that means "no entry" in lists.
pub(crate) const NONE: u32 = u32::MAX;

/// A store of up to `limit` values, each with a number.
pub(crate) struct Slab<T> {
    values: Vec<T>,
    free: Vec<u32>,
    limit: usize,
}

impl<T> Slab<T> {
    /// Makes a store for `limit` values; memory is allocated as it is needed.
    pub(crate) fn new(limit: usize) -> Self {
        Slab { values: Vec::new(), free: Vec::new(), limit }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    /// Returns whether the store is full.
    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.limit
    }

    /// Stores a value and returns its number; `None` if the store is full.
    pub(crate) fn insert(&mut self, value: T) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            self.values[index as usize] = value;
            return Some(index);
        }
        if self.values.len() == self.limit {
            return None;
        }
        self.values.push(value);
        Some(self.values.len() as u32 - 1)
    }

    /// Frees a number. Its value stays in place until the number is used again; the caller must release what
    /// the value holds.
    pub(crate) fn remove(&mut self, index: u32) {
        debug_assert!(!self.free.contains(&index) || self.free.len() > 64, "{index} is free");
        self.free.push(index);
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        &self.values[index as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.values[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_and_limited() {
        let mut slab = Slab::new(3);
        let numbers: Vec<_> = "abcd".chars().map(|c| slab.insert(c)).collect();
        assert_eq!(numbers, [Some(0), Some(1), Some(2), None]);
        assert!(slab.is_full());
        slab.remove(1);
        assert_eq!(
            (slab.len(), slab.insert('e'), slab[1], slab.insert('f')),
            (2, Some(1), 'e', None)
        );
        slab[2] = 'g';
        assert_eq!(slab[2], 'g');
    }
}
