//! 2Q: what is used once passes through a FIFO; what comes back after that joins an LRU (Johnson and
//! Shasha, VLDB 1994).

use crate::hash::Key;
use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::ghosts::Memory;
use crate::policy::adapters::queue::share;
use crate::policy::adapters::rank_order::pack;
use crate::policy::{
    BlockAccess, Configured, PolicyOption, PolicyOptions, RemovalCause, View, grow,
};
use crate::pool::BlockId;

/// The share of `A1in`.
const IN_PERCENT: PolicyOption =
    PolicyOption::percent("in_percent", 25, "Share of the pool for blocks used once, in percent.");
/// How much `A1out` remembers.
const OUT_PERCENT: PolicyOption = PolicyOption::number(
    "out_percent",
    50,
    "Evicted used-once keys to remember, in percent of the blocks.",
);

const IN: usize = 0;
const MAIN: usize = 1;

/// A1in and Am are the blocks' classes, A1out the ghosts.
#[derive(Debug, Clone)]
pub struct TwoQ {
    in_percent: u32,
    out_percent: u32,
    /// (class, time of insertion in A1in or of last use in Am)
    columns: Vec<(u8, u64)>,
    within: usize,
    out: Memory<()>,
}

impl Configured for TwoQ {
    const OPTIONS: &'static [PolicyOption] = &[IN_PERCENT, OUT_PERCENT];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self {
            in_percent: options.get(&IN_PERCENT),
            out_percent: options.get(&OUT_PERCENT),
            columns: Vec::new(),
            within: 0,
            out: Memory::default(),
        }
    }
}

impl Classes for TwoQ {
    fn name(&self) -> &'static str {
        "2q"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        let back = self.out.forget(view.pool.key(block)).is_some();
        self.within += usize::from(!back);
        grow(&mut self.columns, block, (0, 0));
        self.columns[block as usize] = (if back { MAIN } else { IN } as u8, view.now);
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        self.release(block, view);
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        let (class, last) = &mut self.columns[block as usize];
        if *class == MAIN as u8 {
            *last = view.now;
        }
    }

    fn class(&self, block: BlockId) -> usize {
        self.columns[block as usize].0 as usize
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].1, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, view: View<'_>) -> usize {
        let most = share(view, self.in_percent);
        heads.first_of(if self.within > most { &[IN, MAIN] } else { &[MAIN, IN] })
    }

    fn removed(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        if self.class(block) == MAIN {
            return;
        }
        self.within -= 1;
        if cause == RemovalCause::Evicted {
            self.out.add(view.pool.key(block), ());
            self.out.trim(share(view, self.out_percent), view.pool.usable());
        }
    }

    fn on_miss(&mut self, key: Key, _: View<'_>) {
        self.out.call(key);
    }

    fn wants_misses(&self) -> bool {
        true
    }
}
