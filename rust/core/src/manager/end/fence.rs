//! Sequences that end while steps in flight may still write or read their blocks.

use crate::error::Result;
use crate::manager::Manager;
use crate::sequence::{SeqId, Sequence};

impl Manager {
    /// Ends `seq` as `release` does, but its blocks stay as they are until `fence` has passed:
    /// findable blocks stay findable, and no other sequence writes into them. They are released at
    /// once if the fence has passed, and the last group's first if it had not.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn release_behind(&mut self, seq: SeqId, fence: u64) -> Result<()> {
        self.end_behind(seq, fence, Self::release)
    }

    /// Ends `seq` as `abort` does, behind `fence` as `release_behind` does.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn abort_behind(&mut self, seq: SeqId, fence: u64) -> Result<()> {
        self.end_behind(seq, fence, Self::abort)
    }

    /// Ends `seq` as `preempt` does, behind `fence` as `release_behind` does.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn preempt_behind(&mut self, seq: SeqId, fence: u64) -> Result<Sequence> {
        self.end_behind(seq, fence, Self::preempt)
    }

    fn end_behind<T>(
        &mut self,
        seq: SeqId,
        fence: u64,
        end: fn(&mut Self, SeqId) -> Result<T>,
    ) -> Result<T> {
        self.sequences.get(seq)?;
        self.fence_up(Some(fence));
        let outcome = end(self, seq);
        self.fence_down();
        outcome
    }

    /// From now on, what sequences give up waits until `fence` has passed, if it has not.
    pub fn fence_up(&mut self, fence: Option<u64>) {
        self.transfers.fence_up(fence);
        self.transfers.fences().note_up(&mut self.store);
    }

    /// What sequences give up is dropped at once again.
    pub fn fence_down(&mut self) {
        self.transfers.fences().note_down(&mut self.store);
        self.transfers.fence_down();
    }

    /// Every step up to `fence` has run: what waited for them is dropped, in the order it came.
    pub fn pass(&mut self, fence: u64) {
        self.transfers.pass(&mut self.store, fence);
    }

    /// Blocks that wait for a fence.
    pub fn waiting(&self) -> usize {
        self.pool().waiting() as usize
    }
}
