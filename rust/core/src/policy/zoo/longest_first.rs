//! The deepest leaf first: long prefixes give way to many short ones (cbtop's `LongestFirst`).

use crate::policy::adapters::scored::{Formula, Past};

/// Depth, then recency.
#[derive(Debug, Default)]
pub struct LongestFirst;

impl Formula for LongestFirst {
    const NAME: &'static str = "longest-first";

    fn key(&self, past: &Past) -> (u32, u64) {
        (u32::MAX - past.depth, past.last)
    }
}
