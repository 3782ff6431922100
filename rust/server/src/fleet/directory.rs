//! What each engine's pool has, as it is now, and the links over which it gives blocks to others.

use std::collections::HashMap;

use kvframe_core::Key;

use super::feed::Change;
use crate::tiers::{LinkOptions, Net, Sharing, Way};

/// Blocks of other engines' pools come over a link of each engine that has them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeerOptions {
    /// Bytes a second out of an engine.
    pub rate: f64,
    /// Seconds that a transfer takes besides.
    pub latency: f64,
    /// Bytes of a block.
    pub block_bytes: f64,
}

/// Who has what, and when their links are free.
#[derive(Debug)]
pub(crate) struct Directory {
    /// A bit for each engine.
    holders: HashMap<Key, u64>,
    links: Net,
    block_bytes: f64,
}

impl Directory {
    pub fn new(how: PeerOptions, engines: usize) -> Self {
        let (rate, latency, sharing) = (how.rate, how.latency, Sharing::InTurn);
        let link = LinkOptions { read: rate, write: rate, latency, sharing };
        let links = Net::new((0..engines).map(|_| link), &[]);
        Self { holders: HashMap::new(), links, block_bytes: how.block_bytes }
    }

    /// What has changed in the pool of engine `at`.
    pub(super) fn note(&mut self, at: usize, change: Change) {
        let bit = 1u64 << at;
        match change {
            Change::Stored(key, _) => *self.holders.entry(key).or_default() |= bit,
            Change::Removed(key) => {
                if let Some(held) = self.holders.get_mut(&key) {
                    *held &= !bit;
                    if *held == 0 {
                        self.holders.remove(&key);
                    }
                }
            }
        }
    }

    /// The engine other than `me` whose pool has most of a prefix, and how many of its blocks.
    pub fn most(&self, me: usize, keys: &[Key]) -> Option<(usize, u32)> {
        let (mut who, mut blocks) = (!(1u64 << me), 0);
        for key in keys {
            let here = who & self.holders.get(key).copied().unwrap_or(0);
            if here == 0 {
                break;
            }
            (who, blocks) = (here, blocks + 1);
        }
        (blocks > 0).then(|| (who.trailing_zeros() as usize, blocks))
    }

    /// An engine sends blocks from `now` on. Returns when they have come, and their bytes.
    pub fn send(&mut self, from: usize, now: f64, blocks: u32) -> (f64, f64) {
        let bytes = f64::from(blocks) * self.block_bytes;
        (self.links.carry(&[from], Way::Write, now, bytes).end, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_that_has_most_from_the_first_block_on() {
        let mut held = Directory::new(PeerOptions { rate: 1.0, latency: 0.0, block_bytes: 1.0 }, 3);
        let keys = [Key(1), Key(2), Key(3)];
        for (at, key) in [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3), (2, 2), (2, 3)] {
            held.note(at, Change::Stored(Key(key), Key(0)));
        }
        assert_eq!(held.most(2, &keys), Some((1, 3)));
        assert_eq!(held.most(1, &keys), Some((0, 2)));
        held.note(1, Change::Removed(Key(2)));
        assert_eq!(held.most(2, &keys), Some((0, 2)));
        assert_eq!(held.most(0, &keys[1..]), Some((2, 2)));
        assert_eq!(held.most(0, &[]), None);
    }
}
