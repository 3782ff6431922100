//! A freshly computed block that is findable already gives way to the one that is.

use crate::events::Kind;
use crate::index::KeyMatch;
use crate::manager::Manager;
use crate::manager::allocate::lookup::PrefixQuery;
use crate::policy::{Access, NEVER};
use crate::pool::{BlockId, NIL};
use crate::sequence::{SeqId, Sequence};

/// A block table's entry that changed although its tokens did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remap {
    /// Whose table.
    pub seq: SeqId,
    /// Layer group.
    pub group: u8,
    /// Place in the table.
    pub place: u32,
    /// The block that stands there now.
    pub block: BlockId,
}

impl Manager {
    /// Puts the findable twin of the committed block `i` in its place, and gives the block up, behind
    /// the fence if one is up. False if others share the block, or no twin follows the same blocks.
    pub(super) fn remap(
        &mut self,
        seq: SeqId,
        sequence: &mut Sequence,
        group: usize,
        i: usize,
    ) -> bool {
        let wanted = PrefixQuery::of(sequence);
        let KeyMatch::Block(twin) = self.find(wanted, group, i) else { return false };
        // Another owner of the block also owns the blocks that follow it, and would own those
        // without the twin.
        if self.pool().refs(sequence.tables[group][i]) > 1 {
            return false;
        }
        let ordered = self.layout.groups()[group].kind.is_ordered() && i > 0;
        let parent = if ordered { sequence.tables[group][i - 1] } else { NIL };
        if self.pool().parent(twin) != parent {
            return false;
        }
        let unit = i * self.layout.groups()[group].units as usize;
        let next_use = [sequence.next_use.get(unit).copied().unwrap_or(NEVER)];
        let access = Access { next_use: &next_use, meta: sequence.meta, tokens: sequence.known() };
        self.store.hit(&[twin], access);
        self.store.used(&[twin], sequence.meta.session);
        self.store.acquire(twin);
        self.store.note_block(Kind::Hit, seq, twin, 0);
        let own = sequence.tables[group].replace(i, twin);
        self.transfers.drop_owners(&mut self.store, seq, &[own]);
        self.store.note_block_two(Kind::Remap, seq, twin, (u64::from(own), i as u64));
        self.store.stats_mut().duplicates += 1;
        self.store.stats_mut().remapped += 1;
        self.remapped.push(Remap { seq, group: group as u8, place: i as u32, block: twin });
        true
    }

    /// Table entries that changed since the last call.
    pub fn take_remapped(&mut self) -> Vec<Remap> {
        std::mem::take(&mut self.remapped)
    }
}
