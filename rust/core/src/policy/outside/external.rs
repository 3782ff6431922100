//! The core's side of a policy that lives outside it: what it may see, what it answered, and the
//! built-in order that decides when it has not.
//!
//! The manager never calls out. When victims are needed it answers `NeedVictims`; the caller takes
//! [`Candidates`], lets the policy judge them without the lock, and hands the choice back with
//! [`External::choose`]. A choice belongs to the operation it was made for.

use std::ops::Range;

use super::offering::{OfferMark, Offering};
use crate::hash::Key;
use crate::policy::{
    Access, BlockAccess, Candidates, Consulted, Eviction, Lru, NEVER, RemovalCause, View, grow,
};
use crate::pool::{BlockId, NIL, Pool, State};
use crate::sequence::Meta;

/// What the core keeps of a findable block for policies to rank by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRow {
    /// Tick of the last hit or release.
    pub last_use: u64,
    /// Tick at which it became findable.
    pub inserted: u64,
    /// The engine's time of the last hit or release; 0 before the engine has passed a time.
    pub last_use_time: u64,
    /// The clock at the tick at which it became findable.
    pub inserted_time: u64,
    /// Uses since then, that one included.
    pub uses: u32,
    /// Tokens of the longest request that used it.
    pub reach: u32,
    /// When that one expects it to be used next, or [`NEVER`].
    pub next_use: u32,
    /// Other engines that hold it too, as far as this one was told.
    pub copies: u32,
    /// The request that used it last.
    pub meta: Meta,
}

impl Default for BlockRow {
    fn default() -> Self {
        Self {
            last_use: 0,
            inserted: 0,
            last_use_time: 0,
            inserted_time: 0,
            uses: 0,
            reach: 0,
            next_use: NEVER,
            copies: 0,
            meta: Meta::default(),
        }
    }
}

/// What happened to blocks, for policies that keep state of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// Became findable.
    Insert = 0,
    /// Found by an allocation.
    Hit = 1,
    /// Got an owner.
    Claim = 2,
    /// The last owner left.
    Release = 3,
    /// Evicted.
    Evicted = 4,
    /// Forgotten for another reason.
    Invalidated = 5,
    /// Looked for and not found: a block for its key is about to be computed. It has no block yet.
    Missed = 6,
}

impl EventKind {
    /// Whether the journal has the keys that events of this kind are of.
    pub fn has_key(kind: u8) -> bool {
        kind == Self::Insert as u8 || kind == Self::Missed as u8
    }
}

/// What a policy outside the core listens to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Subscriptions {
    /// Events of blocks.
    pub events: bool,
    /// Keys, with what became findable.
    pub keys: bool,
    /// [`EventKind::Missed`], with keys.
    pub misses: bool,
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
    /// Their keys, of what became findable or was missed; empty where they are not wanted.
    pub keys: Vec<Key>,
}

impl Journal {
    /// The places of events of one kind at one tick that followed each other, run after run.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut start = 0;
        std::iter::from_fn(move || {
            let (kinds, ticks) = (&self.kinds[start..], &self.ticks[start..]);
            let first = (kinds.first()?, ticks.first()?);
            let run = start..start + kinds.iter().zip(ticks).take_while(|e| *e == first).count();
            start = run.end;
            Some(run)
        })
    }

    fn add(&mut self, kind: EventKind, block: BlockId, now: u64) {
        self.kinds.push(kind as u8);
        self.blocks.push(block);
        self.ticks.push(now);
    }
}

/// The core's state for a policy outside the core.
#[derive(Debug, Default)]
pub struct External {
    order: Lru,
    rows: Vec<BlockRow>,
    /// The choice, in the order of eviction; those before `next` are used or void.
    picks: Vec<BlockId>,
    next: usize,
    picked: Vec<bool>,
    valid: usize,
    /// Victims the built-in order may still name for the policy.
    fallback: usize,
    fallbacks: u64,
    journal: Option<Journal>,
    heard: Subscriptions,
    /// Keys of the pending operation that were delivered to the policy ahead of it.
    announced: usize,
    /// The time as the engine passed it.
    time: u64,
    /// What the pending operation is about to acquire: not offered.
    spared: Vec<BlockId>,
    /// Scratch of `candidates`.
    marks: Vec<OfferMark>,
    loose: Vec<u32>,
    offers: u32,
}

impl External {
    /// An empty state. Events are kept only if the policy subscribes to any.
    pub fn new(heard: Subscriptions) -> Self {
        let any = heard.events || heard.keys || heard.misses;
        Self { journal: any.then(Journal::default), heard, ..Self::default() }
    }

    /// It is `now`, by the engine's clock.
    pub fn set_time(&mut self, now: u64) {
        self.time = now;
    }

    /// What the engine's clock said last.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Tells a policy that hears what is missed, ahead of its decision, for which keys the pending
    /// operation will compute blocks: it would else hear of them when that has happened.
    pub fn announce(&mut self, keys: impl Iterator<Item = Key>, now: u64) {
        if !self.heard.misses || self.announced > 0 {
            return;
        }
        for key in keys {
            self.record_key(EventKind::Missed, NIL, key, now);
            self.announced += 1;
        }
    }

    /// Whether the policy hears of what is missed.
    pub fn hears_misses(&self) -> bool {
        self.heard.misses
    }

    /// What the pending operation has found, for a policy that hears what is missed; it is not offered.
    pub fn found(&self) -> &[BlockId] {
        if self.heard.misses { &self.spared } else { &[] }
    }

    /// The pending operation is over.
    pub fn end_announced(&mut self) {
        self.announced = 0;
    }

    /// The events since the last call.
    pub fn take_journal(&mut self) -> Journal {
        self.journal.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// How many events are not delivered yet.
    pub fn journal_len(&self) -> usize {
        self.journal.as_ref().map_or(0, |journal| journal.kinds.len())
    }

    /// What another one kept of the blocks is kept here from now on.
    pub fn take_rows(&mut self, other: &mut Self) {
        self.rows = std::mem::take(&mut other.rows);
    }

    /// `row` is what is kept of `block` from now on.
    pub fn set_row(&mut self, block: BlockId, row: BlockRow) {
        grow(&mut self.rows, block, BlockRow::default());
        self.rows[block as usize] = row;
    }

    /// What is kept of a block.
    pub fn row(&self, block: BlockId) -> BlockRow {
        self.rows.get(block as usize).copied().unwrap_or_default()
    }

    /// Up to `limit` blocks that may be evicted (0: all), each after its children.
    pub fn candidates(&mut self, pool: &Pool, limit: usize, out: &mut Candidates) {
        out.clear();
        let room = pool.cached() as usize;
        out.blocks.resize(if limit == 0 { room } else { room.min(limit) }, NIL);
        self.offers = self.offers.checked_add(1).unwrap_or_else(|| {
            self.marks.clear();
            1
        });
        let unseen = OfferMark::new(self.offers);
        self.marks.resize(pool.created() as usize, OfferMark::default());
        for &block in &self.spared {
            self.marks[block as usize] = OfferMark::spared(self.offers);
        }
        let spares = !self.spared.is_empty();
        let (marks, loose) = (&mut self.marks, &mut self.loose);
        let offering = Offering { pool, marks, unseen, spares, out, taken: 0, loose, awaited: NIL };
        match self.order.buckets() {
            None => offering.all(self.order.head(), |block| self.order.after(block)),
            Some(buckets) => {
                let mut order = buckets.descent(pool);
                offering.all(order.next().unwrap_or(NIL), |_| order.next().unwrap_or(NIL));
            }
        }
        out.describe(pool, &self.rows);
    }

    /// Keeps `blocks` out of the next offer: the pending operation needs them itself.
    pub fn spare(&mut self, blocks: impl Iterator<Item = BlockId>) {
        self.spared.clear();
        self.spared.extend(blocks);
    }

    /// The policy's choice, in the order of eviction. Stands until [`External::settle`].
    pub fn choose(&mut self, pool: &Pool, blocks: &[BlockId], generations: &[u32]) {
        self.forget_choice();
        for (&block, &generation) in blocks.iter().zip(generations) {
            if pool.generation(block) == generation && pool.state(block) == State::Cached {
                grow(&mut self.picked, block, false);
                self.picked[block as usize] = true;
                self.picks.push(block);
            }
        }
        self.valid = self.picks.len();
    }

    /// The choice as it stands, in the order of eviction.
    pub fn chosen(&self) -> Vec<BlockId> {
        let left = self.picks[self.next..].iter().copied();
        left.filter(|&b| self.picked[b as usize]).collect()
    }

    /// Lets the built-in order name up to `n` victims for a policy that could not.
    pub fn fall_back(&mut self, n: usize) {
        self.fallback = n;
    }

    /// Ends a choice: what was not used of it is forgotten.
    pub fn settle(&mut self) {
        self.forget_choice();
        self.end_announced();
    }

    fn forget_choice(&mut self) {
        for block in self.picks.drain(..) {
            self.picked[block as usize] = false;
        }
        self.next = 0;
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
            if self.heard.keys || self.heard.misses {
                journal.keys.push(Key(0));
            }
        }
    }

    fn record_key(&mut self, kind: EventKind, block: BlockId, key: Key, now: u64) {
        self.record(kind, block, now);
        if let Some(last) = self.journal.as_mut().and_then(|journal| journal.keys.last_mut()) {
            *last = key;
        }
    }

    /// So many other engines hold `block`, which is findable, too.
    pub fn set_copies(&mut self, block: BlockId, copies: u32) {
        if let Some(row) = self.rows.get_mut(block as usize) {
            row.copies = copies;
        }
    }

    fn used(&mut self, block: BlockId, touch: BlockAccess<'_>, now: u64) {
        grow(&mut self.rows, block, BlockRow::default());
        let row = &mut self.rows[block as usize];
        row.last_use = now;
        row.last_use_time = self.time;
        row.uses = row.uses.saturating_add(1);
        row.reach = row.reach.max(touch.access.tokens);
        row.next_use = touch.next();
        row.meta = touch.access.meta;
    }
}

impl Eviction for External {
    fn name(&self) -> &'static str {
        "external"
    }

    fn insert(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        for (i, &block) in blocks.iter().enumerate() {
            grow(&mut self.rows, block, BlockRow::default());
            let time = self.time;
            self.rows[block as usize] =
                BlockRow { inserted: view.now, inserted_time: time, ..BlockRow::default() };
            self.used(block, BlockAccess { access: &access, i }, view.now);
            self.record_key(EventKind::Insert, block, view.pool.key(block), view.now);
        }
    }

    fn hit(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        for (i, &block) in blocks.iter().enumerate() {
            self.used(block, BlockAccess { access: &access, i }, view.now);
            self.record(EventKind::Hit, block, view.now);
        }
    }

    fn acquire(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.order.acquire(blocks, view);
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
            row.last_use_time = self.time;
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

    fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        self.order.on_evictable(block, view);
    }

    fn keeps_places(&self) -> bool {
        false
    }

    fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        self.unpick(block);
        self.order.priority_changed(block, view);
    }

    fn remove(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        self.unpick(block);
        self.order.remove(block, cause, view);
        let kind = match cause {
            RemovalCause::Evicted => EventKind::Evicted,
            RemovalCause::Invalidated => EventKind::Invalidated,
        };
        self.record(kind, block, view.now);
    }

    fn victim(&mut self, view: View<'_>) -> Option<BlockId> {
        while let Some(&block) = self.picks.get(self.next) {
            if self.picked[block as usize] && view.pool.is_evictable(block) {
                return Some(block);
            }
            self.unpick(block);
            self.next += 1;
        }
        self.fallback = self.fallback.saturating_sub(1);
        self.fallbacks += 1;
        self.order.victim(view)
    }

    fn on_miss(&mut self, key: Key, view: View<'_>) {
        if self.announced > 0 {
            self.announced -= 1;
        } else if self.heard.misses {
            self.record_key(EventKind::Missed, NIL, key, view.now);
        }
    }

    fn wants_misses(&self) -> bool {
        self.heard.misses
    }

    fn wants_keys(&self) -> bool {
        self.heard.keys || self.wants_misses()
    }

    fn next(&self, view: View<'_>) -> Option<BlockId> {
        self.order.next(view)
    }

    fn order(&self, view: View<'_>, most: usize) -> Vec<BlockId> {
        self.order.order(view, most)
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        self.order.validate(pool)
    }
}

impl Consulted for External {
    fn ready(&self, n: usize) -> bool {
        self.valid + self.fallback >= n
    }

    fn fallbacks(&self) -> u64 {
        self.fallbacks
    }

    fn external(&mut self) -> Option<&mut External> {
        Some(self)
    }
}
