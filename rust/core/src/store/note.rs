//! Entries of the ordered log. Each is a branch and no more where the log is off.

use super::Store;
use crate::events::{Event, Kind};
use crate::hash::Key;
use crate::pool::{BlockId, NIL};
use crate::sequence::SeqId;

impl Store {
    #[inline]
    pub(crate) fn note(&mut self, kind: Kind, seq: SeqId, value: u64) {
        self.note_two(kind, seq, value, 0);
    }

    #[inline]
    pub(crate) fn note_two(&mut self, kind: Kind, seq: SeqId, value: u64, other: u64) {
        self.note_ids(kind, seq, (value, other), &[]);
    }

    #[inline]
    pub(crate) fn note_ids(&mut self, kind: Kind, seq: SeqId, values: (u64, u64), ids: &[u32]) {
        if self.log.is_on() {
            self.log_ids(kind, seq, values, ids);
        }
    }

    #[cold]
    fn log_ids(&mut self, kind: Kind, seq: SeqId, (value, other): (u64, u64), ids: &[u32]) {
        self.log.push_with(Event { seq, value, other, ..Event::new(self.now, kind) }, ids);
    }

    #[inline]
    pub(crate) fn note_block(&mut self, kind: Kind, seq: SeqId, block: BlockId, value: u64) {
        if self.log.is_on() {
            self.log_block(kind, seq, block, value, 0);
        }
    }

    /// One event for each of `blocks` that is one.
    #[inline]
    pub(crate) fn note_blocks<'a>(
        &mut self,
        kind: Kind,
        seq: SeqId,
        blocks: impl Iterator<Item = &'a BlockId>,
        value: u64,
    ) {
        if self.log.is_on() {
            for &block in blocks.filter(|&&b| b != NIL) {
                self.log_block(kind, seq, block, value, 0);
            }
        }
    }

    #[cold]
    pub(crate) fn log_block(
        &mut self,
        kind: Kind,
        seq: SeqId,
        block: BlockId,
        value: u64,
        other: u64,
    ) {
        let named = matches!(kind, Kind::Hit | Kind::Evict | Kind::Forget | Kind::Remap);
        let key = if named { self.pool.key(block) } else { Key(0) };
        let group = self.pool.group(block);
        let event = Event::new(self.now, kind);
        self.log.push(Event { group, block, seq, key, value, other, ..event });
    }

    /// `block`, which is no full block of the prompt's tokens, became findable after the key `parent`:
    /// a part of one, one of another input, one that its owner published.
    #[inline]
    pub(crate) fn note_stored(&mut self, seq: SeqId, block: BlockId, parent: Key, ids: &[u32]) {
        if self.log.is_on() {
            let event = Event {
                group: self.pool.group(block),
                block,
                seq,
                key: self.pool.key(block),
                parent,
                value: u64::from(self.pool.parent(block)),
                other: u64::from(self.pool.depth(block)),
                ..Event::new(self.now, Kind::Store)
            };
            self.log.push_with(event, ids);
        }
    }
}
