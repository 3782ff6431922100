//! How important findable blocks are: the pool, the policy and the log hear of each change.

use super::Store;
use crate::events::Kind;
use crate::hash::Key;
use crate::index::KeyMatch;
use crate::policy::View;
use crate::pool::{BlockId, State};
use crate::retention::{Hint, Keep, RetentionState, Sessions};

impl Store {
    /// What was asked for blocks.
    #[inline]
    pub(crate) fn retention(&self) -> &RetentionState {
        &self.retention
    }

    /// Uses of blocks count from now on.
    pub(crate) fn count_uses(&mut self) {
        self.retention.turn_on();
    }

    /// It is `now` by the caller's clock, for policies alone: nothing lapses.
    pub(crate) fn set_time(&mut self, now: u64) {
        self.retention.set_time(now);
        let time = self.retention.time();
        self.each_external(|outside| outside.set_time(time));
    }

    /// So many other engines hold the block under `key` too, for policies outside the core alone.
    pub(crate) fn set_copies(&mut self, key: Key, copies: u32) {
        let KeyMatch::Block(block) = self.find_key(key, None) else { return };
        if let Some(policies) = self.policy.tenants_mut() {
            policies.set_copies(&self.pool, block, copies);
        } else if let Some(outside) = self.policy.external() {
            outside.set_copies(block, copies);
        }
    }

    /// Which sessions run, and what each has used.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// A sequence of `session` begins.
    #[inline]
    pub(crate) fn begin_session(&mut self, session: u64) {
        if self.by_session {
            self.sessions.begin(session);
        }
    }

    /// Notes that a sequence of `session` has ended. Returns the hint that waited for that, if any.
    pub(crate) fn end_session(&mut self, session: u64) -> Option<Hint> {
        if self.by_session { self.sessions.end(session) } else { None }
    }

    /// `hint` waits until the last sequence of `session` has ended.
    pub(crate) fn defer_hint(&mut self, session: u64, hint: Hint) {
        self.sessions.defer(session, hint);
    }

    /// A sequence of `session` gives up findable `block`.
    pub(crate) fn use_in_session(&mut self, block: BlockId, session: u64) {
        if self.by_session {
            self.sessions.used(block, session, &self.pool);
        }
    }

    /// The findable blocks that `session` alone has used.
    pub(crate) fn blocks_of_session(&self, session: u64) -> Vec<BlockId> {
        self.sessions.own(session, &self.pool)
    }

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

    /// Applies the priority changes that are due by the caller's time. Returns how many blocks have changed.
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
