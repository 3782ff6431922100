//! Which block follows which, where it is not told: an engine names the blocks of a sequence in the order
//! of its prompt when the last owner leaves them.
//!
//! A prefix is found from its start on, so that a block is worth nothing without the one before it. A
//! chain is a guess: it keeps a block from being named before another, and never from being evicted.

use super::is_next;
use crate::policy::grow;
use crate::pool::{BlockId, NIL, Pool, State};

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
    /// Whether any are inferred.
    pub is_on: bool,
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

    /// Whether `block` is cached, and a block without an owner follows it.
    #[inline]
    pub fn is_inner(&self, block: BlockId, pool: &Pool) -> bool {
        !self.is_end(block) && pool.state(block) == State::Cached
    }

    /// Each of `blocks`, which have no owner any more, follows the one named before it, if it stands
    /// just behind it.
    pub fn infer(&mut self, blocks: &[BlockId], pool: &Pool) {
        let told = |&block: &BlockId| pool.parent(block) != NIL || pool.depth(block) == 0;
        if !self.is_on || blocks.last().is_none_or(told) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Key;
    use crate::policy::Foresight;
    use crate::tier::{BlockQueue, RequestInfo};

    /// A queue of foresight, and how its blocks become findable from place 0 on.
    fn queue(blocks: u32) -> BlockQueue {
        BlockQueue::new(blocks, 16, Box::<Foresight>::default()).expect("some blocks")
    }

    fn enter(queue: &mut BlockQueue, blocks: &[BlockId], first: u32, name: u128) {
        let places = first..first + blocks.len() as u32;
        let keys: Vec<_> =
            places.clone().map(|at| Key(name << 64 | u128::from(at) << 32)).collect();
        let places: Vec<_> = places.collect();
        queue.insert(blocks, &keys, &places, RequestInfo::default()).expect("they have an owner");
    }

    #[test]
    fn a_prefix_is_evicted_from_its_end_whatever_its_blocks_are_worth() {
        let mut queue = queue(8);
        enter(&mut queue, &[0, 1, 2, 3], 0, 1);
        queue.free(&[0, 1, 2, 3], &[4, 5, 6, 7]).expect("owned");
        // The last was used most, and alone: an engine finds any block by its key.
        for _ in 0..9 {
            queue.hit(&[3], RequestInfo::default()).expect("it is here");
            queue.free(&[3], &[]).expect("owned");
            queue.check_integrity().expect("whole");
        }
        assert_eq!(queue.take(8).expect("all"), [7, 6, 5, 4, 3, 2, 1, 0]);
    }

    #[test]
    fn what_an_owner_keeps_holds_nothing_back() {
        let mut queue = queue(4);
        enter(&mut queue, &[0, 1, 2, 3], 0, 1);
        queue.free(&[0, 1, 2, 3], &[]).expect("owned");
        queue.hit(&[2], RequestInfo::default()).expect("it is here");
        queue.check_integrity().expect("whole");
        // The end goes first, and then what the owned one follows.
        assert_eq!(queue.take(3).expect("all that are free"), [3, 1, 0]);
        queue.free(&[2], &[0, 1, 3]).expect("owned");
        queue.check_integrity().expect("its head is another block now");
    }

    #[test]
    fn a_block_that_holds_something_else_is_followed_by_nothing() {
        let mut queue = queue(3);
        enter(&mut queue, &[0, 1], 0, 1);
        queue.free(&[0, 1], &[2]).expect("owned");
        queue.remove(&[0]).expect("it is here");
        queue.check_integrity().expect("whole");
        assert_eq!(queue.take(1).expect("it is free"), [0]);
        enter(&mut queue, &[0], 0, 2);
        queue.free(&[0], &[]).expect("owned");
        queue.check_integrity().expect("whole");
        // The new one is the later used, and the old one no longer holds it back.
        assert_eq!(queue.take(3).expect("all"), [2, 1, 0]);
    }

    #[test]
    fn told_parents_leave_nothing_to_infer() {
        let (mut chains, mut pool) =
            (Chains { is_on: true, ..Chains::default() }, Pool::new(2, false));
        let blocks = [pool.take(0).expect("free"), pool.take(0).expect("free")];
        pool.publish(blocks[0], Key(1 << 64), NIL, 0);
        pool.publish(blocks[1], Key(2 << 64), blocks[0], 1);
        chains.infer(&blocks, &pool);
        assert!(!chains.are_known());
        // Without a place it is not known that one stands behind the other.
        pool.unpublish(blocks[1]);
        pool.publish(blocks[1], Key(3 << 64), NIL, 0);
        chains.infer(&blocks, &pool);
        assert!(!chains.are_known());
    }
}
