//! Handles attached to exact prefixes, for last logits, hidden states and the like.

use std::collections::HashMap;

use crate::hash::Key;

/// A handle on a prefix that goes on after a block's end by `tail`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    link: Key,
    tail: Vec<u32>,
    handle: u64,
}

/// Handles by the key of the last full block of their prefix.
#[derive(Debug, Default)]
pub struct Attached {
    items: HashMap<Key, Vec<Item>>,
    dropped: Vec<u64>,
}

impl Attached {
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

    /// The last block of this key is no longer findable.
    pub fn drop_key(&mut self, key: Key) {
        let items = self.items.remove(&key).unwrap_or_default();
        self.dropped.extend(items.into_iter().map(|item| item.handle));
    }

    /// Handles whose prefix is gone, since the last call.
    pub fn take_dropped(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.dropped)
    }
}
