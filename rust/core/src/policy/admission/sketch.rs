//! About how often keys were seen lately, in a fixed room.

use crate::hash::Key;

const ROWS: usize = 4;
const MOST: u8 = 15;
/// Sights after which all counts are halved, by the keys that the sketch is for.
const SAMPLE: u64 = 10;

/// A count-min sketch whose counts, 15 at the most, are halved from time to time (`TinyLFU`, Einziger et
/// al., 2017). It never says less than the halved count, and more only where keys share all their places.
#[derive(Debug)]
pub struct Sketch {
    counts: Vec<u8>,
    mask: usize,
    sample: u64,
    added: u64,
}

impl Sketch {
    /// For about `capacity` keys: 8 to 16 bytes each.
    pub fn new(capacity: u32) -> Self {
        let width = (2 * capacity.max(16) as usize).next_power_of_two();
        let sample = SAMPLE * u64::from(capacity.max(16));
        Self { counts: vec![0; ROWS * width], mask: width - 1, sample, added: 0 }
    }

    /// Keys are hashes already: each row takes other bits of them.
    fn places(&self, key: Key) -> [usize; ROWS] {
        let (low, high) = (key.0 as u64, (key.0 >> 64) as u64);
        let spread = |row: usize| {
            let mixed = low.rotate_left(16 * row as u32) ^ high.rotate_right(13 * row as u32);
            let mixed = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            row * (self.mask + 1) + ((mixed >> 32) as usize & self.mask)
        };
        [spread(0), spread(1), spread(2), spread(3)]
    }

    /// About how often `key` was added.
    pub fn count(&self, key: Key) -> u32 {
        let least = self.places(key).into_iter().map(|place| self.counts[place]).min();
        least.unwrap_or(0).into()
    }

    /// `key` was seen once more.
    pub fn add(&mut self, key: Key) {
        let places = self.places(key);
        let least = places.iter().map(|&place| self.counts[place]).min().unwrap_or(MOST);
        if least < MOST {
            // Only the least ones: the others count another key as well.
            for place in places {
                if self.counts[place] == least {
                    self.counts[place] += 1;
                }
            }
        }
        self.added += 1;
        if self.added >= self.sample {
            self.added /= 2;
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(i: u64) -> Key {
        let spread = |x: u64| (x ^ (x >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Key((u128::from(spread(i + 1)) << 64) | u128::from(spread(spread(i + 7))))
    }

    #[test]
    fn at_its_capacity_few_counts_are_too_high_and_none_too_low() {
        let mut sketch = Sketch::new(4096);
        for i in 0..4096 {
            for _ in 0..=i % 5 {
                sketch.add(key(i));
            }
        }
        let off: Vec<u32> = (0..4096).map(|i| sketch.count(key(i)) - (i % 5) as u32 - 1).collect();
        assert!(off.iter().filter(|&&more| more > 0).count() < 4096 / 20, "more than one in 20");
    }

    #[test]
    fn old_sights_fade() {
        let mut sketch = Sketch::new(16);
        for _ in 0..12 {
            sketch.add(key(1));
        }
        let before = sketch.count(key(1));
        for i in 0..160 {
            sketch.add(key(100 + i));
        }
        assert!(sketch.count(key(1)) < before);
    }
}
