//! Sequences by handle.

use super::{BlockTable, Mark, SeqId, Sequence};
use crate::error::{Error, Result};
use crate::origins::Scope;

/// Where a sequence is kept.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct SequenceSlot {
    /// The handle of the sequence in this slot; 0 if the slot is vacant.
    handle: SeqId,
    generation: u32,
    sequence: Sequence,
}

/// Live sequences by handle. Slots are reused with their buffers, handles are not.
#[derive(Debug, Default)]
pub struct Sequences {
    slots: Vec<SequenceSlot>,
    /// A mark for each slot: what a step has noted about its sequence while it is checked.
    marks: Vec<Mark>,
    vacant: Vec<u32>,
}

impl Sequences {
    /// A new empty sequence with `groups` tables.
    pub fn create(&mut self, groups: usize) -> SeqId {
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(SequenceSlot::default());
            self.marks.push(Mark::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[at as usize];
        slot.generation += 1;
        slot.handle = (u64::from(slot.generation) << 32) | u64::from(at);
        slot.sequence.tables.resize_with(groups, BlockTable::default);
        slot.handle
    }

    /// A new sequence that is as `seq` is.
    ///
    /// # Errors
    /// As [`Sequences::get`].
    pub fn copy(&mut self, seq: SeqId) -> Result<SeqId> {
        let groups = self.get(seq)?.tables.len();
        let copy = self.create(groups);
        let places = [seq as u32 as usize, copy as u32 as usize];
        let Ok([from, to]) = self.slots.get_disjoint_mut(places) else {
            return Err(Error::Integrity("a new sequence got the slot of a live one".into()));
        };
        to.sequence.copy_from(&from.sequence);
        Ok(copy)
    }

    /// Takes the sequence off the list; its buffers stay for the next one.
    pub fn remove(&mut self, seq: SeqId) {
        let slot = &mut self.slots[seq as u32 as usize];
        slot.handle = 0;
        slot.sequence.clear();
        self.vacant.push(seq as u32);
    }

    /// Removes the sequence as [`Sequences::remove`] does, and returns its state.
    pub fn take(&mut self, seq: SeqId) -> Sequence {
        let sequence = std::mem::take(&mut self.slots[seq as u32 as usize].sequence);
        self.remove(seq);
        sequence
    }

    #[inline]
    fn check(&self, seq: SeqId) -> Result<usize> {
        let at = seq as u32 as usize;
        match self.slots.get(at) {
            Some(slot) if slot.handle == seq && seq != 0 => Ok(at),
            _ => Err(self.wrong(seq)),
        }
    }

    #[cold]
    fn wrong(&self, seq: SeqId) -> Error {
        let (at, generation) = (seq as u32 as usize, (seq >> 32) as u32);
        let stale = |slot: &SequenceSlot| generation != 0 && generation <= slot.generation;
        if self.slots.get(at).is_some_and(stale) {
            Error::StaleSequence(seq)
        } else {
            Error::UnknownSequence(seq)
        }
    }

    /// The sequence of a handle.
    ///
    /// # Errors
    /// [`Error::UnknownSequence`], [`Error::StaleSequence`].
    #[inline]
    pub fn get(&self, seq: SeqId) -> Result<&Sequence> {
        self.check(seq).map(|at| &self.slots[at].sequence)
    }

    /// A sequence by its handle, to change it.
    ///
    /// # Errors
    /// As [`Sequences::get`].
    #[inline]
    pub fn get_mut(&mut self, seq: SeqId) -> Result<&mut Sequence> {
        self.check(seq).map(|at| &mut self.slots[at].sequence)
    }

    /// The mark of a sequence in the step numbered `step`. It starts afresh the first time that this step
    /// asks for it.
    ///
    /// # Errors
    /// As [`Sequences::get`].
    #[inline]
    pub fn mark(&mut self, seq: SeqId, step: u64) -> Result<&mut Mark> {
        let at = self.check(seq)?;
        let mark = &mut self.marks[at];
        if mark.step != step {
            *mark = Mark::begin(step, &self.slots[at].sequence);
        }
        Ok(mark)
    }

    /// Live sequences with their handles.
    pub fn iter(&self) -> impl Iterator<Item = (SeqId, &Sequence)> {
        let live = self.slots.iter().filter(|slot| slot.handle != 0);
        live.map(|slot| (slot.handle, &slot.sequence))
    }

    /// Makes live sequences private: the blocks that they compute from now on are not published.
    pub fn make_private(&mut self) {
        for slot in &mut self.slots {
            slot.sequence.private |= slot.handle != 0;
        }
    }

    /// Marks the live sequences in `scope`, whose KV is to be forgotten: they publish no more blocks, and
    /// are not current any more. Returns their handles.
    pub fn disown(&mut self, scope: Scope<'_>) -> Vec<SeqId> {
        let mut disowned = Vec::new();
        for SequenceSlot { handle, sequence, .. } in &mut self.slots {
            let (space, session) = (sequence.space(), sequence.meta.session);
            let has_public = space.public > 0 && scope.runs(space.of_public(), session);
            if *handle != 0 && (has_public || scope.runs(space, session)) {
                (sequence.private, sequence.disowned) = (true, true);
                disowned.push(*handle);
            }
        }
        disowned
    }

    /// How many are live.
    pub fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Whether none is live.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
