//! The moves of a block from state to state, and a pool's from size to size.

use super::{Block, BlockId, DUPLICATED, NIL, Pool, State, UNUSED, WAITS};
use crate::hash::Key;
use crate::tenants::Ledger;

const LENT: Block = Block { refs: 1, state: State::Lent, ..UNUSED };

impl Pool {
    pub(super) fn create(&mut self) -> BlockId {
        let id = self.blocks.len() as BlockId;
        if self.blocks.len() == self.blocks.capacity() {
            self.reserve();
        }
        self.blocks.push(UNUSED);
        self.key.push(Key::default());
        self.depth.push(0);
        if self.generation.len() < self.blocks.len() {
            self.generation.push(0);
        }
        id
    }

    /// Doubles the room of the columns, up to the capacity: a full pool has no unused memory.
    #[cold]
    fn reserve(&mut self) {
        let more = self.blocks.len().max(1);
        let more = more.min(self.capacity as usize - self.blocks.len());
        self.blocks.reserve_exact(more);
        self.key.reserve_exact(more);
        self.depth.reserve_exact(more);
        // It may be longer: ids that went with a larger pool keep theirs.
        let kept = self.generation.len() - self.blocks.len();
        self.generation.reserve_exact(more.saturating_sub(kept));
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
        self.note_taken(id);
        Some(id)
    }

    /// Takes a certain block, which is free and was taken before: O(free).
    pub fn take_free(&mut self, block: BlockId) {
        if let Some(at) = self.free.iter().rposition(|&free| free == block) {
            self.free.remove(at);
            self.blocks[block as usize] = Block { refs: 1, state: State::Pending, ..UNUSED };
            self.note_taken(block);
        }
    }

    /// Free → Lent.
    pub fn lend(&mut self) -> Option<BlockId> {
        let id = self.pop_free()?;
        self.blocks[id as usize] = LENT;
        self.note_taken(id);
        Some(id)
    }

    /// Pending without an owner → Pending with one, as if it had been free in between. Whose it is by now
    /// the caller says to the ledger.
    #[inline]
    pub fn retake(&mut self, block: BlockId, group: u8) {
        self.renew(block);
        self.blocks[block as usize] = Block { refs: 1, state: State::Pending, group, ..UNUSED };
    }

    /// The same → Lent.
    #[inline]
    pub fn relend(&mut self, block: BlockId) {
        self.renew(block);
        self.blocks[block as usize] = LENT;
    }

    /// Free → Lent for all of `out`, which must not be more than there are.
    pub fn lend_all(&mut self, out: &mut [BlockId]) {
        debug_assert!(out.len() <= self.free() as usize);
        let freed = self.free.len().saturating_sub(out.len());
        let (again, fresh) = out.split_at_mut(self.free.len() - freed);
        for (slot, &block) in again.iter_mut().zip(self.free[freed..].iter().rev()) {
            self.blocks[block as usize] = LENT;
            *slot = block;
        }
        self.free.truncate(freed);
        for slot in fresh {
            *slot = self.create();
            self.blocks[*slot as usize] = LENT;
        }
        if self.ledger.is_some() {
            self.note_all(out, Ledger::took);
        }
    }

    /// Lent → Pending: the block is indexed.
    pub fn enter(&mut self, block: BlockId) {
        let b = &mut self.blocks[block as usize];
        debug_assert_eq!(b.state, State::Lent);
        b.state = State::Pending;
    }

    /// One more owner. True if it is the first: Cached → Committed.
    #[inline]
    pub fn share(&mut self, block: BlockId) -> bool {
        let b = &mut self.blocks[block as usize];
        let first = b.is_cached();
        b.refs += 1;
        if first {
            self.cached -= 1;
            if self.ledger.is_some() {
                self.note(block, Ledger::uncached);
            }
        } else if b.marks & WAITS != 0 {
            self.came_back(block);
        }
        first
    }

    /// [`Self::share`] of a block that has an owner.
    #[inline]
    pub fn share_owned(&mut self, block: BlockId) {
        let b = &mut self.blocks[block as usize];
        debug_assert_ne!(b.refs, 0);
        b.refs += 1;
        if b.marks & WAITS != 0 {
            self.came_back(block);
        }
    }

    /// One owner less. `None` while there are others; else the state it is left in: Cached if it is
    /// findable, Pending or Lent if it is to be put back.
    #[inline]
    pub fn unshare(&mut self, block: BlockId) -> Option<State> {
        let b = &mut self.blocks[block as usize];
        b.refs -= 1;
        if b.refs > 0 {
            if b.marks & WAITS != 0 {
                self.lost_one(block);
            }
            return None;
        }
        let state = b.state();
        self.cached += u32::from(state == State::Cached);
        if self.ledger.is_some() && state == State::Cached {
            self.note(block, Ledger::cached);
        }
        Some(state)
    }

    /// Pending → Committed: findable under `key`, after `parent` (in groups with a prefix order).
    #[inline]
    pub fn publish(&mut self, block: BlockId, key: Key, parent: BlockId, depth: u32) {
        let b = &mut self.blocks[block as usize];
        debug_assert_eq!(b.state, State::Pending);
        b.state = State::Committed;
        b.parent = parent;
        b.marks &= !DUPLICATED;
        self.key[block as usize] = key;
        self.depth[block as usize] = depth;
        if parent != NIL {
            let above = &mut self.blocks[parent as usize];
            above.children += 1;
            above.last_child = block;
        }
    }

    /// `block`, which is findable, follows another one from now on, at that depth.
    pub fn follow(&mut self, block: BlockId, parent: BlockId, depth: u32) {
        let before = std::mem::replace(&mut self.blocks[block as usize].parent, parent);
        if before != NIL {
            self.blocks[before as usize].children -= 1;
        }
        let above = &mut self.blocks[parent as usize];
        above.children += 1;
        above.last_child = block;
        self.depth[block as usize] = depth;
    }

    /// Gives a block another key.
    pub fn rename(&mut self, block: BlockId, key: Key) {
        self.key[block as usize] = key;
    }

    /// Committed → Pending, or Cached → Pending without an owner: no longer findable.
    /// Returns the parent that lost a child, or [`NIL`].
    pub fn unpublish(&mut self, block: BlockId) -> BlockId {
        let b = &mut self.blocks[block as usize];
        let cached = b.is_cached();
        self.cached -= u32::from(cached);
        b.state = State::Pending;
        let parent = std::mem::replace(&mut b.parent, NIL);
        if self.ledger.is_some() && cached {
            self.note(block, Ledger::uncached);
        }
        if parent != NIL {
            self.blocks[parent as usize].children -= 1;
        }
        parent
    }

    /// Pending or Lent, without owners → Free; the id's next use has another generation.
    #[inline]
    pub fn put_back(&mut self, block: BlockId) {
        self.free_again(block);
        self.free.push(block);
        if self.ledger.is_some() {
            self.note(block, Ledger::freed);
        }
    }

    #[inline]
    fn free_again(&mut self, block: BlockId) {
        self.renew(block);
        self.blocks[block as usize].state = State::Free;
    }

    /// The next generation of an id without owners.
    #[inline]
    fn renew(&mut self, block: BlockId) {
        debug_assert_eq!(self.blocks[block as usize].refs, 0);
        bump(&mut self.generation[block as usize]);
    }

    #[inline]
    fn note_taken(&mut self, block: BlockId) {
        if self.ledger.is_some() {
            self.note(block, Ledger::took);
        }
    }

    /// Out of the way of pools without tenants.
    #[cold]
    #[inline(never)]
    fn note(&mut self, block: BlockId, moved: fn(&mut Ledger, BlockId)) {
        if let Some(ledger) = &mut self.ledger {
            moved(ledger, block);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn note_all(&mut self, blocks: &[BlockId], moved: fn(&mut Ledger, BlockId)) {
        if let Some(ledger) = &mut self.ledger {
            for &block in blocks {
                moved(ledger, block);
            }
        }
    }

    /// Lent, without owners → Free, all of them; the first is taken again first.
    pub fn put_all_back(&mut self, blocks: &[BlockId]) {
        let (column, generations) = (&mut self.blocks[..], &mut self.generation[..]);
        for &block in blocks {
            let b = &mut column[block as usize];
            debug_assert_eq!((b.refs, b.state), (0, State::Lent));
            b.state = State::Free;
            bump(&mut generations[block as usize]);
        }
        self.free.extend(blocks.iter().rev());
        if self.ledger.is_some() {
            self.note_all(blocks, Ledger::freed);
        }
    }

    /// Ends the loan of each of `blocks`, which then has no owner. Stops at the first block that is not
    /// on loan, or was named before. Returns how many loans have ended.
    pub fn end_loans(&mut self, blocks: &[BlockId]) -> usize {
        let column = &mut self.blocks[..];
        let mut ended = 0;
        for &block in blocks {
            match column.get_mut(block as usize) {
                Some(b) if b.refs == 1 && b.state == State::Lent => b.refs = 0,
                _ => break,
            }
            ended += 1;
        }
        ended
    }

    /// Undoes [`Pool::end_loans`] for a block.
    pub fn mark_lent(&mut self, block: BlockId) {
        self.blocks[block as usize].refs = 1;
    }

    /// Another capacity; blocks from there on must be free. Their generations are kept, in case they
    /// come back.
    pub fn resize(&mut self, capacity: u32) {
        let shrinks = capacity < self.capacity;
        self.capacity = capacity;
        let usable = self.usable();
        if let Some(ledger) = &mut self.ledger {
            ledger.resize(usable);
        }
        if !shrinks {
            return;
        }
        let kept = (capacity as usize).min(self.blocks.len());
        self.blocks.truncate(kept);
        self.key.truncate(kept);
        self.depth.truncate(kept);
        self.waits.truncate(kept);
        self.free.retain(|&b| b < capacity);
    }
}

#[inline]
fn bump(generation: &mut u32) {
    *generation = generation.wrapping_add(1);
}
