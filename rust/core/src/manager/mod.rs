//! The operations of a KV cache, over one pool.
//!
//! Every operation counts its blocks first and moves them afterwards: what is refused has changed
//! nothing (rule 2). By purpose:
//!
//! | modules | purpose |
//! | --- | --- |
//! | `lookup`, `can_allocate`, `needs`, `allocate`, `own`, `rematch` | a request is looked up, counted, allocated |
//! | `grow`, `rows`, `growth`, `windows`, `cross` | slots for more tokens; blocks given up again |
//! | `commit`, `plain`, `tails`, `remap`, `admission` | computed blocks become findable |
//! | `fork`, `release`, `owners`, `fence`, `ended`, `preemption` | sequences split and end |
//! | `load`, `orphan`, `join`, `join_load`, `computing`, `lapse` | KV from elsewhere; what is in flight is shared |
//! | `step` | all of these in one call |
//! | `candidates`, `answers` | policies and matchers outside the core are asked |
//! | `lock`, `retain`, `hints`, `attach` | what is kept longer, and attached to prefixes |
//! | `clear` | all or some of the cache is forgotten |
//! | `blocks`, `loans`, `pressure` | single blocks; the size of the pool |
//! | `read`, `account`, `note`, `dump`, `snapshot`, `integrity` | looking inside |

mod account;
mod admission;
mod allocate;
mod answers;
mod attach;
mod blocks;
mod can_allocate;
mod candidates;
mod clear;
mod commit;
mod computing;
mod cross;
mod dump;
mod ended;
mod expiry;
mod fence;
mod fork;
mod grow;
mod growth;
mod hints;
mod integrity;
mod join;
mod join_load;
mod load;
mod loans;
mod lock;
mod lookup;
mod needs;
mod note;
mod orphan;
mod own;
mod owners;
mod plain;
mod preemption;
mod pressure;
mod promises;
mod read;
mod release;
mod remap;
mod rematch;
mod retain;
mod rows;
mod snapshot;
mod step;
mod tails;
mod windows;

pub use admission::Due;
pub use allocate::Allocation;
pub use answers::MatchAnswer;
pub use can_allocate::AllocStatus;
pub use commit::CommitResult;
pub use dump::DumpFormat;
pub use expiry::{ExpiryResult, Owners, TicketKind};
pub use grow::Ids;
pub use lock::{PinRequest, PinResult};
pub use lookup::Hit;
pub use preemption::{HALF_LIFE, Heat, PreemptionCandidate, PreemptionOrder};
pub use pressure::Pressure;
pub use read::PageRange;
pub use remap::Remap;
pub use snapshot::{SequenceCopy, Snapshot, SnapshotBlocks};
pub use step::{Extent, Growth, Refusal, Step, StepResult, Waiting};
pub use windows::VisibleRange;

use crate::attachments::Attachments;
use crate::error::{Error, Result};
use crate::events::{Kind, Log};
use crate::groups::Layout;
use crate::hash::{Hasher, Key};
use crate::held_blocks::HeldBlocks;
use crate::index::Index;
use crate::locks::Locks;
use crate::options::Options;
use crate::origins::Origins;
use crate::policy::admission::Gate;
use crate::policy::{Eviction, RemovalCause, View};
use crate::pool::{BlockId, NIL, Pool};
use crate::retention::{RetentionState, Sessions};
use crate::sequence::{SeqId, Sequence, Sequences};
use crate::stats::Stats;
use crate::tickets::{CopyPlan, Tickets};

use orphan::Orphans;

/// A KV cache's control plane.
pub struct Manager {
    options: Options,
    layout: Layout,
    hasher: Hasher,
    pool: Pool,
    index: Index,
    policy: Box<dyn Eviction>,
    /// The admission policy; without one, every block becomes findable.
    gate: Option<Box<Gate>>,
    /// What a matcher outside said of prompts, if there is one.
    answers: Option<Box<answers::MatchAnswers>>,
    sequences: Sequences,
    tickets: Tickets,
    computing: computing::Computations,
    fences: fence::Fences,
    locks: Locks,
    retention: RetentionState,
    sessions: Sessions,
    /// Whose KV the findable blocks hold.
    origins: Origins,
    log: Log,
    stats: Stats,
    observer: account::Observer,
    tick: u64,
    /// Steps checked: the number of the last one.
    checked: u64,
    pressure: Pressure,
    /// The most blocks that were in use at once.
    peak: u32,
    asleep: bool,
    /// What sequences that came in with their whole length may yet take.
    promised: promises::Promises,
    /// Loads whose sequence has ended, each with the stand-in that keeps their place.
    orphans: Orphans,
    /// What is attached to prefixes.
    attached: Attachments,
    /// Blocks held one by one.
    held_blocks: HeldBlocks,
    /// Sequences cut since the caller last asked, because a computation they joined was.
    rewound: Vec<SeqId>,
    /// Table entries changed since the caller last asked.
    remapped: Vec<Remap>,
    scratch: Scratch,
}

/// Buffers that outlive a call so that steady state allocates nothing.
#[derive(Debug, Default)]
struct Scratch {
    keys: Vec<Key>,
    hits: Vec<Vec<BlockId>>,
    blocks: Vec<BlockId>,
    next_use: Vec<u32>,
    kept: Vec<BlockId>,
}

impl Manager {
    /// A manager over an empty pool.
    ///
    /// # Errors
    /// [`Error::Invalid`] for options outside their limits; [`Error::PolicyRefused`].
    pub fn new(options: Options, mut policy: Box<dyn Eviction>) -> Result<Self> {
        options.validate()?;
        let layout = Layout::new(&options.groups, options.block_size)?;
        let groups = options.groups.len();
        let span = layout.groups().iter().map(|reach| reach.span).max().unwrap_or(0);
        policy.size(options.blocks, options.block_size).map_err(Error::PolicyRefused)?;
        Ok(Self {
            hasher: Hasher::new(options.chain_hash(), options.block_size, &options.fingerprint),
            pool: Pool::new(options.blocks, options.null_block),
            index: Index::new(&options, span),
            policy,
            gate: None,
            answers: None,
            sequences: Sequences::default(),
            tickets: Tickets::default(),
            computing: computing::Computations::default(),
            fences: fence::Fences::default(),
            locks: Locks::default(),
            retention: RetentionState::new(options.sessions),
            sessions: Sessions::default(),
            origins: Origins::default(),
            log: Log::new(options.event_log),
            stats: Stats::default(),
            observer: account::Observer::new(&options),
            tick: 0,
            checked: 0,
            pressure: Pressure::Normal,
            peak: 0,
            asleep: false,
            promised: promises::Promises::default(),
            orphans: Orphans::default(),
            attached: Attachments::default(),
            held_blocks: HeldBlocks::default(),
            rewound: Vec::new(),
            remapped: Vec::new(),
            scratch: Scratch { hits: vec![Vec::new(); groups], ..Scratch::default() },
            options,
            layout,
        })
    }

    /// What its layer groups have in common.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The options it was built from.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The blocks.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The eviction policy.
    pub fn policy(&self) -> &dyn Eviction {
        &*self.policy
    }

    /// Every cached block that the policy has in its order, the next to be evicted first.
    pub fn eviction_order(&self) -> Vec<BlockId> {
        self.policy.order(View { pool: &self.pool, now: self.tick })
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Blocks that were taken from the pool and are free again: it follows from those that are not.
    pub fn freed(&self) -> u64 {
        let taken = self.stats.allocated + self.stats.lent;
        let out = self.pool.usable() - self.pool.free();
        taken - u64::from(out)
    }

    /// The logical clock: one tick an operation that changed something.
    pub fn now(&self) -> u64 {
        self.tick
    }

    /// How many sequences are live.
    pub fn num_running(&self) -> usize {
        self.sequences.len() - self.orphans.len()
    }

    /// Their handles.
    pub fn running(&self) -> Vec<SeqId> {
        self.sequences.iter().map(|(seq, _)| seq).filter(|&seq| !self.orphans.has(seq)).collect()
    }

    /// A live sequence.
    ///
    /// # Errors
    /// [`Error::UnknownSequence`], [`Error::StaleSequence`].
    pub fn sequence(&self, seq: SeqId) -> Result<&Sequence> {
        self.sequences.get(seq)
    }

    /// Closes the plan of copies gathered since the last call.
    pub fn take_plan(&mut self) -> Option<CopyPlan> {
        let plan = self.tickets.take_plan();
        if let Some(plan) = &plan {
            self.note_two(Kind::Plan, 0, plan.ticket, plan.copies.len() as u64);
        }
        plan
    }

    fn block_size(&self) -> u32 {
        self.options.block_size
    }

    /// Whether anything goes by keys; otherwise none is hashed.
    #[inline]
    pub fn wants_keys(&self) -> bool {
        self.index.takes_keys()
            || self.log.is_on()
            || self.admits_by_key()
            || self.answers.is_some()
            || self.policy.wants_keys()
    }

    fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.options.block_size)
    }

    /// `tokens`, less those behind the last boundary that all groups can serve.
    fn whole_units(&self, tokens: u32) -> u32 {
        tokens - tokens % self.layout.unit_tokens()
    }

    /// Refuses what needs more blocks than can be had; `acquired` cached blocks are spoken for.
    fn check_room(&mut self, needed: u32, acquired: u32) -> Result<()> {
        self.room_for(needed, acquired).inspect_err(|error| self.count_refusal(error))
    }

    /// The same without counting.
    fn room_for(&self, needed: u32, acquired: u32) -> Result<()> {
        if self.asleep {
            return Err(Error::Asleep);
        }
        let available = self.pool.available() - acquired;
        if needed > available {
            return Err(Error::NoCapacity {
                needed: u64::from(needed),
                available: u64::from(available),
                total: u64::from(self.pool.usable()),
                coming: u64::from(self.pool.coming()),
            });
        }
        let short = needed.saturating_sub(self.pool.free());
        if short > 0 && !self.policy.ready(short as usize) {
            return Err(Error::NeedVictims { n: short });
        }
        Ok(())
    }

    /// The block that is evicted next, if any may.
    fn next_victim(&mut self) -> Option<BlockId> {
        if self.pool.cached() == 0 {
            return None;
        }
        let view = View { pool: &self.pool, now: self.tick };
        let named = self.policy.victim(view).filter(|&b| self.pool.is_evictable(b));
        // Whatever a policy answers, the core finds a leaf: lowest id, so that logs repeat.
        named.or_else(|| (0..self.pool.created()).find(|&b| self.pool.is_evictable(b)))
    }

    fn evict(&mut self, victim: BlockId) {
        self.note_block(Kind::Evict, 0, victim, 0);
        self.stats.evictions += 1;
        self.forget(victim, RemovalCause::Evicted);
    }

    /// Forgets a cached block that is not to be found any more.
    fn invalidate(&mut self, block: BlockId) {
        self.note_block(Kind::Forget, 0, block, 0);
        self.forget(block, RemovalCause::Invalidated);
    }

    /// Takes a cached block out of the index, the tree and the policy, and frees it.
    #[inline]
    fn forget(&mut self, block: BlockId, cause: RemovalCause) {
        self.note_gone(block, cause);
        self.unfind(block);
        let parent = self.pool.unpublish(block);
        let view = View { pool: &self.pool, now: self.tick };
        self.policy.remove(block, cause, view);
        if parent != NIL && self.pool.is_evictable(parent) {
            self.policy.on_evictable(parent, view);
        }
        self.pool.put_back(block);
    }

    /// A block for `seq`: a free one, else the next victim's. With `next_use`, the policy may refuse.
    #[inline]
    fn obtain(&mut self, seq: SeqId, group: usize, next_use: Option<u32>) -> Option<BlockId> {
        if self.pool.free() == 0 {
            let victim = self.next_victim()?;
            if next_use.is_some_and(|o| self.policy.refuses(o, victim)) {
                return None;
            }
            self.evict(victim);
        }
        let block = self.pool.take(group as u8)?;
        self.policy.take(block);
        self.stats.allocated += 1;
        self.note_block(Kind::Obtain, seq, block, 0);
        Some(block)
    }
}
