//! How often keys were asked for, roughly and in little room: a count-min sketch (Cormode and
//! Muthukrishnan, J. Algorithms 55(1), 2005) of four bits a counter, which forgets by halves (`TinyLFU`:
//! Einziger, Friedman and Manes, ACM TOS 13(4), 2017).

use crate::hash::Key;

const ROWS: usize = 4;
/// Counters of a row for each block of the nominal capacity, before rounding up to a power of two.
const WIDTH: u64 = 4;
/// Additions for each block of the nominal capacity after which every count is halved.
const SAMPLE: u64 = 10;
/// What a counter can hold.
const MOST: u64 = 15;
/// The largest nominal capacity, of 128 MiB: keys of a larger pool share counters.
const LARGEST: u32 = 1 << 24;
/// Counters of a word, and their halves.
const COUNTERS: usize = 16;
const HALVES: u64 = 0x7777_7777_7777_7777;

/// Odd numbers that spread a key over each row.
const SPREAD: [u64; ROWS] =
    [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0xD6E8_FEB8_6659_FD93, 0xA076_1D64_78BD_642F];

/// 8 to 16 bytes for each block of the nominal capacity. Counting and asking are O(1).
#[derive(Debug, Clone, Default)]
pub(crate) struct Sketch {
    words: Vec<u64>,
    bits: u32,
    capacity: u64,
    /// Additions that the counts stand for.
    additions: u64,
}

impl Sketch {
    /// For `capacity` blocks. What was counted for fewer is forgotten.
    pub fn reserve(&mut self, capacity: u32) {
        let capacity = capacity.min(LARGEST);
        if u64::from(capacity) <= self.capacity {
            return;
        }
        let width = (WIDTH * u64::from(capacity)).next_power_of_two().max(COUNTERS as u64);
        *self = Self {
            words: vec![0; ROWS * width as usize / COUNTERS],
            bits: width.ilog2(),
            capacity: u64::from(capacity),
            additions: 0,
        };
    }

    /// The word and the bit where a key's counter of each row begins.
    fn places(&self, key: Key) -> [(usize, u32); ROWS] {
        let mixed = key.mixed();
        let words = self.words.len() / ROWS;
        std::array::from_fn(|row| {
            let at = (mixed.wrapping_mul(SPREAD[row]) >> (u64::BITS - self.bits)) as usize;
            (row * words + at / COUNTERS, (at % COUNTERS) as u32 * 4)
        })
    }

    /// `key` was asked for once more.
    pub fn add(&mut self, key: Key) {
        for (word, bit) in self.places(key) {
            if (self.words[word] >> bit) & MOST < MOST {
                self.words[word] += 1 << bit;
            }
        }
        self.additions += 1;
        if self.additions >= SAMPLE * self.capacity {
            self.words.iter_mut().for_each(|word| *word = (*word >> 1) & HALVES);
            self.additions /= 2;
        }
    }

    /// How often `key` was asked for, 15 at most. Between two halvings the count is never too low.
    pub fn count(&self, key: Key) -> u64 {
        let counts = self.places(key).map(|(word, bit)| (self.words[word] >> bit) & MOST);
        counts.into_iter().fold(MOST, u64::min)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const CAPACITY: u32 = 1_000;

    fn dice(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = *seed;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    fn key(x: u64) -> Key {
        let mut seed = x;
        Key((u128::from(dice(&mut seed)) << 64) | u128::from(x))
    }

    /// The theorem: with rows of width e / ε, a count is too high by more than ε times all additions
    /// with a chance of at most e^-rows, and never too low. Here ε = e / width.
    fn check(ids: impl Iterator<Item = u64>) -> f64 {
        let mut sketch = Sketch::default();
        sketch.reserve(CAPACITY);
        let mut counts = HashMap::new();
        for id in ids.take((SAMPLE * u64::from(CAPACITY)) as usize - 1) {
            sketch.add(key(id));
            *counts.entry(id).or_insert(0u64) += 1;
        }
        let width = f64::from(1u32 << sketch.bits);
        let bound = std::f64::consts::E / width * sketch.additions as f64;
        let (mut over, mut excess) = (0, 0);
        for (&id, &count) in &counts {
            let found = sketch.count(key(id));
            assert!(found >= count.min(MOST), "{id}: {found} of {count}");
            excess += found - count.min(MOST);
            over += usize::from(found as f64 > count as f64 + bound);
        }
        let share = over as f64 / counts.len() as f64;
        assert!(share <= (-(ROWS as f64)).exp(), "{share} of the counts are off by {bound}");
        excess as f64 / counts.len() as f64
    }

    #[test]
    fn counts_keep_the_bound_of_count_min_at_nominal_capacity() {
        for round in 0..5 {
            // As many keys as additions, few keys used often, and a heavy head with a long tail.
            let base = round << 40;
            let mean = check((0..).map(|i| base + i));
            assert!(mean < 2.0, "counts are off by {mean} where every key came once");
            assert!(check((0..).map(|i| base + i % u64::from(CAPACITY))) < 0.1);
            let mut seed = round;
            let skewed = std::iter::from_fn(|| {
                let one = (dice(&mut seed) >> 11) as f64 / (1u64 << 53) as f64;
                Some(base + (1e4f64.powf(one)) as u64)
            });
            assert!(check(skewed) < 1.0);
        }
    }

    #[test]
    fn counts_stop_at_fifteen_and_halve_at_ten_times_the_capacity() {
        let mut sketch = Sketch::default();
        sketch.reserve(CAPACITY);
        for _ in 0..20 {
            sketch.add(key(1));
        }
        assert_eq!((sketch.count(key(1)), sketch.count(key(2))), (15, 0));
        for id in 0..SAMPLE * u64::from(CAPACITY) - 20 {
            assert_eq!(sketch.count(key(1)), 15, "after {id}");
            sketch.add(key(2));
        }
        assert_eq!((sketch.count(key(1)), sketch.count(key(2))), (7, 7));
        assert_eq!(sketch.additions, 5 * u64::from(CAPACITY));
        // A pool that has grown starts anew.
        sketch.reserve(2 * CAPACITY);
        assert_eq!(sketch.count(key(1)), 0);
    }
}
