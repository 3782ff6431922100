//! A prefix as the tree knows it.

use crate::hash::Key;

/// The mark of a block without multimodal items.
pub const PLAIN: Key = Key(0);

/// Tokens in a namespace.
#[derive(Debug, Clone, Copy, Default)]
pub struct Path<'a> {
    /// The namespace: the hasher's root over weights, salt and adapter.
    pub root: Key,
    /// Token ids from the first on.
    pub tokens: &'a [u32],
    /// Blocks that carry multimodal items, rising, each with the link over what it carries.
    pub marks: &'a [(u32, Key)],
}

impl Path<'_> {
    /// What block `index` carries besides its tokens.
    #[inline]
    pub(super) fn mark(&self, index: usize) -> Key {
        if self.marks.is_empty() {
            return PLAIN;
        }
        let found = self.marks.binary_search_by_key(&(index as u32), |&(at, _)| at);
        found.map_or(PLAIN, |i| self.marks[i].1)
    }

    /// The first marked block from `index` on.
    #[inline]
    pub(super) fn next_mark(&self, index: usize) -> usize {
        let after = self.marks.partition_point(|&(at, _)| (at as usize) < index);
        self.marks.get(after).map_or(usize::MAX, |&(at, _)| at as usize)
    }
}
