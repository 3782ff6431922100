//! The highest priority of any request that used a block, then recency (`SGLang`'s `priority`).

use crate::policy::BlockAccess;
use crate::policy::adapters::scored::{Formula, Past};

/// Priorities of requests, as the blocks inherit them.
#[derive(Debug, Default)]
pub struct Priority;

impl Formula for Priority {
    const NAME: &'static str = "priority";

    fn key(&self, past: &Past) -> (u32, u64) {
        (past.score as u32, past.last)
    }

    fn touch(&self, past: &Past, touch: BlockAccess<'_>) -> u64 {
        // Counted from the lowest priority, so that no score is below that of an unused block.
        let priority = touch.access.meta.priority.wrapping_sub(i32::MIN) as u32;
        past.score.max(u64::from(priority))
    }
}
