//! Blocks that an engine holds one by one: how often each is held, and which held blocks follow it.

use std::collections::HashMap;

use crate::pool::{BlockId, NIL};

/// One block in hand.
#[derive(Debug, Clone, Copy)]
pub struct HeldBlock {
    /// How often it is held.
    pub count: u32,
    /// Blocks in hand that follow it.
    pub children: u32,
    /// The block it follows, or [`NIL`].
    pub parent: BlockId,
}

/// Findable blocks in hand.
#[derive(Debug, Clone, Default)]
pub struct HeldBlocks {
    map: HashMap<BlockId, HeldBlock>,
}

impl HeldBlocks {
    /// How often `block` is held.
    pub fn count(&self, block: BlockId) -> u32 {
        self.map.get(&block).map_or(0, |hand| hand.count)
    }

    /// Every block in hand and how often it is held, by block.
    pub fn held(&self) -> Vec<(BlockId, u32)> {
        let mut held: Vec<_> = self.map.iter().map(|(&block, hand)| (block, hand.count)).collect();
        held.sort_unstable();
        held
    }

    /// The block that `block` follows in hand, or [`NIL`].
    pub fn parent(&self, block: BlockId) -> BlockId {
        self.map.get(&block).map_or(NIL, |hand| hand.parent)
    }

    /// Blocks in hand that follow `block`.
    pub fn children(&self, block: BlockId) -> u32 {
        self.map.get(&block).map_or(0, |hand| hand.children)
    }

    /// Holds `block`, which follows `parent`, once more. False if `parent` is not in hand.
    pub fn take(&mut self, block: BlockId, parent: BlockId) -> bool {
        if self.count(block) == 0 && parent != NIL {
            let Some(above) = self.map.get_mut(&parent) else { return false };
            above.children += 1;
        }
        self.map.entry(block).or_insert(HeldBlock { count: 0, children: 0, parent }).count += 1;
        true
    }

    /// Holds `block` once less. False if it is not held, or if this would drop it while a held block follows
    /// it.
    pub fn drop(&mut self, block: BlockId) -> bool {
        let Some(hand) = self.map.get_mut(&block) else { return false };
        if hand.count > 1 {
            hand.count -= 1;
            return true;
        }
        if hand.children > 0 {
            return false;
        }
        let parent = hand.parent;
        self.map.remove(&block);
        if let Some(above) = self.map.get_mut(&parent) {
            above.children -= 1;
        }
        true
    }
}
