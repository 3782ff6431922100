//! prototype

use super::classed::{Classes, Heads};
use super::gaps::{Gaps, bucket};
use super::ghosts::Ghosts;
use super::ranked::pack;
use super::{Touch, View, Why, grow};
use crate::hash::Key;
use crate::pool::{BlockId, NIL};

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    class: u16,
    generation: u16,
    uses: u16,
    inserted: u64,
    last: u64,
    time: u64,
    from: u16,
    live: bool,
}

#[derive(Debug, Clone, Copy)]
struct Gone {
    class: u16,
    uses: u16,
    time: u64,
    from: usize,
}

/// x
#[derive(Debug, Clone)]
pub struct Foresight {
    columns: Vec<Column>,
    time: u64,
    gaps: Gaps,
    ghosts: Ghosts<Gone>,
    depths: usize,
    mem: f64,
    ghost: f64,
}

const GENERATIONS: usize = 6;
const USES: usize = 5;

fn env(name: &str, default: f64) -> f64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

impl Default for Foresight {
    fn default() -> Self {
        let depths = env("KV_DEPTHS", 1.0) as usize;
        Self {
            columns: Vec::new(),
            time: 0,
            gaps: Gaps::new(GENERATIONS * USES * depths, env("KV_TRUST", 50.0) as f32),
            ghosts: Ghosts::default(),
            depths,
            mem: env("KV_MEM", 16.0),
            ghost: env("KV_GHOST", 4.0),
        }
    }
}

fn log(n: usize, most: usize) -> usize {
    if n == 0 { 0 } else { (n.ilog2() as usize + 1).min(most - 1) }
}

impl Foresight {
    /// Counts what has been idle since the last time, here and among the ghosts.
    fn look_through(&mut self) {
        let (gaps, now) = (&mut self.gaps, self.time);
        for column in self.columns.iter_mut().filter(|c| c.live) {
            let until = bucket(now - column.time);
            if until > column.from as usize {
                gaps.note(column.class as usize, column.from as usize, until - 1, false);
                column.from = until as u16;
            }
        }
        for gone in self.ghosts.values_mut() {
            let until = bucket(now - gone.time);
            if until > gone.from {
                gaps.note(gone.class as usize, gone.from, until - 1, false);
                gone.from = until;
            }
        }
        gaps.refresh((-0.25 / self.mem).exp2() as f32);
    }

    fn classify(&self, generation: u16, uses: u16, depth: u32) -> u16 {
        let d = if self.depths > 1 { log(depth as usize / 4, self.depths) } else { 0 };
        ((log(generation as usize, GENERATIONS) * USES + log(uses as usize - 1, USES))
            * self.depths
            + d) as u16
    }
}

impl Classes for Foresight {
    fn name(&self) -> &'static str {
        "foresight"
    }

    fn insert(&mut self, block: BlockId, _: Touch<'_>, view: View<'_>) {
        self.time += 1;
        let parent = view.pool.parent(block);
        let generation = match self.columns.get(parent as usize) {
            Some(p) if parent != NIL => p.generation + u16::from(p.inserted != view.now),
            _ => 0,
        };
        let mut uses = 1;
        if let Some(gone) = self.ghosts.forget(view.pool.key(block)) {
            let until = bucket(self.time - gone.time).max(gone.from);
            self.gaps.note(gone.class as usize, gone.from, until, true);
            uses = gone.uses.saturating_add(1);
        }
        grow(&mut self.columns, block, Column::default());
        let class = self.classify(generation, uses, view.pool.depth(block));
        self.columns[block as usize] = Column {
            class,
            generation,
            uses,
            inserted: view.now,
            last: view.now,
            time: self.time,
            from: 0,
            live: true,
        };
    }

    fn hit(&mut self, block: BlockId, _: Touch<'_>, view: View<'_>) {
        self.time += 1;
        let column = &mut self.columns[block as usize];
        let until = bucket(self.time - column.time).max(column.from as usize);
        self.gaps.note(column.class as usize, column.from as usize, until, true);
        column.from = 0;
        column.uses = column.uses.saturating_add(1);
        let (generation, uses) = (column.generation, column.uses);
        let class = self.classify(generation, uses, view.pool.depth(block));
        let column = &mut self.columns[block as usize];
        (column.last, column.time, column.class) = (view.now, self.time, class);
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.columns[block as usize].last = view.now;
    }

    fn class(&self, block: BlockId) -> usize {
        self.columns[block as usize].class as usize
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].last, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, view: View<'_>) -> usize {
        let capacity = f64::from(view.pool.usable());
        if self.gaps.is_due((capacity / 4.0).max(500.0)) {
            self.look_through();
        }
        let mut best = (f32::INFINITY, u64::MAX, 0);
        for class in 0..heads.classes() {
            if let Some((block, _)) = heads.first(class) {
                let time = self.columns[block as usize].time;
                let worth = self.gaps.worth(class, self.time - time);
                if (worth, time) < (best.0, best.1) {
                    best = (worth, time, class);
                }
            }
        }
        best.2
    }

    fn removed(&mut self, block: BlockId, why: Why, view: View<'_>) {
        if why != Why::Evicted {
            self.columns[block as usize].live = false;
            return;
        }
        let Column { class, uses, time, .. } = self.columns[block as usize];
        let from = self.columns[block as usize].from as usize;
        self.columns[block as usize].live = false;
        self.ghosts.add(view.pool.key(block), Gone { class, uses, time, from });
        let most = (self.ghost * f64::from(view.pool.usable())) as usize;
        let (gaps, now) = (&mut self.gaps, self.time);
        self.ghosts.trim_with(most, |gone: Gone| {
            let until = bucket(now - gone.time);
            if until > gone.from {
                gaps.note(gone.class as usize, gone.from, until - 1, false);
            }
        });
    }

    fn missed(&mut self, _: Key, _: View<'_>) {}
}
