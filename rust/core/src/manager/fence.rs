//! Fences: blocks of an ended sequence wait while steps in flight may still write or read them.

use super::Manager;
use crate::error::Result;
use crate::events::Kind;
use crate::pool::{BlockId, NIL, State};
use crate::sequence::{SeqId, Sequence};

/// Blocks that become available once a step has passed.
#[derive(Debug, Default)]
pub struct Fences {
    /// (the step, blocks of one table), in the order they came in.
    waiting: Vec<(u64, Vec<BlockId>)>,
    /// The last step known to have run.
    passed: Option<u64>,
    /// What sequences give up now waits for this step.
    up: Option<u64>,
}

impl Fences {
    /// Every block that waits, once for each owner it lost.
    pub fn owners(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.waiting.iter().flat_map(|(_, blocks)| blocks.iter().copied())
    }

    /// What waits: (the step, blocks of one table), in the order they came in.
    pub fn waiting(&self) -> &[(u64, Vec<BlockId>)] {
        &self.waiting
    }

    /// The last step known to have run.
    pub fn passed(&self) -> Option<u64> {
        self.passed
    }

    /// From now on, what sequences give up waits until `fence` has passed, if it has not.
    pub fn put_up(&mut self, fence: Option<u64>) {
        self.up = fence.filter(|&fence| self.passed < Some(fence));
    }

    /// What sequences give up is dropped at once again.
    pub fn take_down(&mut self) {
        self.up = None;
    }

    /// Whether what sequences give up waits.
    pub fn is_up(&self) -> bool {
        self.up.is_some()
    }
}

impl Manager {
    /// Ends `seq` as `release` does, but its blocks stay as they are until `fence` has passed:
    /// findable if they were, nobody else's to write. At once if it has.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn release_behind(&mut self, seq: SeqId, fence: u64) -> Result<()> {
        self.sequences.get(seq)?;
        self.fence_up(Some(fence));
        let outcome = self.release(seq);
        self.fence_down();
        outcome
    }

    /// Ends `seq` as `preempt` does, behind `fence` as `release_behind` does.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn preempt_behind(&mut self, seq: SeqId, fence: u64) -> Result<Sequence> {
        self.sequences.get(seq)?;
        self.fence_up(Some(fence));
        let outcome = self.preempt(seq);
        self.fence_down();
        outcome
    }

    /// From now on, what sequences give up waits until `fence` has passed, if it has not.
    pub fn fence_up(&mut self, fence: Option<u64>) {
        self.fences.put_up(fence);
        self.note_fence_up();
    }

    pub(super) fn note_fence_up(&mut self) {
        if let Some(fence) = self.fences.up {
            self.note(Kind::Fence, 0, fence);
        }
    }

    pub(super) fn note_fence_down(&mut self) {
        if self.fences.is_up() {
            self.note_two(Kind::Fence, 0, u64::MAX, 1);
        }
    }

    /// What sequences give up is dropped at once again.
    pub fn fence_down(&mut self) {
        self.note_fence_down();
        self.fences.take_down();
    }

    /// The end of a table from `keep` on waits for the fence that is up.
    pub(super) fn put_behind(&mut self, table: &[BlockId], keep: usize) {
        let Some(fence) = self.fences.up.filter(|_| keep < table.len()) else { return };
        let mut blocks = Vec::with_capacity(table.len() - keep);
        let findable = |b: BlockId| self.pool.state(b) == State::Committed || self.pool.refs(b) > 1;
        if table[keep..].iter().any(|&b| b != NIL && findable(b)) {
            // A block that is findable, or that another owner may make so, keeps those it follows
            // owned.
            blocks.extend(table[..keep].iter().copied().filter(|&b| b != NIL));
            for &block in &blocks {
                self.pool.share(block);
            }
            self.note_blocks(Kind::Hold, 0, blocks.iter(), 0);
        }
        blocks.extend(table[keep..].iter().copied().filter(|&b| b != NIL));
        for &block in &blocks {
            self.pool.wait(block);
        }
        self.note_blocks(Kind::Wait, 0, blocks.iter(), fence);
        self.fences.waiting.push((fence, blocks));
    }

    /// Every step up to `fence` has run: what waited for them is dropped, in the order it came.
    pub fn pass(&mut self, fence: u64) {
        self.fences.passed = self.fences.passed.max(Some(fence));
        self.note(Kind::Pass, 0, fence);
        let (passed, waiting) =
            std::mem::take(&mut self.fences.waiting).into_iter().partition(|&(at, _)| at <= fence);
        self.fences.waiting = waiting;
        let passed: Vec<(u64, Vec<BlockId>)> = passed;
        for (_, blocks) in passed {
            self.tick += 1;
            for &block in &blocks {
                self.pool.end_wait(block);
            }
            self.drop_owners(0, &blocks);
        }
    }

    /// Blocks that wait for a fence.
    pub fn waiting(&self) -> usize {
        let mut blocks: Vec<BlockId> = self.fences.owners().collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks.len()
    }
}
