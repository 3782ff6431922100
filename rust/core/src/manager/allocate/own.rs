//! An allocation takes ownership of the blocks that were found for it.

use crate::events::Kind;
use crate::manager::Manager;
use crate::manager::allocate::Start;
use crate::policy::Access;
use crate::pool::{BlockId, NIL};
use crate::sequence::SeqId;

impl Manager {
    /// `seq` becomes an owner of all that it starts from.
    pub(super) fn own_start(
        &mut self,
        seq: SeqId,
        start: &Start,
        hits: &[Vec<BlockId>],
        access: Access<'_>,
    ) {
        for (group, found) in hits.iter().enumerate() {
            let mut found = &found[..];
            if start.rows > start.good {
                let (good, computing) = found.split_at(start.good as usize);
                self.store.hold(seq, computing);
                for &block in computing {
                    self.transfers.share(block, seq);
                }
                found = good;
            }
            self.own(seq, group, found, access);
        }
        if let Some(tail) = &start.tail {
            let row = hits.first().map_or(0, Vec::len);
            let next_use = access.next_use.get(row..).unwrap_or(&[]);
            self.hold_tail(seq, tail, Access { next_use, ..access });
        }
    }

    /// `seq` becomes an owner of the blocks found in one group.
    pub(super) fn own(&mut self, seq: SeqId, group: usize, found: &[BlockId], access: Access<'_>) {
        let reach = self.layout.groups()[group];
        let (units, prefix) = (reach.units as usize, reach.kind.keeps_all());
        if units > 1 && !access.next_use.is_empty() {
            // A block of several units is used again as soon as its first one.
            let next_use: Vec<u32> = access.next_use.iter().copied().step_by(units).collect();
            return self.own_runs(seq, found, prefix, Access { next_use: &next_use, ..access });
        }
        self.own_runs(seq, found, prefix, access);
    }

    fn own_runs(&mut self, seq: SeqId, found: &[BlockId], prefix: bool, access: Access<'_>) {
        if !found.contains(&NIL) {
            return self.own_run(seq, found, prefix, access);
        }
        let mut start = 0;
        // The gaps are entries that are not needed, before a window's blocks or between a sink and them, and
        // blocks that the sequence owns already, between those that it found again.
        for run in found.split(|&b| b == NIL) {
            let next_use = access.next_use.get(start..).unwrap_or(&[]);
            self.own_run(seq, run, prefix, Access { next_use, ..access });
            start += run.len() + 1;
        }
    }

    fn own_run(&mut self, seq: SeqId, found: &[BlockId], prefix: bool, access: Access<'_>) {
        if found.is_empty() {
            return;
        }
        self.store.note_blocks(Kind::Hit, seq, found.iter(), 0);
        self.store.own(found, prefix, access);
    }
}
