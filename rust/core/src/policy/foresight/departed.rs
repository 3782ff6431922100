//! Blocks that are gone, remembered for a while by their keys.

use crate::hash::Key;

/// What is remembered of a block: 16 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Gone {
    /// Part of its key. Two keys are taken for one in 2^-30 of all questions: a use counted wrongly.
    tag: u32,
    pub uses: u16,
    pub class: u8,
    known: bool,
    /// Block accesses when it was used last.
    pub time: u64,
}

const WAYS: usize = 4;

/// What shares a hash: one cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Set([Gone; WAYS]);

/// A table of fixed size; of its set, the one idle longest gives way. Every question is one cache
/// line, and nothing is allocated after the first block has gone.
#[derive(Debug, Clone, Default)]
pub(super) struct Departed {
    sets: Vec<Set>,
}

impl Departed {
    /// Room for about `blocks`, a power of two of sets. Empties the table.
    pub fn reserve(&mut self, blocks: usize) {
        self.sets = vec![Set::default(); (blocks / WAYS).max(1).next_power_of_two()];
    }

    pub fn is_reserved(&self) -> bool {
        !self.sets.is_empty()
    }

    fn place(&self, key: Key) -> (usize, u32) {
        // Keys are hashes already.
        let upper = (key.0 >> 64) as u64;
        ((upper >> 32) as usize & (self.sets.len() - 1), upper as u32)
    }

    /// Remembers a block; returns the one that is forgotten for it.
    pub fn add(&mut self, key: Key, class: u8, uses: u16, time: u64) -> Option<Gone> {
        let (set, tag) = self.place(key);
        let ways = &mut self.sets[set].0;
        let gone = Gone { tag, uses, class, known: true, time };
        let same = ways.iter().position(|w| w.known && w.tag == tag);
        let oldest = || (0..WAYS).min_by_key(|&w| (ways[w].known, ways[w].time)).unwrap_or(0);
        let way = same.unwrap_or_else(oldest);
        let before = std::mem::replace(&mut ways[way], gone);
        before.known.then_some(before)
    }

    /// What is remembered under `key`, which is forgotten now.
    pub fn take(&mut self, key: Key) -> Option<Gone> {
        if self.sets.is_empty() {
            return None;
        }
        let (set, tag) = self.place(key);
        let way = self.sets[set].0.iter_mut().find(|w| w.known && w.tag == tag)?;
        Some(std::mem::take(way))
    }

    /// All that are remembered.
    #[cfg(test)]
    pub fn len(&self) -> u64 {
        self.sets.iter().flat_map(|set| set.0).filter(|gone| gone.known).count() as u64
    }
}
