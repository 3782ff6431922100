//! Prefixes in one pass: found by their keys, shared, given up.

use super::{Block, BlockId, NIL, Pool, State, WAITS};
use crate::hash::Key;

impl Pool {
    /// Follows `keys` from `block` down the children that were used last, as far as they stand under
    /// those keys; appends them to `out`.
    // Not inlined, as the two below: in the middle of an admission its variables spill.
    #[inline(never)]
    pub fn follow_heirs(&self, block: BlockId, keys: &[Key], out: &mut Vec<BlockId>) {
        let (blocks, column) = (&self.blocks[..], &self.key[..self.blocks.len()]);
        let start = out.len();
        out.resize(start + keys.len(), NIL);
        let (mut above, mut heir, mut found) = (block, blocks[block as usize].heir, 0);
        for (slot, key) in out[start..].iter_mut().zip(keys) {
            // NIL is no index; only a findable block has a parent.
            let Some(child) = blocks.get(heir as usize) else { break };
            if child.parent != above || column[heir as usize] != *key {
                break;
            }
            *slot = heir;
            found += 1;
            (above, heir) = (heir, child.heir);
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
                b.heir = below;
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
