//! MQ: a queue a power of two of uses, each an LRU; what lies idle too long moves one down (Zhou,
//! Philbin and Li, USENIX 2001).

use crate::hash::Key;
use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::ghosts::Memory;
use crate::policy::adapters::heap::{Entry, Heap};
use crate::policy::adapters::rank_order::pack;
use crate::policy::adapters::turns::Turns;
use crate::policy::{
    BlockAccess, Configured, PolicyOption, PolicyOptions, RemovalCause, View, grow,
};
use crate::pool::{BlockId, NIL};

const LIFETIME: PolicyOption = PolicyOption::positive(
    "lifetime",
    10_000,
    "Block accesses without a use after which a block moves a queue down.",
);

const QUEUES: usize = 8;
/// Ghosts by the blocks.
const GHOSTS: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    queue: u8,
    uses: u32,
    /// Its place in its queue.
    since: u64,
    /// The block access after which it moves down.
    expires: u64,
}

/// The queues are the blocks' classes; ghosts remember how often a block was used.
#[derive(Debug, Clone)]
pub struct Mq {
    lifetime: u64,
    columns: Vec<Column>,
    /// Every block's place in its queue, whether it may be evicted or not.
    queues: [Heap; QUEUES],
    places: Vec<u32>,
    ghosts: Memory<u32>,
    /// Block accesses so far.
    time: u64,
    turns: Turns,
    /// Queues not looked at yet after the last access: those below.
    checks: usize,
}

impl Configured for Mq {
    const OPTIONS: &'static [PolicyOption] = &[LIFETIME];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self {
            lifetime: options.get(&LIFETIME).into(),
            columns: Vec::new(),
            queues: std::array::from_fn(|_| Heap::default()),
            places: Vec::new(),
            ghosts: Memory::default(),
            time: 0,
            turns: Turns::default(),
            checks: 0,
        }
    }
}

impl Mq {
    fn leave(&mut self, block: BlockId) {
        let queue = self.class(block);
        let at = self.places[block as usize] as usize;
        self.queues[queue].take_out(&mut self.places, at);
    }

    fn enter(&mut self, block: BlockId, queue: usize, since: u64, view: View<'_>) {
        let expires = self.time + self.lifetime;
        let column = &mut self.columns[block as usize];
        *column = Column { queue: queue as u8, since, expires, ..*column };
        grow(&mut self.places, block, NIL);
        let entry = Entry::new(0, self.rank(block, view), block);
        self.queues[queue].push(&mut self.places, entry);
    }

    fn used(&mut self, block: BlockId, uses: u32, view: View<'_>) {
        self.columns[block as usize].uses = uses;
        let since = self.turns.at(view.now);
        self.enter(block, (uses.ilog2() as usize).min(QUEUES - 1), since, view);
        self.time += 1;
        self.checks = QUEUES;
    }
}

impl Classes for Mq {
    fn name(&self) -> &'static str {
        "mq"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        grow(&mut self.columns, block, Column::default());
        let before = self.ghosts.forget(view.pool.key(block)).map_or(0, |(_, uses)| uses);
        self.used(block, before.saturating_add(1), view);
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        let uses = self.columns[block as usize].uses.saturating_add(1);
        self.leave(block);
        self.used(block, uses, view);
    }

    fn moved(&mut self, view: View<'_>) -> Option<BlockId> {
        while self.checks > 1 {
            self.checks -= 1;
            let Some(first) = self.queues[self.checks].first() else { continue };
            let block = first.block();
            if self.columns[block as usize].expires < self.time {
                self.leave(block);
                let since = self.turns.next();
                self.enter(block, self.checks - 1, since, view);
                return Some(block);
            }
        }
        None
    }

    fn class(&self, block: BlockId) -> usize {
        self.columns[block as usize].queue as usize
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].since, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, _: View<'_>) -> usize {
        heads.first_of(&[])
    }

    fn removed(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        self.leave(block);
        if cause == RemovalCause::Evicted {
            self.ghosts.add(view.pool.key(block), self.columns[block as usize].uses);
            let blocks = view.pool.usable();
            self.ghosts.trim(GHOSTS * blocks as usize, blocks);
        }
    }

    fn on_miss(&mut self, key: Key, _: View<'_>) {
        self.ghosts.call(key);
    }

    fn wants_misses(&self) -> bool {
        true
    }
}
