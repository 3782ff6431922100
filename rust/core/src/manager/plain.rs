//! The common case of a commit in one tight loop: blocks of a full-attention group under keys that
//! nothing else stands under.

use std::ops::Range;

use super::Manager;
use crate::groups::GroupKind;
use crate::index::Index;
use crate::pool::{NIL, State};
use crate::sequence::Sequence;

impl Manager {
    /// Makes blocks of `range` findable, from its start up to the first that is no plain case: those
    /// that it were. Their policy is not told.
    pub(super) fn publish_plain(
        &mut self,
        sequence: &Sequence,
        group: usize,
        range: Range<usize>,
    ) -> Range<usize> {
        let none = range.start..range.start;
        let reach = &self.layout.groups()[group];
        let own_keys = group == 0 && reach.units == 1 && reach.kind == GroupKind::Full;
        if !own_keys || self.gate.is_some() || self.options.remap_duplicates || self.log.is_on() {
            return none;
        }
        let Index::Hash(index) = &mut self.index else { return none };
        let table = &sequence.tables[group];
        let (Some(blocks), Some(keys)) =
            (table.get(range.clone()), sequence.keys.get(range.clone()))
        else {
            return none;
        };
        let mut parent = range.start.checked_sub(1).map_or(NIL, |before| table[before]);
        let mut end = range.start;
        for (&block, &key) in blocks.iter().zip(keys) {
            let pending = self.pool.state(block) == State::Pending;
            if !pending || !index.store_plain(&self.pool, block, key) {
                break;
            }
            self.pool.publish(block, key, parent, end as u32);
            parent = block;
            end += 1;
        }
        range.start..end
    }
}
