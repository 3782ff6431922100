//! Segmented LRU as in the literature: two lists, the second one bounded (Karedla, Love and Wherry,
//! IEEE Computer 27(3), 1994).
//!
//! `SGLang`'s rule of that name, without a bound and so without a way back, is [`crate::policy::Slru`].

use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::queue::{Queue, share};
use crate::policy::adapters::rank_order::pack;
use crate::policy::adapters::turns::Turns;
use crate::policy::{
    BlockAccess, Configured, PolicyOption, PolicyOptions, RemovalCause, View, grow,
};
use crate::pool::BlockId;

const PROTECTED_PERCENT: PolicyOption =
    PolicyOption::percent("protected_percent", 80, "Share of the blocks that may be protected.");

const PROBATION: usize = 0;
const PROTECTED: usize = 1;

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    class: u8,
    /// Its place in its list.
    since: u64,
}

/// The two lists are the blocks' classes.
#[derive(Debug, Clone)]
pub struct SlruLists {
    percent: u32,
    columns: Vec<Column>,
    protected: Queue,
    turns: Turns,
}

impl Configured for SlruLists {
    const OPTIONS: &'static [PolicyOption] = &[PROTECTED_PERCENT];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self {
            percent: options.get(&PROTECTED_PERCENT),
            columns: Vec::new(),
            protected: Queue::default(),
            turns: Turns::default(),
        }
    }
}

impl Classes for SlruLists {
    fn name(&self) -> &'static str {
        "slru-lists"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        grow(&mut self.columns, block, Column::default());
        self.columns[block as usize] =
            Column { class: PROBATION as u8, since: self.turns.at(view.now) };
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        self.columns[block as usize].class = PROTECTED as u8;
        self.release(block, view);
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        let since = self.turns.at(view.now);
        self.columns[block as usize].since = since;
        if self.class(block) == PROTECTED {
            self.protected.put(block, since, view.pool.depth(block));
        }
    }

    fn moved(&mut self, view: View<'_>) -> Option<BlockId> {
        let block = self.protected.over(share(view, self.percent))?;
        self.columns[block as usize] = Column { class: PROBATION as u8, since: self.turns.next() };
        Some(block)
    }

    fn class(&self, block: BlockId) -> usize {
        self.columns[block as usize].class as usize
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].since, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, _: View<'_>) -> usize {
        heads.first_of(&[PROBATION, PROTECTED])
    }

    fn removed(&mut self, block: BlockId, _: RemovalCause, _: View<'_>) {
        self.protected.take(block);
    }
}
