//! A map that keeps the order in which its keys came.

use std::collections::{BTreeMap, HashMap};

use crate::hash::Key;

/// Values by key, in the order in which the keys first came.
#[derive(Debug, Clone)]
pub struct OrderedKeys<V> {
    values: HashMap<Key, (u64, V)>,
    order: BTreeMap<u64, Key>,
    next: u64,
}

impl<V> Default for OrderedKeys<V> {
    fn default() -> Self {
        Self { values: HashMap::new(), order: BTreeMap::new(), next: 0 }
    }
}

impl<V> OrderedKeys<V> {
    /// Keys in the map.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value of a key.
    pub fn get(&self, key: &Key) -> Option<&V> {
        self.values.get(key).map(|(_, value)| value)
    }

    /// Sets the value of a key; one that is there keeps its place, another comes last.
    pub fn set(&mut self, key: Key, value: V) {
        if let Some((_, old)) = self.values.get_mut(&key) {
            *old = value;
            return;
        }
        self.next += 1;
        self.order.insert(self.next, key);
        self.values.insert(key, (self.next, value));
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &Key) -> Option<V> {
        let (place, value) = self.values.remove(key)?;
        self.order.remove(&place);
        Some(value)
    }

    /// Takes the first key out.
    pub fn pop_first(&mut self) -> Option<(Key, V)> {
        let (_, key) = self.order.pop_first()?;
        self.values.remove(&key).map(|(_, value)| (key, value))
    }

    /// The keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.order.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_place_until_it_is_taken_out() {
        let mut map = OrderedKeys::default();
        for (key, value) in [(1, 'a'), (2, 'b'), (3, 'c'), (1, 'd')] {
            map.set(Key(key), value);
        }
        assert_eq!((map.len(), map.get(&Key(1))), (3, Some(&'d')));
        assert_eq!(map.remove(&Key(1)), Some('d'));
        assert_eq!(map.remove(&Key(1)), None);
        map.set(Key(1), 'e');
        assert_eq!(map.keys().collect::<Vec<_>>(), [Key(2), Key(3), Key(1)]);
        assert_eq!(map.pop_first(), Some((Key(2), 'b')));
        assert!(!map.is_empty());
    }
}
