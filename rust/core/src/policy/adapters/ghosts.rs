//! Keys of blocks that are gone, remembered for a while in the order they went.

use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;

use crate::hash::Key;

/// A key's own mix of its two words.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, &byte| sum.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = Key(key).mixed();
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map by key.
pub(crate) type ByKey<T> = HashMap<Key, T, BuildHasherDefault<KeyHasher>>;

/// A bounded memory of keys. Finding, adding and forgetting are O(1).
#[derive(Debug, Clone)]
pub(crate) struct Ghosts<T> {
    /// What is remembered of a key, and under which number it stands in `queue`.
    known: ByKey<(u64, T)>,
    /// Oldest first; an entry whose number is not that of its key means nothing any more.
    queue: VecDeque<(u64, Key)>,
    count: u64,
}

impl<T> Default for Ghosts<T> {
    fn default() -> Self {
        Self { known: ByKey::default(), queue: VecDeque::new(), count: 0 }
    }
}

impl<T> Ghosts<T> {
    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn get(&self, key: Key) -> Option<&T> {
        self.known.get(&key).map(|(_, value)| value)
    }

    /// Remembers `key` as the youngest.
    pub fn add(&mut self, key: Key, value: T) {
        self.count += 1;
        self.known.insert(key, (self.count, value));
        self.queue.push_back((self.count, key));
        if self.queue.len() > 2 * self.known.len() + 16 {
            let known = &self.known;
            self.queue.retain(|(number, key)| known.get(key).is_some_and(|(n, _)| n == number));
        }
    }

    pub fn forget(&mut self, key: Key) -> Option<T> {
        self.known.remove(&key).map(|(_, value)| value)
    }

    /// Forgets the oldest beyond `capacity`.
    pub fn trim(&mut self, capacity: usize) {
        while self.known.len() > capacity {
            let Some((number, key)) = self.queue.pop_front() else { return };
            if self.known.get(&key).is_some_and(|(n, _)| *n == number) {
                self.known.remove(&key);
            }
        }
    }
}

/// Ghosts, some of which an allocation has just asked for. Those no longer count towards the capacity, and
/// wait until their block is computed.
#[derive(Debug, Clone)]
pub(crate) struct Memory<T> {
    ghosts: Ghosts<T>,
    called: Ghosts<T>,
}

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self { ghosts: Ghosts::default(), called: Ghosts::default() }
    }
}

impl<T: Copy> Memory<T> {
    /// Without those that were called.
    pub fn len(&self) -> usize {
        self.ghosts.len()
    }

    /// See [`Ghosts::add`].
    pub fn add(&mut self, key: Key, value: T) {
        self.ghosts.add(key, value);
    }

    /// An allocation asks for `key`.
    pub fn call(&mut self, key: Key) -> Option<T> {
        let value = self.ghosts.forget(key)?;
        self.called.add(key, value);
        Some(value)
    }

    /// The block of `key` is there. Whether it was called, and what was known of it.
    pub fn forget(&mut self, key: Key) -> Option<(bool, T)> {
        let called = self.called.forget(key).map(|value| (true, value));
        called.or_else(|| self.ghosts.forget(key).map(|value| (false, value)))
    }

    /// Forgets the oldest beyond `capacity`; no more than `blocks` that were called can be in the making.
    pub fn trim(&mut self, capacity: usize, blocks: u32) {
        self.ghosts.trim(capacity);
        self.called.trim(blocks as usize);
    }
}
