//! What expires first is evicted first: a time to live from the last use on, one for blocks of sessions,
//! which may come back, and one for the rest (`inference-lab` and Continuum keep KV by time).

use crate::policy::BlockAccess;
use crate::policy::adapters::scored::{Formula, Past};

/// Times to live in ticks of the logical clock; the longest that applied to a block counts.
#[derive(Debug)]
pub struct Ttl {
    session: u32,
    one_shot: u32,
}

impl Ttl {
    /// Blocks of requests with a session live `session` ticks, others `one_shot`.
    pub fn new(session: u32, one_shot: u32) -> Self {
        Self { session, one_shot }
    }
}

impl Formula for Ttl {
    const NAME: &'static str = "ttl";

    fn key(&self, past: &Past) -> (u32, u64) {
        (0, past.last.saturating_add(past.score))
    }

    fn touch(&self, past: &Past, touch: BlockAccess<'_>) -> u64 {
        let lives = if touch.access.meta.session == 0 { self.one_shot } else { self.session };
        past.score.max(u64::from(lives))
    }

    fn options(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("session_ticks", u64::from(self.session)),
            ("one_shot_ticks", u64::from(self.one_shot)),
        ]
    }
}
