//! kvframe's own: keep what is worth most by the time it will take up, as the traffic itself tells.
//!
//! Blocks are told apart by how many turns built the prefix they belong to and how often they were
//! used; that much predicts when they are used again ("`KVCache` in the Wild", USENIX ATC 2025, fits
//! reuse gaps by request type and turn). For each class, the chance of a use at each age is measured
//! by survival analysis, with blocks already evicted still watched, and turned into Gittins' index:
//! the most uses an access of time that waiting can bring (Gittins, J. R. Stat. Soc. B 41, 1979;
//! the density of hits that *LHD*, NSDI 2018, estimates is this index with giving up never in mind).
//! The victim is the block worth least among the least recently used of each class. Before anything
//! is known all are worth nothing, and the order is plain lru.
//!
//! Time counts block accesses. A victim costs O(classes), an access O(log n); what blocks are worth
//! is worked out anew every quarter of the capacity. Memory: 32 bytes a block, 16 bytes for each of
//! the [`WATCHED`] departed blocks per block ([`MOST_WATCHED`] of them, 64 MiB, at the most).

mod departed;
mod gaps;
mod idle;

use super::classed::{Classes, Heads};
use super::ranked::pack;
use super::{Touch, View, Why, grow};
use crate::pool::{BlockId, NIL};
use departed::Departed;
use gaps::Gaps;
use idle::Idle;

/// Prefixes built in 1, 2, 3–4, 5–8, 9–16 and more turns.
const GENERATIONS: usize = 6;
/// Blocks used once, twice, 3–4, 5–8 and more times.
const USES: usize = 5;
const CLASSES: usize = GENERATIONS * USES;

/// Departed blocks that are watched for a return, by the capacity: gaps much longer than the cache
/// lasts must be seen for their tails to be known.
const WATCHED: usize = 16;
const MOST_WATCHED: usize = 1 << 22;

/// Victims between two refreshes: a share of the capacity, but not too few to learn from.
const REFRESH_SHARE: u32 = 4;
const REFRESH_LEAST: u32 = 500;
/// Block accesses that ages are told apart by, at the finest: a share of the capacity.
const EPOCH_SHARE: u32 = 64;
const EPOCH_LEAST: u32 = 16;
/// What is kept of the past at each refresh: half after 64 capacities, 2^(-1/256).
const KEEP: f64 = 0.997_296;

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    /// Ticks when it became findable, and was used last.
    inserted: u64,
    last: u64,
    /// Block accesses when it was used last.
    time: u64,
    /// How many turns built the prefix before it.
    generation: u16,
    uses: u16,
    class: u8,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Foresight {
    columns: Vec<Column>,
    /// Block accesses so far.
    time: u64,
    gaps: Gaps,
    idle: Idle,
    departed: Departed,
    /// Victims until the next refresh.
    due: u32,
    /// Accesses until the next epoch.
    epoch: u32,
}

/// 0, 1, 2, 3–4, 5–8, … as 0, 1, 2, …, `most` − 1.
fn log(n: u16, most: usize) -> usize {
    if n == 0 { 0 } else { (n.ilog2() as usize + 1).min(most - 1) }
}

fn classify(generation: u16, uses: u16) -> u8 {
    (log(generation, GENERATIONS) * USES + log(uses - 1, USES)) as u8
}

impl Foresight {
    /// A wait of a block that was used at `time` is over.
    fn end(&mut self, class: u8, time: u64, used: bool) {
        self.idle.leave(class, time);
        self.gaps.ended(class, self.time - time, used);
    }

    /// The other half of an access, after the wait before it has ended.
    fn begin(&mut self, block: BlockId, mut column: Column, capacity: u32) {
        column.class = classify(column.generation, column.uses);
        column.time = self.time;
        self.idle.join(column.class);
        self.columns[block as usize] = column;
        if self.epoch == 0 {
            self.epoch = (capacity / EPOCH_SHARE).max(EPOCH_LEAST);
            self.idle.turn(self.time);
        }
        self.epoch -= 1;
    }

    fn refresh(&mut self, capacity: u32) {
        self.due = (capacity / REFRESH_SHARE).max(REFRESH_LEAST);
        self.gaps.refresh(&self.idle, self.time, KEEP);
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
            Some(p) if parent != NIL => {
                p.generation.saturating_add((p.inserted != view.now).into())
            }
            _ => 0,
        };
        let mut uses = 1;
        if let Some(gone) = self.departed.take(view.pool.key(block)) {
            self.end(gone.class, gone.time, true);
            uses = gone.uses.saturating_add(1);
        }
        grow(&mut self.columns, block, Column::default());
        let (inserted, last) = (view.now, view.now);
        self.begin(
            block,
            Column { inserted, last, generation, uses, ..Column::default() },
            view.pool.usable(),
        );
    }

    fn hit(&mut self, block: BlockId, _: Touch<'_>, view: View<'_>) {
        self.time += 1;
        let column = self.columns[block as usize];
        self.end(column.class, column.time, true);
        let uses = column.uses.saturating_add(1);
        self.begin(block, Column { uses, last: view.now, ..column }, view.pool.usable());
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
        match self.due {
            0 => self.refresh(view.pool.usable()),
            _ => self.due -= 1,
        }
        let mut least = (f64::INFINITY, u64::MAX, 0);
        for class in 0..heads.classes() {
            if let Some((block, _)) = heads.first(class) {
                let time = self.columns[block as usize].time;
                let worth = self.gaps.worth(class, self.time - time);
                if (worth, time) < (least.0, least.1) {
                    least = (worth, time, class);
                }
            }
        }
        least.2
    }

    fn removed(&mut self, block: BlockId, why: Why, view: View<'_>) {
        let Column { class, uses, time, .. } = self.columns[block as usize];
        if why != Why::Evicted {
            return self.end(class, time, false);
        }
        if !self.departed.is_reserved() {
            let watched = (view.pool.usable() as usize).saturating_mul(WATCHED);
            self.departed.reserve(watched.min(MOST_WATCHED));
        }
        if let Some(gone) = self.departed.add(view.pool.key(block), class, uses, time) {
            self.end(gone.class, gone.time, false);
        }
    }
}
