//! Which blocks only one session ever used, and what is still to be done for sessions that run.

use std::collections::HashMap;

use super::Hint;
use crate::policy::grow;
use crate::pool::{BlockId, NIL, Pool};

/// A block that several sessions used, or a request without one.
const SHARED: u64 = u64::MAX;

/// A block's place in the list of the session that has it alone.
#[derive(Debug, Clone, Copy)]
struct Link {
    /// The session's number; 0 until a sequence of it gives the block up.
    session: u64,
    generation: u32,
    before: BlockId,
    after: BlockId,
}

const NEW: Link = Link { session: 0, generation: 0, before: NIL, after: NIL };

#[derive(Debug)]
struct Entry {
    first: BlockId,
    running: u32,
    /// To be done again once nothing of it runs.
    due: Option<Hint>,
}

impl Default for Entry {
    fn default() -> Self {
        Self { first: NIL, running: 0, due: None }
    }
}

/// The blocks of each session; 20 bytes a block. A block is listed when a sequence gives it up, and
/// is skipped if it has been evicted since.
#[derive(Debug, Default)]
pub struct Sessions {
    links: Vec<Link>,
    entries: HashMap<u64, Entry>,
}

impl Sessions {
    /// A request of `session` came in.
    pub fn begin(&mut self, session: u64) {
        if session != 0 {
            self.entries.entry(session).or_default().running += 1;
        }
    }

    /// Notes that a request of `session` has ended. Returns the hint that is due now, if any.
    pub fn end(&mut self, session: u64) -> Option<Hint> {
        let entry = self.entries.get_mut(&session)?;
        entry.running = entry.running.saturating_sub(1);
        if entry.running > 0 {
            return None;
        }
        let due = entry.due.take();
        self.tidy(session);
        due
    }

    /// Whether requests of `session` run.
    pub fn is_running(&self, session: u64) -> bool {
        self.entries.get(&session).is_some_and(|entry| entry.running > 0)
    }

    /// Stores `hint` until no request of the session runs. It replaces an earlier one.
    pub fn defer(&mut self, session: u64, hint: Hint) {
        if let Some(entry) = self.entries.get_mut(&session) {
            entry.due = Some(hint);
        }
    }

    /// A sequence of `session` gives up findable `block`.
    pub fn used(&mut self, block: BlockId, session: u64, pool: &Pool) {
        grow(&mut self.links, block, NEW);
        let generation = pool.generation(block);
        let Link { session: before, generation: then, .. } = self.links[block as usize];
        if before == 0 || then != generation {
            self.unlink(block);
            self.links[block as usize].generation = generation;
            return self.link(block, if session == 0 { SHARED } else { session });
        }
        if before != session && before != SHARED {
            self.unlink(block);
            self.link(block, SHARED);
        }
    }

    /// `copy` counts as used by the session that used `block`.
    pub fn inherit(&mut self, copy: BlockId, block: BlockId, pool: &Pool) {
        let link = self.links.get(block as usize);
        let link = link.filter(|link| link.generation == pool.generation(block));
        let session = link.map_or(0, |link| link.session);
        self.used(copy, if session == SHARED { 0 } else { session }, pool);
    }

    /// The findable blocks that `session` alone has used.
    pub fn own(&self, session: u64, pool: &Pool) -> Vec<BlockId> {
        let lives = |&b: &BlockId| {
            pool.generation(b) == self.links[b as usize].generation && pool.is_findable(b)
        };
        self.list(session).filter(lives).collect()
    }

    /// Sessions that run or have blocks.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What disagrees, if anything.
    ///
    /// # Errors
    /// One line.
    pub fn validate(&self) -> Result<(), String> {
        let mut listed = 0;
        for &session in self.entries.keys() {
            let mut before = NIL;
            for block in self.list(session) {
                let link = self.links[block as usize];
                if (link.session, link.before) != (session, before) {
                    return Err(format!("block {block} is misplaced in session {session}"));
                }
                before = block;
                listed += 1;
            }
        }
        let alone = |link: &&Link| link.session != 0 && link.session != SHARED;
        match self.links.iter().filter(alone).count() {
            linked if linked == listed => Ok(()),
            linked => Err(format!("sessions have {listed} blocks, {linked} say so")),
        }
    }

    fn list(&self, session: u64) -> impl Iterator<Item = BlockId> + '_ {
        let first = self.entries.get(&session).map(|entry| entry.first);
        let there = |&block: &BlockId| block != NIL;
        std::iter::successors(first.filter(there), move |&block| {
            Some(self.links[block as usize].after).filter(there)
        })
    }

    fn link(&mut self, block: BlockId, session: u64) {
        self.links[block as usize].session = session;
        if session == SHARED {
            return;
        }
        let entry = self.entries.entry(session).or_default();
        let after = std::mem::replace(&mut entry.first, block);
        let link = &mut self.links[block as usize];
        (link.before, link.after) = (NIL, after);
        if after != NIL {
            self.links[after as usize].before = block;
        }
    }

    fn unlink(&mut self, block: BlockId) {
        let Link { session, before, after, .. } = self.links[block as usize];
        if session == 0 || session == SHARED {
            return;
        }
        match before {
            NIL => {
                if let Some(entry) = self.entries.get_mut(&session) {
                    entry.first = after;
                }
            }
            b => self.links[b as usize].after = after,
        }
        if after != NIL {
            self.links[after as usize].before = before;
        }
        self.tidy(session);
    }

    /// Forgets a session that has nothing left.
    fn tidy(&mut self, session: u64) {
        if self.entries.get(&session).is_some_and(|e| e.first == NIL && e.running == 0) {
            self.entries.remove(&session);
        }
    }
}
