//! Blocks that are gone, remembered for a while by their keys.

use super::column::History;

/// What is remembered of a block: its history, and part of its key in the 16 bits above. Another key is taken
/// for it in 2^-13 of all questions: a use counted wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Departure(u64);

const TAG: u32 = 48;

impl Departure {
    /// Never 0: a block was used once at the least.
    fn new(mixed: u64, history: History) -> Self {
        Self(history.word() | mixed << TAG)
    }

    fn of_word(word: u64) -> Option<Self> {
        (word > 0).then_some(Self(word))
    }

    pub fn history(self) -> History {
        History::of_word(self.0)
    }

    pub fn tag(self) -> u16 {
        (self.0 >> TAG) as u16
    }
}

/// Words of a set: one cache line of 64 bytes.
const WAYS: usize = 8;
/// Sets of a piece: one page of 4 KiB.
const SETS: usize = 64;

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Set([u64; WAYS]);

type Piece = [Set; SETS];

/// A table of fixed size. The entries of a set stand in a row, the latest first, and words without an entry
/// before and behind them; of a full set, the entry that came first is forgotten. Every question is one
/// cache line. The table is made piece by piece as they are written, so that its size costs the first
/// block nothing: zeroing, or even mapping, all of it at once takes milliseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Departures {
    pieces: Vec<Option<Box<Piece>>>,
    /// The last set.
    last: usize,
}

#[cold]
#[inline(never)]
fn empty_piece() -> Box<Piece> {
    Box::new([Set([0; WAYS]); SETS])
}

impl Departures {
    /// Room for about `blocks`, a power of two of sets. Empties the table.
    pub fn reserve(&mut self, blocks: usize) {
        let sets = (blocks / WAYS).max(1).next_power_of_two();
        self.last = sets - 1;
        self.pieces = vec![None; sets.div_ceil(SETS)];
    }

    #[inline]
    pub fn is_reserved(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// The set of a key.
    #[inline]
    fn place(&self, mixed: u64) -> usize {
        (mixed >> 32) as usize & self.last
    }

    /// Remembers a block that is not remembered; returns the one that is forgotten for it. `mixed` is
    /// [`Key::mixed`](crate::hash::Key::mixed).
    #[inline]
    pub fn add(&mut self, mixed: u64, history: History) -> Option<Departure> {
        let (at, Departure(new)) = (self.place(mixed), Departure::new(mixed, history));
        let piece = self.pieces[at / SETS].get_or_insert_with(empty_piece);
        let Set(set) = &mut piece[at % SETS];
        if set[0] == 0 {
            let first = set.iter().position(|&word| word > 0).unwrap_or(1);
            set[first - 1] = new;
            return None;
        }
        let before = *set;
        *set = std::array::from_fn(|way| if way == 0 { new } else { before[way - 1] });
        Departure::of_word(before[WAYS - 1])
    }

    /// The word of the set of a key that the next one in it is written over or before.
    #[inline]
    pub fn newest(&self, mixed: u64) -> Option<u64> {
        let at = self.place(mixed);
        let piece = self.pieces.get(at / SETS)?.as_ref()?;
        Some(piece[at % SETS].0[0])
    }

    /// What is remembered under a key, which is forgotten now.
    #[inline]
    pub fn take(&mut self, mixed: u64) -> Option<Departure> {
        let (at, tag) = (self.place(mixed), mixed << TAG);
        let piece = self.pieces.get_mut(at / SETS)?.as_mut()?;
        let Set(set) = &mut piece[at % SETS];
        let is_own = |word: u64| (word ^ tag).wrapping_sub(1) < (1 << TAG) - 1;
        // Those that came after it move up on the way to it.
        let mut later = 0;
        for slot in &mut *set {
            let word = std::mem::replace(slot, later);
            if is_own(word) {
                return Departure::of_word(word);
            }
            later = word;
        }
        set.copy_within(1.., 0);
        set[WAYS - 1] = later;
        None
    }

    /// All that are remembered.
    #[cfg(test)]
    pub fn len(&self) -> u64 {
        let words = self.pieces.iter().flatten().flat_map(|piece| &**piece).flat_map(|set| &set.0);
        words.filter(|&&word| word > 0).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Key;

    fn key(x: u64) -> u64 {
        let mixed = (x + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Key((u128::from(mixed ^ (mixed >> 29)) << 64) | u128::from(x)).mixed()
    }

    fn time(gone: Departure) -> u64 {
        gone.history().time()
    }

    #[test]
    fn what_has_gone_is_known_until_it_is_asked_for() {
        let mut departed = Departures::default();
        assert!(!departed.is_reserved() && departed.take(key(0)).is_none());
        departed.reserve(100);
        for x in 0..12 {
            assert_eq!(departed.add(key(x), History::new(x as u8, x as u8 + 1, x)), None);
        }
        assert_eq!(departed.len(), 12);
        for x in 0..12 {
            let gone = departed.take(key(x)).expect("there is room for all");
            assert_eq!(gone.history(), History::new(x as u8, x as u8 + 1, x));
            assert_eq!(departed.take(key(x)), None);
        }
        assert_eq!(departed.len(), 0);
    }

    #[test]
    fn only_what_is_written_has_memory() {
        let mut departed = Departures::default();
        departed.reserve(1 << 16);
        let pieces =
            |departed: &Departures| departed.pieces.iter().filter(|piece| piece.is_some()).count();
        assert_eq!((departed.take(key(1)), departed.newest(key(1))), (None, None));
        assert_eq!((pieces(&departed), departed.pieces.len()), (0, 128));
        let history = History::new(1, 1, 10);
        departed.add(key(1), history);
        assert_eq!(departed.newest(key(1)), Some(Departure::new(key(1), history).0));
        assert_eq!(pieces(&departed), 1);
    }

    #[test]
    fn of_one_key_the_last_departure_is_known() {
        let mut departed = Departures::default();
        departed.reserve(8);
        assert_eq!(departed.add(key(1), History::new(1, 1, 10)), None);
        assert_eq!(departed.add(key(1), History::new(2, 2, 20)), None);
        assert_eq!(departed.take(key(1)).map(time), Some(20));
    }

    #[test]
    fn of_a_full_set_the_one_that_came_first_is_forgotten() {
        let mut departed = Departures::default();
        departed.reserve(WAYS);
        // One set: every key goes there. Times are out of order.
        for time in [40, 10, 30, 20, 80, 70, 60, 50] {
            assert_eq!(departed.add(key(time), History::new(0, 1, time)), None);
        }
        let forgotten = [90, 100].map(|time| departed.add(key(time), History::new(0, 1, time)));
        assert_eq!(forgotten.map(|gone| gone.map(self::time)), [Some(40), Some(10)]);
        assert_eq!((departed.take(key(10)), departed.len()), (None, WAYS as u64));
        assert!([30, 20, 80, 70, 60, 50, 90, 100].iter().all(|&t| departed.take(key(t)).is_some()));
        departed.add(key(1), History::new(0, 1, 1));
        departed.reserve(WAYS);
        assert_eq!(departed.len(), 0, "reserving empties the table");
    }

    #[test]
    fn what_is_taken_leaves_room_and_the_others_in_their_order() {
        let mut departed = Departures::default();
        departed.reserve(WAYS);
        let add = |departed: &mut Departures, time: u64| {
            departed.add(key(time), History::new(0, 1, time)).map(self::time)
        };
        assert!((0..8).all(|time| add(&mut departed, time).is_none()));
        for taken in [5, 3, 7] {
            assert_eq!(departed.take(key(taken)).map(time), Some(taken));
        }
        assert_eq!(
            [8, 9, 10, 11, 12].map(|time| add(&mut departed, time)),
            [None, None, None, Some(0), Some(1)]
        );
        assert_eq!(departed.take(key(99)), None);
        let rest = [13, 14, 15, 16].map(|time| add(&mut departed, time));
        assert_eq!(rest, [2, 4, 6, 8].map(Some));
    }
}
