//! Handles attached to exact prefixes, for last logits, hidden states and the like.

use std::collections::{HashMap, VecDeque};

use crate::hash::Key;

/// A handle on a prefix that goes on after a block's end by `tail`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    link: Key,
    tail: Vec<u32>,
    handle: u64,
}

/// Handles by the key of the last full block of their prefix, or by its root where there is none.
#[derive(Debug, Default)]
pub struct Attachments {
    items: HashMap<Key, Vec<Item>>,
    /// Prefixes without a full block, which no block keeps; the oldest first.
    below: VecDeque<(Key, Key, Vec<u32>)>,
    detached: Vec<u64>,
}

impl Attachments {
    /// Whether nothing is attached.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether anything is attached behind the block of this key.
    pub fn has(&self, key: Key) -> bool {
        self.items.contains_key(&key)
    }

    /// What is attached to exactly this prefix.
    pub fn get(&self, key: Key, link: Key, tail: &[u32]) -> Option<u64> {
        let item = self.items.get(&key)?.iter().find(|i| i.link == link && i.tail == tail)?;
        Some(item.handle)
    }

    /// Attaches `handle` to this prefix; returns the one it replaces.
    pub fn put(&mut self, key: Key, link: Key, tail: &[u32], handle: u64) -> Option<u64> {
        let items = self.items.entry(key).or_default();
        if let Some(item) = items.iter_mut().find(|i| i.link == link && i.tail == tail) {
            return Some(std::mem::replace(&mut item.handle, handle));
        }
        items.push(Item { link, tail: tail.to_vec(), handle });
        None
    }

    /// Notes that this prefix, which was attached to just now, has no full block. At most `most` such
    /// prefixes are kept.
    pub fn note_below(&mut self, root: Key, link: Key, tail: Vec<u32>, most: usize) {
        self.below.push_back((root, link, tail));
        while self.below.len() > most {
            self.drop_oldest_below();
        }
    }

    fn drop_oldest_below(&mut self) {
        let Some((root, link, tail)) = self.below.pop_front() else { return };
        let Some(items) = self.items.get_mut(&root) else { return };
        if let Some(at) = items.iter().position(|i| i.link == link && i.tail == tail) {
            self.detached.push(items.swap_remove(at).handle);
        }
        if items.is_empty() {
            self.items.remove(&root);
        }
    }

    /// Drops every handle on a prefix without a full block.
    pub fn drop_below(&mut self) {
        while !self.below.is_empty() {
            self.drop_oldest_below();
        }
    }

    /// The last block of this key is no longer findable.
    pub fn drop_key(&mut self, key: Key) {
        let items = self.items.remove(&key).unwrap_or_default();
        self.detached.extend(items.into_iter().map(|item| item.handle));
    }

    /// Handles whose prefix is gone, since the last call.
    pub fn take_detached(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.detached)
    }
}
