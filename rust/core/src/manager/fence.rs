//! Fences: blocks of an ended sequence wait while steps in flight may still write or read them.

use std::collections::BTreeMap;

use super::Manager;
use crate::error::Result;
use crate::events::Kind;
use crate::pool::{BlockId, NIL, State};
use crate::sequence::{SeqId, Sequence};

/// Blocks that become available once a step has passed.
#[derive(Debug, Default)]
pub struct Fences {
    /// Blocks of one table each, by the step and the order they came in.
    waiting: BTreeMap<(u64, u64), Vec<BlockId>>,
    /// Tables that came in so far.
    came: u64,
    /// The last step known to have run.
    passed: Option<u64>,
    /// What sequences give up now waits for this step.
    up: Option<u64>,
}

impl Fences {
    /// Every block that waits, once for each owner it lost.
    pub fn owners(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.waiting.values().flatten().copied()
    }

    /// What waits: (the step, blocks of one table), in the order they came in.
    pub fn waiting(&self) -> Vec<(u64, Vec<BlockId>)> {
        let mut waiting: Vec<_> = self.waiting.iter().collect();
        waiting.sort_unstable_by_key(|&(&(_, came), _)| came);
        waiting.into_iter().map(|(&(fence, _), blocks)| (fence, blocks.clone())).collect()
    }

    fn add(&mut self, fence: u64, blocks: Vec<BlockId>) {
        self.came += 1;
        self.waiting.insert((fence, self.came), blocks);
    }

    /// Takes out what waits for steps up to `fence`, in the order it came in.
    fn take_passed(&mut self, fence: u64) -> Vec<Vec<BlockId>> {
        let mut passed = Vec::new();
        // Not `split_off`, which counts what is left.
        while let Some(first) = self.waiting.first_entry().filter(|it| it.key().0 <= fence) {
            let ((_, came), blocks) = first.remove_entry();
            passed.push((came, blocks));
        }
        passed.sort_unstable_by_key(|&(came, _)| came);
        passed.into_iter().map(|(_, blocks)| blocks).collect()
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
    /// findable blocks stay findable, and no other sequence writes into them. They are released at
    /// once if the fence has passed.
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

    /// Ends `seq` as `abort` does, behind `fence` as `release_behind` does.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn abort_behind(&mut self, seq: SeqId, fence: u64) -> Result<()> {
        self.sequences.get(seq)?;
        self.fence_up(Some(fence));
        let outcome = self.abort(seq);
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
            self.store.note(Kind::Fence, 0, fence);
        }
    }

    pub(super) fn note_fence_down(&mut self) {
        if self.fences.is_up() {
            self.store.note_two(Kind::Fence, 0, u64::MAX, 1);
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
        if self.must_follow(&table[keep..]) {
            blocks.extend(table[..keep].iter().copied().filter(|&b| b != NIL));
            self.hold_behind(&blocks);
        }
        blocks.extend(table[keep..].iter().copied().filter(|&b| b != NIL));
        self.wait_for(fence, blocks);
    }

    /// The entries of a table at `places`, in their order, wait for the fence that is up.
    pub(super) fn put_places_behind(&mut self, table: &[BlockId], places: &[usize]) {
        let (Some(fence), Some(&last)) = (self.fences.up, places.last()) else { return };
        let gone: Vec<BlockId> = places.iter().map(|&i| table[i]).collect();
        if !self.must_follow(&gone) {
            return self.wait_for(fence, gone);
        }
        let stays = |&(i, &b): &(usize, &BlockId)| b != NIL && places.binary_search(&i).is_err();
        let front = table[..last].iter().enumerate().filter(stays);
        let front: Vec<BlockId> = front.map(|(_, &block)| block).collect();
        self.hold_behind(&front);
        // In the order of the table, from whose end they are dropped.
        let blocks = table[..=last].iter().copied().filter(|&b| b != NIL).collect();
        self.wait_for(fence, blocks);
    }

    /// Whether one of `blocks` is findable, or another owner may make it so: then it keeps those it
    /// follows owned.
    fn must_follow(&self, blocks: &[BlockId]) -> bool {
        let findable = |b: BlockId| {
            self.store.pool.state(b) == State::Committed || self.store.pool.refs(b) > 1
        };
        blocks.iter().any(|&b| b != NIL && findable(b))
    }

    /// An owner more for each of `blocks`, which waits with those that follow them.
    fn hold_behind(&mut self, blocks: &[BlockId]) {
        for &block in blocks {
            self.store.pool.share(block);
        }
        self.store.note_blocks(Kind::Hold, 0, blocks.iter(), 0);
    }

    fn wait_for(&mut self, fence: u64, blocks: Vec<BlockId>) {
        for &block in &blocks {
            self.store.pool.wait(block);
        }
        self.store.note_blocks(Kind::Wait, 0, blocks.iter(), fence);
        self.fences.add(fence, blocks);
    }

    /// Every step up to `fence` has run: what waited for them is dropped, in the order it came.
    pub fn pass(&mut self, fence: u64) {
        self.fences.passed = self.fences.passed.max(Some(fence));
        self.store.note(Kind::Pass, 0, fence);
        for blocks in self.fences.take_passed(fence) {
            self.store.tick();
            for &block in &blocks {
                self.store.pool.end_wait(block);
            }
            self.store.drop_owners(0, &blocks);
        }
    }

    /// Blocks that wait for a fence.
    pub fn waiting(&self) -> usize {
        self.store.pool.waiting() as usize
    }
}
