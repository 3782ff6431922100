//! What expires first is evicted first: a time to live from the last use on, one for blocks of sessions,
//! which may come back, and one for the rest (`inference-lab` and Continuum keep KV by time).

use crate::policy::adapters::scored::{Formula, Past};
use crate::policy::{BlockAccess, Configured, PolicyOption, PolicyOptions};

const SESSION: PolicyOption = PolicyOption::number(
    "session_ticks",
    100_000,
    "How long blocks of sessions live after a use, in ticks.",
);
const ONE_SHOT: PolicyOption = PolicyOption::number(
    "one_shot_ticks",
    1_000,
    "How long other blocks live after a use, in ticks.",
);

/// Times to live in ticks of the logical clock; the longest that applied to a block counts.
#[derive(Debug)]
pub struct Ttl {
    session: u32,
    one_shot: u32,
}

impl Configured for Ttl {
    const OPTIONS: &'static [PolicyOption] = &[SESSION, ONE_SHOT];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self { session: options.get(&SESSION), one_shot: options.get(&ONE_SHOT) }
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
}
