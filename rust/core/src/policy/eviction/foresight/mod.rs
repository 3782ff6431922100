//! kvframe's own: keeps the blocks with the most expected hits per unit of residency, as measured
//! on the traffic itself.
//!
//! Blocks are told apart by how often they were used, how many turns built the prefix they belong
//! to and how far down it they stand; that much predicts when they are used again ("`KVCache` in
//! the Wild", USENIX ATC 2025, fits reuse gaps by request type and turn). For each class, the
//! chance of a use at each age is measured by survival analysis, with blocks already evicted still
//! watched, and turned into Gittins' index: the highest expected hits per access over any stopping
//! time (Gittins, J. R. Stat. Soc. B 41, 1979; the hit density of *LHD*, NSDI 2018, is the case
//! that never stops early). The victim is the block worth least among the least recently used of
//! each class. Before anything is known all are worth nothing, and the order is plain lru.
//!
//! What lru would have hit is counted beside (see `rival`). The further it is ahead, the surer a
//! choice other than its own must be, until only its own is left.
//!
//! Time counts block accesses. A victim costs O(classes), an access O(log n); what blocks are worth
//! is worked out anew every quarter of the capacity. Memory: 32 bytes a block, 16 bytes for each of
//! the [`Tuning::watched`] departed blocks per block ([`MOST_WATCHED`] of them, 64 MiB, at the most).

mod departed;
mod gaps;
mod idle;
mod rival;

use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::rank_order::pack;
use crate::policy::{BlockAccess, RemovalCause, View, grow};
use crate::pool::{BlockId, NIL};
use departed::Departures;
use gaps::Gaps;
use idle::Idle;
use rival::Rival;

/// Blocks used once, twice, 3–4, 5–8 and more times: what says most.
const USES: usize = 5;
/// Prefixes built in one, two and more turns.
const GENERATIONS: usize = 3;
/// Blocks behind less than 1,024, 4,096 and 16,384 tokens, and behind more.
const DEPTHS: usize = 4;
/// Those used as often stand side by side.
const FAMILY: usize = GENERATIONS * DEPTHS;
const CLASSES: usize = USES * FAMILY;

/// Departed blocks that are remembered at the most, 16 bytes each.
const MOST_WATCHED: usize = 1 << 22;
/// Victims between two refreshes at the least: too few teach nothing.
const REFRESH_LEAST: u32 = 500;
/// Block accesses that ages are told apart by at the least.
const EPOCH_LEAST: u32 = 16;

/// What was chosen by measurement. Configuration has none of it; experiments may change it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// Classes by uses, at most 5, by turns, at most 3, and by depth, at most 4; 1 tells none apart.
    pub uses: usize,
    /// See `uses`.
    pub generations: usize,
    /// See `uses`.
    pub depths: usize,
    /// Departed blocks that are watched for a return, by the capacity: gaps much longer than the
    /// cache lasts must be seen for their tails to be known.
    pub watched: usize,
    /// How many idle blocks at an age it takes to believe their rate of reuse as much as what is
    /// known without them: of those used as often, of all classes, and before that of all ages.
    pub trust: f64,
    /// What is kept of the past at each refresh.
    pub keep: f64,
    /// Victims between two refreshes: this part of the capacity.
    pub refresh: u32,
    /// Block accesses that ages are told apart by, at the finest: this part of the capacity.
    pub epoch: u32,
    /// Hits by accesses that lru may get ahead.
    pub budget: f64,
    /// Accesses granted to the budget from the start, by the capacity.
    pub grace: f64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            uses: USES,
            generations: GENERATIONS,
            depths: DEPTHS,
            watched: 16,
            trust: 50.0,
            // Half after 64 capacities: 2^(-1/256).
            keep: 0.997_296,
            refresh: 4,
            epoch: 64,
            budget: 0.004,
            grace: 2.0,
        }
    }
}

/// The class that gave the last victim, and for how long it need not be compared again.
#[derive(Debug, Clone, Copy, Default)]
struct Streak {
    /// The operation.
    now: u64,
    /// Its retention priority.
    bucket: u8,
    class: usize,
    /// What its next head has to be worth less than: no head of another class can come before it then.
    limit: f64,
}

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
    tuning: Tuning,
    columns: Vec<Column>,
    /// Tokens a block.
    block_size: u32,
    /// Block accesses so far.
    time: u64,
    gaps: Gaps,
    idle: Idle,
    departed: Departures,
    /// Victims until the next refresh.
    due: u32,
    /// Accesses until the next epoch.
    epoch: u32,
    streak: Streak,
    rival: Rival,
}

/// 0, 1, 2, 3–4, 5–8, … as 0, 1, 2, …, `most` − 1.
fn log(n: u16, most: usize) -> usize {
    if n == 0 { 0 } else { (n.ilog2() as usize + 1).min(most - 1) }
}

/// Below 1,024, 4,096, 16,384 tokens and more as 0, 1, 2, 3, up to `most` − 1.
fn log4(tokens: u64, most: usize) -> usize {
    (tokens >> 10).checked_ilog2().map_or(0, |octave| (octave as usize / 2 + 1).min(most - 1))
}

impl Foresight {
    /// The policy with constants of one's own.
    pub fn new(tuning: Tuning) -> Self {
        Self { tuning, ..Self::default() }
    }

    /// A wait of a block that was used at `time` is over.
    fn end(&mut self, class: u8, time: u64, used: bool) {
        self.idle.leave(class, time);
        self.gaps.ended(class, self.time - time, used);
    }

    /// The other half of an access, after the wait before it has ended.
    fn begin(&mut self, block: BlockId, mut column: Column, view: View<'_>) {
        let Tuning { uses, generations, depths, epoch, .. } = self.tuning;
        let before = u64::from(view.pool.depth(block)) * u64::from(self.block_size);
        let by_uses = log(column.uses - 1, uses.min(USES));
        let by_turns = log(column.generation, generations.min(GENERATIONS));
        let by_depth = log4(before, depths.min(DEPTHS));
        column.class = (by_uses * FAMILY + by_turns * DEPTHS + by_depth) as u8;
        column.time = self.time;
        let capacity = view.pool.usable();
        self.idle.join(column.class);
        self.columns[block as usize] = column;
        if self.epoch == 0 {
            self.epoch = (capacity / epoch).max(EPOCH_LEAST);
            if self.idle.turn(self.time) {
                self.rival.recount(capacity, &self.idle);
            }
        }
        self.epoch -= 1;
    }

    /// A block is used that was used at `last` before; `hit`: it was still there.
    fn compare(&mut self, last: Option<u64>, hit: bool, view: View<'_>) {
        let capacity = view.pool.usable();
        self.rival.access(last, hit, capacity, &self.idle, self.tuning);
    }

    fn worth(&self, class: usize, block: BlockId) -> f64 {
        self.gaps.worth(class, self.time - self.columns[block as usize].time)
    }

    fn refresh(&mut self, capacity: u32) {
        self.due = (capacity / self.tuning.refresh).max(REFRESH_LEAST);
        self.gaps.refresh(&self.idle, self.time, self.tuning);
        self.rival.fade(self.tuning.keep);
        // What it was compared with is worth something else now.
        self.streak.limit = 0.0;
    }
}

impl Classes for Foresight {
    fn name(&self) -> &'static str {
        "foresight"
    }

    fn wants_keys(&self) -> bool {
        true
    }

    fn size(&mut self, _blocks: u32, block_size: u32) {
        self.block_size = block_size;
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        self.time += 1;
        let parent = view.pool.parent(block);
        let generation = match self.columns.get(parent as usize) {
            Some(p) if parent != NIL => {
                p.generation.saturating_add((p.inserted != view.now).into())
            }
            _ => 0,
        };
        let mut uses = 1;
        let mut before = None;
        if let Some(gone) = self.departed.take(view.pool.key(block)) {
            self.end(gone.class, gone.time, true);
            uses = gone.uses.saturating_add(1);
            before = Some(gone.time);
        }
        self.compare(before, false, view);
        grow(&mut self.columns, block, Column::default());
        let (inserted, last) = (view.now, view.now);
        let column = Column { inserted, last, generation, uses, ..Column::default() };
        self.begin(block, column, view);
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        self.time += 1;
        let column = self.columns[block as usize];
        self.end(column.class, column.time, true);
        self.compare(Some(column.time), true, view);
        let uses = column.uses.saturating_add(1);
        self.begin(block, Column { uses, last: view.now, ..column }, view);
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.columns[block as usize].last = view.now;
    }

    fn on_evictable(&mut self, block: BlockId, _: View<'_>) {
        let class = self.class(block);
        if class != self.streak.class {
            let limit = self.rival.doubt() * self.worth(class, block);
            self.streak.limit = self.streak.limit.min(limit);
        }
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
        let Streak { now, bucket, class, limit } = self.streak;
        if (now, bucket) == (view.now, heads.bucket())
            && heads.first(class).is_some_and(|(b, _)| self.worth(class, b) < limit)
        {
            return class;
        }
        let (mut least, mut next) = ((f64::INFINITY, u128::MAX, 0), f64::INFINITY);
        let mut oldest = (u128::MAX, 0, f64::INFINITY);
        for class in 0..heads.classes() {
            if let Some((block, rank)) = heads.first(class) {
                let worth = self.worth(class, block);
                if (worth, rank) < (least.0, least.1) {
                    next = least.0;
                    least = (worth, rank, class);
                } else {
                    next = next.min(worth);
                }
                if rank < oldest.0 {
                    oldest = (rank, class, worth);
                }
            }
        }
        let class = if least.0 < self.rival.doubt() * oldest.2 { least.2 } else { oldest.1 };
        // Of another class than that of least worth, the next head may be worth anything.
        let limit = if class == least.2 { self.rival.doubt() * next } else { 0.0 };
        self.streak = Streak { now: view.now, bucket: heads.bucket(), class, limit };
        class
    }

    fn removed(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        let Column { class, uses, time, .. } = self.columns[block as usize];
        if cause != RemovalCause::Evicted {
            self.rival.lost(time);
            return self.end(class, time, false);
        }
        if !self.departed.is_reserved() {
            let watched = (view.pool.usable() as usize).saturating_mul(self.tuning.watched);
            self.departed.reserve(watched.min(MOST_WATCHED));
        }
        if let Some(gone) = self.departed.add(view.pool.key(block), class, uses, time) {
            self.end(gone.class, gone.time, false);
            self.rival.lost(gone.time);
        }
    }
}
