//! The common case of a commit in tight loops: blocks of a full-attention group under keys that
//! nothing else stands under.

use std::ops::Range;

use crate::groups::GroupKind;
use crate::manager::Manager;
use crate::pool::NIL;
use crate::sequence::Sequence;

impl Manager {
    /// Makes blocks of `range` findable, from its start up to the first that is no plain case. Returns
    /// the range of those published; the policy is not yet notified of them.
    pub(super) fn publish_plain(
        &mut self,
        sequence: &Sequence,
        group: usize,
        range: Range<usize>,
    ) -> Range<usize> {
        let none = range.start..range.start;
        let reach = &self.layout.groups()[group];
        let own_keys = group == 0 && reach.units == 1 && reach.kind == GroupKind::Full;
        if !own_keys
            || (sequence.public > 0 && self.store.has_tenants())
            || self.store.gate().is_some()
            || self.options.remap_duplicates
            || self.options.keep_duplicates
            || self.store.is_logging()
        {
            return none;
        }
        let table = &sequence.tables[group];
        let (Some(blocks), Some(keys)) =
            (table.get(range.clone()), sequence.keys.get(range.clone()))
        else {
            return none;
        };
        let parent = range.start.checked_sub(1).map_or(NIL, |before| table[before]);
        let stored = self.store.publish_plain(blocks, keys, (parent, range.start as u32));
        range.start..range.start + stored
    }
}
