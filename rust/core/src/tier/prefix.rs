//! Blocks of one request that become findable together.

use super::{RequestInfo, TierPolicy};
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
    /// Makes `keys` findable in as many free blocks, which the caller knows to be there, owned once each.
    pub(crate) fn enter(
        &mut self,
        keys: &[Key],
        place: Place,
        known: RequestInfo<'_>,
    ) -> Vec<BlockId> {
        self.tick();
        let (mut blocks, mut parent) = (Vec::with_capacity(keys.len()), place.parent);
        for (&key, depth) in keys.iter().zip(place.depth..) {
            self.policy.on_miss(key, View { pool: &self.pool, now: self.now });
            let Some(block) = self.pool.take(0) else { break };
            self.policy.take(&[block]);
            self.pool.publish(block, key, if place.chained { parent } else { NIL }, depth);
            blocks.push(block);
            parent = block;
        }
        self.policy.insert(&blocks, known.access(), View { pool: &self.pool, now: self.now });
        blocks
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

    /// Another block was seen under the key of each of these.
    pub(crate) fn note_copies(&mut self, blocks: [BlockId; 2]) {
        for block in blocks {
            self.pool.set_duplicated(block, true);
        }
    }
}
