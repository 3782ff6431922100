//! Blocks that are gone, remembered for a while by their keys.

use crate::hash::Key;

/// What is remembered of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Departure {
    /// Part of its key. Two keys are taken for one in 2^-30 of all questions: a use counted wrongly.
    tag: u32,
    pub uses: u16,
    pub class: u8,
    /// Block accesses when it was used last.
    pub time: u64,
}

impl Departure {
    /// Two words, of which the first is not 0.
    fn words(self) -> [u64; 2] {
        let head = u64::from(self.tag) | u64::from(self.uses) << 32 | u64::from(self.class) << 48;
        [head | KNOWN, self.time]
    }

    fn of_words(words: [u64; 2]) -> Option<Self> {
        let [head, time] = words;
        let (tag, uses, class) = (head as u32, (head >> 32) as u16, (head >> 48) as u8);
        (head & KNOWN > 0).then_some(Self { tag, uses, class, time })
    }
}

const KNOWN: u64 = 1 << 63;
const WAYS: usize = 4;
/// Words of a set: one cache line of 64 bytes.
const SET: usize = 2 * WAYS;

/// A table of fixed size; within a set, the entry idle longest is replaced. Every question is one
/// cache line, and nothing is allocated after the first block has gone. An empty table is all
/// zeros, which the system hands out page by page as they are written: its size costs the first
/// block nothing.
#[derive(Debug, Default)]
pub(super) struct Departures {
    words: Vec<u64>,
    sets: usize,
}

impl Clone for Departures {
    fn clone(&self) -> Self {
        let mut clone = Self::default();
        if self.is_reserved() {
            clone.reserve(self.sets * WAYS);
            let (from, to) = (self.first(), clone.first());
            let all = self.sets * SET;
            clone.words[to..to + all].copy_from_slice(&self.words[from..from + all]);
        }
        clone
    }
}

impl Departures {
    /// Room for about `blocks`, a power of two of sets. Empties the table.
    pub fn reserve(&mut self, blocks: usize) {
        self.sets = (blocks / WAYS).max(1).next_power_of_two();
        self.words = vec![0; (self.sets + 1) * SET];
    }

    pub fn is_reserved(&self) -> bool {
        self.sets > 0
    }

    /// The first word that begins a cache line.
    fn first(&self) -> usize {
        self.words.as_ptr().align_offset(SET * size_of::<u64>()).min(SET - 1)
    }

    /// Where the set of a key begins, and the key's tag.
    fn place(&self, key: Key) -> (usize, u32) {
        let mixed = key.mixed();
        (self.first() + ((mixed >> 32) as usize & (self.sets - 1)) * SET, mixed as u32)
    }

    fn way(&self, set: usize, way: usize) -> Option<Departure> {
        let at = set + 2 * way;
        Departure::of_words([self.words[at], self.words[at + 1]])
    }

    fn put(&mut self, set: usize, way: usize, words: [u64; 2]) {
        self.words[set + 2 * way..][..2].copy_from_slice(&words);
    }

    /// Remembers a block; returns the one that is forgotten for it.
    pub fn add(&mut self, key: Key, class: u8, uses: u16, time: u64) -> Option<Departure> {
        let (set, tag) = self.place(key);
        let ways: [_; WAYS] = std::array::from_fn(|way| self.way(set, way));
        let same = ways.iter().position(|way| way.is_some_and(|gone| gone.tag == tag));
        let oldest = || (0..WAYS).min_by_key(|&way| ways[way].map(|gone| gone.time)).unwrap_or(0);
        let way = same.unwrap_or_else(oldest);
        self.put(set, way, Departure { tag, uses, class, time }.words());
        ways[way]
    }

    /// What is remembered under `key`, which is forgotten now.
    pub fn take(&mut self, key: Key) -> Option<Departure> {
        if !self.is_reserved() {
            return None;
        }
        let (set, tag) = self.place(key);
        let same = |&(_, gone): &(usize, Departure)| gone.tag == tag;
        let known = (0..WAYS).filter_map(|way| Some((way, self.way(set, way)?)));
        let (way, gone) = known.into_iter().find(same)?;
        self.put(set, way, [0; 2]);
        Some(gone)
    }

    /// All that are remembered.
    #[cfg(test)]
    pub fn len(&self) -> u64 {
        let ways = (0..self.sets).flat_map(|set| (0..WAYS).map(move |way| (set, way)));
        ways.filter(|&(set, way)| self.way(self.first() + set * SET, way).is_some()).count() as u64
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
        let mut departed = Departures::default();
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
        let mut departed = Departures::default();
        departed.reserve(8);
        departed.add(key(1), 1, 1, 10);
        let before = departed.add(key(1), 2, 2, 20).expect("the older one gives way");
        assert_eq!((before.class, before.time, departed.len()), (1, 10, 1));
        assert_eq!(departed.take(key(1)).map(|gone| gone.time), Some(20));
    }

    #[test]
    fn of_a_full_set_the_one_idle_longest_is_forgotten() {
        let mut departed = Departures::default();
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
