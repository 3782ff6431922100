//! How important findable blocks are: the pool, the policy and the log hear of each change.

use super::Store;
use crate::events::Kind;
use crate::policy::View;
use crate::pool::{BlockId, State};
use crate::retention::Keep;

impl Store {
    pub(crate) fn ask_for(&mut self, block: BlockId, keep: Option<Keep>, own: bool) {
        if keep.is_none() && self.pool.asked_priority(block).is_none() {
            // A request that asks for nothing only marks the block as used.
            return self.pool.set_priority(block, Keep::default().priority);
        }
        if self.retention.ask(&mut self.pool, block, keep.unwrap_or_default(), own) {
            self.reprioritised(block);
        }
    }

    /// Gives `copy` what `block` has, which gives way to it: priority and users.
    pub(crate) fn inherit(&mut self, copy: BlockId, block: BlockId) {
        if self.retention.inherit(&mut self.pool, copy, block) {
            self.reprioritised(copy);
        }
        if self.by_session {
            self.sessions.inherit(copy, block, &self.pool);
        }
    }

    pub(crate) fn force(&mut self, block: BlockId, keep: Keep) {
        if self.retention.force(&mut self.pool, block, keep) {
            self.reprioritised(block);
        }
    }

    /// Blocks whose priority has changed by the caller's time; how many.
    pub(crate) fn lapse(&mut self) -> u32 {
        let mut changed = 0;
        while let Some(block) = self.retention.lapse(&mut self.pool) {
            self.reprioritised(block);
            changed += 1;
        }
        changed
    }

    /// The priority of `block` is another.
    fn reprioritised(&mut self, block: BlockId) {
        self.note_block(Kind::Retain, 0, block, u64::from(self.pool.priority(block)));
        if self.pool.state(block) == State::Cached {
            self.policy.priority_changed(block, View { pool: &self.pool, now: self.now });
        }
    }
}
