//! A tier's conversation with a policy outside the core, and its order of death for looking.

use super::TierPolicy;
use crate::policy::{Candidates, External, Journal, View};
use crate::pool::BlockId;

impl TierPolicy {
    /// The blocks that may die, in the present order of death as far as it is settled. A policy outside
    /// the core is not asked: its order here is least recently used.
    pub fn order(&self) -> Vec<BlockId> {
        self.policy.order(View { pool: &self.pool, now: self.now })
    }

    /// What a policy outside the core may choose from; see [`crate::policy::External`].
    pub fn candidates(&mut self, limit: usize, out: &mut Candidates) -> Journal {
        match self.policy.external() {
            Some(books) => {
                books.candidates(&self.pool, limit, out);
                books.take_journal()
            }
            None => Journal::default(),
        }
    }

    /// What it chose, in order; with too few, the built-in order names the `n` victims.
    pub fn choose(&mut self, n: u32, blocks: &[BlockId], generations: &[u32]) {
        if let Some(books) = self.policy.external() {
            if blocks.len() >= n as usize {
                books.choose(&self.pool, blocks, generations);
            } else {
                books.fall_back(n as usize);
            }
        }
    }

    /// How many events a policy outside the core has not heard.
    pub fn journal_len(&mut self) -> usize {
        self.policy.external().map_or(0, |books| books.journal_len())
    }

    /// Those events.
    pub fn take_journal(&mut self) -> Journal {
        self.policy.external().map(External::take_journal).unwrap_or_default()
    }
}
