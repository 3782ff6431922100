//! Which blocks shadows follow.
//!
//! With a stride of R, one block in R stands for all of them, and requests that share a prefix follow the same
//! blocks of it. Along a prefix these are R apart. Where a prefix branches, each branch but the first starts at
//! random: else all that follow one system prompt would have a block too many, or one too few, of its own.

use hashbrown::HashMap;

use crate::hash::Key;

/// Keys that are remembered at least, beside those of a few times the largest pool.
const FEW: usize = 1 << 14;

/// What is known of a block that was seen.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Blocks until the next that is followed; 0 if it is this.
    left: u32,
    /// Whether a block came after it.
    goes_on: bool,
}

/// The blocks that were seen lately, in two generations: the older one goes when the younger one is full.
#[derive(Debug)]
pub(super) struct Sampler {
    stride: u32,
    young: HashMap<Key, Seen>,
    old: HashMap<Key, Seen>,
    most: usize,
}

impl Sampler {
    pub fn new(stride: u32) -> Self {
        Self { stride, young: HashMap::new(), old: HashMap::new(), most: FEW }
    }

    /// There is a pool of so many blocks of the engine.
    pub fn fit(&mut self, capacity: u32) {
        self.most = self.most.max(4 * capacity as usize);
    }

    fn find(&mut self, key: Key) -> Option<Seen> {
        if let Some(&seen) = self.young.get(&key) {
            return Some(seen);
        }
        let seen = self.old.remove(&key)?;
        self.keep(key, seen);
        Some(seen)
    }

    fn keep(&mut self, key: Key, seen: Seen) {
        if self.young.len() >= self.most {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, seen);
    }

    /// The block of `key`, which comes after the block `before`. Whether it was seen, and blocks until the next that
    /// is followed.
    fn next(&mut self, key: Key, before: Option<Key>) -> (bool, u32) {
        if let Some(seen) = self.find(key) {
            return (true, seen.left);
        }
        let random = (key.mixed() % u64::from(self.stride)) as u32;
        let left = match before.and_then(|before| self.find(before).map(|seen| (before, seen))) {
            Some((before, seen)) if !seen.goes_on => {
                self.keep(before, Seen { goes_on: true, ..seen });
                seen.left.checked_sub(1).unwrap_or(self.stride - 1)
            }
            _ => random,
        };
        self.keep(key, Seen { left, goes_on: false });
        (false, left)
    }
}

/// The followed blocks of one request, as far as it is known.
#[derive(Debug)]
pub(super) struct Sample {
    stride: u32,
    keys: Vec<Key>,
    /// Their places among its blocks.
    places: Vec<u32>,
    /// Blocks whose keys were given, and the last of these keys.
    given: u32,
    last: Option<Key>,
    /// Blocks until the next that is followed.
    left: u32,
    /// Blocks from the start on that were seen before this request.
    seen: u32,
}

impl Sample {
    /// Of a request that came with these keys.
    pub fn new(keys: &[Key], sampler: &mut Sampler) -> Self {
        let mut made = Self { stride: sampler.stride, ..Self::none() };
        if made.stride == 1 {
            made.seen = u32::MAX;
        }
        for &key in keys {
            let seen = made.push(key, sampler);
            made.seen += u32::from(seen && made.seen + 1 == made.given);
        }
        made
    }

    /// Of a request that nobody needs any more.
    pub fn none() -> Self {
        let (keys, places) = (Vec::new(), Vec::new());
        Self { stride: 1, keys, places, given: 0, last: None, left: 0, seen: 0 }
    }

    /// The next keys, in the order of the prefix.
    pub fn extend(&mut self, keys: &[Key], sampler: &mut Sampler) {
        for &key in keys {
            self.push(key, sampler);
        }
    }

    /// The next key. Whether it was seen before.
    fn push(&mut self, key: Key, sampler: &mut Sampler) -> bool {
        let (place, mut seen) = (self.given, false);
        if self.stride > 1 {
            (seen, self.left) = sampler.next(key, self.last);
        }
        if self.left == 0 {
            self.keys.push(key);
            self.places.push(place);
        }
        self.left = self.left.checked_sub(1).unwrap_or(self.stride - 1);
        self.given += 1;
        self.last = Some(key);
        seen
    }

    /// The keys of the blocks that were given and are followed.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// How many of the first `blocks` blocks are followed.
    pub fn within(&self, blocks: u32) -> u32 {
        if self.stride == 1 {
            return blocks;
        }
        match blocks.checked_sub(self.given) {
            None => self.places.partition_point(|&place| place < blocks) as u32,
            // Those that are not known yet.
            Some(more) => {
                let rest = more.checked_sub(self.left + 1);
                self.places.len() as u32 + rest.map_or(0, |rest| 1 + rest / self.stride)
            }
        }
    }

    /// The same of the first `blocks` blocks whose keys were given.
    pub fn known(&self, blocks: u32) -> usize {
        self.within(blocks.min(self.given)) as usize
    }

    /// How many blocks of the engine are found where the first `rows` followed ones are, of `findable` blocks. The
    /// request itself may have computed all of them before.
    pub fn found(&self, rows: u32, findable: u32, again: bool) -> u32 {
        if self.stride == 1 {
            return rows;
        }
        let most = if again { findable } else { findable.min(self.seen) };
        if most < self.stride {
            return rows * self.stride;
        }
        if rows >= self.within(most) {
            return most;
        }
        // Between the last that is found and the first that is not.
        let first = rows.checked_sub(1).map_or(0, |last| self.places[last as usize] + 1);
        u32::midpoint(first, self.places[rows as usize])
    }
}
