//! Prefixes in one pass: published, found by their keys, shared, given up.

use super::{Block, BlockId, DUPLICATED, NIL, Pool, State, WAITS};
use crate::hash::Key;

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

    /// Follows `keys` from `block` down the children that were used last, as far as they stand under
    /// those keys; appends them to `out`.
    // Not inlined, as the two below: in the middle of an allocation its variables spill.
    #[inline(never)]
    pub fn follow_last_children(&self, block: BlockId, keys: &[Key], out: &mut Vec<BlockId>) {
        let (blocks, column) = (&self.blocks[..], &self.key[..self.blocks.len()]);
        let start = out.len();
        out.resize(start + keys.len(), NIL);
        let (mut above, mut last_child, mut found) = (block, blocks[block as usize].last_child, 0);
        for (slot, key) in out[start..].iter_mut().zip(keys) {
            // NIL is no index; only a findable block has a parent.
            let Some(child) = blocks.get(last_child as usize) else { break };
            if child.parent != above || column[last_child as usize] != *key {
                break;
            }
            *slot = last_child;
            found += 1;
            (above, last_child) = (last_child, child.last_child);
        }
        out.truncate(start + found);
    }

    /// How many of `blocks` are cached; `NIL` is not.
    #[inline(never)]
    pub fn count_cached(&self, blocks: &[BlockId]) -> usize {
        let column = &self.blocks[..];
        let cached =
            |b: &BlockId| column.get(*b as usize).is_some_and(|b| b.state == State::Cached);
        blocks.iter().map(|b| usize::from(cached(b))).sum()
    }

    /// One more owner for each of `blocks`, a prefix or the end of one; how many had none before.
    /// Notes which child was used last.
    #[inline(never)]
    pub fn share_chain(&mut self, blocks: &[BlockId]) -> usize {
        let column = &mut self.blocks[..];
        let (mut firsts, mut marks) = (0, 0);
        let mut below = NIL;
        for &block in blocks.iter().rev() {
            let b = &mut column[block as usize];
            b.refs += 1;
            marks |= b.marks;
            if below != NIL {
                b.last_child = below;
            }
            below = block;
            if b.state == State::Cached {
                b.state = State::Committed;
                firsts += 1;
            }
        }
        self.cached -= firsts;
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
        let plain = |b: &Block| b.refs == 1 && b.state == State::Committed && b.marks == 0;
        // NIL is no index.
        if !blocks.iter().all(|&block| column.get(block as usize).is_some_and(plain)) {
            return false;
        }
        for &block in blocks {
            let b = &mut column[block as usize];
            b.refs = 0;
            b.state = State::Cached;
        }
        self.cached += blocks.len() as u32;
        true
    }
}
