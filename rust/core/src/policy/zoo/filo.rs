//! First in, last out among the leaves (`SGLang` and `FlexKV` have it).

use crate::policy::adapters::scored::{Formula, Past};

/// The order of fifo, reversed among the leaves.
#[derive(Debug, Default)]
pub struct Filo;

impl Formula for Filo {
    const NAME: &'static str = "filo";

    fn key(&self, past: &Past) -> (u32, u64) {
        (0, u64::MAX - past.inserted)
    }
}
