//! S3-FIFO: a small FIFO filters what is used once, a main FIFO gives what is used another round
//! (Yang et al., SOSP 2023).

use crate::hash::Key;
use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::ghosts::Memory;
use crate::policy::adapters::queue::share;
use crate::policy::adapters::rank_order::pack;
use crate::policy::adapters::turns::Turns;
use crate::policy::{
    BlockAccess, Configured, PolicyOption, PolicyOptions, RemovalCause, View, grow,
};
use crate::pool::BlockId;

/// The small queue's; the ghosts remember the rest.
const SMALL_PERCENT: PolicyOption = PolicyOption::percent(
    "small_percent",
    10,
    "Share of the blocks that the small queue may hold.",
);

const SMALL: usize = 0;
const MAIN: usize = 1;
const MOST_USES: u8 = 3;

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    class: u8,
    /// Hits since it was inserted or went another round, 3 at the most.
    uses: u8,
    /// Its place in its queue.
    since: u64,
}

/// The two queues are the blocks' classes.
#[derive(Debug, Clone)]
pub struct S3Fifo {
    percent: u32,
    columns: Vec<Column>,
    small: usize,
    ghosts: Memory<()>,
    turns: Turns,
    /// The queue that gives until a victim is found.
    scanned: Option<usize>,
}

impl Configured for S3Fifo {
    const OPTIONS: &'static [PolicyOption] = &[SMALL_PERCENT];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self {
            percent: options.get(&SMALL_PERCENT),
            columns: Vec::new(),
            small: 0,
            ghosts: Memory::default(),
            turns: Turns::default(),
            scanned: None,
        }
    }
}

impl Classes for S3Fifo {
    fn name(&self) -> &'static str {
        "s3-fifo"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        let back = self.ghosts.forget(view.pool.key(block)).is_some();
        self.small += usize::from(!back);
        let class = if back { MAIN } else { SMALL } as u8;
        grow(&mut self.columns, block, Column::default());
        self.columns[block as usize] = Column { class, uses: 0, since: self.turns.at(view.now) };
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, _: View<'_>) {
        let uses = &mut self.columns[block as usize].uses;
        *uses = (*uses + 1).min(MOST_USES);
    }

    fn class(&self, block: BlockId) -> usize {
        self.columns[block as usize].class as usize
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].since, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, view: View<'_>) -> usize {
        if let Some(class) = self.scanned.filter(|&class| !heads.is_empty(class)) {
            return class;
        }
        let most = share(view, self.percent);
        heads.first_of(if self.small >= most { &[SMALL, MAIN] } else { &[MAIN, SMALL] })
    }

    fn spare(&mut self, block: BlockId, _: View<'_>) -> bool {
        let column = &mut self.columns[block as usize];
        let small = column.class == SMALL as u8;
        self.scanned = None;
        if column.uses < if small { 2 } else { 1 } {
            return false;
        }
        self.scanned = Some(column.class.into());
        if small {
            (column.class, column.uses) = (MAIN as u8, 0);
            self.small -= 1;
        } else {
            column.uses -= 1;
        }
        column.since = self.turns.next();
        true
    }

    fn removed(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        if self.class(block) == MAIN {
            return;
        }
        self.small -= 1;
        if cause == RemovalCause::Evicted {
            self.ghosts.add(view.pool.key(block), ());
            let rest = 100u32.saturating_sub(self.percent);
            self.ghosts.trim(share(view, rest), view.pool.usable());
        }
    }

    fn on_miss(&mut self, key: Key, _: View<'_>) {
        self.ghosts.call(key);
    }

    fn wants_misses(&self) -> bool {
        true
    }
}
