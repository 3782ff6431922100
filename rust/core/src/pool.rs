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

use crate::hash::Key;

/// A block's number in its pool.
pub type BlockId = u32;

/// No block.
pub const NIL: BlockId = u32::MAX;

/// Where a block stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Holds nothing, belongs to nobody.
    Free,
    /// Owned, not findable.
    Pending,
    /// Owned and findable.
    Committed,
    /// Findable, not owned: may be evicted.
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
            Self::Lent => "on loan",
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
    /// The child that was used last; a hint that lookups check.
    heir: BlockId,
    state: State,
    group: u8,
    duplicated: bool,
}

const UNUSED: Block = Block {
    refs: 0,
    children: 0,
    parent: NIL,
    heir: NIL,
    state: State::Free,
    group: 0,
    duplicated: false,
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
        };
        if null_block {
            pool.create();
            pool.blocks[0].state = State::Null;
        }
        pool
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
        self.blocks.get(block as usize).map_or(State::Free, |b| b.state)
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

    /// Follows `keys` from `block` down the children that were used last, as far as they stand under
    /// those keys; appends them to `out`.
    // Not inlined, as the two below: in the middle of an admission its variables spill.
    #[inline(never)]
    pub fn follow_heirs(&self, block: BlockId, keys: &[Key], out: &mut Vec<BlockId>) {
        let (blocks, column) = (&self.blocks[..], &self.key[..self.blocks.len()]);
        let start = out.len();
        out.resize(start + keys.len(), NIL);
        let (mut above, mut heir, mut found) = (block, blocks[block as usize].heir, 0);
        for (slot, key) in out[start..].iter_mut().zip(keys) {
            // NIL is no index; only a findable block has a parent.
            let Some(child) = blocks.get(heir as usize) else { break };
            if child.parent != above || column[heir as usize] != *key {
                break;
            }
            *slot = heir;
            found += 1;
            (above, heir) = (heir, child.heir);
        }
        out.truncate(start + found);
    }

    /// How many of `blocks` are cached; `NIL` is not.
    #[inline(never)]
    pub fn count_cached(&self, blocks: &[BlockId]) -> usize {
        let column = &self.blocks[..];
        let cached =
            |b: &BlockId| column.get(*b as usize).is_some_and(|b| b.state == State::Cached);
        blocks.iter().map(|b| usize::from(cached(b))).sum()
    }

    /// One more owner for each of `blocks`, a prefix or the end of one; how many had none before.
    /// Notes which child was used last.
    #[inline(never)]
    pub fn share_chain(&mut self, blocks: &[BlockId]) -> usize {
        let column = &mut self.blocks[..];
        let mut firsts = 0;
        let mut below = NIL;
        for &block in blocks.iter().rev() {
            let b = &mut column[block as usize];
            b.refs += 1;
            if below != NIL {
                b.heir = below;
            }
            below = block;
            if b.state == State::Cached {
                b.state = State::Committed;
                firsts += 1;
            }
        }
        self.cached -= firsts;
        firsts as usize
    }

    /// One owner less for each of `blocks`, if that leaves every one of them cached, and no copy of
    /// another; otherwise nothing. The common end of a sequence, in one pass.
    #[inline(never)]
    pub fn unshare_chain(&mut self, blocks: &[BlockId]) -> bool {
        let column = &mut self.blocks[..];
        let plain = |b: &Block| b.refs == 1 && b.state == State::Committed && !b.duplicated;
        // NIL is no index.
        if !blocks.iter().all(|&block| column.get(block as usize).is_some_and(plain)) {
            return false;
        }
        for &block in blocks {
            let b = &mut column[block as usize];
            b.refs = 0;
            b.state = State::Cached;
        }
        self.cached += blocks.len() as u32;
        true
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
        matches!(self.state(block), State::Committed | State::Cached)
    }

    /// Rule 7: findable, not owned, and nothing findable follows it.
    #[inline]
    pub fn is_evictable(&self, block: BlockId) -> bool {
        self.blocks.get(block as usize).is_some_and(|b| b.state == State::Cached && b.children == 0)
    }

    /// Whether another block was seen under its key.
    pub fn is_duplicated(&self, block: BlockId) -> bool {
        self.blocks[block as usize].duplicated
    }

    /// Whether another block was seen under its key, and nothing follows it.
    #[inline]
    pub fn may_be_copy(&self, block: BlockId) -> bool {
        let b = &self.blocks[block as usize];
        b.duplicated && b.children == 0
    }

    /// Notes that another block may (or may no longer) stand under its key.
    pub fn set_duplicated(&mut self, block: BlockId, yes: bool) {
        self.blocks[block as usize].duplicated = yes;
    }

    fn create(&mut self) -> BlockId {
        let id = self.blocks.len() as BlockId;
        self.blocks.push(UNUSED);
        self.key.push(Key::default());
        self.depth.push(0);
        if self.generation.len() < self.blocks.len() {
            self.generation.push(0);
        }
        id
    }

    fn pop_free(&mut self) -> Option<BlockId> {
        match self.free.pop() {
            Some(id) => Some(id),
            None if self.created() < self.capacity => Some(self.create()),
            None => None,
        }
    }

    /// Free → Pending with one owner.
    pub fn take(&mut self, group: u8) -> Option<BlockId> {
        let id = self.pop_free()?;
        self.blocks[id as usize] = Block { refs: 1, state: State::Pending, group, ..UNUSED };
        Some(id)
    }

    /// Free → Lent.
    pub fn lend(&mut self) -> Option<BlockId> {
        let id = self.pop_free()?;
        self.blocks[id as usize] = Block { refs: 1, state: State::Lent, ..UNUSED };
        Some(id)
    }

    /// One more owner. True if it is the first: Cached → Committed.
    #[inline]
    pub fn share(&mut self, block: BlockId) -> bool {
        let b = &mut self.blocks[block as usize];
        b.refs += 1;
        let first = b.state == State::Cached;
        if first {
            b.state = State::Committed;
            self.cached -= 1;
        }
        first
    }

    /// One owner less. `None` while there are others; else the state it is left in: Cached if it is
    /// findable, Pending or Lent if it is to be put back.
    #[inline]
    pub fn unshare(&mut self, block: BlockId) -> Option<State> {
        let b = &mut self.blocks[block as usize];
        b.refs -= 1;
        if b.refs > 0 {
            return None;
        }
        if b.state == State::Committed {
            b.state = State::Cached;
            self.cached += 1;
        }
        Some(b.state)
    }

    /// Pending → Committed: findable under `key`, after `parent` (in groups with a prefix order).
    pub fn publish(&mut self, block: BlockId, key: Key, parent: BlockId, depth: u32) {
        let b = &mut self.blocks[block as usize];
        debug_assert_eq!(b.state, State::Pending);
        b.state = State::Committed;
        b.parent = parent;
        b.duplicated = false;
        self.key[block as usize] = key;
        self.depth[block as usize] = depth;
        if parent != NIL {
            let above = &mut self.blocks[parent as usize];
            above.children += 1;
            above.heir = block;
        }
    }

    /// Committed → Pending, or Cached → Pending without an owner: no longer findable.
    /// Returns the parent that lost a child, or [`NIL`].
    pub fn unpublish(&mut self, block: BlockId) -> BlockId {
        let b = &mut self.blocks[block as usize];
        if b.state == State::Cached {
            self.cached -= 1;
        }
        b.state = State::Pending;
        let parent = std::mem::replace(&mut b.parent, NIL);
        if parent != NIL {
            self.blocks[parent as usize].children -= 1;
        }
        parent
    }

    /// Pending or Lent, without owners → Free; the id's next use has another generation.
    pub fn put_back(&mut self, block: BlockId) {
        let b = &mut self.blocks[block as usize];
        debug_assert_eq!(b.refs, 0);
        b.state = State::Free;
        let generation = &mut self.generation[block as usize];
        *generation = generation.wrapping_add(1);
        self.free.push(block);
    }

    /// Takes a loan's only reference away.
    pub fn end_loan(&mut self, block: BlockId) {
        self.blocks[block as usize].refs = 0;
    }

    /// Undoes [`Pool::end_loan`].
    pub fn mark_lent(&mut self, block: BlockId) {
        self.blocks[block as usize].refs = 1;
    }

    /// Owners, or `None` if the id is not of this pool or was never used.
    pub fn refs_or_none(&self, block: BlockId) -> Option<u32> {
        self.blocks.get(block as usize).map(|b| b.refs)
    }

    /// Another capacity; blocks from there on must be free. Their generations are kept, in case they
    /// come back.
    pub fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        let kept = (capacity as usize).min(self.blocks.len());
        self.blocks.truncate(kept);
        self.key.truncate(kept);
        self.depth.truncate(kept);
        self.free.retain(|&b| b < capacity);
    }

    /// The free list, next to go last.
    pub fn free_list(&self) -> &[BlockId] {
        &self.free
    }
}
