//! Remembers keys that left the cache lately and prompts seen lately. They explain why a lookup missed.
//!
//! Both tables are direct-mapped: a fixed size, one load or store a question, no allocation. A newer
//! entry displaces an older one in its slot, so what they say is "lately", never "ever".

use crate::hash::Key;

/// How a block left the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It made room.
    Evicted,
    /// It was forgotten: a reset, a pool that shrank.
    Cleared,
}

#[derive(Debug, Clone, Copy, Default)]
struct Ghost {
    print: u64,
    /// The tick, doubled, plus 1 if it was cleared; 0 in an empty slot.
    when: u64,
}

/// A 64-bit fingerprint of a key. Two keys that differ in only one of their two words never share it.
fn print(key: Key) -> u64 {
    let upper = (key.0 >> 64) as u64;
    upper.wrapping_add((key.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Keys that left, 16 bytes a slot.
#[derive(Debug, Default)]
pub struct RecentKeys {
    slots: Vec<Ghost>,
}

impl RecentKeys {
    /// Room for about `most` keys, in twice as many slots; none are kept if it is 0.
    pub fn new(most: u32) -> Self {
        let size = if most == 0 { 0 } else { (2 * most as usize).next_power_of_two() };
        Self { slots: vec![Ghost::default(); size] }
    }

    fn slot(&self, key: Key) -> usize {
        key.mixed() as usize & self.slots.len().wrapping_sub(1)
    }

    /// `key` left at `tick`.
    #[inline]
    pub fn note(&mut self, key: Key, gone: Removal, tick: u64) {
        let at = self.slot(key);
        if let Some(slot) = self.slots.get_mut(at) {
            let when = tick << 1 | u64::from(gone == Removal::Cleared);
            *slot = Ghost { print: print(key), when };
        }
    }

    /// How and when `key` left, if that is still known.
    pub fn recall(&self, key: Key) -> Option<(Removal, u64)> {
        let ghost = self.slots.get(self.slot(key)).filter(|g| g.when > 0)?;
        let gone = if ghost.when & 1 == 1 { Removal::Cleared } else { Removal::Evicted };
        (ghost.print == print(key)).then_some((gone, ghost.when >> 1))
    }
}

/// The number of leading tokens by which a prompt is recognised.
const HEAD: usize = 64;
/// Prompts remembered, 16 bytes each.
const PROMPTS: usize = 1 << 12;

/// The namespaces (roots) under which prompts were seen.
#[derive(Debug, Default)]
pub struct Spaces {
    /// A digest of the first tokens, and of the root they were asked for under.
    slots: Vec<(u64, u64)>,
}

impl Spaces {
    /// An empty table; of no size unless `on`.
    pub fn new(on: bool) -> Self {
        Self { slots: vec![(0, 0); if on { PROMPTS } else { 0 }] }
    }

    /// Whether a prompt that starts like `block` was last seen under another root; from now on it
    /// was seen under `root`.
    pub fn moved(&mut self, block: &[u32], root: Key) -> bool {
        if self.slots.is_empty() || block.is_empty() {
            return false;
        }
        // The digest is only a hint for statistics, neither secret nor an identity, so a fast mix is enough.
        let mix = |h: u64, &t: &u32| {
            (h ^ u64::from(t)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        };
        let digest = block.iter().take(HEAD).fold(block.len() as u64, mix);
        let slot = &mut self.slots[(digest >> 40) as usize % PROMPTS];
        let (before, under) = std::mem::replace(slot, (digest, root.mixed()));
        before == digest && under != root.mixed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_recalled_with_how_and_when_it_left() {
        let mut ghosts = RecentKeys::new(5);
        let (a, b) = (Key(7 << 64 | 1), Key(8 << 64 | 1));
        assert_eq!(ghosts.recall(a), None);
        ghosts.note(a, Removal::Evicted, 3);
        ghosts.note(b, Removal::Cleared, 9);
        assert_eq!(ghosts.recall(b), Some((Removal::Cleared, 9)));
        assert_eq!(ghosts.slots.len(), 16);
    }

    #[test]
    fn without_room_nothing_is_recalled() {
        let mut ghosts = RecentKeys::new(0);
        ghosts.note(Key(1), Removal::Evicted, 1);
        assert_eq!(ghosts.recall(Key(1)), None);
    }

    #[test]
    fn a_prompt_is_remembered_with_its_space() {
        let mut spaces = Spaces::new(true);
        assert!(!spaces.moved(&[1, 2], Key(1)));
        assert!(!spaces.moved(&[1, 2], Key(1)));
        assert!(spaces.moved(&[1, 2], Key(2)));
        assert!(!spaces.moved(&[1, 3], Key(1)));
        assert!(!Spaces::new(false).moved(&[1, 2], Key(1)));
    }
}
