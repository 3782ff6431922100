//! Entries of the ordered log. While the log is off, each call costs one branch.

use super::Store;
use crate::events::{Event, Kind, LogBatch};
use crate::hash::Key;
use crate::pool::{BlockId, NIL};
use crate::request::Request;
use crate::sequence::SeqId;

impl Store {
    /// Whether events are kept.
    #[inline]
    pub(crate) fn is_logging(&self) -> bool {
        self.log.is_on()
    }

    /// The log since the last call.
    pub(crate) fn take_log(&mut self) -> LogBatch {
        self.log.take()
    }

    /// One more event, with token ids. The caller looks first whether events are kept.
    pub(crate) fn push_with(&mut self, event: Event, ids: &[u32]) {
        self.log.push_with(event, ids);
    }

    /// What the allocation of `seq` asked for.
    pub(crate) fn note_request(&mut self, seq: SeqId, request: Request) {
        self.log.asked(seq, request);
    }

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
        self.note_block_two(kind, seq, block, (value, 0));
    }

    #[inline]
    pub(crate) fn note_block_two(
        &mut self,
        kind: Kind,
        seq: SeqId,
        block: BlockId,
        (value, other): (u64, u64),
    ) {
        if self.log.is_on() {
            self.log_block(kind, seq, block, value, other);
        }
    }

    /// The copy of `tokens` tokens of `src` into `dst` is planned for `seq`.
    #[inline]
    pub(crate) fn count_copy(&mut self, seq: SeqId, (src, dst): (BlockId, BlockId), tokens: u32) {
        self.stats.copies += 1;
        self.stats.copied_tokens += u64::from(tokens);
        self.note_block_two(Kind::Copy, seq, src, (u64::from(dst), u64::from(tokens)));
    }

    /// Logs one event for each of `blocks`; `NIL` entries are passed over.
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
    fn log_block(&mut self, kind: Kind, seq: SeqId, block: BlockId, value: u64, other: u64) {
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
