//! The core's side of a policy that lives outside it: what it may see, what it answered, and the
//! built-in order that decides when it has not.
//!
//! The manager never calls out. When victims are needed it answers `NeedVictims`; the caller takes
//! [`Candidates`], lets the policy judge them without the lock, and hands the choice back with
//! [`External::choose`]. A choice belongs to the operation it was made for.

use std::collections::VecDeque;

use super::offering::{Mark, Offering};
use super::{Candidates, Eviction, Lru, Use, View, Why, grow};
use crate::pool::{BlockId, NIL, Pool, State};
use crate::sequence::Meta;

/// What the core keeps of a findable block for policies to rank by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    /// Tick of the last hit or release.
    pub last_use: u64,
    /// Tick at which it became findable.
    pub inserted: u64,
    /// Uses since then, that one included.
    pub uses: u32,
    /// Tokens of the longest request that used it.
    pub reach: u32,
    /// The request that used it last.
    pub meta: Meta,
}

/// What happened to blocks, for policies that keep books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// Became findable.
    Insert = 0,
    /// Found by an admission.
    Hit = 1,
    /// Got an owner.
    Claim = 2,
    /// The last owner left.
    Release = 3,
    /// Evicted.
    Evicted = 4,
    /// Forgotten for another reason.
    Invalidated = 5,
}

/// Events not delivered yet, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Journal {
    /// What.
    pub kinds: Vec<u8>,
    /// To which block.
    pub blocks: Vec<BlockId>,
    /// When.
    pub ticks: Vec<u64>,
}

impl Journal {
    fn add(&mut self, kind: EventKind, block: BlockId, now: u64) {
        self.kinds.push(kind as u8);
        self.blocks.push(block);
        self.ticks.push(now);
    }
}

/// Books of a policy outside the core.
#[derive(Debug, Default)]
pub struct External {
    order: Lru,
    rows: Vec<Row>,
    picks: VecDeque<BlockId>,
    picked: Vec<bool>,
    valid: usize,
    /// Victims the built-in order may still name for the policy.
    fallback: usize,
    fallbacks: u64,
    journal: Option<Journal>,
    /// What the pending operation is about to claim: not offered.
    spared: Vec<BlockId>,
    /// Scratch of `candidates`.
    marks: Vec<Mark>,
    loose: Vec<u32>,
    offers: u32,
}

impl External {
    /// Books; events are kept only if the policy `wants` them.
    pub fn new(wants: bool) -> Self {
        Self { journal: wants.then(Journal::default), ..Self::default() }
    }

    /// The events since the last call.
    pub fn take_journal(&mut self) -> Journal {
        self.journal.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// How many events are not delivered yet.
    pub fn journal_len(&self) -> usize {
        self.journal.as_ref().map_or(0, |journal| journal.kinds.len())
    }

    /// What is kept of a block.
    pub fn row(&self, block: BlockId) -> Row {
        self.rows.get(block as usize).copied().unwrap_or_default()
    }

    /// Up to `limit` blocks that may die (0: all), each after its children.
    pub fn candidates(&mut self, pool: &Pool, limit: usize, out: &mut Candidates) {
        let limit = if limit == 0 { usize::MAX } else { limit };
        out.clear();
        self.offers = self.offers.checked_add(1).unwrap_or_else(|| {
            self.marks.clear();
            1
        });
        let unseen = Mark::new(self.offers);
        self.marks.resize(pool.created() as usize, Mark::default());
        for &block in &self.spared {
            self.marks[block as usize] = Mark::spared(self.offers);
        }
        let spares = !self.spared.is_empty();
        let (marks, loose) = (&mut self.marks, &mut self.loose);
        let offering = Offering { pool, limit, marks, unseen, spares, out, loose, awaited: NIL };
        match self.order.bands() {
            None => offering.all(self.order.iter()),
            Some(bands) => offering.all(bands.descent(pool)),
        }
        out.describe(pool, &self.rows);
    }

    /// Keeps `blocks` out of the next offer: the pending operation needs them itself.
    pub fn spare(&mut self, blocks: impl Iterator<Item = BlockId>) {
        self.spared.clear();
        self.spared.extend(blocks);
    }

    /// The policy's choice, in the order to die. Stands until [`External::settle`].
    pub fn choose(&mut self, pool: &Pool, blocks: &[BlockId], generations: &[u32]) {
        self.settle();
        for (&block, &generation) in blocks.iter().zip(generations) {
            if pool.generation(block) == generation && pool.state(block) == State::Cached {
                grow(&mut self.picked, block, false);
                self.picked[block as usize] = true;
                self.picks.push_back(block);
                self.valid += 1;
            }
        }
    }

    /// The choice as it stands, in the order to die.
    pub fn chosen(&self) -> Vec<BlockId> {
        self.picks.iter().copied().filter(|&b| self.picked[b as usize]).collect()
    }

    /// Lets the built-in order name up to `n` victims for a policy that could not.
    pub fn fall_back(&mut self, n: usize) {
        self.fallback = n;
    }

    /// Ends a choice: what was not used of it is forgotten.
    pub fn settle(&mut self) {
        for block in self.picks.drain(..) {
            self.picked[block as usize] = false;
        }
        self.valid = 0;
        self.fallback = 0;
        self.spared.clear();
    }

    /// Takes `blocks` out of a choice made before: the pending operation needs them itself.
    pub fn unpick_all(&mut self, blocks: impl Iterator<Item = BlockId>) {
        blocks.for_each(|block| self.unpick(block));
    }

    fn unpick(&mut self, block: BlockId) {
        if let Some(picked) = self.picked.get_mut(block as usize)
            && std::mem::take(picked)
        {
            self.valid -= 1;
        }
    }

    fn record(&mut self, kind: EventKind, block: BlockId, now: u64) {
        if let Some(journal) = &mut self.journal {
            journal.add(kind, block, now);
        }
    }

    fn used(&mut self, block: BlockId, using: Use<'_>, now: u64) -> &mut Row {
        grow(&mut self.rows, block, Row::default());
        let row = &mut self.rows[block as usize];
        row.last_use = now;
        row.uses = row.uses.saturating_add(1);
        row.reach = row.reach.max(using.tokens);
        row.meta = using.meta;
        row
    }
}

impl Eviction for External {
    fn name(&self) -> &'static str {
        "external"
    }

    fn insert(&mut self, blocks: &[BlockId], using: Use<'_>, view: View<'_>) {
        for &block in blocks {
            grow(&mut self.rows, block, Row::default());
            self.rows[block as usize] = Row { inserted: view.now, ..Row::default() };
            self.used(block, using, view.now);
            self.record(EventKind::Insert, block, view.now);
        }
    }

    fn hit(&mut self, blocks: &[BlockId], using: Use<'_>, view: View<'_>) {
        for &block in blocks {
            self.used(block, using, view.now);
            self.record(EventKind::Hit, block, view.now);
        }
    }

    fn claim(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.order.claim(blocks, view);
        for &block in blocks {
            self.unpick(block);
            self.record(EventKind::Claim, block, view.now);
        }
    }

    fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.order.release(blocks, view);
        // A request that grew reached as far through each block before as through its last.
        let mut reach = 0;
        for &block in blocks.iter().rev() {
            let row = &mut self.rows[block as usize];
            row.last_use = view.now;
            reach = row.reach.max(reach);
            row.reach = reach;
            self.record(EventKind::Release, block, view.now);
        }
        // And through those that others still own.
        let mut above = blocks.first().map_or(NIL, |&block| view.pool.parent(block));
        while above != NIL && self.rows[above as usize].reach < reach {
            self.rows[above as usize].reach = reach;
            above = view.pool.parent(above);
        }
    }

    fn expose(&mut self, block: BlockId, view: View<'_>) {
        self.order.expose(block, view);
    }

    fn rebanded(&mut self, block: BlockId, view: View<'_>) {
        self.unpick(block);
        self.order.rebanded(block, view);
    }

    fn remove(&mut self, block: BlockId, why: Why, view: View<'_>) {
        self.unpick(block);
        self.order.remove(block, why, view);
        let kind = match why {
            Why::Evicted => EventKind::Evicted,
            Why::Invalidated => EventKind::Invalidated,
        };
        self.record(kind, block, view.now);
    }

    fn victim(&mut self, view: View<'_>) -> Option<BlockId> {
        while let Some(&block) = self.picks.front() {
            if self.picked[block as usize] && view.pool.is_evictable(block) {
                return Some(block);
            }
            self.unpick(block);
            self.picks.pop_front();
        }
        self.fallback = self.fallback.saturating_sub(1);
        self.fallbacks += 1;
        self.order.victim(view)
    }

    fn next(&self, view: View<'_>) -> Option<BlockId> {
        self.order.next(view)
    }

    fn ready(&self, n: usize) -> bool {
        self.valid + self.fallback >= n
    }

    fn fallbacks(&self) -> u64 {
        self.fallbacks
    }

    fn external(&mut self) -> Option<&mut External> {
        Some(self)
    }

    fn order(&self, view: View<'_>) -> Vec<BlockId> {
        self.order.order(view)
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        self.order.validate(pool)
    }
}
