//! A node becomes two where a prompt leaves it, or ends.

use super::nodes::Node;
use super::{PrefixTree, ROOT};
use crate::error::{Error, Limit, Result};
use crate::hash::Key;
use crate::policy::{Access, View};
use crate::pool::{BlockId, NIL, State};
use crate::tier::RequestInfo;

/// A node that was split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// The number of the node that has its first tokens now.
    pub head: BlockId,
    /// Its own, with the rest.
    pub tail: BlockId,
    /// How many tokens the head has.
    pub tokens: usize,
}

impl PrefixTree {
    /// Splits the last node of `path` after `inside` of its tokens, unless these are all; the path then
    /// ends with its head, which has an owner.
    pub(super) fn split_last(&mut self, inside: usize) -> Result<Option<Split>> {
        let Some(&tail) = self.path.last() else { return Ok(None) };
        if inside == self.nodes[tail as usize].tokens.len() {
            return Ok(None);
        }
        let head = self.take()?;
        self.leave(tail);
        let above = self.tier.pool.parent(tail);
        let there = &mut self.nodes[tail as usize];
        let rest = there.tokens.split_off(inside);
        let first = std::mem::replace(&mut there.tokens, rest);
        let (space, start, locks, uses) = (there.space, there.start, there.locks, there.uses);
        there.start += inside;
        let serial = self.next_serial();
        self.set(head, Node { locks, uses, ..Node::new(first, space, start, serial) });
        self.stand_in(head, tail, above);
        let name = self.path_key(head, above);
        self.tier.pool.publish(head, name, above, (start / self.page) as u32);
        self.tier.pool.follow(tail, head, ((start + inside) / self.page) as u32);
        self.enter(head);
        self.enter(tail);
        self.tell_of_split(head, tail, uses);
        let last = self.path.len() - 1;
        self.path[last] = head;
        Ok(Some(Split { head, tail, tokens: inside }))
    }

    /// The head was used as often as the whole; the tail is as recent as if it had been used now.
    fn tell_of_split(&mut self, head: BlockId, tail: BlockId, uses: u8) {
        self.tier.tick();
        let free = self.tier.pool.state(tail) == State::Cached;
        if free {
            self.tier.pool.share(tail);
        }
        let (none, now) = (RequestInfo::default(), self.tier.now);
        let (policy, pool) = (&mut self.tier.policy, &mut self.tier.pool);
        policy.insert(&[head], none.access(), View { pool, now });
        for _ in 1..uses {
            policy.hit(&[head], Access::default(), View { pool, now });
        }
        if free {
            policy.acquire(&[tail], View { pool, now });
        }
        if self.recency {
            policy.hit(&[tail], Access::default(), View { pool, now });
        }
        if free {
            pool.unshare(tail);
            policy.release(&[tail], View { pool, now });
        }
    }

    /// A node that is free, outside the order.
    pub(super) fn take(&mut self) -> Result<BlockId> {
        let tier = &mut self.tier;
        if let Some(told) = tier.notified
            && tier.pool.free() == 0
        {
            tier.grow(told)?;
        }
        let total = tier.pool.capacity().into();
        let none =
            Error::NoCapacity { needed: 1, available: 0, total, limit: Limit::Pool, coming: 0 };
        let node = tier.pool.take(0).ok_or(none)?;
        tier.policy.take(&[node]);
        Ok(node)
    }

    pub(super) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial & (u32::MAX >> 1)
    }

    pub(super) fn set(&mut self, node: BlockId, there: Node) {
        let at = node as usize;
        if at < self.nodes.len() {
            self.nodes[at] = there;
        } else {
            // The pool creates its blocks in order.
            self.nodes.push(there);
        }
    }

    /// Puts `head` where `tail` stood among those that follow `above`, and `tail` behind it.
    fn stand_in(&mut self, head: BlockId, tail: BlockId, above: BlockId) {
        let beside = std::mem::replace(&mut self.nodes[tail as usize].beside, [NIL; 2]);
        self.nodes[head as usize].beside = beside;
        self.nodes[head as usize].below = [tail; 2];
        for (side, &neighbour) in beside.iter().enumerate() {
            match neighbour {
                NIL => self.ends(above)[side] = head,
                other => self.nodes[other as usize].beside[1 - side] = head,
            }
        }
    }

    /// The first and last of the nodes that follow `above`.
    pub(super) fn ends(&mut self, above: BlockId) -> &mut [BlockId; 2] {
        if above == ROOT { &mut self.tops } else { &mut self.nodes[above as usize].below }
    }

    /// The key of the path up to the end of a node whose tokens stand: the same however it is cut.
    pub(super) fn path_key(&self, node: BlockId, above: BlockId) -> Key {
        let there = &self.nodes[node as usize];
        if self.vanished.is_none() && !self.tier.policy.wants_keys() {
            // No policy looks for it; no two are the same.
            return Key(u128::from(there.serial) + 1);
        }
        let before = if above == ROOT { there.space } else { self.tier.pool.key(above) };
        super::vanished::chain(before, &there.tokens)
    }
}
