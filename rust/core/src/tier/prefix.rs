//! Blocks of one request that become findable together.

use super::{RequestInfo, TierPolicy};
use crate::error::Result;
use crate::hash::Key;
use crate::policy::View;
use crate::pool::{BlockId, NIL};

/// Where in a prefix blocks go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The block before the first of them; [`NIL`] at the start.
    pub parent: BlockId,
    /// The place of the first, in blocks.
    pub depth: u32,
    /// Whether each follows the one before it, and is evicted before that.
    pub chained: bool,
}

impl TierPolicy {
    /// Takes `n` blocks, which there must be: free ones first, last freed first, then victims. They have an
    /// owner now, and hold nothing. The second number says how many were evicted, which come last.
    ///
    /// # Errors
    /// [`Error::NeedVictims`](crate::Error::NeedVictims), for a policy outside the core: find them and call
    /// again.
    pub(crate) fn take_blocks(&mut self, n: u32) -> Result<(Vec<BlockId>, usize)> {
        let free = self.pool.free();
        let mut blocks = Vec::with_capacity(n as usize);
        let victims = match n.saturating_sub(free) {
            0 => Vec::new(),
            short => self.victims(short, &[])?.unwrap_or_default(),
        };
        // They lie on top of the free list, and come after what was free before.
        for _ in &victims {
            let _ = self.pool.take(0);
        }
        while blocks.len() < n.min(free) as usize
            && let Some(block) = self.pool.take(0)
        {
            blocks.push(block);
        }
        let evicted = victims.len();
        blocks.extend(victims);
        self.policy.take(&blocks);
        Ok((blocks, evicted))
    }

    /// The owner of such blocks leaves them, and they still hold nothing: the last is taken first again.
    pub(crate) fn give_back(&mut self, blocks: &[BlockId]) {
        for &block in blocks {
            self.pool.unshare(block);
            self.pool.put_back(block);
        }
    }

    /// Makes `blocks`, which have an owner and hold nothing, findable under as many keys.
    pub(crate) fn enter(
        &mut self,
        blocks: &[BlockId],
        keys: &[Key],
        place: Place,
        known: RequestInfo<'_>,
    ) {
        self.tick();
        let mut parent = place.parent;
        for ((&block, &key), depth) in blocks.iter().zip(keys).zip(place.depth..) {
            self.policy.on_miss(key, View { pool: &self.pool, now: self.now });
            self.pool.publish(block, key, if place.chained { parent } else { NIL }, depth);
            parent = block;
        }
        self.policy.insert(blocks, known.access(), View { pool: &self.pool, now: self.now });
    }

    /// A request found `blocks`, in the order of their prefix, and is an owner of each from now on.
    pub(crate) fn own(&mut self, blocks: &[BlockId], known: RequestInfo<'_>) {
        self.tick();
        self.take_back_named();
        self.moved.clear();
        for &block in blocks {
            if self.pool.share(block) {
                self.moved.push(block);
            }
        }
        let view = View { pool: &self.pool, now: self.now };
        self.policy.own(blocks, &self.moved, known.access(), view);
    }
}
