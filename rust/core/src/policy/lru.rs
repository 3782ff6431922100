//! Least recently used: cached blocks in the order their last owner left.
//!
//! A request's blocks are released tail first, so the order is leaf-first by itself. Linked by
//! index: claim, release and eviction are O(1) at every size.

use super::{Eviction, Use, View, Why, grow};
use crate::pool::{BlockId, NIL, Pool, State};

/// The order: a list from the next to die to the last used. A block is in it exactly while it is
/// cached, so its links need no mark of their own and mean nothing at other times.
#[derive(Debug)]
pub struct Lru {
    links: Vec<Links>,
    head: BlockId,
    tail: BlockId,
    len: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Links {
    /// Dies before it.
    before: BlockId,
    /// Dies after it.
    after: BlockId,
}

const ALONE: Links = Links { before: NIL, after: NIL };

impl Default for Lru {
    fn default() -> Self {
        Self { links: Vec::new(), head: NIL, tail: NIL, len: 0 }
    }
}

impl Lru {
    /// Joins what lies around a run that leaves.
    #[inline]
    fn join(&mut self, before: BlockId, after: BlockId) {
        match before {
            NIL => self.head = after,
            b => self.links[b as usize].after = after,
        }
        match after {
            NIL => self.tail = before,
            b => self.links[b as usize].before = before,
        }
    }

    fn unlink(&mut self, block: BlockId) {
        let Links { before, after } = self.links[block as usize];
        self.join(before, after);
        self.len -= 1;
    }

    /// Cached blocks from the next to die on.
    pub fn iter(&self) -> impl Iterator<Item = BlockId> + '_ {
        std::iter::successors((self.head != NIL).then_some(self.head), |&b| {
            Some(self.links[b as usize].after).filter(|&n| n != NIL)
        })
    }
}

impl Eviction for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn insert(&mut self, _: &[BlockId], _: Use<'_>, _: View<'_>) {}

    fn hit(&mut self, _: &[BlockId], _: Use<'_>, _: View<'_>) {}

    fn claim(&mut self, blocks: &[BlockId], view: View<'_>) {
        debug_assert!(blocks.iter().all(|&b| view.pool.state(b) == State::Committed));
        let mut i = 0;
        while i < blocks.len() {
            // A prefix was released tail first: its blocks stand in a row, and leave as one.
            let after = self.links[blocks[i] as usize].after;
            let mut before = self.links[blocks[i] as usize].before;
            self.len -= 1;
            i += 1;
            while i < blocks.len() && blocks[i] == before {
                before = self.links[before as usize].before;
                self.len -= 1;
                i += 1;
            }
            self.join(before, after);
        }
    }

    fn release(&mut self, blocks: &[BlockId], _: View<'_>) {
        let Some((&root, &leaf)) = blocks.first().zip(blocks.last()) else { return };
        if let Some(&largest) = blocks.iter().max() {
            grow(&mut self.links, largest, ALONE);
        }
        let mut after = NIL;
        for pair in blocks.windows(2) {
            self.links[pair[0] as usize] = Links { before: pair[1], after };
            after = pair[0];
        }
        self.links[leaf as usize] = Links { before: self.tail, after };
        match self.tail {
            NIL => self.head = leaf,
            tail => self.links[tail as usize].after = leaf,
        }
        self.tail = root;
        self.len += blocks.len() as u32;
    }

    fn expose(&mut self, _: BlockId, _: View<'_>) {}

    fn remove(&mut self, block: BlockId, _: Why, view: View<'_>) {
        // One that still has owners was not in the list.
        if view.pool.refs(block) == 0 {
            self.unlink(block);
        }
    }

    fn victim(&mut self, view: View<'_>) -> Option<BlockId> {
        // A prefix is released whole and tail first, so the head is a leaf; only where a superfluous
        // copy has moved its twin up may others have to be passed.
        if self.head != NIL && view.pool.is_evictable(self.head) {
            return Some(self.head);
        }
        self.iter().find(|&b| view.pool.is_evictable(b))
    }

    fn next(&self, _: View<'_>) -> Option<BlockId> {
        (self.head != NIL).then_some(self.head)
    }

    fn order(&self, _: View<'_>) -> Vec<BlockId> {
        self.iter().collect()
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        let mut seen = 0;
        let mut before = NIL;
        for block in self.iter() {
            if self.links[block as usize].before != before {
                return Err(format!("lru: block {block} does not point back to {before}"));
            }
            if pool.state(block) != State::Cached {
                return Err(format!("lru: block {block} is {}", pool.state(block).name()));
            }
            before = block;
            seen += 1;
        }
        if seen != self.len || seen != pool.cached() || self.tail != before {
            return Err(format!(
                "lru: {seen} blocks linked, {} counted, {} cached",
                self.len,
                pool.cached()
            ));
        }
        Ok(())
    }
}
