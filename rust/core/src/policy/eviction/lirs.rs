//! LIRS: blocks with a short time between two uses stay, the others pass through a small queue (Jiang
//! and Zhang, SIGMETRICS 2002).
//!
//! The paper's stack holds all blocks used since the least recently used short one was, resident or
//! not. Kept here is what follows from that: a block is in the stack if it was used after that one.

use crate::hash::Key;
use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::ghosts::Memory;
use crate::policy::adapters::queue::{Queue, share};
use crate::policy::adapters::rank_order::pack;
use crate::policy::adapters::turns::Turns;
use crate::policy::{
    BlockAccess, Configured, PolicyOption, PolicyOptions, RemovalCause, View, grow,
};
use crate::pool::BlockId;

/// At least one block has a long time.
const HIR_PERCENT: PolicyOption = PolicyOption::percent(
    "hir_percent",
    1,
    "Share of the blocks for those with a long time between uses.",
);

const LONG: usize = 0;
const SHORT: usize = 1;

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    class: u8,
    last: u64,
    /// Its place in the queue of long ones.
    queued: u64,
}

/// The paper's HIR and LIR are the blocks' classes, LONG and SHORT.
#[derive(Debug, Clone)]
pub struct Lirs {
    percent: u32,
    columns: Vec<Column>,
    short: Queue,
    /// When what is gone was used last.
    ghosts: Memory<u64>,
    turns: Turns,
}

impl Configured for Lirs {
    const OPTIONS: &'static [PolicyOption] = &[HIR_PERCENT];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self {
            percent: options.get(&HIR_PERCENT),
            columns: Vec::new(),
            short: Queue::default(),
            ghosts: Memory::default(),
            turns: Turns::default(),
        }
    }
}

impl Lirs {
    fn most_short(&self, view: View<'_>) -> usize {
        (view.pool.usable() as usize).saturating_sub(share(view, self.percent).max(1))
    }

    /// Whether what was used then for the last time is in the stack.
    fn is_recent(&mut self, last: u64) -> bool {
        self.short.first().is_none_or(|(_, first)| last > first)
    }

    fn promote(&mut self, block: BlockId, view: View<'_>) {
        let column = &mut self.columns[block as usize];
        column.class = SHORT as u8;
        self.short.put(block, column.last, view.pool.depth(block));
    }
}

impl Classes for Lirs {
    fn name(&self) -> &'static str {
        "lirs"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        let ghost = self.ghosts.forget(view.pool.key(block));
        let back = ghost.is_some_and(|(_, last)| self.is_recent(last));
        grow(&mut self.columns, block, Column::default());
        self.columns[block as usize] =
            Column { class: LONG as u8, last: view.now, queued: self.turns.at(view.now) };
        if back || self.short.len() < self.most_short(view) {
            self.promote(block, view);
        }
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        let Column { class, last, .. } = self.columns[block as usize];
        let short = class == SHORT as u8 || self.is_recent(last);
        self.columns[block as usize].last = view.now;
        if short {
            self.promote(block, view);
        } else {
            self.columns[block as usize].queued = self.turns.at(view.now);
        }
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.columns[block as usize].last = view.now;
        if self.class(block) == SHORT {
            self.promote(block, view);
        }
    }

    fn moved(&mut self, view: View<'_>) -> Option<BlockId> {
        let block = self.short.over(self.most_short(view))?;
        let column = &mut self.columns[block as usize];
        (column.class, column.queued) = (LONG as u8, self.turns.next());
        Some(block)
    }

    fn class(&self, block: BlockId) -> usize {
        self.columns[block as usize].class as usize
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        let Column { class, last, queued } = self.columns[block as usize];
        let since = if class == SHORT as u8 { last } else { queued };
        pack(0, since, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, _: View<'_>) -> usize {
        heads.first_of(&[LONG, SHORT])
    }

    fn removed(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        let last = self.columns[block as usize].last;
        let short = self.short.take(block);
        if cause == RemovalCause::Evicted && (short || self.is_recent(last)) {
            self.ghosts.add(view.pool.key(block), last);
            let blocks = view.pool.usable();
            self.ghosts.trim(blocks as usize, blocks);
        }
    }

    fn on_miss(&mut self, key: Key, _: View<'_>) {
        self.ghosts.call(key);
    }

    fn wants_misses(&self) -> bool {
        true
    }
}
