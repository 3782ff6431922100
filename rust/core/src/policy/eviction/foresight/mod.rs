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
//! choice other than its own must be, until only its own is left. The same holds at first, until as
//! many blocks have been evicted as there are: before that, no gap longer than the cache lasts has
//! been seen, and what is learned of old blocks is a guess.
//!
//! Time counts block accesses; those of one operation are one moment. A block is in a list, so that an
//! access and a victim are O(1): the firsts of all lists are compared when an operation wants its
//! first victim, and when the list that gave it has become worth more than another; the rest of a
//! prefix that was used at one time goes without a comparison. What blocks are worth is worked out anew bit
//! by bit, a fifth of the classes at a time, and once it is asked for. Memory: 16 bytes a block, as many
//! again where parents are inferred (see `chains`), 8 for each of the [`Tuning::watched`] departed blocks
//! per block ([`MOST_WATCHED`] of them, 32 MiB, at the most), and 500 kB.

mod chains;
mod column;
mod departed;
mod firsts;
mod gaps;
mod idle;
mod lists;
mod rival;
mod tuning;

use std::hint::black_box;

use crate::policy::{Access, Consulted, Eviction, RemovalCause, View};
use crate::pool::{BlockId, NIL, Pool};
use chains::Chains;
use column::{History, LATEST, MOST_USES};
use departed::{Departure, Departures};
use firsts::Firsts;
use gaps::Gaps;
use idle::Idle;
use lists::Lists;
use rival::Rival;
pub use tuning::Tuning;

/// Blocks used once, twice, 3–4, 5–8 and more times: what says most.
const USES: usize = 5;
/// Prefixes built in one, two and more turns.
const GENERATIONS: usize = 3;
/// Blocks behind less than 1,024, 4,096 and 16,384 tokens, and behind more.
const DEPTHS: usize = 4;
/// Those used as often stand side by side.
const FAMILY: usize = GENERATIONS * DEPTHS;
const CLASSES: usize = USES * FAMILY;
/// Room for so many, a power of two.
const ROOM: usize = CLASSES.next_power_of_two();

/// Departed blocks that are remembered at the most, 8 bytes each.
const MOST_WATCHED: usize = 1 << 22;
/// Block accesses that ages are told apart by at the least.
const EPOCH_LEAST: u32 = 16;
/// What the firsts of the lists are worth is looked up so often while as many blocks are used as there are.
const LOOKS: u32 = 16;

/// Blocks that waited alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    class: u8,
    time: u64,
}

/// Blocks that become findable and are told apart by their place alone: what they were if they are used again,
/// where the next class by depth begins, and what they are now.
struct Run {
    history: Option<History>,
    until: u32,
    word: History,
}

/// Whether it was looked up what is remembered of a block, and what that is.
#[derive(Debug, Clone, Copy, Default)]
enum Lookup {
    #[default]
    Open,
    Done(Option<History>),
}

/// Departed blocks of one history that are used again, and how many of their waits are counted.
#[derive(Debug, Clone, Copy, Default)]
struct Back {
    history: Option<History>,
    n: u32,
    counted: u32,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Foresight {
    tuning: Tuning,
    lists: Lists,
    chains: Chains,
    /// Tokens a block.
    block_size: u32,
    /// The last operation, and block accesses before it.
    tick: u64,
    time: u64,
    /// Waits of one block in so many are counted; 0 before the first operation.
    share: u32,
    /// Block accesses so far.
    accesses: u64,
    gaps: Gaps,
    idle: Idle,
    departed: Departures,
    /// Victims so far, and until the next refresh; the family that it is for.
    victims: u64,
    due: u32,
    family: usize,
    /// A block that was not known when it was inserted, and the operation: what follows it is not, either.
    unknown: (u64, BlockId),
    /// The block that was used last.
    last: Option<BlockId>,
    firsts: Firsts,
    /// The class of the last victim, if what is worth as much there goes before anything else in this operation.
    lead: Option<usize>,
    /// When what they are worth was looked up.
    looked: u64,
    rival: Rival,
    /// Of the rival, at the operation.
    doubt: f64,
}

/// 0, 1, 2, 3–4, 5–8, … as 0, 1, 2, …, `most` − 1.
fn log(n: u8, most: usize) -> usize {
    if n == 0 { 0 } else { (n.ilog2() as usize + 1).min(most - 1) }
}

/// The first block behind 1,024, behind 4,096 and behind 16,384 tokens of blocks with so many; [`NIL`] for
/// each that the first `most` classes by depth do not need.
fn depths(block_size: u32, most: usize) -> [u32; DEPTHS - 1] {
    std::array::from_fn(|class| match block_size {
        1.. if class + 1 < most => (1024_u32 << (2 * class)).div_ceil(block_size),
        _ => NIL,
    })
}

impl History {
    fn wait(self) -> Wait {
        Wait { class: self.class(), time: self.time() }
    }
}

impl Consulted for Foresight {}

/// Whether `block` stands just behind `before` in a prompt, as far as places are told.
fn is_next(before: BlockId, block: BlockId, pool: &Pool) -> bool {
    pool.depth(block) > 0 && pool.depth(block) == pool.depth(before) + 1
}

/// What `block` follows, where it is not told: the block that was used `last`, if it stands just before it
/// in the prompt.
fn infer_parent(last: Option<BlockId>, block: BlockId, pool: &Pool) -> BlockId {
    last.filter(|&last| pool.is_findable(last) && is_next(last, block, pool)).unwrap_or(NIL)
}

impl Foresight {
    /// The policy with constants of one's own.
    pub fn new(tuning: Tuning) -> Self {
        Self { tuning, ..Self::default() }
    }

    /// An operation: its accesses have one time.
    #[inline]
    fn begin(&mut self, view: View<'_>) {
        if self.tick != view.now {
            self.begin_at(view);
        }
    }

    fn begin_at(&mut self, view: View<'_>) {
        self.tick = view.now;
        self.lead = None;
        self.time = self.accesses.min(LATEST);
        let capacity = view.pool.usable();
        if self.share == 0 {
            let share = self.tuning.share.next_power_of_two();
            self.share = if capacity < self.tuning.few { 1 } else { share };
        }
        let epoch = (capacity / self.tuning.epoch).max(EPOCH_LEAST);
        if self.time - self.idle.start() >= u64::from(epoch) && self.idle.turn(self.time) {
            self.rival.recount(capacity / self.share, &self.idle);
        }
        if self.time - self.looked > u64::from(capacity / LOOKS) {
            self.looked = self.time;
            self.firsts.forget();
        }
        self.rival.advance(capacity / self.share, &self.idle);
        let evicted = self.victims as f64 / (self.tuning.ramp * f64::from(capacity));
        self.doubt = self.rival.doubt(capacity, self.tuning) * evicted.min(1.0);
    }

    /// The wait of `n` blocks is over.
    fn end(&mut self, wait: Wait, used: bool, n: u32) {
        self.idle.leave(wait.class, wait.time, n);
        self.gaps.ended(wait.class, self.time - wait.time, used, n);
    }

    /// Departed blocks are used again.
    fn come_back(&mut self, back: Back) {
        let Some(history) = back.history else { return };
        if back.counted > 0 {
            self.end(history.wait(), true, back.counted);
        }
        self.rival.access(Some(history.time()), false, back.n, back.counted);
    }

    /// `n` blocks that were there are used; of them, `counted` are.
    fn hits(&mut self, wait: Wait, n: u32, counted: u32) {
        if counted > 0 {
            self.end(wait, true, counted);
        }
        if n > 0 {
            self.rival.access(Some(wait.time), true, n, counted);
        }
    }

    #[inline]
    fn is_counted(&self, tag: u16) -> bool {
        u32::from(tag) & (self.share - 1) == 0
    }

    /// What departed, and is counted, is watched no longer.
    #[inline(never)]
    fn lose(&mut self, history: History) {
        self.end(history.wait(), false, 1);
        self.rival.lost(history.time());
    }

    /// `block` leaves where parents are inferred, or is not to be found any more; what is to be remembered of it.
    #[inline(never)]
    fn remove_amid(&mut self, block: BlockId, cause: RemovalCause, pool: &Pool) -> Option<History> {
        let known = self.lists.evict(block, |_| false);
        if self.chains.are_known() {
            self.let_parent_go(block, pool);
            self.chains.forget(block);
        }
        if cause == RemovalCause::Evicted {
            return Some(known.history());
        }
        if known.is_counted() {
            self.lose(known.history());
        }
        None
    }

    #[cold]
    fn reserve(&mut self, capacity: u32) {
        let watched = (capacity as usize).saturating_mul(self.tuning.watched);
        self.departed.reserve(watched.min(MOST_WATCHED));
    }

    /// `block` leaves the lists: what it follows there may be next.
    fn let_parent_go(&mut self, block: BlockId, pool: &Pool) {
        if let Some(parent) = self.chains.let_go(block) {
            self.lists.bare(parent, pool);
        }
    }

    /// Notes those at the front of `blocks` that follow one another and make up `run`, as the first does: how
    /// many they are, and of how many the waits are counted. What is remembered of the one behind
    /// them is in `known`, if it was looked up.
    #[inline]
    fn enter(
        &mut self,
        blocks: &[BlockId],
        run: &Run,
        known: &mut Lookup,
        pool: &Pool,
    ) -> (usize, u32) {
        let (mut n, mut counted, mut before) = (0, 0, NIL);
        for &block in blocks {
            let mixed = pool.key(block).mixed();
            if n > 0 {
                if pool.parent(block) != before || pool.depth(block) >= run.until {
                    break;
                }
                // What follows a block that is not known is not, either.
                if run.history.is_some() {
                    let history = self.departed.take(mixed).map(Departure::history);
                    if history != run.history {
                        *known = Lookup::Done(history);
                        break;
                    }
                }
            }
            let counts = self.is_counted(mixed as u16);
            self.lists.enter(block, run.word, counts);
            counted += u32::from(counts);
            (n, before) = (n + 1, block);
        }
        (n, counted)
    }

    /// An allocation found `blocks`, which the lists note by `found`, those of one history at a time.
    #[inline]
    fn find(
        &mut self,
        blocks: &[BlockId],
        view: View<'_>,
        found: impl Fn(&mut Lists, &[BlockId], History, History) -> (usize, u32),
    ) {
        self.begin(view);
        let (mut wait, mut n, mut counted) = (Wait { class: 0, time: 0 }, 0, 0);
        let mut rest = blocks;
        while let Some(&block) = rest.first() {
            let history = self.lists.column(block).history();
            let own = history.wait();
            if own != wait {
                self.hits(wait, n, counted);
                (wait, n, counted) = (own, 0, 0);
            }
            let uses = (history.uses() + 1).min(MOST_USES);
            let class = self.by_uses(uses) + own.class % FAMILY as u8;
            let next = History::new(class, uses, self.time);
            let (of_it, joining) = found(&mut self.lists, rest, history, next);
            self.idle.join(class, joining);
            n += of_it as u32;
            counted += joining;
            rest = &rest[of_it..];
        }
        self.hits(wait, n, counted);
        self.last = blocks.last().copied().or(self.last);
        self.accesses += blocks.len() as u64;
    }

    fn by_uses(&self, uses: u8) -> u8 {
        (log(uses - 1, self.tuning.uses.min(USES)) * FAMILY) as u8
    }

    /// Turns that built the prefix before a block with this parent, as far as they are told apart.
    fn turns(&self, parent: BlockId) -> usize {
        if parent == NIL {
            return 0;
        }
        let parent = self.lists.column(parent);
        let built = parent.history().class() as usize % FAMILY / DEPTHS;
        let turns = built + usize::from(parent.is_found());
        turns.min(self.tuning.generations.min(GENERATIONS) - 1)
    }

    /// A victim is wanted: learns a little, if it is time.
    #[inline]
    fn learn(&mut self, capacity: u32) {
        self.victims += 1;
        if self.victims == 1 {
            self.due = capacity / self.tuning.start;
        }
        match self.due.checked_sub(1) {
            Some(left) => self.due = left,
            None => self.refresh(capacity),
        }
    }

    #[inline(never)]
    fn refresh(&mut self, capacity: u32) {
        let apart = (capacity / self.tuning.refresh / USES as u32).max(self.tuning.least);
        // While it begins there is most to learn, and little to go through: all families at once.
        let so_far = self.victims / self.tuning.first;
        let begins = so_far < u64::from(apart) * USES as u64;
        self.due = if begins { so_far as u32 } else { apart };
        for _ in 0..if begins { USES } else { 1 } {
            self.gaps.refresh(self.family, &self.idle, self.time, self.tuning);
            self.family = (self.family + 1) % USES;
        }
        if self.family == 0 {
            self.rival.fade(self.tuning.keep);
        }
        self.firsts.forget();
    }

    #[inline(never)]
    fn victim_anew(&mut self, view: View<'_>) -> Option<BlockId> {
        self.begin(view);
        self.learn(view.pool.usable());
        self.lead = None;
        (0..self.lists.bands()).find_map(|band| self.choose(band, view))
    }

    /// The block of least worth among the firsts of a band, or the one idle longest.
    fn choose(&mut self, band: usize, view: View<'_>) -> Option<BlockId> {
        let (mut changed, alike) = self.lists.take_changed(band);
        changed |= self.firsts.older(alike, view.now);
        if self.firsts.turn_to(self.lists.priority(band)?) {
            changed = self.lists.filled(band);
        }
        while changed > 0 {
            let class = changed.trailing_zeros() as usize;
            changed &= changed - 1;
            let first = self.lists.first(band, class, &self.chains, view.pool).map(|block| {
                let time = self.lists.column(block).history().time();
                (time, self.gaps.worth(class, self.time - time))
            });
            self.firsts.set(class, first);
        }
        let class = self.firsts.choose(self.doubt, self.lists.filled(band))?;
        self.lead = (band == 0 && self.firsts.is_fresh(class)).then_some(class);
        self.lists.front(band, class)
    }
}

impl Eviction for Foresight {
    fn name(&self) -> &'static str {
        "foresight"
    }

    fn wants_keys(&self) -> bool {
        true
    }

    fn infer_parents(&mut self) {
        self.chains.is_on = true;
    }

    fn size(&mut self, _: u32, block_size: u32) -> Result<(), String> {
        self.block_size = block_size;
        Ok(())
    }

    fn insert(&mut self, blocks: &[BlockId], _: Access<'_>, view: View<'_>) {
        self.begin(view);
        self.lists.grow(view.pool.created());
        let depths = depths(self.block_size, self.tuning.depths);
        let (mut new, mut counted_new) = (0, 0);
        let mut unknown = if self.unknown.0 == view.now { self.unknown.1 } else { NIL };
        // The block before it, and the turns that built its prefix.
        let (mut before, mut turns) = (NIL, 0);
        // Those that come back, of one history.
        let mut back = Back::default();
        let mut rest = blocks;
        // What is remembered of the first of the rest, if it was looked up.
        let mut known = Lookup::Open;
        while let Some(&block) = rest.first() {
            let told = view.pool.parent(block);
            let parent = if told == NIL && self.chains.is_on {
                let last = if before == NIL { self.last } else { Some(before) };
                infer_parent(last, block, view.pool)
            } else {
                told
            };
            // One that has just been inserted was not found since.
            if parent == NIL || parent != before {
                turns = self.turns(parent);
            }
            // A block leaves before its parent does, and is forgotten before it.
            let follows = told == unknown && told != NIL;
            let history = match std::mem::take(&mut known) {
                Lookup::Done(history) => history,
                Lookup::Open if follows => None,
                Lookup::Open => {
                    self.departed.take(view.pool.key(block).mixed()).map(Departure::history)
                }
            };
            let uses = history.map_or(1, |history| (history.uses() + 1).min(MOST_USES));
            let depth = view.pool.depth(block);
            let deeper = depths.iter().filter(|&&from| depth >= from).count();
            let until = depths.get(deeper).copied().unwrap_or(NIL);
            let class = self.by_uses(uses) + (turns * DEPTHS + deeper) as u8;
            let run = Run { history, until, word: History::new(class, uses, self.time) };
            let (n, counted) = self.enter(rest, &run, &mut known, view.pool);
            self.idle.join(class, counted);
            if let Some(history) = history {
                if back.history != Some(history) {
                    self.come_back(back);
                    back = Back { history: Some(history), n: 0, counted: 0 };
                }
                back.n += n as u32;
                back.counted += counted;
            } else {
                unknown = rest[n - 1];
                new += n as u32;
                counted_new += counted;
            }
            before = rest[n - 1];
            rest = &rest[n..];
        }
        self.come_back(back);
        if new > 0 {
            self.unknown = (view.now, unknown);
            self.rival.access(None, false, new, counted_new);
        }
        self.last = blocks.last().copied().or(self.last);
        self.accesses += blocks.len() as u64;
    }

    fn hit(&mut self, blocks: &[BlockId], _: Access<'_>, view: View<'_>) {
        self.find(blocks, view, Lists::find);
    }

    fn own(&mut self, blocks: &[BlockId], first: &[BlockId], _: Access<'_>, view: View<'_>) {
        if first.len() == blocks.len() && !self.chains.are_known() {
            return self.find(blocks, view, Lists::take_found);
        }
        self.acquire(first, view);
        self.find(blocks, view, Lists::find);
    }

    fn acquire(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.lists.leave_all(blocks);
        if self.chains.are_known() {
            for &block in blocks {
                self.let_parent_go(block, view.pool);
            }
        }
    }

    fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.lists.join_all(blocks, view.pool);
        self.chains.infer(blocks, view.pool);
        if self.chains.are_known() {
            for &block in blocks {
                if let Some(parent) = self.chains.hold(block) {
                    self.lists.cover(parent);
                }
            }
        }
    }

    fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        self.lists.come_back(block, view.pool);
    }

    fn keeps_places(&self) -> bool {
        false
    }

    fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        self.lists.lift(block, view.pool.priority(block));
    }

    fn remove(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        let history = if cause == RemovalCause::Evicted && !self.chains.are_known() {
            self.lists.evict(block, |next| view.pool.children(next) == 0).history()
        } else if let Some(history) = self.remove_amid(block, cause, view.pool) {
            history
        } else {
            return;
        };
        if !self.departed.is_reserved() {
            self.reserve(view.pool.usable());
        }
        if let Some(gone) = self.departed.add(view.pool.key(block).mixed(), history)
            && self.is_counted(gone.tag())
        {
            self.lose(gone.history());
        }
    }

    fn victim(&mut self, view: View<'_>) -> Option<BlockId> {
        if let Some(class) = self.lead.filter(|_| self.tick == view.now && self.due > 0)
            && let Some(block) = self.lists.next_alike(class)
        {
            self.victims += 1;
            self.due -= 1;
            return Some(block);
        }
        self.victim_anew(view)
    }

    fn next(&self, view: View<'_>) -> Option<BlockId> {
        self.lists.any(&self.chains, view.pool)
    }

    fn upcoming(&self, n: usize, view: View<'_>, blocks: &mut Vec<BlockId>) {
        blocks.extend(self.lists.from(self.firsts.last()).take(n));
        for &block in &*blocks {
            black_box(self.departed.newest(view.pool.key(block).mixed()));
        }
    }

    fn order(&self, view: View<'_>, most: usize) -> Vec<BlockId> {
        let mut rest = self.clone();
        std::iter::from_fn(|| {
            let block = rest.victim(view)?;
            rest.remove(block, RemovalCause::Evicted, view);
            Some(block)
        })
        .take(most)
        .collect()
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        self.lists.validate(&self.chains, pool).map_err(|fault| format!("foresight: {fault}"))
    }
}
