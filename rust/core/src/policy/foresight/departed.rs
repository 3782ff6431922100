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

#[cfg(test)]
mod tests {
    use super::*;

    fn key(x: u64) -> Key {
        let mixed = (x + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Key((u128::from(mixed ^ (mixed >> 29)) << 64) | u128::from(x))
    }

    #[test]
    fn what_has_gone_is_known_until_it_is_asked_for() {
        let mut departed = Departed::default();
        assert!(!departed.is_reserved() && departed.take(key(0)).is_none());
        departed.reserve(100);
        for x in 0..20 {
            assert_eq!(departed.add(key(x), x as u8, x as u16 + 1, x), None);
        }
        assert_eq!(departed.len(), 20);
        for x in 0..20 {
            let gone = departed.take(key(x)).expect("there is room for all");
            assert_eq!((gone.class, gone.uses, gone.time), (x as u8, x as u16 + 1, x));
            assert_eq!(departed.take(key(x)), None);
        }
        assert_eq!(departed.len(), 0);
    }

    #[test]
    fn one_key_is_remembered_once() {
        let mut departed = Departed::default();
        departed.reserve(8);
        departed.add(key(1), 1, 1, 10);
        let before = departed.add(key(1), 2, 2, 20).expect("the older one gives way");
        assert_eq!((before.class, before.time, departed.len()), (1, 10, 1));
        assert_eq!(departed.take(key(1)).map(|gone| gone.time), Some(20));
    }

    #[test]
    fn of_a_full_set_the_one_idle_longest_is_forgotten() {
        let mut departed = Departed::default();
        departed.reserve(WAYS);
        // One set: every key goes there. Times are out of order.
        for time in [40, 10, 30, 20] {
            assert_eq!(departed.add(key(time), 0, 1, time), None);
        }
        let forgotten = [50, 60].map(|time| departed.add(key(time), 0, 1, time));
        assert_eq!(forgotten.map(|gone| gone.map(|gone| gone.time)), [Some(10), Some(20)]);
        assert_eq!((departed.take(key(10)), departed.len()), (None, WAYS as u64));
        assert!([30, 40, 50, 60].iter().all(|&time| departed.take(key(time)).is_some()));
        departed.add(key(1), 0, 1, 1);
        departed.reserve(WAYS);
        assert_eq!(departed.len(), 0, "reserving empties the table");
    }
}
