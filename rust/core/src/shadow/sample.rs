//! Which blocks of a request a shadow follows.
//!
//! With a stride of R, one block of every R stands for all of them. Which one it is depends on the key of the
//! block before these R: requests that share a prefix follow the same blocks of it, and of all requests
//! together as many blocks are followed as 1/R of them, whatever their lengths. Every R-th block alone would
//! leave the last blocks of each request out, and so follow too few.

use crate::hash::Key;

/// The followed blocks of one request, as far as it is known.
#[derive(Debug)]
pub(super) struct Sample {
    stride: u32,
    keys: Vec<Key>,
    /// The place of the followed block, of each R.
    places: Vec<u32>,
    /// Blocks whose keys were given.
    given: u32,
}

impl Sample {
    pub fn new(stride: u32) -> Self {
        Self { stride, keys: Vec::new(), places: Vec::new(), given: 0 }
    }

    /// The keys of the blocks that were given and are followed.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The next keys, in the order of the prefix.
    pub fn extend(&mut self, keys: &[Key]) {
        if self.stride == 1 {
            self.keys.extend_from_slice(keys);
        } else {
            keys.iter().for_each(|&key| self.push(key));
            return;
        }
        self.given += keys.len() as u32;
    }

    fn push(&mut self, key: Key) {
        let (group, place) = (self.given / self.stride, self.given % self.stride);
        if self.given == 0 {
            self.places.push(chosen(key, self.stride));
        }
        if self.places.get(group as usize) == Some(&place) {
            self.keys.push(key);
        }
        if place + 1 == self.stride {
            self.places.push(chosen(key, self.stride));
        }
        self.given += 1;
    }

    /// How many of the first `blocks` blocks are followed.
    pub fn within(&self, blocks: u32) -> u32 {
        if self.stride == 1 {
            return blocks;
        }
        let (groups, rest) = (blocks / self.stride, blocks % self.stride);
        let place = self.places.get(groups as usize).copied().unwrap_or(self.stride / 2);
        groups + u32::from(place < rest)
    }

    /// The same of the first `blocks` blocks whose keys were given.
    pub fn known(&self, blocks: u32) -> usize {
        (self.within(blocks.min(self.given)) as usize).min(self.keys.len())
    }
}

/// One of `stride` places.
fn chosen(key: Key, stride: u32) -> u32 {
    (key.mixed() % u64::from(stride)) as u32
}
