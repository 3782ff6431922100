//! Entries of the ordered log. Each is a branch and no more where the log is off.

use super::Manager;
use crate::error::Error;
use crate::events::{Event, Kind, LogBatch};
use crate::hash::Key;
use crate::pool::{BlockId, NIL};
use crate::request::Attempt;
use crate::sequence::{SeqId, Sequence};

impl Manager {
    /// The events since the last call, in order; the token ids and requests logged with them are
    /// dropped (see [`Manager::take_log`]).
    pub fn take_events(&mut self) -> Vec<Event> {
        self.log.take().events
    }

    /// The log since the last call.
    pub fn take_log(&mut self) -> LogBatch {
        self.log.take()
    }

    #[inline]
    pub(super) fn note(&mut self, kind: Kind, seq: SeqId, value: u64) {
        self.note_two(kind, seq, value, 0);
    }

    #[inline]
    pub(super) fn note_two(&mut self, kind: Kind, seq: SeqId, value: u64, other: u64) {
        self.note_ids(kind, seq, (value, other), &[]);
    }

    #[inline]
    pub(super) fn note_ids(&mut self, kind: Kind, seq: SeqId, values: (u64, u64), ids: &[u32]) {
        if self.log.is_on() {
            self.log_ids(kind, seq, values, ids);
        }
    }

    #[cold]
    fn log_ids(&mut self, kind: Kind, seq: SeqId, (value, other): (u64, u64), ids: &[u32]) {
        self.log.push_with(Event { seq, value, other, ..Event::new(self.tick, kind) }, ids);
    }

    #[inline]
    pub(super) fn note_block(&mut self, kind: Kind, seq: SeqId, block: BlockId, value: u64) {
        if self.log.is_on() {
            self.log_block(kind, seq, block, value, 0);
        }
    }

    /// One event for each of `blocks` that is one.
    #[inline]
    pub(super) fn note_blocks<'a>(
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
    pub(super) fn log_block(
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
        let event = Event::new(self.tick, kind);
        self.log.push(Event { group, block, seq, key, value, other, ..event });
    }

    pub(super) fn note_allocation(
        &mut self,
        seq: SeqId,
        request: &Attempt<'_>,
        known: u32,
        found: u32,
    ) {
        if self.log.is_on() {
            let cached = u64::from(found * self.block_size());
            let kind = if request.resumed { Kind::Resume } else { Kind::Allocate };
            self.note_two(kind, seq, u64::from(known), cached);
            self.log.asked(seq, request.to_request());
        }
    }

    /// Block `i` of `sequence` became findable.
    #[inline]
    pub(super) fn note_store(&mut self, seq: SeqId, sequence: &Sequence, group: usize, i: usize) {
        if self.log.is_on() {
            self.log_store(seq, sequence, group, i);
        }
    }

    #[cold]
    fn log_store(&mut self, seq: SeqId, sequence: &Sequence, group: usize, i: usize) {
        let (block, reach) = (sequence.tables[group][i], &self.layout.groups()[group]);
        let (size, units) = (reach.span as usize, reach.units as usize);
        // By the prompt's chain of keys, also where a window left no block to follow.
        let parent = match i {
            0 => Key(0),
            _ => sequence.keys.get(i * units - 1).map_or(Key(0), |key| key.for_group(group)),
        };
        let event = Event {
            group: group as u8,
            block,
            seq,
            key: self.pool.key(block),
            parent,
            value: u64::from(self.pool.parent(block)),
            other: i as u64,
            ..Event::new(self.tick, Kind::Store)
        };
        self.log.push_with(event, sequence.tokens.get(i * size..(i + 1) * size).unwrap_or(&[]));
    }

    /// `block`, which is no full block of the prompt's tokens, became findable after the key `parent`:
    /// a part of one, one of another input, one that its owner published.
    #[inline]
    pub(super) fn note_stored(&mut self, seq: SeqId, block: BlockId, parent: Key, ids: &[u32]) {
        if self.log.is_on() {
            let event = Event {
                group: self.pool.group(block),
                block,
                seq,
                key: self.pool.key(block),
                parent,
                value: u64::from(self.pool.parent(block)),
                other: u64::from(self.pool.depth(block)),
                ..Event::new(self.tick, Kind::Store)
            };
            self.log.push_with(event, ids);
        }
    }

    /// Counts a refusal for want of blocks; other errors are none.
    pub(super) fn count_refusal(&mut self, error: &Error) {
        let (needed, available) = match *error {
            Error::NoCapacity { needed, available, .. } => (needed, available),
            Error::NeverFits { needed, total } => (needed, total),
            _ => return,
        };
        self.stats.refused += 1;
        self.note_two(Kind::Refuse, 0, needed, available);
    }
}
