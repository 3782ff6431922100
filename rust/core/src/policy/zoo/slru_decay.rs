//! `SGLang`'s `slru` with what its #24075 proposes: a burst of uses counts once, and protection ends
//! when a block lies idle for long.

use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::rank_order::pack;
use crate::policy::{
    BlockAccess, Configured, PROTECTED_USES, PolicyOption, PolicyOptions, View, grow,
};
use crate::pool::BlockId;

const DEBOUNCE: PolicyOption = PolicyOption::number(
    "debounce_ticks",
    4,
    "Ticks after a counted use during which further ones do not.",
);
const DECAY: PolicyOption = PolicyOption::positive(
    "decay_ticks",
    600,
    "Ticks without a use after which a block is no longer protected.",
);

const PROBATION: usize = 0;
const PROTECTED: usize = 1;

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    /// Uses that count, as many as it takes to be protected at the most.
    uses: u32,
    /// When one counted last.
    counted: u64,
    last: u64,
}

/// Whether a block's uses protect it is its class; whether that still holds shows when one must be evicted.
#[derive(Debug, Clone)]
pub struct SlruDecay {
    protected_uses: u32,
    debounce: u32,
    decay: u32,
    columns: Vec<Column>,
}

impl Configured for SlruDecay {
    const OPTIONS: &'static [PolicyOption] = &[PROTECTED_USES, DEBOUNCE, DECAY];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self {
            protected_uses: options.get(&PROTECTED_USES),
            debounce: options.get(&DEBOUNCE),
            decay: options.get(&DECAY),
            columns: Vec::new(),
        }
    }
}

impl Classes for SlruDecay {
    fn name(&self) -> &'static str {
        "slru-decay"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        grow(&mut self.columns, block, Column::default());
        self.columns[block as usize] = Column { uses: 1, counted: view.now, last: view.now };
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        let Column { uses, counted, last } = &mut self.columns[block as usize];
        *last = view.now;
        if view.now - *counted >= u64::from(self.debounce) {
            (*uses, *counted) = ((*uses + 1).min(self.protected_uses), view.now);
        }
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.columns[block as usize].last = view.now;
    }

    fn class(&self, block: BlockId) -> usize {
        usize::from(self.columns[block as usize].uses >= self.protected_uses)
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].last, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, view: View<'_>) -> usize {
        let Some((block, rank)) = heads.first(PROTECTED) else { return PROBATION };
        let idle = view.now - self.columns[block as usize].last;
        let held = idle < u64::from(self.decay);
        match heads.first(PROBATION) {
            Some((other, least)) if held || (least, other) < (rank, block) => PROBATION,
            _ => PROTECTED,
        }
    }
}
