//! A heap of blocks by rank in which any block can be found again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::pool::{BlockId, NIL, Pool};

/// A block and its rank; the lower is evicted first, of equals the lower id. A lower retention priority goes
/// before any rank.
///
/// Retention priority (8 bits), rank (128) and block (32) lie in one number of 192 bits, the order of which is that
/// of the heap: one comparison, and priorities cost nothing in a pool that has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    high: u64,
    middle: u64,
    low: u64,
}

impl Entry {
    #[inline]
    pub fn new(bucket: u8, rank: u128, block: BlockId) -> Self {
        Self {
            high: (u64::from(bucket) << 56) | (rank >> 72) as u64,
            middle: (rank >> 8) as u64,
            low: ((rank as u64) << 56) | u64::from(block),
        }
    }

    /// A cached block with the retention priority that it has.
    #[inline]
    pub fn of(pool: &Pool, block: BlockId, rank: u128) -> Self {
        Self::new(pool.priority(block), rank, block)
    }

    #[inline]
    pub fn bucket(self) -> u8 {
        (self.high >> 56) as u8
    }

    #[inline]
    pub fn rank(self) -> u128 {
        (u128::from(self.high) << 72) | (u128::from(self.middle) << 8) | u128::from(self.low >> 56)
    }

    #[inline]
    pub fn block(self) -> BlockId {
        self.low as BlockId
    }

    /// Retention priority and rank, without the rank's lowest 8 bits. It is below 2^127, because a
    /// retention priority is at most 100.
    #[inline]
    fn top(&self) -> i128 {
        (i128::from(self.high) << 64) | i128::from(self.middle)
    }

    /// Whether it is evicted before `other`: the sign of a difference, without a branch to mispredict.
    #[inline]
    fn is_before(&self, other: &Self) -> bool {
        self.top() - other.top() < i128::from(self.low < other.low)
    }
}

/// A 4-ary heap. Where each block stands in it is in a column of its owner's, so that several heaps
/// that share no block can share the column.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heap {
    entries: Vec<Entry>,
}

const ARITY: usize = 4;

/// Of four children the one that is evicted first.
#[inline]
fn least(four: &[Entry; ARITY]) -> usize {
    let a = usize::from(four[1].is_before(&four[0]));
    let b = 2 + usize::from(four[3].is_before(&four[2]));
    if four[b].is_before(&four[a]) { b } else { a }
}

impl Heap {
    /// The entry that is evicted first.
    #[inline]
    pub fn first(&self) -> Option<Entry> {
        self.entries.first().copied()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The first `most` entries, in order; it takes as long as that is, and not as the heap.
    pub fn first_few(&self, most: usize) -> Vec<Entry> {
        if most >= self.entries.len() {
            let mut all = self.entries.clone();
            all.sort_unstable();
            return all;
        }
        let mut next: BinaryHeap<_> =
            self.first().map(|first| Reverse((first, 0))).into_iter().collect();
        let mut few = Vec::with_capacity(most);
        while few.len() < most
            && let Some(Reverse((entry, at))) = next.pop()
        {
            few.push(entry);
            let below = (at * ARITY + 1..self.entries.len()).take(ARITY);
            next.extend(below.map(|below| Reverse((self.entries[below], below))));
        }
        few
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    #[inline]
    fn set(&mut self, places: &mut [u32], at: usize, entry: Entry) {
        places[entry.block() as usize] = at as u32;
        self.entries[at] = entry;
    }

    fn up(&mut self, places: &mut [u32], mut at: usize, entry: Entry) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !entry.is_before(&self.entries[parent]) {
                break;
            }
            self.set(places, at, self.entries[parent]);
            at = parent;
        }
        self.set(places, at, entry);
    }

    /// Moves the hole at `at` down to a place without children. Returns that place.
    fn sink(&mut self, places: &mut [u32], mut at: usize) -> usize {
        loop {
            let first = at * ARITY + 1;
            let four = self.entries.get(first..).and_then(<[Entry]>::first_chunk);
            let next = if let Some(four) = four {
                first + least(four)
            } else {
                let entries = &self.entries;
                let sooner = |a: usize, b: usize| {
                    if entries[b].is_before(&entries[a]) { b } else { a }
                };
                let Some(next) = (first..entries.len()).reduce(sooner) else { return at };
                next
            };
            self.set(places, at, self.entries[next]);
            at = next;
        }
    }

    /// Adds a block that is in no heap of these `places`, which must reach to it.
    pub fn push(&mut self, places: &mut [u32], entry: Entry) {
        self.entries.push(entry);
        self.up(places, self.entries.len() - 1, entry);
    }

    /// Takes out the block at `at`.
    pub fn take_out(&mut self, places: &mut [u32], at: usize) {
        places[self.entries[at].block() as usize] = NIL;
        let last = self.entries.pop().expect("there is one at `at`");
        if at == self.entries.len() {
            return;
        }
        // The last one mostly belongs near the bottom: the hole goes there first, and the few steps
        // that it has to rise again cost less than comparing it on the way down.
        let hole = self.sink(places, at);
        self.up(places, hole, last);
    }

    /// Checks that all blocks in the heap may be evicted, and that their entries hold their present
    /// priorities.
    pub fn validate_blocks(&self, pool: &Pool) -> Result<(), String> {
        if let Some(entry) = self.entries.iter().find(|e| !pool.is_evictable(e.block())) {
            return Err(format!("block {} may not be evicted", entry.block()));
        }
        match self.entries.iter().find(|e| pool.priority(e.block()) != e.bucket()) {
            None => Ok(()),
            Some(entry) => {
                let (block, bucket) = (entry.block(), entry.bucket());
                Err(format!("block {block} has priority {}, not {bucket}", pool.priority(block)))
            }
        }
    }

    /// What is out of order, if anything.
    pub fn validate(&self, places: &[u32]) -> Result<(), String> {
        for (at, entry) in self.entries.iter().enumerate() {
            if places[entry.block() as usize] != at as u32 {
                return Err(format!("block {} is misplaced", entry.block()));
            }
            if at > 0 && entry.is_before(&self.entries[(at - 1) / ARITY]) {
                return Err(format!("heap order broken at {at}"));
            }
        }
        Ok(())
    }
}
