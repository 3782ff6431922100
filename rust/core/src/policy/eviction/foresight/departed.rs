//! Blocks that are gone, remembered for a while by their keys.

use super::lists::{LATEST, MOST_USES};
use crate::hash::Key;

/// What is remembered of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Departure {
    /// Part of its key. Another key is taken for it in 2^-13 of all questions: a use counted wrongly.
    pub tag: u16,
    pub uses: u8,
    pub class: u8,
    /// Block accesses when it was used last.
    pub time: u64,
}

impl Departure {
    /// One word, never 0: from the lowest bit, time (38 bits), uses (4), class and 1 (6), tag (16).
    fn word(self) -> u64 {
        let class = u64::from(self.class) + 1;
        let uses = u64::from(self.uses.min(MOST_USES));
        self.time.min(LATEST) | uses << 38 | class << 42 | u64::from(self.tag) << 48
    }

    fn of_word(word: u64) -> Option<Self> {
        let class = ((word >> 42) as u8 & 63).checked_sub(1)?;
        let (uses, tag) = ((word >> 38) as u8 & MOST_USES, (word >> 48) as u16);
        Some(Self { tag, uses, class, time: word & LATEST })
    }
}

/// Words of a set: one cache line of 64 bytes.
const WAYS: usize = 8;

/// A table of fixed size; of a set, the entry that came first is forgotten. Every question is one
/// cache line, and nothing is allocated after the first block has gone. An empty table is all
/// zeros, which the system hands out page by page as they are written: its size costs the first
/// block nothing.
#[derive(Debug, Default)]
pub(super) struct Departures {
    words: Vec<u64>,
    sets: usize,
    /// The first word that begins a cache line.
    first: usize,
}

impl Clone for Departures {
    fn clone(&self) -> Self {
        let mut clone = Self::default();
        if self.is_reserved() {
            clone.reserve(self.sets * WAYS);
            let (from, to) = (self.first, clone.first);
            let all = self.sets * WAYS;
            clone.words[to..to + all].copy_from_slice(&self.words[from..from + all]);
        }
        clone
    }
}

impl Departures {
    /// Room for about `blocks`, a power of two of sets. Empties the table.
    pub fn reserve(&mut self, blocks: usize) {
        self.sets = (blocks / WAYS).max(1).next_power_of_two();
        self.words = vec![0; (self.sets + 1) * WAYS];
        self.first = self.words.as_ptr().align_offset(WAYS * size_of::<u64>()).min(WAYS - 1);
    }

    pub fn is_reserved(&self) -> bool {
        self.sets > 0
    }

    /// Where the set of a key begins.
    fn place(&self, mixed: u64) -> usize {
        self.first + ((mixed >> 32) as usize & (self.sets - 1)) * WAYS
    }

    fn set(&mut self, at: usize) -> &mut [u64; WAYS] {
        self.words[at..].first_chunk_mut().expect("a set is whole")
    }

    /// Remembers a block that is not remembered; returns the one that is forgotten for it.
    pub fn add(&mut self, key: Key, class: u8, uses: u8, time: u64) -> Option<Departure> {
        let mixed = key.mixed();
        let (at, tag) = (self.place(mixed), mixed as u16);
        let set = self.set(at);
        let (before, new) = (*set, Departure { tag, uses, class, time }.word());
        *set = std::array::from_fn(|way| if way == 0 { new } else { before[way - 1] });
        Departure::of_word(before[WAYS - 1])
    }

    /// What is remembered under a key, which is forgotten now. `mixed` is [`Key::mixed`].
    #[inline]
    pub fn take(&mut self, mixed: u64) -> Option<Departure> {
        if !self.is_reserved() {
            return None;
        }
        let (at, tag) = (self.place(mixed), mixed as u16);
        let set = self.set(at);
        let way = set.iter().position(|&word| word > 0 && (word >> 48) as u16 == tag)?;
        let gone = set[way];
        set.copy_within(way + 1.., way);
        set[WAYS - 1] = 0;
        Departure::of_word(gone)
    }

    /// All that are remembered.
    #[cfg(test)]
    pub fn len(&self) -> u64 {
        self.words.iter().filter(|&&word| word > 0).count() as u64
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
        assert!(!departed.is_reserved() && departed.take(key(0).mixed()).is_none());
        departed.reserve(100);
        for x in 0..12 {
            assert_eq!(departed.add(key(x), x as u8, x as u8 + 1, x), None);
        }
        assert_eq!(departed.len(), 12);
        for x in 0..12 {
            let gone = departed.take(key(x).mixed()).expect("there is room for all");
            assert_eq!((gone.class, gone.uses, gone.time), (x as u8, x as u8 + 1, x));
            assert_eq!(departed.take(key(x).mixed()), None);
        }
        assert_eq!(departed.len(), 0);
    }

    #[test]
    fn of_one_key_the_last_departure_is_known() {
        let mut departed = Departures::default();
        departed.reserve(8);
        assert_eq!(departed.add(key(1), 1, 1, 10), None);
        assert_eq!(departed.add(key(1), 2, 2, 20), None);
        assert_eq!(departed.take(key(1).mixed()).map(|gone| gone.time), Some(20));
    }

    #[test]
    fn of_a_full_set_the_one_that_came_first_is_forgotten() {
        let mut departed = Departures::default();
        departed.reserve(WAYS);
        // One set: every key goes there. Times are out of order.
        for time in [40, 10, 30, 20, 80, 70, 60, 50] {
            assert_eq!(departed.add(key(time), 0, 1, time), None);
        }
        let forgotten = [90, 100].map(|time| departed.add(key(time), 0, 1, time));
        assert_eq!(forgotten.map(|gone| gone.map(|gone| gone.time)), [Some(40), Some(10)]);
        assert_eq!((departed.take(key(10).mixed()), departed.len()), (None, WAYS as u64));
        assert!(
            [30, 20, 80, 70, 60, 50, 90, 100]
                .iter()
                .all(|&t| departed.take(key(t).mixed()).is_some())
        );
        departed.add(key(1), 0, 1, 1);
        departed.reserve(WAYS);
        assert_eq!(departed.len(), 0, "reserving empties the table");
    }
}
