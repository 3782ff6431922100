//! W-TinyLFU: what comes in passes through a small window, and stays after it only if it was asked for
//! more often than what would be evicted for it (Einziger, Friedman and Manes, ACM TOS 13(4), 2017).
//!
//! The window is an LRU, the main part a segmented LRU with 80 % of it protected, and how often keys
//! were asked for is known from a [`Sketch`].

use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::queue::{Queue, share};
use crate::policy::adapters::rank_order::pack;
use crate::policy::adapters::sketch::Sketch;
use crate::policy::adapters::turns::Turns;
use crate::policy::{
    BlockAccess, Configured, PolicyOption, PolicyOptions, RemovalCause, View, grow,
};
use crate::pool::BlockId;

/// The window has at least one block.
const WINDOW_PERCENT: PolicyOption =
    PolicyOption::percent("window_percent", 1, "Share of the blocks for what just came in.");

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    class: u8,
    /// Its place in its list.
    since: u64,
}

/// The three lists are the blocks' classes.
#[derive(Debug, Clone)]
pub struct WTinyLfu {
    percent: u32,
    columns: Vec<Column>,
    window: Queue,
    probation: usize,
    protected: Queue,
    sketch: Sketch,
    /// Of the window; takes the place in the main part that the block just chosen leaves.
    winner: Option<BlockId>,
    turns: Turns,
}

impl Configured for WTinyLfu {
    const OPTIONS: &'static [PolicyOption] = &[WINDOW_PERCENT];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self {
            percent: options.get(&WINDOW_PERCENT),
            columns: Vec::new(),
            window: Queue::default(),
            probation: 0,
            protected: Queue::default(),
            sketch: Sketch::default(),
            winner: None,
            turns: Turns::default(),
        }
    }
}

impl WTinyLfu {
    fn most_in_window(&self, view: View<'_>) -> usize {
        share(view, self.percent).max(1)
    }

    fn most_in_main(&self, view: View<'_>) -> usize {
        (view.pool.usable() as usize).saturating_sub(self.most_in_window(view))
    }

    fn in_main(&self) -> usize {
        self.probation + self.protected.len()
    }

    fn count(&mut self, block: BlockId, view: View<'_>) {
        self.sketch.reserve(view.pool.usable());
        self.sketch.add(view.pool.key(block));
    }

    fn enter(&mut self, block: BlockId, class: usize, since: u64, view: View<'_>) {
        self.columns[block as usize] = Column { class: class as u8, since };
        let depth = view.pool.depth(block);
        match class {
            WINDOW => self.window.put(block, since, depth),
            PROBATION => self.probation += 1,
            _ => self.protected.put(block, since, depth),
        }
    }

    fn leave(&mut self, block: BlockId) {
        let listed = self.window.take(block) || self.protected.take(block);
        self.probation -= usize::from(!listed);
    }
}

impl Classes for WTinyLfu {
    fn name(&self) -> &'static str {
        "w-tinylfu"
    }

    fn wants_keys(&self) -> bool {
        true
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        self.count(block, view);
        grow(&mut self.columns, block, Column::default());
        let since = self.turns.at(view.now);
        self.enter(block, WINDOW, since, view);
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        self.count(block, view);
        let class = if self.class(block) == WINDOW { WINDOW } else { PROTECTED };
        self.leave(block);
        let since = self.turns.at(view.now);
        self.enter(block, class, since, view);
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.leave(block);
        let since = self.turns.at(view.now);
        self.enter(block, self.class(block), since, view);
    }

    fn moved(&mut self, view: View<'_>) -> Option<BlockId> {
        let most = self.most_in_main(view);
        // The main part has room: nothing has to be asked for often to get it.
        let overflow = if self.in_main() < most { self.most_in_window(view) } else { usize::MAX };
        let winner = self.winner.take().filter(|&block| self.window.take(block));
        let block = winner
            .or_else(|| self.window.over(overflow))
            .or_else(|| self.protected.over(most * 4 / 5))?;
        let since = self.turns.next();
        self.enter(block, PROBATION, since, view);
        Some(block)
    }

    fn class(&self, block: BlockId) -> usize {
        self.columns[block as usize].class as usize
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].since, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, view: View<'_>) -> usize {
        self.winner = None;
        let main = heads.first_of(&[PROBATION, PROTECTED]);
        let (Some((candidate, _)), Some((victim, _))) = (heads.first(WINDOW), heads.first(main))
        else {
            return main;
        };
        if main == WINDOW || self.in_main() > self.most_in_main(view) {
            return main;
        }
        let [new, old] = [candidate, victim].map(|b| self.sketch.count(view.pool.key(b)));
        if new <= old {
            return WINDOW;
        }
        self.winner = Some(candidate);
        main
    }

    fn removed(&mut self, block: BlockId, _: RemovalCause, _: View<'_>) {
        self.leave(block);
    }
}
