//! MQ: a queue a power of two of uses, each an LRU; what lies idle too long moves one down (Zhou,
//! Philbin and Li, USENIX 2001).

use super::classed::{Classes, Heads};
use super::ghosts::Ghosts;
use super::ranked::pack;
use super::{Touch, View, Why, grow};
use crate::pool::BlockId;

const QUEUES: usize = 8;

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    queue: u8,
    uses: u32,
    last: u64,
    /// Block accesses when it was used last, or moved down.
    since: u64,
}

/// The queues are the blocks' classes; ghosts remember how often a block was used.
#[derive(Debug, Clone)]
pub struct Mq {
    lifetime: u64,
    columns: Vec<Column>,
    ghosts: Ghosts<u32>,
    /// Block accesses so far.
    time: u64,
    chosen: usize,
}

impl Mq {
    /// A block that is not used for `lifetime` block accesses moves one queue down.
    pub fn new(lifetime: u64) -> Self {
        Self { lifetime, columns: Vec::new(), ghosts: Ghosts::default(), time: 0, chosen: 0 }
    }

    fn touch(&mut self, block: BlockId, uses: u32, now: u64) {
        self.time += 1;
        let queue = (uses.ilog2() as usize).min(QUEUES - 1) as u8;
        self.columns[block as usize] = Column { queue, uses, last: now, since: self.time };
    }

    /// The queue it has come down to. Blocks inside a prefix come down, too, and are not looked at.
    fn queue(&self, block: BlockId) -> usize {
        let Column { queue, since, .. } = self.columns[block as usize];
        u64::from(queue).saturating_sub((self.time - since) / self.lifetime) as usize
    }
}

impl Classes for Mq {
    fn name(&self) -> &'static str {
        "mq"
    }

    fn options(&self) -> Vec<(&'static str, u64)> {
        vec![("lifetime", self.lifetime)]
    }

    fn insert(&mut self, block: BlockId, _: Touch<'_>, view: View<'_>) {
        grow(&mut self.columns, block, Column::default());
        let before = self.ghosts.forget(view.pool.key(block)).unwrap_or(0);
        self.touch(block, before + 1, view.now);
    }

    fn hit(&mut self, block: BlockId, _: Touch<'_>, view: View<'_>) {
        let uses = self.columns[block as usize].uses.saturating_add(1);
        self.touch(block, uses, view.now);
    }

    fn class(&self, block: BlockId) -> usize {
        self.queue(block)
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].last, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, _: View<'_>) -> usize {
        // Heads that have expired move down first, one at a time (`spare`).
        let expired = (1..heads.classes())
            .find(|&queue| heads.first(queue).is_some_and(|(block, _)| self.queue(block) < queue));
        self.chosen = expired.unwrap_or_else(|| heads.first_of(&[]));
        self.chosen
    }

    fn spare(&mut self, block: BlockId, _: View<'_>) -> bool {
        self.queue(block) < self.chosen
    }

    fn removed(&mut self, block: BlockId, why: Why, view: View<'_>) {
        if why == Why::Evicted {
            self.ghosts.add(view.pool.key(block), self.columns[block as usize].uses);
            self.ghosts.trim(4 * view.pool.usable() as usize);
        }
    }
}
