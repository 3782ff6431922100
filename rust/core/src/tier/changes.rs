//! What a tier gained and lost since it was asked last: for readers that mirror it.

use std::collections::VecDeque;

use super::TierPages;
use crate::hash::Key;
use crate::pool::{BlockId, NIL};

/// What a mirror of the tier is told next.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// By page: the mirror has been told that it is here.
    told: Vec<bool>,
    /// Pages that can be read and of which the mirror has not been told, in order.
    fresh: VecDeque<BlockId>,
    /// Pages that left after it was told of them.
    gone: Vec<Key>,
}

impl Changes {
    fn is_told(&self, page: BlockId) -> bool {
        self.told.get(page as usize).copied().unwrap_or(false)
    }
}

/// What a tier gained and lost; what it lost comes first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TierChanges {
    /// Pages that left, each after those that follow it.
    pub gone: Vec<Key>,
    /// Pages that can be read now, each after its parent, whose key comes with it.
    pub came: Vec<(Key, Option<Key>)>,
}

impl TierPages {
    /// Changes are noted from now on; the first of them are all the pages that can be read now.
    pub fn watch(&mut self) {
        let mut pages: Vec<BlockId> =
            self.stored_pages().into_iter().map(|(_, page)| page).collect();
        pages.sort_by_key(|&page| self.tier.pool().depth(page));
        self.changes = Some(Box::new(Changes { fresh: pages.into(), ..Changes::default() }));
    }

    /// The changes since the last call; none if the tier is not watched.
    ///
    /// A page whose parent is still on its way waits for it: a reader could not place it.
    pub fn take_changes(&mut self) -> TierChanges {
        let Some(mut changes) = self.changes.take() else {
            return TierChanges::default();
        };
        let mut came = Vec::new();
        loop {
            let before = came.len();
            for _ in 0..changes.fresh.len() {
                if let Some(page) = changes.fresh.pop_front() {
                    self.tell(page, &mut changes, &mut came);
                }
            }
            // A parent that was behind its child in the queue has been told by now.
            if came.len() == before {
                break;
            }
        }
        let gone = std::mem::take(&mut changes.gone);
        self.changes = Some(changes);
        TierChanges { gone, came }
    }

    fn tell(&self, page: BlockId, changes: &mut Changes, came: &mut Vec<(Key, Option<Key>)>) {
        let pool = self.tier.pool();
        // It may have left since, and another page may be on its way to its place.
        if !pool.is_findable(page) || !self.stored[page as usize] || changes.is_told(page) {
            return;
        }
        let parent = pool.parent(page);
        if parent != NIL && !changes.is_told(parent) {
            changes.fresh.push_back(page);
            return;
        }
        if changes.told.len() <= page as usize {
            changes.told.resize(page as usize + 1, false);
        }
        changes.told[page as usize] = true;
        came.push((pool.key(page), Some(parent).filter(|&p| p != NIL).map(|p| pool.key(p))));
    }

    /// `page` can be read from now on.
    pub(super) fn note_stored(&mut self, page: BlockId) {
        if let Some(changes) = &mut self.changes {
            changes.fresh.push_back(page);
        }
    }

    /// `page`, of `key`, leaves.
    pub(super) fn note_left(&mut self, page: BlockId, key: Key) {
        if let Some(changes) = &mut self.changes
            && let Some(told) = changes.told.get_mut(page as usize)
            && std::mem::take(told)
        {
            changes.gone.push(key);
        }
    }
}
