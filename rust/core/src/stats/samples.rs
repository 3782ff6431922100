//! How long blocks live and lie idle, sampled from one block in n. Times are ticks of the logical clock.
//!
//! A block is born when it becomes findable, is used whenever an allocation finds it, and ends when it
//! is evicted; blocks that are forgotten otherwise are not counted. The three histograms are those of
//! vLLM's KV-cache residency metrics (lifetime, idle time before eviction, gap between uses).

use crate::pool::BlockId;

/// Powers of two that ticks are counted in.
pub const BUCKETS: usize = 64;

/// `counts[i]` counts values of `i` binary digits: 0 in the first entry, 1 in the second, 2 and 3 in the
/// third.
pub type Histogram = [u64; BUCKETS + 1];

fn add(histogram: &mut Histogram, ticks: u64) {
    histogram[(u64::BITS - ticks.leading_zeros()) as usize] += 1;
}

/// The histograms, and the sampled blocks that live.
#[derive(Debug)]
pub struct Samples {
    every: u32,
    /// One bit a block: whether its life is timed.
    timed: Vec<u64>,
    /// (block, birth, last use) of the timed ones, by block.
    lives: std::collections::BTreeMap<BlockId, (u64, u64)>,
    /// Birth to eviction.
    pub lifetime: Histogram,
    /// Last use to eviction.
    pub idle: Histogram,
    /// From one use to the next.
    pub gap: Histogram,
}

impl Samples {
    /// Times 1 life in `every`; none if it is 0.
    pub fn new(every: u32) -> Self {
        let empty = [0; BUCKETS + 1];
        Self {
            every,
            timed: Vec::new(),
            lives: std::collections::BTreeMap::new(),
            lifetime: empty,
            idle: empty,
            gap: empty,
        }
    }

    /// Whether any life is timed.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.every > 0
    }

    fn is_timed(&self, block: BlockId) -> bool {
        self.timed.get(block as usize / 64).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// `blocks` became findable. Which lives are timed follows from block and tick alone, so that it
    /// is the same on every machine.
    pub fn born(&mut self, blocks: &[BlockId], tick: u64) {
        for &block in blocks {
            let mixed = (tick << 32 ^ u64::from(block)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            if !(mixed >> 32).is_multiple_of(u64::from(self.every)) {
                continue;
            }
            let word = block as usize / 64;
            if self.timed.len() <= word {
                self.timed.resize(word + 1, 0);
            }
            self.timed[word] |= 1 << (block % 64);
            self.lives.insert(block, (tick, tick));
        }
    }

    /// An allocation found `blocks`.
    pub fn used(&mut self, blocks: &[BlockId], tick: u64) {
        for &block in blocks {
            if self.is_timed(block)
                && let Some((_, last)) = self.lives.get_mut(&block)
            {
                add(&mut self.gap, tick - *last);
                *last = tick;
            }
        }
    }

    /// `block` is no longer findable.
    #[inline]
    pub fn ended(&mut self, block: BlockId, evicted: bool, tick: u64) {
        if self.is_timed(block) {
            self.end(block, evicted, tick);
        }
    }

    // Not inlined: few blocks are timed, and its variables would spill those of an eviction.
    #[cold]
    fn end(&mut self, block: BlockId, evicted: bool, tick: u64) {
        self.timed[block as usize / 64] &= !(1 << (block % 64));
        if let Some((birth, last)) = self.lives.remove(&block).filter(|_| evicted) {
            add(&mut self.lifetime, tick - birth);
            add(&mut self.idle, tick - last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_timed_from_birth_to_eviction() {
        let mut samples = Samples::new(1);
        samples.born(&[70, 3], 10);
        samples.used(&[3], 12);
        samples.used(&[3, 9], 19);
        samples.ended(3, true, 23);
        samples.ended(70, false, 30);
        samples.used(&[3, 70], 40);
        samples.ended(3, true, 50);
        let filled = |h: &Histogram| {
            h.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, &n)| (i, n)).collect::<Vec<_>>()
        };
        assert_eq!(filled(&samples.lifetime), [(4, 1)]); // 13 ticks
        assert_eq!(filled(&samples.idle), [(3, 1)]); // 4
        assert_eq!(filled(&samples.gap), [(2, 1), (3, 1)]); // 2 and 7
    }

    #[test]
    fn one_in_n_is_timed_and_always_the_same_ones() {
        let blocks: Vec<BlockId> = (0..8_000).collect();
        let (mut one, mut two) = (Samples::new(8), Samples::new(8));
        one.born(&blocks, 5);
        two.born(&blocks, 5);
        assert_eq!(one.lives, two.lives);
        assert!((800..1200).contains(&one.lives.len()), "{}", one.lives.len());
    }
}
