//! Blocks in columns. A chain's blocks mostly stand in one row after the other, so that a match reads along
//! the columns and looks up a key only where a chain is broken.
//!
//! Each block knows the one before it and counts those behind it, so that a full index forgets tails
//! before heads. A block that no worker holds stays as long as one behind it does: when a worker holds
//! it again, its children are still counted.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::holders::{BlockHolders, Crowds, Holders, TierId};
use super::leaves::{Leaf, Leaves};
use super::places::{Places, Row};

/// No block.
pub(super) const NONE: Row = Row::MAX;

/// A block that is new.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub key: u64,
    pub held: BlockHolders,
    pub parent: Row,
    pub children: u32,
}

/// Children of no block.
const VACANT: u32 = u32::MAX;

/// Blocks for which there is room up front; a larger index grows as it is fed.
const RESERVE: usize = 1 << 18;

/// Leaves beyond twice the blocks are looked through, but not below this many.
const FEW: usize = 1024;

/// Words that are compared at once.
const LANES: usize = 16;

/// Blocks that workers hold, and those before them.
#[derive(Debug)]
pub(super) struct Nodes {
    places: Places,
    pub(super) keys: Vec<u64>,
    pub(super) held: Vec<BlockHolders>,
    /// The block before each, which counts it; [`NONE`] where none is known.
    pub(super) parents: Vec<Row>,
    /// Blocks that are linked to each; [`VACANT`] in a row of no block.
    children: Vec<u32>,
    /// The tick of a block's last use: of it, or of a block behind it that is still there. A block that
    /// goes hands its own on to the one before it.
    used: Vec<AtomicU32>,
    /// Rows of no block, the one to be taken next last.
    vacant: Vec<Row>,
    pub(super) crowds: Crowds,
    pub(super) leaves: Leaves,
    pub(super) capacity: usize,
    /// Blocks that a worker holds.
    pub(super) live: usize,
    /// Counts events and matches.
    now: AtomicU32,
    /// Blocks forgotten because the index was full.
    pub dropped: u64,
}

impl Nodes {
    /// For at most `capacity` blocks.
    pub fn new(capacity: usize) -> Self {
        let reserve = capacity.min(RESERVE);
        Self {
            places: Places::new(reserve),
            keys: Vec::with_capacity(reserve),
            held: Vec::with_capacity(reserve),
            parents: Vec::with_capacity(reserve),
            children: Vec::with_capacity(reserve),
            used: Vec::with_capacity(reserve),
            vacant: Vec::new(),
            crowds: Crowds::default(),
            leaves: Leaves::default(),
            capacity,
            live: 0,
            now: AtomicU32::new(0),
            dropped: 0,
        }
    }

    /// Blocks that a worker holds.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Blocks that have a row.
    #[inline]
    pub(super) fn rows(&self) -> usize {
        self.keys.len() - self.vacant.len()
    }

    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<Row> {
        self.places.find(key, &self.keys)
    }

    /// See [`Places::warm`].
    #[inline]
    pub(super) fn warm(&self, keys: &[u64]) -> usize {
        self.places.warm(keys)
    }

    #[inline]
    pub fn contains(&self, key: u64) -> bool {
        self.find(key).is_some()
    }

    /// Blocks that are linked to `row`.
    #[inline]
    pub(super) fn children(&mut self, row: Row) -> &mut u32 {
        &mut self.children[row as usize]
    }

    /// The tick of now.
    #[inline]
    pub(super) fn now(&self) -> u32 {
        self.now.load(Relaxed)
    }

    /// A block is used now.
    #[inline]
    pub(super) fn touch(&self, row: Row, now: u32) {
        self.used[row as usize].store(now, Relaxed);
    }

    #[inline]
    pub(super) fn used(&self, row: Row) -> u32 {
        self.used[row as usize].load(Relaxed)
    }

    /// A block that is not there yet; its row.
    #[inline]
    pub(super) fn insert(&mut self, node: Node, now: u32) -> Row {
        let Node { key, held, parent, children } = node;
        let row = if let Some(row) = self.vacant.pop() {
            let at = row as usize;
            (self.keys[at], self.held[at]) = (key, held);
            (self.parents[at], self.children[at]) = (parent, children);
            self.touch(row, now);
            row
        } else {
            self.keys.push(key);
            self.held.push(held);
            self.parents.push(parent);
            self.children.push(children);
            self.used.push(AtomicU32::new(now));
            self.keys.len() as Row - 1
        };
        self.places.insert(key, row);
        row
    }

    /// The key of a new block in a row of its own behind all others, unless a row stands empty. [`Self::fill`]
    /// follows.
    #[inline]
    pub(super) fn append(&mut self, key: u64) -> Option<Row> {
        if !self.vacant.is_empty() {
            return None;
        }
        let row = self.keys.len() as Row;
        self.keys.push(key);
        self.places.insert(key, row);
        Some(row)
    }

    /// Rows of which all columns are there.
    #[inline]
    pub(super) fn filled(&self) -> usize {
        self.held.len()
    }

    /// The other columns of rows that were appended: a chain behind `parent`, each with one child.
    #[inline]
    pub(super) fn fill(&mut self, held: BlockHolders, parent: Row, now: u32) {
        let (from, rows) = (self.held.len(), self.keys.len());
        self.held.resize(rows, held);
        self.parents.extend((from..rows).map(|row| (row as Row).wrapping_sub(1)));
        if from < rows {
            self.parents[from] = parent;
        }
        self.children.resize(rows, 1);
        self.used.resize_with(rows, || AtomicU32::new(now));
    }

    /// Takes a block out that none is linked to; those before it that only it kept go too.
    pub(super) fn take_out(&mut self, row: Row) {
        let mut next = Some(row);
        while let Some(row) = next {
            let at = row as usize;
            let parent = std::mem::replace(&mut self.parents[at], NONE);
            self.children[at] = VACANT;
            self.places.remove(self.keys[at], row);
            self.crowds.release(self.held[at]);
            self.held[at] = BlockHolders::NONE;
            self.vacant.push(row);
            self.leaves.forget_front(row);
            next = (parent != NONE && self.lose_child(parent, self.used(row))).then_some(parent);
        }
    }

    /// A block counts one less behind it. It goes too if only that kept it, and so on upwards.
    pub(super) fn let_go(&mut self, row: Row) {
        if self.lose_child(row, 0) {
            self.take_out(row);
        }
    }

    /// Notes that a block behind `row`, last used at `used`, is gone. Returns whether nothing keeps `row`
    /// now.
    fn lose_child(&mut self, row: Row, used: u32) -> bool {
        // A use of the child was also a use of the parent.
        let used = self.used(row).max(used);
        self.touch(row, used);
        let children = self.children(row);
        *children -= 1;
        if *children > 0 {
            return false;
        }
        let idle = self.held[row as usize].is_empty();
        if !idle {
            self.leaves.push_front(Leaf { used, key: self.keys[row as usize], row });
        }
        idle
    }

    /// Whether `worker` holds a block anywhere.
    pub fn holds(&self, key: u64, worker: u32) -> bool {
        self.find(key).is_some_and(|row| {
            let holders = self.crowds.of(self.held[row as usize]);
            holders.as_slice().iter().any(|h| h.worker == worker && h.tiers != 0)
        })
    }

    /// `worker` holds a block in a tier no longer: whether it did, and whether it holds it nowhere any
    /// more. None if no worker holds it.
    pub fn release(&mut self, key: u64, worker: u32, tier: TierId) -> Option<(bool, bool)> {
        let row = self.find(key)?;
        let held = &mut self.held[row as usize];
        if held.is_empty() {
            return None;
        }
        let done = self.crowds.remove(held, worker, tier);
        self.left(row);
        Some(done)
    }

    /// `worker` holds a block nowhere any more.
    pub fn release_all(&mut self, key: u64, worker: u32) {
        if let Some(row) = self.find(key)
            && self.crowds.remove_worker(&mut self.held[row as usize], worker)
        {
            self.left(row);
        }
    }

    /// A holder has left a block that had one.
    fn left(&mut self, row: Row) {
        if self.held[row as usize].is_empty() {
            self.live -= 1;
            if self.children[row as usize] == 0 {
                self.take_out(row);
            }
        }
    }

    /// `worker` holds nothing any more; how many blocks it held.
    pub fn forget_worker(&mut self, worker: u32) -> usize {
        let mut count = 0;
        // Tails first, mostly: then their rows are taken again in the order of a chain.
        for row in (0..self.keys.len() as Row).rev() {
            if self.crowds.remove_worker(&mut self.held[row as usize], worker) {
                count += 1;
                self.left(row);
            }
        }
        count
    }

    /// The holders of a block.
    #[inline]
    pub fn holders(&self, row: Row) -> Holders<'_> {
        self.crowds.of(self.held[row as usize])
    }

    /// The row of `key`, which mostly follows `before`.
    #[inline]
    pub fn find_after(&self, before: Row, key: u64) -> Option<Row> {
        self.next_to(before, key).or_else(|| self.find(key))
    }

    /// The row behind `before`, if it is that of `key`.
    #[inline]
    pub fn next_to(&self, before: Row, key: u64) -> Option<Row> {
        let next = before.wrapping_add(1);
        let there = self.keys.get(next as usize).is_some_and(|&there| there == key);
        (there && self.children[next as usize] != VACANT).then_some(next)
    }

    /// Whether the same workers hold two blocks in the same tiers.
    #[inline]
    pub fn held_alike(&self, row: Row, other: Row) -> bool {
        self.held[row as usize] == self.held[other as usize]
    }

    /// Whether `row` is linked to the block before it.
    #[inline]
    pub fn is_linked(&self, row: Row, before: Row) -> bool {
        self.parents[row as usize] == before
    }

    /// How many of `keys` follow `row`, each linked to the one before it and held by the same workers. The
    /// next one may do so as well.
    #[inline]
    pub fn run(&self, row: Row, keys: &[u64]) -> usize {
        let (from, held) = (row as usize + 1, self.held[row as usize].word());
        let most = keys.len().min(self.keys.len() - from);
        let columns = self.keys[from..][..most].chunks_exact(LANES);
        let columns = columns.zip(self.held[from..][..most].chunks_exact(LANES));
        let columns = columns.zip(self.parents[from..][..most].chunks_exact(LANES));
        let mut run = 0;
        for (((there, holders), parents), keys) in columns.zip(keys.chunks_exact(LANES)) {
            let before = row + run as Row;
            // Collects the differences of all words, without a branch for each block.
            let mut other = 0;
            for i in 0..LANES {
                other |= (there[i] ^ keys[i]) | (holders[i].word() ^ held);
            }
            let expected = parents.iter().zip(before..);
            let apart = expected.fold(0, |apart, (&parent, row)| apart | (parent ^ row));
            if other != 0 || apart != 0 {
                break;
            }
            run += LANES;
        }
        run
    }

    /// Another event begins.
    #[inline]
    pub fn tick(&mut self) {
        if self.now() >= u32::MAX - 1 {
            self.renumber();
        }
        *self.now.get_mut() += 1;
    }

    /// Another match begins; its tick. Where ticks have run out, it shares the last one.
    #[inline]
    pub fn tick_of_match(&self) -> u32 {
        let next = self.now().saturating_add(1).min(u32::MAX - 1);
        self.now.store(next, Relaxed);
        next
    }

    /// Subtracts 2^31 from every tick, so that the counter does not overflow. Blocks last used in the
    /// first half of the ticks count as equally old.
    fn renumber(&mut self) {
        const HALF: u32 = 1 << 31;
        *self.now.get_mut() -= HALF;
        for used in &mut self.used {
            *used.get_mut() = used.get_mut().saturating_sub(HALF);
        }
        self.queue_again();
    }

    fn queue_again(&mut self) {
        let rows = 0..self.keys.len() as Row;
        let leaves = rows.filter(|&row| self.children[row as usize] == 0);
        let leaf = |row: Row| Leaf { used: self.used(row), key: self.keys[row as usize], row };
        let leaves: Vec<Leaf> = leaves.map(leaf).collect();
        self.leaves.refill(leaves);
    }

    /// Gives memory back that is no longer needed.
    pub fn tidy(&mut self) {
        if self.leaves.len() > 2 * self.rows().max(FEW) {
            self.queue_again();
        }
        let room = self.keys.capacity();
        if room > 2 * RESERVE && self.rows() < room / 8 {
            self.shrink();
        }
    }

    /// Moves the rows together so that none stands empty between them; their order stays.
    fn shrink(&mut self) {
        let mut smaller = Self::new(self.rows().max(RESERVE).min(self.capacity));
        let mut moved = vec![NONE; self.keys.len()];
        for at in (0..self.keys.len()).filter(|&at| self.children[at] != VACANT) {
            let (key, held) = (self.keys[at], self.held[at]);
            let node = Node { key, held, parent: self.parents[at], children: self.children[at] };
            moved[at] = smaller.insert(node, self.used(at as Row));
        }
        for parent in smaller.parents.iter_mut().filter(|parent| **parent != NONE) {
            *parent = moved[*parent as usize];
        }
        smaller.crowds = std::mem::take(&mut self.crowds);
        smaller.now = AtomicU32::new(self.now());
        (smaller.capacity, smaller.live) = (self.capacity, self.live);
        smaller.dropped = self.dropped;
        *self = smaller;
        self.queue_again();
    }

    /// Counts that must agree; for tests.
    pub fn check(&self) -> Result<(), String> {
        let taken = |at: &usize| self.children[*at] != VACANT;
        let rows: Vec<usize> = (0..self.keys.len()).filter(taken).collect();
        let live = rows.iter().filter(|&&at| !self.held[at].is_empty()).count();
        let mut children = vec![0; self.keys.len()];
        let mut crowds = hashbrown::HashMap::<u64, u32>::new();
        for &at in &rows {
            let (key, parent) = (self.keys[at], self.parents[at]);
            if self.find(key) != Some(at as Row) {
                return Err(format!("{key}: not found in row {at}"));
            }
            if parent != NONE {
                children[parent as usize] += 1;
            }
            *crowds.entry(self.held[at].word()).or_default() += 1;
        }
        for &at in &rows {
            let (says, counted) = (self.children[at], children[at]);
            if counted != says || (counted == 0 && self.held[at].is_empty()) {
                return Err(format!("row {at}: {counted} blocks are linked to it, not {says}"));
            }
        }
        if let Some(wrong) =
            self.crowds.counted().find(|(held, n)| crowds.get(&held.word()) != Some(n))
        {
            return Err(format!("{wrong:?}: a crowd counts other blocks than it has"));
        }
        let places = (rows.len(), live, self.rows());
        let right = live == self.live && places.0 == places.2 && rows.len() <= self.capacity;
        if right { Ok(()) } else { Err(format!("(blocks, held, rows) = {places:?}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::holders::Holder;
    use super::*;

    #[test]
    fn ticks_that_run_out_keep_the_order_of_the_last_ones() {
        let mut nodes = Nodes::new(3);
        nodes.now = AtomicU32::new(u32::MAX - 3);
        for key in 1..=5 {
            nodes.tick();
            let mut chain = nodes.begin(None);
            assert!(nodes.place(&mut chain, key, Holder::new(0, 0), false));
            nodes.end(&chain);
        }
        assert!(!nodes.contains(1) && !nodes.contains(2) && nodes.contains(3));
        assert_eq!((nodes.check(), nodes.now()), (Ok(()), (1 << 31) + 1));
    }
}
