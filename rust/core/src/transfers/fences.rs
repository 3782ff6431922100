//! Fences: blocks of an ended sequence wait while steps in flight may still write or read them.

use std::collections::BTreeMap;

use crate::events::Kind;
use crate::pool::{BlockId, NIL, State};
use crate::store::Store;

/// Blocks that become available once a step has passed.
#[derive(Debug, Default)]
pub(crate) struct Fences {
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
    pub(crate) fn owners(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.waiting.values().flatten().copied()
    }

    /// What waits: (the step, blocks of one table), in the order they came in.
    pub(crate) fn waiting(&self) -> Vec<(u64, Vec<BlockId>)> {
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
        // Not `split_off`, which would count the entries that are left.
        while let Some(first) = self.waiting.first_entry().filter(|it| it.key().0 <= fence) {
            let ((_, came), blocks) = first.remove_entry();
            passed.push((came, blocks));
        }
        passed.sort_unstable_by_key(|&(came, _)| came);
        passed.into_iter().map(|(_, blocks)| blocks).collect()
    }

    /// The last step known to have run.
    pub(crate) fn passed(&self) -> Option<u64> {
        self.passed
    }

    /// From now on, what sequences give up waits until `fence` has passed, if it has not.
    pub(crate) fn put_up(&mut self, fence: Option<u64>) {
        self.up = fence.filter(|&fence| self.passed < Some(fence));
    }

    /// What sequences give up is dropped at once again.
    pub(crate) fn take_down(&mut self) {
        self.up = None;
    }

    /// Whether what sequences give up waits.
    pub(crate) fn is_up(&self) -> bool {
        self.up.is_some()
    }

    /// Logs that a fence is up, if one is.
    pub(crate) fn note_up(&self, store: &mut Store) {
        if let Some(fence) = self.up {
            store.note(Kind::Fence, 0, fence);
        }
    }

    /// Logs that the fence is about to come down, if one is up.
    pub(crate) fn note_down(&self, store: &mut Store) {
        if self.is_up() {
            store.note_two(Kind::Fence, 0, u64::MAX, 1);
        }
    }

    /// The end of a table from `keep` on waits for the fence that is up.
    pub(super) fn put_behind(&mut self, store: &mut Store, table: &[BlockId], keep: usize) {
        let Some(fence) = self.up.filter(|_| keep < table.len()) else { return };
        let mut blocks = Vec::with_capacity(table.len() - keep);
        if must_follow(store, &table[keep..]) {
            blocks.extend(table[..keep].iter().copied().filter(|&b| b != NIL));
            store.hold(0, &blocks);
        }
        blocks.extend(table[keep..].iter().copied().filter(|&b| b != NIL));
        self.wait_for(store, fence, blocks);
    }

    /// The entries of a table at `places`, in their order, wait for the fence that is up.
    pub(super) fn put_places_behind(
        &mut self,
        store: &mut Store,
        table: &[BlockId],
        places: &[usize],
    ) {
        let (Some(fence), Some(&last)) = (self.up, places.last()) else { return };
        let gone: Vec<BlockId> = places.iter().map(|&i| table[i]).collect();
        if !must_follow(store, &gone) {
            return self.wait_for(store, fence, gone);
        }
        let stays = |&(i, &b): &(usize, &BlockId)| b != NIL && places.binary_search(&i).is_err();
        let front = table[..last].iter().enumerate().filter(stays);
        let front: Vec<BlockId> = front.map(|(_, &block)| block).collect();
        store.hold(0, &front);
        // In the order of the table, from whose end they are dropped.
        let blocks = table[..=last].iter().copied().filter(|&b| b != NIL).collect();
        self.wait_for(store, fence, blocks);
    }

    fn wait_for(&mut self, store: &mut Store, fence: u64, blocks: Vec<BlockId>) {
        store.wait(fence, &blocks);
        self.add(fence, blocks);
    }

    /// Every step up to `fence` has run: what waited for them is dropped, in the order it came.
    pub(super) fn pass(&mut self, store: &mut Store, fence: u64) {
        self.passed = self.passed.max(Some(fence));
        store.note(Kind::Pass, 0, fence);
        for blocks in self.take_passed(fence) {
            store.tick();
            store.end_wait(&blocks);
        }
    }
}

/// Whether one of `blocks` is findable, or another owner may make it so. Such a block keeps the blocks that
/// it follows owned.
fn must_follow(store: &Store, blocks: &[BlockId]) -> bool {
    let findable =
        |b: BlockId| store.pool().state(b) == State::Committed || store.pool().refs(b) > 1;
    blocks.iter().any(|&b| b != NIL && findable(b))
}
