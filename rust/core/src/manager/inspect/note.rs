//! Entries of the ordered log that say what was asked.

use crate::error::Error;
use crate::events::{Event, Kind, LogBatch};
use crate::hash::Key;
use crate::manager::Manager;
use crate::request::Attempt;
use crate::sequence::{SeqId, Sequence};

impl Manager {
    /// The events since the last call, in order; the token ids and requests logged with them are
    /// dropped (see [`Manager::take_log`]).
    pub fn take_events(&mut self) -> Vec<Event> {
        self.store.take_log().events
    }

    /// The log since the last call.
    pub fn take_log(&mut self) -> LogBatch {
        self.store.take_log()
    }

    pub(in crate::manager) fn note_allocation(
        &mut self,
        seq: SeqId,
        request: &Attempt<'_>,
        known: u32,
        found: u32,
    ) {
        if self.store.is_logging() {
            let cached = u64::from(found * self.block_size());
            let kind = if request.resumed { Kind::Resume } else { Kind::Allocate };
            self.store.note_two(kind, seq, u64::from(known), cached);
            self.store.note_request(seq, request.to_request());
        }
    }

    /// Block `i` of `sequence` became findable.
    #[inline]
    pub(in crate::manager) fn note_store(
        &mut self,
        seq: SeqId,
        sequence: &Sequence,
        group: usize,
        i: usize,
    ) {
        if self.store.is_logging() {
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
            key: self.pool().key(block),
            parent,
            value: u64::from(self.pool().parent(block)),
            other: i as u64,
            ..Event::new(self.store.now(), Kind::Store)
        };
        self.store.push_with(event, sequence.tokens.get(i * size..(i + 1) * size).unwrap_or(&[]));
    }

    /// Counts a refusal for want of blocks; other errors are none.
    pub(in crate::manager) fn count_refusal(&mut self, error: &Error, tenant: u8) {
        let (needed, available) = match *error {
            Error::NoCapacity { needed, available, .. } => (needed, available),
            Error::NeverFits { needed, total, .. } => (needed, total),
            _ => return,
        };
        self.store.stats_mut().refused += 1;
        if let Some(counts) = self.store.tenant_counts_mut(tenant) {
            counts.refused += 1;
        }
        self.store.note_two(Kind::Refuse, 0, needed, available);
    }
}
