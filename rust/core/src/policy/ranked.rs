//! From a ranking to an order: a heap over the evictable leaves.

use super::{Eviction, Use, View, Why, grow};
use crate::pool::{BlockId, NIL, Pool};

/// A policy that only ranks. Columns are its own; `grow` them in `insert` and `claim`.
pub trait Rank: Send {
    /// Its name in configuration.
    fn name(&self) -> &'static str;
    /// A block became findable.
    fn insert(&mut self, block: BlockId, outlook: u32, view: View<'_>);
    /// An admission found it.
    fn hit(&mut self, block: BlockId, outlook: u32, view: View<'_>);
    /// It got an owner, free or cached as it was.
    fn claim(&mut self, _block: BlockId) {}
    /// Its last owner left.
    fn release(&mut self, block: BlockId, view: View<'_>);
    /// Lower dies first. Must not change while the block is neither hit, claimed nor released.
    fn rank(&self, block: BlockId, view: View<'_>) -> u128;
    /// It was the victim, at this rank.
    fn evicted(&mut self, _rank: u128) {}
    /// See [`Eviction::options`].
    fn options(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    /// See [`Eviction::may_refuse`].
    fn may_refuse(&self) -> bool {
        false
    }
    /// See [`Eviction::refuses`].
    fn refuses(&self, _outlook: u32, _victim: BlockId) -> bool {
        false
    }
}

/// Packs a rank: a main number, then the time of last use, then the deeper block first.
pub fn pack(main: u32, last: u64, depth: u32) -> u128 {
    (u128::from(main) << 96) | (u128::from(last) << 32) | u128::from(u32::MAX - depth)
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    rank: u128,
    block: BlockId,
}

/// An [`Eviction`] that takes the lowest [`Rank`] among the leaves: O(log n) a leaf, nothing for
/// blocks inside a prefix.
#[derive(Debug)]
pub struct Ranked<R> {
    policy: R,
    heap: Vec<Entry>,
    place: Vec<u32>,
}

const ARITY: usize = 4;

impl<R: Rank> Ranked<R> {
    /// The order of `policy`.
    pub fn new(policy: R) -> Self {
        Self { policy, heap: Vec::new(), place: Vec::new() }
    }

    fn before(a: &Entry, b: &Entry) -> bool {
        (a.rank, a.block) < (b.rank, b.block)
    }

    fn set(&mut self, at: usize, entry: Entry) {
        self.place[entry.block as usize] = at as u32;
        self.heap[at] = entry;
    }

    fn up(&mut self, mut at: usize, entry: Entry) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !Self::before(&entry, &self.heap[parent]) {
                break;
            }
            self.set(at, self.heap[parent]);
            at = parent;
        }
        self.set(at, entry);
    }

    fn down(&mut self, mut at: usize, entry: Entry) {
        loop {
            let first = at * ARITY + 1;
            let end = (first + ARITY).min(self.heap.len());
            let Some(least) = (first..end)
                .reduce(|a, b| if Self::before(&self.heap[b], &self.heap[a]) { b } else { a })
            else {
                break;
            };
            if !Self::before(&self.heap[least], &entry) {
                break;
            }
            self.set(at, self.heap[least]);
            at = least;
        }
        self.set(at, entry);
    }

    fn push(&mut self, block: BlockId, view: View<'_>) {
        grow(&mut self.place, block, NIL);
        let entry = Entry { rank: self.policy.rank(block, view), block };
        self.heap.push(entry);
        self.up(self.heap.len() - 1, entry);
    }

    fn take_out(&mut self, block: BlockId) {
        let Some(place) = self.place.get_mut(block as usize) else {
            return;
        };
        let at = std::mem::replace(place, NIL);
        if at == NIL {
            return;
        }
        let last = self.heap.pop().expect("a placed block is in the heap");
        if last.block == block {
            return;
        }
        let at = at as usize;
        if at > 0 && Self::before(&last, &self.heap[(at - 1) / ARITY]) {
            self.up(at, last);
        } else {
            self.down(at, last);
        }
    }
}

impl<R: Rank> Eviction for Ranked<R> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn insert(&mut self, blocks: &[BlockId], using: Use<'_>, view: View<'_>) {
        for (i, &block) in blocks.iter().enumerate() {
            self.policy.insert(block, using.next(i), view);
        }
    }

    fn hit(&mut self, blocks: &[BlockId], using: Use<'_>, view: View<'_>) {
        for (i, &block) in blocks.iter().enumerate() {
            self.policy.hit(block, using.next(i), view);
            // A computed copy may touch a block that nobody owns: its rank has changed.
            if self.place.get(block as usize).is_some_and(|&at| at != NIL) {
                self.take_out(block);
                self.push(block, view);
            }
        }
    }

    fn take(&mut self, block: BlockId) {
        self.policy.claim(block);
    }

    fn claim(&mut self, blocks: &[BlockId], _: View<'_>) {
        for &block in blocks {
            self.policy.claim(block);
            // Blocks inside a prefix are not in the heap.
            if self.place.get(block as usize).is_some_and(|&at| at != NIL) {
                self.take_out(block);
            }
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

    fn expose(&mut self, block: BlockId, view: View<'_>) {
        self.push(block, view);
    }

    fn remove(&mut self, block: BlockId, why: Why, _: View<'_>) {
        if why == Why::Evicted
            && let Some(&at) = self.place.get(block as usize)
            && at != NIL
        {
            self.policy.evicted(self.heap[at as usize].rank);
        }
        self.take_out(block);
    }

    fn victim(&mut self, _: View<'_>) -> Option<BlockId> {
        self.heap.first().map(|entry| entry.block)
    }

    fn options(&self) -> Vec<(&'static str, u64)> {
        self.policy.options()
    }

    fn may_refuse(&self) -> bool {
        self.policy.may_refuse()
    }

    fn refuses(&self, outlook: u32, victim: BlockId) -> bool {
        self.policy.refuses(outlook, victim)
    }

    fn order(&self) -> Vec<BlockId> {
        let mut entries = self.heap.clone();
        entries.sort_unstable_by_key(|e| (e.rank, e.block));
        entries.iter().map(|e| e.block).collect()
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        let name = self.policy.name();
        for (at, entry) in self.heap.iter().enumerate() {
            if self.place[entry.block as usize] != at as u32 {
                return Err(format!("{name}: block {} is misplaced", entry.block));
            }
            if at > 0 && Self::before(entry, &self.heap[(at - 1) / ARITY]) {
                return Err(format!("{name}: heap order broken at {at}"));
            }
            if !pool.is_evictable(entry.block) {
                return Err(format!("{name}: block {} may not die", entry.block));
            }
        }
        let leaves = (0..pool.created()).filter(|&b| pool.is_evictable(b)).count();
        if leaves != self.heap.len() {
            return Err(format!("{name}: {} in the heap, {leaves} may die", self.heap.len()));
        }
        Ok(())
    }
}
