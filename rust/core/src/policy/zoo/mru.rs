//! Most recently used first: best for loops longer than the cache (`FlexKV` and `LMCache` have it).

use crate::policy::adapters::scored::{Formula, Past};

/// The order of lru, reversed among the leaves.
#[derive(Debug, Default)]
pub struct Mru;

impl Formula for Mru {
    const NAME: &'static str = "mru";

    fn key(&self, past: &Past) -> (u32, u64) {
        (0, u64::MAX - past.last)
    }
}
