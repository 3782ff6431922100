//! Sessions that are likely to go on keep their blocks: the chance of another turn, from the times
//! between turns so far (as *LPC*, `NeurIPS` 2025, asks of a model, and Continuum of each tool's past).
//!
//! Sessions and turns are those that requests name. How likely a session goes on depends on how many
//! turns it had, and on how long it has been silent. Blocks of requests without a session are one more
//! class, whose uses count as turns.

use super::workload::log;
use crate::hash::Key;
use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::adapters::ghosts::Ghosts;
use crate::policy::adapters::rank_order::pack;
use crate::policy::adapters::returns::Returns;
use crate::policy::{BlockAccess, RemovalCause, View, grow};
use crate::pool::BlockId;

/// The class of blocks without a session.
const NOBODY: u8 = 0;

/// A session's turn, and when it was seen last.
#[derive(Debug, Clone, Copy, Default)]
struct SessionUse {
    turn: u32,
    class: u8,
    last: u64,
}

/// A block's class is the number of turns of the session that used it last.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// (class, tick of the last use)
    columns: Vec<(u8, u64)>,
    returns: Returns,
    /// As many as there are blocks.
    sessions: Ghosts<SessionUse>,
    /// The session, turn and tick of the last use, and its class.
    current: (u64, u32, u64, u8),
}

/// Sessions' numbers, spread as keys are.
fn key(session: u64) -> Key {
    Key(u128::from(session.wrapping_mul(0x9E37_79B9_7F4A_7C15)) << 64 | u128::from(session))
}

impl Session {
    /// The class of a use; counts its turn if that is new.
    fn turn(&mut self, touch: BlockAccess<'_>, view: View<'_>) -> u8 {
        let (session, turn) = (touch.access.meta.session, touch.access.meta.turn);
        if session == 0 {
            return NOBODY;
        }
        if (session, turn, view.now) == (self.current.0, self.current.1, self.current.2) {
            return self.current.3;
        }
        let class = 1 + log(turn) as u8;
        let key = key(session);
        let before = self.sessions.forget(key);
        if let Some(before) = before.filter(|before| before.turn != turn) {
            self.returns.returned(before.class.into(), view.now - before.last);
        }
        if before.is_none_or(|before| before.turn != turn) {
            self.returns.begin(class.into());
        }
        self.sessions.add(key, SessionUse { turn, class, last: view.now });
        self.sessions.trim(view.pool.usable() as usize);
        self.current = (session, turn, view.now, class);
        class
    }
}

impl Classes for Session {
    fn name(&self) -> &'static str {
        "session"
    }

    fn insert(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>) {
        let class = self.turn(touch, view);
        if class == NOBODY {
            self.returns.begin(NOBODY.into());
        }
        grow(&mut self.columns, block, (0, 0));
        self.columns[block as usize] = (class, view.now);
    }

    fn hit(&mut self, block: BlockId, touch: BlockAccess<'_>, view: View<'_>) {
        let (before, last) = self.columns[block as usize];
        if before == NOBODY {
            self.returns.returned(NOBODY.into(), view.now - last);
        }
        self.insert(block, touch, view);
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.columns[block as usize].1 = view.now;
    }

    fn class(&self, block: BlockId) -> usize {
        self.columns[block as usize].0 as usize
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].1, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, view: View<'_>) -> usize {
        self.returns.least(heads, view.now, |block| self.columns[block as usize].1)
    }

    fn removed(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        if cause == RemovalCause::Evicted {
            self.returns.evicted(view.now - self.columns[block as usize].1);
        }
    }
}
