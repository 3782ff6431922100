//! Which block follows which, where nobody tells: an engine names the blocks of a sequence in the order
//! of its prompt when the last owner leaves them.
//!
//! A prefix is found from its start on, so that a block is worth nothing without the one before it. A
//! chain is a guess: it keeps a block from being named before another, and never from being evicted.

use super::is_next;
use crate::policy::grow;
use crate::pool::{BlockId, NIL, Pool};

/// What is known of a block, in 16 bytes.
#[derive(Debug, Clone, Copy)]
struct Link {
    /// The block before it, and what its `content` was then: a block is another once it was evicted.
    parent: BlockId,
    of: u32,
    content: u32,
    /// Blocks without an owner that follow it; the lowest bit says whether this one counts as such.
    followers: u32,
}

const NONE: Link = Link { parent: NIL, of: 0, content: 0, followers: 0 };
const COUNTED: u32 = 1;
const ONE: u32 = 2;

/// All of them; empty while parents are told.
#[derive(Debug, Clone, Default)]
pub(super) struct Chains {
    links: Vec<Link>,
}

impl Chains {
    /// Whether any block follows another.
    pub fn are_known(&self) -> bool {
        !self.links.is_empty()
    }

    /// Whether no block without an owner follows `block`.
    pub fn is_end(&self, block: BlockId) -> bool {
        self.links.get(block as usize).is_none_or(|link| link.followers < ONE)
    }

    /// Each of `blocks`, which nobody owns any more, follows the one named before it, if it stands
    /// just behind it.
    pub fn infer(&mut self, blocks: &[BlockId], pool: &Pool) {
        let told = |&block: &BlockId| pool.parent(block) != NIL || pool.depth(block) == 0;
        if blocks.last().is_none_or(told) {
            return;
        }
        let most = blocks.iter().copied().max().unwrap_or(0);
        grow(&mut self.links, most, NONE);
        for pair in blocks.windows(2) {
            let (before, block) = (pair[0], pair[1]);
            if pool.parent(block) == NIL && is_next(before, block, pool) {
                let of = self.links[before as usize].content;
                let link = &mut self.links[block as usize];
                (link.parent, link.of) = (before, of);
            }
        }
    }

    /// `block` has no owner any more; the block that it is the first to follow.
    pub fn hold(&mut self, block: BlockId) -> Option<BlockId> {
        let link = self.links.get_mut(block as usize)?;
        if link.parent == NIL || link.followers & COUNTED > 0 {
            return None;
        }
        let (parent, of) = (link.parent, link.of);
        if self.links[parent as usize].content != of {
            self.links[block as usize].parent = NIL;
            return None;
        }
        self.links[block as usize].followers |= COUNTED;
        let followers = &mut self.links[parent as usize].followers;
        *followers += ONE;
        (*followers < 2 * ONE).then_some(parent)
    }

    /// `block` has an owner, or is gone; the block that nothing follows now.
    pub fn let_go(&mut self, block: BlockId) -> Option<BlockId> {
        let link = self.links.get_mut(block as usize)?;
        if link.followers & COUNTED == 0 {
            return None;
        }
        link.followers &= !COUNTED;
        let (parent, of) = (link.parent, link.of);
        let before = &mut self.links[parent as usize];
        if before.content != of {
            return None;
        }
        before.followers -= ONE;
        (before.followers < ONE).then_some(parent)
    }

    /// `block` holds something else from now on. The caller has let it go.
    pub fn forget(&mut self, block: BlockId) {
        if let Some(link) = self.links.get_mut(block as usize) {
            *link = Link { content: link.content.wrapping_add(1), ..NONE };
        }
    }
}
