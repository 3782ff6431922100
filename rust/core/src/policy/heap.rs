//! A heap of blocks by rank in which any block can be found again.

use crate::pool::{BlockId, NIL, Pool};

/// A block and its rank; the lower dies first, of equals the lower id. A lower retention priority goes
/// before any rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub rank: u128,
    pub block: BlockId,
    pub band: u8,
}

impl Entry {
    /// A cached block with the retention priority that it has.
    #[inline]
    pub fn of(pool: &Pool, block: BlockId, rank: u128) -> Self {
        Self { rank, block, band: pool.priority(block) }
    }
}

/// A 4-ary heap. Where each block stands in it is in a column of its owner's, so that several heaps
/// that share no block can share the column.
#[derive(Debug, Clone, Default)]
pub(super) struct Heap {
    entries: Vec<Entry>,
}

const ARITY: usize = 4;

pub(super) fn before(a: &Entry, b: &Entry) -> bool {
    (a.band, a.rank, a.block) < (b.band, b.rank, b.block)
}

impl Heap {
    /// The entry that dies first.
    #[inline]
    pub fn first(&self) -> Option<Entry> {
        self.entries.first().copied()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn set(&mut self, places: &mut [u32], at: usize, entry: Entry) {
        places[entry.block as usize] = at as u32;
        self.entries[at] = entry;
    }

    fn up(&mut self, places: &mut [u32], mut at: usize, entry: Entry) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !before(&entry, &self.entries[parent]) {
                break;
            }
            self.set(places, at, self.entries[parent]);
            at = parent;
        }
        self.set(places, at, entry);
    }

    fn down(&mut self, places: &mut [u32], mut at: usize, entry: Entry) {
        loop {
            let first = at * ARITY + 1;
            let end = (first + ARITY).min(self.entries.len());
            let Some(least) = (first..end)
                .reduce(|a, b| if before(&self.entries[b], &self.entries[a]) { b } else { a })
            else {
                break;
            };
            if !before(&self.entries[least], &entry) {
                break;
            }
            self.set(places, at, self.entries[least]);
            at = least;
        }
        self.set(places, at, entry);
    }

    /// Adds a block that is in no heap of these `places`, which must reach to it.
    pub fn push(&mut self, places: &mut [u32], entry: Entry) {
        self.entries.push(entry);
        self.up(places, self.entries.len() - 1, entry);
    }

    /// Takes out the block at `at`.
    pub fn take_out(&mut self, places: &mut [u32], at: usize) {
        let gone = self.entries[at];
        places[gone.block as usize] = NIL;
        let last = self.entries.pop().expect("there is one at `at`");
        if last.block == gone.block {
            return;
        }
        if at > 0 && before(&last, &self.entries[(at - 1) / ARITY]) {
            self.up(places, at, last);
        } else {
            self.down(places, at, last);
        }
    }

    /// Whether all of its blocks may die, and have the priority they stand at.
    pub fn validate_blocks(&self, pool: &Pool) -> Result<(), String> {
        if let Some(entry) = self.entries.iter().find(|e| !pool.is_evictable(e.block)) {
            return Err(format!("block {} may not die", entry.block));
        }
        match self.entries.iter().find(|e| pool.priority(e.block) != e.band) {
            None => Ok(()),
            Some(&Entry { block, band, .. }) => {
                Err(format!("block {block} has priority {}, not {band}", pool.priority(block)))
            }
        }
    }

    /// What is out of order, if anything.
    pub fn validate(&self, places: &[u32]) -> Result<(), String> {
        for (at, entry) in self.entries.iter().enumerate() {
            if places[entry.block as usize] != at as u32 {
                return Err(format!("block {} is misplaced", entry.block));
            }
            if at > 0 && before(entry, &self.entries[(at - 1) / ARITY]) {
                return Err(format!("heap order broken at {at}"));
            }
        }
        Ok(())
    }
}
