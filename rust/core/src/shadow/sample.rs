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
    /// The first to come of the requests that have it.
    owner: u64,
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

    /// The block of `key`, which request `owner` has after the block `before`: blocks until the next that is
    /// followed.
    fn next(&mut self, key: Key, before: Option<Key>, owner: u64) -> u32 {
        if let Some(seen) = self.find(key) {
            if owner < seen.owner {
                self.keep(key, Seen { owner, ..seen });
            }
            return seen.left;
        }
        let random = (key.mixed() % u64::from(self.stride)) as u32;
        let left = match before.and_then(|before| self.find(before).map(|seen| (before, seen))) {
            Some((before, seen)) if !seen.goes_on => {
                self.keep(before, Seen { goes_on: true, ..seen });
                seen.left.checked_sub(1).unwrap_or(self.stride - 1)
            }
            _ => random,
        };
        self.keep(key, Seen { left, goes_on: false, owner });
        left
    }

    /// How many of the first of these keys a request that came before `owner` has.
    fn seen_before(&self, keys: &[Key], owner: u64) -> u32 {
        let theirs = |&&key: &&Key| {
            let seen = self.young.get(&key).or_else(|| self.old.get(&key));
            seen.is_some_and(|seen| seen.owner < owner)
        };
        keys.iter().take_while(theirs).count() as u32
    }
}

/// The followed blocks of one request, as far as it is known.
#[derive(Debug)]
pub(super) struct Sample {
    stride: u32,
    /// The request's place in the order of arrival.
    owner: u64,
    /// Keys of all its blocks, where only some are followed.
    all: Vec<Key>,
    /// Keys of those that are followed.
    keys: Vec<Key>,
    /// Their places among its blocks.
    places: Vec<u32>,
    /// Blocks until the next that is followed.
    left: u32,
}

impl Sample {
    /// Of request `owner`, which came with these keys.
    pub fn new(owner: u64, keys: &[Key], sampler: &mut Sampler) -> Self {
        let mut made = Self { stride: sampler.stride, owner, ..Self::none() };
        made.extend(keys, sampler);
        made
    }

    /// Of a request that no shadow needs any more.
    pub fn none() -> Self {
        let (all, keys, places) = (Vec::new(), Vec::new(), Vec::new());
        Self { stride: 1, owner: 0, all, keys, places, left: 0 }
    }

    /// The next keys, in the order of the prefix.
    pub fn extend(&mut self, keys: &[Key], sampler: &mut Sampler) {
        if self.stride == 1 {
            self.keys.extend_from_slice(keys);
            return;
        }
        for &key in keys {
            let left = sampler.next(key, self.all.last().copied(), self.owner);
            if left == 0 {
                self.keys.push(key);
                self.places.push(self.all.len() as u32);
            }
            self.left = left.checked_sub(1).unwrap_or(self.stride - 1);
            self.all.push(key);
        }
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
        match blocks.checked_sub(self.all.len() as u32) {
            None => self.places.partition_point(|&place| place < blocks) as u32,
            // Those that are not known yet.
            Some(more) => {
                let rest = more.checked_sub(self.left + 1);
                self.places.len() as u32 + rest.map_or(0, |rest| 1 + rest / self.stride)
            }
        }
    }

    /// How many of the first `blocks` blocks whose keys were given are in the sample.
    pub fn known(&self, blocks: u32) -> usize {
        match self.stride {
            1 => self.keys.len().min(blocks as usize),
            _ => self.places.partition_point(|&place| place < blocks),
        }
    }

    /// How many blocks of the engine are found where the first `rows` followed ones are, of `findable` blocks; the
    /// request itself may have computed them before.
    pub fn found(&self, rows: u32, findable: u32, again: bool, sampler: &Sampler) -> u32 {
        if self.stride == 1 {
            return rows;
        }
        let findable = &self.all[..self.all.len().min(findable as usize)];
        let owner = if again { u64::MAX } else { self.owner };
        let most = sampler.seen_before(findable, owner);
        if rows == 0 || most < self.stride {
            return rows * self.stride;
        }
        if rows >= self.within(most) {
            return most;
        }
        // Between the last that is found and the first that is not.
        u32::midpoint(self.places[rows as usize - 1] + 1, self.places[rows as usize])
    }
}
