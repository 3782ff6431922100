//! How a policy outside the core is asked for victims. Nothing here runs anybody else's code.

use super::Manager;
use crate::policy::{Candidates, External, Journal, View};
use crate::pool::BlockId;

impl Manager {
    fn external(&mut self) -> Option<&mut External> {
        self.policy.external()
    }

    /// What the policy may judge: up to `limit` blocks (0: all), at least `n` where there are.
    pub fn candidates(&mut self, n: usize, limit: usize, out: &mut Candidates) {
        let limit = if limit == 0 { 0 } else { limit.max(n) };
        if let Some(external) = self.policy.external() {
            external.candidates(&self.pool, limit, out);
        }
    }

    /// What the pending operation has found, for a policy that hears what it misses.
    pub fn found(&mut self) -> Vec<BlockId> {
        self.external().map(|outside| outside.found().to_vec()).unwrap_or_default()
    }

    /// Takes the policy's choice for the operation that follows.
    pub fn choose(&mut self, blocks: &[BlockId], generations: &[u32]) {
        if let Some(external) = self.policy.external() {
            external.choose(&self.pool, blocks, generations);
        }
    }

    /// Lets the built-in order stand in for `n` victims of the operation that follows. False if the
    /// policy keeps no such order.
    pub fn fall_back(&mut self, n: usize) -> bool {
        let external = self.external();
        let kept = external.is_some();
        if let Some(external) = external {
            external.fall_back(n);
        }
        kept
    }

    /// Has a policy that answers inside the core name `n` victims for the operation that was just
    /// refused with [`Error::NeedVictims`](crate::Error::NeedVictims). False if that stands.
    pub fn decide(&mut self, n: u32) -> bool {
        self.policy.decide(n as usize, View { pool: &self.pool, now: self.tick })
    }

    /// Forgets what is left of the last choice.
    pub fn settle_choice(&mut self) {
        if let Some(external) = self.external() {
            external.settle();
        }
    }

    /// Whether the policy ranks by what only a replay knows.
    pub fn needs_future(&self) -> bool {
        self.policy.needs_future()
    }

    /// How many victims the built-in order named for a policy outside the core.
    pub fn fallbacks(&self) -> u64 {
        self.policy.fallbacks()
    }

    /// It is `now`, for policies alone: nothing lapses.
    pub fn set_time(&mut self, now: u64) {
        self.retention.set_time(now);
        if let Some(outside) = self.policy.external() {
            outside.set_time(self.retention.time());
        }
    }

    /// The time as the engine told it last.
    pub fn time(&self) -> u64 {
        self.retention.time()
    }

    /// Events not delivered yet.
    pub fn journal_len(&mut self) -> usize {
        self.external().map_or(0, |outside| outside.journal_len())
    }

    /// Events for the policy's own outside.
    pub fn take_journal(&mut self) -> Journal {
        self.external().map(External::take_journal).unwrap_or_default()
    }
}
