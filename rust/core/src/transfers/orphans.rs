//! Loads that outlive their sequence: a stand-in keeps the place of each.

use hashbrown::{HashMap, HashSet};

use crate::sequence::SeqId;

/// Loads whose sequence has ended, each with the stand-in that keeps their place.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    by_ticket: HashMap<u64, SeqId>,
    stand_ins: HashSet<SeqId>,
}

impl Orphans {
    pub(super) fn add(&mut self, ticket: u64, orphan: SeqId) {
        self.by_ticket.insert(ticket, orphan);
        self.stand_ins.insert(orphan);
    }

    pub(super) fn take(&mut self, ticket: u64) -> Option<SeqId> {
        let orphan = self.by_ticket.remove(&ticket)?;
        self.stand_ins.remove(&orphan);
        Some(orphan)
    }

    /// The stand-in of a load.
    pub(crate) fn get(&self, ticket: u64) -> Option<SeqId> {
        self.by_ticket.get(&ticket).copied()
    }

    /// Whether a sequence is a stand-in.
    pub(crate) fn has(&self, seq: SeqId) -> bool {
        self.stand_ins.contains(&seq)
    }

    pub(crate) fn len(&self) -> usize {
        self.stand_ins.len()
    }
}
