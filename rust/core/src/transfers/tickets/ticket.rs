//! One ticket: what it owns, and what a load has besides.

use std::collections::BTreeSet;

use super::{BlockCopy, LoadTicket};
use crate::hash::Key;
use crate::pool::BlockId;
use crate::sequence::SeqId;

/// A ticket given out and not settled.
#[derive(Debug, Default)]
pub(super) struct Ticket {
    /// Its copies, behind the first `skip`, which are settled.
    pub(super) copies: Vec<BlockCopy>,
    pub(super) skip: usize,
    /// Blocks it keeps besides their ends.
    pub(super) held: Vec<BlockId>,
    /// Set where a load or another sequence fills its pages. Boxed, because most tickets are copies
    /// and are moved.
    pub(super) loading: Option<Box<LoadState>>,
    /// When it lapses, by the caller's clock.
    pub(super) deadline: Option<u64>,
}

/// What a ticket has if it is a load, or joined a computation.
#[derive(Debug)]
pub(super) struct LoadState {
    pub(super) load: LoadTicket,
    /// The sequence that the load was opened for. It has no meaning for a joined computation.
    pub(super) opened_for: SeqId,
    /// What the first block that it brings is called.
    pub(super) name: Option<Key>,
    /// Who waits for what it joined, by slot and handle.
    pub(super) joiners: BTreeSet<(u32, SeqId)>,
}

impl Ticket {
    pub(super) fn copies(&self) -> &[BlockCopy] {
        &self.copies[self.skip..]
    }

    pub(super) fn load(&self) -> Option<LoadTicket> {
        self.loading.as_ref().map(|loading| loading.load)
    }

    pub(super) fn is_joined(&self) -> bool {
        self.load().is_some_and(|load| load.filler.is_some())
    }

    /// Takes its first `count` copies out of it.
    pub(super) fn take_front(&mut self, count: usize) -> Vec<BlockCopy> {
        let end = self.skip + count;
        let taken = self.copies[self.skip..end].to_vec();
        self.skip = end;
        if self.skip > self.copies.len() / 2 {
            self.copies.drain(..self.skip);
            self.skip = 0;
        }
        taken
    }
}
