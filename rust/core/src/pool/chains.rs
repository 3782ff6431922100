//! Prefixes in one pass: published, found by their keys, shared, given up.

use super::{BlockId, DUPLICATED, NIL, Pool, State, WAITS};
use crate::hash::Key;
use crate::tenants::Ledger;

/// From a block to its neighbour in the pool.
const FORWARD: BlockId = 1;
const BACKWARD: BlockId = FORWARD.wrapping_neg();

impl Pool {
    /// Gives pending `blocks` the keys under which they are to be findable, up to the first that is not
    /// pending; how many that were.
    pub fn name_chain(&mut self, blocks: &[BlockId], keys: &[Key]) -> usize {
        let (column, names) = (&self.blocks[..], &mut self.key[..self.blocks.len()]);
        let mut named = 0;
        for (&block, &key) in blocks.iter().zip(keys) {
            // NIL is no index.
            match column.get(block as usize) {
                Some(b) if b.state == State::Pending => names[block as usize] = key,
                _ => break,
            }
            named += 1;
        }
        named
    }

    /// [`Pool::publish`] for all of `blocks`, which have been named and follow one another from `depth`
    /// on, the first one `parent`.
    pub fn publish_chain(&mut self, blocks: &[BlockId], parent: BlockId, depth: u32) {
        let (depths, column) = (&mut self.depth[..self.blocks.len()], &mut self.blocks[..]);
        let mut below = NIL;
        for (i, &block) in blocks.iter().enumerate().rev() {
            let b = &mut column[block as usize];
            debug_assert_eq!(b.state, State::Pending);
            b.state = State::Committed;
            b.parent = i.checked_sub(1).map_or(parent, |before| blocks[before]);
            b.marks &= !DUPLICATED;
            if below != NIL {
                b.children += 1;
                b.last_child = below;
            }
            depths[block as usize] = depth + i as u32;
            below = block;
        }
        if parent != NIL && below != NIL {
            let above = &mut column[parent as usize];
            above.children += 1;
            above.last_child = below;
        }
    }

    /// Follows `keys` from `block` down its children, as far as the neighbour in the pool or the child
    /// that became findable last stands under them; appends those to `out`.
    ///
    /// Blocks that were taken together mostly lie side by side, in either direction. Where the neighbour
    /// is the child, its place is known before the block above has been read: the processor fetches
    /// the blocks of a prompt at once, and not one after the other.
    // Not inlined, as the two below: in the middle of an allocation its variables spill.
    #[inline(never)]
    pub fn follow_children(&self, block: BlockId, keys: &[Key], out: &mut Vec<BlockId>) {
        let (blocks, column) = (&self.blocks[..], &self.key[..self.blocks.len()]);
        // NIL is no index; only a findable block has a parent.
        let is_child = |child: BlockId, above: BlockId, key: Key| {
            let block = blocks.get(child as usize);
            block.is_some_and(|block| block.parent == above && column[child as usize] == key)
        };
        let start = out.len();
        out.resize(start + keys.len(), NIL);
        let (mut above, mut step, mut found) = (block, FORWARD, 0);
        for (slot, &key) in out[start..].iter_mut().zip(keys) {
            let mut child = above.wrapping_add(step);
            if !is_child(child, above, key) {
                child = blocks[above as usize].last_child;
                if !is_child(child, above, key) {
                    break;
                }
                // After a gap, blocks go on as before it, or the other way.
                step = match child.wrapping_sub(above) {
                    next @ (FORWARD | BACKWARD) => next,
                    _ => step,
                };
            }
            *slot = child;
            found += 1;
            above = child;
        }
        out.truncate(start + found);
    }

    /// Follows `keys` from `block` down its children, where `column` says by number which block is found under
    /// a key; appends those to `out`.
    #[inline(never)]
    pub fn follow_numbers(
        &self,
        block: BlockId,
        keys: &[Key],
        column: &[BlockId],
        out: &mut Vec<BlockId>,
    ) {
        let blocks = &self.blocks[..];
        let start = out.len();
        out.resize(start + keys.len(), NIL);
        let (mut above, mut found) = (block, 0);
        for (slot, key) in out[start..].iter_mut().zip(keys) {
            let child = column.get(key.number()).copied().unwrap_or(NIL);
            // NIL is no index; only a findable block has a parent.
            match blocks.get(child as usize) {
                Some(b) if b.parent == above => *slot = child,
                _ => break,
            }
            found += 1;
            above = child;
        }
        out.truncate(start + found);
    }

    /// How many of `blocks`, which are findable, owned or `NIL`, are cached.
    #[inline(never)]
    pub fn count_cached(&self, blocks: &[BlockId]) -> usize {
        let column = &self.blocks[..];
        let cached = |b: &BlockId| column.get(*b as usize).is_some_and(|b| b.refs == 0);
        blocks.iter().map(|b| usize::from(cached(b))).sum()
    }

    /// One more owner for each of `blocks`, which are findable; how many had none before.
    #[inline(never)]
    pub fn share_chain(&mut self, blocks: &[BlockId]) -> usize {
        let column = &mut self.blocks[..];
        let (mut firsts, mut marks) = (0, 0);
        for &block in blocks {
            let b = &mut column[block as usize];
            debug_assert_eq!(b.state, State::Committed);
            firsts += u32::from(b.refs == 0);
            b.refs += 1;
            marks |= b.marks;
        }
        self.cached -= firsts;
        if let Some(ledger) = &mut self.ledger {
            let first = blocks.iter().filter(|&&block| self.blocks[block as usize].refs == 1);
            first.for_each(|&block| ledger.uncached(block));
        }
        if marks & WAITS != 0 {
            self.chain_came_back(blocks);
        }
        firsts as usize
    }

    /// One owner less for those at the front of `blocks` that have others; how many they are.
    #[inline(never)]
    pub fn leave_shared(&mut self, blocks: &[BlockId]) -> usize {
        let column = &mut self.blocks[..];
        let (mut shared, mut marks) = (0, 0);
        for &block in blocks {
            // NIL is no index.
            match column.get_mut(block as usize) {
                Some(b) if b.refs > 1 => {
                    b.refs -= 1;
                    marks |= b.marks;
                }
                _ => break,
            }
            shared += 1;
        }
        if marks & WAITS != 0 {
            self.chain_lost_one(&blocks[..shared]);
        }
        shared
    }

    /// One owner less for each of `blocks`, if that leaves every one of them cached, and no copy of
    /// another; otherwise nothing. The common end of a sequence, in one pass.
    #[inline(never)]
    pub fn unshare_chain(&mut self, blocks: &[BlockId]) -> bool {
        let column = &mut self.blocks[..];
        let mut left = 0;
        for &block in blocks {
            match column.get_mut(block as usize) {
                // NIL is no index.
                Some(b) if b.refs == 1 && b.state == State::Committed && b.marks == 0 => b.refs = 0,
                _ => break,
            }
            left += 1;
        }
        if left < blocks.len() {
            blocks[..left].iter().for_each(|&block| column[block as usize].refs = 1);
            return false;
        }
        self.cached += blocks.len() as u32;
        if self.ledger.is_some() {
            self.note_all(blocks, Ledger::cached);
        }
        true
    }
}
