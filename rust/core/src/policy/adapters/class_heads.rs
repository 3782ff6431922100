//! From classes with an order each to one order: a heap of evictable leaves a class, and a policy
//! that says which class gives the next victim.
//!
//! This is how policies with several lists (ARC, 2Q, S3-FIFO, …) live under the leaf rule: a list's
//! place becomes a rank, so that the first *leaf* of a list is found in O(log n). Policies whose
//! scores drift with time compare the heads of their classes only.

use super::heap::{Entry, Heap};
use crate::hash::Key;
use crate::policy::{Access, BlockAccess, Eviction, RemovalCause, View, grow};
use crate::pool::{BlockId, NIL, Pool};
use crate::retention::DEFAULT_PRIORITY;

/// A policy over classes. Its columns are its own. A block's class and rank may change only while
/// it is inserted, hit, acquired, released or spared, or when it is named by [`Classes::moved`].
pub trait Classes: Clone + Send + 'static {
    /// The most chances that [`Classes::spare`] gives one leaf during one choice.
    const CHANCES: usize = 8;
    /// Its name in configuration.
    fn name(&self) -> &'static str;
    /// See [`Eviction::size`].
    fn size(&mut self, _blocks: u32, _block_size: u32) {}
    /// A block became findable.
    fn insert(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>);
    /// An allocation found it.
    fn hit(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>);
    /// Returns a block whose class or rank has changed although nothing happened to it. It is called after
    /// every insertion, hit, release and removal, until it returns `None`.
    fn moved(&mut self, _view: View<'_>) -> Option<BlockId> {
        None
    }
    /// It is cached and the last block after it is gone: it may be evicted now.
    fn on_evictable(&mut self, _block: BlockId, _view: View<'_>) {}
    /// Its last owner left.
    fn release(&mut self, _block: BlockId, _view: View<'_>) {}
    /// It may be evicted from now on, among those of this retention priority: asked for its class next.
    fn stands_at(&mut self, _block: BlockId, _band: u8) {}
    /// The class of a findable block.
    fn class(&self, block: BlockId) -> usize;
    /// Lower is evicted first within its class.
    fn rank(&self, block: BlockId, view: View<'_>) -> u128;
    /// Returns the class that gives the next victim. It must have a leaf; at least one class has. `heads`
    /// shows only the leaves of one retention priority ([`Heads::bucket`]), so a position in that order is
    /// not valid for another priority.
    fn choose(&mut self, heads: Heads<'_>, view: View<'_>) -> usize;
    /// Whether the head just chosen gets another chance; its class or rank has changed then. At most
    /// [`Classes::CHANCES`] for one leaf: after that the lowest leaf is the victim.
    fn spare(&mut self, _block: BlockId, _view: View<'_>) -> bool {
        false
    }
    /// The block was evicted. It need not be the victim that was chosen. `heads` are the leaves that are
    /// left.
    fn evicted(&mut self, _block: BlockId, _heads: Heads<'_>) {}
    /// It is no longer findable. Its key can still be read.
    fn removed(&mut self, _block: BlockId, _cause: RemovalCause, _view: View<'_>) {}
    /// See [`Eviction::on_miss`].
    fn on_miss(&mut self, _key: Key, _view: View<'_>) {}
    /// See [`Eviction::wants_misses`].
    fn wants_misses(&self) -> bool {
        false
    }
    /// See [`Eviction::wants_keys`].
    fn wants_keys(&self) -> bool {
        self.wants_misses()
    }
    /// See [`Eviction::needs_future`].
    fn needs_future(&self) -> bool {
        false
    }
}

/// The evictable leaves, by class.
#[derive(Debug, Clone, Copy)]
pub struct Heads<'a> {
    heaps: &'a [Heap],
    /// The lowest retention priority of them all: leaves of higher ones are not seen.
    bucket: u8,
}

impl<'a> Heads<'a> {
    fn of(heaps: &'a [Heap], pool: &Pool) -> Self {
        let mut bucket = DEFAULT_PRIORITY;
        if pool.has_priorities() {
            let firsts = heaps.iter().filter_map(Heap::first).map(Entry::bucket);
            bucket = firsts.min().unwrap_or(bucket);
        }
        Self { heaps, bucket }
    }

    /// The retention priority that the next victim has.
    pub fn bucket(&self) -> u8 {
        self.bucket
    }

    /// The first to be evicted of a class, and its rank.
    pub fn first(&self, class: usize) -> Option<(BlockId, u128)> {
        let entry = self.heaps.get(class)?.first()?;
        (entry.bucket() == self.bucket).then_some((entry.block(), entry.rank()))
    }

    /// Whether a class has no leaf that may be evicted.
    pub fn is_empty(&self, class: usize) -> bool {
        self.first(class).is_none()
    }

    /// How many classes may have leaves.
    pub fn classes(&self) -> usize {
        self.heaps.len()
    }

    /// The first of `order` that is not empty; of none, the lowest that is not.
    pub fn first_of(&self, order: &[usize]) -> usize {
        let mut all = order.iter().copied().chain(0..self.heaps.len());
        all.find(|&class| !self.is_empty(class)).unwrap_or(0)
    }

    /// The first to be evicted of the lowest class that is not empty.
    pub fn lowest(&self) -> Option<BlockId> {
        self.first(self.first_of(&[])).map(|(block, _)| block)
    }
}

/// An [`Eviction`] of [`Classes`].
#[derive(Debug, Clone)]
pub struct ClassHeads<P> {
    policy: P,
    heaps: Vec<Heap>,
    place: Vec<u32>,
    home: Vec<u16>,
    leaves: usize,
}

impl<P: Classes> ClassHeads<P> {
    /// The order of `policy`.
    pub fn new(policy: P) -> Self {
        Self { policy, heaps: Vec::new(), place: Vec::new(), home: Vec::new(), leaves: 0 }
    }

    fn push(&mut self, block: BlockId, view: View<'_>) {
        self.policy.stands_at(block, view.pool.priority(block));
        let class = self.policy.class(block);
        if self.heaps.len() <= class {
            self.heaps.resize_with(class + 1, Heap::default);
        }
        grow(&mut self.place, block, NIL);
        grow(&mut self.home, block, 0);
        self.home[block as usize] = class as u16;
        let entry = Entry::of(view.pool, block, self.policy.rank(block, view));
        self.heaps[class].push(&mut self.place, entry);
        self.leaves += 1;
    }

    /// Moves blocks whose class or rank has changed by itself to their new places.
    fn settle(&mut self, view: View<'_>) {
        while let Some(block) = self.policy.moved(view) {
            if self.take_out(block) {
                self.push(block, view);
            }
        }
    }

    fn take_out(&mut self, block: BlockId) -> bool {
        let Some(&at) = self.place.get(block as usize).filter(|&&at| at != NIL) else {
            return false;
        };
        self.heaps[self.home[block as usize] as usize].take_out(&mut self.place, at as usize);
        self.leaves -= 1;
        true
    }
}

impl<P: Classes> Eviction for ClassHeads<P> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn size(&mut self, blocks: u32, block_size: u32) -> Result<(), String> {
        self.policy.size(blocks, block_size);
        Ok(())
    }

    fn insert(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        for (i, &block) in blocks.iter().enumerate() {
            self.policy.insert(block, BlockAccess { access: &access, i }, view);
            self.settle(view);
        }
    }

    fn hit(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        for (i, &block) in blocks.iter().enumerate() {
            let placed = self.take_out(block);
            self.policy.hit(block, BlockAccess { access: &access, i }, view);
            // A computed copy may touch a block without an owner.
            if placed {
                self.push(block, view);
            }
            self.settle(view);
        }
    }

    fn acquire(&mut self, blocks: &[BlockId], _: View<'_>) {
        for &block in blocks {
            self.take_out(block);
        }
    }

    fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        for &block in blocks {
            self.policy.release(block, view);
            if view.pool.is_evictable(block) {
                self.push(block, view);
            }
        }
    }

    fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        self.policy.on_evictable(block, view);
        self.push(block, view);
    }

    fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        if self.take_out(block) {
            self.push(block, view);
        }
    }

    fn remove(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        self.take_out(block);
        if cause == RemovalCause::Evicted {
            self.policy.evicted(block, Heads::of(&self.heaps, view.pool));
        }
        self.policy.removed(block, cause, view);
        self.settle(view);
    }

    fn victim(&mut self, view: View<'_>) -> Option<BlockId> {
        // Each chance that is given is used up: by then every leaf has had all of its own.
        for _ in 0..=self.leaves.saturating_mul(P::CHANCES) {
            if self.leaves == 0 {
                return None;
            }
            let heads = Heads::of(&self.heaps, view.pool);
            let (block, _) = heads.first(self.policy.choose(heads, view))?;
            if !self.policy.spare(block, view) {
                return Some(block);
            }
            self.take_out(block);
            self.push(block, view);
        }
        debug_assert!(false, "{}: more chances than Classes::CHANCES", self.policy.name());
        Heads::of(&self.heaps, view.pool).lowest()
    }

    fn on_miss(&mut self, key: Key, view: View<'_>) {
        self.policy.on_miss(key, view);
    }

    fn wants_misses(&self) -> bool {
        self.policy.wants_misses()
    }

    fn wants_keys(&self) -> bool {
        self.policy.wants_keys()
    }

    fn next(&self, view: View<'_>) -> Option<BlockId> {
        Heads::of(&self.heaps, view.pool).lowest()
    }

    fn needs_future(&self) -> bool {
        self.policy.needs_future()
    }

    fn order(&self, view: View<'_>, most: usize) -> Vec<BlockId> {
        let mut rest = self.clone();
        let mut order = Vec::with_capacity(most.min(self.leaves));
        while order.len() < most
            && let Some(block) = rest.victim(view)
        {
            rest.remove(block, RemovalCause::Evicted, view);
            order.push(block);
        }
        order
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        let name = self.policy.name();
        let mut placed = 0;
        for (class, heap) in self.heaps.iter().enumerate() {
            heap.validate(&self.place).map_err(|fault| format!("{name}: {fault}"))?;
            heap.validate_blocks(pool).map_err(|fault| format!("{name}: {fault}"))?;
            for entry in heap.entries() {
                let block = entry.block();
                if self.home[block as usize] as usize != class || self.policy.class(block) != class
                {
                    return Err(format!("{name}: block {block} is in another class"));
                }
            }
            placed += heap.len();
        }
        let leaves = (0..pool.created()).filter(|&b| pool.is_evictable(b)).count();
        if leaves != placed || leaves != self.leaves {
            return Err(format!("{name}: {placed} in the heaps, {leaves} may be evicted"));
        }
        Ok(())
    }
}
