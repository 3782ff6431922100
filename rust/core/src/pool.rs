//! Blocks as columns: owners, states, generations, the prefix tree, the free list.
//!
//! A block is in exactly one state. Only these moves exist:
//!
//! ```text
//!            take                  publish
//!   Free ─────────────▶ Pending ─────────────▶ Committed
//!    ▲ ▲                   │                    │     ▲
//!    │ └───────────────────┘ drop (last owner)  │     │ share (an owner came)
//!    │                             drop (last)  ▼     │
//!    └───────────── forget ◀────────────────── Cached ┘
//! ```

mod chains;
mod moves;
mod waits;

use crate::hash::Key;
use crate::retention::DEFAULT_PRIORITY;
use crate::tenants::{Ledger, OTHERS};

/// A block's number in its pool.
pub type BlockId = u32;

/// No block.
pub const NIL: BlockId = u32::MAX;

/// Where a block stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Empty and without an owner.
    Free,
    /// Owned, not findable.
    Pending,
    /// Owned and findable.
    Committed,
    /// Findable, not owned: may be evicted once no findable block follows it.
    Cached,
    /// Given out raw, outside any sequence.
    Lent,
    /// Block 0, reserved for padding.
    Null,
}

impl State {
    /// A word for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Pending => "pending",
            Self::Committed => "committed",
            Self::Cached => "cached",
            Self::Lent => "taken",
            Self::Null => "reserved as the null block",
        }
    }
}

/// What nearly every operation reads or writes, together so that a block costs one cache line.
#[derive(Debug, Clone, Copy)]
struct Block {
    refs: u32,
    children: u32,
    parent: BlockId,
    /// The child that became findable last; a hint that lookups check.
    last_child: BlockId,
    /// A cached block has `Committed` here too; it is cached if it has no owner. So the first owner's
    /// arrival and the last one's departure need no second write.
    state: State,
    group: u8,
    /// [`DUPLICATED`], [`WAITS`].
    marks: u8,
    /// Retention priority, or [`UNASKED`].
    priority: u8,
}

impl Block {
    /// Whether it is findable and has no owner.
    #[inline]
    fn is_cached(&self) -> bool {
        self.refs == 0 && self.state == State::Committed
    }

    #[inline]
    fn state(&self) -> State {
        if self.is_cached() { State::Cached } else { self.state }
    }
}

/// No priority was asked for: the default one holds.
const UNASKED: u8 = u8::MAX;

/// Another block was seen under its key.
const DUPLICATED: u8 = 1;

/// Some of its owners have left, and wait for a fence.
const WAITS: u8 = 2;

const UNUSED: Block = Block {
    refs: 0,
    children: 0,
    parent: NIL,
    last_child: NIL,
    state: State::Free,
    group: 0,
    marks: 0,
    priority: UNASKED,
};

/// The blocks of one tier.
#[derive(Debug)]
pub struct Pool {
    capacity: u32,
    blocks: Vec<Block>,
    key: Vec<Key>,
    depth: Vec<u32>,
    generation: Vec<u32>,
    /// Freed blocks, the last freed on top. Blocks never used come after these, in order.
    free: Vec<BlockId>,
    cached: u32,
    /// Of each block, owners that wait for a fence; as long as one ever did.
    waits: Vec<u32>,
    /// Blocks all of whose owners wait for a fence.
    coming: u32,
    /// Blocks with owners that wait.
    waiting: u32,
    /// Whether a priority was ever asked for.
    banded: bool,
    /// Whose blocks they are, where tenants are told apart.
    ledger: Option<Box<Ledger>>,
}

/// How many blocks' columns are reserved up front; larger pools grow as they are used.
const RESERVE: u32 = 1 << 20;

impl Pool {
    /// A pool of `capacity` free blocks; block 0 is set aside if `null_block`.
    pub fn new(capacity: u32, null_block: bool) -> Self {
        let reserve = capacity.min(RESERVE) as usize;
        let mut pool = Self {
            capacity,
            blocks: Vec::with_capacity(reserve),
            key: Vec::with_capacity(reserve),
            depth: Vec::with_capacity(reserve),
            generation: Vec::with_capacity(reserve),
            free: Vec::new(),
            cached: 0,
            waits: Vec::new(),
            coming: 0,
            waiting: 0,
            banded: false,
            ledger: None,
        };
        if null_block {
            pool.create();
            pool.blocks[0].state = State::Null;
        }
        pool
    }

    /// The same empty pool, in which `ledger` counts each tenant's blocks.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Option<Ledger>) -> Self {
        self.ledger = ledger.map(Box::new);
        self
    }

    /// Whose blocks they are, where tenants are told apart.
    #[inline]
    pub fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_deref()
    }

    /// The same, to change it.
    #[inline]
    pub fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        self.ledger.as_deref_mut()
    }

    /// The number of the tenant whose block it is.
    #[inline]
    pub fn tenant(&self, block: BlockId) -> u8 {
        self.ledger.as_ref().map_or(OTHERS, |ledger| ledger.tenant(block))
    }

    /// Whether the next block comes of an eviction: none is free, or the tenant that is served has its quota.
    #[inline]
    pub fn must_evict(&self) -> bool {
        self.free() == 0 || self.ledger.as_ref().is_some_and(|ledger| ledger.at_quota())
    }

    /// All blocks, the null block included.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Blocks that a request can ever have.
    pub fn usable(&self) -> u32 {
        self.capacity - u32::from(self.blocks.first().is_some_and(|b| b.state == State::Null))
    }

    /// Blocks whose columns exist; ids below this.
    pub fn created(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Blocks that hold nothing.
    pub fn free(&self) -> u32 {
        self.free.len() as u32 + (self.capacity - self.created())
    }

    /// Blocks findable and not owned.
    pub fn cached(&self) -> u32 {
        self.cached
    }

    /// Blocks that can be had now.
    pub fn available(&self) -> u32 {
        self.free() + self.cached
    }

    /// Blocks with an owner (loans and the null block included).
    pub fn referenced(&self) -> u32 {
        self.capacity - self.available()
    }

    /// The state of a block of this pool.
    #[inline]
    pub fn state(&self, block: BlockId) -> State {
        self.blocks.get(block as usize).map_or(State::Free, Block::state)
    }

    /// Counts how often the id was freed, so that an old handle cannot alias.
    #[inline]
    pub fn generation(&self, block: BlockId) -> u32 {
        self.generation.get(block as usize).copied().unwrap_or(0)
    }

    /// Owners.
    #[inline]
    pub fn refs(&self, block: BlockId) -> u32 {
        self.blocks[block as usize].refs
    }

    /// Whether it has one owner and is not findable.
    #[inline]
    pub fn is_pending_alone(&self, block: BlockId) -> bool {
        let b = &self.blocks[block as usize];
        b.refs == 1 && b.state == State::Pending
    }

    /// The key it is findable under (the last one, if it is not any more).
    #[inline]
    pub fn key(&self, block: BlockId) -> Key {
        self.key[block as usize]
    }

    /// The block before it in the prefix, or [`NIL`].
    #[inline]
    pub fn parent(&self, block: BlockId) -> BlockId {
        self.blocks[block as usize].parent
    }

    /// Findable blocks that follow it.
    #[inline]
    pub fn children(&self, block: BlockId) -> u32 {
        self.blocks[block as usize].children
    }

    /// Its place in the prefix: 0 for the first block.
    #[inline]
    pub fn depth(&self, block: BlockId) -> u32 {
        self.depth[block as usize]
    }

    /// Its layer group.
    #[inline]
    pub fn group(&self, block: BlockId) -> u8 {
        self.blocks[block as usize].group
    }

    /// Whether lookups may answer with it.
    pub fn is_findable(&self, block: BlockId) -> bool {
        self.blocks.get(block as usize).is_some_and(|b| b.state == State::Committed)
    }

    /// Rule 7: findable, not owned, and nothing findable follows it.
    #[inline]
    pub fn is_evictable(&self, block: BlockId) -> bool {
        self.blocks.get(block as usize).is_some_and(|b| b.is_cached() && b.children == 0)
    }

    /// Whether it is findable and not owned, and something findable follows it.
    #[inline]
    pub fn is_inner(&self, block: BlockId) -> bool {
        self.blocks.get(block as usize).is_some_and(|b| b.is_cached() && b.children > 0)
    }

    /// Its retention priority, 0 to 100: of the blocks that may be evicted, those with the lowest do.
    #[inline]
    pub fn priority(&self, block: BlockId) -> u8 {
        match self.blocks[block as usize].priority {
            UNASKED => DEFAULT_PRIORITY,
            asked => asked,
        }
    }

    /// The retention priority that was asked for; `None` if none was since the block was taken.
    pub fn asked_priority(&self, block: BlockId) -> Option<u8> {
        Some(self.blocks[block as usize].priority).filter(|&priority| priority != UNASKED)
    }

    /// Gives it a retention priority, until it is free again.
    pub fn set_priority(&mut self, block: BlockId, priority: u8) {
        self.banded = true;
        self.blocks[block as usize].priority = priority;
    }

    /// Whether any block may have another priority than the default.
    #[inline]
    pub fn has_priorities(&self) -> bool {
        self.banded
    }

    /// Whether another block was seen under its key.
    pub fn is_duplicated(&self, block: BlockId) -> bool {
        self.blocks[block as usize].marks & DUPLICATED != 0
    }

    /// Whether another block was seen under its key, and nothing follows it.
    #[inline]
    pub fn may_be_copy(&self, block: BlockId) -> bool {
        let b = &self.blocks[block as usize];
        b.marks & DUPLICATED != 0 && b.children == 0
    }

    /// Notes that another block may (or may no longer) stand under its key.
    pub fn set_duplicated(&mut self, block: BlockId, yes: bool) {
        let marks = &mut self.blocks[block as usize].marks;
        *marks = if yes { *marks | DUPLICATED } else { *marks & !DUPLICATED };
    }

    /// Owners, or `None` if the id is not of this pool or was never used.
    pub fn refs_or_none(&self, block: BlockId) -> Option<u32> {
        self.blocks.get(block as usize).map(|b| b.refs)
    }

    /// The free list, next to go last.
    pub fn free_list(&self) -> &[BlockId] {
        &self.free
    }
}
